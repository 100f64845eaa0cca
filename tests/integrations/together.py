"""Several ranks of one training over gloo, each of which writes down what it saw."""

import os
from pathlib import Path

import torch

from tests.integrations.small import Seen
from tests.running import printed_by


def run_ranks(module: str, folder: Path) -> list[Seen]:
    """What each of two ranks saw in the whole training that the module's `main` gives to `write`.

    The others resumed it, and are named after how many batches were done: each has to have seen the rest.
    """
    words = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", module, folder)
    printed_by(*words, timeout=600)
    ranks = [torch.load(folder / f"rank-{rank}.pt", weights_only=False) for rank in range(2)]
    for name in ranks[0].keys() - {"whole"}:
        assert [rank[name] for rank in ranks] == [rank["whole"].since(int(name[:2])) for rank in ranks], name
    assert len(ranks[0]) > 3
    return [rank["whole"] for rank in ranks]


def write(folder: Path, seen: dict[str, Seen]) -> None:
    """What this rank saw. gloo's threads are ended first: left to the interpreter, they bring it down at times."""
    torch.save(seen, folder / f"rank-{os.environ['RANK']}.pt")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
