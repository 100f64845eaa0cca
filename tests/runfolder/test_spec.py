"""RunSpec: what a run is asked, as its processes read it."""

import json
from pathlib import Path

from samebits.base.records import to_data
from samebits.factors.context import Setting
from samebits.runfolder.spec import Restoration, ResumeSpec, RunSpec, read_spec


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    """What is written for the command's processes is what they read."""
    settings = {"clock": Setting("pinned", released=(("/a b/ü.py", 3),)), "hash-seed": Setting("varied", variant=2)}
    resume = ResumeSpec(signal="TERM", restored=Restoration("there", ("best",), "batch", 3), saved_at=(2,))
    plan = RunSpec("varied", settings, 7, True, False, True, 3, 2, ("grad",), resume=resume)

    (tmp_path / "plan.json").write_text(json.dumps(to_data(plan)))

    assert read_spec(tmp_path / "plan.json") == plan
