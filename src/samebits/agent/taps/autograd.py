"""The tap of autograd: `backward`, `torch.autograd.grad` and forward-mode derivatives."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import torch

from samebits.agent.events import Event, Tell
from samebits.agent.taps.listening import listen


def install(stack: ExitStack, tell: Tell) -> None:
    """Report everything that computes gradients."""

    def failed(*_: object) -> None:
        tell(Event.BACKWARD_FAILED)

    def backward(*args: object, **kwargs: object) -> None:
        tell(Event.BACKWARD_BEGINS, args[0] if args else kwargs.get("tensors"), True)

    def backward_done(*_: object, **__: object) -> None:
        tell(Event.BACKWARD_ENDS)

    def grad(*args: object, **kwargs: object) -> None:
        tell(Event.BACKWARD_BEGINS, args[0] if args else kwargs.get("outputs"), False)

    def grad_done(gradients: object, *args: object, **kwargs: object) -> None:
        tell(Event.BACKWARD_ENDS, gradients, args[1] if len(args) > 1 else kwargs.get("inputs"))

    def derived(result: object, function: object, primals: object, *_: object, **__: object) -> None:
        tell(Event.DERIVED, result, primals)

    stack.callback(listen(torch.autograd, "backward", backward, backward_done, failed))
    stack.callback(listen(torch.autograd, "grad", grad, grad_done, failed))
    functorch: object = sys.modules.get("torch._functorch.eager_transforms")
    if hasattr(functorch, "_jvp_with_argnums"):
        stack.callback(listen(functorch, "_jvp_with_argnums", after=derived))
