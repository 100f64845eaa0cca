"""triton-autotune: which configuration a Triton kernel of the program's own is run with."""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

from samebits.base.sites import Site
from samebits.factors.base import CallFactor, Observation, Scene

HOME = "triton.runtime.autotuner"


class TritonAutotune(CallFactor):
    """`@triton.autotune` measures a list of configurations at the first call and keeps the quickest for the process.

    Block sizes and splits decide in which order a kernel adds, so another winner gives other bits. Pinned, only the
    first configuration of the list is there to choose from; varied, only the last. Kernels that torch.compile makes
    belong to `inductor-autotune`. Triton narrows the list in `Autotuner.prune_configs`, and so does this.
    Reasoned, not run: tested on a class with the same methods.
    """

    name = "triton-autotune"
    summary = "a Triton kernel keeps the configuration that was quickest this time, which may not be next time's"
    story = "{what} chose another configuration"
    cure = "give the kernel called at {place} a single configuration"
    cure_unplaced = "give autotuned kernels a single configuration"
    is_mode = True
    needs = ("cuda",)
    priced = ("pinned",)

    def install(self, scene: Scene) -> None:
        scene.when_loaded(HOME, lambda module: _install(module, scene))

    def cure_for(self, site: Site | None = None, script: str = "", what: str = "") -> str:
        return self.cure_unplaced if site is None else self.cure.format(place=site.place)

    def observe(self, scene: Scene | None = None) -> Observation:
        if HOME not in sys.modules:
            return Observation("Triton is not loaded", True if scene is not None and scene.mode != "natural" else None)
        if scene is None or scene.mode == "natural":
            return Observation("measured", False)
        return Observation(f"the {'first' if scene.mode == 'pinned' else 'last'} configuration", True)


def _install(module: Any, scene: Scene) -> None:
    plain = module.Autotuner.prune_configs

    @wraps(plain)
    def prune_configs(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = plain(self, *args, **kwargs)
        mode = scene.enter("triton.autotune")
        if mode == "natural":
            return found
        chosen = list(found)
        return chosen[:1] if mode == "pinned" else chosen[-1:]

    scene.set(module.Autotuner, "prune_configs", prune_configs)
