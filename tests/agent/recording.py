"""A recording of what is done in this process."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from samebits.agent.interruption import Interruption
from samebits.agent.recorder import Recorder
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Failed, Journal, read_notes
from samebits.runfolder.ops import OpRow, Ops
from samebits.runfolder.spec import OpWindow, ResumeSpec, RunSpec
from samebits.runfolder.steps import Recording


def train(steps: int = 2) -> nn.Module:
    """A training of the plainest sort."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
    return model


def record_in(folder: Path, work: Callable[[], object], spec: RunSpec) -> None:
    """Record `work` in a folder that is made where it is not there."""
    folder.mkdir(exist_ok=True)
    recorder = Recorder(spec, Journal(folder))
    if spec.resume is not None:
        Interruption(recorder, spec.resume)
    recorder.install()
    try:
        work()
    finally:
        recorder.finish()
        recorder.uninstall()
    assert next(read_notes(folder, Failed), None) is None


def recorded(folder: Path, work: Callable[[], object], spec: OpWindow | None = None) -> Recording:
    """Of operations."""
    record_in(folder, work, RunSpec(ops=spec or OpWindow()))
    return RunFolder(folder).recordings()[0]


def rows(recording: Recording) -> list[OpRow]:
    return list(Ops(recording).rows())


WATCHED = RunSpec(resume=ResumeSpec())
