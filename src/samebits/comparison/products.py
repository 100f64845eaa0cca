"""Compares what two runs made, leaf by leaf: the files they wrote or, where neither wrote any, what they printed."""

from __future__ import annotations

import os
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from samebits.comparison.contents import Content, Rewrite, content_of, is_digest, text_content

PRINTED = "what it printed"
_WORD = re.compile(r"[^\s,;|()\[\]{}=]+")
_PART = re.compile(r"[^0-9A-Za-z]+")
_UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-fA-F]{6,}")
_BASE64 = re.compile(r"[-\w]{8,}={0,2}", re.ASCII)
# File and leaf; files that have another name in each run are called `*` here, or `*1`, `*2` where there are several.
Key = tuple[str, str]


@dataclass(frozen=True)
class Products:
    """The files and the output of one run.

    Attributes:
        files: path → its leaves.
        printed: the leaves of its output.
        is_cut: the run was ended before its end, so a text may lack its last lines.
        ids: its process ids, and the first bytes, in hexadecimal, of random data that the operating system gave it.
            Leaves in which each run quotes its own ids count as equal.
    """

    files: Mapping[str, Content] = field(default_factory=dict)
    printed: Content = field(default_factory=dict)
    is_cut: bool = False
    ids: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LeafDifference:
    """A leaf that differs between two runs.

    Attributes:
        key: its file and its name.
        path: the file in the first run, or in the second where only that has it; empty for what was printed.
        a, b: its value in each run; None where a run lacks it.
    """

    key: Key
    path: str
    a: str | None
    b: str | None


def read_products(
    files: Mapping[str, Path], printed: Path, said: Rewrite, is_cut: bool, ids: frozenset[str]
) -> Products:
    """Read what a run made: its files, by the names that the user knows, and its output; `said` rewrites texts."""
    contents: dict[str, Content] = {}
    for path, actual in sorted(files.items()):
        if actual.is_file():
            with suppress(OSError):
                contents[path] = content_of(actual, said)
    output: Content = {}
    with suppress(OSError), printed.open(encoding="utf-8", errors="replace", newline="\n") as file:
        output = text_content(file, said)
    return Products(contents, output, is_cut, ids)


def differing_leaves(a: Products, b: Products) -> list[LeafDifference]:
    """Return the leaves that differ in more than ids, in the order of files and leaves."""
    return [leaf for leaf in _apart(a, b) if not _are_ids(leaf.a, a.ids, leaf.b, b.ids)]


def differing_beyond_ids(heard: Products, other: Products) -> frozenset[Key]:
    """Return the leaves that differ in more than ids of the first run; the ids of the other run may not be known."""
    return frozenset(leaf.key for leaf in _apart(heard, other) if not _differs_by_ids(leaf.a, heard.ids, leaf.b))


def _differs_by_ids(a: str | None, ids: frozenset[str], b: str | None) -> bool:
    if a is None or b is None:
        return False
    # The ids of the other run are not used: they may not have been noted.
    left, right = _parts(a, ids), _parts(b, frozenset())
    return _is_id(a, ids) or (
        len(left) == len(right) and all(x == y or _is_id(x, ids) for x, y in zip(left, right, strict=True))
    )


def _apart(a: Products, b: Products) -> list[LeafDifference]:
    differing, is_cut = [], a.is_cut or b.is_cut
    if not a.files and not b.files:
        differing = [*_in_content(PRINTED, "", a.printed, b.printed, is_cut)]
    for key, left, right in paired(a.files, b.files):
        if left and right:
            differing += _in_content(key, left, a.files[left], b.files[right], is_cut)
        else:
            differing.append(
                LeafDifference((key, ""), left or right, "there" if left else None, "there" if right else None)
            )
    return differing


def _are_ids(a: str | None, ids: frozenset[str], b: str | None, other_ids: frozenset[str]) -> bool:
    """Whether two leaves differ only in ids: wherever they differ, each quotes an id of its own run."""
    if a is None or b is None:
        return False
    left, right = _parts(a, ids), _parts(b, other_ids)
    both = zip_longest(left, right)
    return all(x == y or (x is not None and y is not None and _is_id(x, ids) and _is_id(y, other_ids)) for x, y in both)


def _parts(word: str, ids: frozenset[str]) -> list[str]:
    joined = _UUID.sub(lambda found: found[0].replace("-", ""), word)
    return [word] if _is_id(word, ids) else _PART.split(joined)


def _is_id(word: str, ids: frozenset[str]) -> bool:
    """Whether a word is a process id of the run, or quotes random bytes that the run was given.

    >>> _is_id("3f2a9c1b", frozenset({"3f2a9c"})), _is_id("PyqcGw8x", frozenset({"3f2a9c"}))
    (True, True)
    """
    return word in ids or any(begin in ids for begin in _begins(word))


def _begins(word: str) -> Iterator[str]:
    if _HEX.fullmatch(word):
        yield word[:6].lower()
    # Four characters of base64 are three bytes.
    if _BASE64.fullmatch(word):
        yield urlsafe_b64decode(word[:4]).hex()


def _in_content(key: str, path: str, a: Content, b: Content, is_cut: bool) -> Iterator[LeafDifference]:
    if a == b and [*a] == [*b]:
        return
    names = dict.fromkeys([*a, *b])
    if is_cut and all(name.startswith("line ") for name in names):
        # The last lines may not have been flushed: compare up to the length of the shorter text, without its last line.
        names = dict.fromkeys([*min(a, b, key=len)][:-1])
    for name in names:
        left, right = a.get(name), b.get(name)
        if left is None or right is None:
            yield LeafDifference((key, name), path, left, right)
        elif left != right:
            yield from _words(key, path, name, left, right)


def _words(key: str, path: str, name: str, a: str, b: str) -> Iterator[LeafDifference]:
    """The words of a text that differ; the whole text where words cannot be matched one to one."""
    left, right = _WORD.findall(a), _WORD.findall(b)
    if is_digest(a) or is_digest(b) or len(left) < 2 or len(left) != len(right) or _WORD.sub("", a) != _WORD.sub("", b):
        yield LeafDifference((key, name), path, a, b)
        return
    for number, (x, y) in enumerate(zip(left, right, strict=True), 1):
        if x != y:
            yield LeafDifference((key, f"{name}, word {number}"), path, x, y)


def paired(a: Iterable[str], b: Iterable[str]) -> list[tuple[str, str, str]]:
    """Pair the files of two runs: one name for both, and the path in each run; empty where a run lacks the file.

    Names that only one run has are paired in order with those that only the other has in the same folder, where they
    are equally many: a run may name a folder after the time.

    >>> paired(["/runs/10-31/log"], ["/runs/10-32/log"])
    [('/runs/*/log', '/runs/10-31/log', '/runs/10-32/log')]
    """
    return [*_paired(None, _tree(a), _tree(b))]


# Name → the content of a folder, or the path of a file.
_Tree = dict[str, "str | _Tree"]


def _tree(paths: Iterable[str]) -> _Tree:
    tree: Any = {}
    for path in paths:
        *folders, name = path.split(os.sep)
        node = tree
        for folder in folders:
            node = node.setdefault(folder, {})
        node[name] = path
    return cast("_Tree", tree)


def _paired(above: str | None, a: _Tree, b: _Tree) -> Iterator[tuple[str, str, str]]:
    matches = [(name, a[name], b[name]) for name in a.keys() & b.keys()]
    lone_a, lone_b = sorted(a.keys() - b.keys()), sorted(b.keys() - a.keys())
    if len(lone_a) == len(lone_b):
        stars = ["*" if len(lone_a) == 1 else f"*{number}" for number in range(1, len(lone_a) + 1)]
        matches += [(star, a[x], b[y]) for star, x, y in zip(stars, lone_a, lone_b, strict=True)]
    else:
        matches += [(name, a[name], {}) for name in lone_a] + [(name, {}, b[name]) for name in lone_b]
    for name, left, right in sorted(matches, key=lambda match: match[0]):
        path = name if above is None else f"{above}{os.sep}{name}"
        files = [side if isinstance(side, str) else "" for side in (left, right)]
        if any(files):
            yield path, files[0], files[1]
        yield from _paired(path, *({} if isinstance(side, str) else side for side in (left, right)))
