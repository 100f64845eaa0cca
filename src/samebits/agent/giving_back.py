"""State that a run kept is given back to one that resumes: if the bits are right then, that was what it lacked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from samebits.agent.fetches import Fetches
from samebits.agent.listening import listen
from samebits.agent.ops.operands import read_kept_tensors
from samebits.rng.handles import handle_of, process_generators
from samebits.rng.packing import pack, unpack
from samebits.runfolder.spec import Moment, Restored
from samebits.runfolder.tensors import write_tensors

if TYPE_CHECKING:
    from samebits.agent.recorder import Recorder


def kept_at(folder: Path, rank: int) -> Path:
    """Where the state of a rank is kept; its tensors are beside it."""
    return folder / f"kept.rank{rank}.json"


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
            "state": [one.state.get(parameter) or {} for parameter in one.tensors],
            "groups": [{k: v for k, v in group.items() if k != "params"} for group in one.groups],
        }
        for one in held
    ]
    generators = {name: handle_of(one).state() for name, one in process_generators().items()}
    kept = {"steps": steps, "generators": generators, "optimizers": optimizers}
    _write(kept_at(recorder.folder, recorder.main.log.rank), kept)


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
        kept = _read(kept_at(Path(asked.folder), self.recorder.main.log.rank))
        if asked.what == "generators":
            for name, one in process_generators().items():
                if name in kept["generators"] and (not asked.names or name in asked.names):
                    handle_of(one).restore(kept["generators"][name])
        else:
            self._give_back_optimizers(kept["optimizers"])

    def _give_back_optimizers(self, kept: list[dict[str, Any]]) -> None:
        for held, own in zip(self.recorder.optimizers.all(), kept, strict=False):
            for parameter, state in zip(held.tensors, own["state"], strict=False):
                held.state[parameter] = state
            for group, values in zip(held.groups, own["groups"], strict=False):
                group.update(values)


def _write(path: Path, state: object) -> None:
    """Plain data, with the tensors beside it: saving these together calls `torch.save`, which is watched."""
    tensors: list[torch.Tensor] = []

    def apart(plain: Any) -> Any:
        if isinstance(plain, torch.Tensor):
            tensors.append(plain)
            return {"<tensor>": str(len(tensors) - 1), "device": str(plain.device)}
        if isinstance(plain, dict):
            return {key: apart(one) for key, one in plain.items()}
        return [apart(one) for one in plain] if isinstance(plain, list) else plain

    path.write_text(json.dumps(apart(pack(state))), encoding="utf-8")
    write_tensors(path.with_suffix(".safetensors"), ((str(number), one) for number, one in enumerate(tensors)))


def _read(path: Path) -> Any:
    """What `_write` wrote; nothing in it is run."""
    tensors: Mapping[str, Any] = read_kept_tensors(path)

    def together(found: dict[str, Any]) -> Any:
        return tensors[found["<tensor>"]].to(found["device"]) if "<tensor>" in found else found

    return unpack(json.loads(path.read_text(encoding="utf-8"), object_hook=together))
