"""Units in the last place: how many steps from one float of a dtype to another, and when that is worth telling.

Floats stand in a row, -0.0 just below 0.0, because their bits differ: so 0 units are the same bits and nothing else.
(Where the two zeros count as one number, numbers of opposite sign are one unit closer.)
"""

from __future__ import annotations

import struct

# Values that are farther apart are other values: the floats between them say nothing.
ROUNDING = 0.01
# So few units are rounding whatever the values: next to zero and in bfloat16, neighbours are far apart.
FEW = 4

# Bits of a float, and those of its exponent, which are all set in NaN and infinity.
BITS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16}
_EXPONENT = {"float64": 0x7FF << 52, "float32": 0xFF << 23, "float16": 0x1F << 10, "bfloat16": 0xFF << 7}
_FORMATS = {"float64": ("<d", "<Q"), "float32": ("<f", "<I"), "float16": ("<e", "<H")}


def raw_of(value: float, dtype: str) -> int:
    """The bits of a number that is one of `dtype`, as an unsigned integer."""
    if dtype == "bfloat16":
        return raw_of(value, "float32") >> 16
    real, whole = _FORMATS[dtype]
    (bits,) = struct.unpack(whole, struct.pack(real, value))
    return int(bits)


def ulp_between(a: int, b: int, dtype: str) -> int | None:
    """Steps between two floats, given as bits; 0 for the same bits, None where one of others is no finite number."""
    if a == b:
        return 0
    exponent = _EXPONENT[dtype]
    if a & exponent == exponent or b & exponent == exponent:
        return None
    return abs(_place(a, BITS[dtype]) - _place(b, BITS[dtype]))


def ulp_worth_reporting(ulp: int | None, relative: float | None) -> int | None:
    """The units where they mean something: between values that are the same but for rounding; None elsewhere."""
    if ulp is None or relative is None:
        return None
    return ulp if relative < ROUNDING or ulp <= FEW else None


def _place(raw: int, bits: int) -> int:
    sign = 1 << (bits - 1)
    return -1 - (raw & (sign - 1)) if raw & sign else raw
