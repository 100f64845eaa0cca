"""`/dev/urandom` as a file: however it is opened, pinned it repeats, and the line that opens it is witnessed."""

# ruff: noqa: SIM115 - a file that nobody closes is how such a device is mostly read

import io
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.factors.contexts import treated, watched


def by_number() -> bytes:
    number = os.open("/dev/urandom", os.O_RDONLY)
    try:
        return os.read(number, 8) + os.read(number, 8)
    finally:
        os.close(number)


def by_number_as_file() -> bytes:
    with os.fdopen(os.open("/dev/random", os.O_RDONLY), "rb") as file:
        return file.read(16)


def unbuffered() -> bytes:
    with open("/dev/urandom", "rb", buffering=0) as file:
        return file.read(16)


def into_a_buffer() -> bytes:
    buffer = bytearray(16)
    with io.open("/dev/urandom", "rb") as file:  # noqa: UP020 - another way to the same
        file.readinto(buffer)
    return bytes(buffer)


def as_text() -> str:
    with open("/dev/urandom", encoding="latin-1") as file:
        return file.read(16)


WAYS: dict[str, Callable[[], Any]] = {
    "open": lambda: open("/dev/urandom", "rb").read(16),
    "unbuffered": unbuffered,
    "readinto": into_a_buffer,
    "text": as_text,
    # Python 3.10 keeps `open` for itself there, before anything of ours is.
    **({"pathlib": lambda: pathlib.Path("/dev/random").open("rb").read(16)} if sys.version_info >= (3, 11) else {}),
    "os.open": by_number,
    "os.fdopen": by_number_as_file,
    "np.fromfile of a path": lambda: np.fromfile("/dev/urandom", np.uint8, 16).tobytes(),
    "np.fromfile of a file": lambda: np.fromfile(open("/dev/urandom", "rb"), np.uint8, 16).tobytes(),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_pinned_bytes_repeat_and_the_line_is_witnessed(way: Callable[[], Any]) -> None:
    """Whoever reads, sixteen bytes, the same with one seed, others varied; told by the device, where it is opened."""
    with watched("os-entropy") as seen:
        found = [way()]
    for mode, seed in (("pinned", 0), ("pinned", 0), ("pinned", 1), ("varied", 0)):
        with treated("os-entropy", mode, seed):
            found.append(way())
    (witness,) = seen

    assert [len(one) for one in found] == [16] * 5
    assert found[1] == found[2]
    assert len(set(found)) == 4
    assert witness.what in ("/dev/urandom", "/dev/random")
    assert witness.site is not None
    assert "/dev/" in witness.site.source


def test_other_files_are_what_they_were(tmp_path: pathlib.Path) -> None:
    """Read, written, by path and by number; and a number that was given to another file is that file's."""
    path = tmp_path / "data"
    with treated("os-entropy"):
        number = os.open("/dev/urandom", os.O_RDONLY)
        os.close(number)
        with open(path, "w", encoding="utf-8") as file:
            file.write("same")
        again = os.open(path, os.O_RDONLY)
        assert again == number
        assert os.read(again, 9) == b"same"
        os.close(again)
        assert path.read_bytes() == open(path, "rb").read() == b"same"
        assert np.fromfile(path, np.uint8).tobytes() == b"same"
        with pytest.raises(FileNotFoundError):
            open(tmp_path / "none")
        with pytest.raises(TypeError):
            open(None)  # type: ignore[call-overload]
