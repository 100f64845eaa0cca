"""Writes a script that calls one recorded operation again: plain torch, no samebits, fit for a bug report.

The run folder may be a stranger's, so the code of the script never changes: what was recorded is inserted as data
(`CALL`), which can name only what tables and `torch.ops` know.
"""

from __future__ import annotations

import base64
import pprint
import re
import zlib
from pathlib import Path

from samebits.base.errors import RecordingError
from samebits.base.records import to_data
from samebits.factors.catalog import CATALOG
from samebits.runfolder.ops import BUILTIN, KeptCall, operation_key
from samebits.runfolder.reading import read_bytes

# Operands that compress to at most so many bytes are written into the script itself.
INLINE_BYTES = 1 << 16
MOST_THREADS = 4096

_OP = re.compile(rf"({'|'.join(BUILTIN)})::[A-Za-z_]\w*(\.\w+)?", re.ASCII)
# The settings that `Factor.kernel_settings` names.
_SETTING = re.compile(
    r"set_num_threads|set_float32_matmul_precision|use_deterministic_algorithms"
    r"|utils\.deterministic\.fill_uninitialized_memory"
    r"|backends\.(cuda|cudnn|mkldnn)(\.(matmul|conv|rnn))?"
    r"\.(enabled|deterministic|benchmark|fp32_precision|allow_[a-z0-9_]+|enable_[a-z_]+_sdp)"
)

_SCRIPT = '''"""{op}: does it give the same bits for the same inputs?

Taken from a run of a training script. {needs}

    python {name}              calls it again and again, under several conditions
    python {name} --times 100  more often

Exit status: 0 if all results were the same, 1 if not.
"""

import os
import sys

# What lies beside this file is not imported: it may have come with it.
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [path for path in sys.path if os.path.realpath(path or ".") != HERE]

import argparse
import base64
import ctypes
import functools
import hashlib
import json
import operator
import struct
import threading
import zlib
from collections import Counter
from pathlib import Path

CALL = {call}
DATA = {data}

os.environ.update(CALL["environment"])

import torch

SETTINGS, VIEWS, DEVICE = CALL["settings"], CALL["views"], CALL["device"]
# The device's part of torch.
OWN = getattr(torch, torch.device(DEVICE).type)
# What a call may name.
NAMED = {{str(v): v for v in vars(torch).values() if isinstance(v, (torch.dtype, torch.layout, torch.memory_format))}}


def raw_bytes():
    """Bytes of every tensor, by name."""
    raw = zlib.decompress(base64.b64decode(DATA)) if DATA else Path(__file__).with_name({beside}).read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    head = json.loads(raw[8 : 8 + length])
    head.pop("__metadata__", None)
    start = 8 + length
    return {{name: raw[start + e["data_offsets"][0] : start + e["data_offsets"][1]] for name, e in head.items()}}


def as_it_lay(name, raw, shift):
    """The tensor with its dtype, shape, strides and device, `shift` bytes further on in memory."""
    look = VIEWS[name]
    dtype = NAMED["torch." + look["dtype"]]
    shape, stride = look["shape"], look["stride"]
    dense = torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)
    dense = dense.view(dtype).view(shape)
    if stride is None:
        return dense.to(look["device"])
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if dense.numel() else 0
    room = torch.empty(reach + 64, dtype=dtype, device=look["device"])
    skip = ((look["alignment"] + shift) - room.data_ptr()) % 64 // room.itemsize
    tensor = torch.as_strided(room, shape, stride, skip)
    once = tuple(slice(0, 1) if s == 0 else slice(None) for s in stride)
    tensor[once].copy_(dense[once])
    return tensor


def operation():
    """The one that is called, as the dispatcher knows it."""
    base, _, overload = CALL["op"].partition(".")
    namespace, name = base.split("::")
    found = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    if not isinstance(found, torch._ops.OpOverload) or "filename" in str(found._schema):
        raise SystemExit(f"{{CALL['op']}} is no operation on tensors")
    return found


def value(argument, t):
    """What was given as an argument; `t` are the tensors."""
    ((kind, given),) = argument.items()
    if kind == "tensor":
        return t[given]
    if kind == "list":
        return [value(one, t) for one in given]
    if kind == "value":
        return given
    if kind == "float":
        return float.fromhex(given)
    if kind == "complex":
        return complex(*map(float.fromhex, given))
    if kind == "torch":
        return NAMED[given]
    if kind == "device":
        return torch.device(given)
    if kind == "generator":
        return generator()
    raise SystemExit(f"it was called with something that cannot be written down: {{' '.join(str(given).split())}}")


def call(t):
    """The operation, as it was called: what it wrote, and what it returned besides."""
    arguments = [value(one, t) for one in CALL["arguments"]]
    result = operation()(*arguments, **{{name: value(one, t) for name, one in CALL["keywords"].items()}})
    written = [t[i] for i in CALL["written"]]
    return written + [one for one in flat(result) if not any(one is other for other in written)]


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for one in result for t in flat(one)] if isinstance(result, (list, tuple)) else []


def digest(tensors):
    """Of dtype, shape and every bit."""
    found = hashlib.sha256()
    for tensor in tensors:
        dense = tensor.detach().cpu().contiguous().reshape(-1)
        found.update(f"{{tensor.dtype}}{{list(tensor.shape)}}".encode())
        if dense.numel():
            found.update(ctypes.string_at(dense.data_ptr(), dense.numel() * dense.itemsize))
    return found.hexdigest()


def inputs_from(raw, shift=0):
    """What it is called with; the generator that it draws from stands where it stood."""
    names = [f"in.{{i}}" for i in range(CALL["inputs"])]
    inputs = [as_it_lay(name, raw[name], shift) if name in raw else None for name in names]
    if "state" in raw:
        generator().set_state(torch.frombuffer(bytearray(raw["state"]), dtype=torch.uint8).clone())
    return inputs


@functools.cache
def generator():
    """The one that it draws from."""
    device = torch.device(CALL["drawn_on"])
    if CALL["has_generator"]:
        return torch.Generator(device)
    if device.type == "cpu":
        return torch.default_generator
    getattr(torch, device.type).init()
    return getattr(torch, device.type).default_generators[device.index or 0]


def replay(raw, times, threads=None, shift=0, before=lambda: None):
    torch.set_num_threads(threads or SETTINGS["set_num_threads"][0])
    found = Counter()
    for _ in range(times):
        inputs = inputs_from(raw, shift)
        before()
        found[digest(call(inputs))] += 1
    return found


def with_load(raw, times):
    """While other threads keep the machine busy."""
    done = threading.Event()

    def work():
        x = torch.full((256, 256), 0.1)  # no draws: the operation may draw, too
        while not done.is_set():
            x @ x

    workers = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        return replay(raw, times)
    finally:
        done.set()
        for worker in workers:
            worker.join()


def on_the_host(raw, few):
    """Ways to call it that may matter to a processor."""
    for threads in (1, 2, 4, 8):
        yield f"{{threads}} thread{{'s' if threads > 1 else ''}}", replay(raw, few, threads)
    yield "other alignment", replay(raw, few, shift=16)
    yield "under load", with_load(raw, few)


def on_the_device(raw, few):
    """Ways to call it that may matter to a GPU."""
    x, side = torch.full((2048, 2048), 0.1, device=DEVICE), OWN.Stream(DEVICE)

    def load():
        side.wait_stream(OWN.current_stream(DEVICE))
        with OWN.stream(side):
            for _ in range(20):
                x @ x

    def poison():
        # What was freed is handed out again, with whatever it held.
        for size in (1 << 12, 1 << 20, 1 << 26):
            torch.full((size,), 255, dtype=torch.uint8, device=DEVICE)

    yield "other alignment", replay(raw, few, shift=16)
    yield "beside a matmul", replay(raw, few, before=load)
    yield "in used memory", replay(raw, few, before=poison)
    yield "on two streams", on_two_streams(raw, few)


def on_two_streams(raw, times):
    """Two calls at the same time."""
    found, streams = Counter(), [OWN.Stream(DEVICE) for _ in range(2)]
    for _ in range(times):
        prepared = [inputs_from(raw) for _ in streams]
        OWN.synchronize(DEVICE)
        made = []
        for stream, inputs in zip(streams, prepared):
            if "state" in raw:
                inputs_from({{"state": raw["state"]}})
            with OWN.stream(stream):
                made.append(call(inputs))
        OWN.synchronize(DEVICE)
        found.update(map(digest, made))
    return found


def restore():
    """The settings of the run; only what is not so already, since older switches and newer ones exclude one another."""
    for place, value in SETTINGS.items():
        owner, _, name = place.rpartition(".")
        try:
            there = operator.attrgetter(owner)(torch) if owner else torch
            if isinstance(value, dict):
                getattr(there, name)(**value)
            elif isinstance(value, list):
                current = getattr(there, name.replace("set_", "get_", 1)) if name.startswith("set_") else None
                if current is None or [current()] != value:
                    getattr(there, name)(*value)
            elif getattr(there, name) != value:
                setattr(there, name, value)
        except (AttributeError, RuntimeError) as error:
            # Another version of torch may not have it.
            print(f"{{place}} stays as it is: {{error}}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    restore()
    raw = raw_bytes()
    few = max(2, options.times // 4)
    conditions = [("as recorded", replay(raw, options.times))]
    conditions += on_the_device(raw, few) if hasattr(OWN, "Stream") and DEVICE != "cpu" else on_the_host(raw, few)
    results = sorted(set().union(*(found for _, found in conditions)))
    if options.json:
        summary = [
            {{"name": name, "calls": sum(f.values()), "results": len(f), "which": sorted(map(results.index, f))}}
            for name, f in conditions
        ]
        is_there = CALL["sha256"] in results
        print(json.dumps({{"conditions": summary, "distinct": len(results), "gives_recorded": is_there}}))
        return 0
    print(CALL["op"])
    for name, found in conditions:
        which = "" if len(results) > 9 else ", ".join(f"#{{results.index(r) + 1}} x {{n}}" for r, n in found.items())
        print(f"  {{name:<16}} {{sum(found.values()):>3}} calls, {{len(found):>2}} results  {{which}}".rstrip())
    print(f"different results: {{len(results)}}")
    return 1 if len(results) > 1 else 0


if __name__ == "__main__":
    raise SystemExit(main())
'''


def reproducer(call: KeptCall, tensors: Path, folder: Path) -> str:
    """Return the script for a call that `agent.ops.operands` kept, with its tensors in a file of the run's folder.

    Raises:
        ValueError: the call holds something that samebits never keeps.
        RecordingError: the file cannot be read.
    """
    operation_key(tensors)
    _refuse_foreign(call)
    try:
        packed = zlib.compress(read_bytes(tensors, folder), 9)
    except OSError as error:
        raise RecordingError(f"{tensors} cannot be read: {error.strerror}", "was it removed?") from error
    data = base64.b64encode(packed).decode() if len(packed) <= INLINE_BYTES else ""
    return _SCRIPT.format(
        op=call.op,
        needs="Nothing but torch is needed." if data else f"Needs torch, and the file {tensors.name} beside it.",
        name=f"reproduce-{tensors.stem}.py",
        call=pprint.pformat(_data(call), width=110, sort_dicts=False),
        data=repr(data),
        beside=repr(tensors.name),
    )


def _data(call: KeptCall) -> dict[str, object]:
    """Return what the script has to know as plain data: `pprint` then writes it with all text quoted."""
    arguments, kind = (*call.arguments, *call.keywords.values()), call.kind
    line = f"line {kind.line} of {Path(kind.path).name}" if kind.path else "no line of its own"
    names = ("op", "torch", "arguments", "keywords", "written", "views", "settings", "environment", "sha256")
    return {
        **{name: to_data(getattr(call, name)) for name in names},
        "from": f"{kind.pass_} pass, {line}",
        "inputs": len(call.labels),
        "device": next((view.device for view in call.views.values() if view.device != "cpu"), "cpu"),
        "drawn_on": call.drawn_on or "cpu",
        "has_generator": any("generator" in argument for argument in arguments),
    }


def _refuse_foreign(call: KeptCall) -> None:
    """Raise ValueError where a call names something that samebits never keeps, and so did not write."""
    variables = {name for factor in CATALOG for name in factor.kernel_variables}
    threads = call.settings.get("set_num_threads")
    foreign = [name for name in call.settings if not _SETTING.fullmatch(name)]
    foreign += [name for name in call.environment if name not in variables]
    if not _OP.fullmatch(call.op):
        foreign.append(call.op)
    if not (isinstance(threads, list) and len(threads) == 1 and threads[0] in range(1, MOST_THREADS + 1)):
        foreign.append(f"set_num_threads{threads}")
    if foreign:
        raise ValueError(f"{foreign[0]!r} is nothing that samebits keeps")
