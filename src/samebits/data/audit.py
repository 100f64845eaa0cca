"""The audit of a dataset: which samples change when they are fetched again under the same key, and at which line."""

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
from samebits.data.fetching import Fetcher, collate_nothing
from samebits.data.line_tracer import carried_values, change_detector, trace_lines, value_of

SAMPLES = 16


@dataclass(frozen=True)
class Dependence:
    """A sample whose bits depend on more than its key.

    Attributes:
        kind: `carried` if the dataset changes from sample to sample; `unkeyed` if the same line gave another value
            under the same key (a generator made without a seed, a clock); `unknown` if no line explains the difference.
        index: the index of a sample that shows the dependence.
        name: the variable that differs, or the attribute that is changed; empty if `kind` is `unknown`.
        site: the user's line; None if none of the user's lines explains the dependence.
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
    """The result of `audit`; printed, it says what was found.

    Attributes:
        samples: number of samples that were fetched.
        findings: one for each line at fault; empty if, as far as these samples show, each depends only on its key.
    """

    samples: int
    findings: tuple[Dependence, ...]

    @property
    def is_clean(self) -> bool:
        """Whether the samples show no dependence on anything but their keys."""
        return not self.findings

    def __str__(self) -> str:
        if self.is_clean:
            return f"{self.samples} samples, fetched twice in two orders: the same bits"
        return "\n".join(map(str, self.findings))


def audit(dataset: Any, indices: Sequence[object] | None = None, *, seed: int = 0) -> Audit:
    """Fetch samples twice under the same keys, the second time in reverse order, and name the lines that change them.

    >>> print(audit(list(range(100))))
    16 samples, fetched twice in two orders: the same bits

    Args:
        dataset: map-style. It is not copied: whatever it carries from sample to sample has moved on afterwards.
        indices: indices of the samples to fetch. If left out, up to 16 samples, spread over the dataset.
        seed: root seed of the keys, as for a loader.

    Raises:
        UsageError: the dataset is iterable, or there is no sample to fetch.
    """
    if isinstance(dataset, IterableDataset):
        raise UsageError(
            f"audit() fetches by index, and {type(dataset).__name__} is iterable",
            "audit a list of its elements, or compare two passes over it",
        )
    chosen = list(_spread(len(dataset)) if indices is None else indices)
    if not chosen:
        raise UsageError("there is no sample to audit: the dataset is empty")
    fetcher, unused = Fetcher(dataset, collate_nothing, seed), _copies(dataset, seed)
    first = [_fetched(fetcher, index) for index in chosen]
    second = [_fetched(fetcher, index) for index in reversed(chosen)][::-1]
    differing = [index for index, before, after in zip(chosen, first, second, strict=True) if before != after]
    findings: dict[object, Dependence] = {}
    for index in differing:
        finding = _explained(fetcher, index)
        findings.setdefault((finding.kind, finding.name, finding.site and finding.site.key), finding)
    if unused and not findings:
        # A dataset that keeps samples of one epoch must not give them again in the next: compare it with a copy.
        fresh, untouched = unused
        index = next((index for index in chosen if _fetched(fetcher, index, 1) != _fetched(fresh, index, 1)), None)
        if index is not None:
            # Find the first line that changes what the dataset holds, in the copy that has fetched nothing yet.
            _, changed = _traced(untouched, index)
            findings[None] = Dependence("carried", index, *(changed or ("the dataset", None)))
    return Audit(len(chosen), tuple(findings.values()))


def _copies(dataset: object, seed: int) -> list[Fetcher]:
    """Return fetchers of two copies of a dataset from which nothing was fetched; none if it cannot be copied."""
    try:
        return [Fetcher(copy.deepcopy(dataset), collate_nothing, seed) for _ in range(2)]
    except Exception:
        return []


def _spread(length: int) -> list[int]:
    """Return indices spread over a dataset: neighbours first, since they share a worker, then distant ones."""
    if length <= SAMPLES:
        return list(range(length))
    near = SAMPLES // 2
    return [*range(near), *(near + number * (length - near) // near for number in range(near))]


def _fetched(fetcher: Fetcher, index: object, epoch: int = 0) -> object:
    return value_of(fetcher.alone(epoch, index), depth=6)


def _explained(fetcher: Fetcher, index: object) -> Dependence:
    """Fetch a sample that differs twice more, line by line, and return its dependence."""
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
    """Fetch a sample; return the local variables after each line, and the first change of the dataset with its line."""
    lines: list[tuple[Site, dict[str, object]]] = []
    carried: list[tuple[str, Site]] = []
    changed = change_detector(lambda: carried_values(fetcher.dataset))

    def after_line(site: Site, frame: FrameType, result: list[object]) -> None:
        local = {name: value_of(value) for name, value in frame.f_locals.items() if name != "self"}
        lines.append((site, {**local, "what it returns": value_of(result)}))
        if (name := changed()) is not None:
            carried.append((name, site))

    trace_lines(partial(fetcher.alone, 0, index), after_line)
    return lines, next(iter(carried), None)
