"""State that a run kept is given back to one that resumes: if the bits are right then, that was what it lacked."""

from __future__ import annotations

import pickle
import random
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from samebits.agent.fetches import Fetches
from samebits.agent.listening import listen
from samebits.rng.handles import Handle, accelerator_generators, handle_of
from samebits.runfolder.spec import Moment, Restored

if TYPE_CHECKING:
    from samebits.agent.recorder import Recorder


def kept_at(folder: Path, rank: int) -> Path:
    """Where the state of a rank is kept."""
    return folder / f"kept.rank{rank}.pickle"


def keep(recorder: Recorder, steps: int) -> None:
    """Keep the global generators and all optimizers as they are now; the last time counts."""
    try:
        _keep(recorder, steps)
    except Exception as error:  # states of any sort: what cannot be kept is not given back, and nothing else is lost
        recorder.note_once(f"the state at the save, which could not be kept: {type(error).__name__}: {error}")


def _keep(recorder: Recorder, steps: int) -> None:
    held = [one for one in recorder.optimizers.all() if one.has_stepped]
    optimizers = [
        {
            "state": [_packed(one.state.get(parameter) or {}) for parameter in one.tensors],
            "groups": [_packed({k: v for k, v in group.items() if k != "params"}) for group in one.groups],
        }
        for one in held
    ]
    generators = {name: _packed(handle.state()) for name, handle in _generators().items()}
    content = pickle.dumps({"steps": steps, "generators": generators, "optimizers": optimizers})
    kept_at(recorder.folder, recorder.main.log.rank).write_bytes(content)


def _generators() -> dict[str, Handle]:
    """The global ones that are loaded, by name."""
    found: dict[str, object] = {"python": random, "torch": torch.default_generator}
    if "numpy.random" in sys.modules:
        found["numpy"] = sys.modules["numpy.random"]
    found |= {f"torch {device}": one for device, one in accelerator_generators(torch).items()}
    return {name: handle_of(one) for name, one in found.items()}


class GivingBack:
    """Gives state back once, at its moment."""

    def __init__(self, recorder: Recorder, restored: Restored, fetches: Fetches) -> None:
        self.recorder, self.restored, self.fetches = recorder, restored, fetches
        self.is_done = False

    def install(self, stack: ExitStack) -> None:
        """Be called before every moment there is."""
        safely = self.recorder.safely
        iterator = torch.utils.data.dataloader._BaseDataLoaderIter
        stack.callback(listen(torch.utils.data.DataLoader, "__iter__", safely(lambda *_: self.at("iter"))))
        stack.callback(listen(iterator, "__next__", safely(lambda *_: self.at("batch"))))
        stack.callback(register_optimizer_step_pre_hook(safely(lambda *_: self.at("step"))).remove)

    def at(self, moment: Moment) -> None:
        """The moment has come; whether it is the one that was asked for."""
        asked = self.restored
        if self.is_done or moment != asked.moment or (moment == "batch" and self.fetches.count < asked.batch):
            return
        self.is_done = True
        path = kept_at(Path(asked.folder), self.recorder.main.log.rank)
        kept = pickle.loads(path.read_bytes())
        if asked.what == "generators":
            for name, handle in _generators().items():
                if name in kept["generators"] and (not asked.names or name in asked.names):
                    handle.restore(_unpacked(kept["generators"][name]))
        else:
            self._give_back_optimizers(kept["optimizers"])

    def _give_back_optimizers(self, kept: list[dict[str, Any]]) -> None:
        for held, own in zip(self.recorder.optimizers.all(), kept, strict=False):
            for parameter, state in zip(held.tensors, own["state"], strict=False):
                held.state[parameter] = _unpacked(state)
            for group, values in zip(held.groups, own["groups"], strict=False):
                group.update(_unpacked(values))


def _packed(value: object) -> Any:
    """The same with tensors as bytes: pickling a tensor calls `torch.save`, which is watched."""
    if torch.is_tensor(value):
        flat = value.detach().cpu().contiguous().reshape(-1)
        return _Packed(bytes(flat.view(torch.uint8).numpy()), str(value.dtype), tuple(value.shape), str(value.device))
    if isinstance(value, dict):
        return {key: _packed(one) for key, one in value.items()}
    return [_packed(one) for one in value] if type(value) is list else value


class _Packed(tuple[Any, ...]):
    """A tensor as bytes, dtype, shape and device."""

    def __new__(cls, *parts: object) -> _Packed:
        return super().__new__(cls, parts)

    def __reduce__(self) -> Any:
        return _Packed, tuple(self)


def _unpacked(value: object) -> Any:
    if isinstance(value, _Packed):
        raw, dtype, shape, device = value
        kind = getattr(torch, dtype.removeprefix("torch."))
        flat = torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)
        return flat.view(kind).reshape(shape).to(device)
    if isinstance(value, dict):
        return {key: _unpacked(one) for key, one in value.items()}
    return [_unpacked(one) for one in value] if type(value) is list else value
