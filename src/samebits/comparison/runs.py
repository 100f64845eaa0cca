"""Two run folders → what there is to say about them, for use from Python."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from samebits.comparison.locate import Divergence, first_divergence
from samebits.comparison.ops import OpDivergence, first_op_divergence
from samebits.errors import RecordingError
from samebits.factors.sites import Site
from samebits.recording.folder import open_run
from samebits.recording.store import Recording


@dataclass(frozen=True)
class Comparison:
    """What two runs have in common.

    Attributes:
        divergence: the first step and stream at which they differ; None if none does.
        op: the first operation at which they differ, where operations were recorded; None if none does.
    """

    divergence: Divergence | None
    op: OpDivergence | None

    @property
    def same(self) -> bool:
        """Whether all that was recorded has the same bits."""
        return self.divergence is None and self.op is None

    def __str__(self) -> str:
        if self.same:
            return "same bits"
        parts = []
        if self.op is not None:
            parts.append(_told(self.op))
        if self.divergence is not None:
            place = self.divergence
            name = f" ({place.name})" if place.name else ""
            parts.append(f"step {place.step}, {place.detail or place.stream + name}")
        return f"different bits: {'; '.join(parts)}"


def compare(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Comparison:
    """The first place at which two recorded runs differ.

    Args:
        a: a run folder.
        b: another.

    Raises:
        RecordingError: one of them is no run folder, or holds no recording.
    """
    left, right = _recordings(Path(a)), _recordings(Path(b))
    place = first_divergence(left, right)
    others = {recording.rank: recording for recording in right}
    found = [first_op_divergence(one, others[one.rank]) for one in left if one.rank in others]
    parted = [op for op in found if op is not None]
    return Comparison(place, min(parted, key=lambda op: (op.step, op.index), default=None))


def _recordings(path: Path) -> list[Recording]:
    found = open_run(path).recordings()
    if not found:
        raise RecordingError(f"{path} holds no recording", "nothing was done that could be recorded")
    return found


def _told(place: OpDivergence) -> str:
    kind = place.row.kind
    backward = f" (backward of {kind.backward_of})" if kind.backward_of else ""
    module = f" in {kind.module}" if kind.module else ""
    site = Site(kind.path, kind.line) if kind.path else None
    where = f" at {site.path}:{site.line}  {site.source}" if site is not None else ""
    names = f", {', '.join(place.names)} differs" if place.names else ""
    return f"step {place.step}, op {place.index}: {place.finding}: {kind.op}{backward}{module}{names}{where}"
