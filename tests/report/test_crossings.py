"""What `samebits check --against` found, as text, as a document and as a page."""

from dataclasses import replace
from html import unescape
from pathlib import Path

from samebits.against.interpreters import Interpreter, Package
from samebits.against.operations import OpMismatch, Pairing
from samebits.against.verdict import Across, Crossing
from samebits.base.errors import UndecidedError
from samebits.checking.verdict import DivergentRuns, RunRecord
from samebits.comparison.locate import Divergence
from samebits.comparison.values import Distance
from samebits.replay.runner import Condition, Replay
from samebits.report.against import against_report, headline
from samebits.report.answers import document_of
from samebits.report.page import answer_page
from samebits.runfolder.ops import OpKind, OpRow
from tests.schemas import assert_valid

HERE = Interpreter("/new/bin/python", "3.11.7", {"torch": "2.13.0", "numpy": "2.4.6"})
THERE = Interpreter("/old/bin/python", "3.11.7", {"torch": "2.9.1", "numpy": "2.4.6"})
MUL = OpRow(2, 7, OpKind("aten::mul.Tensor", "forward", "net.0", "/a/train.py", 9, source="x = x * y"), ())
ADD = OpRow(2, 8, OpKind("aten::add.Tensor", "forward", "net.0", "/a/train.py", 9), ())
RUNS = tuple(
    RunRecord(number, role, Path(f"/runs/{number}-x"), 5, 1.0)
    for number, role in enumerate(("here", "here again", "there", "there again"), 1)
)
GIVEN = Replay(Path("/runs/reproduce.py"), (Condition("as recorded", 20, 1, (0,)),), 1, gives_recorded=True)
OTHER = replace(GIVEN, gives_recorded=False)
ACROSS = Across(OpMismatch("op", 2, MUL, MUL, ("out",)), Pairing(40, 0, 0), Distance(3, 64, 1, 1e-7), GIVEN, OTHER)
DIVERGENT = DivergentRuns(1, 3, Divergence(2, "loss", "0", differing=1, total=1), Distance(1, 1, 2, 1e-7))
PACKAGES = (Package("torch", "2.13.0", "2.9.1", "operation"), Package("triton", "", "3.5", "required"))
FOUND = Crossing(
    *("different", "train.py", Path("/runs"), HERE, THERE, RUNS, (3, 4), DIVERGENT, ACROSS, PACKAGES),
    pinned=("torch-rng",),
    steps=5,
    streams=("loss", "param"),
)


def test_everything_is_told() -> None:
    """The place, the operation with its line, what calling it showed, and packages, those of the operation first."""
    lines = [" ".join(line.split()) for line in against_report(FOUND).text.splitlines()]

    for line in (
        "different bits: torch 2.13.0 (Python 3.11.7) and torch 2.9.1 (Python 3.11.7) diverge at step 2, in the loss",
        "op aten::mul.Tensor at step 2, op 7: inputs equal, outputs differ: 3 of 64 elements differ, by at most 1 ULP, "
        "relative 1e-07",
        "module net.0",
        "source /a/train.py:9 x = x * y",
        "confirmed called again on its inputs: here it gives the recorded result, there never, in 20 calls",
        "packages torch 2.13.0 → 2.9.1 the operation is its own",
        "triton none → 3.5 what the operation belongs to needs it",
        "there /old/bin/python: Python 3.11.7, torch 2.9.1, NumPy 2.4.6",
    ):
        assert line in lines


def test_what_was_not_confirmed_is_not_called_so() -> None:
    """Where the other environment gives the recorded result, too, or the call could not be made."""
    same, failed = replace(ACROSS, there=GIVEN), replace(ACROSS, there=Replay(None, failure="no such operation"))

    assert ACROSS.confirmed
    assert not same.confirmed
    assert not failed.confirmed
    assert "not reproduced: called again on its inputs, both" in against_report(replace(FOUND, across=same)).text
    assert "not possible there: no such operation" in against_report(replace(FOUND, across=failed)).text


def test_other_operations_are_named_on_both_sides() -> None:
    """And how far the two programs could be paired."""
    mismatch = OpMismatch("otherwise", 2, MUL, MUL, ("self",), (MUL,), (ADD, MUL))
    text = against_report(replace(FOUND, across=Across(mismatch, Pairing(38, 1, 2)))).text

    assert "by other operations, with another result" in text
    assert "here: aten::mul.Tensor\n" in text
    assert "there: aten::add.Tensor, aten::mul.Tensor\n" in text
    assert "38 operations of that step are the same in both; 1 here and 2 there" in text


def test_documents_and_pages_of_every_kind() -> None:
    """Same, different and undecided ones fit the published schema, and have a page."""
    same = replace(FOUND, kind="same", divergent=None, across=None, packages=())
    error = UndecidedError("under /old/bin/python the script does not repeat", "see samebits check")
    undecided = replace(same, kind="undecided", error=error, streams=(), runs=RUNS[:2], there_runs=())
    for found in (FOUND, same, undecided):
        document = document_of("against", found)
        assert_valid(document)
        page = answer_page("against", found, against_report(found), {})
        assert headline(found) in unescape(page)
        assert found.exit_code == {"same": 0, "different": 1, "undecided": 2}[found.kind]
    assert against_report(same).text.startswith("same bits: torch 2.13.0")
    assert "agree in losses and parameters, for 5 steps" in against_report(same).text
    assert against_report(undecided).text.startswith("undecided: under /old/bin/python")
