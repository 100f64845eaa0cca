"""Gradients that wait for their step: in the middle of an accumulation they are part of the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch

from samebits.base.errors import StateError
from samebits.base.modules import inner_modules
from samebits.base.ranks import current_world
from samebits.state.parts import Part, differences, dtype_and_shape, parts_of
from samebits.state.ranks import RankGroup


class WaitingGradients:
    """The gradients of models, on every rank, as an object with a state: for frameworks that save all but gradients.

    Args:
        models: the modules, each under a name: `WaitingGradients(model=model)`.
    """

    def __init__(self, **models: object) -> None:
        self._parts = parts_of(models)
        self._ranks = RankGroup()

    def state_dict(self) -> dict[str, Any]:
        """Return the gradients of all ranks, by rank and name; all ranks have to call this, and one of them may save.

        They lie on the CPU, where those of a single rank may be the training's own. There are none after `zero_grad()`.
        """
        gradients = gradients_of(self._parts)
        are_waiting = self._ranks.is_any(bool(gradients))
        sent = self._ranks.gathered({name: one.cpu() for name, one in gradients.items()}) if are_waiting else []
        return {"world_size": self._ranks.world.size, "ranks": {str(rank): one for rank, one in enumerate(sent)}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Give each parameter the gradient that it had on this rank; without one, its gradient is None.

        Raises:
            StateError: the gradients are those of another number of ranks, or one fits no parameter.
        """
        rank, world_size = current_world()
        if state["ranks"] and state["world_size"] != world_size:
            raise StateError(
                f"gradients of {state['world_size']} ranks that wait for their step, and here are {world_size} ranks",
                "resume with as many ranks, or from a checkpoint that was saved after a whole step",
            )
        for restoring in gradient_restorers(state["ranks"].get(str(rank), {}), self._parts):
            restoring()


def gradients_of(parts: Mapping[str, Part]) -> dict[str, torch.Tensor]:
    """Return name → gradient of each parameter that has one; the tensors are torch's own, not copies."""
    return {name: one.grad.detach() for name, one in _parameters_of(parts).items() if one.grad is not None}


def gradient_restorers(saved: Mapping[str, torch.Tensor], parts: Mapping[str, Part]) -> list[Callable[[], object]]:
    """Return functions that give each parameter its saved gradient, or None; StateError if a gradient fits none."""
    parameters = _parameters_of(parts)
    unknown = set(saved) - set(parameters)
    if unknown:
        raise StateError(
            f"gradients do not fit: {'; '.join(differences(unknown, set()))}", "make the model as it was made"
        )
    for name, gradient in saved.items():
        saved_form, form = dtype_and_shape(gradient), dtype_and_shape(parameters[name])
        if saved_form != form:
            raise StateError(
                f"the gradient of {name} is {saved_form}, the parameter is {form}",
                "make the model as it was made in the run that saved",
            )
    return [partial(_put, one, saved.get(name)) for name, one in parameters.items()]


def _parameters_of(parts: Mapping[str, Part]) -> dict[str, torch.Tensor]:
    """Return name → parameter of all modules, optimizers and tensors; each parameter only under its first name."""
    by_id: dict[int, tuple[str, torch.Tensor]] = {}
    for name, part in parts.items():
        for way, parameter in _parameters(name, part.one):
            by_id.setdefault(id(parameter), (way, parameter))
    return dict(by_id.values())


def _parameters(name: str, one: object) -> Iterable[tuple[str, torch.Tensor]]:
    if isinstance(one, torch.nn.Module):
        for way, module in inner_modules(one):
            for inner, parameter in module._parameters.items():
                if parameter is not None:
                    yield f"{name}.{way}.{inner}" if way else f"{name}.{inner}", parameter
    elif isinstance(one, torch.optim.Optimizer):
        flat = (parameter for group in one.param_groups for parameter in group["params"])
        yield from ((f"{name}.{number}", parameter) for number, parameter in enumerate(flat))
    elif isinstance(one, torch.Tensor) and one.is_leaf:
        yield name, one


def _put(parameter: torch.Tensor, gradient: torch.Tensor | None) -> None:
    parameter.grad = None if gradient is None else gradient.clone().to(parameter.device)
