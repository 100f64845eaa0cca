"""The TOML of a lockfile: what was written is what any reader of TOML finds, and one content is one text."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.base.errors import UsageError
from samebits.launch.config import toml_reader
from samebits.locking.toml import toml_text

texts = st.text(st.characters(exclude_categories=["Cs"]))
plain = st.one_of(texts, st.integers(), st.booleans())
inline = st.one_of(plain, st.lists(plain), st.dictionaries(texts, plain))
tables = st.dictionaries(texts, st.one_of(plain, st.lists(inline)))
data = st.one_of(tables, st.dictionaries(texts, st.dictionaries(texts, st.one_of(plain, tables))))


def without_empty(content: dict[str, Any]) -> dict[str, Any]:
    """Without the keys of tables of which there is nothing to write."""
    known = {name: without_empty(one) if isinstance(one, dict) else one for name, one in content.items()}
    return {name: one for name, one in known.items() if one not in ("", [], {})}


@settings(deadline=None, max_examples=50)
@given(data)
def test_what_is_written_is_read(content: dict[str, Any]) -> None:
    """Any text, number, list and table, under any name; the order in which keys were added does not show."""
    text = toml_text(content)

    assert toml_reader().loads(text) == without_empty(content)
    assert toml_text(dict(reversed(content.items()))) == text
    assert "\r" not in text


def test_half_a_character_is_refused() -> None:
    """As in a file's name that is not UTF-8; its neighbours are texts like any other."""
    assert toml_reader().loads(toml_text({"a": "\ud7ff\ue000"}))["a"] == "\ud7ff\ue000"
    with pytest.raises(UsageError, match="is not a character"):
        toml_text({"a": "\udc80"})
