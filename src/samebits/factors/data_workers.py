"""data-workers: how many processes a DataLoader fetches with."""

from __future__ import annotations

import inspect
import sys
from functools import wraps
from typing import Any

from samebits.factors.base import CallFactor, Observation, Scene


class DataWorkers(CallFactor):
    """Another `num_workers` gives every sample other random numbers, and sometimes other bits without any.

    Workers have generators of their own, keep them from epoch to epoch when they are persistent, draw ahead by
    `prefetch_factor`, and compute with one thread. Pinned, every DataLoader fetches in the main process, whatever
    `num_workers` says: the batches no longer depend on it, and the price is that nothing is fetched in parallel.
    Varied, the number of workers is another one.
    """

    name = "data-workers"
    summary = "another num_workers gives augmentation other random numbers, so the batches change"
    story = "{what} fetches with another number of workers"
    cure = "keep num_workers fixed, or key the randomness of each sample by its index, at line {line}"
    pinned_by_default = False
    drifts = False

    def install(self, scene: Scene) -> None:
        scene.when_loaded("torch.utils.data", lambda data: _install(data.DataLoader, scene))

    def observe(self, scene: Scene | None = None) -> Observation:
        if "torch" not in sys.modules:
            return Observation("torch is not loaded", True if scene else None)
        if scene is None or scene.mode == "natural":
            return Observation("as each DataLoader asks", False)
        value = "fetched in the main process" if scene.mode == "pinned" else "another number of workers"
        return Observation(value, True)


def _install(loader: Any, scene: Scene) -> None:
    plain = loader.__init__
    signature = inspect.signature(plain)

    @wraps(plain)
    def __init__(*args: Any, **kwargs: Any) -> None:
        mode = scene.enter("DataLoader(...)")
        if mode == "natural":
            plain(*args, **kwargs)
            return
        given = signature.bind(*args, **kwargs)
        workers = given.arguments.get("num_workers", 0)
        count = 0 if mode == "pinned" else _other_count(workers, scene.setting.variant)
        given.arguments |= {"num_workers": count, **(_NO_WORKERS if count == 0 else {})}
        plain(*given.args, **given.kwargs)

    scene.set(loader, "__init__", __init__)


# Without workers torch refuses the options that only workers can have.
_NO_WORKERS = {"prefetch_factor": None, "persistent_workers": False, "timeout": 0, "multiprocessing_context": None}


def _other_count(workers: int, variant: int) -> int:
    """0 becomes 2, anything else becomes 0, later variants ask for more."""
    if variant > 2 or (workers and variant == 2):
        return workers + variant
    return 0 if workers else 1 + variant
