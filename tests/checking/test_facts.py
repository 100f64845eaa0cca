"""What is made of the notes of a run."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import samebits
from samebits.base.errors import SamebitsError
from samebits.base.sites import Site
from samebits.checking import origin
from samebits.checking.experiments import _kept_by_program, _running, _unknown, reseeded
from samebits.checking.facts import Facts, noted_by_one_run, read_facts
from samebits.checking.inquiry import Inquiry
from samebits.checking.plan import CheckRequest
from samebits.checking.pool import BudgetSpentError, RunPool
from samebits.checking.search import SearchState
from samebits.checking.unjudgeable import recording_error
from samebits.checking.verdict import DivergentRuns, RunRecord, Unknown, whole_runs
from samebits.comparison.locate import Divergence
from samebits.comparison.ops import OpDivergence
from samebits.launch.command import Command
from samebits.runfolder.notes import (
    Carried,
    Failed,
    Files,
    InEffect,
    Journal,
    Note,
    Observed,
    Reached,
    Refused,
    Seeded,
    Started,
    SteppedShared,
    Witnessed,
)
from samebits.runfolder.ops import OpKind, OpRow, Producer, operands_name
from samebits.runfolder.spec import RunSpec

DRAWN, SEEDED = Site("/train.py", 4), Site("/train.py", 6)


def noted(folder: Path, number: int, *notes: Note) -> None:
    """A process's journal."""
    journal = Journal(folder)
    for note in notes:
        journal.note(note)
    own = folder / f"journal.other.{number}.jsonl"
    next(folder.glob(f"journal.*.{os.getpid()}.jsonl")).rename(own)


def unknown_of(*facts: Facts) -> Unknown:
    """What is told of runs that diverge for an unknown reason."""
    pool: Any = SimpleNamespace(
        runs=[SimpleNamespace(id=number, path=Path("/runs"), facts=one) for number, one in enumerate(facts)]
    )
    found: Any = SimpleNamespace(unknown=Unknown(DivergentRuns(0, 1, Divergence(0, "loss")), held=True))
    told = _unknown(pool, found)
    assert told is not None
    return told


def test_times_and_addresses_are_met_where_the_code_names_them(tmp_path: Path) -> None:
    """In whatever form; in the user's own files."""
    lines = [
        "import os, pathlib",
        "max(names, key=os.path.getmtime)",
        "path.stat().st_mtime_ns",
        "path.stat().st_size",
        "known[id(graph)] = own.id(graph), valid(graph)",
        "own.id(graph)",
    ]
    (tmp_path / "train.py").write_text("\n".join(lines))
    noted(tmp_path, 1, Files((str(tmp_path / "train.py"), os.__file__)))

    found = [(note.kind, note.what, note.site.line) for note in read_facts(tmp_path).outside]
    assert found == [("time", "getmtime", 2), ("time", "st_mtime_ns", 3), ("address", "id", 5)]


def test_code_that_cannot_be_read_costs_its_lines_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What else was noted is there, and that reading failed is said as ours."""
    path = tmp_path / "train.py"
    path.write_text("print(hash('ab'))\n")

    def fails(_: object) -> None:
        raise RecursionError("too deep")

    notes = Files((str(path),)), Witnessed("torch-rng", DRAWN, "torch.randn")
    noted(tmp_path, 0, *notes)
    assert read_facts(tmp_path).read_lines.keys() == {"hash-seed"}
    monkeypatch.setattr("samebits.lint.hash_order.find_hash_order", fails)
    os.utime(path, (1, 1))  # so it is another file than before

    facts = read_facts(tmp_path)

    assert (facts.read_lines, facts.entries.keys()) == ({}, {"torch-rng"})
    assert facts.unread.endswith("which is samebits' mistake (RecursionError: too deep): please report this")


def test_a_seed_that_comes_too_late_is_known(tmp_path: Path) -> None:
    """In the process that drew, after it drew, and for the generator that was drawn from."""
    drawn, seeded = Witnessed("torch-rng", DRAWN, "torch.randn"), Seeded("torch.manual_seed", 0, SEEDED)
    other = Seeded("random.seed", 0, SEEDED)
    cases = {
        "late": ([drawn, other, seeded],),
        "in time": ([seeded, drawn],),
        "another generator": ([drawn, other],),
        "another process": ([drawn], [seeded]),
        "the hash seed": ([Seeded("PYTHONHASHSEED", "7", SEEDED)],),
    }

    found = {}
    for name, processes in cases.items():
        folder = tmp_path / name
        folder.mkdir()
        for number, notes in enumerate(processes):
            noted(folder, number, *notes)
        found[name] = read_facts(folder).late_seeds

    assert found == {
        "late": {"torch-rng": SEEDED},
        "in time": {},
        "another generator": {},
        "another process": {},
        "the hash seed": {"hash-seed": SEEDED},
    }


def test_seeds_are_compared_process_by_process(tmp_path: Path) -> None:
    """Whichever of two workers ends first, each gives its own seed; what one gives otherwise, or the other, is told."""
    runs = []
    cases = [((1, 2), ("1", "2")), ((2, 1), ("1", "2")), ((1, 2), ("1", "9")), ((1, 2), ("2", "1"))]
    for number, (workers, values) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        for order, worker in enumerate(workers):
            noted(folder, order, Seeded("torch.manual_seed", values[worker - 1], SEEDED, str(worker)))
        runs.append(read_facts(folder).seeds)

    assert reseeded(runs[0], runs[1]) == ()
    assert [(one.a, one.b) for one in reseeded(runs[0], runs[2])] == [("2", "9")]
    assert [(one.a, one.b) for one in reseeded(runs[0], runs[3])] == [("1", "2")]


def test_what_only_one_of_two_runs_started_or_met_is_told(tmp_path: Path) -> None:
    """As where a wrapper hands `$RANDOM` on; what both did is not."""
    runs = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        noted(folder, 0, Started("/bin/python", argv=("python", "train.py", "--seed", seed)), Reached("port 80"))
        runs.append(read_facts(folder))

    apart = [f"only one run started `python train.py --seed {seed}`" for seed in (1, 2)]
    assert noted_by_one_run(*runs) == apart
    assert unknown_of(*runs).apart == (*apart,)


def test_an_error_that_a_pin_made_is_quoted(tmp_path: Path) -> None:
    """It follows "the script", as how any run ended does."""
    noted(tmp_path, 0, Refused("cumsum has no such kernel\nYou can …", "samebits: called at train.py:4 (it is pinned)"))

    assert read_facts(tmp_path).refusal == 'raised "cumsum has no such kernel", called at train.py:4 (it is pinned)'


def test_a_recording_that_failed_is_told_as_ours(tmp_path: Path) -> None:
    """With the folder to send; a step that could not be recorded is no step of the script's."""
    noted(tmp_path, 0, Failed("recording", "RuntimeError: no storage"))

    told = recording_error(tmp_path, 3)

    assert told is not None
    assert "samebits' mistake" in told.message
    assert told.hint is not None
    assert str(tmp_path) in told.hint


def test_a_recording_that_failed_ends_the_search() -> None:
    """It is no evidence: why it failed is all that is told."""
    trouble = SamebitsError("samebits' mistake")
    pool: Any = SimpleNamespace(causes=0, run_all=lambda _: [SimpleNamespace(trouble=trouble)])
    inquiry = Inquiry(CheckRequest(Command(("python",), ())), pool)

    with pytest.raises(BudgetSpentError) as spent:
        _running(inquiry, SearchState(), lambda _: None)([])
    assert spent.value.trouble is trouble


def test_the_limit_grows_with_the_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that is found makes room for more runs; a limit that was given stays."""
    monkeypatch.setattr(SearchState, "accused", [1, 2])
    monkeypatch.setattr(SearchState, "causes", [])
    request = CheckRequest(Command(("python",), ()))
    pool: Any = SimpleNamespace(causes=0, run_all=lambda _: [])

    _running(Inquiry(request, pool), SearchState(), lambda _: None)([])

    assert pool.causes == 2
    assert RunPool.left.fget(SimpleNamespace(request=request, causes=2, _started=0)) > request.most_runs()  # type: ignore[attr-defined]
    assert replace(request, max_runs=9).most_runs(2) == 9


def test_operands_that_were_not_kept_leave_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operation was found by runs that were well; only the last one, which was to keep its operands, failed."""
    row = OpRow(0, 3, OpKind("aten::add", "forward"), ())
    monkeypatch.setattr(origin, "_places", lambda *_: {0: OpDivergence("op", 0, 3, 0, row, row, ("result",))})
    troubles = iter([None, None, SamebitsError("no space left")])
    pool: Any = SimpleNamespace(left=1, run=lambda _: SimpleNamespace(id=1, path=tmp_path, trouble=next(troubles)))
    spec = RunSpec("control")

    (found,) = origin.find_origins(pool, spec, spec, 0)

    assert (found.first.place.index, found.unmeasured, found.operands) == (3, "no space left", None)
    assert next(troubles, "all were made") == "all were made"


def test_operands_that_the_other_run_did_not_keep_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made again to keep them, since on a device it kept none; where that fails, no more runs are spent."""
    row = OpRow(0, 3, OpKind("aten::add", "forward"), ())
    monkeypatch.setattr(origin, "_places", lambda *_: {0: OpDivergence("op", 0, 3, 0, row, row, ("result",))})
    troubles = iter([None, None, SamebitsError("a thread gave up")])
    pool: Any = SimpleNamespace(left=9, run=lambda _: SimpleNamespace(id=1, path=tmp_path, trouble=next(troubles)))
    spec = RunSpec("control")

    (found,) = origin.find_origins(pool, spec, spec, 0)

    assert (found.first.place.index, found.unmeasured, found.operands) == (3, "a thread gave up", None)


def test_what_wrote_an_input_is_known_from_runs_that_diverge_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs that were to keep the operands met the race at another operation, and kept those of this one."""
    rows = [OpRow(0, index, OpKind("aten::mm", "backward"), ()) for index in (3, 5)]
    found_at = iter([rows[1], rows[0], rows[0], rows[0]])
    divergences = (OpDivergence("input", 0, row.index, 0, row, row, ("mat2",)) for row in found_at)
    monkeypatch.setattr(origin, "_places", lambda *_: {0: next(divergences)})
    producer = Producer(0, 2, "aten::add", other_stream=True)

    def read_call(path: Path, folder: Path) -> Any:
        return SimpleNamespace(kind=rows[1].kind, producers={"mat2": producer})

    monkeypatch.setattr(origin, "read_call", read_call)
    pool: Any = SimpleNamespace(left=9, made=[])

    def run(spec: RunSpec) -> Any:
        folder = tmp_path / str(len(pool.made))
        if spec.ops is not None and spec.ops.keep and len(pool.made) > 1:
            (folder / "operands").mkdir(parents=True)
            (folder / "operands" / f"{operands_name(0, 0, 5)}.json").touch()
        pool.made.append(spec.role)
        return SimpleNamespace(id=len(pool.made), path=folder, trouble=None)

    pool.run = run

    (found,) = origin.find_origins(pool, RunSpec("a"), RunSpec("b"), 0)

    assert pool.made == ["operations", "operations again", *["operands of the other kept"] * 2, "operands kept"]
    assert (found.b, found.first.place.index, found.first.producer) == (2, 5, producer)


def test_a_race_is_where_two_processes_step_on_the_same_memory(tmp_path: Path) -> None:
    """Not where one of them steps twice, and not where each has its own."""
    a, b, own = (SteppedShared((memory,), Site("/train.py", line)) for memory, line in (("1", 4), ("1", 9), ("2", 9)))
    found = []
    for number, processes in enumerate([([a], [b]), ([a, b], []), ([a], [own])]):
        folder = tmp_path / str(number)
        folder.mkdir()
        for other, notes in enumerate(processes):
            noted(folder, other, Seeded("torch.manual_seed", 0, SEEDED), *notes)
        found.append(read_facts(folder).races)

    assert found == [(a.site, b.site), (), ()]
    assert unknown_of(Facts(), Facts(races=found[0])).races == found[0]


def test_what_the_script_sets_itself_is_not_said_to_be_varied(tmp_path: Path) -> None:
    """Where a varied run had the value that runs left alone have; that one of its processes kept it is not enough."""

    def kept(*varied: str) -> list[str]:
        runs: list[Any] = []
        for role, mode, values in (("control", "natural", ("fixed: 7",)), ("varied", "varied", varied)):
            folder = tmp_path / f"{role}{len(varied)}{varied[0][-1]}"
            folder.mkdir()
            for number, value in enumerate(values):
                noted(folder, number, Observed({}, {"hash-seed": InEffect(mode, value), "clock": InEffect(mode, "1")}))
            runs.append(SimpleNamespace(path=folder, plan=RunSpec(role)))
        return _kept_by_program(runs)

    assert kept("fixed: 7") == ["hash-seed"]
    assert kept("fixed: 8") == kept("fixed: 7", "fixed: 8") == []


def test_runs_that_were_ended_are_not_whole() -> None:
    """Not even where the whole ones take no more steps; nor those that begin in what another one left, or fail."""
    look, whole, left, failed = (
        RunRecord(number, "control", Path(), 1, 1.0, stopped=number == 1, **more)
        for number, more in enumerate([{}, {}, {"begins": "left"}, {"exit_code": 1}], 1)
    )

    assert whole_runs([look, whole, left, failed]) == (whole,)
    assert whole_runs([look, left, failed]) == (look,)
    assert whole_runs([look, replace(whole, steps=3), failed])[0].steps == 3


def test_commands_that_libraries_make_up_are_not_told(tmp_path: Path) -> None:
    """What follows `-c` holds numbers of pipes, which are others in every run."""
    spawned = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=9)")
    for number, argv in enumerate([("python", "train.py", "--seed", "3"), spawned]):
        noted(tmp_path, number, Started("/bin/python", argv=argv))

    assert read_facts(tmp_path).commands == ("python train.py --seed 3",)


def test_the_end_of_the_output_is_about_the_script(tmp_path: Path) -> None:
    """The frames of our hooks are left out of a traceback, but not where the error is ours."""
    ours = f"{Path(samebits.__file__).parent}/agent/taps/saving.py"
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


def test_the_line_that_looks_comes_before_the_one_that_makes(tmp_path: Path) -> None:
    """Of a cache that was missing: who asks decides; the folder is made first, and before the file is written."""
    asks, makes = Site("/train.py", 15), Site("/train.py", 18)
    made = Carried("made", "/cache", "/cache", makes, makes)
    noted(
        tmp_path,
        1,
        Carried("tested", "/cache/x", "/cache/x", asks),
        made,
        Carried("tested", "/cache/x", "/cache/x", asks, makes),
    )

    assert [one.asked.line for one in read_facts(tmp_path).carried] == [15, 18]
