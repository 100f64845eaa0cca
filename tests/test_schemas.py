"""The published schemas are what the records of answers say."""

from pathlib import Path

import pytest

from samebits.checking.verdict import RestsOn
from tests.test_docs import ROOT, generator

FOLDER = ROOT / "docs" / "reference" / "schemas"


def test_the_schemas_are_up_to_date(tmp_path: Path) -> None:
    """`python docs/schemas.py` would change nothing, and no schema is left without an answer."""
    written = generator("schemas").schemas()

    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == written


def test_a_description_without_a_key_is_refused() -> None:
    """What is said of a key that was renamed would vanish from the schema without a word."""
    module = generator("schemas")
    said, RestsOn.__doc__ = RestsOn.__doc__, "Runs.\n\nAttributes:\n    reason: why"
    try:
        with pytest.raises(ValueError, match=r"RestsOn describes \['reason'\], which it does not have"):
            module.schemas()
    finally:
        RestsOn.__doc__ = said
