"""Training: everything that a training consists of, as one state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Literal, get_args

import torch
import torch.utils.data

from samebits.base.errors import StateError, StateWarning, UsageError
from samebits.base.ranks import current_world
from samebits.data.loader import DataLoader, whole_number
from samebits.rng.packing import leaves
from samebits.rng.states import every_generator, packed_state, wake_owner
from samebits.state.checkpoints import CheckpointFolder
from samebits.state.generators import generator_restarters, generator_restorers
from samebits.state.gradients import gradient_restorers, gradients_of
from samebits.state.modes import mode_restorers, modes_of
from samebits.state.parts import (
    WEIGHTS,
    Part,
    Restoring,
    checked_contents,
    differences,
    is_positionless,
    objects_of,
    parts_of,
    paths_in,
    with_contents,
)
from samebits.state.preemption import Preemption
from samebits.state.ranks import RankGroup
from samebits.state.reranking import joined, section_for_any

VERSION = 2
OfRanks = Literal["same", "any"]


class Training:
    """Everything that a training consists of, as one state: restored from it, the training ends in the same bits.

    >>> training = Training(model=model, optimizer=optimizer, scheduler=scheduler, loader=loader)
    >>> for step in training.steps(10_000, "checkpoints", every=500):
    ...     train_one_step()

    The state holds the states of all parts; every generator of the process (the global ones of Python, NumPy and torch,
    on every device in use) and every generator that the parts hold; the gradients that wait for their step; train or
    eval mode of every module; and the number of steps that are done.

    Args:
        model: a module; of DistributedDataParallel and torch.compile, the module within is used.
        optimizer: one of torch's, or an object with `state_dict()` and `load_state_dict()`.
        scheduler: scheduler of the learning rate.
        loader: a `samebits.data.DataLoader`, which resumes with the next batch; torch's resumes with a new epoch only.
        scaler: gradient scaler, for mixed precision.
        averaged: averaged weights: a module, or tensors.
        others: everything else that changes during the training, each under a name: objects with `state_dict()` and
            `load_state_dict()`, tensors, and generators, also those that a dataset or a sampler holds. Every part may
            also be a list or a dict of such objects. None is no part.

    Attributes:
        steps_done: number of steps that are done; `save`, `resume`, `steps` and `load_state_dict` set it.

    Raises:
        UsageError: a part has neither a state nor generators.
    """

    def __init__(
        self,
        *,
        model: object = None,
        optimizer: object = None,
        scheduler: object = None,
        loader: object = None,
        scaler: object = None,
        averaged: object = None,
        **others: object,
    ) -> None:
        given = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "loader": loader, "scaler": scaler}
        self.given = {**given, "averaged": averaged, **others}
        self.steps_done = 0
        self._group = RankGroup()
        parts_of(self.given)
        _warn_of_loaders(self.objects)

    @property
    def objects(self) -> dict[str, object]:
        """Name → object of everything that was given, as the lists and dicts among it are now."""
        return objects_of(self.given)

    @property
    def parts(self) -> dict[str, Part]:
        """Name → part of all that has a state."""
        return parts_of(self.given)

    def state_dict(self, gradients: bool = True) -> dict[str, Any]:
        """Return the whole state as tensors, numbers, strings, lists and dicts; nothing is drawn or changed.

        `torch.load(weights_only=True)` reads it back, and `torch.distributed.checkpoint` can save it. As in torch's own
        state dicts, tensors are those of the training, not copies: save or copy them before the training continues.

        Args:
            gradients: include the gradients that are there. After `zero_grad()` there are none.

        Raises:
            StateError: the state of a part holds something that is neither tensor, number nor text.
            UsageError: `steps_done` is no number of steps; or a list or dict has other objects now, which are no parts.
        """
        rank, world_size = current_world()
        return {
            "version": VERSION,
            "steps_done": _checked_step(self.steps_done),
            "world_size": world_size,
            "parts": self._packed(is_shared=True),
            "ranks": {str(rank): self._rank_section(gradients)},
        }

    def load_state_dict(self, state: Mapping[str, Any], ranks: OfRanks = "same") -> None:
        """Restore everything, or, if something does not fit, nothing.

        Args:
            state: what `state_dict` returned.
            ranks: `same`, or `any` to accept a state of another number of ranks. All that the ranks share, and the
                position of a samebits loader, is then taken from the state. Generators continue as on its first rank;
                those that are seen to have differed between ranks start anew, on each rank from a seed of its own.

        Raises:
            StateError: something is missing, or not in this training, or has another shape, dtype, number of devices
                or number of ranks. The message names it.
        """
        self._restore(self._checked(state, ranks, copies=True))
        self.steps_done = int(state["steps_done"])

    def save(self, folder: str | Path, step: int, keep: int = 3, gradients: bool = True) -> Path:
        """Write a checkpoint, whole or not at all; with several ranks, all have to call this.

        Args:
            folder: folder of the checkpoints; other files in it are left alone.
            step: number of steps that are done, which is also the number of the step to continue with.
            keep: how many checkpoints to keep, at least 1; older ones are removed.
            gradients: as for `state_dict`.

        Returns:
            The folder of this checkpoint.

        Raises:
            StorageError: the checkpoint could not be written; earlier ones are unchanged.
            StateError: as for `state_dict`; or there are several ranks, and torch.distributed is not initialised.
            UsageError: `keep` is less than 1, or `step` is no whole number from 0 on.
        """
        _assert_positive(keep=keep)
        self.steps_done = _checked_step(step)
        checkpoints = CheckpointFolder(Path(folder), self._group)
        return checkpoints.save(self.steps_done, lambda: self._for_a_file(gradients), keep)

    def resume(self, folder: str | Path, ranks: OfRanks = "same") -> int | None:
        """Restore the newest checkpoint that is intact; with several ranks, all have to call this.

        Checkpoints that are damaged, unfinished or without manifest are passed over, and named in a `StateWarning`.

        Args:
            folder: folder of the checkpoints.
            ranks: as for `load_state_dict`.

        Returns:
            The number of the step to continue with; None if there is no checkpoint.

        Raises:
            StateError: as for `load_state_dict`; or there are checkpoints, and none of them is intact.
        """
        states = CheckpointFolder(Path(folder), self._group).newest_states()
        if not states:
            return None
        # If the state does not fit on one rank, it is restored on none.
        restorings: list[Restoring] = []
        self._group.done_by_all(
            lambda: restorings.extend(self._checked(joined(states, self.parts), ranks, copies=False))
        )
        self._restore(restorings)
        self.steps_done = int(states[0]["steps_done"])
        return self.steps_done

    def steps(
        self, total: int, folder: str | Path, every: int = 1000, keep: int = 3, ranks: OfRanks = "same"
    ) -> Iterator[int]:
        """The numbers of the remaining steps, from 0: resumes first; saves in between, at the end, and on SIGTERM.

        A checkpoint is written every `every` steps, after the last one, and when the process is asked to end
        (see `preemptible`). A loop that is left by `break` or by an exception saves nothing.

        Args:
            total: number of steps of the whole training.
            folder: folder of the checkpoints.
            every: number of steps between two checkpoints.
            keep: how many checkpoints to keep.
            ranks: as for `load_state_dict`.

        Raises:
            UsageError: `every` or `keep` is less than 1; before the first step.
        """
        _assert_positive(every=every, keep=keep)
        begin = self.resume(folder, ranks) or 0
        with self.preemptible(folder, keep) as preemption:
            for step in range(begin, total):
                yield step
                self.steps_done = step + 1
                preemption.end_if_asked(self.steps_done)
                if self.steps_done % every == 0 or self.steps_done == total:
                    self.save(folder, self.steps_done, keep)

    def preemptible(self, folder: str | Path, keep: int = 3) -> Preemption:
        """Return a context in which SIGTERM ends the process only at `end_if_asked`, after writing a checkpoint.

        >>> with training.preemptible("checkpoints") as preemption:
        ...     for step in range(begin, total):
        ...         train_one_step()
        ...         preemption.end_if_asked(step + 1)

        Args:
            folder: folder of the checkpoints.
            keep: how many checkpoints to keep.
        """
        _assert_positive(keep=keep)
        return Preemption(self._group, lambda step: self.save(folder, step, keep))

    # ---- what state_dict is made of

    def _for_a_file(self, gradients: bool) -> dict[str, Any]:
        state = self.state_dict(gradients)
        for way, value in leaves(state):
            if isinstance(value, torch.Tensor) and type(value) is not torch.Tensor:
                raise StateError(
                    f"{way} is a {type(value).__module__}.{type(value).__qualname__}, which torch.load with "
                    "weights_only=True would refuse to read",
                    "write a training that is spread over devices with torch.distributed.checkpoint",
                )
        return state

    def _packed(self, is_shared: bool) -> dict[str, Any]:
        states = {name: part.packed() for name, part in self.parts.items() if part.is_shared == is_shared}
        return {name: with_contents(state, paths_in(state)) for name, state in states.items()}

    def _rank_section(self, gradients: bool) -> dict[str, Any]:
        generators = {name: packed_state(one) for name, one in self._generators().items()}
        waiting = gradients_of(self.parts) if gradients else {}
        modes = modes_of(self.objects)
        return {
            "parts": self._packed(is_shared=False),
            "generators": with_contents(generators, generators),
            "gradients": with_contents(waiting, waiting),
            "modes": with_contents(modes, modes),
        }

    def _generators(self) -> dict[str, object]:
        return every_generator(*self.objects.items(), beside=tuple(_loader_internals(self.objects)))

    # ---- what load_state_dict is made of

    def _checked(self, state: Any, ranks: OfRanks, copies: bool) -> list[Restoring]:
        """Check a whole state, and return what restores it, in order."""
        _check_head(state, ranks)
        section = self._section(state, ranks)
        saved = {**state["parts"], **section["parts"]}
        parts = self.parts
        if saved.keys() != parts.keys():
            raise StateError(
                f"the parts do not fit the state: {'; '.join(differences(set(saved), set(parts)))}",
                "give Training the parts that it had in the run that saved",
            )
        checked = {
            name: part.restoring(checked_contents(name, saved[name], paths_in), copies) for name, part in parts.items()
        }
        # Weights come last: they are checked tensor by tensor, so nothing has to be kept to undo them. What is of the
        # user's own classes comes first, as that is the likeliest to fail.
        in_order = sorted(parts, key=lambda name: (isinstance(parts[name], WEIGHTS), parts[name].is_shared))
        return [*(checked[name] for name in in_order), *map(Restoring, self._own(state, section))]

    def _section(self, state: Mapping[str, Any], ranks: OfRanks) -> Mapping[str, Any]:
        rank, world_size = current_world()
        if state["world_size"] != world_size:
            if ranks == "same":
                raise StateError(
                    f"the state was saved with world_size={state['world_size']}, here it is {world_size}",
                    "resume with as many ranks, or with ranks='any' if nothing but samebits.data draws",
                )
            return section_for_any(state, self._keyed())
        section: Mapping[str, Any] | None = state["ranks"].get(str(rank))
        if section is None:
            raise StateError(
                f"the state is of rank {', '.join(state['ranks'])}, this is rank {rank}", "load the state of this rank"
            )
        return section

    def _own(self, state: Mapping[str, Any], section: Mapping[str, object]) -> list[Callable[[], object]]:
        generators, gradients, modes = (
            checked_contents(name, section[name]) for name in ("generators", "gradients", "modes")
        )
        for name in generators:
            wake_owner(name)
        live = self._generators()
        rank, world_size = current_world()
        return [
            *gradient_restorers(gradients, self.parts),
            *mode_restorers(modes, self.objects),
            # Generators come last: restoring something else may draw.
            *generator_restorers(generators, live, tuple(f"{name}." for name in self._keyed())),
            *(generator_restarters(state, live, rank, world_size) if state["world_size"] != world_size else ()),
        ]

    def _keyed(self) -> tuple[str, ...]:
        return tuple(name for name, one in self.objects.items() if isinstance(one, DataLoader))

    def _restore(self, restorings: list[Restoring]) -> None:
        with ExitStack() as undoing:
            for restoring in restorings:
                if restoring.undo is not None:
                    undoing.callback(_undo, restoring.undo)
                restoring.do()
            undoing.pop_all()


def _undo(undo: Callable[[], object]) -> None:
    # An object that fails here as well says no more than it did, and must not keep the others from being undone.
    with suppress(Exception):
        undo()


def _checked_step(step: object) -> int:
    """Return a number of steps as a Python int; UsageError where no checkpoint with it could be read."""
    number = whole_number(step, "step")
    if number < 0:
        raise UsageError(f"step must be from 0 on, got {number}", "give the number of steps that are done")
    return number


def _assert_positive(**given: int) -> None:
    for name, value in given.items():
        if value < 1:
            raise UsageError(f"{name}={value} would keep no checkpoint at all", "give 1 or more")


def _loader_internals(objects: Mapping[str, object]) -> Iterator[object]:
    """The objects that loaders make with their first batch, for their own use; they are no part of the state."""
    for item in objects.values():
        if isinstance(item, torch.utils.data.DataLoader):
            yield from (vars(item)[name] for name in ("_epochs", "_iterator") if vars(item).get(name) is not None)


def _check_head(state: object, ranks: OfRanks) -> None:
    if ranks not in get_args(OfRanks):
        raise UsageError(f"ranks must be one of {', '.join(get_args(OfRanks))}, got {ranks!r}")
    if not isinstance(state, Mapping):
        raise StateError(f"a state is a dict, got {type(state).__name__}", "give what state_dict() returned")
    for name, kind in (("version", int), ("steps_done", int), ("world_size", int), ("parts", dict), ("ranks", dict)):
        if not isinstance(state.get(name), kind):
            raise StateError(f"this is not a training state: {name!r} is {state.get(name)!r}")
    if state["version"] > VERSION:
        raise StateError(
            f"the state has version {state['version']}, this samebits reads up to {VERSION}", "update samebits"
        )


def _warn_of_loaders(objects: Mapping[str, object]) -> None:
    for name, item in objects.items():
        if is_positionless(item):
            warnings.warn(
                f"{name} is torch's and does not know how far its epoch is, so that a training resumes with a new one: "
                "save between epochs, or use samebits.data.DataLoader",
                StateWarning,
                stacklevel=3,
            )
