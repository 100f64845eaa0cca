"""The operands of one operation on disk: everything that is needed to call it again, anywhere.

`rank0.step3.op1482.json` holds the call, `….safetensors` next to it the bytes: arguments as `in.0`, `in.1` …, results
as `out.0` …. A tensor is kept with its strides, because kernels are chosen by them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from samebits.agent.ops.call import Call, flat_tensors
from samebits.agent.ops.evidence import Producers, evidence_of, lies_in_shared_memory, stream_number
from samebits.bits.digest import digests, is_evidence
from samebits.bits.digest.unseen import unobserved
from samebits.factors.catalog import CATALOG
from samebits.factors.switches import attributes
from samebits.rng.digests import default_generator
from samebits.runfolder.ops import OpRow, operands_name
from samebits.runfolder.tensors import KeptTensor, bytes_of, read_tensors, write_tensors

# How many times a custom operation is called again.
CALLS = 20
# Switches that no factor covers, because programs hardly ever touch them.
_LIBRARIES = ("backends.mkldnn.enabled", "backends.cudnn.enabled")


class Operands:
    """One call, taken apart before it is made: its arguments, the operations that wrote them last, and its evidence.

    Arguments that the call will change are copied now.

    Args:
        known: which operation wrote to which memory last.
        is_asked_for: the call will be kept, whatever it makes; a custom operation is then called again in this process.
    """

    def __init__(self, call: Call, known: Producers, is_asked_for: bool) -> None:
        schema, generator = call.schema, call.generator
        self.state = None if generator is None else generator.get_state()
        self.drawn_on = "" if generator is None else str(generator.device)
        self.producers = _producers(call, known)
        # Evidence of what the call reads and does not write.
        self.before = _evidence_of_read(call)
        can_repeat = is_asked_for and not schema.is_builtin and not schema.writes
        self._again = partial(call.func, *call.args, **call.kwargs) if can_repeat else None
        self.tensors: list[torch.Tensor] = []
        self.views: list[dict[str, object] | None] = []
        self.labels: list[str] = []
        self._numbers: dict[int, int] = {}
        given = [*zip(schema.arguments, call.args, strict=False), *call.kwargs.items()]
        # By identity: a tensor may be read as one argument and written as another.
        self._copied = {id(t) for name, value in given if name in schema.writes for t in flat_tensors(value)}
        self.arguments = [self._encoded(value, name) for name, value in given[: len(call.args)]]
        self.keywords = {name: self._encoded(value, name) for name, value in call.kwargs.items()}

    def _encoded(self, value: object, name: str) -> object:
        if isinstance(value, torch.Tensor):
            number = self._numbers.get(id(value))
            if number is None:
                number = self._numbers[id(value)] = len(self.tensors)
                self.views.append(_look(value) if is_evidence(value) else None)
                self.tensors.append(_copied(value) if id(value) in self._copied and is_evidence(value) else value)
                self.labels.append(name)
            return {"tensor": number}
        if isinstance(value, list | tuple):
            return {"list": [self._encoded(v, f"{name}[{i}]") for i, v in enumerate(value)]}
        if isinstance(value, torch.Generator):
            return {"generator": str(value.device)}
        if isinstance(value, bool | int | str) or value is None:
            return {"value": value}
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, complex):
            return {"complex": [value.real.hex(), value.imag.hex()]}
        if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
            return {"torch": str(value)}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        return {"unknown": repr(value)}

    def keep(self, folder: Path, rank: int, call: Call, row: OpRow, results: list[torch.Tensor]) -> None:
        """Write the call and its results to the folder; files of an earlier call there are replaced."""
        schema, after = call.schema, _evidence_of_read(call)
        content: dict[str, object] = {
            "kind": json.loads(row.kind.as_json()),
            "op": schema.name,
            "is_builtin": schema.is_builtin,
            "drawn_on": self.drawn_on,
            "write_only": sorted(schema.write_only),
            "written": [i for i, label in enumerate(self.labels) if label.partition("[")[0] in schema.writes],
            "producers": self.producers,
            "changed_meanwhile": [name for name, evidence in self.before.items() if after.get(name) != evidence],
            "shared": [name for name, tensor in call.named if lies_in_shared_memory(tensor)],
            "called_again": None if self._again is None else _called_again(self._again, call.tensors),
        }
        with unobserved():
            self._write(folder, rank, row, content, results)

    def _write(self, folder: Path, rank: int, row: OpRow, call: dict[str, object], results: list[torch.Tensor]) -> None:
        folder.mkdir(exist_ok=True)
        name = operands_name(rank, row.step, row.index)
        kept = [(f"in.{i}", tensor) for i, tensor in enumerate(self.tensors)]
        kept += [(f"out.{i}", tensor) for i, tensor in enumerate(results)]
        if self.state is not None:
            kept.append(("state", self.state))
        evident = [(label, tensor) for label, tensor in kept if is_evidence(tensor)]
        # Of a copied tensor, the strides and the device of the original.
        views = {label: _look(tensor) for label, tensor in evident}
        views |= {f"in.{i}": look for i, look in enumerate(self.views) if look is not None and f"in.{i}" in views}
        content = {
            **call,
            "arguments": self.arguments,
            "keywords": self.keywords,
            "labels": self.labels,
            "views": views,
            "digests": dict(zip([label for label, _ in evident], digests([t for _, t in evident]), strict=True)),
            "sha256": _sha256(results),
            "settings": _settings(),
            "environment": _environment(),
            "torch": torch.__version__,
        }
        write_tensors(folder / f"{name}.safetensors", evident)
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_kept_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors that were kept with such a file: `in.0` …, `out.0` … and `state`."""
    return {label: _tensor(kept) for label, kept in read_tensors(path.with_suffix(".safetensors")).items()}


def _tensor(kept: KeptTensor) -> torch.Tensor:
    dtype = getattr(torch, kept.dtype)
    if not kept.raw:
        return torch.empty(kept.shape, dtype=dtype)
    return torch.frombuffer(bytearray(kept.raw), dtype=torch.uint8).view(dtype).view(kept.shape)


def _sha256(tensors: list[torch.Tensor]) -> str:
    """Return the SHA-256 of dtypes, shapes and every bit, as the reproducer computes it."""
    sha256 = hashlib.sha256()
    for tensor in tensors:
        sha256.update(f"{tensor.dtype}{list(tensor.shape)}".encode())
        sha256.update(bytes_of(tensor))
    return sha256.hexdigest()


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    with unobserved():
        plain = tensor.detach()
        if plain.layout is not torch.strided or 0 in plain.stride():
            return plain.clone()
        # With its strides: `clone` makes dense what is not. To the host, where it goes anyway: a fused step writes to
        # all that an optimizer holds, and a device has no room for that twice.
        copy = torch.empty_strided(plain.shape, plain.stride(), dtype=plain.dtype, device="cpu")
        return copy.copy_(plain)


def _look(tensor: torch.Tensor) -> dict[str, object]:
    strided = tensor.layout is torch.strided
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()) if strided else None,
        "device": str(tensor.device),
        "alignment": tensor.data_ptr() % 64 if strided else None,
        "conj": tensor.is_conj(),
        "neg": tensor.is_neg(),
    }


def _settings() -> dict[str, object]:
    """Return the settings that choose kernels, as every factor finds them in effect."""
    settings = {name: value for factor in CATALOG for name, value in factor.kernel_settings(torch).items()}
    return {**attributes(torch, *_LIBRARIES), **settings}


def _environment() -> dict[str, str]:
    names = [name for factor in CATALOG for name in factor.kernel_variables]
    return {name: os.environ[name] for name in names if name in os.environ}


def _evidence_of_read(call: Call) -> dict[str, int]:
    """Return evidence of each input on the CPU that the call does not write to: if it changes, somebody else wrote it.

    Empty for custom operations, which may write where their schema does not say, and collectives, which write any time.
    """
    schema = call.schema
    if not schema.is_builtin or schema.is_collective or schema.is_view or schema.is_uninitialized:
        return {}
    inputs = [(name, tensor) for name, tensor in call.named if tensor.is_cpu and tensor.layout is torch.strided]
    written = {_memory_of(tensor) for name, tensor in inputs if name.partition("[")[0] in schema.writes}
    return {
        name: evidence_of(tensor)
        for name, tensor in inputs
        if _memory_of(tensor) not in written and is_evidence(tensor)
    }


def _memory_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _producers(call: Call, known: Producers) -> dict[str, object]:
    """Return, for each input, the operation that wrote its memory last, as plain data."""
    producers = {name: (*known.of(tensor), stream_number(tensor.device)) for name, tensor in call.named}
    return {name: _producer_entry(*origin) for name, origin in producers.items() if origin[0] is not None}


def _producer_entry(producer: Any, is_uninitialized: bool, stream: int) -> dict[str, object]:
    step, index, op, place, producer_stream = producer
    path, line, function = place.line
    location = {"module": place.module, "path": path, "line": line, "function": function}
    flags = {"uninitialized": is_uninitialized, "other_stream": producer_stream != stream}
    return {"step": step, "index": index, "op": op, **location, **flags}


def _called_again(again: Callable[[], object], tensors: list[torch.Tensor]) -> dict[str, int]:
    """Call a custom operation many times, always from the same generator state, and count its different results."""
    devices = dict.fromkeys([torch.device("cpu"), *(tensor.device for tensor in tensors)])
    generators = [generator for device in devices if (generator := default_generator(device)) is not None]
    states = [(generator, generator.get_state()) for generator in generators]
    outcomes = set()
    for _ in range(CALLS):
        for generator, state in states:
            generator.set_state(state)
        outcomes.add(tuple(digests(flat_tensors(again()))))
    # The program draws on as if there had been one call.
    for generator, state in states:
        generator.set_state(state)
    return {"calls": CALLS, "results": len(outcomes)}
