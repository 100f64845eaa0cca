"""A small CNN or a four-layer transformer that takes some steps whenever it is told to, and says what time they took.

    workload.py cnn|transformer [debug]

Reads a number of steps per line from standard input; answers with the seconds they took, and those of the processor.
Started by `recording.py`, plainly, under samebits and (`debug`) under torch's own DebugMode, so that all can take turns
on the same machine.
"""

import contextlib
import sys
import time

import torch
from torch import nn


def cnn():
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    return model, torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))


def transformer():
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.Embedding(1000, 256), nn.TransformerEncoder(layer, 4), nn.Linear(256, 1000))
    tokens = torch.randint(0, 1000, (16, 128))
    return model, tokens, tokens.roll(-1, 1)


@contextlib.contextmanager
def debug_mode():
    """Digests of the inputs and results of every operation, as torch itself offers them."""
    from torch.utils._debug_mode import DebugMode

    with DebugMode() as mode, mode.log_tensor_hashes(hash_fn="hash_tensor", hash_inputs=True):
        yield


def main():
    observer = debug_mode if sys.argv[2:] == ["debug"] else contextlib.nullcontext
    torch.manual_seed(0)
    model, x, y = {"cnn": cnn, "transformer": transformer}[sys.argv[1]]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    criterion = nn.CrossEntropyLoss()
    for line in sys.stdin:
        start, start_cpu = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            with observer():
                optimizer.zero_grad()
                criterion(model(x).flatten(0, -2), y.flatten()).backward()
                optimizer.step()
        print(time.perf_counter() - start, time.process_time() - start_cpu, flush=True)


if __name__ == "__main__":
    main()
