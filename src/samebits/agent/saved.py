"""What there is to look at in what a program saves."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import torch

from samebits.agent.trees import attributes_of, leaves
from samebits.base.versions import without_version

# A key that begins with a separator: `.best./home/me/logs/version_3/epoch=1.ckpt`.
_FOLDER = re.compile(r"\./(?:[^/]+/)*")
_DECIDING = ("__getstate__", "__reduce__", "__reduce_ex__")


def content(thing: object, prefix: str) -> Iterator[tuple[str, object]]:
    """Path and leaf.

    Where a key is the path of a file, its folder and the number of its version are those of one run, and left out.
    """
    for own, leaf in leaves(thing, prefix, _pickled):
        yield without_version(_FOLDER.sub(".", own)) if os.sep in own else own, leaf


def _pickled(thing: object) -> dict[str, object]:
    """What pickle takes of an object; nothing where its class decides for itself."""
    attributes = attributes_of(thing)
    if isinstance(thing, torch.optim.Optimizer):
        return {name: attributes[name] for name in ("state", "param_groups") if name in attributes}
    kind, usual = type(thing), torch.nn.Module if isinstance(thing, torch.nn.Module) else object
    decides = any(getattr(kind, name, None) is not getattr(usual, name, None) for name in _DECIDING)
    return {} if decides else attributes
