"""Each kind of cure, in the styles in which people write; and what no edit mends says why."""

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.base.sites import Site
from samebits.fixing.cures import EditableFiles, MendRequest
from samebits.fixing.edits import EditableFile, NoCureError, editable_file
from samebits.fixing.patch import WAYS, Draft, patch

SCRIPT = "/project/train.py"


def program(*texts: str) -> EditableFiles:
    """A script, and modules beside it."""
    names = [SCRIPT, *(f"/project/m{number}.py" for number in range(1, len(texts)))]
    known = {name: editable_file(name, text.encode()) for name, text in zip(names, texts, strict=True)}

    def read(path: str) -> EditableFile:
        if path not in known:
            raise NoCureError(f"{path} is an installed package's")
        return known[path]

    return EditableFiles(read, known)


def wanted(factor: str, called: str, text: str, mark: str = "# <-") -> MendRequest:
    """A cause at the marked line of a script, seeded too late or with others at lines with further marks."""
    lines = text.splitlines()

    def site(own: str) -> Site | None:
        at = next((n for n, line in enumerate(lines, 1) if line.endswith(own)), 0)
        return (
            Site(SCRIPT, at, "f" if lines[at - 1].startswith(" ") else "<module>", lines[at - 1].strip())
            if at
            else None
        )

    late, early = site("# late"), site("# early")
    return MendRequest(factor, site(mark), called, "", SCRIPT, (), late, (early,) if early else (), 2)


def patched(factor: str, called: str, before: str, attempt: int = 0) -> tuple[str, Draft]:
    """The script after the patch."""
    text = textwrap.dedent(before).lstrip()
    draft = patch([wanted(factor, called, text)], program(text), attempt)
    return (draft.changes[0].after.decode() if draft.changes else text), draft


# A seed that is another one each time, and in each worker of a loader.
DRAWN = 'torch.randint(2**32, (), device="cpu").item()'
# name: (factor, what was called, before, after); one line is marked.
CURES = {
    "no seed": (
        "torch-rng",
        "torch.rand",
        """
        '''Doc.'''
        import torch
        from torch import nn
        x = torch.rand(3)  # <-
        """,
        """
        '''Doc.'''
        import torch
        from torch import nn

        torch.manual_seed(0)
        x = torch.rand(3)  # <-
        """,
    ),
    "no import": (
        "torch-rng",
        "torch.rand",
        """
        from torch import rand

        x = rand(3)  # <-
        """,
        """
        from torch import rand
        import torch
        torch.manual_seed(0)

        x = rand(3)  # <-
        """,
    ),
    "an import that comes late": (
        "torch-rng",
        "torch.rand",
        """
        import os
        os.environ["OMP_NUM_THREADS"] = "1"
        import torch
        from torch import nn
        x = torch.rand(3)  # <-
        """,
        """
        import os
        os.environ["OMP_NUM_THREADS"] = "1"
        import torch
        from torch import nn

        torch.manual_seed(0)
        x = torch.rand(3)  # <-
        """,
    ),
    "a seed that NumPy would refuse": (
        "numpy-rng",
        "numpy.random.rand",
        """
        import numpy as np
        import torch
        BIG = 20240131235959
        torch.manual_seed(BIG)  # early
        x = np.random.rand(3)  # <-
        """,
        """
        import numpy as np
        import torch
        BIG = 20240131235959
        torch.manual_seed(BIG)  # early
        np.random.seed(BIG % 2**32)
        x = np.random.rand(3)  # <-
        """,
    ),
    "another alias": (
        "numpy-rng",
        "numpy.random.rand",
        """
        #!/usr/bin/env python
        # A licence.
        import numpy
        x = numpy.random.rand(3)  # <-
        """,
        """
        #!/usr/bin/env python
        # A licence.
        import numpy

        numpy.random.seed(0)
        x = numpy.random.rand(3)  # <-
        """,
    ),
    "its own constant": (
        "numpy-rng",
        "numpy.random.rand",
        """
        import numpy as np

        SEED = 7
        x = np.random.rand(3)  # <-
        """,
        """
        import numpy as np

        SEED = 7
        np.random.seed(SEED)
        x = np.random.rand(3)  # <-
        """,
    ),
    "beside the others": (
        "python-rng",
        "random.shuffle",
        """
        import random
        import torch

        def set_seed(seed):
            torch.manual_seed(seed)  # early

        def main():
            set_seed(3)
            random.shuffle([1, 2])  # <-

        main()
        """,
        """
        import random
        import torch

        def set_seed(seed):
            torch.manual_seed(seed)  # early
            random.seed(seed)

        def main():
            set_seed(3)
            random.shuffle([1, 2])  # <-

        main()
        """,
    ),
    "two beside the other one, as reading finds": (
        "another seed",
        "",
        """
        import numpy as np
        import random
        import torch

        def set_seed(seed):
            torch.manual_seed(seed)

        set_seed(3)
        x = np.random.rand(3) * random.random() + torch.rand(3).numpy()  # <-
        """,
        """
        import numpy as np
        import random
        import torch

        def set_seed(seed):
            torch.manual_seed(seed)
            np.random.seed(seed % 2**32)
            random.seed(seed)

        set_seed(3)
        x = np.random.rand(3) * random.random() + torch.rand(3).numpy()  # <-
        """,
    ),
    "a shuffled evaluation": (
        "evaluation",
        "",
        """
        test_loader = DataLoader(data, 8, True, num_workers=2)  # <-
        """,
        """
        test_loader = DataLoader(data, 8, False, num_workers=2)  # <-
        """,
    ),
    "a misspelt variable": (
        "misspelt",
        "",
        """
        import os
        os.environ["CUBLAS_WORKSPACE_CONFG"] = ":4096:8"  # <-
        """,
        """
        import os
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # <-
        """,
    ),
    "a variable that comes too late": (
        "late variable",
        "",
        """
        import os
        import torch
        if True:
            x = 3
        os.environ["OMP_NUM_THREADS"] = "1"  # one is enough  # <-
        """,
        """
        import os

        os.environ["OMP_NUM_THREADS"] = "1"  # one is enough  # <-
        import torch
        if True:
            x = 3
        """,
    ),
    "a variable that comes too late, and so does os": (
        "late variable",
        "",
        """
        from torch import nn
        import os
        os.environ["OMP_NUM_THREADS"] = "1"  # <-
        """,
        """
        import os
        os.environ["OMP_NUM_THREADS"] = "1"  # <-
        from torch import nn
        import os
        """,
    ),
    "an option that nothing reads": (
        "torch-rng",
        "torch.rand",
        """
        import argparse
        import torch

        def parse():
            parser = argparse.ArgumentParser()
            parser.add_argument("--seed", type=int)
            return parser.parse_args()

        def made(seed=None):
            np.random.seed(seed)
            return torch.rand(3)  # <-

        def main():
            args = parse()
            print(made())

        main()
        """,
        """
        import argparse
        import torch

        def parse():
            parser = argparse.ArgumentParser()
            parser.add_argument("--seed", type=int, default=0)
            return parser.parse_args()

        def made(seed=None):
            np.random.seed(seed)
            return torch.rand(3)  # <-

        def main():
            args = parse()
            torch.manual_seed(args.seed)
            print(made())

        main()
        """,
    ),
    "an option that is None": (
        "torch-rng",
        "torch.rand",
        """
        import argparse
        import torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--seed", type=int, default=None)
        args = parser.parse_args()
        if args.seed is not None:
            torch.manual_seed(args.seed)
        print(torch.rand(3))  # <-
        """,
        """
        import argparse
        import torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--seed", type=int, default=0)
        args = parser.parse_args()
        if args.seed is not None:
            torch.manual_seed(args.seed)
        print(torch.rand(3))  # <-
        """,
    ),
    "a seed that comes too late": (
        "torch-rng",
        "torch.rand",
        """
        import torch
        def main(seed=0):
            '''Doc.'''
            own = seed + 1
            x = torch.rand(3)  # <-
            torch.manual_seed(own)  # late
            return x
        print(main())
        """,
        """
        import torch
        def main(seed=0):
            '''Doc.'''
            own = seed + 1
            torch.manual_seed(own)  # late
            x = torch.rand(3)  # <-
            return x
        print(main())
        """,
    ),
    "a call that seeds too late": (
        "torch-rng",
        "torch.rand",
        """
        import torch
        def set_seed(seed):
            torch.manual_seed(seed)  # late
        def main():
            x = torch.rand(3)  # <-
            set_seed(4)
            return x
        print(main())
        """,
        """
        import torch
        def set_seed(seed):
            torch.manual_seed(seed)  # late
        def main():
            set_seed(4)
            x = torch.rand(3)  # <-
            return x
        print(main())
        """,
    ),
    "a listing": (
        "file-order",
        "os.listdir",
        "import os\nnames = [n for n in os.listdir('.') if len(os.listdir(n)) > 1]  # <-\n",
        "import os\nnames = [n for n in sorted(os.listdir('.')) if len(sorted(os.listdir(n))) > 1]  # <-\n",
    ),
    "a chain over lines": (
        "file-order",
        "pathlib.Path.glob",
        "from pathlib import Path\npaths = [\n    p for p in Path('a')  # data\n    .glob('*.pt')  # <-\n]\n",
        "from pathlib import Path\npaths = [\n    p for p in sorted(Path('a')  # data\n    .glob('*.pt'))  # <-\n]\n",
    ),
    "a first one": (
        "file-order",
        "pathlib.Path.iterdir",
        "first = next(folder.iterdir())  # <-\n",
        "first = next(iter(sorted(folder.iterdir())))  # <-\n",
    ),
    "a first one, by a name": (
        "file-order",
        "pathlib.Path.iterdir",
        "files = folder.iterdir()  # <-\nfirst = next(files)\n",
        "files = iter(sorted(folder.iterdir()))  # <-\nfirst = next(files)\n",
    ),
    "a list": (
        "file-order",
        "glob.glob",
        "import glob\nfiles = glob.glob('*.png')  # <-\nfirst = files[0]\n",
        "import glob\nfiles = sorted(glob.glob('*.png'))  # <-\nfirst = files[0]\n",
    ),
    "scandir": (
        "file-order",
        "os.scandir",
        "with os.scandir(folder) as entries:  # <-\n    for one in entries:\n        print(one)\n",
        "with os.scandir(folder) as entries:  # <-\n"
        "    for one in sorted(entries, key=lambda entry: entry.name):\n        print(one)\n",
    ),
    "walk": (
        "file-order",
        "os.walk",
        "for root, dirs, files in os.walk(folder):  # <-\n    # first\n    for name in files:\n        print(name)\n",
        "for root, dirs, files in os.walk(folder):  # <-\n    # first\n    dirs.sort()\n    files.sort()\n"
        "    for name in files:\n        print(name)\n",
    ),
    "a set that is listed": (
        "hash-seed",
        "",
        "names = list(set(labels))  # <-\n",
        "names = sorted(set(labels), key=str)  # <-\n",
    ),
    "a set in a loop": (
        "hash-seed",
        "",
        "found = {n.lower() for n in names}\nfor i, name in enumerate(found):  # <-\n    ids[name] = i\n",
        "found = {n.lower() for n in names}\n"
        "for i, name in enumerate(sorted(found, key=str)):  # <-\n    ids[name] = i\n",
    ),
    "a set that joins another one": (
        "hash-seed",
        "",
        "seen = set(); seen |= set(words); ids = {w: i for i, w in enumerate(seen)}  # <-\n",
        "seen = set(); seen |= set(words); ids = {w: i for i, w in enumerate(sorted(seen, key=str))}  # <-\n",
    ),
    "a set that joins a list": (
        "hash-seed",
        "",
        "rows = []\nrows += set(words)  # <-\n",
        "rows = []\nrows += sorted(set(words), key=str)  # <-\n",
    ),
    "hash": (
        "hash-seed",
        "hash()",
        "import os\npart = hash(name) % 10  # <-\n",
        "import os\nimport zlib\npart = zlib.crc32(repr(name).encode()) % 10  # <-\n",
    ),
    "hash of a set": (
        "hash-seed",
        "hash()",
        "import zlib\nkey = hash(frozenset(tags)) % 10  # <-\n",
        "import zlib\nkey = zlib.crc32(repr(sorted(frozenset(tags), key=str)).encode()) % 10  # <-\n",
    ),
    "a set of objects": (
        "memory-addresses",
        "",
        "own = {p for p in net.parameters()}\nclip_grad_norm_(list(own), 1.0)  # <-\n",
        "own = dict.fromkeys(p for p in net.parameters())\nclip_grad_norm_(list(own), 1.0)  # <-\n",
    ),
    "as they are completed": (
        "completion-order",
        "concurrent.futures.as_completed",
        "jobs = {pool.submit(f, n) for n in range(3)}\nfor job in as_completed(jobs):  # <-\n    print(job.result())\n",
        "jobs = dict.fromkeys(pool.submit(f, n) for n in range(3))\nfor job in jobs:  # <-\n    print(job.result())\n",
    ),
    "tasks that are let go of": (
        "completion-order",
        "concurrent.futures.as_completed",
        "jobs = [pool.submit(f, n) for n in range(3)]\nfor job in as_completed(jobs):  # <-\n    jobs.remove(job)\n",
        "jobs = [pool.submit(f, n) for n in range(3)]\nfor job in list(jobs):  # <-\n    jobs.remove(job)\n",
    ),
    "tasks that are popped": (
        "completion-order",
        "concurrent.futures.as_completed",
        "jobs = {pool.submit(f, n): n for n in range(3)}\nrows = [jobs.pop(job) for job in as_completed(jobs)]  # <-\n",
        "jobs = {pool.submit(f, n): n for n in range(3)}\nrows = [jobs.pop(job) for job in list(jobs)]  # <-\n",
    ),
    "the first that is completed": (
        "completion-order",
        "concurrent.futures.as_completed",
        "done = as_completed(jobs)  # <-\nfirst = next(done)\n",
        "done = iter(list(jobs))  # <-\nfirst = next(done)\n",
    ),
    "tasks that are started there": (
        "completion-order",
        "concurrent.futures.as_completed",
        "rows = [job.result() for job in as_completed(pool.submit(f, n) for n in range(3))]  # <-\n",
        "rows = [job.result() for job in [pool.submit(f, n) for n in range(3)]]  # <-\n",
    ),
    "imap": (
        "completion-order",
        "Pool.imap_unordered",
        "rows = list(pool.imap_unordered(load, jobs, chunksize=4))  # <-\n",
        "rows = list(pool.imap(load, jobs, chunksize=4))  # <-\n",
    ),
    "a generator": (
        "os-entropy",
        "NumPy's generator",
        "import numpy as np\nrng = np.random.default_rng(seed=None)  # <-\n",
        "import numpy as np\nrng = np.random.default_rng(0)  # <-\n",
    ),
    "a generator for each sample, in whatever worker": (
        "os-entropy",
        "NumPy's generator",
        "import torch\ntorch.manual_seed(0)\nclass A:\n    def __getitem__(self, i):\n"
        "        rng = np.random.default_rng()  # <-\n",
        "import torch\ntorch.manual_seed(0)\nclass A:\n    def __getitem__(self, i):\n"
        f"        rng = np.random.default_rng({DRAWN})  # <-\n",
    ),
    "a generator for each worker": (
        "process-id",
        "os.getpid",
        "import torch\ntorch.manual_seed(0)\nclass A:\n    def __iter__(self):\n"
        "        rng = np.random.default_rng(os.getpid())  # <-\n",
        "import torch\ntorch.manual_seed(0)\nclass A:\n    def __iter__(self):\n"
        f"        rng = np.random.default_rng({DRAWN})  # <-\n",
    ),
    "two generators": (
        "os-entropy",
        "NumPy's generator",
        "import numpy as np\nfor one in (np.random.default_rng(), np.random.default_rng()):  # <-\n    print(one)\n",
        "import numpy as np\nfor one in (np.random.default_rng(0), np.random.default_rng(1)):  # <-\n    print(one)\n",
    ),
    "the time, and a rank": (
        "clock",
        "time.time",
        "rank = int(os.environ['RANK'])\ntorch.manual_seed(int(time.time()) + rank)  # <-\n",
        "rank = int(os.environ['RANK'])\ntorch.manual_seed(int(0) + rank)  # <-\n",
    ),
    "a method of torch": (
        "os-entropy",
        "torch.Generator.seed()",
        "gen = torch.Generator()\ngen.seed()  # <-\n",
        "gen = torch.Generator()\ngen.manual_seed(0)  # <-\n",
    ),
    "the time": (
        "clock",
        "time.time",
        "parser.add_argument('--seed', default=int(time.time()) % 1000)  # <-\n",
        "parser.add_argument('--seed', default=0)  # <-\n",
    ),
    "the default of a function's option": (
        "clock",
        "time.time",
        "@click.option('--seed', type=int, default=lambda: int(time.time()))  # <-\ndef run(seed):\n    pass\n",
        "@click.option('--seed', type=int, default=0)  # <-\ndef run(seed):\n    pass\n",
    ),
    "one of two": (
        "os-entropy",
        "random.SystemRandom",
        "seed = cfg.seed if cfg.seed is not None else secrets.randbelow(2**16)  # <-\n",
        "seed = cfg.seed if cfg.seed is not None else 0  # <-\n",
    ),
    "an id": (
        "os-entropy",
        "uuid.uuid4",
        "import random, torch, uuid\ntorch.manual_seed(0)\nclass A:\n    def __init__(self):\n"
        "        self.id = uuid.uuid4().hex  # <-\n",
        "import random, torch, uuid\ntorch.manual_seed(0)\nclass A:\n    def __init__(self):\n"
        f"        self.id = uuid.UUID(int=random.Random({DRAWN.replace('32', '62')})"
        ".getrandbits(128), version=4).hex  # <-\n",
    ),
    "memory": (
        "uninitialized-memory",
        "torch.empty",
        "x = torch.empty(3, 4)  # <-\n",
        "x = torch.zeros(3, 4)  # <-\n",
    ),
    "a loader": (
        "data-workers",
        "DataLoader(...)",
        "import os\nloader = DataLoader(\n    data,  # <-\n    shuffle=True,\n)\n",
        "import os\nimport samebits.data\n"
        "loader = samebits.data.DataLoader(\n    data,  # <-\n    shuffle=True, seed=0,\n)\n",
    ),
    "threads": ("cpu-threads", "", "import torch\nx = 1\n", "import torch\n\ntorch.set_num_threads(2)\nx = 1\n"),
    "warnings only": (
        "torch-algorithms",
        "torch.use_deterministic_algorithms(True, warn_only=True)",
        "torch.use_deterministic_algorithms(True, warn_only=True)  # <-\n",
        "torch.use_deterministic_algorithms(True)  # <-\n",
    ),
    "a flag": (
        "cudnn-autotune",
        "torch.backends.cudnn.benchmark = True",
        "torch.backends.cudnn.benchmark = True  # <-\n",
        "torch.backends.cudnn.benchmark = False  # <-\n",
    ),
    "a split": (
        "generator",
        "random_split",
        "import torch\na, b = random_split(data, [8, 2])  # <-\n",
        "import torch\na, b = random_split(data, [8, 2], generator=torch.Generator().manual_seed(0))  # <-\n",
    ),
}


@pytest.mark.parametrize("name", CURES)
def test_each_kind_of_cure(name: str) -> None:
    """The script is what a person would have made of it, and three lines are changed at most."""
    factor, called, before, after = CURES[name]

    text, draft = patched(factor, called, before)

    assert text == textwrap.dedent(after).lstrip()
    assert [one.factor for one in draft.mends] == [factor]
    assert 0 < draft.lines <= 3


def test_every_way_is_shown() -> None:
    """No factor that can be mended is missing above, but those that are mended as others are."""
    assert WAYS.keys() - {own[0] for own in CURES.values()} == {"cudnn-algorithms", "float-precision"}


# name: (factor, what was called, the script, why); the nearest legal case is above.
REFUSED = {
    "an operation that torch refuses": (
        "torch-algorithms",
        "nll_loss2d_forward, replaced",
        "import torch\n",
        "torch refuses nll_loss2d_forward",
    ),
    "a library lists": ("file-order", "os.scandir", "data = ImageFolder('data')  # <-\n", "a library makes it"),
    "sorted by what is shared": ("file-order", "os.listdir", "x = sorted(os.listdir('.'), key=len)  # <-\n", "already"),
    "walked elsewhere": ("file-order", "os.walk", "x = list(os.walk('.'))  # <-\n", "not unpacked"),
    "entries used twice": (
        "file-order",
        "os.scandir",
        "with os.scandir('.') as own:  # <-\n    a = [*own]\n    for one in own:\n        pass\n",
        "more than one loop",
    ),
    "the clock decides": ("clock", "time.time", "while time.time() < end:  # <-\n    step()\n", "not become a seed"),
    "a set that grows": (
        "memory-addresses",
        "",
        "own = set(ps)\nown.add(p)\nclip_grad_norm_(list(own), 1.0)  # <-\n",
        "only a set",
    ),
    "a set that is made elsewhere": (
        "memory-addresses",
        "",
        "def f(own: set):\n    clip_grad_norm_(list(own), 1.0)  # <-\ndef g():\n    own = {p for p in ps}\n",
        "not known how",
    ),
    "coroutines that nobody has begun": (
        "completion-order",
        "asyncio.as_completed",
        "import asyncio\nfor one in asyncio.as_completed([get(i) for i in range(3)]):  # <-\n    await one\n",
        "use asyncio.gather()",
    ),
    "a time limit": (
        "completion-order",
        "concurrent.futures.as_completed",
        "for job in as_completed(jobs, timeout=9):  # <-\n    pass\n",
        "time limit",
    ),
    "threads that share": ("thread-order", "", "thread.start()  # <-\n", "no edit"),
    "an environment": ("cublas-workspace", "", "x = 1  # <-\n", "no edit"),
    "another module": (
        "torch-rng",
        "torch.rand",
        "torch = load()\nx = torch.rand(3)  # <-\n",
        "something else",
    ),
    "two statements": (
        "python-rng",
        "random.random",
        "import random; y = (\n    1\n)\nx = random.random()  # <-\n",
        "more than one statement",
    ),
    "a text that begins there": (
        "python-rng",
        "random.random",
        "import random\nSEED = 3; TEXT = '''a\nb'''\nx = random.random()  # <-\n",
        "more than one statement",
    ),
    "a seed that a text begins behind": (
        "another seed",
        "",
        "import torch, random\ntorch.manual_seed(3); TEXT = '''a\nb'''\nx = random.random()  # <-\n",
        "holds more",
    ),
    "a draw above the seed": (
        "another seed",
        "",
        "import torch, random\nx = random.random()  # <-\ntorch.manual_seed(3)\n",
        "drawn from above",
    ),
    "names from anywhere": ("python-rng", "random.random", "from x import *\ny = random.random()  # <-\n", "may be"),
    "another function of that import": (
        "uninitialized-memory",
        "torch.empty",
        "from torch import empty\nx = empty(3)  # <-\n",
        "by its own name",
    ),
    "a format that zeros cannot have": (
        "uninitialized-memory",
        "torch.empty",
        "x = torch.empty(2, memory_format=torch.channels_last)  # <-\n",
        "memory_format",
    ),
    "entries that are closed": (
        "file-order",
        "os.scandir",
        "entries = os.scandir('.')  # <-\nx = list(entries)\nentries.close()\n",
        "only an iterator",
    ),
    "a loader for each epoch": (
        "data-workers",
        "DataLoader(...)",
        "for epoch in range(3):\n    loader = DataLoader(data)  # <-\n",
        "more than once",
    ),
    "a text as a seed": (
        "another seed",
        "",
        "import random, torch\nrandom.seed('a')\nx = torch.rand(3)  # <-\n",
        "no whole number",
    ),
    "bytes, with a rank": (
        "os-entropy",
        "os.urandom",
        "torch.manual_seed(int.from_bytes(os.urandom(4), order) + rank)  # <-\n",
        "processes may run it",
    ),
    "a name of its own": ("os-entropy", "uuid.uuid4", "def f():\n    return uuid4()  # <-\n", "its own name"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_edit_mends_says_why(name: str) -> None:
    """And nothing is changed."""
    factor, called, text, why = REFUSED[name]

    _, draft = patched(factor, called, text)

    assert not draft.changes
    assert why in draft.cannot[0].why


def test_a_line_that_is_not_the_one_that_ran_is_left_alone() -> None:
    """Generated anew, or edited meanwhile; as it ran, it is mended."""
    text = "x = list(set(labels))  # <-\n"
    own = wanted("hash-seed", "", text)
    other = replace(own, site=replace(own.site, noted="x = list(set(names))  # <-"))  # type: ignore[type-var]

    assert "another line" in patch([other], program(text)).cannot[0].why
    assert patch([own], program(text)).changes


def test_an_installed_package_is_never_changed() -> None:
    """The other cause is mended all the same."""
    text = "x = list(set(labels))  # <-\n"
    inside = MendRequest("file-order", Site("/usr/lib/site-packages/a.py", 3), "os.listdir")

    draft = patch([inside, wanted("hash-seed", "", text)], program(text))

    assert [one.path for one in draft.changes] == [SCRIPT]
    assert "installed package" in draft.cannot[0].why


def test_two_causes_on_one_line_are_both_mended() -> None:
    """And two that need a line at the start share it."""
    text = "import os\nimport random\nimport torch\n\nx = list(set(os.listdir(random.choice(torch.rand(3)))))  # <-\n"
    names = {"file-order": "os.listdir", "hash-seed": "", "torch-rng": "torch.rand", "python-rng": "random.choice"}

    draft = patch([wanted(factor, called, text) for factor, called in names.items()], program(text))

    assert not draft.cannot
    assert draft.changes[0].after.decode() == (
        "import os\nimport random\nimport torch\n\ntorch.manual_seed(0)\nrandom.seed(0)\n\n"
        "x = sorted(set(sorted(os.listdir(random.choice(torch.rand(3))))), key=str)  # <-\n"
    )


def test_what_imports_draw_is_seeded_above_them() -> None:
    """A module that draws while it is imported comes after the seed."""
    script = "'''Doc.'''\nfrom __future__ import annotations\nimport os\nimport m1\n"
    draws = Site("/project/m1.py", 2, "<module>", "x = random.random()")

    draft = patch(
        [MendRequest("python-rng", draws, "random.random", "", SCRIPT)],
        program(script, "import random\nx = random.random()\n"),
    )

    assert draft.changes[0].after.decode() == (
        "'''Doc.'''\nfrom __future__ import annotations\nimport random\nrandom.seed(0)\nimport os\nimport m1\n"
    )


def test_a_way_that_did_not_help_is_followed_by_the_next_one() -> None:
    """Where the seed cannot be moved far enough, there is one at the start of the script."""
    before = CURES["a seed that comes too late"][2]

    first, _ = patched("torch-rng", "torch.rand", before)
    second, draft = patched("torch-rng", "torch.rand", before, attempt=1)

    assert first != second
    assert "import torch\n\ntorch.manual_seed(0)\n" in second
    assert draft.mends[0].does == "seeds it at the start of the script"


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "corpus").glob("*.py")), ids=lambda path: path.stem
)
def test_strange_scripts_can_be_opened(path: Path) -> None:
    """A seed can be put into each of them; every line that they have stays, in its order."""
    own = editable_file(str(path), path.read_bytes())
    one = MendRequest("torch-rng", Site(own.path, len(own.lines), "f"), script=own.path)

    draft = patch([one], EditableFiles(lambda _: own))

    lines = draft.changes[0].after.splitlines(keepends=True)
    assert draft.mends
    assert [line for line in own.content.splitlines(keepends=True) if line not in lines] in (
        [],
        [lines[0]],
    ) or draft.lines == 1


def test_what_depends_on_hashes_is_mended_at_every_line_that_is_named() -> None:
    """By what fits each of them: a number, and an order."""
    text = "part = hash(name) % 10  # <-\nnames = list(set(labels))  # other\n"
    cause = wanted("hash-seed", "hash()", text)
    other = Site(SCRIPT, 2, "<module>", "names = list(set(labels))  # other")
    draft = patch([replace(cause, others=(other,))], program(text))

    assert draft.changes[0].after.decode() == (
        "import zlib\npart = zlib.crc32(repr(name).encode()) % 10  # <-\n"
        "names = sorted(set(labels), key=str)  # other\n"
    )
    assert [one.does for one in draft.mends] == ["replaces hash() by zlib.crc32() and sorts the set"]
