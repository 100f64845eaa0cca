"""Patches of the planted faults and of a long script: applied, proven, small, and none for what is sound.

The fast tests make every patch from the marked lines, and check patched scripts together with the clean twins; the slow
ones leave everything to `samebits check --fix`.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from samebits.base.sites import Site
from samebits.fixing.cures import EditableFiles, MendRequest
from samebits.fixing.edits import editable_file
from samebits.fixing.patch import Draft, patch
from tests.answers import answer_of, samebits
from tests.quality.patches import LONG, LONGS
from tests.quality.test_planted import (
    CASES,
    COMPANY,
    FOLDER,
    WRITING_TIMES,
    Case,
    check_together,
    marked_sites,
    threads_of,
)
from tests.quality.twins import lay_out

# What is called at the marked lines, where a patch goes by that.
CALLED = {
    "as_completed": "concurrent.futures.as_completed",
    "imap_unordered": "Pool.imap_unordered",
    "uuid4": "uuid.uuid4",
    "randbits": "random.SystemRandom",
    "/dev/urandom": "/dev/urandom",
    "seed()": "torch.Generator.seed()",
    "Random()": "random.Random()",
    "default_rng()": "NumPy's generator",
    "time_ns": "time.time_ns",
    "perf_counter": "time.perf_counter",
    "time.time()": "time.time",
    "now()": "datetime.now",
    "getpid": "os.getpid",
    "empty": "torch.empty",
    "iterdir": "pathlib.Path.iterdir",
    "listdir": "os.listdir",
    "glob": "glob.glob",
}
# What no edit of a line mends: what threads share, times that are no seeds, what SQLite draws, names of files, and what
# may be made again, before the only seed.
UNMENDED = {"thread_order_queue", "thread_order_rows", "clock_stopwatch", "clock_trials", "two_numpy_clock"}
UNMENDED |= {"two_workers_clock", "os_entropy_sql", "os_entropy_temporary", "os_entropy_uuid"}
# What a dataset carries from sample to sample no key takes from it.
NOT_ENOUGH = {"data_workers_carried"}
# Of each factor one: what the fast tests have of sound scripts, patched where a patch mends them.
SOUND = {"clock_workers", "completion_order_folds", "file_order_helper", "hash_seed_groups", "memory_addresses_clip"}
SOUND |= {"numpy_rng_folds", "os_entropy_secrets", "process_id_seed", "python_rng_accumulate", "thread_order_queue"}
SOUND |= {"torch_algorithms_off", "torch_rng_model", "uninitialized_hidden"}


def drafted(planted: Case) -> Draft:
    """The patch for the marked lines of a case."""
    folder = FOLDER / planted.name
    script = str(folder / "faulty.py")
    causes = []
    for factor, file, line in sorted(marked_sites(planted), key=str) or [("cpu-threads", None, None)]:
        if file is None or line is None:
            causes.append(MendRequest(factor, None, script=script, threads=1))
            continue
        text = (folder / file).read_text(encoding="utf-8").splitlines()[line - 1]
        site = Site(str(folder / file), line, "f" if text.startswith(" ") else "<module>", text.strip())
        called = next((what for word, what in CALLED.items() if word in text), "")
        others = tuple(Site(str(folder / own), at or 0) for name, own, at in marked_sites(planted, COMPANY) if own)
        causes.append(MendRequest(factor, site, called, "", script, others, _late(Path(script), factor)))
    paths = [str(path) for path in folder.glob("*.py")]
    return patch(causes, EditableFiles(lambda path: editable_file(path, Path(path).read_bytes()), paths))


def _late(script: Path, factor: str) -> Site | None:
    """Where a script seeds a generator that it drew from before."""
    for number, line in enumerate(script.read_text(encoding="utf-8").splitlines(), 1):
        if factor == "torch-rng" and line.strip().startswith("torch.manual_seed("):
            return Site(str(script), number, "", line.strip())
    return None


@pytest.mark.parametrize("planted", CASES, ids=lambda planted: planted.name)
def test_patches_of_planted_faults_are_small(planted: Case) -> None:
    """At most three lines for each cause, and nothing of the file besides; what is left says why."""
    draft = drafted(planted)

    assert bool(draft.cannot) == (planted.name in UNMENDED)
    assert draft.lines <= 3 * len(draft.mends)
    for change in draft.changes:
        before, after = (content.decode().splitlines() for content in (change.before, change.after))
        assert len([line for line in before if line not in after]) <= 2 * len(draft.mends)


@pytest.mark.parametrize("which", ["some of each factor", pytest.param("all", marks=pytest.mark.slow)])
def test_clean_twins_and_patched_scripts_are_silent(which: str, tmp_path: Path) -> None:
    """They give the same bits under everything that is varied, and nothing is accused."""
    scripts = []
    for one in CASES:
        if one.options or one.name in WRITING_TIMES or (which != "all" and one.name not in SOUND):
            continue
        lay_out(one.name, tmp_path / "cases" / one.name)
        if which == "all" or one.name in UNMENDED:
            scripts.append(f"{one.name}/clean.py")
        if one.name not in UNMENDED:
            scripts.append(f"{one.name}/faulty.py")
            for change in drafted(one).changes:
                (tmp_path / "cases" / one.name / Path(change.path).name).write_bytes(change.after)

    # One run in which everything is varied shows what does not help.
    answer, recorded = check_together(scripts, (), tmp_path, 12 if which == "all" else 3)

    assert (answer.verdict["verdict"], answer.verdict["causes"]) == ("same", []), answer
    assert recorded >= len(scripts)


def fixed(command: str, folder: Path, *options: str, **variables: str | None) -> tuple[int, dict[str, Any], str]:
    """The status and what `check --fix` answers, and what git says of the folder afterwards."""
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    words = ["check", "--fix", "--fix-in-ci", "--format", "json", *options, command]
    done = samebits(folder, *words, timeout=1800, **variables)
    diff = subprocess.run(["git", "diff", "--numstat"], cwd=folder, capture_output=True, text=True, check=True).stdout
    return done.returncode, answer_of(done), diff


@pytest.mark.slow
@pytest.mark.parametrize("planted", CASES, ids=lambda planted: planted.name)
def test_planted_faults_are_fixed(planted: Case, tmp_path: Path) -> None:
    """Applied where the patched script repeats, and else nothing is touched; what git shows is what was said."""
    shutil.copytree(FOLDER / planted.name, tmp_path, dirs_exist_ok=True)

    status, verdict, diff = fixed("faulty.py", tmp_path, *planted.options, **threads_of(planted))

    own = verdict["patch"]
    assert isinstance(own, dict), verdict
    assert own["applied"] == (own["proven"] is True), verdict
    assert own["applied"] == bool(diff), verdict
    if planted.name not in UNMENDED | NOT_ENOUGH:
        assert (status, own["proven"], own["pins"]) == (0, True, []), verdict
        assert own["lines"] <= 3 * len(own["mends"]), verdict


@pytest.mark.slow
@pytest.mark.parametrize("name", LONGS)
def test_long_scripts_are_fixed(name: str, tmp_path: Path) -> None:
    """Whatever their encoding and line endings, which stay."""
    own = LONGS[name]
    shutil.copytree(LONG, tmp_path, dirs_exist_ok=True)
    (tmp_path / "train.py").write_bytes(own.content)

    status, verdict, diff = fixed("train.py", tmp_path)

    patch = verdict["patch"]
    assert isinstance(patch, dict), verdict
    assert (status, patch["applied"]) == (0, True), verdict
    assert {one["factor"] for one in patch["mends"]} == own.factors
    assert patch["lines"] <= own.lines
    assert diff.split()[2] == "train.py"
    before, after = (
        content.splitlines(keepends=True) for content in (own.content, (tmp_path / "train.py").read_bytes())
    )
    assert len([line for line in after if line not in before]) <= own.lines


@pytest.mark.parametrize("name", LONGS)
def test_long_scripts_are_long(name: str) -> None:
    """More than 150 lines, in which the fault is one of them."""
    assert len(LONGS[name].content.splitlines()) > 150


@pytest.mark.slow
def test_a_sound_script_is_not_changed(tmp_path: Path) -> None:
    """The long script without a fault."""
    shutil.copytree(LONG, tmp_path, dirs_exist_ok=True)

    status, verdict, diff = fixed("train.py", tmp_path)

    assert (status, verdict["verdict"], verdict["patch"], diff) == (0, "same", None, "")
