"""Writes the published schemas of JSON documents from the records in `samebits.report.answers`.

python docs/schemas.py
"""

import inspect
import json
import re
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from samebits.base.errors import SamebitsError
from samebits.base.records import keys
from samebits.base.sites import Site
from samebits.report.answers import ANSWERS, find_answer

FOLDER = Path(__file__).resolve().parent / "reference" / "schemas"
PLAIN = {str: "string", Path: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
# What is no dataclass, or writes itself.
OWN = {
    Site: {"path": str, "line": int, "function": str, "source": str},
    SamebitsError: {"kind": str, "message": str, "hint": str, "exit_code": int},
}
HEADLINE = {"type": "string", "description": "the answer in one sentence"}
ROWS = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
    "description": "what people read, as label and text; a row without a label continues the one above",
}


def main() -> None:
    """Write every schema."""
    for name, text in schemas().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def schemas() -> dict[str, str]:
    """File name → text, for every answer there is."""
    return {f"{kind}-1.json": _text(kind, find_answer(kind).record) for kind in ANSWERS}


def _text(kind: str, record: type) -> str:
    definitions: dict[str, Any] = {}
    own = _object(record, definitions)
    error = {"anyOf": [_schema(SamebitsError, definitions), {"type": "null"}], "description": "why nothing was decided"}
    head = {"schema": {"const": f"samebits.{kind}/1"}, "headline": HEADLINE}
    properties = {**head, **own["properties"], "rows": ROWS, "error": {**error, **own["properties"].get("error", {})}}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"samebits.{kind}/1",
        **{**own, "properties": properties, "required": [*properties]},
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _object(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a record; those that it refers to are added to `definitions`."""
    known = {key: (key, of) for key, of in OWN[kind].items()} if kind in OWN else keys(kind)
    said = _descriptions(kind, {name for name, _ in known.values()})
    properties = {
        key: {**_schema(hint, definitions), **({"description": said[name]} if name in said else {})}
        for key, (name, hint) in known.items()
    }
    described = {"description": " ".join((kind.__doc__ or "").partition("\n\n")[0].split())}
    return {**described, "type": "object", "properties": properties, "required": [*properties]}


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if kind in OWN or is_dataclass(kind):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # a record may hold others of its own kind
            definitions[kind.__name__] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if origin is Literal:
        return {"const": inner[0]} if len(inner) == 1 else {"enum": list(inner)}
    if origin is tuple and inner[-1] is not ...:
        items = [_schema(one, definitions) for one in inner]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if origin in (tuple, frozenset):
        return {"type": "array", "items": _schema(inner[0], definitions)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(one, definitions) for one in inner]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(inner[1], definitions)}
    raise TypeError(f"no schema can be made of {kind}")


def _descriptions(record: type, known: set[str]) -> dict[str, str]:
    """What the "Attributes:" section of a record says of each field, and the docstrings of its properties."""
    _, _, section = inspect.cleandoc(record.__doc__ or "").partition("\nAttributes:\n")
    found = {}
    for names, text in re.findall(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", section, re.MULTILINE):
        found.update(dict.fromkeys(names.split(", "), " ".join(text.split()).removesuffix(".")))
    unknown = found.keys() - known
    if unknown and record not in OWN:
        raise ValueError(f"{record.__name__} describes {sorted(unknown)}, which it does not have")
    for name in known:
        own = getattr(record, name, None)
        if isinstance(own, property):
            found[name] = " ".join((own.__doc__ or "").split()).removesuffix(".")
    return found


if __name__ == "__main__":
    main()
