"""Writes a script that calls one recorded operation again: plain torch, no samebits, fit for a bug report."""

from __future__ import annotations

import base64
import pprint
import zlib
from collections.abc import Mapping
from pathlib import Path

from samebits.runfolder.ops import KeptCall

# Operands that pack into so little travel inside the script.
INLINE_BYTES = 1 << 16

_SCRIPT = '''"""{op}: does it give the same bits for the same inputs?

Taken from a run of a training script, {where}.
torch {version}. {needs}

    python {name}              calls it again and again, under several conditions
    python {name} --times 100  more often

Exit status: 0 if all results were the same, 1 if not.
"""

import argparse
import base64
import ctypes
import hashlib
import json
import operator
import os
import struct
import sys
import threading
import zlib
from pathlib import Path

os.environ.update({environment})

import torch  # noqa: E402

SETTINGS = {settings}
VIEWS = {views}
RECORDED = {recorded}  # digest of what the run got
DATA = {data}
DEVICE = {device}
DRAWN_ON = {drawn_on}
GENERATORS = {{}}


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
    dtype = getattr(torch, look["dtype"])
    shape, stride = look["shape"], look["stride"]
    dense = torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)
    dense = dense.view(dtype).view(shape)
    if stride is None:
        return dense.to(look["device"])
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if dense.numel() else 0
    room = torch.empty(reach + 64, dtype=dtype, device=look["device"])
    skip = ((look["alignment"] + shift) - room.data_ptr()) % 64 // room.itemsize
    tensor = torch.as_strided(room, shape, stride, skip)
    if 0 in stride:
        once = [slice(0, 1) if s == 0 else slice(None) for s in stride]
        tensor[tuple(once)].copy_(dense[tuple(once)])
    else:
        tensor.copy_(dense)
    return tensor


def call(t):
    """The operation, as it was called: what it wrote, and what it returned besides."""
    result = {call}
    written = [t[i] for i in {written}]
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
    names = [f"in.{{i}}" for i in range({inputs})]
    inputs = [as_it_lay(name, raw[name], shift) if name in raw else None for name in names]
    if "state" in raw:
        generator().set_state(torch.frombuffer(bytearray(raw["state"]), dtype=torch.uint8).clone())
    return inputs


def generator():
    """The one that it draws from."""
    device = torch.device(DRAWN_ON)
    if {is_given}:
        return GENERATORS.setdefault(DRAWN_ON, torch.Generator(device))
    if device.type == "cpu":
        return torch.default_generator
    getattr(torch, device.type).init()
    return getattr(torch, device.type).default_generators[device.index or 0]


def replay(raw, times, threads=None, shift=0, before=lambda: None):
    torch.set_num_threads(threads or SETTINGS["set_num_threads"][0])
    found = {{}}
    for _ in range(times):
        inputs = inputs_from(raw, shift)
        before()
        got = digest(call(inputs))
        found[got] = found.get(got, 0) + 1
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
    x, side = torch.full((2048, 2048), 0.1, device=DEVICE), torch.cuda.Stream(DEVICE)

    def load():
        side.wait_stream(torch.cuda.current_stream(DEVICE))
        with torch.cuda.stream(side):
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
    found, streams = {{}}, [torch.cuda.Stream(DEVICE) for _ in range(2)]
    for _ in range(times):
        prepared = [inputs_from(raw) for _ in streams]
        torch.cuda.synchronize(DEVICE)
        made = []
        for stream, inputs in zip(streams, prepared):
            if "state" in raw:
                inputs_from({{"state": raw["state"]}})
            with torch.cuda.stream(stream):
                made.append(call(inputs))
        torch.cuda.synchronize(DEVICE)
        for one in made:
            got = digest(one)
            found[got] = found.get(got, 0) + 1
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
    conditions += on_the_device(raw, few) if DEVICE.startswith("cuda") else on_the_host(raw, few)
    results = sorted(set().union(*(found for _, found in conditions)))
    if options.json:
        summary = [
            {{"name": name, "calls": sum(f.values()), "results": len(f), "which": sorted(map(results.index, f))}}
            for name, f in conditions
        ]
        print(json.dumps({{"conditions": summary, "distinct": len(results), "gives_recorded": RECORDED in results}}))
        return 0
    print({title})
    for name, found in conditions:
        which = "" if len(results) > 9 else ", ".join(f"#{{results.index(r) + 1}} x {{n}}" for r, n in found.items())
        print(f"  {{name:<16}} {{sum(found.values()):>3}} calls, {{len(found):>2}} results  {{which}}".rstrip())
    print(f"different results: {{len(results)}}")
    return 1 if len(results) > 1 else 0


if __name__ == "__main__":
    raise SystemExit(main())
'''


def reproducer(call: KeptCall, tensors: Path) -> str:
    """The script for a call that `agent.ops.operands` kept, with its tensors in the file beside it.

    Raises:
        ValueError: the call holds something that cannot be written down.
    """
    packed = zlib.compress(tensors.read_bytes(), 9)
    data = base64.b64encode(packed).decode() if len(packed) <= INLINE_BYTES else ""
    name = f"reproduce-{tensors.stem}.py"
    kind = call["kind"]
    where = f"line {kind['line']} of {Path(kind['path']).name}" if kind["path"] else "no line of its own"
    return _SCRIPT.format(
        op=call["op"],
        where=f"{kind['pass_']} pass, {where}",
        version=call["torch"],
        needs="Nothing else is needed." if data else f"Needs the file {tensors.name} beside it.",
        name=name,
        environment=repr(call["environment"]),
        settings=pprint.pformat(call["settings"], width=100, sort_dicts=False),
        views=pprint.pformat(call["views"], width=110, sort_dicts=False),
        recorded=repr(call["sha256"]),
        data=repr(data),
        beside=repr(tensors.name),
        call=_call(call),
        written=repr(call["written"]),
        inputs=len(call["labels"]),
        device=repr(_device(call)),
        drawn_on=repr(call.get("drawn_on") or "cpu"),
        is_given=_is_given_a_generator(call),
        title=repr(call["op"]),
    )


def _call(call: KeptCall) -> str:
    base, _, overload = call["op"].partition(".")
    namespace, _, name = base.partition("::")
    given = [_source(argument) for argument in call["arguments"]]
    given += [f"{key}={_source(argument)}" for key, argument in call["keywords"].items()]
    return f"torch.ops.{namespace}.{name}.{overload or 'default'}({', '.join(given)})"


def _device(call: KeptCall) -> str:
    """The first that is no processor, if there is one."""
    devices = [look["device"] for look in call["views"].values()]
    return next((device for device in devices if device != "cpu"), "cpu")


def _is_given_a_generator(call: KeptCall) -> bool:
    return any("generator" in argument for argument in (*call["arguments"], *call["keywords"].values()))


def _source(argument: Mapping[str, object]) -> str:
    """An argument as Python source."""
    ((kind, value),) = argument.items()
    if kind == "tensor":
        return f"t[{value}]"
    if kind == "list" and isinstance(value, list):
        return f"[{', '.join(map(_source, value))}]"
    if kind == "value":
        return repr(value)
    if kind == "float":
        return _float(float.fromhex(str(value)))
    if kind == "complex" and isinstance(value, list):
        return f"complex({', '.join(_float(float.fromhex(part)) for part in value)})"
    if kind == "torch":
        return str(value)
    if kind == "device":
        return f"torch.device({value!r})"
    if kind == "generator":
        return "generator()"
    raise ValueError(f"it was called with something that cannot be written down: {value}")


def _float(value: float) -> str:
    text = repr(value)
    return text if text.lstrip("-")[0].isdigit() else f"float({text!r})"
