"""What each rank has of its own: generators, gradients that wait for their step, and train or eval mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from samebits.base.errors import StateError
from samebits.base.modules import inner_modules
from samebits.rng.states import UnfitStateError, packed_state, restoring
from samebits.state.parts import Part, differences, unwrapped

# What a sealed section has for keys.
STATE, CONTENTS = "state", "contents"


def sealed(state: object, names: Iterable[str]) -> dict[str, Any]:
    """A section with a list of what is in it.

    `torch.distributed.checkpoint` loads what it finds in a state dict that it is given, and passes over what it does
    not find there; the list, which it does load, shows what was passed over.
    """
    return {STATE: state, CONTENTS: sorted(names)}


def opened(name: str, section: object, names: Callable[[Any], Iterable[str]]) -> Any:
    """What a sealed section holds.

    Raises:
        StateError: something was lost on the way, or it is no section.
    """
    if not isinstance(section, Mapping) or set(section) != {STATE, CONTENTS}:
        raise StateError(f"this is no state of a training: {name} is {_kind(section)}", "give what state_dict() made")
    listed, there = set(section[CONTENTS]), set(names(section[STATE]))
    if listed != there:
        lost = "; ".join(differences(listed, there)).replace("which is not here", "which was not loaded")
        raise StateError(
            f"{name} was not loaded whole: {lost}",
            "torch.distributed.checkpoint loads only what is there already: for an optimizer, call "
            "torch.distributed.checkpoint.state_dict.get_optimizer_state_dict() before; save without gradients",
        )
    return section[STATE]


def _kind(section: object) -> str:
    return "missing" if section is None else f"a {type(section).__name__}"


# ---- generators


def packed_generators(generators: Mapping[str, object]) -> dict[str, Any]:
    """Name → state of each."""
    return {name: packed_state(one) for name, one in generators.items()}


def restoring_generators(
    saved: Mapping[str, object], live: Mapping[str, object], optional: tuple[str, ...]
) -> list[Callable[[], object]]:
    """What gives every generator the state that was saved under its name.

    Args:
        saved: name → state.
        live: name → generator.
        optional: beginnings of names of generators that need no state: loaders of samebits start them anew with every
            sample.

    Raises:
        StateError: one is missing on either side, or is of another kind.
    """
    before = {name for name in saved if name in live or not name.startswith(optional)}
    after = {name for name in live if name in saved or not name.startswith(optional)}
    if before != after:
        raise StateError(
            f"generators do not fit their states: {'; '.join(differences(before, after))}",
            "have the same generators, on the same number of devices, before a state is loaded; make those that are "
            "made late before that",
        )
    try:
        return [restoring(live[name], saved[name]) for name in sorted(before)]
    except UnfitStateError as error:
        name = next(name for name in sorted(before) if not _fits(live[name], saved[name]))
        raise StateError(f"the generator {name} does not fit its state: {error}", "have the same generator") from error


def _fits(generator: object, state: object) -> bool:
    try:
        restoring(generator, state)
    except UnfitStateError:
        return False
    return True


# ---- gradients


def parameters_of(parts: Mapping[str, Part], only_waiting: bool = False) -> dict[str, torch.Tensor]:
    """Name → parameter, of modules, of optimizers beyond them, and of tensors.

    Args:
        parts: of the training.
        only_waiting: those with a gradient.
    """
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for name, part in parts.items():
        for way, parameter in _parameters(part.one, only_waiting):
            if id(parameter) not in found:
                found[id(parameter)] = (".".join(filter(None, (name, *way))), parameter)
    return dict(found.values())


def _parameters(one: object, only_waiting: bool) -> Iterable[tuple[tuple[str, ...], torch.Tensor]]:
    """Parts of the name, and parameter; names are put together only where they are needed."""
    if isinstance(one, torch.nn.Module):
        for way, module in inner_modules(one):
            for name, parameter in module._parameters.items():
                if parameter is not None and not (only_waiting and parameter.grad is None):
                    yield (way, name), parameter
    elif isinstance(one, torch.optim.Optimizer):
        flat = (parameter for group in one.param_groups for parameter in group["params"])
        for number, parameter in enumerate(flat):
            if not (only_waiting and parameter.grad is None):
                yield (str(number),), parameter
    elif isinstance(one, torch.Tensor) and one.is_leaf and not (only_waiting and one.grad is None):
        yield (), one


def gradients_of(parts: Mapping[str, Part]) -> dict[str, torch.Tensor]:
    """Name → gradient, of parameters that have one; torch's own tensors, not copies."""
    waiting = parameters_of(parts, only_waiting=True)
    return {name: one.grad.detach() for name, one in waiting.items() if one.grad is not None}


def restoring_gradients(
    saved: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
) -> list[Callable[[], object]]:
    """What gives every parameter its gradient back, or none.

    Raises:
        StateError: a gradient has no parameter, or one of another shape.
    """
    unknown = set(saved) - set(parameters)
    if unknown:
        raise StateError(
            f"gradients do not fit: {'; '.join(differences(unknown, set()))}", "make the model as it was made"
        )
    for name, gradient in saved.items():
        if gradient.shape != parameters[name].shape or gradient.dtype != parameters[name].dtype:
            raise StateError(
                f"the gradient of {name} is {gradient.dtype} of shape {tuple(gradient.shape)}, the parameter is "
                f"{parameters[name].dtype} of shape {tuple(parameters[name].shape)}",
                "make the model as it was made in the run that saved",
            )
    return [_setting(one, saved.get(name)) for name, one in parameters.items()]


def _setting(parameter: torch.Tensor, gradient: torch.Tensor | None) -> Callable[[], object]:
    def put() -> None:
        parameter.grad = None if gradient is None else gradient.clone().to(parameter.device)

    return put


# ---- modes


def modes_of(modules: Mapping[str, object]) -> dict[str, list[str]]:
    """Name → which of its modules are in training mode."""
    return {
        name: [inner for inner, module in inner_modules(unwrapped(one)) if module.training]
        for name, one in modules.items()
        if isinstance(unwrapped(one), torch.nn.Module)
    }


def restoring_modes(saved: Mapping[str, list[str]], modules: Mapping[str, object]) -> list[Callable[[], object]]:
    """What brings train and eval mode back, module by module; of a part that was taken out of the state there is none.

    Raises:
        StateError: a module is missing.
    """
    saved = {name: training for name, training in saved.items() if name in modules}
    unknown = {
        f"{name}.{inner}"
        for name, training in saved.items()
        for inner in set(training) - {way for way, _ in inner_modules(unwrapped(modules[name]))}
    }
    if unknown:
        raise StateError(f"modes do not fit: {'; '.join(differences(unknown, set()))}", "make the model as it was made")
    return [_switching(unwrapped(modules[name]), set(training)) for name, training in saved.items()]


def _switching(module: torch.nn.Module, training: set[str]) -> Callable[[], object]:
    def switch() -> None:
        # Not train(): a module may have overridden it, and it goes down to the children.
        for name, inner in inner_modules(module):
            inner.training = name in training

    return switch
