"""What holds for every test."""

import os

# Where this is tested, CI may be set, and then lockfiles are not written unasked.
os.environ.pop("CI", None)
