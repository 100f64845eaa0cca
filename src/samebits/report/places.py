"""How places are written: files relative to where the user stands, streams as a user would say them."""

from __future__ import annotations

import os

from samebits.comparison.locate import Divergence
from samebits.comparison.runs import RunComparison
from samebits.sites import Site

_STREAMS = {
    "init": "the parameters the model was born with",
    "batch": "the data",
    "loss": "the loss",
    "grad": "the gradients",
    "param": "the parameters after the update",
    "optimizer": "the state of the optimizer",
    "artifact": "what was saved",
}


def path_of(path: str) -> str:
    """Relative to the current folder when the file lies in it, else absolute; never shortened."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith("..") else relative


def place_of(site: Site) -> str:
    """`train.py:31`."""
    return f"{path_of(site.path)}:{site.line}"


def where(divergence: Divergence) -> str:
    """`at step 3, in the gradients (fc.weight, 4 of 10)`."""
    if divergence.stream in ("length", "outcome"):
        return f"at step {divergence.step}: {divergence.detail}"
    text = f"at step {divergence.step}, in {_STREAMS[divergence.stream]}"
    return f"{text}{f' of rank {divergence.rank}' if divergence.rank else ''}"


def which(divergence: Divergence) -> str:
    """Which tensors differ, and what else is known; empty when there is nothing to add."""
    if divergence.stream in ("length", "outcome"):
        return ""
    # Batches, losses and artifacts have numbers for names; parameters have names of their own.
    label = f"{divergence.stream} " if divergence.stream in ("batch", "loss", "artifact") else ""
    text = f"{label}{divergence.name}: {divergence.differing} of {divergence.total} tensors differ"
    if divergence.detail:
        text += f" ({divergence.detail})"
    return text


def compared_streams(found: RunComparison) -> str:
    """`batch, loss, grad, param, operations`: all in which two runs were compared."""
    return ", ".join([*found.streams, *(["operations"] if found.compares_ops else [])])


def counted(number: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
