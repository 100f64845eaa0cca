"""What patches are made for: the planted faults, and six faults in a long script, in the styles of six people."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.quality.twins import replaced

FOLDER = Path(__file__).parent
LONG = FOLDER / "long"


class Long(NamedTuple):
    """A fault in the long script, and how the file is written.

    Attributes:
        factors: to blame.
        changes: what stands in the sound script → what stands in the faulty one.
        styled: the bytes of the file, of its text.
        lines: that a patch may change.
    """

    factors: frozenset[str]
    changes: dict[str, str]
    styled: Callable[[str], bytes]
    lines: int

    @property
    def content(self) -> bytes:
        """The faulty script."""
        return self.styled(replaced((LONG / "train.py").read_text(encoding="utf-8"), self.changes))


def _crlf(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


def _marked(text: str) -> bytes:
    return text.encode("utf-8-sig")


def _latin(text: str) -> bytes:
    return text.replace('"""Sentiment', '# -*- coding: latin-1 -*-\n"""Gefühl: sentiment').encode("latin-1")


def _unended(text: str) -> bytes:
    return text.rstrip("\n").encode()


def _tabbed(text: str) -> bytes:
    return text.replace("    ", "\t").encode()


LONGS = {
    "a seed option that nothing reads": Long(
        frozenset({"torch-rng"}),
        {
            "    set_seed(args.seed)\n": "",
            "default_rng(args.seed)": "default_rng(5)",
            "drop=0.2": "drop=0.0",
        },
        _crlf,
        1,
    ),
    "a library that was forgotten": Long(frozenset({"python-rng"}), {"    random.seed(seed)\n": ""}, _marked, 1),
    "a listing": Long(frozenset({"file-order"}), {'sorted(folder.glob("*.json"))': 'folder.glob("*.json")'}, _latin, 1),
    "a set": Long(frozenset({"hash-seed"}), {"*sorted(words)": "*words"}, _unended, 1),
    "a seed that comes too late": Long(
        frozenset({"torch-rng"}),
        {
            "    set_seed(args.seed)\n": "",
            "    trainer = Trainer(": "    set_seed(args.seed)\n    trainer = Trainer(",
        },
        _tabbed,
        2,
    ),
    "two at once": Long(
        frozenset({"os-entropy", "hash-seed"}),
        {
            "default_rng(args.seed)": "default_rng()",
            "int(hashlib.md5(text.encode()).hexdigest(), 16)": "hash(text)",
        },
        str.encode,
        3,
    ),
}
