"""Train and eval mode of each module; and preserved(), which restores modes and generators at its end."""

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
    """Restore every generator when the block ends, also after an exception, so that draws within leave no trace.

    Use it for an evaluation in mid-training, or for anything else that draws and must not change what comes after it.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> with preserved():
    ...     evaluation = torch.rand(3)
    >>> torch.equal(torch.rand(3), evaluation)
    True

    The global generators of Python, NumPy and torch are restored, on the CPU and on accelerators. The generator of an
    accelerator that is first used within starts from its seed again. Nothing else is touched, except in `objects`.

    Args:
        objects: models, datasets and loaders, also in lists or dicts. The generators that they hold are restored as
            well, and so is train or eval mode of modules: after `model.eval()` no `model.train()` is needed.
    """
    given = dict(objects_of({str(number): one for number, one in enumerate(objects)}))
    before = process_generators()
    states = states_of(every_generator(*given.items()).values())
    switches = mode_restorers(modes_of(given), given)
    try:
        yield
    finally:
        for name, generator in process_generators().items():
            if name.startswith("torch ") and name not in before:
                generator.manual_seed(generator.initial_seed())
        restore(states)
        for switch in switches:
            switch()


def modes_of(objects: Mapping[str, object]) -> dict[str, list[str]]:
    """Return name → paths of the modules in training mode, for each object that is a module."""
    return {
        name: [inner for inner, module in inner_modules(unwrapped(one)) if module.training]
        for name, one in objects.items()
        if isinstance(unwrapped(one), torch.nn.Module)
    }


def mode_restorers(saved: Mapping[str, list[str]], objects: Mapping[str, object]) -> list[Callable[[], object]]:
    """Return functions that restore the modes of the modules in `objects`; StateError if a module in one is missing."""
    saved = {name: training for name, training in saved.items() if name in objects}
    inner = {name: inner_modules(unwrapped(objects[name])) for name in saved}
    unknown = {f"{name}.{way}" for name in saved for way in set(saved[name]) - {way for way, _ in inner[name]}}
    if unknown:
        raise StateError(f"modes do not fit: {'; '.join(differences(unknown, set()))}", "make the model as it was made")
    return [partial(_switch, inner[name], set(training)) for name, training in saved.items()]


def _switch(modules: list[tuple[str, torch.nn.Module]], training: set[str]) -> None:
    # Not train(): a module may have overridden it, and it changes the children as well.
    for name, module in modules:
        module.training = name in training
