"""How places are written: files relative to where the user stands, streams as a user would say them."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.base.sites import Site, shown_path
from samebits.comparison.locate import Divergence
from samebits.comparison.runs import RunComparison

_STREAMS = {
    "init": "the initial parameters",
    "batch": "the data",
    "output": "what a model returned",
    "loss": "the loss",
    "grad": "the gradients",
    "param": "the parameters after the update",
    "buffer": "the buffers",
    "optimizer": "the state of the optimizer",
    "artifact": "what was saved",
    "end": "the final state of the models",
}
# Of all steps together.
_ALL = {
    "init": "initial parameters",
    "batch": "data",
    "output": "outputs",
    "loss": "losses",
    "grad": "gradients",
    "param": "parameters",
    "buffer": "buffers",
    "optimizer": "optimizer states",
    "artifact": "what was saved",
    "end": "the final state",
    "op": "operations",
}


def path_of(path: str) -> str:
    """Relative to the current folder when the file lies in it, else absolute; never shortened."""
    return shown_path(path)


def place_of(site: Site) -> str:
    """`train.py:31`."""
    return site.place


def where(divergence: Divergence) -> str:
    """`at step 3, in the gradients (fc.weight, 4 of 10)`."""
    if divergence.stream in ("length", "outcome"):
        process = f" ({divergence.process})" if divergence.process else ""
        return f"at step {divergence.step}: {divergence.detail}{process}"
    rank = f"rank {divergence.rank}" if divergence.rank else ""
    whose = "".join(f" of {one}" for one in (divergence.process, rank) if one)
    return f"at step {divergence.step}, in {_STREAMS[divergence.stream]}{whose}"


def which(divergence: Divergence) -> str:
    """Which tensors differ, and what else is known; empty when there is nothing to add."""
    if divergence.stream in ("length", "outcome"):
        return ""
    # Batches, losses and artifacts have numbers for names; parameters have names of their own.
    label = f"{divergence.stream} " if divergence.stream in ("batch", "loss", "artifact", "output") else ""
    if divergence.detail.startswith("only the "):
        # Nothing differs where there is nothing to compare with.
        others = f", and {divergence.differing - 1} more" if divergence.differing > 1 else ""
        return f"{label}{divergence.name}: {divergence.detail}{others}"
    text = f"{label}{divergence.name}: {divergence.differing} of {divergence.total} tensors differ"
    if divergence.detail:
        text += f" ({divergence.detail})"
    return text


def agreed(streams: Sequence[str]) -> str:
    """`losses, gradients and parameters`: the streams that were recorded, and no other."""
    *most, last = [_ALL[stream] for stream in streams] or ["nothing that was recorded"]
    return f"{', '.join(most)} and {last}" if most else last


def compared_streams(found: RunComparison) -> str:
    """`losses, parameters and operations`: all in which two runs were compared."""
    return agreed([*found.streams, *(["op"] if found.compares_ops else [])])


def counted(number: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
