"""What holds for every test."""

import os
from pathlib import Path

# Where this is tested, CI may be set, and then lockfiles are not written unasked.
os.environ.pop("CI", None)

# Processes that tests start read torch's compiler only where it is needed: see `lazily/late.py`.
if "SAMEBITS_WHOLE_TORCH" not in os.environ:
    _others = filter(None, [os.environ.get("PYTHONPATH")])
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent / "lazily"), *_others])
