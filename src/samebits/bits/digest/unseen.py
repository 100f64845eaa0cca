"""Doing things with tensors that nothing of the user's sees."""

from __future__ import annotations

from typing import Any

import torch

_core: Any = torch._C


class unobserved:
    """Torch operations inside concern no one: no graph, no mode of the user's, no transform sees them."""

    # A class, and no generator with a decorator: this is entered a dozen times a step, and takes 1.4 instead of 3 µs.
    __slots__ = ("_guards", "_tracing")

    def __enter__(self) -> None:
        # torch.jit.trace writes down what it sees. Only where it is at work: setting its state is forbidden elsewhere.
        self._tracing = _core._get_tracing_state()
        if self._tracing is not None:
            _core._set_tracing_state(None)
        # Below autograd nothing enters a graph and tangents stay out; the others hide what we do from the user's
        # dispatch and function modes (a default device is one) and from vmap and its kin.
        self._guards = (
            _core._AutoDispatchBelowAutograd(),
            _core._DisableTorchDispatch(),
            _core.DisableTorchFunction(),
            _core._DisableFuncTorch(),
        )
        for guard in self._guards:
            guard.__enter__()

    def __exit__(self, *raised: object) -> None:
        for guard in reversed(self._guards):
            guard.__exit__(*raised)
        if self._tracing is not None:
            _core._set_tracing_state(self._tracing)
