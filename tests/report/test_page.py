"""Pages: whole, self-contained, escaped, and honest about what is missing."""

import html.parser
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from samebits.base.errors import RecordingError
from samebits.cli.options import keep_answer
from samebits.comparison.timeline import StreamShares, Timeline, loss_difference
from samebits.report.json import unanswered
from samebits.report.page import check_page, cost_page
from samebits.runfolder.folder import newest_in
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
    """Verdict, cause with its lines, remedy, time line and matrix; and of each run by itself."""
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
        "The experiments",
        "Where bits diverge",
        "How the difference grows",
        "How to read this",
    ):
        assert words in page.text, words
    assert 'class="guilty"' in text
    assert "torch.nn.Linear" not in bare
    assert assert_self_contained(bare)
    assert "samebits.html exists" in refused
    assert "--force" in refused
    assert "one run of 6 steps" in assert_self_contained((tmp_path / "run.html").read_text()).text


def document(**changes: Any) -> dict[str, Any]:
    """A check that found a cause at a line with a strange name."""
    from samebits.base.errors import UsageError

    location = {"path": f"/nowhere/{EVIL}.py", "line": 3, "function": EVIL, "source": f"x = '{EVIL}'"}
    cause = {
        "factor": "clock",
        "what": EVIL,
        "location": location,
        "locations": [location],
        "shown_by": [{"what": "drawn", "location": location}],
        "likely": False,
        "confirmed": True,
        "distance": None,
        "on_this_machine": False,
        "evidence": EVIL,
    }
    run = {"id": 1, "role": EVIL, "pinned": ["clock"], "varied": ["hash-seed"], "exit_code": 0, "steps": 3}
    run |= {"wall_seconds": 1.0, "timed_out": False, "stopped": False, "folder": "1"}
    return {
        **unanswered("check", UsageError("x")),
        "verdict": "different",
        "headline": f"different bits: {EVIL}",
        "command": EVIL,
        "causes": [cause],
        "runs": [run, {**run, "id": 2, "pinned": []}],
        "first_divergence": {"runs": [1, 2]},
        "not_observed": [EVIL],
        "error": None,
        **changes,
    }


LINE = Timeline((0, 1, 2), (StreamShares("loss", (0.0, 0.5, 1.0)), StreamShares("param", (None, 0.0, 0.0))))
LOSSES = (
    loss_difference(0, 1.0, 1.0, "float32"),
    loss_difference(1, 1.0, 1.0 + 2**-23, "float32"),
    loss_difference(2, 0.5, 0.25, "float32"),
)


def test_the_difference_of_losses_is_measured() -> None:
    """In units of their own dtype, with and without a sign, and not where there is no number."""
    half = 1.0 + 2**-10

    assert [one.ulp for one in LOSSES] == [0, 1, None]
    assert (LOSSES[1].relative or 0) < 2**-22 < (LOSSES[2].relative or 0) == 0.5
    assert loss_difference(0, 1.0, half, "float16").ulp == 1
    assert loss_difference(0, 1.0, half, "float64").ulp == 1 << 42
    assert loss_difference(0, -0.0, 0.0, "float32").ulp == 1
    assert loss_difference(0, -(2.0**-149), 2.0**-149, "float32").ulp == 3
    assert loss_difference(0, 1.0, 1.0 + 2**-7, "bfloat16").ulp == 1
    assert loss_difference(0, float("nan"), 1.0, "float32").relative is None
    assert loss_difference(0, float("inf"), 1.0, "float32").ulp is None


def test_the_growth_is_drawn_and_written() -> None:
    """On a logarithmic scale, in words, and as figures; a check without losses has no such part."""
    text = check_page(document(), LINE, LOSSES, {}, {})
    page = assert_self_contained(text)

    labels = [attributes["aria-label"] for tag, attributes in page.tags if tag == "svg"]
    assert labels[1] == "relative difference of the losses, from 1.2e-07 at step 1 to 0.5 at step 2"
    assert "1 1.0 1.0000001192092896 1.19e-07 1" in page.text
    assert "2 0.5 0.25 0.5 " in page.text
    assert "8388608" not in page.text
    assert "How the difference grows" not in check_page(document(), LINE, LOSSES[:1], {}, {})


def test_strange_names_stay_text() -> None:
    """File names, roles, commands and evidence with `</script>` in them."""
    page = assert_self_contained(check_page(document(), LINE, LOSSES, {1: [2], 2: [1]}, {"platform": EVIL}))

    assert page.text.count(EVIL) >= 6
    assert f"x = '{EVIL}'" in page.text


def test_a_page_reads_no_file_that_an_answer_names(tmp_path: Path) -> None:
    """A line is shown as it ran, and where it was not noted nothing is: the path may lead to the reader's own file."""
    (tmp_path / "own.py").write_text("secret = 1\n" * 9)
    place = {"path": str(tmp_path / "own.py"), "line": 3, "function": "", "source": ""}
    sent = document()
    sent["causes"][0] |= {"location": place, "locations": [place], "shown_by": []}

    assert "secret" not in check_page(sent, LINE, LOSSES, {}, {})
    sent["causes"][0]["location"] = {**place, "source": "mine = 2"}
    assert "mine = 2" in check_page(sent, LINE, LOSSES, {}, {})


def test_the_time_line_says_where_streams_part() -> None:
    """As marks, as words for who cannot see them, and as a table."""
    text = check_page(document(), LINE, LOSSES, {1: [], 2: []}, {})
    page = assert_self_contained(text)

    label = next(attributes["aria-label"] for tag, attributes in page.tags if tag == "svg")
    assert label == "streams over the steps of runs 1 and 2: loss diverges at step 1, param diverges at never"
    assert text.count('<rect class="differ"') == 2
    assert "loss step 1 50% 100%" in page.text
    assert "param never 0%" in page.text


def test_a_page_without_runs_or_answer() -> None:
    """What could not even begin has a page, too."""
    from samebits.base.errors import UsageError

    error = UsageError("nothing was typed", "type something")
    checked = assert_self_contained(check_page(unanswered("check", error), None, (), {}, {}))
    measured = assert_self_contained(cost_page(unanswered("cost", error), {}))

    for page in (checked, measured):
        assert "nothing was typed" in page.text
        assert "type something" in page.text


def price(label: str, low: float, high: float, **more: Any) -> dict[str, Any]:
    middle = (low + high) / 2
    ratio = {"middle": middle, "low": low, "high": high, "pairs": 9, "is_difference": not low <= 1 <= high}
    plain = {"step_seconds": 0.01, "first_step_seconds": 0.02, "peak_bytes": 2**30, "repeats": True, "diverges_at": ""}
    return {"label": label, "settings": {}, "ratio": ratio, **plain, "failure": "", "not_measured": "", **more}


def test_the_page_of_a_measurement() -> None:
    """Bars with intervals, failures in words, and what does not apply."""
    from samebits.base.errors import UsageError

    prices = [price("torch-algorithms", 1.2, 1.3), price("cpu-isa", 0.98, 1.02)]
    prices.append(price(EVIL, 1, 1, ratio=None, failure="no kernel", repeats=None))
    few = "2 pairs of blocks were timed, and an interval needs 6"
    prices.append(price("cpu-threads", 1, 1, ratio=None, not_measured=few))
    best = {"label": "cpu-isa", "pins": [], "command": "samebits run x", "code": "samebits.pin()"}
    measured = {
        **unanswered("cost", UsageError("x")),
        "headline": "the cheapest that repeats: cpu-isa",
        "command": "train.py",
        "nothing_pinned": price("nothing", 1, 1, ratio=None, repeats=False, diverges_at="step 0, loss"),
        "prices": prices,
        "not_applicable": [{"factor": "cudnn-autotune", "reason": "no CUDA here"}],
        "recommended": best,
        "pins_most": {**best, "label": "default set", "command": "samebits run all of it"},
        "error": None,
    }
    assert_valid(measured)
    text = cost_page(measured, {})
    page = assert_self_contained(text)

    assert text.count('class="bar"') == 2
    for words in (
        "1.250",
        "1.200 to 1.300",
        "0.980 to 1.020, no difference",
        "no kernel",
        "no, diverges at step 0, loss",
    ):
        assert words in page.text
    assert "cudnn-autotune (no CUDA here)" in page.text
    assert f"cpu-threads not measured {few} 20.0 ms 1024 MiB yes" in page.text
    assert "default set, no difference in price was measured" in page.text
    assert "samebits run all of it" in page.text


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "cannot be read"),
        ('{"schema": "samebits.check/9"}', "has schema samebits.check/9"),
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
    """A check that went wrong after another has a page, too; where nothing was checked, that is what is said."""
    empty = samebits("report", cwd=tmp_path, status=2)
    (tmp_path / "train.py").write_text("import sys; sys.exit(3)")
    samebits("run", "train.py", cwd=tmp_path, status=3)
    samebits("check", "train.py", cwd=tmp_path, status=2)
    samebits("report", cwd=tmp_path, status=0)

    assert "nothing was checked here yet" in empty
    assert "undecided" in (tmp_path / "samebits.html").read_text()


def test_the_newest_is_one_that_can_be_shown(tmp_path: Path) -> None:
    """Neither one that is still running, nor one that was interrupted, nor what only has such a name."""
    for number, kept in enumerate(("answer.json", ".busy", "1-a/manifest.json 2-b/manifest.json", "")):
        home = tmp_path / f"20260101-00000{number}-1"
        home.mkdir()
        for name in kept.split():
            (home / name).parent.mkdir(exist_ok=True)
            (home / name).write_text(f"{os.getpid()} {platform.node()}")
        os.utime(home, (number, number))
    (tmp_path / "20260101-000009-1").touch()

    assert newest_in(tmp_path).name == "20260101-000000-1"
    assert newest_in(tmp_path / "20260101-000001-1").name == "20260101-000001-1"


def test_an_answer_that_cannot_be_kept_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A full disk after hours of runs takes the page, not the answer."""
    keep_answer(tmp_path / "gone", "{}")
    keep_answer(tmp_path, "{}")

    assert "note: cannot write" in capsys.readouterr().err
    assert (tmp_path / "answer.json").read_text() == "{}\n"


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    assert "is not a run folder" in samebits("report", str(tmp_path), cwd=tmp_path, status=2)
    assert "there is no run folder" in samebits("report", "nowhere", cwd=tmp_path, status=2)
