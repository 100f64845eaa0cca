"""Lockfiles made by hand."""

from samebits.locking.entries import Locked, LockedTensors, Row, RunEntry
from samebits.locking.lockfile import Lockfile
from samebits.runfolder.environment import Environment

HERE = Environment(device="cpu", torch="2.13.0+cpu", threads="2", instructions="AVX512", python="3.11.2", cores="2")
ELSEWHERE = Environment(device="cpu", torch="2.13.0+cpu", threads="1", instructions="AVX512", python="3.11.2")


def locked(root: str = "0123456789abcdef") -> Locked:
    """What a run of nine steps gave."""
    rows = tuple(
        Row(at, root, {"batch": "01234567", "param": "89abcdef"}, ("0x1.8000000000000p+0",))
        for at in ("0", "1", "2", "4", "8", "end")
    )
    return Locked(
        digest="xxh3, sums 2",
        samebits="0.1.0",
        repeats="checked",
        steps=9,
        root=root,
        rows=rows,
        streams=("batch", "param"),
        recordings=(f"0 10 {root}",),
        trace="0123" * 9,
        artifacts={"{run}/last.pt": "aa"},
        commit="c" * 40,
        code={"train.py": "b" * 16},
    )


def lockfile() -> Lockfile:
    """Two runs, one of them in two environments, and a test."""
    entry = RunEntry(("train.py", "--lr", "3"), 7, ("cpu-threads=2",), data={"data/x.npz": "dd"})
    found = Lockfile().with_run("train", entry, HERE, locked())
    found = found.with_run("train", found.entry("train"), ELSEWHERE, locked("f" * 16))
    found = found.with_run("a longer name", RunEntry(("eval.py",)), HERE, locked("e" * 16))
    return found.with_tensors("tests/test_a.py::test_b[x]", HERE, LockedTensors("xxh3, sums 2", {"logits": "ab" * 8}))
