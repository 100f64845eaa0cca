"""Planted faults with known answers, and their clean twins; and every cure that is printed, followed.

Each folder of `cases/` holds `faulty.py`; `twins.py` says how its twin differs. A guilty line of the faulty script, or
of a module it imports, carries the comment `# <- FACTOR`. `check` must name exactly those factors and lines, and be
silent on the twin.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import pytest

from tests.answers import answered
from tests.quality.fixes import followed
from tests.quality.twins import CASES as FOLDER
from tests.quality.twins import TWINS, lay_out

TOGETHER = Path(__file__).parent / "together.py"
MARK = re.compile(r"# <- ([a-z-]+)(?= #|$)")
# A line that shows how a factor enters at another one.
SHOWN = re.compile(r"# <- (drawn for a sample|self\.\w+ changed from sample to sample)$")
# A line that the same seed fixes.
COMPANY = re.compile(r"# <- with ([a-z-]+)$")

Site = tuple[str, str | None, int | None]  # factor, file name, line


@dataclass(frozen=True)
class Case:
    """A planted fault: its causes, and the step at which runs first part where that is known for sure.

    Attributes:
        is_sample: the one that the fast tests explain; the others take their turn with `make test-slow`.
    """

    name: str
    factors: frozenset[str]
    step: int | None
    options: tuple[str, ...]
    pins_cure: bool
    is_sample: bool


def case(
    name: str,
    *factors: str,
    step: int | None = 0,
    options: tuple[str, ...] = (),
    pins_cure: bool = True,
    is_sample: bool = False,
) -> Case:
    return Case(name, frozenset(factors), step, options, pins_cure, is_sample)


CASES = [
    case("clock_daily_seed", "clock"),
    case("clock_frame", "clock"),
    case("clock_logging", "clock"),
    case("clock_stopwatch", "clock"),
    case("clock_trials", "clock"),
    case("clock_workers", "clock"),
    # Which result comes too early is a matter of luck.
    case("completion_order_batches", "completion-order", step=None),
    case("completion_order_folds", "completion-order", step=None),
    case("completion_order_pool", "completion-order", step=None),
    case("completion_order_tasks", "completion-order", step=None),
    case("cpu_threads_norm", "cpu-threads", options=("--vary", "cpu-threads")),
    # The first batch is the same in one process and in a worker; and what a dataset carries no pin takes from it.
    case("data_workers_carried", "data-workers", step=1, options=("--vary", "data-workers"), pins_cure=False),
    case("data_workers_persistent", "data-workers", options=("--vary", "data-workers")),
    case("data_workers_transform", "data-workers", options=("--vary", "data-workers")),
    # Where a listing reversed parts from the natural one depends on the file system of the day.
    case("file_order_glob", "file-order", step=None),
    case("file_order_helper", "file-order", step=None),
    case("file_order_listdir", "file-order", step=None),
    case("hash_seed_buckets", "hash-seed"),
    case("hash_seed_enum", "hash-seed"),
    case("hash_seed_groups", "hash-seed"),
    case("hash_seed_vocabulary", "hash-seed"),
    # Whether another order rounds to another norm in the first step is a matter of luck.
    case("memory_addresses_clip", "memory-addresses", step=None),
    # Two runs may train the first ones in the same order.
    case("memory_addresses_set", "memory-addresses", step=None),
    case("numpy_rng_folds", "numpy-rng", is_sample=True),
    case("numpy_rng_helper", "numpy-rng"),
    case("numpy_rng_late", "numpy-rng", step=7),
    case("numpy_rng_library", "numpy-rng"),
    case("os_entropy_device", "os-entropy"),
    case("os_entropy_instance", "os-entropy"),
    case("os_entropy_secrets", "os-entropy"),
    case("os_entropy_sql", "os-entropy"),
    # Names that are drawn may put the first ones in the same order.
    case("os_entropy_temporary", "os-entropy", step=None),
    case("os_entropy_torch_seed", "os-entropy"),
    case("os_entropy_uuid", "os-entropy"),
    case("os_entropy_workers", "os-entropy"),
    case("process_id_seed", "process-id"),
    case("product_classes", "hash-seed", step=None),
    case("product_scripted", "numpy-rng", step=None),
    case("product_text", "python-rng", step=None),
    case("python_rng_accumulate", "python-rng"),
    case("thread_order_queue", "thread-order", step=None),
    case("thread_order_rows", "thread-order", step=None),
    # Whether additions race in the first step is a matter of luck.
    case("torch_algorithms_off", "torch-algorithms", step=None),
    case("torch_rng_gan", "torch-rng"),
    case("torch_rng_lines", "torch-rng"),
    case("torch_rng_model", "torch-rng"),
    case("torch_rng_shuffle", "torch-rng"),
    case("two_numpy_clock", "numpy-rng", "clock"),
    # Two runs that are left alone diverge by Python's generator: that is told first, whatever else is varied.
    case("two_python_workers", "python-rng", "data-workers", options=("--vary", "data-workers")),
    case("two_torch_hash", "torch-rng", "hash-seed"),
    # Data part at once wherever the number of workers is varied; two runs that are left alone part by the clock alone.
    case("two_workers_clock", "data-workers", "clock", step=None, options=("--vary", "data-workers")),
    # Two runs may find the same leftovers in memory for a while, so the step is a matter of luck.
    case("uninitialized_hidden", "uninitialized-memory", step=None),
]
each_case = pytest.mark.parametrize(
    "planted",
    [pytest.param(one, id=one.name, marks=[] if one.is_sample else [pytest.mark.slow]) for one in CASES],
)


def marked_sites(planted: Case, pattern: re.Pattern[str] = MARK) -> set[Site]:
    """Every marked line of the faulty script and the modules beside it."""
    return {
        (mark[1], path.name, line)
        for path in (FOLDER / planted.name).glob("*.py")
        for line, source in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (mark := pattern.search(source))
    }


@dataclass(frozen=True)
class Answer:
    """What `samebits check` said."""

    verdict: dict[str, Any]

    @property
    def sites(self) -> set[Site]:
        places = [(cause["factor"], cause["location"]) for cause in self.verdict["causes"]]
        return {(factor, at and PurePath(at["path"]).name, at and at["line"]) for factor, at in places}

    @property
    def company(self) -> set[Site]:
        places = [(cause["factor"], at) for cause in self.verdict["causes"] for at in cause["others"]]
        return {(factor, PurePath(at["path"]).name, at["line"]) for factor, at in places}

    @property
    def shown(self) -> set[Site]:
        shown = [one for cause in self.verdict["causes"] for one in cause["shown_by"]]
        return {(one["what"], PurePath(one["location"]["path"]).name, one["location"]["line"]) for one in shown}


def threads_of(planted: Case) -> dict[str, str | None]:
    """One thread each, since tests run side by side, but where their number is the fault."""
    return {"OMP_NUM_THREADS": None if "cpu-threads" in planted.factors else "1"}


def check(planted: Case, folder: Path, *words: str) -> Answer:
    """The answer of `samebits check` to a script of a case in its folder."""
    return Answer(answered(folder, "check", *planted.options, *words, **threads_of(planted)))


@each_case
def test_faulty_script_is_explained(planted: Case, tmp_path: Path) -> None:
    """The verdict names every guilty factor and line, no innocent one, and a remedy that works; or says it does not."""
    expected = marked_sites(planted) or {(factor, None, None) for factor in planted.factors}

    lay_out(planted.name, tmp_path)

    answer = check(planted, tmp_path, "faulty.py")

    assert answer.verdict["verdict"] == "different", answer
    assert answer.sites == expected, answer
    if "hash-seed" not in planted.factors:  # found by reading: any further line that orders a set
        assert answer.company == marked_sites(planted, COMPANY), answer
    assert answer.shown == marked_sites(planted, SHOWN), answer
    assert answer.verdict["remedy"]["verified"] == planted.pins_cure, answer
    assert (answer.verdict["remedy"]["diverged"] is None) == planted.pins_cure, answer
    assert set(answer.verdict["remedy"]["pins"]) == planted.factors, answer
    if planted.step is not None:
        assert answer.verdict["divergent"]["divergence"]["step"] == planted.step, answer
    assert all(cause["confirmed"] for cause in answer.verdict["causes"]), answer

    # Every cure is true: the script that follows them repeats, whatever is varied.
    # What goes to the start of the script comes last, because it moves all lines.
    for fix in sorted(answer.verdict["remedy"]["code"], key=lambda fix: " start" in fix):
        followed(fix, tmp_path)
    cured = check(planted, tmp_path, "--runs", "2", "faulty.py")

    assert cured.verdict["verdict"] == "same"


# Scripts that write times or process ids, or name files after them: that these are harmless takes more runs.
WRITING_TIMES = {"clock_logging", "process_id_seed", "product_classes", "product_text"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WRITING_TIMES))
def test_clean_twins_that_write_times_are_silent(name: str, tmp_path: Path) -> None:
    """Each by itself."""
    lay_out(name, tmp_path)

    assert answered(tmp_path, "check", "clean.py")["verdict"] == "same"


@pytest.mark.slow
@pytest.mark.parametrize("factor", sorted({one.options[1] for one in CASES if one.options}))
def test_clean_twins_are_silent(factor: str, tmp_path: Path) -> None:
    """Where more is varied than usual; test_patches.py has the others."""
    twins = [one for one in CASES if factor in one.options]
    for one in twins:
        lay_out(one.name, tmp_path / "cases" / one.name)

    answer, recorded = check_together([f"{one.name}/clean.py" for one in twins], ("--vary", factor), tmp_path)

    assert (answer.verdict["verdict"], answer.verdict["causes"]) == ("same", []), answer
    assert recorded >= len(twins)


def test_one_fault_among_clean_twins_is_seen(tmp_path: Path) -> None:
    """Sharing a process hides nobody."""
    scripts = ["torch_rng_shuffle/clean.py", "os_entropy_uuid/faulty.py", "numpy_rng_folds/clean.py"]
    for name in ("torch_rng_shuffle", "os_entropy_uuid", "numpy_rng_folds"):
        lay_out(name, tmp_path / "cases" / name)

    answer, _ = check_together(scripts, (), tmp_path)

    assert answer.verdict["verdict"] == "different"


def check_together(scripts: list[str], options: tuple[str, ...], folder: Path, max_runs: int = 3) -> tuple[Answer, int]:
    """The answer to scripts in `cases` that share a process, and how many processes a whole run has recorded.

    The process forks for each: importing torch takes longer. Not for those that write times and the numbers of their
    processes: nobody notes those of forked ones. Some draw without a seed, where it changes nothing: no more runs are
    made for that than may be, two, and one in place of a look that ended early since the machine was busy.
    """
    runs = ("--runs", "2", "--max-runs", str(max_runs), "--out", "../out")
    together = ("--", sys.executable, str(TOGETHER), *scripts)
    threads = None if "cpu-threads" in options else "1"
    answer = Answer(answered(folder / "cases", "check", *runs, *options, *together, OMP_NUM_THREADS=threads))
    recorded = [len(list(run.glob("recording*.sqlite"))) for run in (folder / "out").iterdir()]
    return answer, max(recorded)


@pytest.mark.parametrize("planted", CASES, ids=lambda planted: planted.name)
def test_marks_agree_with_the_table(planted: Case) -> None:
    """The marked lines of a case name its factors; only `cpu-threads` has no line to mark."""
    sites = marked_sites(planted)

    assert {factor for factor, _, _ in sites} == planted.factors - {"cpu-threads"}


def test_every_case_is_in_the_table() -> None:
    """No planted fault lies about unchecked."""
    assert {path.name for path in FOLDER.iterdir()} == {planted.name for planted in CASES} == set(TWINS)
