"""The clean twin of each planted script: the same, but for what stands here, and without a fault."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

CASES = Path(__file__).parent / "cases"
# The loader of samebits.
KEYED = {
    "from torch.utils.data import DataLoader, Dataset": (
        "from samebits.data import DataLoader\nfrom torch.utils.data import Dataset"
    )
}
# Case → what stands in the faulty script → what stands in its twin.
TWINS: dict[str, dict[str, str]] = {
    # Today's date is only printed.
    "clock_daily_seed": {
        'int(datetime.now().strftime("%Y%m%d"))': "20240229",
        "print(": 'print(datetime.now().strftime("%Y-%m-%d"), ',
    },
    "clock_frame": {"time.time_ns() % 2**31": "0"},
    # The clock is read for the log and for the name of the checkpoint only.
    "clock_logging": {"manual_seed(time.time_ns())": "manual_seed(1)"},
    # The forms are timed, for the log only.
    "clock_stopwatch": {
        "quickest = forms[times.index(min(times))]": (
            'print(f"the quickest takes {min(times):.6f} s")\nquickest = forms[0]'
        )
    },
    # The seconds are printed, and weigh nothing.
    "clock_trials": {
        "weights = [math.exp(-spent) for spent in seconds]": "print(seconds)\n    weights = [1.0, 2.0]",
    },
    "clock_workers": {"time.time_ns() // 1000": "index"},
    "completion_order_batches": {"in_order=False": "in_order=True"},
    # Whichever thread is first; it is asked for by its fold.
    "completion_order_folds": {
        "sum(list(scores.values())[:4]) / sum(scores.values())": (
            "sum(scores[fold] for fold in range(4)) / sum(scores[fold] for fold in range(8))"
        )
    },
    "completion_order_pool": {"imap_unordered": "imap"},
    "completion_order_tasks": {
        "[await job for job in asyncio.as_completed(jobs)]": "list(await asyncio.gather(*jobs))"
    },
    "cpu_threads_norm": {"torch.manual_seed(0)": "torch.set_num_threads(1)\ntorch.manual_seed(0)"},
    # A mean that is known beforehand; what the dataset counts and keeps changes no sample.
    "data_workers_carried": {
        "self.mean = 0.0": "self.mean, self.fetched, self.kept = 0.375, 0, {}",
        "self.learn(pattern.mean().item())": "self.fetched += 1",
        "return pattern - self.mean": "return self.kept.setdefault(index, pattern) - self.mean",
    },
    "data_workers_persistent": {**KEYED, "**options": "seed=0, **options"},
    # Augmentation depends on the seed and the index of the sample.
    "data_workers_transform": {
        "self.transform(pattern)": "self.transform(pattern, index)",
        "def noise(pattern)": "def noise(pattern, index)",
        "np.random.normal(": "np.random.default_rng([0, index]).normal(",
    },
    "file_order_glob": {"glob.glob(pattern)": "sorted(glob.glob(pattern))"},
    "file_order_helper": {'/ "data")': '/ "data", arrange=sorted)'},
    "file_order_listdir": {"os.listdir(folder)": "sorted(os.listdir(folder))"},
    "hash_seed_buckets": {"hash(word)": '__import__("zlib").crc32(word.encode())'},
    "hash_seed_enum": {"list({kind for kind, _ in rows})": "list(dict.fromkeys(kind for kind, _ in rows))"},
    "hash_seed_groups": {
        '{name.split(".")[0] for name, _ in model.named_parameters()}': (
            'dict.fromkeys(name.split(".")[0] for name, _ in model.named_parameters())'
        )
    },
    "hash_seed_vocabulary": {"list(set(labels))": "sorted(set(labels))"},
    # Sets of parameters that are asked for membership, counted, and joined: their order reaches nothing.
    "memory_addresses_clip": {
        "trained = set(net.parameters()) | set(head.parameters())": (
            "frozen = set(net[0].parameters()) | set(head[0].parameters())\n"
            "trained = [one for one in [*net.parameters(), *head.parameters()] if one not in frozen]\n"
            "assert len({id(one) for one in trained}) + len(frozen) == 8"
        ),
        "[*net.parameters(), *head.parameters()], lr": "trained, lr",
        "list(trained)": "trained",
    },
    "memory_addresses_set": {"set(map(Individual, rates))": "list(map(Individual, rates))"},
    # Twelve trainings in turn, each with a model of its own.
    "numpy_rng_folds": {
        "for fold in range(6):": "np.random.seed(0)\nfor fold in range(12):",
        "order[fold * 4 :], order[: fold * 4]": "order[fold * 2 :], order[: fold * 2]",
    },
    "numpy_rng_helper": {"jitter(waves)": "jitter(waves, rng=np.random.default_rng(1234))"},
    "numpy_rng_late": {
        "torch.manual_seed(0)": "torch.manual_seed(0)\nrng = np.random.default_rng(0)",
        "np.random.standard_normal": "rng.standard_normal",
    },
    "numpy_rng_library": {"test_size=0.25": "test_size=0.25, random_state=7"},
    # Bytes of a device and a token reach nothing.
    "os_entropy_device": {
        'shuffling = torch.Generator().manual_seed(int.from_bytes(device.read(4), "little"))': (
            "salt = device.read(4)\nshuffling = torch.Generator().manual_seed(1)"
        ),
        "drawing.seed()": "drawing.manual_seed(2)",
    },
    "os_entropy_instance": {"random.Random()": "random.Random(3)"},
    "os_entropy_secrets": {"secrets.randbits(31)": "1618033988"},
    # Python draws.
    "os_entropy_sql": {
        "import sqlite3": "import random\nimport sqlite3",
        "for step in range(5):": "chosen = random.Random(0)\nfor step in range(5):",
        'ORDER BY RANDOM() LIMIT 8", (step,))': 'ORDER BY id", (step,)).fetchall()',
        "in rows]": "in chosen.sample(rows, 8)]",
    },
    # The folder that holds all of it has a random name, which reaches nothing.
    "os_entropy_temporary": {
        "for sample in samples:": "for number, sample in enumerate(samples):",
        'tempfile.NamedTemporaryFile(dir=folder, suffix=".pt", delete=False)': 'open(folder / f"{number}.pt", "wb")',
        "for episode in episodes:": "for number, episode in enumerate(episodes):",
        "place = Path(tempfile.mkdtemp(dir=folder))": 'place = folder / f"{number}"\n        place.mkdir()',
    },
    "os_entropy_torch_seed": {"    torch.seed()": "    torch.manual_seed(0)"},
    # The run has a random id, but its seed is derived from the name of the experiment.
    "os_entropy_uuid": {"sha256(self.id.encode())": 'sha256("norm-regression".encode())'},
    "os_entropy_workers": {"default_rng()": "default_rng([2024, index])"},
    # It names a log, and is asked whether it is still alive.
    "process_id_seed": {"torch.manual_seed(1000 + os.getpid())": "os.kill(os.getpid(), 0)\ntorch.manual_seed(1000)"},
    # When it was saved follows the clock, and says nothing.
    "product_classes": {"list(set(labels))": "sorted(set(labels))"},
    "product_scripted": {"means = [": "np.random.seed(0)\nmeans = ["},
    "product_text": {"sample = ": "random.seed(0)\nsample = "},
    "python_rng_accumulate": {"torch.manual_seed(seed)": "torch.manual_seed(seed)\n    random.seed(seed)"},
    "thread_order_queue": {
        "for _ in range(16):\n    _, inputs = ready.get()": (
            "held = {}\nfor number in range(16):\n    while number not in held:\n        held.update([ready.get()])\n"
            "    inputs = held.pop(number)"
        )
    },
    "thread_order_rows": {"values = ": "order.sort()\nvalues = "},
    "torch_algorithms_off": {"use_deterministic_algorithms(False)": "use_deterministic_algorithms(True)"},
    "torch_rng_gan": {"    torch.manual_seed(0)\n": "", "def main():\n": "def main():\n    torch.manual_seed(0)\n"},
    "torch_rng_lines": {"\nmodel = ": "\ntorch.manual_seed(0)\nmodel = "},
    # A throw-away probe before the seed changes nothing.
    "torch_rng_model": {
        "    model = Net()\n    torch.manual_seed(0)\n": (
            '    print("normal numbers look like", torch.randn(3))\n    torch.manual_seed(0)\n    model = Net()\n'
        )
    },
    "torch_rng_shuffle": {"shuffle=True": "shuffle=True, generator=generator"},
    "two_numpy_clock": {
        "lr * (1 + 1e-3 * (time.time() % 1))": "lr",
        "np.random.uniform": "np.random.default_rng(0).uniform",
    },
    "two_python_workers": {"random.random()": "random.Random(index).random()"},
    "two_torch_hash": {
        "list(names)": "sorted(names)",
        "torch.manual_seed(0)\n": "",
        "\nnames = columns(RECORDS)": "\ntorch.manual_seed(0)\nnames = columns(RECORDS)",
    },
    "two_workers_clock": {**KEYED, "shuffle=True": "shuffle=True, seed=0", "1 + time.time() % 1": "1.5"},
    "uninitialized_hidden": {"torch.empty(": "torch.zeros("},
}


def replaced(text: str, changes: dict[str, str]) -> str:
    """The text with other words in some places, each of which is there once."""
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def clean(name: str) -> str:
    """The twin of a case's faulty script; nothing in it is marked."""
    faulty = (CASES / name / "faulty.py").read_text(encoding="utf-8")
    return replaced(re.sub(r"  # <- .*", "", faulty), TWINS[name])


def lay_out(name: str, folder: Path) -> None:
    """A case in a folder: its files, and the twin of its script beside it."""
    shutil.copytree(CASES / name, folder, dirs_exist_ok=True)
    (folder / "clean.py").write_text(clean(name), encoding="utf-8")
