"""What is asked in a process that has the stand-in: `python -m tests.ops.probes NAME ...`."""

import os
from collections import Counter
from collections.abc import Callable

import torch

import samebits
from samebits.ops.overrides import replace
from tests.ops.cases import CASES as EVERY
from tests.ops.cases import results
from tests.standin.probes import bits, main

TIMES = int(os.environ.get("CALLS", "50"))
# The stand-in has no sparse tensors.
CASES = {name: case for name, case in EVERY.items() if not name.startswith("sparse")}
REPLACED = {"torch-algorithms": "replace"}
# No races are made of these, or torch's own code for the CPU is what is replaced.
SILENT = {"adaptive_max_pool3d_backward", "cumprod", "_logcumsumexp"}
# `functional` computes these by other operations then.
SILENT |= {f"upsample_{one}_backward" for one in ("bilinear2d", "trilinear3d")}
SILENT |= {f"replication_pad{dims}d_backward" for dims in (1, 2, 3)}


def agrees(device: str) -> None:
    """Each operation gives one result in so many calls and for any number of threads, and was ours."""
    with samebits.pinned(factors=[], values=REPLACED, strict=True):
        heard = Counter[str]()
        end = replace(lambda name: heard.update([name]))
        for name, case in CASES.items():
            heard.clear()
            found = set()
            for time in range(TIMES):
                torch.set_num_threads((1, 2, 4)[time % 3])
                found.add(tuple(map(bits, results(case, torch.float32, device))))
            op = case.op.partition(".")[0]
            names = {op, f"{op}_", "cudnn_grid_sampler_backward" if op == "grid_sampler_2d_backward" else op}
            if len(found) > 1 or not names & heard.keys():
                print(name, len(found), dict(heard))
        end()


def refuses(device: str) -> None:
    """Without us each of them is refused."""
    with samebits.pinned(factors=[], values={"torch-algorithms": "strict"}, strict=True):
        for name, case in CASES.items():
            try:
                results(case, torch.float32, device)
            except RuntimeError as error:
                if "deterministic" in str(error):
                    continue
            if case.op not in SILENT:
                print(name, "passes")


def errors(device: str) -> None:
    """Against float64 on the CPU, results are off as far as torch's own, there or here; a quarter more, or a bit."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for name, case in CASES.items():
            try:
                theirs = [results(case, dtype, where) for where in ("cpu", device)]
            except RuntimeError:
                continue
            exact = results(case, torch.float64, "cpu")
            with samebits.pinned(factors=[], values=REPLACED, strict=True):
                ours = results(case, dtype, device)
            for number, (right, a, *others) in enumerate(zip(exact, ours, *theirs, strict=True)):
                is_finite = right.isfinite()
                off, *offs = ((one.double() - right)[is_finite].abs().max().item() for one in (a, *others))
                before = max(offs)
                room = torch.finfo(dtype).eps * right[is_finite].abs().max().item()
                if not off <= max(before * 1.25, room) or not torch.equal(a.isfinite(), is_finite):
                    print(name, dtype, number, off, before, room)


PROBES: dict[str, Callable[[str], None]] = {one.__name__: one for one in (agrees, refuses, errors)}


if __name__ == "__main__":
    main(PROBES)
