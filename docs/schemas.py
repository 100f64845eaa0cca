"""Writes the published schemas of JSON documents from their types in `samebits.report.documents`.

python docs/schemas.py
"""

import ast
import importlib
import inspect
import json
import pkgutil
import re
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import samebits.report.documents
from samebits.report.documents import CLOSED, DOCUMENTS

FOLDER = Path(__file__).resolve().parent / "reference" / "schemas"
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def main() -> None:
    """Write every schema."""
    for name, text in schemas().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def schemas() -> dict[str, str]:
    """File name → text, for every document there is."""
    return {f"{_title(document).replace('/', '-')}.json": _text(document) for document in DOCUMENTS.values()}


def _title(document: type) -> str:
    """`check/1`, from the one value that the key `schema` may have."""
    return str(get_args(get_type_hints(document)["schema"])[0]).removeprefix("samebits.")


def _text(document: type) -> str:
    definitions: dict[str, Any] = {}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"samebits.{_title(document)}",
        **_object(document, definitions),
    }
    if definitions:
        schema["$defs"] = {name: definitions[name] for name in sorted(definitions)}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _object(document: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a TypedDict; those that it refers to are added to `definitions`."""
    said = _descriptions(document)
    properties = {
        name: _described(_schema(kind, definitions), said.get(name)) for name, kind in get_type_hints(document).items()
    }
    unknown = said.keys() - properties.keys()
    if unknown:
        raise ValueError(f"{document.__name__} describes {sorted(unknown)}, which it does not have")
    required = [name for name in properties if name in document.__required_keys__]  # type: ignore[attr-defined]
    found = {"description": _summary(document), "type": "object", "properties": properties, "required": required}
    return {**found, "additionalProperties": False} if document in CLOSED else found


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is object:
        return {}
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if is_typeddict(kind):
        name = kind.__name__.removesuffix("Document")
        if name not in definitions:
            definitions[name] = {}  # a document may hold others of its own kind
            definitions[name] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{name}"}
    if origin is Literal:
        return {"const": inner[0]} if len(inner) == 1 else {"enum": list(inner)}
    if origin is list:
        return {"type": "array", "items": _schema(inner[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(inner[1], definitions)}
    if origin is tuple:
        items = [_schema(one, definitions) for one in inner]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(one, definitions) for one in inner]}
    raise TypeError(f"no schema can be made of {kind}")


def _described(schema: dict[str, Any], text: str | None) -> dict[str, Any]:
    return schema if text is None else {**schema, "description": text}


def _summary(document: type) -> str:
    return " ".join((document.__doc__ or "").partition("\n\n")[0].split())


def _descriptions(document: type) -> dict[str, str]:
    """What the "Attributes:" sections of a type and of those that it extends say of each key."""
    found: dict[str, str] = {}
    for base in BASES.get(document.__name__, ()):
        found |= _descriptions(_type(base))
    _, _, section = inspect.cleandoc(document.__doc__ or "").partition("\nAttributes:\n")
    for name, text in re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE):
        found[name] = " ".join(text.split())
    return found


def _bases() -> dict[str, list[str]]:
    """Type → those that it extends. A TypedDict forgets them, so they are read in the code."""
    trees = (ast.parse(inspect.getsource(module)) for module in MODULES)
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    names = {node.name for node in classes}
    found = {node.name: [base.id for base in node.bases if isinstance(base, ast.Name)] for node in classes}
    return {name: [base for base in bases if base in names] for name, bases in found.items()}


def _type(name: str) -> type:
    return next(found for module in MODULES if (found := vars(module).get(name)) is not None)


ROOM = samebits.report.documents
MODULES = [importlib.import_module(f"{ROOM.__name__}.{found.name}") for found in pkgutil.iter_modules(ROOM.__path__)]
BASES = _bases()


if __name__ == "__main__":
    main()
