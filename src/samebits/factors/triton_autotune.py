"""triton-autotune: which configuration the program's own Triton kernels are run with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext

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
    explanation = "{what} chose another configuration"
    fix = "give the kernel called at {place} a single configuration"
    fix_unplaced = "give autotuned kernels a single configuration"
    left_alone = True
    needs = ("cuda",)
    priced = ("pinned",)
    effects = ("measured", "the first configuration", "the last configuration")
    library = HOME, "Triton"

    def treat(self, context: FactorContext) -> None:
        call = partial(_pruned, context)
        context.when_loaded(HOME, lambda module: context.replace_method(module.Autotuner, "prune_configs", call))


def _pruned(
    context: FactorContext, original: Callable[..., Iterable[object]], /, *args: object, **kwargs: object
) -> object:
    configurations = original(*args, **kwargs)
    mode = context.enter("triton.autotune")
    if mode == "natural":
        return configurations
    listed = list(configurations)
    return listed[:1] if mode == "pinned" else listed[-1:]
