"""Compares what two runs made, leaf by leaf: the files they wrote or, where neither wrote any, what they printed."""

from __future__ import annotations

import os
import re
from base64 import urlsafe_b64decode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from samebits.comparison.contents import Content, Rewrite, as_shown, content_of, is_digest, text_content

PRINTED, MESSAGES = "what it printed", "what it wrote to standard error"
_WORD = re.compile(r"[^\s,;|()\[\]{}=]+")
_PART = re.compile(r"[^0-9A-Za-z]+")
_UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-fA-F]{4,}")
_BASE64 = re.compile(r"[-\w]{8,}={0,2}", re.ASCII)
# File and leaf. In the file's path, `*` or `*.pt` is what has another name in each run; then the name is a leaf, too.
Key = tuple[str, str]
NAME, FOLDER_NAME = "its name", "the folder's name"
_WORD_OF = ", word "


@dataclass(frozen=True)
class Products:
    """The files and the output of one run.

    Attributes:
        files: path → its leaves.
        printed: the leaves of its output, `PRINTED`, and of its messages, `MESSAGES`.
        is_cut: the run was ended before its end, so a text may lack its last lines.
        logs: files that grew while it trained, as a log does; it wrote others, too.
        ids: its process ids, and the first two and the first three bytes, in hexadecimal, of random data that the
            operating system gave it.
            Leaves in which each run quotes its own ids count as equal.
    """

    files: Mapping[str, Content] = field(default_factory=dict)
    printed: Mapping[str, Content] = field(default_factory=dict)
    is_cut: bool = False
    ids: frozenset[str] = frozenset()
    logs: frozenset[str] = frozenset()


class Leaves:
    """A set of leaves by their keys, in which a leaf is found however two runs name its file, and whole or by a word.

    >>> ("/runs/10-31/log", "line 3, word 2") in Leaves([("/runs/*/log", "line 3")])
    True
    """

    def __init__(self, keys: Iterable[Key]) -> None:
        # File → leaf → the words of it that are meant; an empty one means all.
        self._words = defaultdict[str, defaultdict[str, set[str]]](lambda: defaultdict(set))
        for file, leaf in keys:
            name, _, word = leaf.partition(_WORD_OF)
            self._words[file][name].add(word)
        self._files_like = cache(self._find_files)

    def _find_files(self, file: str) -> list[str]:
        others = (own for own in self._words if own != file and "*" in own + file)
        alike = [own for own in others if _may_be_one(own.split(os.sep), file.split(os.sep))]
        return [*alike, file] if file in self._words else alike

    def __contains__(self, key: Key) -> bool:
        name, _, word = key[1].partition(_WORD_OF)
        files = (self._words[file] for file in self._files_like(key[0]))
        return any(words and (not word or {"", word} & words) for leaves in files if (words := leaves.get(name)))


def _may_be_one(parts: list[str], others: list[str]) -> bool:
    return len(parts) == len(others) and all(
        a == b or _fits(a, b) or _fits(b, a) for a, b in zip(parts, others, strict=True)
    )


def _fits(star: str, name: str) -> bool:
    return star.startswith("*") and name.endswith(star[1:])


@dataclass(frozen=True)
class LeafDifference:
    """A leaf that differs between two runs.

    Attributes:
        key: its file and its name.
        path: the file in the first run, or in the second where only that has it; empty for what was printed.
        a, b: its value in each run; None where a run lacks it.
        in_log: its file is a text that grew while a run trained.
    """

    key: Key
    path: str
    a: str | None
    b: str | None
    in_log: bool = False


def read_products(
    files: Mapping[str, Path],
    printed: Path,
    messages: Sequence[Path],
    said: Rewrite,
    is_cut: bool,
    ids: frozenset[str],
    logs: frozenset[str] = frozenset(),
) -> Products:
    """Read what a run made: its files, by the names that the user knows, and its output; `said` rewrites texts.

    Of its messages, lines that were drawn over are left out: a progress bar reports nothing that is meant to last.
    """
    contents: dict[str, Content] = {}
    for path, actual in sorted(files.items()):
        with suppress(OSError):
            if actual.is_symlink():
                # Outside of the run, its target may be another file.
                contents[path] = {"target": said(os.readlink(actual))}
            elif actual.is_file():
                contents[path] = content_of(actual, said)
    lasting = (line for line in _lines_of(messages) if "\r" not in line.rstrip("\r\n"))
    outputs = {PRINTED: map(as_shown, _lines_of([printed])), MESSAGES: lasting}
    return Products(contents, {name: text_content(lines, said) for name, lines in outputs.items()}, is_cut, ids, logs)


def _lines_of(paths: Sequence[Path]) -> Iterator[str]:
    for path in paths:
        with suppress(OSError), path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            yield from file


def differing_leaves(a: Products, b: Products) -> list[LeafDifference]:
    """Return the leaves that differ in more than ids, in the order of files and leaves."""
    return [leaf for leaf in _apart(a, b) if not _are_ids(leaf.a, a.ids, leaf.b, b.ids)]


def differing_beyond_ids(heard: Products, other: Products) -> frozenset[Key]:
    """Return the leaves that differ in more than ids of the first run; the ids of the other run may not be known."""
    return frozenset(leaf.key for leaf in _apart(heard, other) if not _are_ids(leaf.a, heard.ids, leaf.b, None))


def _apart(a: Products, b: Products) -> list[LeafDifference]:
    differing, is_cut = list[LeafDifference](), a.is_cut or b.is_cut
    if not a.files and not b.files:
        for name, printed in a.printed.items():
            differing += _in_content(name, "", printed, b.printed.get(name, {}), is_cut)
    names: dict[tuple[Key, str], LeafDifference] = {}
    for key, left, right in paired(a.files, b.files):
        in_log = _is_log(a, left) or _is_log(b, right)
        if left and right:
            leaves = [*_in_content(key, left, a.files[left], b.files[right], is_cut)]
            for other in _other_names(key, left, right):
                # A folder holds what else is in it, too.
                known = names.get((other.key, other.path))
                names[other.key, other.path] = replace(other, in_log=in_log and (known is None or known.in_log))
        else:
            leaves = [LeafDifference((key, ""), left or right, "there" if left else None, "there" if right else None)]
        differing += [replace(leaf, in_log=True) for leaf in leaves] if in_log else leaves
    return [*differing, *names.values()]


def _is_log(run: Products, path: str) -> bool:
    return path in run.logs and all(name.startswith("line ") for name in run.files[path])


def _other_names(key: str, left: str, right: str) -> Iterator[LeafDifference]:
    """The names in two paths of a file, its own and those of its folders, that differ."""
    parts = [path.split(os.sep) for path in (key, left, right)]
    for end, (a, b) in enumerate(zip(*parts[1:], strict=True), 1):
        if a != b:
            what = NAME if end == len(parts[0]) else FOLDER_NAME
            yield LeafDifference((os.sep.join(parts[0][:end]), what), os.sep.join(parts[1][:end]), a, b)


def _are_ids(a: str | None, ids: frozenset[str], b: str | None, other_ids: frozenset[str] | None) -> bool:
    """Whether two leaves differ only where each quotes an id of its own run; None: any word may be the other's id."""
    if a is None or b is None:
        return False
    if other_ids is None and _is_id(a, ids):
        return True
    parts = _parts(a, ids), _parts(b, other_ids or frozenset())
    return len(parts[0]) == len(parts[1]) and all(
        x == y or (_is_id(x, ids) and (other_ids is None or _is_id(y, other_ids))) for x, y in zip(*parts, strict=True)
    )


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
        yield word[: 6 if len(word) >= 6 else 4].lower()
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
            yield LeafDifference((key, f"{name}{_WORD_OF}{number}"), path, x, y)


def paired(a: Mapping[str, Content], b: Mapping[str, Content]) -> list[tuple[str, str, str]]:
    """Pair the files of two runs: one path for both, and the path in each run; empty where a run lacks the file.

    Files with a name that only one run has are paired with those of the same folder that only the other has: first
    files of equal content, then all in order, where they are equally many. A run may name a folder after the time.

    >>> paired({"/runs/10-31/log": {}}, {"/runs/10-32/log": {}})
    [('/runs/*/log', '/runs/10-31/log', '/runs/10-32/log')]
    """

    def within(above: str | None, left: _Tree, right: _Tree) -> Iterator[tuple[str, str, str]]:
        matches = [(name, left[name], right[name]) for name in left.keys() & right.keys()]
        lone = [sorted(left.keys() - right.keys()), sorted(right.keys() - left.keys())]
        pairs, same = list[tuple[str, str]](), defaultdict[int, list[str]](list)
        for name in lone[1]:
            if isinstance(path := right[name], str):
                same[content_hash(b[path])].append(name)
        for name in [*lone[0]]:
            if isinstance(path := left[name], str) and (others := same[content_hash(a[path])]):
                pairs.append((name, others[0]))
                lone[0].remove(name)
                lone[1].remove(others.pop(0))
        if len(lone[0]) == len(lone[1]):
            pairs += zip(*lone, strict=True)
        else:
            matches += [(name, left[name], {}) for name in lone[0]] + [(name, {}, right[name]) for name in lone[1]]
        matches += [(star(x, y), left[x], right[y]) for x, y in pairs]
        for name, *sides in sorted(matches, key=lambda match: match[0]):
            path = name if above is None else f"{above}{os.sep}{name}"
            files = [side if isinstance(side, str) else "" for side in sides]
            if any(files):
                yield path, files[0], files[1]
            yield from within(path, *({} if isinstance(side, str) else side for side in sides))

    def star(*names: str) -> str:
        ends = {os.path.splitext(name)[1] for name in names}
        return f"*{ends.pop()}" if len(ends) == 1 else "*"

    def content_hash(content: Content) -> int:
        return hash(tuple(content.items()))

    return [*within(None, _tree(a), _tree(b))]


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
