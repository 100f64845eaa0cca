"""Train and eval mode, module by module; and preserved(), within which neither modes nor generators move for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch

from samebits.base.errors import StateError
from samebits.base.modules import inner_modules
from samebits.rng.handles import process_generators, restore, states_of
from samebits.rng.states import every_generator
from samebits.state.parts import differences, objects_of, unwrapped


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


def modes_of(objects: Mapping[str, object]) -> dict[str, list[str]]:
    """Name → which of its modules are in training mode."""
    return {
        name: [inner for inner, module in inner_modules(unwrapped(one)) if module.training]
        for name, one in objects.items()
        if isinstance(unwrapped(one), torch.nn.Module)
    }


def restoring_modes(saved: Mapping[str, list[str]], objects: Mapping[str, object]) -> list[Callable[[], object]]:
    """What brings train and eval mode back, but for parts that were taken out; StateError where a module is missing."""
    saved = {name: training for name, training in saved.items() if name in objects}
    inner = {name: inner_modules(unwrapped(objects[name])) for name in saved}
    unknown = {f"{name}.{way}" for name in saved for way in set(saved[name]) - {way for way, _ in inner[name]}}
    if unknown:
        raise StateError(f"modes do not fit: {'; '.join(differences(unknown, set()))}", "make the model as it was made")
    return [partial(_switch, inner[name], set(training)) for name, training in saved.items()]


def _switch(modules: list[tuple[str, torch.nn.Module]], training: set[str]) -> None:
    # Not train(): a module may have overridden it, and it goes down to the children.
    for name, module in modules:
        module.training = name in training
