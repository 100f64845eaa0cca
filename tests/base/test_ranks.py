"""Which of several training processes one is: a rank, and a world that it belongs to."""

import pytest

from samebits.base.errors import UsageError
from samebits.base.ranks import current_rank, current_world, rank_path, world_size


@pytest.mark.parametrize(
    ("variables", "rank", "world"),
    [
        ({}, None, (0, 1)),
        ({"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "0"}, 1, (1, 4)),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, 1, (1, 2)),
        ({"LOCAL_RANK": "1"}, None, (0, 1)),
        ({"WORLD_SIZE": "2"}, None, (0, 1)),
    ],
)
def test_a_rank_and_a_world_go_together(
    variables: dict[str, str], rank: int | None, world: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks hears of one world; a process that only knows LOCAL_RANK still has random streams of its own."""
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert current_rank() == rank
    assert current_world() == world
    assert rank_path() == (("rank", 1) if "1" in variables.values() else ())


def test_what_is_no_number_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """To whoever splits data by it; who only asks hears of no rank."""
    monkeypatch.setenv("RANK", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")

    assert current_rank() is None
    with pytest.raises(UsageError, match="not numbers"):
        current_world()
    assert world_size() == 1
