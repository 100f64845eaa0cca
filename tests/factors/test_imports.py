"""when_loaded(): acting on a module right after its import, without being seen and without importing it."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from samebits.factors.imports import forget, when_loaded


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package that is not imported yet, with a submodule."""
    package = tmp_path / "late_package"
    package.mkdir()
    (package / "__init__.py").write_text("value = 1\n")
    (package / "part.py").write_text("value = 2\n")
    (tmp_path / "late_broken.py").write_text("import late_package\nraise RuntimeError('broken')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield "late_package"
    for name in [name for name in sys.modules if name.startswith("late_")]:
        del sys.modules[name]
    assert sys.meta_path == before


def test_the_action_runs_once_after_the_import(late: str) -> None:
    """The module is complete, and its loader and spec are those Python made."""
    seen: list[ModuleType] = []
    when_loaded(late, seen.append)
    assert seen == []

    module = importlib.import_module(late)
    importlib.import_module(late)
    plain = importlib.util.spec_from_file_location(late, module.__file__)
    forget(late, seen.append)

    assert seen == [module]
    assert module.value == 1
    assert plain is not None
    assert vars(module.__loader__) == vars(plain.loader)
    assert type(module.__loader__) is type(plain.loader)


def test_a_module_that_is_there_is_acted_on_at_once(late: str) -> None:
    """And nothing is left among the finders."""
    module = importlib.import_module(late)
    seen: list[ModuleType] = []
    when_loaded(late, seen.append)

    assert seen == [module]


def test_submodules_and_their_parents(late: str) -> None:
    """Waiting for a part does not import the whole, and importing the whole does not import the part."""
    seen: list[ModuleType] = []
    when_loaded("late_package.part", seen.append)
    assert late not in sys.modules
    importlib.import_module(late)
    assert seen == []

    part = importlib.import_module("late_package.part")
    forget("late_package.part", seen.append)
    assert seen == [part]


def test_what_is_forgotten_does_not_run(late: str) -> None:
    """Each action by itself; forgetting twice, or what never waited, is no error."""
    seen: list[str] = []

    def first(module: ModuleType) -> None:
        seen.append("first")

    def second(module: ModuleType) -> None:
        seen.append("second")

    when_loaded(late, first)
    when_loaded(late, second)
    forget(late, first)
    forget(late, first)
    importlib.import_module(late)
    forget(late, second)
    forget("never_heard_of", first)

    assert seen == ["second"]


def test_an_action_that_waits_for_its_own_module_is_served(late: str) -> None:
    """While a module's actions run, Python still calls it unfinished."""
    seen: list[str] = []

    def outer(module: ModuleType) -> None:
        when_loaded(late, inner)

    def inner(module: ModuleType) -> None:
        seen.append(module.__name__)

    when_loaded(late, outer)
    importlib.import_module(late)
    forget(late, outer)

    assert seen == [late]


def test_an_import_that_fails_can_be_tried_again(late: str, tmp_path: Path) -> None:
    """The action waits for the import that succeeds; the error is the module's own."""
    seen: list[ModuleType] = []
    when_loaded("late_broken", seen.append)
    with pytest.raises(RuntimeError, match="broken"):
        importlib.import_module("late_broken")
    assert seen == []
    (tmp_path / "late_broken.py").write_text("value = 3  # mended, and longer than before\n")
    importlib.invalidate_caches()

    module = importlib.import_module("late_broken")
    forget("late_broken", seen.append)

    assert seen == [module]


def test_a_missing_module_is_missing_as_ever() -> None:
    """ModuleNotFoundError with its name, and find_spec says None."""

    def never(module: ModuleType) -> None:
        raise AssertionError

    when_loaded("not_installed_at_all", never)
    try:
        with pytest.raises(ModuleNotFoundError) as caught:
            importlib.import_module("not_installed_at_all")
        assert importlib.util.find_spec("not_installed_at_all") is None
    finally:
        forget("not_installed_at_all", never)

    assert caught.value.name == "not_installed_at_all"
    assert caught.value.__traceback__ is not None
