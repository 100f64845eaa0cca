"""The list of mistakes does not rot: each can still be made."""

import pytest

from tests.mutants.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one.file}: {one.old}")
def test_the_mistake_can_be_made(mutant: Mutant) -> None:
    """The text stands in the source once, and the mistake is another one."""
    assert mutant.is_there()
    assert mutant.old != mutant.new
