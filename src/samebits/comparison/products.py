"""What two runs have made: the files that they wrote or, where they wrote none, what they printed; leaf by leaf."""

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

from samebits.comparison.contents import Content, Words, content_of, is_digest, text_content

PRINTED = "what it printed"
# Nothing longer is read of what was printed: a progress bar can fill a disk.
_MOST_PRINTED = 1 << 24
_WORD = re.compile(r"[^\s,;|()\[\]{}=]+")
_PART = re.compile(r"[^0-9A-Za-z]+")
_UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-fA-F]{6,}")
_BASE64 = re.compile(r"[-\w]{8,}={0,2}", re.ASCII)
# File and leaf; of what has another name in each run, the names are counted.
Key = tuple[str, str]


@dataclass(frozen=True)
class Products:
    """What one run has made.

    Attributes:
        files: path → what is in it.
        printed: what stands on its output.
        is_cut: the run was ended before its end, so a text may lack its last lines.
        ids: numbers of its processes, and how bytes begin that the operating system handed out to it, in hexadecimal;
            where both runs quote their own, they agree.
    """

    files: Mapping[str, Content] = field(default_factory=dict)
    printed: Content = field(default_factory=dict)
    is_cut: bool = False
    ids: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Unlike:
    """A leaf that two runs have otherwise.

    Attributes:
        key: of the leaf.
        path: of the file, as the first run calls it; empty for what was printed.
        a, b: what it is in either; None where that run has none.
    """

    key: Key
    path: str
    a: str | None
    b: str | None


def read_products(files: Mapping[str, Path], printed: Path, said: Words, is_cut: bool, ids: frozenset[str]) -> Products:
    """What a run has made: of its files, by what the user calls them, and of its output, what is `said`."""
    found: dict[str, Content] = {}
    for path, own in sorted(files.items()):
        if own.is_file():
            with suppress(OSError):
                found[path] = content_of(own, said)
    text = ""
    with suppress(OSError), printed.open("rb") as file:
        text = file.read(_MOST_PRINTED).decode(errors="replace")
    return Products(found, text_content(text, said), is_cut, ids)


def unlike(a: Products, b: Products) -> list[Unlike]:
    """The leaves that differ, in the order of files and leaves."""
    return [one for one in _apart(a, b) if not _are_ids(one.a, a.ids, one.b, b.ids)]


def unlike_beside_ids(heard: Products, other: Products) -> frozenset[Key]:
    """The leaves that differ otherwise than where the first run quotes its own ids, for anything in the other one."""
    return frozenset(one.key for one in _apart(heard, other) if not _quotes(one.a, heard.ids, one.b))


def _quotes(a: str | None, ids: frozenset[str], b: str | None) -> bool:
    if a is None or b is None:
        return False
    # What the other one was handed out is not asked for: nobody may have heard it.
    left, right = _parts(a, ids), _parts(b, frozenset())
    return _is_id(a, ids) or (
        len(left) == len(right) and all(x == y or _is_id(x, ids) for x, y in zip(left, right, strict=True))
    )


def _apart(a: Products, b: Products) -> list[Unlike]:
    found, is_cut = [], a.is_cut or b.is_cut
    if not a.files and not b.files:
        found = [*_in_content(PRINTED, "", a.printed, b.printed, is_cut)]
    for key, left, right in paired(a.files, b.files):
        if left and right:
            found += _in_content(key, left, a.files[left], b.files[right], is_cut)
        else:
            found.append(Unlike((key, ""), left or right, "there" if left else None, "there" if right else None))
    return found


def _are_ids(a: str | None, ids: frozenset[str], b: str | None, other_ids: frozenset[str]) -> bool:
    """Whether two leaves differ only in identifiers: each quotes its own run's where the other quotes its own."""
    if a is None or b is None:
        return False
    left, right = _parts(a, ids), _parts(b, other_ids)
    both = zip_longest(left, right)
    return all(x == y or (x is not None and y is not None and _is_id(x, ids) and _is_id(y, other_ids)) for x, y in both)


def _parts(word: str, ids: frozenset[str]) -> list[str]:
    joined = _UUID.sub(lambda found: found[0].replace("-", ""), word)
    return [word] if _is_id(word, ids) else _PART.split(joined)


def _is_id(word: str, ids: frozenset[str]) -> bool:
    """Whether a word is a process of the run, or quotes random bytes that it was handed.

    >>> _is_id("3f2a9c1b", frozenset({"3f2a9c"})), _is_id("PyqcGw8x", frozenset({"3f2a9c"}))
    (True, True)
    """
    return word in ids or any(begin in ids for begin in _begins(word))


def _begins(word: str) -> Iterator[str]:
    if _HEX.fullmatch(word):
        yield word[:6].lower()
    # Of base64, four characters are three bytes.
    if _BASE64.fullmatch(word):
        yield urlsafe_b64decode(word[:4]).hex()


def _in_content(key: str, path: str, a: Content, b: Content, is_cut: bool) -> Iterator[Unlike]:
    if a == b and [*a] == [*b]:
        return
    names = dict.fromkeys([*a, *b])
    if is_cut and all(name.startswith("line ") for name in names):
        # What was not written out yet is not there: the shorter one counts, without its last line.
        names = dict.fromkeys([*min(a, b, key=len)][:-1])
    for name in names:
        left, right = a.get(name), b.get(name)
        if left is None or right is None:
            yield Unlike((key, name), path, left, right)
        elif left != right:
            yield from _words(key, path, name, left, right)


def _words(key: str, path: str, name: str, a: str, b: str) -> Iterator[Unlike]:
    """Of a text, its words; all of it where it is not known which word is which."""
    left, right = _WORD.findall(a), _WORD.findall(b)
    if is_digest(a) or is_digest(b) or len(left) < 2 or len(left) != len(right) or _WORD.sub("", a) != _WORD.sub("", b):
        yield Unlike((key, name), path, a, b)
        return
    for number, (x, y) in enumerate(zip(left, right, strict=True), 1):
        if x != y:
            yield Unlike((key, f"{name}, word {number}"), path, x, y)


def paired(a: Iterable[str], b: Iterable[str]) -> list[tuple[str, str, str]]:
    """Files of two runs that belong together: what is said of both, and the path in either; empty where it is not.

    What only one run has by its name belongs to what is left in the same folder of the other, in the order of names:
    a run may name a folder after the time.

    >>> paired(["/runs/10-31/log"], ["/runs/10-32/log"])
    [('/runs/*/log', '/runs/10-31/log', '/runs/10-32/log')]
    """
    return [*_paired(None, _tree(a), _tree(b))]


# Name → what is in the folder, or the path of the file.
_Tree = dict[str, "str | _Tree"]


def _tree(paths: Iterable[str]) -> _Tree:
    found: Any = {}
    for path in paths:
        *folders, name = path.split(os.sep)
        here = found
        for folder in folders:
            here = here.setdefault(folder, {})
        here[name] = path
    return cast("_Tree", found)


def _paired(above: str | None, a: _Tree, b: _Tree) -> Iterator[tuple[str, str, str]]:
    matches = [(name, a[name], b[name]) for name in a.keys() & b.keys()]
    lone_a, lone_b = sorted(a.keys() - b.keys()), sorted(b.keys() - a.keys())
    if len(lone_a) == len(lone_b):
        stars = ["*" if len(lone_a) == 1 else f"*{number}" for number in range(1, len(lone_a) + 1)]
        matches += [(star, a[x], b[y]) for star, x, y in zip(stars, lone_a, lone_b, strict=True)]
    else:
        matches += [(name, a[name], {}) for name in lone_a] + [(name, {}, b[name]) for name in lone_b]
    for name, left, right in sorted(matches, key=lambda match: match[0]):
        here = name if above is None else f"{above}{os.sep}{name}"
        files = [one if isinstance(one, str) else "" for one in (left, right)]
        if any(files):
            yield here, files[0], files[1]
        yield from _paired(here, *({} if isinstance(one, str) else one for one in (left, right)))
