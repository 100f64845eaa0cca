"""The published schemas, for holding output against them."""

import json
from pathlib import Path
from typing import Any

import jsonschema

FOLDER = Path(__file__).parents[1] / "docs" / "reference" / "schemas"


def assert_valid(document: dict[str, Any]) -> None:
    """The document is what its own `schema` key promises."""
    name = document["schema"].removeprefix("samebits.").replace("/", "-")
    jsonschema.validate(document, json.loads((FOLDER / f"{name}.json").read_text()))
