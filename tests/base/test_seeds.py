"""derive(): seeds from seeds, by hashing."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits import derive

words = st.one_of(st.integers(), st.text())


def test_the_values_are_fixed_forever() -> None:
    """Recordings and lockfiles hold what was derived, so these numbers never change."""
    assert derive(0) == 17703763507669022130
    assert derive(0, "torch-rng", bits=32) == 215457309
    assert derive(7, "worker", 3, "épisode") == 4588610747773653437


@given(st.lists(words, max_size=4), st.lists(words, max_size=4), st.integers(), st.integers())
def test_different_paths_have_different_seeds(a: list[str | int], b: list[str | int], x: int, y: int) -> None:
    """Whatever the words hold: digits, separators, nothing at all."""
    assert (derive(x, *a) == derive(y, *b)) == ((x, a) == (y, b))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((0, 1), (1, 0)),
        ((0, "worker", 1), (1, "worker", 0)),
        ((0, "1"), (0, 1)),
        ((0, "ab", "c"), (0, "a", "bc")),
        ((0, "a", ""), (0, "a")),
        ((0, "i1:0"), (0, 0)),
        ((0,), (0, 0)),
        ((1, 23), (12, 3)),
        ((-1,), (1,)),
    ],
)
def test_what_adding_and_joining_would_confuse(a: tuple[int | str, ...], b: tuple[int | str, ...]) -> None:
    """The near misses that make streams shared: seed + rank, joined text, numbers as text."""
    assert derive(*a) != derive(*b)  # type: ignore[arg-type]


@given(st.integers(1, 512))
def test_as_many_bits_as_asked_for(bits: int) -> None:
    """The low bits of one number, so asking for fewer gives a part of it."""
    assert derive(1, "x", bits=bits) == derive(1, "x", bits=512) % 2**bits


def test_whole_numbers_of_any_kind_are_the_same_word() -> None:
    """NumPy's integers and bools are numbers; floats and None are not words."""
    assert derive(3, 4) == derive(np.int64(3), np.int32(4))  # type: ignore[arg-type]
    assert derive(0, True) == derive(0, 1)
    for wrong in (1.0, None, b"x", ("a",)):
        with pytest.raises(TypeError):
            derive(0, wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        derive("0")  # type: ignore[arg-type]


def test_names_of_files_are_words_whatever_they_hold() -> None:
    """A file name may hold bytes that are no text."""
    assert derive(0, "caf\udce9.txt") != derive(0, "café.txt")


@pytest.mark.parametrize("bits", [0, -1, 513])
def test_bits_out_of_range_are_refused(bits: int) -> None:
    """There are 512 to give."""
    with pytest.raises(ValueError, match=f"bits must be from 1 to 512, got {bits}"):
        derive(0, bits=bits)


def test_the_formula_is_the_documented_one() -> None:
    """blake2b, personalised, over words with their type and length."""
    digest = hashlib.blake2b(b"i1:7s1:a", person=b"samebits.derive", digest_size=64).digest()

    assert derive(7, "a", bits=512) == int.from_bytes(digest, "little")
