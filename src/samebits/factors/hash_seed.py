"""hash-seed: the seed of str and bytes hashes, and so the order of sets."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from samebits.errors import UsageError
from samebits.factors.base import Factor, Observation, Scene, Setting
from samebits.seeds import derive

VARIABLE = "PYTHONHASHSEED"


class HashSeed(Factor):
    """Python hashes strings with a seed of its own in every run, so sets of strings have another order in every run.

    `list(set(labels))` is the classic: class 3 is "cat" today and "dog" tomorrow. `PYTHONHASHSEED` is read once, when
    the interpreter starts; set later it changes nothing there or in forked children (spawned ones do read it).
    """

    name = "hash-seed"
    scope = "environment"
    summary = "sets of strings are iterated in another order in every run, and hash(str) is another number"
    story = "sets and hashes of strings depend on it"
    too_late = "the interpreter's start"
    cure = "sort before ordering: sorted(set(...)) at line {line}"
    varied_by_default = True
    read_in_code = True

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        if setting.mode == "varied":
            return {VARIABLE: str(1 + derive(seed, self.name, setting.variant, bits=31))}
        if setting.mode == "natural":
            return {}
        own = environ.get(VARIABLE, "")
        return {VARIABLE: setting.value or (own if _is_valid(own) else "0")}

    def check_value(self, value: str) -> None:
        if not _is_valid(value):
            raise UsageError(f"hash-seed takes a number from 0 to 4294967295, got {value!r}")

    def observe(self, scene: Scene | None = None) -> Observation:
        reason = f"{VARIABLE} is read when the interpreter starts, and it was not set then"
        if sys.flags.hash_randomization == 0:
            return Observation("fixed: 0", True)
        value = os.environ.get(VARIABLE, "")
        if _is_valid(value) and value != "0" and _was_set_at_start(value):
            return Observation(f"fixed: {value}", True)
        return Observation("another one in every run", False, can_pin=False, reason=reason)


def _is_valid(value: str) -> bool:
    return value.isascii() and value.isdigit() and int(value) <= 4_294_967_295


def _was_set_at_start(value: str) -> bool:
    # The environment the kernel recorded at start-up does not change when os.environ does.
    try:
        with open("/proc/self/environ", "rb") as file:
            return f"{VARIABLE}={value}".encode() in file.read().split(b"\0")
    except OSError:
        return True
