"""RunSpec: what a run's environment gets from the factors that are treated in it."""

import json
from pathlib import Path

import pytest

from samebits.base.records import to_data
from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext, Setting
from samebits.runfolder import spec as specs
from samebits.runfolder.spec import RunSpec, read_spec


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    """What is written for the command's processes is what they read."""
    settings = {"clock": Setting("pinned", released=(("/a b/ü.py", 3),)), "hash-seed": Setting("varied", variant=2)}
    plan = RunSpec("varied", settings, 7, True, False, True, 3, 2, ("grad",))

    (tmp_path / "plan.json").write_text(json.dumps(to_data(plan)))

    assert read_spec(tmp_path / "plan.json") == plan


class CompilerCache(Factor):
    """A factor that needs an empty folder for each run."""

    name = "compiler-cache"
    fresh_folders = ("MY_CACHE_DIR",)

    def observe(self, context: FactorContext | None = None) -> Observation:
        return Observation("unknown", None)


@pytest.mark.parametrize(("mode", "is_set"), [("pinned", True), ("varied", True), ("natural", False)])
def test_a_factor_gets_a_folder_of_the_run(
    mode: str, is_set: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is treated its variable names a folder below the run's own; left alone, the user's stays."""
    monkeypatch.setattr(specs, "CATALOG", (CompilerCache(),))
    plan = RunSpec(settings={"compiler-cache": Setting(mode)})  # type: ignore[arg-type]

    found = plan.environment({"MY_CACHE_DIR": "/cache"}, tmp_path)

    assert found == ({"MY_CACHE_DIR": str(tmp_path / "compiler-cache")} if is_set else {})
