"""The digest of operations' results: it sees every bit, however a tensor lies, and nothing but bits."""

import importlib
import struct
import sys
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from samebits.agent.ops.evidence import evidence_of, value_of
from samebits.bits import raw

DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.complex64, torch.float16)
# How the same six rows of four may lie in memory.
LOOKS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dense": lambda t: t,
    "transposed": lambda t: t.t(),
    "strided": lambda t: t[:, ::2],
    "offset": lambda t: t[1:],
    "expanded": lambda t: t[:1].expand(6, 4),
    "sparse": lambda t: t.to_sparse(),
    "nested": lambda t: torch.nested.nested_tensor([t[:2], t]),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equal_bits_have_equal_evidence_and_others_another(dtype: torch.dtype, look: str) -> None:
    """In every dtype and look: the same again is the same, and one element more or less is not."""
    values = torch.arange(24).reshape(6, 4).remainder(2).to(dtype)
    other = values.clone()
    other[1, 0] = 1 - values[1, 0]
    if look == "expanded":
        other[0, 0] = other[1, 0]

    assert evidence_of(LOOKS[look](values)) == evidence_of(LOOKS[look](values.clone()))
    assert evidence_of(LOOKS[look](values)) != evidence_of(LOOKS[look](other))


@given(at=st.integers(0, 4095), bit=st.integers(0, 31), size=st.integers(4096, 9000))
def test_every_bit_counts(at: int, bit: int, size: int) -> None:
    """One bit anywhere, signs of zeros and of NaNs among them."""
    words = torch.arange(size, dtype=torch.int32)
    flipped = words.clone()
    flipped[at] ^= (1 << bit) - ((1 << 32) if bit == 31 else 0)

    assert evidence_of(words.view(torch.float32)) != evidence_of(flipped.view(torch.float32))


def test_views_that_flip_signs_are_told_apart() -> None:
    """Conjugated and negated views share the memory of what they look at, and not the bits."""
    numbers = torch.tensor([1 + 2j, 3 - 4j])

    assert numbers.conj().is_conj()
    assert evidence_of(numbers.conj()) != evidence_of(numbers)
    assert evidence_of(numbers.conj()) == evidence_of(numbers.conj().resolve_conj())
    assert numbers.conj().imag.is_neg()
    assert evidence_of(numbers.conj().imag) != evidence_of(numbers.imag)


def test_what_is_on_the_cpu_in_one_piece_has_the_xxh3_of_its_bytes() -> None:
    """As the reference of the run folder says; nothing is read of an empty tensor."""
    assert evidence_of(torch.tensor([1.0, -0.0])) == xxh3_64_intdigest(struct.pack("<2f", 1.0, -0.0))
    assert evidence_of(torch.empty(0)) == xxh3_64_intdigest(b"")


def test_an_interpreter_without_xxhash_has_evidence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command may run in an environment that samebits is not installed in."""
    monkeypatch.setitem(sys.modules, "xxhash", None)
    monkeypatch.delitem(sys.modules, raw.__name__)
    other = importlib.import_module(raw.__name__)

    assert other.raw_digest(b"ab") == other.raw_digest(b"ab") != other.raw_digest(b"ba")
    assert other.raw_digest(b"ab") != raw.raw_digest(b"ab")
    assert other.digest_of_blocks([b"a", b"b"]) == other.raw_digest(b"ab")
    assert {raw.RAW_DIGEST, other.RAW_DIGEST} == {"xxh3", "blake2b"}


def test_by_value_strides_do_not_count() -> None:
    """Two programs may lay the same elements out otherwise; other elements still count."""
    rows = torch.arange(6.0).reshape(2, 3)
    columns = rows.t().contiguous().t()

    assert value_of(rows) == value_of(columns) == evidence_of(rows)
    assert evidence_of(rows) != evidence_of(columns)
    assert value_of(rows + 1) != value_of(rows)
