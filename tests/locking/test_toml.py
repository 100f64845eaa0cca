"""The TOML of a lockfile: what was written is what any reader of TOML finds, and one content is one text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.base.errors import UsageError
from samebits.launch.config import toml_reader
from samebits.locking.entries import block

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.one_of(texts, st.integers(-(2**63), 2**63 - 1), st.lists(texts))
tables = st.dictionaries(texts, values)


@given(tables, st.lists(texts, min_size=1, max_size=3))
def test_what_is_written_is_read(table: dict, path: list[str]) -> None:
    """Any text, number and list, under any name: Python's own reader gives back what was written."""
    found = toml_reader().loads(block(path, table))
    for name in path:
        found = found[name]

    assert found == table


@given(tables)
def test_one_content_is_one_text(table: dict) -> None:
    """The order in which keys were added does not show, and no line of one table is empty."""
    text = block((), dict(reversed(table.items())))

    assert text == block((), table)
    assert "\n\n" not in text
    assert "\r" not in text


def test_what_toml_has_no_words_for_is_refused() -> None:
    """Half a character, as in a file's name that is no UTF-8, and a number of 65 bits; beside them their neighbours."""
    assert toml_reader().loads(block((), {"a": "\ud7ff\ue000", "b": 2**63 - 1}))["b"] == 2**63 - 1
    with pytest.raises(UsageError, match="is no character"):
        block((), {"a": "\udc80"})
    with pytest.raises(UsageError, match="does not fit into the 64 bits"):
        block((), {"b": 2**63})
