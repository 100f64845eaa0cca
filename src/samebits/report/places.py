"""Words for places and runs: streams by the names that a user would give them."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.checking.verdict import RunRecord
from samebits.comparison.locate import Divergence
from samebits.comparison.runs import RunComparison
from samebits.comparison.values import Distance
from samebits.report.rows import Rows, counted
from samebits.runfolder.steps import KINDS_OF_STREAMS


def place_words(divergence: Divergence) -> str:
    """Return the place of a divergence: `at step 3, in the gradients of rank 1`."""
    if divergence.stream in ("length", "outcome"):
        process = f" ({divergence.process})" if divergence.process and divergence.only_in is None else ""
        return f"at step {divergence.step}: {_detail(divergence)}{process}"
    if divergence.stream == "product":
        return f"in {divergence.name.partition(': ')[0]}, though all that was recorded agrees"
    whose = "".join(f" of {owner}" for owner in (divergence.process, _ranks(divergence)) if owner)
    return f"at step {divergence.step}, in {stream_words(divergence.stream)}{whose}"


def stream_words(stream: str) -> str:
    """Return the words for one stream of one step: `the gradients`."""
    if stream == "product":
        return "what was made"
    return KINDS_OF_STREAMS[stream].step_name if stream in KINDS_OF_STREAMS else stream


def _ranks(divergence: Divergence) -> str:
    """Return the ranks that diverge: `rank 1`, `ranks 0 and 1`, `8 ranks`; empty where the runs have only one."""
    ranks = divergence.ranks or ((divergence.rank,) if divergence.rank else ())
    if len(ranks) < 2:
        return "".join(f"rank {rank}" for rank in ranks)
    return f"ranks {ranks[0]} and {ranks[1]}" if len(ranks) == 2 else f"{len(ranks)} ranks"


def difference_words(divergence: Divergence) -> str:
    """Tell which tensors differ, and what else is known; empty where there is nothing to add."""
    if divergence.stream in ("length", "outcome"):
        return ""
    detail, more = _detail(divergence), f", and {divergence.differing - 1} more" if divergence.differing > 1 else ""
    if divergence.stream == "product":
        return f"{divergence.name}: {detail or 'other bytes'}{more}"
    label = f"{divergence.stream} " if KINDS_OF_STREAMS[divergence.stream].is_numbered else ""
    if divergence.only_in is not None:
        # Nothing differs where there is nothing to compare with.
        return f"{label}{divergence.name}: {detail}{more}"
    text = f"{label}{divergence.name}: {divergence.differing} of {divergence.total} tensors differ"
    return f"{text} ({detail})" if detail else text


def _detail(divergence: Divergence) -> str:
    """Return details of a divergence, as a clause; empty where there are none."""
    if divergence.only_in is not None and divergence.stream == "length":
        where = f" on rank {divergence.rank}" if divergence.rank else ""
        where = f" in {divergence.process}" if divergence.process else where
        return f"only the {divergence.only_in} run took steps{where}"
    if divergence.only_in is not None:
        return f"only the {divergence.only_in} run has it"
    if divergence.lengths is not None:
        return f"the first run took {divergence.lengths[0]} steps and the second {divergence.lengths[1]}"
    return "the same names come in another order" if divergence.is_reordered else divergence.ending


def distance_words(distance: Distance | None) -> str:
    """Tell how far two tensors are apart: `3 of 64 elements differ, by at most 1 ULP, relative 1e-07`, or nothing."""
    if distance is None:
        return ""
    parts = [f"{distance.elements} of {distance.total} elements differ"]
    if distance.max_ulp is not None:
        parts.append(f"by at most {distance.max_ulp} ULP")
    if distance.max_relative is not None:
        parts.append(f"relative {distance.max_relative:.2g}")
    return ", ".join(parts)


def stream_list(streams: Sequence[str]) -> str:
    """Return the words for streams: `losses, gradients and parameters`."""
    words = ["operations" if stream == "op" else KINDS_OF_STREAMS[stream].plural_name for stream in streams]
    *most, last = words or ["nothing that was recorded"]
    return f"{', '.join(most)} and {last}" if most else last


def compared_streams(found: RunComparison) -> str:
    """Return the words for all in which two runs were compared: `losses, parameters and operations`."""
    return stream_list([*found.streams, *(["op"] if found.compares_ops else [])])


def run_rows(runs: Sequence[RunRecord]) -> Rows:
    """Return rows for what runs were for, how many steps they took, and how long all of them took."""
    roles = ", ".join(f"{run.id} {run.role} ({counted(run.steps, 'step')})" for run in runs)
    seconds = sum(run.wall_seconds for run in runs)
    return [("runs", roles), ("took", f"{counted(len(runs), 'run')}, {seconds:.0f} s" if runs else "")]
