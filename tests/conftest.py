"""What holds for every test."""

import os
from pathlib import Path

import pytest

# Where this is tested, CI may be set, and then lockfiles are not written unasked.
os.environ.pop("CI", None)


def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` starts: one more than there are cores, since tests wait for processes a sixth of their time."""
    return 1 + (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def pytest_configure(config: pytest.Config) -> None:
    """Processes that tests start read torch's compiler only where it is needed: see `lazily/late.py`."""
    starts_workers = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    if not starts_workers and "SAMEBITS_WHOLE_TORCH" not in os.environ:
        others = filter(None, [os.environ.get("PYTHONPATH")])
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent / "lazily"), *others])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole checks first: none of them is left over for one process while the others have nothing to do."""
    items.sort(key=lambda item: "/quality/" not in str(item.path) and "/standin/" not in str(item.path))
