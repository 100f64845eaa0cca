"""Runs a script and writes one line per optimizer step: a SHA-256 of parameters and gradients, made without samebits.

probe.py LINES_FILE SCRIPT
"""

import hashlib
import runpy
import sys
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

lines, script = sys.argv[1:3]
output = Path(lines).open("w")  # noqa: SIM115 - open until the process ends


def write_step(optimizer, args, kwargs):
    content = hashlib.sha256()
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            for tensor in (parameter.detach(), parameter.grad):
                if tensor is not None:
                    content.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
    print(content.hexdigest(), file=output, flush=True)


register_optimizer_step_post_hook(write_step)
torch.manual_seed(0)
sys.argv = [script]
sys.path[0] = str(Path(script).parent)
runpy.run_path(script, run_name="__main__")
