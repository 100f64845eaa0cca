"""The digest tells apart what differs by one bit, agrees with its definition, and disturbs nothing."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.masked import masked_tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from samebits.bits import digest as digest_package
from samebits.bits.digest import NotEvidenceError, digest, digests, host, is_evidence, keys, pending, sums
from samebits.bits.digest.blocks import pieces
from samebits.bits.digest.keys import ROW_WORDS as BLOCK
from samebits.rng.digests import generator_states
from tests.bits import definition

OLD = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7)
DEFINED = {"host": definition.on_host, "elsewhere": definition.elsewhere}
DTYPES = [
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
        *("float4_e2m1fn_x2", "uint4", "int3", "bits8"),
    )
    if hasattr(torch, name)
]
REAL = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
SHAPES = [(), (0,), (1,), (3,), (0, 5), (2, 3), (64,), (5, 7, 11), (8192,), (8193,), (BLOCK * 2 + 2,), (300, 701)]

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, about prototypes
shapes = st.lists(st.integers(1, 6), max_size=4).map(tuple)
seeds = st.integers(0, 2**32 - 1)
quickly = settings(deadline=None, max_examples=60)


@pytest.fixture(scope="module", autouse=True, params=DEFINED)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test runs twice: as on the CPU, and as on an accelerator, whose sums need nothing but torch."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "elsewhere":
            patch.setattr(digest_package, "host_digests", lambda tensors: [None] * len(tensors))
        yield request.param


once = pytest.mark.parametrize("way", ["host"], indirect=True)


@pytest.fixture
def small_slabs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """So that there are several of them in tensors that are small."""
    monkeypatch.setattr(sums, "SLAB_ROWS", 8)
    sums.plan_of.cache_clear()
    yield
    sums.plan_of.cache_clear()


def bytes_tensor(count: int, seed: int = 0) -> Tensor:
    """`count` bytes that look random, from no generator of torch."""
    return torch.frombuffer(bytearray(np.random.default_rng(seed).bytes(count) or b"\0"), dtype=torch.uint8)[:count]


def random_bits(shape: tuple[int, ...], dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    count = int(np.prod(shape, dtype=int))
    raw = bytes_tensor(count * dtype.itemsize, seed)
    return (raw & 1 if dtype is torch.bool else raw).clone().view(dtype).view(shape)


def with_flipped_bit(tensor: Tensor, bit: int) -> Tensor:
    raw = tensor.contiguous().flatten().view(torch.uint8).clone()
    raw[bit // 8] ^= 1 << bit % 8
    return raw.view(tensor.dtype).view(tensor.shape)


# ---- the definition


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex128"])
def test_agrees_with_its_definition(way: str, dtype: str, shape: tuple[int, ...]) -> None:
    """NumPy alone, following the docstring, finds the same number."""
    tensor = random_bits(shape, getattr(torch, dtype))

    assert digest(tensor) == DEFINED[way](tensor.numpy().tobytes(), dtype, shape)


@given(st.integers(0, 3 * BLOCK * 8), seeds)
@settings(deadline=None, max_examples=25)
def test_agrees_with_its_definition_at_any_length(way: str, count: int, seed: int) -> None:
    """Whatever path a length takes, the number is that of the definition."""
    raw = bytes_tensor(count, seed)

    assert digest(raw) == DEFINED[way](raw.numpy().tobytes(), "uint8", (count,))


FIXED = {
    "host": (0x5580E90947B23345, 0xBC87539D80051450, 0x771E578E2E875EFD, 0x93800EF2CD465D3E),
    "elsewhere": (0x287A69040EDE9E83, 0x313F4D03DA50C6A0, 0x3F9E4FCBEC80AB08, 0x3E130F954EC083C0),
}


def test_is_fixed_for_ever(way: str) -> None:
    """Lockfiles hold digests: these numbers must never change."""
    tensors = [torch.tensor([]), torch.tensor(1.5), torch.arange(100_000), torch.eye(3).to_sparse()]

    assert tuple(digests(tensors)) == FIXED[way]


# ---- what it tells apart


@given(st.integers(1, 70), seeds, st.integers(1, 2**32 - 1), st.data())
@quickly
def test_any_change_of_one_element_counts(count: int, seed: int, change: int, data: st.DataObject) -> None:
    """Whatever 4 bytes become, alone, is another digest: certain, not likely."""
    tensor = random_bits((count,), torch.int32, seed)
    changed = tensor.clone()
    changed[data.draw(st.integers(0, count - 1))] ^= change - (1 << 32) if change >> 31 else change

    assert digest(changed) != digest(tensor)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    """Each has digests: equal for equal bits, different for one flipped bit, and for another dtype."""
    tensor, twin = random_bits((6, 5), dtype), random_bits((6, 5), dtype)
    flipped = [with_flipped_bit(tensor, bit) for bit in range(0, 8 * tensor.nbytes, 8)]
    found = digests([tensor, twin, *flipped])
    zeros = torch.zeros(4 * dtype.itemsize, dtype=torch.uint8).view(dtype)
    others = [torch.zeros(4, dtype=other) for other in (torch.int64, torch.half) if other != dtype]

    assert is_evidence(tensor)
    assert found[0] == found[1]
    assert len(set(found)) == 1 + len(flipped)
    assert digest(zeros) not in digests(others)


@given(shapes, shapes, seeds)
@quickly
def test_shape_counts(one: tuple[int, ...], other: tuple[int, ...], seed: int) -> None:
    """The same bytes in another shape are another digest."""
    raw = random_bits((int(np.prod(one, dtype=int)) * int(np.prod(other, dtype=int)),), seed=seed)
    left, right = raw.view(*one, -1), raw.view(*other, -1)

    assert (digest(left) == digest(right)) == (left.shape == right.shape)


@given(st.integers(2, 70), seeds, st.sampled_from(REAL), st.data())
@quickly
def test_order_counts(count: int, seed: int, dtype: torch.dtype, data: st.DataObject) -> None:
    """Two unequal elements that change places are another digest."""
    tensor = torch.arange(count).to(dtype)
    i, j = data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True))
    swapped = tensor.clone()
    swapped[[i, j]] = tensor[[j, i]]

    assert digest(swapped) != digest(tensor)


@given(st.integers(1, 40), seeds, st.sampled_from(REAL), st.data())
@quickly
def test_signs_count(count: int, seed: int, dtype: torch.dtype, data: st.DataObject) -> None:
    """Any set of flipped signs is another digest: the weak spot of products modulo 2⁶⁴."""
    tensor = random_bits((count,), dtype, seed)
    chosen = data.draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True))
    negated = tensor.clone()
    negated[chosen] = -tensor[chosen]

    assert digest(negated) != digest(tensor)


def test_a_keyed_sum_of_words_of_8_bytes_is_blind_to_signs() -> None:
    """The planted failure: whole words times odd keys cannot tell x from -x, which is why the words have 4 bytes."""
    x = random_bits((1000,), torch.float64)
    keys = torch.from_numpy(definition.odd_keys("table", 1000).view(np.int64))

    assert torch.dot(x.view(torch.int64), keys) == torch.dot((-x).view(torch.int64), keys)
    assert digest(x) != digest(-x)


@pytest.mark.parametrize("count", [2, 64, 10_000])
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_what_looks_equal(dtype: torch.dtype, count: int) -> None:
    """Zeros of either sign and NaNs with other payloads are other bits, even where torch.equal sees none."""
    plus, minus = torch.zeros(count, dtype=dtype), -torch.zeros(count, dtype=dtype)
    nan = torch.full((count,), torch.nan, dtype=dtype)
    other_nan = with_flipped_bit(nan, 0)

    assert torch.equal(plus, minus)
    assert other_nan.isnan().all()
    assert len(set(digests([plus, minus, nan, other_nan]))) == 4


# ---- what does not count


@given(shapes, seeds, st.sampled_from([*REAL, torch.uint8, torch.complex128]), st.data())
@quickly
def test_layout_in_memory_does_not_count(
    shape: tuple[int, ...], seed: int, dtype: torch.dtype, data: st.DataObject
) -> None:
    """Transposed, sliced, shifted or contiguous: the elements in row-major order are what counts."""
    order = data.draw(st.permutations(range(len(shape))))
    offset = data.draw(st.integers(0, 9))
    base = random_bits((offset + 2 * int(np.prod(shape, dtype=int)),), dtype, seed)
    strided = base[offset::2][: int(np.prod(shape, dtype=int))].view(shape).permute(order)

    assert digest(strided) == digest(strided.contiguous()) == digests([strided, base, strided.clone()])[2]


@pytest.mark.parametrize("count", [3, 9_000, 40_000, 2 * BLOCK + 6])
@pytest.mark.parametrize("offset", [0, 1, 2, 7])
def test_alignment_does_not_count(count: int, offset: int) -> None:
    """A slice that begins in the middle of a word, and memory that is not aligned at all."""
    base = random_bits((count + offset,))
    memory = bytearray(offset) + bytearray(base[offset:].numpy().tobytes())
    unaligned = torch.frombuffer(memory, dtype=torch.float32, offset=offset)

    assert digest(base[offset:]) == digest(base[offset:].clone()) == digest(unaligned)


@pytest.mark.parametrize("count", [1, 5, 20_000])
def test_how_it_is_held_does_not_count(count: int) -> None:
    """Expanded, a parameter, an inference tensor, a subclass, conjugated lazily or not: the same bits."""
    tensor = random_bits((count,), torch.complex64)
    tensor = torch.where(tensor.isnan(), torch.zeros_like(tensor), tensor)
    with torch.inference_mode():
        inference = tensor.clone()
    held = [torch.nn.Parameter(tensor), inference, tensor.as_subclass(Named), tensor.conj().resolve_conj().conj()]

    assert set(digests(held)) == {digest(tensor)}
    assert digest(tensor.conj()) == digest(tensor.conj().resolve_conj()) != digest(tensor)
    assert digest(tensor.conj().imag) == digest(tensor.conj().imag.resolve_neg())
    assert digest(tensor[:1].expand(3, 1)) == digest(tensor[:1].repeat(3, 1))


class Named(torch.Tensor):
    """A subclass that overrides nothing."""


@given(st.lists(st.tuples(st.integers(0, 9_000), st.sampled_from(DTYPES[:16])), max_size=12), seeds)
@settings(deadline=None, max_examples=40)
def test_many_at_once_agree_with_the_definition(way: str, wanted: list[tuple[int, torch.dtype]], seed: int) -> None:
    """A tensor's digest does not depend on what is digested beside it, before it or after it."""
    tensors = [random_bits((count,), dtype, seed + i) for i, (count, dtype) in enumerate(wanted)]
    others = [random_bits((count,), dtype, seed + i + 99) for i, (count, dtype) in enumerate(wanted)]
    first, second, third = digests(tensors), digests(others), digests(tensors)

    assert first == third == [DEFINED[way](*definition.bytes_of(tensor)) for tensor in tensors]
    assert second == [digest(tensor) for tensor in others]


@pytest.mark.usefixtures("small_slabs")
def test_more_than_one_pack(way: str) -> None:
    """More small tensors than fit into one pack keep their order."""
    tensors = [random_bits((count % 30_000,), seed=count) for count in range(0, 120_000, 3_000)]

    assert digests(tensors) == [DEFINED[way](*definition.bytes_of(tensor)) for tensor in tensors]


@once
@pytest.mark.usefixtures("small_slabs")
@pytest.mark.parametrize("count", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 6 * BLOCK + 5])
@pytest.mark.parametrize("look", ["own memory", "odd", "every other"])
def test_sums_where_slabs_meet(count: int, look: str) -> None:
    """Slab by slab, of the tensor's own memory or of copies, is the definition's one sum."""
    raw = bytes_tensor(16 * count)
    tensor = {"own memory": raw[: 8 * count], "odd": raw[: 8 * count - 3], "every other": raw.view(-1, 2)[:, 1]}[look]
    own = torch.empty(-(-tensor.nbytes // keys.ROW_BYTES), dtype=torch.int64)
    sums.sum_rows(tensor, keys.table(torch.device("cpu"), None), own)
    sum_there = int((own * keys.row_keys(len(own))).sum()) + definition.salt("uint8", tuple(tensor.shape))

    assert sum_there & definition.MASK == definition.elsewhere(*definition.bytes_of(tensor))


@once
def test_the_cpu_and_an_accelerator_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tensor has the digest of the place it lies in, whatever lies beside it, parts of others among them."""
    tensors = [random_bits((count,), seed=count) for count in (1, 700, 0, 20_000, 100_001, 9, 40_000)]
    there = {id(tensor) for tensor in tensors[::2]}
    monkeypatch.setattr(digest_package, "host_digests", digests_of_all_but(there))
    expected = [
        (definition.elsewhere if id(tensor) in there else definition.on_host)(*definition.bytes_of(tensor))
        for tensor in tensors
    ]
    sparse = torch.eye(3).to_sparse()
    under_way = pending([sparse, *tensors])
    for tensor in tensors:
        tensor.zero_()

    assert digests([sparse])[:1] + expected == under_way.result()
    assert digests([]) == []


def digests_of_all_but(there: set[int]) -> Callable[[list[Tensor]], list[int | None]]:
    """As if some tensors lay on an accelerator."""

    def found(tensors: list[Tensor]) -> list[int | None]:
        return [None if id(tensor) in there else host.host_digests([tensor])[0] for tensor in tensors]

    return found


@once
@given(st.lists(st.integers(1, 5), max_size=4).map(tuple), st.data())
@quickly
def test_pieces_are_what_lies_between(shape: tuple[int, ...], data: st.DataObject) -> None:
    """Any range of the row-major order, of a tensor that lies in any other."""
    order = data.draw(st.permutations(range(len(shape))))
    tensor = torch.arange(int(np.prod(shape, dtype=int))).view(shape).permute(order)
    start, stop = sorted(
        data.draw(st.tuples(*2 * [st.integers(0, tensor.numel())]).filter(lambda ends: len({*ends}) > 1))
    )
    found = [element for piece in pieces(tensor, start, stop) for element in piece.flatten().tolist()]

    assert found == tensor.flatten().tolist()[start:stop]


@once
def test_copies_are_small() -> None:
    """What does not lie in order is copied block by block, however large it is."""
    channels_last = torch.zeros(4, 16, 100, 100).to(memory_format=torch.channels_last)
    copied = [len(block) for block in host._copied_blocks(channels_last)]

    assert sum(copied) == channels_last.nbytes > 2 * host.BLOCK_BYTES
    assert max(copied) == host.BLOCK_BYTES
    assert digest(channels_last) == digest(channels_last.contiguous())


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_number_of_threads_does_not_count() -> None:
    """One thread or several: the same digests."""
    tensors = [random_bits((count,), seed=count) for count in (10, 5_000, 300_000, 1_000_003)]
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        found.append(digests(tensors))

    assert found[0] == found[1] == found[2]


def test_threads_do_not_meet() -> None:
    """Threads that digest at the same time find what they find alone."""
    tensors = [[random_bits((count,), seed=seed) for count in (5, 900, 9_000, 50_000)] for seed in range(6)]
    expected = [digests(each) for each in tensors]
    found: dict[int, list[list[int]]] = {}

    def work(index: int) -> None:
        found[index] = [digests(tensors[index]) for _ in range(30)]

    workers = [threading.Thread(target=work, args=(index,)) for index in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert all(found[index] == 30 * [expected[index]] for index in range(6))


@once
def test_streams_do_not_meet() -> None:
    """What one stream of a GPU uploads is not used on another, where it might not be there yet."""
    signature, device = ((torch.float32, 12), (torch.int64, 8)), torch.device("cpu")
    one, other, again = (sums.plan_of(signature, device, stream) for stream in (1, 2, 1))

    assert one is again
    assert not {one.keys.data_ptr(), one.table.data_ptr()} & {other.keys.data_ptr(), other.table.data_ptr()}


def test_pending_is_what_the_tensors_held_then() -> None:
    """Changes after the call do not reach the result."""
    tensors = [random_bits((count,), seed=count) for count in (3, 100, 50_000)]
    expected, under_way = digests(tensors), pending(tensors)
    for tensor in tensors:
        tensor.zero_()
    digests(tensors)

    assert under_way.result() == expected == under_way.result()
    assert digests(tensors) != expected


# ---- tensors made of several


def sparse_kinds() -> dict[str, Callable[[Tensor], Tensor]]:
    return {
        "coo": Tensor.to_sparse,
        "csr": Tensor.to_sparse_csr,
        "csc": Tensor.to_sparse_csc,
        "bsr": lambda tensor: tensor.to_sparse_bsr((2, 2)),
        "bsc": lambda tensor: tensor.to_sparse_bsc((2, 2)),
        "mkldnn": Tensor.to_mkldnn,
        "nested": lambda tensor: torch.nested.nested_tensor([tensor[:2], tensor]),
        "jagged": lambda tensor: torch.nested.nested_tensor([tensor[:2], tensor], layout=torch.jagged),
        "qint8": lambda tensor: torch.quantize_per_tensor(tensor, 0.1, 3, torch.qint8),
        "per channel": lambda tensor: torch.quantize_per_channel(
            tensor, torch.arange(1, 5) / 10, torch.zeros(4, dtype=torch.int), 0, torch.quint8
        ),
        "pair": lambda tensor: Pair(tensor, tensor + 1),
        "masked": lambda tensor: masked_tensor(tensor, tensor != 0),
        "masked and sparse": lambda tensor: masked_tensor(tensor.to_sparse(), (tensor != 0).to_sparse()),
    }


class Pair(torch.Tensor):
    """A wrapper subclass: its bits are those of two tensors it holds."""

    left: Tensor
    right: Tensor

    @staticmethod
    def __new__(cls, left: Tensor, right: Tensor) -> Pair:
        made = torch.Tensor._make_wrapper_subclass(cls, left.shape, dtype=left.dtype, device=left.device)
        made.left, made.right = left, right
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["left", "right"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} was dispatched to the subclass")


@pytest.mark.parametrize("kind", sparse_kinds())
def test_parts_count(kind: str) -> None:
    """What is made of several tensors has a digest of its own, the same again, another when one value changes."""
    make = sparse_kinds()[kind]
    dense = torch.tensor([[0, 1.0, 0, 2], [3, 0, 0, 0], [0, 0, 4, 0], [5, 6, 0, 1]])
    changed = dense.clone()
    changed[3, 1] = 7
    tensor = make(dense)
    found = digests([dense, tensor, make(dense), make(changed)])

    assert is_evidence(tensor)
    assert found[1] == found[2] == digest(tensor)
    assert len(set(found)) == 3


def test_masks_count() -> None:
    """The same data behind another mask are another tensor."""
    made = [masked_tensor(torch.ones(2), torch.tensor([True, last])) for last in (False, True)]

    assert len(set(digests(made))) == 2


def test_scale_and_zero_point_count() -> None:
    """Quantized tensors with the same integers differ by what the integers mean."""
    made = [
        torch._make_per_tensor_quantized_tensor(torch.ones(4, dtype=torch.int8), *how)
        for how in ((0.1, 0), (0.2, 0), (0.1, 1))
    ]

    assert len(set(digests(made))) == 3


def test_uncoalesced_is_digested_as_stored() -> None:
    """Two halves at one place are not the whole."""
    place = torch.tensor([[1, 1]])
    halves = torch.sparse_coo_tensor(place, torch.tensor([0.5, 0.5]), (3,))

    assert digest(halves) != digest(halves.coalesce())
    assert not halves.is_coalesced()


def test_caches_do_not_count() -> None:
    """A jagged tensor that has been asked for its longest row is still the same tensor."""
    rows = [torch.ones(2, 3), torch.ones(4, 3)]
    jagged = torch.nested.nested_tensor(rows, layout=torch.jagged)
    before = digest(jagged)
    jagged._get_max_seqlen()

    assert digest(jagged) == before


def test_a_dtensor_is_its_local_part(process_group: None) -> None:
    """A DTensor's digest follows its local tensor."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (1,))
    one, other = (distribute_tensor(torch.full((4, 4), value), mesh, [Shard(0)]) for value in (1.0, 2.0))
    again = torch.nn.Parameter(distribute_tensor(torch.full((4, 4), 1.0), mesh, [Shard(0)]))

    assert is_evidence(one)
    assert digest(one) == digest(again) != digest(other)


def test_a_collective_under_way_is_waited_for(process_group: None) -> None:
    """The tensor that a functional collective returns is digested when it has arrived."""
    from torch.distributed._functional_collectives import all_reduce

    found = digest(all_reduce(torch.ones(100_000), "sum", torch.distributed.group.WORLD))

    assert found == digest(all_reduce(torch.ones(100_000), "sum", torch.distributed.group.WORLD))
    assert found != digest(all_reduce(torch.zeros(100_000), "sum", torch.distributed.group.WORLD))


@pytest.fixture
def process_group() -> Iterator[None]:
    if not torch.distributed.is_available():
        pytest.skip("torch was built without distributed")
    if OLD:
        pytest.skip("in torch 2.6 destroying a group of one process may wait for ever")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


# ---- what is no evidence


def without_bits() -> dict[str, Tensor]:
    freed = torch.ones(8)
    freed_view = freed[2:]
    freed.untyped_storage().resize_(0)
    with FakeTensorMode():
        fake = torch.ones(3)
    return {
        "meta": torch.ones(3, device="meta"),
        "fake": fake,
        "functional": torch._to_functional_tensor(torch.ones(3)),
        "freed": freed,
        "freed, in the middle": freed_view,
        "uninitialized": torch.nn.LazyLinear(3).weight,
        "meta inside": Pair(torch.ones(3), torch.ones(3, device="meta")),
        "sparse meta": torch.eye(3).to_sparse().to("meta"),
    }


@pytest.mark.parametrize("kind", without_bits())
def test_what_holds_no_bits_is_no_evidence(kind: str) -> None:
    """Asked first, the answer is no; digested all the same, a clear error, and nothing is read."""
    tensor = without_bits()[kind]

    assert not is_evidence(tensor)
    with pytest.raises(NotEvidenceError, match="holds no bits"):
        digests([torch.ones(3), tensor])


@once
def test_what_is_no_tensor_is_no_evidence() -> None:
    """Only tensors are."""
    assert not any(map(is_evidence, (None, 1.5, "text", np.ones(3))))


@pytest.mark.parametrize("tensor", [torch.ones(3), torch.ones(0), torch.tensor(True), torch.ones(3)[1:1]], ids=str)
def test_what_holds_bits_is_evidence(tensor: Tensor) -> None:
    """The nearest legal inputs, the empty ones among them."""
    assert is_evidence(tensor)
    assert digests([torch.ones(3), tensor])[1] == digest(tensor)


def test_transformed_tensors_are_no_evidence() -> None:
    """Inside vmap and grad the arguments are no evidence; other tensors still are, with their usual digest."""
    outside = [random_bits((count,)) for count in (3, 20_000)]
    expected = digests(outside)
    seen = []

    def look(x: Tensor) -> Tensor:
        seen.append((is_evidence(x), is_evidence(outside[0]), digests(outside)))
        with pytest.raises(NotEvidenceError):
            digest(x)
        return (x * 2).sum()

    torch.func.vmap(look)(torch.ones(2, 3))
    torch.func.grad(look)(torch.ones(3))
    torch.func.jvp(look, (torch.ones(3),), (torch.ones(3),))

    assert seen == 3 * [(False, True, expected)]


# ---- what it must not disturb


def kinds_of_call() -> list[Tensor]:
    made = [random_bits((count,), seed=count) for count in (3, 5, 50_000, 100_001)]
    return [*made, random_bits((300, 200)).t(), torch.eye(3).to_sparse(), torch.nn.Parameter(torch.ones(3))]


class Counting(TorchDispatchMode):
    seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


class CountingFunctions(TorchFunctionMode):
    seen = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


def digest_everything(tensors: list[Tensor]) -> list[int]:
    sums.plan_of.cache_clear()
    sums._zeros.cache_clear()
    host.salt_and_size.cache_clear()
    keys.table.cache_clear()
    assert all(map(is_evidence, tensors))
    return pending(tensors).result()


def test_the_users_modes_see_nothing() -> None:
    """Neither a dispatch mode nor a function mode is called, on the first call or a later one."""
    tensors = kinds_of_call()
    expected = digests(tensors)
    with Counting() as dispatched, CountingFunctions() as functions:
        found = [digest_everything(tensors), digests(tensors)]
        seen = dispatched.seen, functions.seen
        torch.ones(3)

    assert found == [expected, expected]
    assert seen == (0, 0)
    assert dispatched.seen > 0 < functions.seen  # both modes were listening


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("grad", [True, False])
def test_state_of_torch_is_as_before(grad: bool) -> None:
    """Generators, gradient mode, inference mode, threads, default dtype and the deterministic flag are as they were."""

    def state() -> tuple[object, ...]:
        return (
            generator_states(),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.get_num_threads(),
            torch.get_num_interop_threads(),
            torch.get_default_dtype(),
            torch.are_deterministic_algorithms_enabled(),
            str(torch._C._dispatch_tls_local_include_set()),
            str(torch._C._dispatch_tls_local_exclude_set()),
        )

    with torch.set_grad_enabled(grad):
        before = state()
        digest_everything(kinds_of_call())
        after = state()

    assert before == after


def test_tensors_are_as_before() -> None:
    """No version counter moves, nothing joins a graph, no memory is held, gradients are the same bits."""
    weight = torch.nn.Parameter(random_bits((64, 64)).nan_to_num(0, 1, -1).clamp(-1, 1))
    out = (weight @ weight).relu()
    tensors = [weight, out, torch.ones(100_000)]
    before = [(each._version, each.requires_grad, each.grad_fn, each.data_ptr()) for each in tensors]
    digest_everything(tensors)
    after = [(each._version, each.requires_grad, each.grad_fn, each.data_ptr()) for each in tensors]
    out.sum().backward()
    plain = weight.detach().clone().requires_grad_()
    (plain @ plain).relu().sum().backward()

    assert before == after
    assert weight.grad is not None
    assert plain.grad is not None
    assert digest(weight.grad) == digest(plain.grad)


def test_no_reference_is_kept() -> None:
    """The memory of a digested tensor is free as soon as its owner lets it go."""
    import weakref

    for count in (10, 100_000):
        tensor = torch.ones(count)
        storage = weakref.ref(tensor.untyped_storage())
        digests([tensor, torch.ones(3)])
        del tensor

        assert storage() is None


@contextmanager
def strict() -> Iterator[None]:
    """Errors instead of nondeterministic operations, and instead of warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "context",
    [
        strict,
        torch.inference_mode,
        torch.no_grad,
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: torch.device("meta"),
        lambda: torch.autograd.forward_ad.dual_level(),
        lambda: torch.autograd.detect_anomaly(check_nan=False),
    ],
    ids=["strict", "inference", "no grad", "autocast", "default device", "dual level", "anomaly"],
)
def test_works_inside(context: Callable[[], Any]) -> None:
    """The first call may come in any context, and the digests are those of later calls outside it."""
    tensors = kinds_of_call()
    with context():
        inside = digest_everything(tensors)

    assert inside == digests(tensors) == digest_everything(tensors)


@once
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_has_the_sums_and_cpu_does_not() -> None:
    """In one call with CPU tensors: each by its own definition, and no synchronisation before the result."""
    on_cpu = [
        random_bits((count,), dtype) for count in (0, 1, 700, 20_001, 5_000_003) for dtype in (*REAL, torch.complex128)
    ]
    on_gpu = [tensor.cuda() for tensor in on_cpu]
    digests([*on_gpu, *on_cpu])
    torch.cuda.set_sync_debug_mode("error")
    try:
        under_way = pending([*on_gpu, *on_cpu])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    sums_there = [definition.elsewhere(*definition.bytes_of(tensor)) for tensor in on_cpu]

    assert under_way.result() == [*sums_there, *digests(on_cpu)]
