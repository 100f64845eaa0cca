"""Pages: whole, self-contained, escaped, and honest about what is missing."""

import html.parser
import json
import os
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.base.errors import RecordingError, UsageError
from samebits.base.sites import Site
from samebits.checking.verdict import Cause, CheckVerdict, DivergentRuns, Evidence, RunRecord
from samebits.cli.options import keep_answer
from samebits.comparison.locate import Divergence
from samebits.pricing.prices import Costs
from samebits.report.answers import read_answer
from samebits.report.costs import cost_report
from samebits.report.experiment import Experiment, experiment_in, experiment_text
from samebits.report.page import answer_page
from samebits.report.rows import AnswerReport
from samebits.runfolder.folder import last_two_in, newest_in
from samebits.runfolder.steps import Column, Writer
from tests.cli.typed import typed
from tests.pricing.test_prices import ALONE, CHEAPER, WHOLE, costs, price
from tests.running import busy_folder
from tests.schemas import assert_valid

MOST_BYTES = 500_000
VOID = {"meta", "link", "br", "hr", "img", "input"}
EVIL = "</script><script>alert(1)</script>"


class Page(html.parser.HTMLParser):
    """What a browser would make of it: tags, headings, text; unbalanced tags raise."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def assert_self_contained(text: str) -> Page:
    """One file, no request, an alternative for each picture, headings in order."""
    page = Page(text)
    assert len(text.encode()) < MOST_BYTES
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert (attributes.get("href") or "data:,") == "data:,", tag
        if tag == "svg":
            assert attributes.get("role") == "img"
            assert attributes.get("aria-label")
    assert not re.search(r"url\(|@import|https?://", text)
    assert [tag for tag, _ in page.tags].count("h1") == 1
    assert [tag for tag, _ in page.tags].count("script") == 1
    return page


def samebits(*words: str, cwd: Path, status: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "samebits", *words], cwd=cwd, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


TRAIN = """
import random, torch
model = torch.nn.Linear(4, 1)
torch.manual_seed(0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    loss = model(torch.ones(2, 4)).sum()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


@pytest.mark.slow
def test_the_page_of_a_real_check(tmp_path: Path) -> None:
    """Verdict, cause with its line, remedy, bound, experiment and losses; and of each run by itself."""
    (tmp_path / "train.py").write_text(TRAIN)
    samebits("check", "--out", "it", "train.py", cwd=tmp_path, status=1)
    samebits("report", "it", cwd=tmp_path, status=0)
    refused = samebits("report", "it", cwd=tmp_path, status=2)
    samebits("report", "--force", "--no-source", "-o", "samebits.html", "it", cwd=tmp_path, status=0)
    bare = (tmp_path / "samebits.html").read_text()
    (tmp_path / "it").rename(tmp_path / "moved")
    samebits("report", "moved", "-o", "page.html", cwd=tmp_path, status=0)
    run = next((tmp_path / "moved").glob("1-*")).name
    samebits("report", f"moved/{run}", "-o", "run.html", cwd=tmp_path, status=0)
    text = (tmp_path / "page.html").read_text()
    page = assert_self_contained(text)

    assert_valid(json.loads((tmp_path / "moved" / "answer.json").read_text()))
    for words in (
        "different bits: runs 1 and 2 diverge ",
        "torch-rng",
        "samebits run --pin torch-rng train.py",
        "verified: ",
        "model = torch.nn.Linear(4, 1)",
        "The experiment",
        "false-positive bound",
        "Losses of whole runs",
        "How to read this",
    ):
        assert words in page.text, words
    assert 'class="code"' in text
    assert "torch.nn.Linear" not in bare
    assert assert_self_contained(bare)
    assert "samebits.html exists" in refused
    assert "--force" in refused
    assert "one run of 6 steps" in assert_self_contained((tmp_path / "run.html").read_text()).text


DIVERGENT = DivergentRuns(1, 2, Divergence(0, "loss"))
SURE = Evidence((3, 4), (5, 6), 2, 0.01, 0.01)
CAUSE = Cause("clock", Site("x.py", 3), True, EVIL, SURE, source=f"x = '{EVIL}'")
CHECK = CheckVerdict("different", EVIL, Path("/runs"), divergent=DIVERGENT, causes=(CAUSE,))


def check_page(told: AnswerReport, command: str = EVIL, **given: Any) -> str:
    """The page of a check in which runs 1 and 2 diverge, with such rows."""
    return answer_page("check", replace(CHECK, command=command), told, **{"manifest": {}, **given})


def run(number: int, *pinned: str, varied: tuple[str, ...] = (), steps: int = 3) -> RunRecord:
    return RunRecord(number, EVIL, Path(f"{number}-x"), steps, 1.0, pinned, varied)


RUNS = (run(1), run(2, "clock", steps=2), run(3, "clock", varied=("hash-seed",)))
LOSSES = {1: [(0, 3.0), (1, 2.0), (2, 1.0)], 3: [(0, 3.0), (1, 2.5), (2, float("nan"))]}
FOUND = Experiment(("clock", "hash-seed"), RUNS, {1: "a", 2: "a", 3: "b"}, LOSSES)
ROWS = AnswerReport(
    "different bits",
    (
        ("cause", f"clock: {EVIL}"),
        ("", f"    x = '{EVIL}'"),
        ("source", "x.py:3  y = list(z)"),
        ("fix", "sort it"),
        ("", "    - for x in y:"),
        ("", "    + for x in sorted(y):"),
        ("next", "samebits check train.py     (once more)"),
        ("next", "samebits report     (every run)"),
    ),
)


def test_the_experiment_is_the_main_picture() -> None:
    """Each run with its bits, what was held and what was changed; the two that diverge stand out."""
    text = check_page(ROWS, experiment=FOUND)
    page = assert_self_contained(text)

    assert "3 runs, 2 factors, 2 different results" in page.text
    assert f"2 a p {EVIL} 2 1.0 2-x" in page.text
    assert f"3 b p v {EVIL} 3 1.0 3-x" in page.text
    assert text.count('<tr class="shown">') == 2
    assert page.text.index("The answer") < page.text.index("The experiment")


def test_whole_runs_show_their_losses() -> None:
    """As curves, in words, and as figures; runs with the same bits share one, and one step makes no picture."""
    shared = replace(FOUND, losses={**LOSSES, 2: LOSSES[1]})
    page = assert_self_contained(check_page(ROWS, experiment=shared))
    short = replace(FOUND, losses={1: LOSSES[1][:1]})

    (label,) = [attributes["aria-label"] for tag, attributes in page.tags if tag == "svg"]
    assert label == "losses of whole runs: a: runs 1, 2 ends at 1.0; b: run 3 ends at 2.5"
    assert len([tag for tag, _ in page.tags if tag == "polyline"]) == 2
    assert "Losses" not in check_page(ROWS, experiment=short)


def test_rows_are_shown_as_what_they_are() -> None:
    """Code and a fix as a diff, unless sources are to be left out; a command to copy."""
    text, bare = (check_page(ROWS, sources=shown) for shown in (True, False))

    assert '<pre class="removed" aria-label="source">- for x in y:</pre>' in text
    assert '<pre class="added" aria-label="source">+ for x in sorted(y):</pre>' in text
    assert re.search(r'<pre id="(\S+)">samebits check train.py</pre>\s*<button type="button" data-copy="\1">', text)
    assert "x.py:3  y = list(z)" in text
    assert "samebits report" not in text
    assert "x.py:3" in bare
    assert "list(z)" not in bare
    assert "for x in" not in bare
    assert "x = " not in bare


def test_strange_names_stay_text() -> None:
    """File names, roles, commands and causes with `</script>` in them."""
    page = assert_self_contained(check_page(ROWS, manifest={"platform": EVIL}, experiment=FOUND))

    assert page.text.count(EVIL) >= 6
    assert f"x = '{EVIL}'" in page.text


def test_runs_with_one_letter_have_the_same_bits(tmp_path: Path) -> None:
    """Read from a folder that was moved; a short one goes with one that it agrees with, what never began has none."""
    for number, losses in enumerate(((1.0, 2.0, 3.0), (1.0, 2.0, 4.0), (1.0,), (), (1.0, 2.0, 3.0)), 1):
        (tmp_path / f"{number}-x").mkdir()
        writer = Writer(tmp_path / f"{number}-x", 0)
        for step, loss in enumerate(losses):
            bits = int.from_bytes(struct.pack(">d", loss), "big")
            columns = {"loss": Column(("0",), [bits]), "number": Column(("0 float32",), [bits])}
            writer.write(step, "step", columns)
        writer.commit()
        writer.close()
    runs = [run(number, steps=steps) for number, steps in enumerate((3, 3, 1, 0, 3), 1)]
    found = experiment_in(tmp_path, [replace(one, folder=Path(f"/elsewhere/{one.id}-x")) for one in runs])

    assert (found.bits, found.kind(1), found.kind(2), found.kind(4)) == ({1: "a", 2: "b", 3: "a", 5: "a"}, "0", "1", "")
    assert found.losses == {1: [(0, 1.0), (1, 2.0), (2, 3.0)], 2: [(0, 1.0), (1, 2.0), (2, 4.0)], 5: found.losses[1]}


def test_the_experiment_as_text_fits_a_terminal() -> None:
    """Factors down, runs across, as many side by side as fit."""
    many = replace(FOUND, runs=[run(number, "clock") for number in range(1, 31)])
    lines = experiment_text(FOUND).splitlines()

    assert lines[2:6] == [
        "    run         1 2 3",
        "    clock       . p p",
        "    hash-seed   . . v",
        "    bits        a a b",
    ]
    assert all(len(line) <= 80 for line in experiment_text(many).partition("\n")[2].splitlines() if EVIL not in line)
    assert experiment_text(many).count("hash-seed") == 2


def test_a_page_without_runs_or_answer() -> None:
    """What could not even begin has a page, too."""
    error = UsageError("nothing was typed", "type something")
    for found in (CheckVerdict("undecided", "", Path("/runs"), error=error), Costs("", Path("/runs"), error=error)):
        page = assert_self_contained(answer_page("check", found, AnswerReport("undecided"), {}))
        assert "nothing was typed" in page.text
        assert "type something" in page.text


def test_the_page_of_a_measurement() -> None:
    """Bars with intervals, and the table and the rows of the terminal."""
    few = "2 pairs of blocks were timed, and an interval needs 6"
    unpriced = replace(price(ALONE, 1, 1), ratio=None, not_measured=few)
    measured = costs(price(WHOLE, 1.2, 1.3), price(CHEAPER, 0.98, 1.02), unpriced)
    text = answer_page("cost", measured, cost_report(measured), {})
    page = assert_self_contained(text)

    assert text.count('class="bar"') == 2
    for words in ("1.250", "1.200–1.300", "0.980–1.020 =", few, "not measured", "the machine", "samebits run --pin"):
        assert words in page.text, words


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "cannot be read"),
        ('{"schema": "samebits.check/9"}', "has schema samebits.check/9"),
        ('{"schema": "samebits.check/1"}', "no CheckVerdict"),
        ("[]", "cannot be read"),
    ],
)
def test_an_answer_that_cannot_be_read(tmp_path: Path, content: str, told: str) -> None:
    """Half written, of a newer version, or something else."""
    from samebits.cli.commands.report import _page

    (tmp_path / "answer.json").write_text(content)
    with pytest.raises(RecordingError, match=told):
        _page(tmp_path, sources=True)


def test_without_a_name_the_page_is_about_the_newest(tmp_path: Path) -> None:
    """A check that went wrong has a page, too; where nothing can be shown, that is what is said."""
    empty = typed("report", cwd=tmp_path)
    (tmp_path / "unnamed").mkdir()
    bare, nowhere = (typed("report", name, cwd=tmp_path) for name in ("unnamed", "nowhere"))
    for number in (1, 2):
        home = tmp_path / ".samebits" / f"2026010{number}-000000-1"
        home.mkdir(parents=True)
        broken = CheckVerdict("undecided", "train.py", home, error=UsageError(f"failure {number}"))
        keep_answer(home, "check", broken)
        os.utime(home, (number, number))
    done = typed("report", cwd=tmp_path)

    assert [one.status for one in (empty, bare, nowhere, done)] == [2, 2, 2, 0]
    assert "nothing was checked here yet" in empty.err
    assert "is not a run folder" in bare.err
    assert "there is no run folder" in nowhere.err
    assert "failure 2" in (tmp_path / "samebits.html").read_text()


def test_the_newest_is_one_that_can_be_shown(tmp_path: Path) -> None:
    """Neither one that is still running, nor one that was interrupted, nor what only has such a name."""
    for number, names in enumerate(("answer.json", ".busy", "1-a/manifest.json 2-b/manifest.json", "")):
        home = tmp_path / f"20260101-00000{number}-1"
        home.mkdir()
        for name in names.split():
            (home / name).parent.mkdir(exist_ok=True)
            (home / name).touch()
        os.utime(home, (number, number))
    (tmp_path / "20260101-000009-1").touch()

    with busy_folder(tmp_path / "20260101-000001-1"):
        assert newest_in(tmp_path).name == "20260101-000000-1"
        assert newest_in(tmp_path / "20260101-000001-1").name == "20260101-000001-1"


def test_runs_that_were_recorded_one_by_one_are_found(tmp_path: Path) -> None:
    """The newest to be shown; the last two to be compared, which are recorded, and neither checks nor runs of one."""
    names = (
        "manifest.json recording.sqlite",
        "manifest.json recording-1.sqlite",
        "answer.json",
        "1-a/manifest.json 1-a/recording.sqlite",
        "1-a/manifest.json 2-b/manifest.json 2-b/recording.sqlite",
        "manifest.json",
    )
    for number, made in enumerate(names):
        for name in made.split():
            path = tmp_path / f"20260101-00000{number}-1" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
        os.utime(tmp_path / f"20260101-00000{number}-1", (number, number))

    assert newest_in(tmp_path).name == "20260101-000005-1"
    assert [one.path.parent.name for one in last_two_in(tmp_path)] == [tmp_path.name, "20260101-000003-1"]
    assert last_two_in(tmp_path)[0].path.name == "20260101-000001-1"
    with pytest.raises(RecordingError, match="holds 0 recorded runs"):
        last_two_in(tmp_path / "20260101-000004-1")


def test_an_answer_that_cannot_be_kept_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A full disk after hours of runs takes the page, not the answer."""
    for home in (tmp_path / "gone", tmp_path):
        keep_answer(home, "cost", Costs("it.py", home))

    assert "note: cannot write" in capsys.readouterr().err
    assert read_answer(tmp_path)[1].command == "it.py"
