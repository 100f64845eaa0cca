"""Files that may import one another, and nothing else, are read together: in one process, or in several."""

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
# From `import` or `from` to the end of the statement, wherever it stands: in a text it may connect what is not.
_IMPORTS = re.compile(r"\b(?:import|from)\b(?:[^\n\\(]|\\\n)*(?:\((?:[^)#]|#.*)*\))?")


def connected(texts: Group) -> Iterator[Group]:
    """Groups of files, in each those that may import one another, directly or not, by their names."""
    modules = Index(("".join(module_of(name)[-1:]), name) for name in texts)
    beside = defaultdict[str, set[str]](set)
    for name, (text, _) in texts.items():
        words = {word for statement in _IMPORTS.findall(text) for word in re.findall(r"\w+", statement)}
        for other in (one for word in words & modules.keys() for one in modules[word]):
            beside[name].add(other)
            beside[other].add(name)
    left = dict.fromkeys(texts)
    while left:
        group = [left.popitem()[0]]
        for name in group:
            near = sorted(beside[name] & left.keys())
            group += near
            for one in near:
                del left[one]
        yield {name: texts[name] for name in sorted(group)}


def shared_out(groups: Iterable[Group], most: int) -> list[list[Group]]:
    """The groups in at most so many shares of about the same length."""
    lengths, shares = [0] * most, [list[Group]() for _ in range(most)]
    for group in sorted(groups, key=_length, reverse=True):
        emptiest = lengths.index(min(lengths))
        lengths[emptiest] += _length(group)
        shares[emptiest].append(group)
    return [share for share in shares if share]


def _length(group: Group) -> int:
    return sum(len(text) for text, _ in group.values())


def in_processes(read: Callable[[Sequence[Group]], T], shares: Sequence[Sequence[Group]]) -> list[T]:
    """Each share read in a process of its own, the first one in this."""
    answers = [_begun(read, share) for share in shares[1:]]
    return [*map(read, shares[:1]), *(one.recv() for one in answers)]


def _begun(read: Callable[[Sequence[Group]], T], share: Sequence[Group]) -> Connection[object, T]:
    import multiprocessing  # a few files are read before it is imported

    def answer() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits, and ends this one
        there.send(read(share))

    # A pipe for each, and no pool: that asks for semaphores, which not every container has.
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    fork.Process(target=answer, daemon=True).start()
    there.close()
    return here
