"""Operations on tensors that nothing of the user's sees."""

from __future__ import annotations

from typing import Any

import torch

_core: Any = torch._C
# The first guard keeps operations out of autograd's graph and tangents; the others hide them from the user's dispatch
# and function modes (a default device is one) and from vmap and similar transforms.
_NAMES = ("_AutoDispatchBelowAutograd", "_DisableTorchDispatch", "DisableTorchFunction", "_DisableFuncTorch")
_guards = [getattr(_core, name) for name in _NAMES if hasattr(_core, name)]
_tracing_state: Any = getattr(_core, "_get_tracing_state", lambda: None)
# Names that this torch lacks: without them, operations may be seen.
MISSING = tuple(f"torch._C.{name}" for name in (*_NAMES, "_get_tracing_state") if not hasattr(_core, name))


class unobserved:
    """A block whose torch operations nothing sees: no graph, no mode of the user's, no transform."""

    # A class instead of a decorated generator: it is entered a dozen times a step, and takes 1.4 instead of 3 µs.
    __slots__ = ("_guards", "_tracing")

    def __enter__(self) -> None:
        # torch.jit.trace records operations. Its state is set only while it is at work: elsewhere that is forbidden.
        self._tracing = _tracing_state()
        if self._tracing is not None:
            _core._set_tracing_state(None)
        self._guards = [guard() for guard in _guards]
        for guard in self._guards:
            guard.__enter__()

    def __exit__(self, *raised: object) -> None:
        for guard in reversed(self._guards):
            guard.__exit__(*raised)
        if self._tracing is not None:
            _core._set_tracing_state(self._tracing)
