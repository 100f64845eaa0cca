"""The tests for a GPU, on the stand-in under both names: what samebits does on a device, whatever that is called."""

import pytest

from tests.standin import missing
from tests.standin.conftest import Ask

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
TESTS = "pytest -p no:cacheprovider tests/gpu"


def test_it_passes_the_tests_for_a_gpu(ask: Ask) -> None:
    """With results that are late and memory full of rubbish, and nothing that it would compute otherwise."""
    assert " passed" in ask(f"{TESTS} -m 'gpu and not slow'", "late", "rubbish")


@pytest.mark.slow
def test_it_passes_the_slow_ones(ask: Ask) -> None:
    """One more of a kind, as everywhere."""
    assert " passed" in ask(f"{TESTS} -m 'gpu and slow' -k 'not atomics'", "late", "rubbish")


@pytest.mark.slow
def test_races_on_it_are_located_and_confirmed(ask: Ask) -> None:
    """Each by a whole check: operation, line, replay and remedy."""
    assert " passed" in ask(f"{TESTS} -m gpu -k atomics", "races", "late", "rubbish")
