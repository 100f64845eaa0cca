"""What is asked for: by options of pytest, and by the marker or the fixture of a test."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

MARK = "samebits"


def writing_option(config: pytest.Config) -> str | None:
    """The option that lets the lockfile be changed; None where it may not be."""
    words = ("--samebits-update", "--samebits-update-new-only", "--samebits-remove-unused")
    is_other = config.getoption("samebits_call") is not None
    return None if is_other else next((word for word in words if config.getoption(word)), None)


def update_mode(config: pytest.Config) -> str:
    """What is taken as it is now."""
    if config.getoption("samebits_update"):
        return "all"
    return "new" if config.getoption("samebits_update_new_only") else "nothing"


def lockfile(config: pytest.Config) -> Path:
    """The path of the lockfile."""
    given = config.getoption("samebits_lockfile")
    return config.rootpath / "samebits.lock" if given is None else Path(config.invocation_params.dir, given)


def seed_of(config: pytest.Config) -> int:
    """From which tests are seeded."""
    given = config.getoption("samebits_seed")
    return 0 if given is None else int(given)


def id_of(item: pytest.Item) -> str:
    """The id of a test, without what xdist adds to it to keep groups together."""
    group = item.get_closest_marker("xdist_group")
    name = None if group is None else (group.args[0] if group.args else group.kwargs.get("name"))
    return item.nodeid.removesuffix(f"@{name}") if name else item.nodeid


def asks(item: pytest.Item) -> bool:
    """Whether a test has anything to do with samebits."""
    marked = _mark_of(item) is not None or MARK in getattr(item, "fixturenames", ())
    return marked or item.config.getoption("samebits_seed") is not None


def rerun_word(item: pytest.Item) -> str:
    """Its id as pytest shows it where it fails: from the folder in which pytest was started."""
    file, colons, within = id_of(item).partition("::")
    given = os.path.relpath(item.config.rootpath / file, item.config.invocation_params.dir)
    return shlex.quote(f"{Path(given).as_posix()}{colons}{within}")


@dataclass(frozen=True)
class Repetition:
    """What the marker of a test asks for."""

    runs: int = 1
    vary: tuple[str, ...] = ()
    is_isolated: bool = False


def requested(item: pytest.Item) -> Repetition:
    """What a test asks for; a marker that makes no sense fails it."""
    mark = _mark_of(item)
    if mark is None or item.config.getoption("samebits_call") is not None:
        return Repetition()
    return _checked(item, *mark.args, **mark.kwargs)


def _mark_of(item: pytest.Item) -> pytest.Mark | None:
    """The nearest marker; a whole module's is meant for those of its tests that can take it."""
    if not _is_unittest(item):
        return item.get_closest_marker(MARK)
    own = [node for node in item.listchain() if not isinstance(node, pytest.Module)]
    return next((mark for node in reversed(own) for mark in reversed(node.own_markers) if mark.name == MARK), None)


def _is_unittest(item: pytest.Item) -> bool:
    return hasattr(item, "_testcase") or type(item).__name__ == "TestCaseFunction"


def _checked(
    item: pytest.Item, *args: object, runs: object = 2, vary: Any = (), isolated: object = False, **more: object
) -> Repetition:
    from samebits.base.errors import SamebitsError
    from samebits.testing.seeding import check_varied

    if args or more:
        fail(f"the marker samebits takes runs, vary and isolated, got {', '.join([*map(repr, args), *more])}")
    if not isinstance(runs, int) or runs < 2:
        fail(f"runs must be at least 2, got {runs!r}")
    if not isinstance(item, pytest.Function) or _is_unittest(item):
        fail(
            "the marker samebits is for test functions, not for tests of unittest: there, samebits.assert_repeats() "
            "calls any function twice"
        )
    try:
        return Repetition(runs, check_varied(vary, bool(isolated)), bool(isolated))
    except SamebitsError as error:
        fail(str(error))


def fail(message: str) -> NoReturn:
    """Fail the test with this text alone: neither our own lines nor what was raised on the way belong to it."""
    raise pytest.fail.Exception(message, pytrace=False) from None


def is_compared(item: pytest.Item) -> bool:
    """Whether it has several runs, or is one of them."""
    return requested(item).runs > 1 or item.config.getoption("samebits_call") is not None
