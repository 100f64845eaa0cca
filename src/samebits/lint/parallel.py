"""Shares of files: files that may import one another are read together; others may be read in other processes."""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from samebits.lint.source import Index, Text, module_of

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")
Group = dict[str, Text]
# From `import` or `from` to the end of the statement. Inside of a string, a match may connect files that are unrelated.
_IMPORTS = re.compile(r"\b(?:import|from)\b(?:[^\n\\(]|\\\n)*(?:\((?:[^)#]|#.*)*\))?")


def import_groups(texts: Group) -> Iterator[Group]:
    """The groups of files that may import one another, directly or not, as far as their names tell."""
    modules = Index(("".join(module_of(name)[-1:]), name) for name in texts)
    neighbours = defaultdict[str, set[str]](set)
    for name, (text, _) in texts.items():
        words = {word for statement in _IMPORTS.findall(text) for word in re.findall(r"\w+", statement)}
        for imported in (file for word in words & modules.keys() for file in modules[word]):
            neighbours[name].add(imported)
            neighbours[imported].add(name)
    remaining = dict.fromkeys(texts)
    while remaining:
        group = [remaining.popitem()[0]]
        for name in group:
            near = sorted(neighbours[name] & remaining.keys())
            group += near
            for neighbour in near:
                del remaining[neighbour]
        yield {name: texts[name] for name in sorted(group)}


def balanced_shares(groups: Iterable[Group], most: int) -> list[list[Group]]:
    """Return the groups in at most `most` shares, whose texts have about the same length."""
    lengths, shares = [0] * most, [list[Group]() for _ in range(most)]
    for group in sorted(groups, key=_length, reverse=True):
        emptiest = lengths.index(min(lengths))
        lengths[emptiest] += _length(group)
        shares[emptiest].append(group)
    return [share for share in shares if share]


def _length(group: Group) -> int:
    return sum(len(text) for text, _ in group.values())


def in_processes(read: Callable[[Sequence[Group]], T], shares: Sequence[Sequence[Group]]) -> list[T]:
    """Return what `read` returns for each share; the first share is read here, each other one in its own process."""
    connections = [_begun(read, share) for share in shares[1:]]
    return [*map(read, shares[:1]), *(connection.recv() for connection in connections)]


def _begun(read: Callable[[Sequence[Group]], T], share: Sequence[Group]) -> Connection[object, T]:
    import multiprocessing  # a few files are read sooner than it is imported

    def answer() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the waiting process, which then ends this one
        there.send(read(share))

    # A pipe for each share, and no pool: a pool needs semaphores, which not every container has.
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    fork.Process(target=answer, daemon=True).start()
    there.close()
    return here
