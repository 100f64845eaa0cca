"""hash-seed: the seed of str and bytes hashes, and so the order of sets."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from typing import ClassVar

from samebits.base.errors import UsageError
from samebits.base.seeds import derive
from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext, Setting

VARIABLE = "PYTHONHASHSEED"


class HashSeed(Factor):
    """Python hashes strings with a seed of its own in every run, so sets of strings have another order in every run.

    `list(set(labels))` is the classic: class 3 is "cat" today and "dog" tomorrow. `PYTHONHASHSEED` is read once, when
    the interpreter starts; set later it changes nothing there or in forked children (spawned ones do read it).
    """

    name = "hash-seed"
    scope = "environment"
    summary = "sets of strings are iterated in a different order in every run, and hash(str) is a different number"
    explanation = "set order and hash() depend on it"
    too_late = "the interpreter's start"
    seeded_by = (VARIABLE,)
    fix = "sort before ordering: sorted(set(...), key=str) at {place}, or use dict.fromkeys(...)"
    fix_unplaced = "sort sets of strings before their order counts: sorted(set(...), key=str)"
    fixes: ClassVar = {
        "hash()": "replace hash() at {place} by what is the same in every run, such as zlib.crc32(text.encode())"
    }
    varied_by_default = True
    found_statically = True

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        if setting.mode == "varied":
            return {VARIABLE: str(1 + derive(seed, self.name, setting.variant, bits=31))}
        if setting.mode == "natural":
            return {}
        given = environ.get(VARIABLE, "")
        return {VARIABLE: setting.value or (given if _is_valid(given) else "0")}

    def check_value(self, value: str) -> None:
        if not _is_valid(value):
            raise UsageError(f"hash-seed takes a number from 0 to 4294967295, got {value!r}")

    def observe(self, context: FactorContext | None = None) -> Observation:
        seed, asked = _seed_in_effect(), context.setting.value if context else None
        value = "another one in every run" if seed is None else f"fixed: {seed}"
        if seed is not None and (not asked or int(asked) == seed):
            return Observation(value, True)
        current = "not set" if seed is None else seed
        reason = f"{VARIABLE} is read when the interpreter starts, and it was {current} then"
        return Observation(value, False, can_pin=False, reason=reason)


def _is_valid(value: str) -> bool:
    return value.isascii() and value.isdigit() and int(value) <= 4_294_967_295


def _seed_in_effect() -> int | None:
    """Return the fixed seed of this interpreter's hashes; None if it has another one in every run."""
    if sys.flags.hash_randomization == 0:
        return 0
    value = os.environ.get(VARIABLE, "")
    # The variable may have been set too late, or ignored (python -E): what counts is how strings hash here.
    return int(value) if _is_valid(value) and value != "0" and _hashes_with(int(value)) else None


def _hashes_with(seed: int) -> bool:
    """Whether this interpreter's hash key follows from a seed, by the formula of `lcg_urandom` in bootstrap_hash.c."""
    try:
        key = bytes((ctypes.c_ubyte * 24).in_dll(ctypes.pythonapi, "_Py_HashSecret"))
    except (AttributeError, ValueError):
        # Interpreters other than CPython keep the key elsewhere.
        return True
    for byte in key:
        seed = (seed * 214013 + 2531011) & 0xFFFFFFFF
        if byte != (seed >> 16) & 0xFF:
            return False
    return True
