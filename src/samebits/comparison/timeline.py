"""Two recordings side by side, step by step: how many tensors of each stream differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samebits.comparison.align import Pair, align
from samebits.runfolder.steps import COMPARED, Recording

# So many steps are looked at one by one; of more, every so-manieth.
STEPS_SHOWN = 400


@dataclass(frozen=True)
class StreamShares:
    """One stream over the steps.

    Attributes:
        stream: its name.
        shares: for each step that is shown, the share of its tensors that differ, 0 to 1; None where there are none.
    """

    stream: str
    shares: tuple[float | None, ...]

    @property
    def first(self) -> int | None:
        """Where in `shares` it diverges; None where it never does."""
        return next((number for number, share in enumerate(self.shares) if share), None)


@dataclass(frozen=True)
class Timeline:
    """Where two runs agree and where they do not.

    Attributes:
        steps: the steps that are shown.
        lanes: every stream that was recorded.
        rank: of which rank.
    """

    steps: tuple[int, ...]
    lanes: tuple[StreamShares, ...]
    rank: int = 0


def timeline(a: Sequence[Recording], b: Sequence[Recording]) -> Timeline | None:
    """Of the first rank that both recorded; None where there is none."""
    pair = next((pair for pair in align(a, b) if pair.a is not None and pair.b is not None), None)
    if pair is None or pair.a is None or pair.b is None:
        return None
    count = min(len(pair.a), len(pair.b))
    stride = max(1, -(-count // STEPS_SHOWN))
    steps = tuple(range(0, count, stride))
    shares = [_shares(pair, step) for step in steps]
    recorded = {stream for share in shares for stream in share}
    lanes = [StreamShares(name, tuple(share.get(name) for share in shares)) for name in COMPARED if name in recorded]
    return Timeline(steps, tuple(lanes), pair.rank)


def _shares(pair: Pair, step: int) -> dict[str, float]:
    assert pair.a is not None
    assert pair.b is not None
    left, right = pair.a.columns(step), pair.b.columns(step)
    found: dict[str, float] = {}
    for stream in COMPARED:
        if stream in left or stream in right:
            a, b = (column.as_dict() if column else {} for column in (left.get(stream), right.get(stream)))
            names = a.keys() | b.keys()
            found[stream] = sum(a.get(name) != b.get(name) for name in names) / len(names) if names else 0.0
    return found
