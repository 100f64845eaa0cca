"""Answers as a terminal shows them: golden files, and at two widths, with colours and without.

`python -m tests.report.test_terminal` writes them anew; look at the difference before committing it.
"""

import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from samebits.cli import options
from samebits.comparison.locate import Divergence
from samebits.comparison.runs import Diff, Incomplete, RunComparison
from samebits.comparison.values import Distance
from samebits.factors.base import Observation
from samebits.factors.catalog import find
from samebits.factors.pinning import FactorStatus, Status
from samebits.report.costs import cost_report
from samebits.report.diffs import diff_report
from samebits.report.rows import INDENT
from samebits.report.terminal import draw_answer
from samebits.report.text import factors_report
from tests.pricing.test_prices import ALONE, CHEAPER, WHOLE, costs, price

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def tours() -> dict[str, str]:
    """What `check` printed for the README's tours, which come from real runs, and one measurement."""
    readme = (ROOT / "README.md").read_text()
    shown = re.findall(r"<!-- tour:([\w -]+) -->\n```console\n\$ .*\n((?:.*\n)*?)```", readme)
    texts = {words.replace("--", "").strip().replace(" ", "-"): text.rstrip("\n") for words, text in shown}
    ours = "nll_loss2d_forward (train.py:31, 20 calls), upsample_bilinear2d_backward (train.py:33, 20 calls)"
    measured = costs(
        price(WHOLE, 1.2, 1.3),
        price(CHEAPER, 0.99, 1.02),
        price(ALONE, 1.19, 1.29, repeats=False, replaced=ours),
    )
    place = Divergence(7, "grad", "layers.3.attention.qkv.weight", 0, 12, 96, generators=("torch", "numpy"))
    by = Distance(3, 65536, 2, 1.5e-7)
    killed = (Incomplete(Path("runs/b/recording.sqlite"), 90),)
    found = RunComparison(place, None, ("init", "batch", "loss", "grad", "param"), steps=100, trained=place)
    compared = diff_report(Diff(Path("runs/a"), Path("runs/b"), found, by, killed)).text
    return {
        **texts,
        "cost": cost_report(measured).text,
        "diff": compared,
        "factors": factors_report(Status(tuple(seen()))).text,
    }


def seen() -> Iterator[FactorStatus]:
    """Some factors as they may stand: held, free, too late, unknown."""
    observed = {
        "hash-seed": Observation("4711", True),
        "clock": Observation("the machine's", False),
        "cublas-workspace": Observation(
            ":4096:8", False, False, "CUBLAS_WORKSPACE_CONFIG was set after cuBLAS started"
        ),
        "torch-rng": Observation("unknown whether it was seeded", None),
    }
    for name, observation in observed.items():
        factor = find(name)
        yield FactorStatus(name, factor.scope, factor.summary, "natural", observation)


# What is laid out by us alone: the tours change with the machine they were made on.
FIXED = ("cost", "diff", "factors")


@pytest.mark.parametrize("name", FIXED)
def test_golden_files(name: str) -> None:
    assert draw_answer(tours()[name], 80) + "\n" == (GOLDEN / f"{name}-80.txt").read_text()


@pytest.mark.parametrize("name", tours())
def test_nothing_is_added_or_shortened(name: str) -> None:
    """Word for word the plain text; wide enough, line for line; lines fit unless one word alone does not."""
    text = tours()[name]
    for width, colour in itertools.product((80, 120), (True, False)):
        shown = COLOURS.sub("", draw_answer(text, width, colour))

        assert shown.split() == text.split()
        assert COLOURS.sub("", draw_answer(text, 1000, colour)) == "\n".join(
            line.rstrip() for line in text.splitlines()
        )
        for line in shown.splitlines():
            assert len(line) <= width or " " not in line[INDENT:].strip()
        assert ("\x1b" in draw_answer(text, width, colour)) == colour


@pytest.mark.parametrize("label", ["not seen", "cause", "*"])
def test_a_label_is_coloured_whole(label: str) -> None:
    """Also one of two words, and not the first one alone."""
    shown = draw_answer(f"same bits\n  {label:<10}no loss was recorded", 80)

    assert f"\x1b[36m{label}\x1b[0m" in shown


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Not for pipes, not for NO_COLOR, not for programs."""
    monkeypatch.delenv("NO_COLOR", raising=False)

    def printed(is_data: bool = False) -> str:
        options.answer("same bits: all of them", is_data)
        return capsys.readouterr().out

    assert "\x1b[" not in printed()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\x1b[" in printed()
    assert "\x1b[" not in printed(is_data=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in printed()


if __name__ == "__main__":
    for one in FIXED:
        (GOLDEN / f"{one}-80.txt").write_text(draw_answer(tours()[one], 80) + "\n")
