"""Files parted among processes: those that may import one another stay together."""

from __future__ import annotations

import multiprocessing
import re
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from samebits.lint.source import Index, Text, module_of

T = TypeVar("T")
# From `import` or `from` to the end of the statement, wherever it stands: in a text it may connect what is not.
_IMPORTS = re.compile(r"\b(?:import|from)\b(?:[^\n\\(]|\\\n)*(?:\([^)]*\))?")


def shared_out(texts: Mapping[str, Text], most: int) -> list[dict[str, Text]]:
    """At most so many shares of about the same length; none of them imports what is in another one."""
    if most < 2:
        return [dict(texts)]
    groups = [(sum(len(texts[name][0]) for name in group), group) for group in _connected(texts)]
    lengths, shares = [0] * most, [list[str]() for _ in range(most)]
    for length, group in sorted(groups, reverse=True):
        emptiest = lengths.index(min(lengths))
        lengths[emptiest] += length
        shares[emptiest] += group
    return [{name: texts[name] for name in share} for share in shares if share]


def _connected(texts: Mapping[str, Text]) -> Iterator[list[str]]:
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
            near = [one for one in beside[name] if one in left]
            group += near
            for one in near:
                del left[one]
        yield group


def in_processes(read: Callable[[Mapping[str, Text]], T], shares: Sequence[Mapping[str, Text]]) -> list[T]:
    """Each share read in a process of its own."""
    # Ctrl-C is for this process, which ends the others.
    with multiprocessing.get_context("fork").Pool(len(shares), signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        return pool.map(read, shares, chunksize=1)
