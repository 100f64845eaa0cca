"""What is made of the notes of a run."""

import os
from pathlib import Path

import samebits
from samebits.base.sites import Site
from samebits.checking.facts import read_facts
from samebits.runfolder.notes import Journal, Note, Seeded, Witnessed

DRAWN, SEEDED = Site("/train.py", 4), Site("/train.py", 6)


def noted(folder: Path, number: int, *notes: Note) -> None:
    """A process's journal."""
    journal = Journal(folder)
    for note in notes:
        journal.note(note)
    own = folder / f"journal.other.{number}.jsonl"
    next(folder.glob(f"journal.*.{os.getpid()}.jsonl")).rename(own)


def test_a_seed_that_comes_too_late_is_known(tmp_path: Path) -> None:
    """In the process that drew, after it drew, and for the generator that was drawn from."""
    drawn, seeded = Witnessed("torch-rng", DRAWN, "torch.randn"), Seeded("torch.manual_seed", 0, SEEDED)
    other = Seeded("random.seed", 0, SEEDED)
    cases = {
        "late": ([drawn, other, seeded],),
        "in time": ([seeded, drawn],),
        "another generator": ([drawn, other],),
        "another process": ([drawn], [seeded]),
    }

    found = {}
    for name, processes in cases.items():
        folder = tmp_path / name
        folder.mkdir()
        for number, notes in enumerate(processes):
            noted(folder, number, *notes)
        found[name] = read_facts(folder).late_seeds

    assert found == {"late": {"torch-rng": SEEDED}, "in time": {}, "another generator": {}, "another process": {}}


def test_the_end_of_the_output_is_about_the_script(tmp_path: Path) -> None:
    """The frames of our hooks are left out of a traceback, but not where the error is ours."""
    ours = f"{Path(samebits.__file__).parent}/agent/saves.py"
    user = ['  File "/home/me/train.py", line 3, in <module>', '    state = torch.load("last.pt")']
    hook = [f'  File "{ours}", line 9, in load', "    return load(*args)", "           ^^^^^^^^^^^"]
    library = ['  File "/lib/torch/serialization.py", line 1, in load', "    raise EOFError"]
    cases = {
        "theirs": ([*user, *hook, *library, "EOFError"], [*user, *library, "EOFError"]),
        "ours": ([*user, *hook, "KeyError: 1"], [*user, *hook, "KeyError: 1"]),
        "no traceback": (["    indented", "last"], ["    indented", "last"]),
    }

    found = {}
    for name, (lines, _) in cases.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "stderr.log").write_text("\n".join(["Traceback (most recent call last):", *lines]) + "\n")
        found[name] = list(read_facts(folder).stderr_tail[1:])

    assert found == {name: left for name, (_, left) in cases.items()}
