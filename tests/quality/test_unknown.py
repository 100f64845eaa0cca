"""Planted causes that no factor knows, among harmless entries that all of them see, and their clean twins.

Whatever the luck of the day: nobody is called guilty. A line that is witnessed, and not accused, carries `# <- FACTOR`.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.answers import answered
from tests.quality.test_planted import MARK

FOLDER = Path(__file__).parent / "unknown"
# The fast tests have the coin.
CASES = [pytest.param(path.name, marks=pytest.mark.slow) for path in sorted(FOLDER.iterdir())]
# So many runs of a coin with this bias agree in one check of five hundred, and accuse an innocent as rarely.
RUNS, BIAS = 12, "0.4"


def check(name: str, folder: Path, *words: str) -> dict[str, Any]:
    """The answer in a copy of the case's folder."""
    shutil.copytree(FOLDER / name, folder, dirs_exist_ok=True)
    return answered(folder, "check", *words, BIAS=BIAS)


@pytest.mark.parametrize("name", CASES)
def test_nobody_is_accused(name: str, tmp_path: Path) -> None:
    """The cause is unknown: what was witnessed is listed, and what to try next."""
    source = (FOLDER / name / "faulty.py").read_text(encoding="utf-8").splitlines()
    marked = {(mark[1], line) for line, text in enumerate(source, start=1) if (mark := MARK.search(text))}

    verdict = check(name, tmp_path, "--runs", str(RUNS), "faulty.py")

    assert not any(cause["confirmed"] for cause in verdict["causes"])
    # A race may hide for a whole check; a coin that is thrown so often does not.
    if verdict["verdict"] == "same":
        assert name != "coin"
        return
    assert {(factor, entry["location"]["line"]) for factor, entry in verdict["unknown"]["witnessed"]} >= marked
    assert any(label == "next" for label, _ in verdict["rows"])
    assert ([one["line"] for one in verdict["unknown"]["races"]] == [15]) == (name == "shared_memory")
    assert verdict["remedy"] is None or not verdict["remedy"]["verified"]


@pytest.mark.parametrize("name", CASES)
def test_the_clean_twin_is_the_same(name: str, tmp_path: Path) -> None:
    """Without the coin all of it repeats, whatever is varied."""
    verdict = check(name, tmp_path, "--runs", "2", "clean.py")

    assert (verdict["verdict"], verdict["causes"]) == ("same", [])
