"""Trains on every kind of augmentation, saves its state after every batch, and is killed in mid-epoch, or resumes.

killed_probe.py FOLDER WORKERS kill|resume
"""

import json
import os
import signal
import sys
from pathlib import Path

from tests.data.augment import KINDS, bits, loader

TAKEN = 2


def main() -> None:
    folder, workers, path = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if path == "resume":
        for kind in KINDS:
            fetched = loader(kind, workers)
            fetched.load_state_dict(json.loads((folder / f"{kind}.json").read_text()))
            rest = [bits(batch) for batch in fetched]
            (folder / f"{kind}-rest.json").write_text(json.dumps(rest))
        return
    iterators = []
    for kind in KINDS:
        fetched = loader(kind, workers)
        iterators.append(iter(fetched))
        for _ in range(TAKEN):
            next(iterators[-1])
            (folder / f"{kind}.json").write_text(json.dumps(fetched.state_dict()))
    # Workers hold batches that nobody has got.
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
