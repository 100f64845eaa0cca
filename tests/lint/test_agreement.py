"""What experiments confirm, reading says of the same line; where it does not, the line is listed here."""

import shutil
import subprocess
from pathlib import Path

import pytest

from samebits.lint.linting import lint
from tests.lint.agreement import CORPUS, planted, removed_lines, strange
from tests.quality.twins import TWINS, lay_out

# Read as what it is, each of these lines may be right: only running it shows that it is not.
UNSEEN = {
    ("clock_daily_seed", 8),  # a number that is new each day, made a string and back
    ("clock_stopwatch", 15),  # a stopwatch that decides something
    ("clock_trials", 32),  # seconds that one program prints and another one reads
    ("completion_order_folds", 17),  # kept by name, and then taken in order
    ("data_workers_carried", 30),
    ("data_workers_persistent", 35),
    ("data_workers_transform", 30),
    ("file_order_glob", 14),  # the order of a dict that is filled from a listing
    ("file_order_helper", 9),  # sorted or not by a parameter
    ("memory_addresses_set", 26),  # what a set of one's own objects holds is not known
    ("numpy_rng_helper", 7),  # the module as a parameter
    ("os_entropy_device", 7),
    ("os_entropy_sql", 14),
    ("os_entropy_temporary", 12),  # most files of `tempfile` are nobody's business
    ("os_entropy_temporary", 18),
    ("os_entropy_uuid", 12),
    ("torch_algorithms_off", 8),  # as torch begins
    ("torch_rng_shuffle", 16),
    ("two_numpy_clock", 11),
    ("two_python_workers", 23),
    ("two_workers_clock", 28),
    ("two_workers_clock", 34),
    ("uninitialized_hidden", 16),
}


def test_reading_names_what_experiments_confirm() -> None:
    """All planted lines but those of the list, which grows no further."""
    assert {(one.where, one.line) for one in planted() if not one.rules} == UNSEEN


def test_reading_is_silent_on_clean_twins(tmp_path: Path) -> None:
    """Nothing is said of code that repeats."""
    said = {}
    for name in TWINS:
        lay_out(name, tmp_path / name)
        files = [path for path in sorted((tmp_path / name).rglob("*.py")) if path.name != "faulty.py"]
        said[name] = [(Path(one.path).name, one.line, one.rule) for one in lint(files).findings]

    assert {name: found for name, found in said.items() if found} == {}


def test_strange_scripts_are_read_rightly(tmp_path: Path) -> None:
    """Of a third reading names a line that its cure takes away; and once cured, it is told nothing that is not so."""
    for path in CORPUS.iterdir():
        shutil.copy(path, tmp_path)
    for diff in sorted(tmp_path.glob("*.diff")):
        subprocess.run(["patch", "-p1", "-s", "-i", diff.name], cwd=tmp_path, check=True)

    assert sum(bool(one.rules) for one in strange()) >= 14
    # It resumes without its generators' states, before and after.
    assert [(Path(one.path).stem, one.rule) for one in lint([tmp_path]).findings] == [
        ("b10_swa", "SB604"),
        ("b10_swa", "SB601"),
    ]


@pytest.mark.parametrize(
    ("diff", "expected"), [("@@ -3,2 +3,1 @@\n a\n-b\n", {4}), ("@@ -3,1 +3,2 @@\n a\n+b\n", set())]
)
def test_removed_lines_are_counted_in_the_old_file(diff: str, expected: set[int]) -> None:
    """What is added counts for nothing."""
    assert removed_lines(diff) == expected
