"""The stand-in computes what the CPU computes, under both names; each of its faults shows, and its cure cures."""

import pytest

from tests.standin import missing
from tests.standin.conftest import Ask

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
PROBES = "tests.standin.probes"


def test_it_races_and_leaves_rubbish(ask: Ask) -> None:
    """What the fast tests rely on: without it they would find nothing, and say nothing of it."""
    ask(f"{PROBES} leaves_rubbish races", "races", "late", "rubbish")


def test_streams_run_late(ask: Ask) -> None:
    """Long enough that whoever does not wait is too early, every time."""
    ask(f"{PROBES} is_late", "late", rest_us="20000")


@pytest.mark.slow
def test_it_computes_what_the_cpu_computes(ask: Ask) -> None:
    ask(f"{PROBES} computes is_clean refuses")


@pytest.mark.slow
def test_late_and_full_of_rubbish_it_computes_the_same(ask: Ask) -> None:
    """Nothing reads what was not written, and nothing is missed by a stream that works later; until an assert fails."""
    ask(f"{PROBES} draws computes trains holds mixes_precision breaks", "late", "rubbish")


@pytest.mark.slow
def test_the_benchmark_chooses(ask: Ask) -> None:
    """By another coin in another process."""
    assert ask(f"{PROBES} benchmarks", "benchmark") != ask(f"{PROBES} benchmarks", "benchmark")


@pytest.mark.slow
def test_a_workspace_is_tamed(ask: Ask) -> None:
    ask(f"{PROBES} multiplies_otherwise", "workspace")
    ask(f"{PROBES} multiplies_alike", "workspace", CUBLAS_WORKSPACE_CONFIG=":4096:8")


@pytest.mark.slow
def test_memory_runs_out(ask: Ask) -> None:
    ask(f"{PROBES} runs_out", bytes="400000")
