"""A verdict as data: it goes through JSON and back, and what is printed is made from it alone."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import samebits
from samebits.base.errors import InterruptError, RecordingError
from samebits.base.records import from_data, to_data
from samebits.base.sites import Site
from samebits.checking.facts import Entry, Shown
from samebits.checking.verdict import DivergentRuns, LeftOut, Origin, OriginOnRank, Reseeded, Unknown
from samebits.comparison.locate import Divergence
from samebits.comparison.ops import OpDivergence
from samebits.comparison.values import Distance
from samebits.pricing.prices import Costs
from samebits.replay.runner import Condition, Replay
from samebits.report.answers import document_of, json_text
from samebits.report.text import check_report
from samebits.runfolder.ops import OpKind, OpRow, Producer
from tests.report.test_reports import different, same, script

__all__ = ["script"]

TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.ones(2, 4)).sum()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


def unknown(script: Path) -> samebits.Verdict:
    """With everything that can be known of an unknown cause, its lines as they were when they ran."""
    site = Site(str(script), 3, "<module>", "once = 'it stood here'")
    divergent = DivergentRuns(
        3, 4, Divergence(5, "grad", "w", differing=1, total=4), Distance(3, 64, 1, 1e-7), ("clock",)
    )
    found = Unknown(
        *(divergent, True, 2, 6, (Reseeded("torch.manual_seed", site, "1", "2"),)),
        witnessed=(("os-entropy", Entry("os.urandom", site, "import torch")),),
    )
    return replace(different(script), causes=(), remedy=None, unknown=found)


def test_an_unknown_cause_says_how_its_runs_were_treated(script: Path) -> None:
    """Left alone, or alike in some other way: what those two runs had in common."""
    found = unknown(script)
    assert found.unknown is not None
    own = replace(found.unknown, held=False, divergent=replace(found.unknown.divergent, varied=()))
    for role, told in (
        ("control", "unknown: left alone, runs"),
        ("clock released", "treated alike (clock released), runs"),
    ):
        runs = tuple(replace(run, id=number, role=role) for number, run in enumerate(found.runs[:2], 3))
        text = check_report(replace(found, unknown=own, runs=runs)).text

        assert told in text


def located(script: Path) -> samebits.Verdict:
    """With an operation that received what differs, and a replay."""
    kind = OpKind("aten::mul", "backward", "fc", str(script), 2, "<module>", "mul", ins=("self",), outs=("result",))
    row = OpRow(0, 7, replace(kind, source="h = self.fc(x)"), (2**64 - 1, 3))
    place = OpDivergence("input", 0, 7, 1, row, row, ("self",), extra=(row,), extra_in="first")
    producer = Producer(0, 3, "c10d::allreduce_", "fc", str(script), 1, "<module>")
    replay = Replay(Path("bug.py"), (Condition("as recorded", 20, 4, (0, 1)),), 4, True)
    ranks = (OriginOnRank(place, producer), OriginOnRank(place))
    origin = Origin(1, 2, 3, ranks, Distance(1, 2), ("self",), replay, Path("op.json"), ("self",), ("other",))
    return replace(different(script), origins=(origin, origin))


def explained(script: Path) -> samebits.Verdict:
    """With company, lines that show how a factor enters, and a treatment left out."""
    site = Site(str(script), 1, "<module>", "import os")
    (cause, *rest) = different(script).causes
    cause = replace(cause, others=(site,), shown_by=(Shown("listed", site, "sort it"),), distance=Distance(1, 1, None))
    left_out = (LeftOut("clock", "varied", "ended with exit status 1"),)
    return replace(different(script), causes=(cause, *rest), left_out=left_out, signal=2, cut_short=((5, "pinned"),))


def failed(_: Path) -> samebits.Verdict:
    return replace(same(), kind="undecided", error=InterruptError.by(15, "/runs"), signal=15, runs=same().runs[:1])


VERDICTS = (lambda _: same(), different, unknown, located, explained, failed)


@pytest.mark.parametrize("made", VERDICTS)
def test_a_verdict_goes_through_json_and_back(made: Callable[[Path], samebits.Verdict], script: Path) -> None:
    """The same record, the same text and the same document, also when the script was edited in between."""
    verdict = made(script)
    text, document = check_report(verdict).text, document_of("check", verdict)
    script.write_text("# all of it is new\n")

    again = from_data(samebits.Verdict, json.loads(json_text(to_data(verdict))))

    assert (str(again), document_of("check", again)) == (text, document)
    assert type(again.error) is type(verdict.error)
    assert again.exit_code == verdict.exit_code
    if verdict.error is None:  # errors are equal to themselves alone
        assert replace(again) == samebits.Verdict(**vars(verdict))


def test_what_is_newer_is_ignored_and_what_is_damaged_is_refused() -> None:
    """An added key changes nothing; a missing one, another type and another word raise."""
    data = to_data(same())
    assert isinstance(data, dict)

    assert from_data(samebits.Verdict, {**data, "mood": "good"}).runs == same().runs
    assert from_data(samebits.Verdict, {key: data[key] for key in ("verdict", "command", "folder")}).runs == ()
    for damage in ({"verdict": "perhaps"}, {"runs": [{"id": "1"}]}, {"runs": [{}]}, {"folder": 3}, {"agreed": 1}):
        with pytest.raises(ValueError, match=r"is not a valid|no RunRecord"):
            from_data(samebits.Verdict, {**data, **damage})


def test_a_folder_without_a_verdict_is_refused(tmp_path: Path) -> None:
    """Nothing there, a measurement, another word, and half a record: each with what it is."""
    cases = {
        "holds no answer of a check": None,
        "no answer of a check but of samebits cost": document_of("cost", Costs("train.py", tmp_path)),
        "'maybe' is no": {**document_of("check", same()), "verdict": "maybe"},
        "no CheckVerdict": {"schema": "samebits.check/1"},
    }
    for says, document in cases.items():
        if document is not None:
            (tmp_path / "answer.json").write_text(json_text(document))
        with pytest.raises(RecordingError, match=says):
            samebits.verdict(tmp_path)


def test_a_check_from_python_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Read again it is the same verdict, and nothing is printed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)

    verdict = samebits.check(["train.py"], runs=2, max_steps=1, out="it")
    printed = capfd.readouterr()

    assert (verdict.kind, verdict.exit_code, len(verdict.runs)) == ("same", 0, 2)
    assert (printed.out, printed.err) == ("", "")
    assert str(verdict).startswith("same bits for the first step: 2 runs agree in initial state")
    assert samebits.verdict("it") == verdict


def test_a_check_from_python_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments that make no sense raise; a script that trains nothing is undecided, with the reason."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('no torch')")

    with pytest.raises(ValueError, match="--runs must be at least 2"):
        samebits.check("train.py", runs=1)
    with pytest.raises(ValueError, match="--isolation takes copy or none, got 'nothing'"):
        samebits.check("train.py", isolation="nothing")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pins takes a list of words"):
        samebits.check("train.py", pins="clock")
    with pytest.raises(FileNotFoundError, match=r"there is no script 'trian.py'"):
        samebits.check("trian.py --lr 3")
    with ThreadPoolExecutor(1) as pool, pytest.raises(samebits.SamebitsError, match="was called from a thread"):
        pool.submit(samebits.check, "train.py").result()
    verdict = samebits.check("train.py --lr 3", runs=2)

    assert (verdict.kind, verdict.command) == ("undecided", "train.py --lr 3")
    assert verdict.error is not None
    assert verdict.error.kind == "no_torch"


def test_a_verdict_that_cannot_be_kept_is_there_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check takes minutes, and what it found is not lost for a disk."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import os\nos.makedirs('it/answer.json', exist_ok=True)")

    with pytest.warns(UserWarning, match=r"cannot write .*answer\.json: .*, so there will be no page of it"):
        verdict = samebits.check("train.py", runs=2, isolation="none", out="it")

    assert verdict.error is not None
    assert verdict.error.kind == "no_torch"
