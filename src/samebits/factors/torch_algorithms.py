"""torch-algorithms: whether torch may pick kernels whose result depends on timing."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from threading import RLock
from types import ModuleType
from typing import ClassVar

from samebits.base.sites import user_site, waiting_site
from samebits.factors.context import FactorContext
from samebits.factors.switches import TorchSetting, attributes, set_attribute
from samebits.factors.variables import give_fixed_workspace

NO_DETERMINISTIC_KERNEL = "does not have a deterministic implementation"
# The error of torch up to 2.9 at the first product on a GPU; pytorch/pytorch#161749 removed the check.
NO_WORKSPACE = "not deterministic because it uses CuBLAS"
# Functions that torch computes by MKL. Up to 2024.2, which torch's wheels contain, MKL picks the kernel of each at its
# first call: if two threads call at once, one may get a less precise kernel that time (pytorch/pytorch#188792).
FIRST_CALLS = (
    *("acos", "asin", "atan", "cos", "erf", "erfc", "erfinv", "exp", "expm1", "lgamma"),
    *("log", "log10", "log1p", "log2", "sin", "sqrt", "tan", "tanh", "trunc"),
)
# Follows the name of an operation that a formula of samebits has replaced.
REPLACED = "replaced"


class TorchAlgorithms(TorchSetting):
    """`torch.use_deterministic_algorithms(True)`: kernels that add in a fixed order, and formulas where there are none.

    Without it some operations race: atomics on GPUs, and on the CPU `index_put_` with accumulate (the backward of
    `x[idx]`), `index_copy_` and `put_`. So does the first call of what MKL computes (`exp`, `sin`, `sqrt` and with
    it the first step of Adam), where threads divide a large tensor: each is called once before. Operations without
    a deterministic kernel, and some that race without a word, are computed by formulas of samebits' own that add in
    a fixed order; which, at which line, how often, is said. Where that cannot be (torch before 2.9, an operation
    that somebody else has replaced), and for the few operations without a formula, torch raises. `--pin
    torch-algorithms=strict` lets torch raise for all of them, `=replace` says why formulas could not be put in, and
    `=warn` lets operations pass with a warning; that may select yet other kernels and is never reported as
    deterministic: the backward of flash attention, for one, still adds with atomics. Up to torch 2.9 the flag also
    makes cuBLAS raise until its workspace has a fixed size (see `cublas-workspace`), so that is set along with it.
    The flag leaves cuDNN's autotuner alone (see `cudnn-autotune`), and its costly companion that fills all new
    memory is switched off: `uninitialized-memory` does that. Pinned, it stays on where the program switches it off
    or asks for warnings, with warnings instead of errors from then on; the line that did so is named.
    """

    name = "torch-algorithms"
    summary = "some kernels add in whatever order their threads arrive, unless deterministic ones are asked for"
    explanation = "an operation whose result depends on timing"
    fix = "call torch.use_deterministic_algorithms(True) at {place}"
    fix_unplaced = "call torch.use_deterministic_algorithms(True) at the start"
    fixes: ClassVar = {
        REPLACED: 'call samebits.pin(factors=["torch-algorithms"]) at the start: torch alone would refuse'
    }
    choices = ("replace", "strict", "warn")
    left_alone = True
    may_raise = True
    priced = ("pinned",)

    def set(self, torch: ModuleType, context: FactorContext) -> None:
        context.undo.callback(torch.set_deterministic_debug_mode, torch.get_deterministic_debug_mode())
        if context.mode == "pinned" and _is_before(torch, 2, 10):
            give_fixed_workspace(context)
        # When varied, nothing may fail that does not fail untreated.
        only_warns = context.mode == "varied" or context.setting.value == "warn"
        is_off = context.mode == "varied" and torch.are_deterministic_algorithms_enabled()
        torch.set_deterministic_debug_mode("default" if is_off else "warn" if only_warns else "error")
        # From 2.10 on `use_deterministic_algorithms` imports Inductor to set it, too, which takes half of a start.
        context.when_loaded("torch._inductor.config", lambda config: _tell(config, context, not is_off))
        set_attribute(context, torch.utils.deterministic, "fill_uninitialized_memory", False)
        if context.mode == "pinned":
            _call_first(torch)
            self._hold(torch, context)
            if context.setting.value in (None, "replace"):
                _replace(torch, context)
            elif (ours := sys.modules.get("samebits.ops.overrides")) is not None:
                # A block around this one may have put formulas in place.
                context.undo.callback(ours.refuse())

    def _hold(self, torch: ModuleType, context: FactorContext) -> None:
        """Keep deterministic kernels, without new errors, where the program switches them off or asks for warnings."""

        def turn(setter: Callable[..., None], mode: bool, *, warn_only: bool = False) -> None:
            asked = f"torch.use_deterministic_algorithms({mode}{', warn_only=True' if warn_only else ''})"
            is_weaker = not mode or (warn_only and context.setting.value != "warn")
            if is_weaker and context.enter(asked) == "pinned":
                mode = warn_only = True
            setter(mode, warn_only=warn_only)

        context.replace(torch._C, "_set_deterministic_algorithms", turn)

    def kernel_settings(self, torch: ModuleType) -> dict[str, object]:
        on, only_warns = _flags(torch)
        fill = attributes(torch, "utils.deterministic.fill_uninitialized_memory")
        return {"use_deterministic_algorithms": {"mode": on, "warn_only": only_warns}, **fill}

    def in_effect(self, torch: ModuleType) -> tuple[str, str]:
        on, only_warns = _flags(torch)
        if not on:
            return "any kernel", "the program switched them off past samebits"
        ours = ", formulas of samebits where torch has none" * _is_replacing()
        value = f"deterministic kernels{ours} or {'a warning' if only_warns else 'an error'}"
        return value, "the program switched errors off" if only_warns else ""

    def verify(self, context: FactorContext) -> str:
        torch = sys.modules.get("torch")
        took = torch is not None and torch.are_deterministic_algorithms_enabled()
        if took and context.setting.value == "replace" and not context.ended:
            from samebits.ops.overrides import replaced_by_others

            if reason := replaced_by_others():
                return reason
        return "" if took and context.setting.value == "warn" else super().verify(context)

    def explain(self, error: BaseException) -> str:
        refused = NO_DETERMINISTIC_KERNEL in str(error)
        if refused:
            option = "" if _is_replacing() else "=replace puts a formula in its place or says why not, "
            return f"torch-algorithms is pinned; torch-algorithms{option}=warn lets it pass"
        is_late = NO_WORKSPACE in str(error)
        return "torch-algorithms is pinned, and cuBLAS needs --pin cublas-workspace with it" if is_late else ""


def _call_first(torch: ModuleType) -> None:
    """Call MKL's functions from one thread, so that it picks its kernels; recordings do not see these calls."""
    with torch._C._DisableTorchDispatch():
        for dtype in (torch.float32, torch.float64):
            ones = torch.ones(1, dtype=dtype, device="cpu")
            for name in FIRST_CALLS:
                getattr(torch, name)(ones)


def _replace(torch: ModuleType, context: FactorContext) -> None:
    """Replace operations that race or refuse by formulas of samebits, and count the calls of these."""
    # Imported here: code that reads recordings imports this module without torch.
    from samebits.ops.overrides import CannotReplaceError, forward_site, knows_of_replacements, replace

    lock = RLock()  # a signal handler may train, too

    def heard(name: str) -> None:
        site = forward_site(name) or user_site() or waiting_site()
        # Each device has a thread of its own for the backward.
        with lock:
            context.replaced[name, site] += 1

    try:
        context.undo.callback(replace(heard))
    except CannotReplaceError:
        if context.setting.value is None:
            return
        raise
    getter = "_get_deterministic_algorithms"
    context.set(torch._C, getter, knows_of_replacements(getattr(torch._C, getter)))


def _is_replacing() -> bool:
    ours = sys.modules.get("samebits.ops.overrides")
    return ours is not None and bool(ours.is_replacing())


def _tell(inductor: ModuleType, context: FactorContext, is_on: bool) -> None:
    if hasattr(inductor, "deterministic"):
        set_attribute(context, inductor, "deterministic", is_on)


def _flags(torch: ModuleType) -> tuple[bool, bool]:
    """Whether deterministic algorithms are asked for, and whether only by warnings."""
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _is_before(torch: ModuleType, *version: int) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    return numbers is not None and tuple(map(int, numbers.groups())) < version
