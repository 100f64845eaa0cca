"""The events of a training, as plain data: taps report them, and listeners need to know no library's hooks."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto


class Event(Enum):
    """A reported event; the comment behind each lists the facts that come with it."""

    CALLED = auto()  # module, arguments: of a call that the program itself makes
    RETURNED = auto()  # module, result
    COPIED = auto()  # module
    LOADED = auto()  # module
    BACKWARD_BEGINS = auto()  # the tensors that are differentiated, whether gradients are left in leaves
    BACKWARD_ENDS = auto()  # of `torch.autograd.grad` its gradients and its inputs, of `backward` nothing
    BACKWARD_FAILED = auto()
    DERIVED = auto()  # (value, tangents), primals: of a forward-mode derivative
    OPTIMIZER_MADE = auto()  # optimizer
    STEP_BEGINS = auto()  # optimizer, whether the step computes its gradients itself, in a closure
    STEP_ENDS = auto()  # optimizer
    REPLAYED = auto()  # optimizers whose steps are in a CUDA graph that ran
    ITERATES = auto()  # loader
    ITERATED = auto()  # loader, iterator
    DRAWS = auto()  # iterator: it asks its sampler for indices
    DRAWN = auto()  # iterator, indices
    FETCHES = auto()  # iterator
    FETCHED = auto()  # iterator, batch
    SAVES = auto()  # the object that is about to be saved
    PASSED = auto()  # a `SaveOrLoad`, after the save or load has returned
    JOB_ENDS = auto()  # of a worker of an executor; or a thread has ended
    ROW_ENDED = auto()  # log: of the main lane only
    ENDS = auto()  # no event follows


Tell = Callable[..., None]
