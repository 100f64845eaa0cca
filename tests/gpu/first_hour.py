"""What to look at first on a GPU, in the order in which one finding would explain the next; needs torch and samebits.

Every check is a function that takes a folder of its own and returns what is to be written down. Run by `tests/gpu`.
"""

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import torch
from torch import nn

import samebits
from samebits.bits.digest import digests, pending
from samebits.bits.digest.parts import LOW_ADDRESS
from samebits.runfolder.folder import open_run
from samebits.runfolder.notes import Failed, read_notes
from samebits.runfolder.ops import Ops

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)


def versions(folder: Path) -> str:
    """What this is, and where its memory lies."""
    address = torch.empty(1 << 20, device=DEVICE).data_ptr()
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "no GPU"
    below = "below" if address < LOW_ADDRESS else "above"
    return f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}, memory at {address:#x} ({below} LOW_ADDRESS)"


def parity(folder: Path) -> str:
    """Every dtype and look has one digest: among others, alone, and as a copy in order."""
    generator = torch.Generator().manual_seed(0)
    checked = 0
    for name in filter(lambda name: hasattr(torch, name), DTYPES):
        dtype = getattr(torch, name)
        views = []
        for count in (1, 30, 4095 * 4, 4096 * 7 + 3, 5_000_000):
            raw = torch.randint(0, 2 if dtype is torch.bool else 256, (count * dtype.itemsize,), generator=generator)
            there = raw.to(torch.uint8).to(DEVICE).view(dtype)
            views += [there, there[1:], there[: count // 6 * 6].view(-1, 2, 3).transpose(0, 2)]
        alone = [digests([one])[0] for one in views]
        copies = digests([one.contiguous() for one in views])
        assert digests(views) == alone == copies, name
        assert len(set(alone)) == len({(one.numel(), str(one.shape)) for one in views}), name
        checked += len(views)
    nan = torch.tensor([0x7E01, 0x7E02, -0x1FF], dtype=torch.int16, device=DEVICE).view(torch.float16)
    assert len(set(digests(list(nan.split(1))))) == 3, "payloads of NaNs"
    return f"{checked} tensors of {len(DTYPES)} dtypes"


def undisturbed(folder: Path) -> str:
    """A training of convolutions and attention in half precision has the bits that it has without a recording."""
    found = []
    for level in (None, "step", "op"):
        with samebits.pinned(seed=0):
            net = nn.Sequential(
                nn.Conv2d(3, 16, 3),
                nn.BatchNorm2d(16),
                nn.ReLU(),
                nn.Flatten(2),
                nn.Linear(196, 64),
                nn.TransformerEncoderLayer(64, 4, 128, batch_first=True),
                nn.Flatten(),
                nn.Linear(16 * 64, 10),
            ).to(DEVICE)
            optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

            def train(net: nn.Module = net, optimizer: torch.optim.Optimizer = optimizer) -> None:
                for _ in range(6):
                    x, y = torch.randn(32, 3, 16, 16).to(DEVICE), torch.randint(0, 10, (32,)).to(DEVICE)
                    with torch.autocast(DEVICE, dtype=torch.bfloat16):
                        loss = nn.functional.cross_entropy(net(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()

            if level is None:
                train()
            else:
                with samebits.record(folder / level, level=level):
                    train()
            found.append(digests([*net.state_dict().values()]))
    assert found[0] == found[1] == found[2]
    return "bits as without, at both levels"


def graphs(folder: Path) -> str:
    """A captured training step stays whole, and each replay is a row."""
    if DEVICE != "cuda":
        return "needs CUDA"
    results = []
    for watched in (False, True):
        torch.manual_seed(0)
        model = nn.Linear(64, 8).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        x = torch.randn(32, 64, device="cuda")

        def step(model: nn.Module = model, optimizer: torch.optim.Optimizer = optimizer, x: torch.Tensor = x) -> None:
            optimizer.zero_grad(set_to_none=False)
            model(x).square().mean().backward()
            optimizer.step()

        def train(step: object = step) -> None:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    step()  # type: ignore[operator]
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()  # type: ignore[operator]
            for _ in range(5):
                graph.replay()

        if watched:
            with samebits.record(folder / "run"):
                train()
        else:
            train()
        torch.cuda.synchronize()
        results.append(digests(list(model.parameters())))
    (recording,) = open_run(folder / "run").recordings()
    assert results[0] == results[1]
    assert not list(read_notes(folder / "run", Failed))
    # The optimizer is older than the recording: the step in which it is met has a row for its backward alone.
    assert recording.steps == 9, recording.steps
    return f"{recording.steps} rows, bits as without"


def attention(folder: Path) -> str:
    """Every backend of attention, recurrent nets and normalisation, twice: nothing differs, nothing ends."""
    told = []
    for backend in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):

        def work(backend: str = backend) -> None:
            torch.manual_seed(0)
            dtype = torch.bfloat16 if DEVICE == "cuda" else torch.float32
            q, k, v = (torch.randn(2, 4, 256, 64, device=DEVICE, dtype=dtype, requires_grad=True) for _ in range(3))
            with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, backend)):
                nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).float().sum().backward()

        told.append(f"{backend.lower()} {_repeats(work)}")

    def others() -> None:
        torch.manual_seed(0)
        net, norm = nn.LSTM(32, 64, 2, device=DEVICE), nn.BatchNorm2d(64, device=DEVICE)
        net(torch.randn(16, 8, 32, device=DEVICE))[0].sum().backward()
        images = torch.randn(4, 64, 16, 16, device=DEVICE).to(memory_format=torch.channels_last)
        norm(images).square().sum().backward()

    told.append(f"lstm and batch norm {_repeats(others)}")

    def late() -> None:
        x = torch.full((4_000_000,), 1.5, device=DEVICE)
        host = x.to("cpu", non_blocking=True)
        torch.cuda.synchronize() if DEVICE == "cuda" else None
        host.sum()

    told.append(f"late copy {_repeats(late)}")
    return "; ".join(told)


def _repeats(work: object) -> str:
    try:
        samebits.assert_repeats(work, runs=3)  # type: ignore[arg-type]
    except samebits.DivergenceError as error:
        return f"DIFFERS ({error})"
    except RuntimeError as error:
        return f"does not run here ({str(error).splitlines()[0][:80]})"
    return "repeats"


def compiled(folder: Path) -> str:
    """Compiled code with CUDA graphs runs at level op, and its operations are passed by."""
    model = nn.Linear(64, 64, device=DEVICE)
    step = torch.compile(lambda x: model(x).relu().sum(), mode="reduce-overhead")
    with samebits.record(folder / "run", level="op"):
        for _ in range(5):
            step(torch.ones(32, 64, device=DEVICE)).backward()
            model.zero_grad()  # or else torch refuses to add to what the last replay made
    names = {row.kind.op for recording in open_run(folder / "run").recordings() for row in Ops(recording).rows()}
    assert not list(read_notes(folder / "run", Failed))
    assert not {name for name in names if "mm" in name}, names
    return f"{len(names)} kinds of operations outside"


def overhead(folder: Path) -> str:
    """A step with level step and level op over the plain one, and what a digest moves a second."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, device=DEVICE)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-4)
    x = torch.randn(8 if DEVICE == "cpu" else 64, 128, 512, device=DEVICE)

    def steps() -> None:
        for _ in range(5):
            optimizer.zero_grad()
            layer(x).square().mean().backward()
            optimizer.step()

    steps()
    plain = _seconds(steps)
    told = []
    for level in ("step", "op"):
        with samebits.record(folder / level, level=level):
            steps()
            told.append(f"level {level} {_seconds(steps) / plain:.2f} times the plain step")
    big = torch.empty(1 << (24 if DEVICE == "cpu" else 29), device=DEVICE).normal_()
    rate = big.nbytes / _seconds(lambda: pending([big])) / 1e9
    return "; ".join([*told, f"digest {rate:.0f} GB/s"])


def _seconds(work: object) -> float:
    found = []
    for _ in range(5):
        torch.cuda.synchronize() if DEVICE == "cuda" else None
        start = time.perf_counter()
        work()  # type: ignore[operator]
        torch.cuda.synchronize() if DEVICE == "cuda" else None
        found.append(time.perf_counter() - start)
    return sorted(found)[2]


def memory(folder: Path) -> str:
    """A tensor of 8 GB, as it lies and transposed, takes some dozens of megabytes beside itself."""
    if DEVICE != "cuda":
        return "needs CUDA"
    big = torch.zeros(1 << 15, 1 << 16, device="cuda")
    digests([big[:1]])
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    digests([big])
    digests([big.t()])
    return f"{(torch.cuda.max_memory_allocated() - before) / 1e6:.0f} MB"


RACE = """
    import torch
    torch.manual_seed(0)
    index = torch.randint(0, 64, (200_000,), device="DEVICE")
    source = torch.randn(200_000, 16, device="DEVICE")
    weight = torch.ones(16, device="DEVICE", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        total = torch.zeros(64, 16, device="DEVICE").index_add(0, index, source * weight)  # adds by atomics
        total.square().mean().backward()
        optimizer.step()
"""


def race(folder: Path) -> str:
    """Atomics are located by runs that follow without holding anything, replayed and cured."""
    (folder / "train.py").write_text(textwrap.dedent(RACE).replace("DEVICE", DEVICE))
    words = [sys.executable, "-m", "samebits", "check", "--format", "json", "train.py"]
    found = json.loads(subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False).stdout)
    if DEVICE != "cuda":
        return f"{found['verdict']} on the CPU"
    assert [cause["factor"] for cause in found["causes"]] == ["torch-algorithms"], found["causes"]
    origin = found["origins"][0]
    kind = origin["first"]["place"]["row"]["kind"]
    assert kind["source"].endswith("# adds by atomics")
    assert origin["replay"]["is_racy"]
    assert found["remedy"]["verified"]
    return f"{kind['op']} in {len(found['runs'])} runs"


RANKS = """
    import os
    import torch
    from torch.nn.parallel import DistributedDataParallel
    nccl = "DEVICE" == "cuda"
    torch.distributed.init_process_group("nccl" if nccl else "gloo")
    device = f"cuda:{os.environ['LOCAL_RANK']}" if nccl else "cpu"
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(64, 8).to(device), device_ids=[0] if nccl else None)
    optimizer = torch.optim.AdamW(model.parameters(), fused=nccl)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(16, 64, device=device)).square().mean().backward()
        optimizer.step()
    torch.distributed.destroy_process_group()
"""


def ranks(folder: Path) -> str:
    """DDP over NCCL in one process, no device chosen, at level op."""
    (folder / "train.py").write_text(textwrap.dedent(RANKS).replace("DEVICE", DEVICE))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    words = [sys.executable, "-m", "samebits", "check", "--format", "json", "--level", "op", "--"]
    done = subprocess.run([*words, *launcher, "train.py"], cwd=folder, capture_output=True, text=True, check=False)
    return f"{json.loads(done.stdout)['verdict']}: {done.stderr[-200:].strip() or 'nothing on stderr'}"


def places(folder: Path) -> str:
    """Operations, passes, modules and lines of a training with checkpointing are those of the CPU."""
    found = []
    for device in ("cpu", DEVICE):
        with samebits.record(folder / f"{len(found)}", level="op"):
            torch.manual_seed(0)
            net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
            for _ in range(2):
                out = torch.utils.checkpoint.checkpoint(net, torch.ones(2, 16, device=device), use_reentrant=True)
                (out + net(torch.ones(2, 16, device=device))).sum().backward()
        (recording,) = open_run(folder / f"{len(found)}").recordings()
        kinds = [row.kind for row in Ops(recording).rows()]
        found.append([(kind.op, kind.pass_, kind.module, kind.line, kind.backward_of) for kind in kinds])
    here, there = ([one for one in own if one[1] == "backward"] for own in found)
    apart = [pair for pair in zip(here, there, strict=False) if pair[0] != pair[1]]
    return f"{len(there)} backward operations, {len(apart)} told otherwise{f', first {apart[0]}' if apart else ''}"


LOOKS = (versions, parity, undisturbed, graphs, attention, compiled, race, ranks, places)
PRICES = (overhead, memory)
