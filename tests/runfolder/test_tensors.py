"""Kept tensors are safetensors: the official library reads them, and samebits gives torch's names back."""

import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from samebits.agent.tensors import unwrapped
from samebits.base.errors import RecordingError
from samebits.runfolder.tensors import bytes_of, read_tensors, write_tensors

KNOWN = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
)
UNKNOWN = tuple(
    name
    for name in ("complex32", "complex64", "complex128", "float8_e8m0fnu", "float8_e4m3fnuz")
    if hasattr(torch, name)  # torch 2.6 does not have all of them
)


def some(dtype: str) -> torch.Tensor:
    """Six elements of any dtype, from bytes that are none of its special values."""
    kind = getattr(torch, dtype)
    raw = torch.arange(6 * kind.itemsize, dtype=torch.uint8) % 2
    return raw.view(kind).reshape(2, 3)


def bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())


@pytest.mark.parametrize("dtype", KNOWN)
def test_the_official_library_reads_them(tmp_path: Path, dtype: str) -> None:
    """With dtype, shape and bits, beside an empty tensor and a transposed one; data begin at a multiple of 8 bytes."""
    tensor = some(dtype)
    write_tensors(tmp_path / "a.safetensors", [("none", torch.zeros(0, 3)), ("a", tensor), ("t", tensor.t())])

    found, own = load_file(tmp_path / "a.safetensors"), read_tensors(tmp_path / "a.safetensors")

    assert set(found) == set(own) == {"none", "a", "t"}
    for name, expected in (("a", tensor), ("t", tensor.t())):
        assert found[name].dtype == expected.dtype
        assert found[name].shape == expected.shape
        assert bits(found[name]) == bits(expected) == own[name].raw
        assert (own[name].dtype, own[name].shape) == (dtype, tuple(expected.shape))
    assert found["none"].shape == own["none"].shape == (0, 3)
    assert struct.unpack_from("<Q", (tmp_path / "a.safetensors").read_bytes())[0] % 8 == 0


@pytest.mark.parametrize("dtype", UNKNOWN)
def test_what_the_format_has_no_word_for_is_bytes(tmp_path: Path, dtype: str) -> None:
    """The library reads bytes, and where they come from; samebits gives back dtype and shape."""
    tensor = some(dtype)
    path = tmp_path / "a.safetensors"
    write_tensors(path, [("a", tensor), ("b", torch.ones(2))])

    own = read_tensors(path)
    with safe_open(path, "pt") as file:
        raw, metadata = file.get_tensor("a"), json.loads(file.metadata()["samebits"])

    assert (raw.dtype, bits(raw)) == (torch.uint8, bits(tensor))
    assert metadata == {"a": {"dtype": dtype, "shape": [2, 3]}}
    assert (own["a"].dtype, own["a"].shape, own["a"].raw) == (dtype, (2, 3), bits(tensor))
    assert own["b"].dtype == "float32"


def test_quantized_and_sparse_tensors_are_written_too(tmp_path: Path) -> None:
    """Quantized as their integers; sparse filled up."""
    quantized = torch.quantize_per_tensor(torch.tensor([0.5, 1.0]), 0.5, 0, torch.quint8)
    path = tmp_path / "a.safetensors"
    write_tensors(path, [("q", quantized), ("s", torch.eye(2).to_sparse())])

    own, found = read_tensors(path), load_file(path)

    assert (own["q"].dtype, own["q"].raw) == ("quint8", bytes([1, 2]))
    assert torch.equal(found["s"], torch.eye(2))


def test_a_name_met_twice_leaves_no_hole(tmp_path: Path) -> None:
    """The last one counts."""
    write_tensors(tmp_path / "a.safetensors", [("a", torch.zeros(2)), ("a", torch.ones(2))])

    assert load_file(tmp_path / "a.safetensors")["a"].tolist() == [1.0, 1.0]


def test_what_the_official_library_writes_is_read(tmp_path: Path) -> None:
    save_file({"w": some("bfloat16")}, tmp_path / "a.safetensors", {"format": "pt"})

    own = read_tensors(tmp_path / "a.safetensors")

    assert (own["w"].dtype, own["w"].shape, own["w"].raw) == ("bfloat16", (2, 3), bits(some("bfloat16")))


def test_a_conjugate_is_written_as_it_reads() -> None:
    """A mark of torch: its memory is that of the other."""
    tensor = torch.tensor([1 + 2j])

    assert bytes_of(tensor.conj()) == bytes_of(torch.tensor([1 - 2j]))
    assert bytes_of(tensor.conj().imag) == bytes_of(torch.tensor([-2.0]))


def test_tensors_that_lie_over_each_other_are_damage(tmp_path: Path) -> None:
    """As in a file that was edited: each begins where the one before ends."""
    path = tmp_path / "a.safetensors"
    write_tensors(path, [("a", torch.zeros(2)), ("b", torch.ones(2))])
    path.write_bytes(path.read_bytes().replace(b"[8, 16]", b"[0, 8] "))

    with pytest.raises(RecordingError, match="b is not where the header says"):
        read_tensors(path)


def test_tensors_are_kept_while_a_transform_is_at_work() -> None:
    """torch.func wraps what is made inside of it, and a wrapper has no memory of its own."""
    found: list[bytes] = []

    def loss(weight: torch.Tensor) -> torch.Tensor:
        found.append(bytes_of(unwrapped(weight)))
        return weight.sum()

    torch.func.grad(loss)(torch.arange(3.0))

    assert found == [bytes_of(torch.arange(3.0))]
