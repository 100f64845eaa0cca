"""Each kind of cure, in the styles in which people write; and what no edit mends says why."""

import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

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
    draft = patch([wanted(factor, called, before)], program(before), attempt)
    return (draft.changes[0].after.decode() if draft.changes else before), draft


class Case(NamedTuple):
    """A factor, what was called at the marked line, and the script before and after the patch."""

    factor: str
    called: str
    before: str
    after: str


def cases() -> dict[str, Case]:
    """Those of `cures.txt` by name: each is a diff of the whole script, below a line `==== name (factor: called)`."""
    found = {}
    for part in re.split(r"^==== ", Path(__file__).with_name("cures.txt").read_text(), flags=re.M)[1:]:
        head, *rows = part.splitlines()
        name, factor, called = re.fullmatch(r"(.*?) \(([\w -]+)(?:: (.*))?\)", head).groups("")  # type: ignore[union-attr]
        before, after = ("".join(f"{row[1:]}\n" for row in rows if row[:1] != sign) for sign in "+-")
        found[name] = Case(factor, called, before, after)
    return found


CURES = cases()


@pytest.mark.parametrize("name", CURES)
def test_each_kind_of_cure(name: str) -> None:
    """The script is what a person would have made of it, and three lines are changed at most."""
    case = CURES[name]

    text, draft = patched(case.factor, case.called, case.before)

    assert text == case.after
    assert [one.factor for one in draft.mends] == [case.factor]
    assert 0 < draft.lines <= 3


def test_every_way_is_shown() -> None:
    """No factor that can be mended is missing above, but those that are mended as others are."""
    assert WAYS.keys() - {case.factor for case in CURES.values()} == {"cudnn-algorithms", "float-precision"}


# name: (factor, what was called, the script, why); the nearest legal case is above.
REFUSED = {
    "an operation that torch refuses": (
        "torch-algorithms",
        "nll_loss2d_forward, replaced",
        "import torch\n",
        "torch refuses nll_loss2d_forward",
    ),
    "what becomes the seed": (
        "os-entropy",
        "secrets.randbelow",
        "import torch\nclass Config:\n    def __init__(self):\n        self.key = secrets.randbelow(9)  # <-\n"
        "def main():\n    own = Config()\n    torch.manual_seed(own.key)\nmain()\n",
        "is not seeded once before",
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
    before = CURES["a seed that comes too late"].before

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
