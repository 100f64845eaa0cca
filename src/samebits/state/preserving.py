"""preserved(): what is drawn within does not move the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from samebits.rng.handles import process_generators, restore, states_of
from samebits.rng.states import every_generator, X
from samebits.state.parts import objects_of
from samebits.state.sections import modes_of, restoring_modes


@contextmanager
def preserved(*objects: object) -> Iterator[None]:
    """Let whatever is drawn within leave no trace: every generator is brought back, also after an exception.

    For an evaluation in mid-training, or for anything else that draws and must not change what comes after it.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> with preserved():
    ...     evaluation = torch.rand(3)
    >>> torch.equal(torch.rand(3), evaluation)
    True

    Brought back are the global generators of Python, NumPy and torch, on the CPU and on accelerators. Those of an
    accelerator that is first used within start from their seed again. Nothing else is touched, unless it is given.

    Args:
        objects: models, datasets and loaders, also in lists or dicts: generators that they hold are brought back as
            well, and of modules train and eval mode, so that `model.eval()` needs no `model.train()`.
    """
    given = dict(objects_of({str(number): one for number, one in enumerate(objects)}))
    before = process_generators()
    states = states_of(every_generator(*given.items()).values())
    switches = restoring_modes(modes_of(given), given)
    try:
        yield
    finally:
        for name, one in process_generators().items():
            if name.startswith("torch ") and name not in before:
                one.manual_seed(one.initial_seed())
        restore(states)
        for switch in switches:
            switch()
