"""What is said of a run that does not come to a step."""

from pathlib import Path

import pytest

from samebits.checking.pool import announcing_a_long_wait
from samebits.launch.process import Outcome
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.spec import RunSpec
from samebits.runfolder.steps import Writer

PLAN = RunSpec("control")


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("has_stepped", [False, True])
def test_a_first_run_without_a_step_is_spoken_of_once(number: int, has_stepped: bool, tmp_path: Path) -> None:
    """Later runs have a limit of their own, and a recording begins with a step."""
    said: list[str] = []
    seen: list[int] = []
    watch = announcing_a_long_wait(said.append, lambda number, *_: seen.append(number), seconds=0.0)
    if has_stepped:
        Writer(tmp_path, 0).close()

    for _ in range(3):
        watch(number, PLAN, None, tmp_path)

    assert seen == [number] * 3
    assert len(said) == (number == 1 and not has_stepped)
    assert all("no training step after 0 s" in text and "--timeout" in text for text in said)


def test_a_run_that_is_over_in_time_is_no_news(tmp_path: Path) -> None:
    said: list[str] = []
    watch = announcing_a_long_wait(said.append, seconds=60.0)

    watch(1, PLAN, None, tmp_path)
    watch(1, PLAN, Outcome(RunFolder(tmp_path), PLAN, 0, 1.0), tmp_path)

    assert said == []
