"""Gradients that wait for their step, as a part of its own: for frameworks that save everything but these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samebits.base.errors import StateError
from samebits.base.ranks import rank_and_world_size
from samebits.state.parts import parts_of
from samebits.state.sections import gradients_of, parameters_of, restoring_gradients
from samebits.state.together import Together


class WaitingGradients:
    """The gradients of some models, on every rank, between two steps of an accumulation.

    Args:
        models: name → module.
    """

    def __init__(self, **models: object) -> None:
        self._parts = parts_of(models)
        self._together = Together()

    def state_dict(self) -> dict[str, Any]:
        """All ranks' gradients, by rank and name; all ranks have to ask for it, and any one may save it.

        Tensors of this rank are those of the training, others lie on the CPU. There are none after `zero_grad()`.
        """
        if not self._together.is_current():
            self._together = Together()
        own = gradients_of(self._parts)
        if not self._together.is_any(bool(own)):
            return {"world_size": self._together.world_size, "ranks": {}}
        sent = self._together.said({name: one.cpu() for name, one in own.items()})
        return {"world_size": self._together.world_size, "ranks": {str(rank): one for rank, one in enumerate(sent)}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Give every parameter the gradient that it had on this rank, or none.

        Raises:
            StateError: gradients waited on another number of ranks, or fit no parameter.
        """
        rank, world_size = rank_and_world_size()
        if state["ranks"] and state["world_size"] != world_size:
            raise StateError(
                f"gradients of {state['world_size']} ranks wait for their step, and here world_size is {world_size}",
                "resume with as many ranks, or from a checkpoint that was saved after a whole step",
            )
        for restoring in restoring_gradients(state["ranks"].get(str(rank), {}), parameters_of(self._parts)):
            restoring()
