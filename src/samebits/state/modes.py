"""Train and eval mode of each module; and preserved(), which restores modes and generators at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

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
    given = objects_of({str(number): one for number, one in enumerate(objects)})
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


def modes_of(objects: Mapping[str, object]) -> dict[str, dict[str, list[str]]]:
    """Return name → paths of the modules in training mode, and in eval mode, for each object that is a module."""
    return {
        name: {
            mode: [inner for inner, module in inner_modules(unwrapped(one)) if module.training == (mode == "training")]
            for mode in ("training", "eval")
        }
        for name, one in objects.items()
        if isinstance(unwrapped(one), torch.nn.Module)
    }


def mode_restorers(saved: Mapping[str, Any], objects: Mapping[str, object]) -> list[Callable[[], object]]:
    """Return functions that restore the modes of the modules in `objects`; StateError if one is missing."""
    restorers = list[Callable[[], object]]()
    for name, modes in saved.items():
        if name not in objects:
            continue
        modules = dict(inner_modules(unwrapped(objects[name])))
        if isinstance(modes, list):
            # The first version of states listed the modules in training mode only.
            modes = {"training": modes, "eval": [way for way in modules if way not in modes]}
        before, after = ({f"{name}.{way}" for way in ways} for ways in ([*modes["training"], *modes["eval"]], modules))
        if before != after:
            raise StateError(f"modes do not fit: {'; '.join(differences(before, after))}", "make the model as it was")
        restorers.append(partial(_switch, modules, set(modes["training"])))
    return restorers


def _switch(modules: Mapping[str, torch.nn.Module], training: set[str]) -> None:
    # Not train(): a module may have overridden it, and it changes the children as well.
    for name, module in modules.items():
        module.training = name in training
