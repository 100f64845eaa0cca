"""The pages about frameworks are run as they are printed, each where its framework is installed."""

import importlib.util
from pathlib import Path

import pytest

from tests.test_tutorials import follow

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.mark.parametrize("name", ["lightning", "transformers", "accelerate"])
def test_the_page_of_a_framework(name: str, tmp_path: Path) -> None:
    """The listing is resumed with the same bits."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")

    assert follow((HOW_TO / f"{name}.md").read_text(), tmp_path) == 1
