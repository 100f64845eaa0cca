"""How places and runs are written: files relative to where the user stands, streams as a user would say them."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.checking.verdict import RunRecord
from samebits.comparison.locate import Divergence
from samebits.comparison.runs import RunComparison
from samebits.comparison.values import Distance
from samebits.report.rows import Rows, counted
from samebits.runfolder.steps import KINDS_OF_STREAMS


def where(divergence: Divergence) -> str:
    """`at step 3, in the gradients (fc.weight, 4 of 10)`."""
    if divergence.stream in ("length", "outcome"):
        process = f" ({divergence.process})" if divergence.process and divergence.only_in is None else ""
        return f"at step {divergence.step}: {detail_of(divergence)}{process}"
    if divergence.stream == "product":
        return f"in {divergence.name.partition(': ')[0]}, though all that was recorded agrees"
    whose = "".join(f" of {one}" for one in (divergence.process, ranks_of(divergence)) if one)
    return f"at step {divergence.step}, in {stream_words(divergence.stream)}{whose}"


def unshown(divergence: Divergence) -> str:
    """What two runs made differs, and it is not known why."""
    return f"{divergence.name} differs, and the reason is not known"


def stream_words(stream: str) -> str:
    """`the gradients`: one stream of one step."""
    if stream == "product":
        return "what was made"
    return KINDS_OF_STREAMS[stream].one if stream in KINDS_OF_STREAMS else stream


def ranks_of(divergence: Divergence) -> str:
    """`rank 1`, `ranks 0 and 1`, `8 ranks`: those that diverge there; empty where the runs have only one."""
    ranks = divergence.ranks or ((divergence.rank,) if divergence.rank else ())
    if len(ranks) < 2:
        return "".join(f"rank {rank}" for rank in ranks)
    return f"ranks {ranks[0]} and {ranks[1]}" if len(ranks) == 2 else f"{len(ranks)} ranks"


def which(divergence: Divergence) -> str:
    """Which tensors differ, and what else is known; empty when there is nothing to add."""
    if divergence.stream in ("length", "outcome"):
        return ""
    if divergence.stream == "product":
        more = f", and {divergence.differing - 1} more" if divergence.differing > 1 else ""
        return f"{divergence.name}: {detail_of(divergence) or 'other bytes'}{more}"
    label = f"{divergence.stream} " if KINDS_OF_STREAMS[divergence.stream].is_numbered else ""
    if divergence.only_in is not None:
        # Nothing differs where there is nothing to compare with.
        others = f", and {divergence.differing - 1} more" if divergence.differing > 1 else ""
        return f"{label}{divergence.name}: {detail_of(divergence)}{others}"
    text = f"{label}{divergence.name}: {divergence.differing} of {divergence.total} tensors differ"
    return f"{text} ({detail_of(divergence)})" if detail_of(divergence) else text


def detail_of(divergence: Divergence) -> str:
    """What else can be said of a divergence, as a clause; empty where there is nothing to add."""
    if divergence.only_in is not None and divergence.stream == "length":
        rank = f" on rank {divergence.rank}" if divergence.rank else ""
        return (
            f"only the {divergence.only_in} run took steps{f' in {divergence.process}' if divergence.process else rank}"
        )
    if divergence.only_in is not None:
        return f"only the {divergence.only_in} run has it"
    if divergence.lengths is not None:
        return f"the first run took {divergence.lengths[0]} steps and the second {divergence.lengths[1]}"
    return "the same names come in another order" if divergence.is_reordered else divergence.ending


def distance_words(distance: Distance | None) -> str:
    """`3 of 64 elements differ, by at most 1 ULP, relative 1e-07`: how far two tensors lie apart; empty if unknown."""
    if distance is None:
        return ""
    parts = [f"{distance.elements} of {distance.total} elements differ"]
    if distance.max_ulp is not None:
        parts.append(f"by at most {distance.max_ulp} ULP")
    if distance.max_relative is not None:
        parts.append(f"relative {distance.max_relative:.2g}")
    return ", ".join(parts)


def agreed(streams: Sequence[str]) -> str:
    """`losses, gradients and parameters`: the streams that were recorded, and no other."""
    words = ["operations" if stream == "op" else KINDS_OF_STREAMS[stream].all for stream in streams]
    *most, last = words or ["nothing that was recorded"]
    return f"{', '.join(most)} and {last}" if most else last


def compared_streams(found: RunComparison) -> str:
    """`losses, parameters and operations`: all in which two runs were compared."""
    return agreed([*found.streams, *(["op"] if found.compares_ops else [])])


def ran(runs: Sequence[RunRecord]) -> Rows:
    """What runs were for, how many steps they took, and what all of them have cost."""
    roles = ", ".join(f"{run.id} {run.role} ({counted(run.steps, 'step')})" for run in runs)
    seconds = sum(run.wall_seconds for run in runs)
    return [("runs", roles), ("took", f"{counted(len(runs), 'run')}, {seconds:.0f} s" if runs else "")]
