"""What happens in a training, as plain events: taps tell of them, and whoever is told knows no library's hooks."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto


class Event(Enum):
    """What is told; behind each, the facts that come with it."""

    CALLED = auto()  # module, arguments: the program itself calls it
    RETURNED = auto()  # module, result
    COPIED = auto()  # module
    LOADED = auto()  # module
    BACKWARD_BEGINS = auto()  # what gradients are computed of, whether they are left in leaves
    BACKWARD_ENDS = auto()  # the gradients and what they were asked for, where they were asked for
    BACKWARD_FAILED = auto()
    DERIVED = auto()  # value and tangents, primals: of a forward-mode derivative
    OPTIMIZER_MADE = auto()  # optimizer
    STEP_BEGINS = auto()  # optimizer, whether it computes its gradients itself
    STEP_ENDS = auto()  # optimizer
    REPLAYED = auto()  # optimizers whose steps are in a CUDA graph that ran
    ITERATES = auto()  # loader
    ITERATED = auto()  # loader, iterator
    DRAWS = auto()  # iterator: it asks its sampler
    DRAWN = auto()  # iterator, indices
    FETCHES = auto()  # iterator
    FETCHED = auto()  # iterator, batch
    SAVES = auto()  # what is about to be saved
    PASSED = auto()  # a `Passage`, when it is through
    THREAD_ENDS = auto()
    ROW_ENDED = auto()  # log: of the recorder's own main thread
    ENDS = auto()  # nothing comes any more


Tell = Callable[..., None]
