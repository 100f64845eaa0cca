"""What is generated in the documents is what the code says now."""

import doctest
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from samebits.factors.catalog import CATALOG

ROOT = Path(__file__).parents[1]


def generator(name: str = "generate") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_factors_is_up_to_date() -> None:
    """`python docs/generate.py` would change nothing; a changed table would be noticed."""
    module = generator()
    readme = (ROOT / "README.md").read_text()

    assert module.with_factors(readme) == readme
    assert module.with_factors(readme.replace("| `clock` |", "| `clocks` |")) == readme
    assert (ROOT / "docs" / "reference" / "factors.md").read_text() == module.reference()


@pytest.mark.parametrize("path", ["README.md", "CHANGELOG.md", "src/samebits/cli/commands/run.py"])
def test_what_run_leaves_alone_is_named(path: str) -> None:
    """`samebits run` promises nothing about the factors that it does not pin by default."""
    text = " ".join((ROOT / path).read_text().replace("`", "").split())
    *names, last = [factor.name for factor in CATALOG if not factor.pinned_by_default]

    assert f"every factor but {', '.join(names)} and {last}" in text.replace("pinned but", "but")


def test_the_tour_shows_output() -> None:
    """The README's story was filled in by running it."""
    readme = (ROOT / "README.md").read_text()

    assert "different bits: runs 1 and 2 diverge" in readme
    assert "likely examples/names_rnn.py:25" in readme
    assert "same bits: 3 runs of 120 steps agree" in readme


@pytest.mark.parametrize(
    "name", ["samebits.base.seeds", "samebits.factors.pinning", "samebits.agent.trees", "samebits.runfolder.place"]
)
def test_examples_in_docstrings_are_true(name: str) -> None:
    """Doctests run, and there are some."""
    results = doctest.testmod(importlib.import_module(name))

    assert results.attempted > 0
    assert results.failed == 0
