"""Finding what no key can hold: samples that come out otherwise when they are fetched again, and the line it is at."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Literal

from torch.utils.data import IterableDataset

from samebits.base.errors import UsageError
from samebits.base.sites import Site
from samebits.data.fetching import Fetcher, as_it_is
from samebits.data.lines import carried_by, changes, follow, value_of

SAMPLES = 16


@dataclass(frozen=True)
class Dependence:
    """A sample whose bits depend on more than its key.

    Attributes:
        kind: `carried` when the dataset changes from sample to sample, `unkeyed` when the same code gave something
            else from the same state (a generator made without a seed, a clock), `unknown` when no line showed it.
        index: of a sample that shows it.
        name: the variable, or the object's attribute.
        site: the user's line; None when none of the user's lines showed it.
    """

    kind: Literal["carried", "unkeyed", "unknown"]
    index: object
    name: str
    site: Site | None

    def __str__(self) -> str:
        where = f" at {self.site.path}:{self.site.line}\n    {self.site.source}" if self.site else ""
        if self.kind == "carried":
            return f"sample {self.index!r} depends on what was fetched before: {self.name} is changed{where}"
        if self.kind == "unkeyed":
            return f"sample {self.index!r} changes when it is fetched again: {self.name} differs{where}"
        return f"sample {self.index!r} changes when it is fetched again; no line of yours explains it"


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        samples: how many were fetched.
        findings: one for each line; empty when each sample depends on its key alone, as far as these show.
    """

    samples: int
    findings: tuple[Dependence, ...]

    @property
    def is_clean(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        if self.is_clean:
            return f"{self.samples} samples, fetched twice in two orders: the same bits"
        return "\n".join(map(str, self.findings))


def audit(dataset: Any, indices: Sequence[object] | None = None, *, seed: int = 0) -> Audit:
    """Fetch samples twice under the same keys, the second time in reverse order, and name the line where they differ.

    >>> print(audit(list(range(100))))
    16 samples, fetched twice in two orders: the same bits

    Args:
        dataset: map-style. It is used as it is, so it stands afterwards as after that many samples.
        indices: which samples; 16 spread over the dataset if left out.
        seed: as of a loader.

    Raises:
        UsageError: the dataset is iterable, or has no samples.
    """
    if isinstance(dataset, IterableDataset):
        raise UsageError(
            f"audit() fetches by index, and {type(dataset).__name__} is iterable",
            "audit a list of its elements, or compare two passes over it",
        )
    chosen = list(_spread(len(dataset)) if indices is None else indices)
    if not chosen:
        raise UsageError("there is no sample to audit: the dataset is empty")
    fetcher, unused = Fetcher(dataset, as_it_is, seed), _copies(dataset, seed)
    first = [_fetched(fetcher, index) for index in chosen]
    second = [_fetched(fetcher, index) for index in reversed(chosen)][::-1]
    differing = [index for index, one, other in zip(chosen, first, second, strict=True) if one != other]
    found: dict[object, Dependence] = {}
    for index in differing:
        finding = _explained(fetcher, index)
        found.setdefault((finding.kind, finding.name, finding.site and finding.site.key), finding)
    if unused and not found:
        # What was kept from one epoch must not be met again in the next.
        fresh, other = unused
        index = next((index for index in chosen if _fetched(fetcher, index, 1) != _fetched(fresh, index, 1)), None)
        if index is not None:
            # The first line that changes what the dataset holds; on one that has been used little.
            _, changed = _traced(other, index)
            found[None] = Dependence("carried", index, *(changed or ("the dataset", None)))
    return Audit(len(chosen), tuple(found.values()))


def _copies(dataset: object, seed: int) -> list[Fetcher]:
    """Two of the dataset before anything was fetched; none where it cannot be copied."""
    try:
        return [Fetcher(copy.deepcopy(dataset), as_it_is, seed) for _ in range(2)]
    except Exception:
        return []


def _spread(length: int) -> list[int]:
    """Neighbours first, since they share a worker, then far ones."""
    if length <= SAMPLES:
        return list(range(length))
    near = SAMPLES // 2
    return [*range(near), *(near + number * (length - near) // near for number in range(near))]


def _fetched(fetcher: Fetcher, index: object, epoch: int = 0) -> object:
    return value_of(fetcher.alone(epoch, index), depth=6)


def _explained(fetcher: Fetcher, index: object) -> Dependence:
    """The line of a sample that differs."""
    (before, carried), (after, carried_then) = _traced(fetcher, index), _traced(fetcher, index)
    if changed := carried or carried_then:
        return Dependence("carried", index, *changed)
    for (old_site, old), (site, new) in zip(before, after, strict=False):
        if site != old_site:
            return Dependence("unkeyed", index, "which line comes next", site)
        name = next((name for name in (*new, *old) if old.get(name) != new.get(name)), None)
        if name is not None:
            return Dependence("unkeyed", index, name, site)
    return Dependence("unknown", index, "", None)


def _traced(fetcher: Fetcher, index: object) -> tuple[list[tuple[Site, dict[str, object]]], tuple[str, Site] | None]:
    """Fetched once more: local variables after each line, and the first change of the dataset, with its line."""
    lines: list[tuple[Site, dict[str, object]]] = []
    carried: list[tuple[str, Site]] = []
    changed = changes(lambda: carried_by(fetcher.dataset))

    def after_line(site: Site, frame: FrameType, result: list[object]) -> None:
        local = {name: value_of(value) for name, value in frame.f_locals.items() if name != "self"}
        lines.append((site, {**local, "what it returns": value_of(result)}))
        if (name := changed()) is not None:
            carried.append((name, site))

    follow(partial(fetcher.alone, 0, index), after_line)
    return lines, next(iter(carried), None)
