"""What a verdict looks like: the answer in the first line, nothing shortened, JSON as the schemas promise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.base.sites import Site
from samebits.checking.plan import CheckRequest, first_runs
from samebits.checking.verdict import (
    Cause,
    CheckVerdict,
    DivergentRuns,
    Evidence,
    Remedy,
    Reseeded,
    Run,
    RunRecord,
    Unknown,
)
from samebits.comparison.locate import Divergence
from samebits.comparison.runs import Diff, RunComparison
from samebits.comparison.values import Distance
from samebits.factors.context import Setting
from samebits.factors.pinning import settings_for
from samebits.launch.command import Command
from samebits.locking.verdict import EntryLocked
from samebits.report.answers import document_of
from samebits.report.causes import confirmation_row, remedy_command, remedy_state
from samebits.report.diffs import diff_report
from samebits.report.locks import lock_report
from samebits.report.rows import AnswerReport, source_row
from samebits.report.text import check_report, plan_text, so_far_text
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.spec import RunSpec

COMMAND = Command(("python", "train.py"), ("train.py",))


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's script in the current folder, so that its lines can be shown."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("import torch\nmodel = torch.nn.Linear(2, 2)\nfor name in os.listdir('data'):\n")
    return path


def run(number: int, role: str, steps: int = 180, **settings: Setting) -> RunRecord:
    plan = RunSpec(role, {name.replace("_", "-"): setting for name, setting in settings.items()})
    return Run(RunFolder(Path(f"/runs/{number}-{role}")), plan, 0, 2.5, id=number, steps=steps).record


def same() -> CheckVerdict:
    varied = run(3, "varied", clock=Setting("varied"))
    return CheckVerdict(
        "same",
        "train.py",
        Path("/runs"),
        (run(1, "control"), run(2, "control again"), varied),
        ("clock",),
        streams=("loss", "grad", "param", "end"),
    )


def different(script: Path) -> CheckVerdict:
    sure = Evidence((3, 4, 7, 9, 11), (5, 6, 8, 10), 4, 0.0039, 0.01)
    guilty = Cause("torch-rng", Site(str(script), 2, "<module>"), True, "drawn before it was seeded", sure)
    latent = Cause("file-order", Site(str(script), 3, "<module>"), False, "os.listdir listed", sure, "os.listdir")
    return CheckVerdict(
        "different",
        "train.py",
        Path("/runs"),
        (run(1, "control"), run(2, "control again")),
        divergent=DivergentRuns(1, 2, Divergence(0, "init", "weight", differing=2, total=4)),
        causes=(guilty, latent),
        remedy=Remedy(
            ("torch-rng", "file-order"),
            True,
            ("call samebits.pin(seed=0) before line 2",),
            runs=(7, 9, 11),
            whole=(9, 11),
            varied=11,
            chance=0.0039,
        ),
        not_observed=("1 compiled region",),
    )


def test_same_bits_are_said_in_the_first_line() -> None:
    """How many runs, how many steps, what was varied, what was not seen."""
    assert check_report(same()).text.splitlines() == [
        "same bits: 3 runs of 180 steps agree in losses, gradients, parameters and the final state",
        "  varied    clock",
        "  rests on  3 runs would catch a cause affecting ≥63 % of runs (95 % confidence); --runs 59 for ≥5 %",
        "  took      3 runs, 8 s",
        "  coverage  everything these runs did was recorded",
    ]


def test_different_bits_name_place_cause_and_remedy(script: Path) -> None:
    """The whole answer, golden."""
    assert check_report(different(script)).text.splitlines() == [
        "different bits: runs 1 and 2 diverge at step 0, in the initial state",
        "  first     weight: 2 of 4 tensors differ",
        "  cause     torch-rng: drawn before it was seeded, train.py:2",
        "                model = torch.nn.Linear(2, 2)",
        "  confirmed pinned 5/5 identical, changed 4/4 differ; false-positive bound 0.4 %",
        "  cause     file-order: os.listdir listed, train.py:3",
        "                for name in os.listdir('data'):",
        "  confirmed pinned 5/5 identical, changed 4/4 differ; false-positive bound 0.4 %",
        "  latent    repeats on this machine only",
        "  remedy    samebits run --pin torch-rng --pin file-order train.py",
        "            verified: 3 runs identical, 2 to the end; rest varied in run 11",
        "  fix       call samebits.pin(seed=0) before line 2",
        "  took      2 runs, 5 s",
        "  not seen  1 compiled region",
        "  next      samebits report /runs     (a page with all lines and runs)",
    ]


def test_lines_of_one_factor_are_told_together(script: Path) -> None:
    """One row of figures, and one sentence for what needs the same change."""
    found = different(script)
    causes = [replace(found.causes[1], site=replace(found.causes[1].site, line=line)) for line in (2, 3, 31)]
    listings = tuple(f"sort the listing at train.py:{line}: sorted(...)" for line in (2, 3, 31))
    remedy = replace(found.remedy, code=(*listings, "call samebits.pin(seed=0) before line 2"))

    rows = check_report(replace(found, causes=tuple(causes), remedy=remedy)).text.splitlines()

    assert [row[2:12].strip() for row in rows if row[2:12].strip() in ("cause", "confirmed", "fix")] == [
        *("cause", "cause", "cause", "confirmed", "fix", "fix"),
    ]
    assert "  fix       sort the listing at train.py:2, 3, 31: sorted(...)" in rows


def test_what_is_said_meanwhile_names_every_line_that_it_may_be(script: Path) -> None:
    """Until the lines are told apart, and not where one seed covers them all."""
    guilty, listing = different(script).causes
    others = (Site(str(script), 7), Site(str(script), 9))
    causes = (replace(guilty, others=others, fixed_together=True), replace(listing, others=others))

    text = so_far_text(replace(different(script), causes=causes))

    assert "confirmed: torch-rng: drawn before it was seeded, train.py:2;" in text
    assert text.endswith("confirmed: file-order: os.listdir listed, train.py:3 or train.py:7, 9")


def test_a_row_without_a_text_is_none() -> None:
    """In the whole answer, in its first lines and as data; a line of code that is not known is none, either."""
    told = AnswerReport(
        "different bits", [("first", ""), source_row(""), ("cause", "clock"), source_row("time.time()"), ("latent", "")]
    )

    assert told.all_rows == [("cause", "clock"), ("", "    time.time()")]
    assert told.text == told.brief == "different bits\n  cause     clock\n                time.time()"


def test_the_first_answer_fits_ten_lines(script: Path) -> None:
    """Where, why with its line, by which figures, what helps, what to do next; one cause leaves room for its code."""
    found = different(script)
    one = replace(found, causes=found.causes[1:], not_observed=())
    brief, short = check_report(found).brief.splitlines(), check_report(one).brief.splitlines()

    assert [line[2:12].strip() or line.strip()[:8] for line in brief[1:]] == [
        *("cause", "confirmed", "cause", "confirmed", "remedy", "verified", "fix", "not seen", "next"),
    ]
    assert [line[2:12].strip() or line.strip()[:8] for line in short[1:]] == [
        *("first", "cause", "for name", "confirmed", "latent", "remedy", "verified", "fix", "next"),
    ]
    assert [line for line in brief + short if len(line) > 80] == []
    many = check_report(replace(found, causes=found.causes * 9)).brief.splitlines()
    assert sum("cause" in line for line in many) == 18
    assert sum(line.startswith("  fix") for line in many) == 1  # what to change is never left out
    doubtful = replace(found.causes[0], evidence=replace(found.causes[0].evidence, chance=0.4))
    labels = [label for label, _ in check_report(replace(found, causes=(doubtful,))).rows]
    assert ("suspected" in labels, "try" in labels, "fix" in labels) == (True, True, False)


def test_what_the_first_run_could_not_find_is_no_experiment(script: Path) -> None:
    """No run was in a fresh folder, and none in what another one left: the first was merely the first."""
    own = replace(different(script).causes[0], factor="files-left-behind", called="outside")
    _, text = confirmation_row(replace(own, evidence=Evidence((2, 3), (1,), 1, 1.0, 0.01)))

    assert text == "later runs 2/2 identical, the first one differs; too few runs to be sure"


@pytest.mark.parametrize(
    ("chance", "words"),
    [
        (0.004, "differ; false-positive bound 0.4 %"),
        (0.4, "differ; false-positive bound 40 %: too few runs to be sure"),
        (1.0, "differ; too few runs to be sure"),  # a bound that bounds nothing
    ],
)
def test_how_sure_an_accusation_is(script: Path, chance: float, words: str) -> None:
    cause = different(script).causes[0]
    _, text = confirmation_row(replace(cause, evidence=replace(cause.evidence, chance=chance)))
    assert text.endswith(words)


def test_a_seed_that_comes_too_late_is_told_with_its_line(script: Path) -> None:
    """Of a generator, and of hashes, for which nothing within the script is early enough."""
    causes = tuple(replace(cause, seeded_late=Site(str(script), 1)) for cause in different(script).causes)
    hashes = replace(causes[0], factor="hash-seed")
    lines = check_report(replace(different(script), causes=(causes[0], hashes))).text.splitlines()

    assert "  seeded    too late, at train.py:1" in lines
    assert "  seeded    too late, at train.py:1, after the interpreter's start" in lines


def unknown(script: Path, **known: Any) -> CheckVerdict:
    """A check that ends with an unknown cause, of which this is known."""
    place = Divergence(5, "grad", "fc.weight", differing=1, total=4)
    divergent = DivergentRuns(3, 4, place, Distance(3, 64, 1, 1e-7))
    return replace(different(script), causes=(), remedy=None, unknown=Unknown(divergent, True, **known))


def test_an_unknown_cause_is_admitted(script: Path) -> None:
    """Everything pinned and still different: said so, with the place and by how much."""
    text = check_report(unknown(script)).text

    assert "unknown: with everything pinned that can be, runs 3 and 4 diverge at step 5, in the gradients" in text
    assert "3 of 64 elements differ, by at most 1 ULP" in text
    assert "remedy" not in text


def test_what_reading_finds_is_looked_at_first(script: Path) -> None:
    """Where the cause is unknown, lines that lint names at which nothing was seen to enter."""
    shown = check_report(unknown(script, read=("train.py:3, which leaves some of it unwritten (SB408)",))).brief

    assert "  next      look at train.py:3, which leaves some of it unwritten (SB408)\n" in shown
    assert "look for causes that no pin covers" not in shown


def test_command_lines_that_differ_are_told_with_the_seeds(script: Path) -> None:
    """A wrapper that hands `$RANDOM` on: where seeds are shown, ten lines have room for where they come from."""
    seeds = (Reseeded("torch.manual_seed", Site("train.py", 2), "1", "2"),)
    apart = tuple(f"only one run started `python train.py --seed {seed}`" for seed in (1, 2))
    notes = ("a note", "another note", "one more")

    shown = check_report(replace(unknown(script, seeds=seeds, apart=apart), notes=notes)).brief

    assert [line.strip() for line in shown.splitlines() if "--seed" in line] == [f"differs   {one}" for one in apart]


def test_json_says_what_text_says(script: Path) -> None:
    """Verdict, exit code, cause with its line and source, remedy."""
    document = document_of("check", different(script))

    assert document["verdict"] == "different"
    assert different(script).exit_code == 1
    assert document["causes"][0]["location"]["line"] == 2
    assert document["causes"][0]["location"]["source"] == "model = torch.nn.Linear(2, 2)"
    assert document["causes"][1]["varies_between_runs"] is False
    assert ["remedy", "samebits run --pin torch-rng --pin file-order train.py"] in document["rows"]


def test_the_remedy_repeats_the_pins_of_the_check(script: Path) -> None:
    """Pins that the user gave, their values and the seed are part of the command that repeats, and no other option."""
    options = ("--pin", "cpu-threads=2", "--vary", "clock", "--seed", "7", "--max-steps", "5", "--strict")
    verdict = replace(different(script), pinned=("cpu-threads",), options=options)
    own = "--pin torch-rng --pin file-order --pin cpu-threads=2"

    assert f"samebits run {own} --seed 7 train.py" in check_report(verdict).text
    assert remedy_command(replace(verdict, options=())) == f"samebits run {own.removesuffix('=2')} train.py"
    # Alone, all that is pinned by default needs no name; a value does.
    assert verdict.remedy is not None
    default = replace(verdict, remedy=replace(verdict.remedy, pins=tuple(settings_for(None))), options=())
    assert remedy_command(default) == "samebits run train.py"
    assert "--pin cpu-threads=2 --pin" in remedy_command(replace(default, options=options))
    found = EntryLocked("train", "train.py", Path("samebits.lock"), "different", check=verdict)
    lock = "samebits lock --pin cpu-threads=2 --pin torch-rng --pin file-order --seed 7 --max-steps 5 train.py"
    assert lock in lock_report(found).text


def test_diff_says_by_how_much_and_which_generators_moved() -> None:
    """The answer of `samebits diff`, golden; and its twin."""
    place = Divergence(7, "batch", "0[0]", differing=1, total=2, generators=("numpy",))

    compared = RunComparison(place, None, ("init", "grad"), trained=Divergence(7, "grad"))

    assert diff_report(Diff(Path("/a"), Path("/b"), compared, Distance(5, 64, 1, 1e-7))).text.splitlines() == [
        "different bits: the runs diverge at step 7, in the data",
        "  first     batch 0[0]: 1 of 2 tensors differ",
        "  by        5 of 64 elements differ, by at most 1 ULP, relative 1e-07",
        "  rng       already in another state at the end of step 6: numpy",
        "  compared  initial state and gradients",
        "  runs      /a and /b",
    ]
    same_bits = RunComparison(None, None, ("loss", "end"), steps=10)
    assert diff_report(Diff(Path("/a"), Path("/b"), same_bits)).text == (
        "same bits: 10 steps agree in losses and the final state"
    )


def test_what_else_happened_is_told_apart_from_what_was_trained() -> None:
    """The answers of `check` and of `diff` where only that differs, by default and strict, as text and exit status.

    A run that trains something else is different either way.
    """
    runs = tuple(RunRecord(number, "control", Path("/r"), 60, 1.0) for number in (1, 4, 5, 6))
    place, streams = Divergence(7, "batch", "1", differing=1, total=2, only_in="second"), ("batch", "grad", "end")
    found = CheckVerdict(
        "same", "train.py", Path("/"), runs, divergent=DivergentRuns(1, 4, place), streams=streams, alike=(4, 5, 6)
    )
    other = replace(found, kind="different", alike=(), trained=Divergence(9, "grad"))
    compared = RunComparison(place, None, streams, steps=60)
    a_and_b = Diff(Path("/a"), Path("/b"), compared)

    assert check_report(found).text.splitlines()[:3] == [
        "same bits in what was trained: 3 runs of 60 steps agree in gradients and the final state",
        "  besides   runs 1 and 4 diverge at step 7, in the data",
        "  first     batch 1: only the second run has it",
    ]
    assert check_report(replace(found, kind="different")).text.splitlines()[:2] == [
        "different bits: runs 1 and 4 diverge at step 7, in the data",
        "  trained   3 runs of 60 steps agree in gradients and the final state",
    ]
    assert "  trained   diverges at step 9, in the gradients" in check_report(other).text.splitlines()
    assert [one.exit_code for one in (found, replace(found, kind="different"), other)] == [0, 1, 1]
    assert [document_of("check", one)["training"] for one in (found, other)] == ["same", "different"]
    assert diff_report(a_and_b).text.splitlines()[:2] == [
        "same bits in what was trained: 60 steps agree in gradients and the final state",
        "  besides   the runs diverge at step 7, in the data",
    ]
    assert diff_report(replace(a_and_b, strict=True)).text.startswith(
        "different bits: the runs diverge at step 7, in the data"
    )
    assert not replace(a_and_b, comparison=replace(compared, trained=Divergence(9, "grad"))).same


def test_a_dry_run_prints_the_plan() -> None:
    """Every run before the verdict, with what it varies, and what follows."""
    request = CheckRequest(COMMAND, max_steps=50, jobs=2, timeout=9)

    text = plan_text(request, first_runs(request))

    assert text.startswith("plan: python train.py\n")
    assert (
        "run 3     varied: varied os-entropy, clock, hash-seed, memory-addresses, file-order, completion-order, "
        "stream-order, uninitialized-memory" in text
    )
    assert "at most 36 runs and 12 for each cause, 2 at a time, 9 s each, the first 50 steps" in text


def test_a_remedy_that_the_script_does_not_survive_says_how_it_ended() -> None:
    """A run that was ended by its time limit has not failed by itself."""
    limited = Remedy(("clock",), False, failure="run 27 was ended by samebits after 300 s, its time limit")

    assert remedy_state(limited) == f"not usable: with it {limited.failure}"
