"""Run by torchrun: every kind of augmentation, broken off in mid-epoch and resumed with the state that rank 0 saved.

torchrun --nproc-per-node W ranks_probe.py FOLDER [resume]
"""

import json
import os
import sys
from pathlib import Path

import torch

from tests.data.augment import KINDS, bits, loader

TAKEN = 2


def main() -> None:
    folder, resumes = Path(sys.argv[1]), sys.argv[2:] == ["resume"]
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    # What a script does that wants other dropout on every rank; no batch may depend on it.
    torch.manual_seed(100 + rank)
    found = {}
    for kind in KINDS:
        fetched = loader(kind, int(os.environ["WORKERS"]))
        path = folder / f"{kind}.json"
        if resumes:
            fetched.load_state_dict(json.loads(path.read_text()))
            found[kind] = [bits(batch) for batch in fetched]
            continue
        iterator = iter(fetched)
        found[kind] = [bits(next(iterator)) for _ in range(TAKEN)]
        if rank == 0:
            path.write_text(json.dumps(fetched.state_dict()))
    (folder / f"rank{rank}{'-resumed' if resumes else ''}.json").write_text(json.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
