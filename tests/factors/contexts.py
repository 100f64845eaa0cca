"""Factors treated as a run treats them, and everything that must be the same afterwards."""

import builtins
import copyreg
import datetime
import glob
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch._inductor.config
from torch.utils.data import DataLoader

from samebits.factors.catalog import CATALOG
from samebits.factors.context import Mode, Setting, Witness
from samebits.factors.pinning import treat


@contextmanager
def treated(factor: str, mode: Mode = "pinned", seed: int = 0, **setting: Any) -> Iterator[None]:
    """One factor treated, nobody listening."""
    treatment = treat({factor: Setting(mode, **setting)}, seed)
    try:
        yield
    finally:
        treatment.undo()


@contextmanager
def watched(factor: str, mode: Mode = "natural", seed: int = 0, **setting: Any) -> Iterator[list[Witness]]:
    """One factor treated and witnessed; the others are witnessed too, as in a run, and not told."""
    seen: list[Witness] = []

    def report(witness: Witness) -> None:
        if witness.factor == factor:
            seen.append(witness)

    treatment = treat({factor: Setting(mode, **setting)}, seed, report=report)
    try:
        yield seen
    finally:
        treatment.undo()


def lines(seen: list[Witness]) -> list[int | None]:
    return [witness.site and witness.site.line for witness in seen]


def here() -> int:
    """The caller's line."""
    return sys._getframe(1).f_lineno


OWNERS = (
    builtins,
    io,
    threading,
    threading.Thread,
    uuid,
    os,
    random,
    random.Random,
    time,
    datetime,
    datetime.datetime,
    datetime.date,
    glob,
    pathlib,
    np,
    np.random,
    np.random.mtrand,
)
OWNERS += (
    torch,
    torch.random,
    torch.Generator,
    torch.Tensor,
    torch.cuda,
    torch.xpu,
    torch.accelerator,
    torch.Stream,
    np.random.bit_generator,
    DataLoader,
    torch.cuda._lazy_seed_tracker,
)
KEEPERS = (getattr(glob, "_StringGlobber", None), getattr(pathlib, "_NormalAccessor", None))
FLAGS = (
    (torch.backends.cudnn, "benchmark"),
    (torch.backends.cudnn, "deterministic"),
    (torch.backends.cudnn, "allow_tf32"),
    (torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
    (torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
    (torch.utils.deterministic, "fill_uninitialized_memory"),
    (torch._inductor.config, "deterministic"),
)
if hasattr(torch.backends, "fp32_precision"):
    FLAGS += tuple(
        (owner, "fp32_precision")
        for owner in (
            torch.backends,
            torch.backends.cuda.matmul,
            torch.backends.cudnn.conv,
            torch.backends.cudnn.rnn,
            torch.backends.mkldnn.matmul,
        )
    )


def everything() -> dict[str, Any]:
    """The state of all generators bit for bit, every attribute that a factor could replace, every setting."""
    gaussian = np.random.get_state(legacy=False)
    found: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": repr({**gaussian, "state": {k: bytes(np.asarray(v)) for k, v in gaussian["state"].items()}}),
        "numpy generator": id(np.random.get_bit_generator()),
        "torch": bytes(torch.get_rng_state().tolist()),
        "environ": dict(os.environ),
        "copyreg": {kind: id(how) for kind, how in copyreg.dispatch_table.items()},
        "imports": [id(finder) for finder in sys.meta_path],
        "torchscript": len(torch.jit._builtins._get_builtin_table()),
        "threads": torch.get_num_threads(),
        "matmul": torch.get_float32_matmul_precision(),
        "attention": [
            getattr(torch.backends.cuda, f"{one}_sdp_enabled")() for one in ("flash", "mem_efficient", "math")
        ],
        "algorithms": torch.get_deterministic_debug_mode(),
        "dispatch": torch.utils._python_dispatch._get_current_dispatch_mode(),
    }
    for owner in (*OWNERS, *filter(None, KEEPERS)):
        found[f"names of {owner}"] = {name: id(value) for name, value in vars(owner).items()}
    return found | {f"{owner}.{name}": getattr(owner, name) for owner, name in FLAGS if hasattr(owner, name)}


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What is not as it was, in a form that can be read."""
    return {key: _apart(before[key], after[key]) for key in before if before[key] != after[key]}


def _apart(before: Any, after: Any) -> Any:
    if isinstance(before, dict):
        return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return (before, after)


# What factors set before the interpreter starts, and where a launcher says which rank this is.
VARIABLES = {name for factor in CATALOG for name in factor.environment(Setting("varied"), 0, {})}
VARIABLES |= {"RANK", "LOCAL_RANK"}


def python(code: str, *options: str, **variables: str) -> Any:
    """What a fresh Python says, as JSON; none of our variables is set but those given."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    command = [sys.executable, *options, "-c", f"import json, os, sys\n{code}"]
    result = subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
