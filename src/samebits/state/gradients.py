"""Gradients that wait for their step: in the middle of an accumulation they are part of the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from samebits.base.errors import StateError
from samebits.base.ranks import current_world
from samebits.state.parameters import own_parameters
from samebits.state.parts import Part, differences, dtype_and_shape, parts_of
from samebits.state.ranks import RankGroup


class WaitingGradients:
    """The gradients of models, on every rank, as an object with a state: for frameworks that save all but gradients.

    Args:
        models: the modules, each under a name: `WaitingGradients(model=model)`.
    """

    def __init__(self, **models: object) -> None:
        self._models = models
        self._ranks = RankGroup()
        parts_of(models)

    def state_dict(self) -> dict[str, Any]:
        """Return the gradients of all ranks, by rank and name; all ranks have to call this, and one of them may save.

        They lie on the CPU, where those of a single rank may be the training's own. There are none after `zero_grad()`.
        """
        gradients = gradients_of(parts_of(self._models))
        are_waiting = self._ranks.is_any(bool(gradients))
        sent = self._ranks.gathered({name: one.cpu() for name, one in gradients.items()}) if are_waiting else []
        return {"world_size": current_world().size, "ranks": {str(rank): one for rank, one in enumerate(sent)}}

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
        for restoring in gradient_restorers(state["ranks"].get(str(rank), {}), parts_of(self._models)):
            restoring()


def gradients_of(parts: Mapping[str, Part]) -> dict[str, torch.Tensor]:
    """Return name → gradient of each parameter that has one; the tensors are torch's own, not copies."""
    first: dict[int, tuple[str, torch.Tensor]] = {}
    for name, one in _parameters_of(parts).items():
        first.setdefault(id(one), (name, one))
    return {name: one.grad.detach() for name, one in first.values() if one.grad is not None}


def gradient_restorers(saved: Mapping[str, torch.Tensor], parts: Mapping[str, Part]) -> list[Callable[[], object]]:
    """Return functions that give each parameter its saved gradient, or None; StateError if a gradient fits none."""
    parameters = _parameters_of(parts)
    unknown = set(saved) - set(parameters)
    if unknown:
        raise StateError(
            f"gradients do not fit: {'; '.join(differences(unknown, set()))}", "make the model as it was made"
        )
    for name, gradient in saved.items():
        # torch's own rule: `grad_dtype` may allow another dtype than the parameter's, or any.
        dtype = getattr(parameters[name], "grad_dtype", parameters[name].dtype) or gradient.dtype
        saved_form, form = dtype_and_shape(gradient), dtype_and_shape(parameters[name], dtype)
        if saved_form != form:
            raise StateError(
                f"the gradient of {name} is {saved_form}, here it has to be {form}",
                "make the model as it was made in the run that saved",
            )
    gradients = {id(parameters[name]): gradient for name, gradient in saved.items()}
    return [
        partial(_put, one, gradients.get(key)) for key, one in {id(one): one for one in parameters.values()}.items()
    ]


def _parameters_of(parts: Mapping[str, Part]) -> dict[str, torch.Tensor]:
    """Return name → parameter of all modules, tensors and optimizers, under every name; numbers in optimizers last."""
    named = dict(own_parameters((name, part.one) for name, part in parts.items()))
    for name, part in parts.items():
        if isinstance(part.one, torch.optim.Optimizer):
            flat = (parameter for group in part.one.param_groups for parameter in group["params"])
            named |= {f"{name}.{number}": parameter for number, parameter in enumerate(flat)}
    return named


def _put(parameter: torch.Tensor, gradient: torch.Tensor | None) -> None:
    parameter.grad = None if gradient is None else gradient.clone().to(parameter.device)
