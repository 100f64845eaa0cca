"""The loader beside torch's own: arguments, order, epochs, state, streams, and what is refused."""

import contextlib
import copy
import itertools
import json
import pickle
import random
import time
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)

import samebits
from samebits.base.errors import DataStateError, StateWarning, UsageError
from samebits.data import DataLoader, Mapped, fetch, sample_generator
from tests.data.augment import Samples, bits, epoch, global_states, images, loader

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

NUMBERS: Any = TensorDataset(torch.arange(23))


def orders(made: DataLoader, epochs: int = 1) -> Any:
    return [[batch[0].tolist() for batch in made] for _ in range(epochs)]


def begun(made: DataLoader, batches: int = 1) -> Any:
    """The state after so many batches, while their iterator is still there."""
    taken = iter(made)
    for _ in range(batches):
        next(taken)
    return made.state_dict()


def resumed(made: DataLoader, state: Any) -> DataLoader:
    made.load_state_dict(state)
    return made


# ---- as torch's


@pytest.mark.parametrize("options", [{}, {"batch_size": 5}, {"batch_size": 5, "drop_last": True}, {"batch_size": None}])
def test_without_randomness_it_is_torchs(options: dict[str, Any]) -> None:
    """The same batches, the same length, the same attributes; positional arguments too."""
    own, plain = DataLoader(NUMBERS, seed=0, **options), torch.utils.data.DataLoader(NUMBERS, **options)

    assert list(map(str, own)) == list(map(str, plain))
    assert len(own) == len(plain) == len(list(own))
    assert isinstance(own, torch.utils.data.DataLoader)
    assert (own.batch_size, own.dataset, own.drop_last) == (plain.batch_size, plain.dataset, plain.drop_last)
    assert orders(DataLoader(NUMBERS, 5, False, None, None, 2, seed=0)) == orders(DataLoader(NUMBERS, 5, seed=0))


def test_arguments_fail_as_torchs_do() -> None:
    """Misspelt and contradicting ones."""
    for wrong in ({"num_worker": 2}, {"batch_size": 0}, {"shuffle": True, "sampler": [1]}, {"num_workers": -1}):
        with pytest.raises((TypeError, ValueError)) as own:
            DataLoader(NUMBERS, **wrong)
        with pytest.raises(own.type):
            torch.utils.data.DataLoader(NUMBERS, **wrong)  # type: ignore[arg-type]


class Lazy(Sampler[int]):
    """Draws from all global generators, one index at a time, and changes with the epoch."""

    def __iter__(self) -> Any:
        for _ in range(15):
            yield (random.randrange(9) + np.random.randint(9) + int(torch.randint(5, ()))) % 23


SAMPLERS: list[Any] = [
    {"shuffle": True},
    {"sampler": Lazy()},
    {"sampler": WeightedRandomSampler([1.0] * 23, 30)},
    {"sampler": RandomSampler(NUMBERS, generator=torch.Generator().manual_seed(3))},
    {"sampler": [5, 5, 5, 2]},
    {"batch_sampler": BatchSampler(Lazy(), 4, False), "batch_size": 1},
    {"batch_sampler": [[1, 2], [3], [4, 5, 6]], "batch_size": 1},
    {"batch_sampler": [np.array([1, 2]), np.array([3, 4, 5])], "batch_size": 1},
]


@pytest.mark.parametrize("options", SAMPLERS)
@pytest.mark.parametrize("workers", [0, 2])
def test_samplers_draw_from_their_own(options: dict[str, Any], workers: int) -> None:
    """Whatever the training loop draws in between; and it finds its generators as they were."""
    quiet = loader("mixed", **{"shuffle": None, "batch_size": 4, **options})
    expected = [epoch(quiet), epoch(quiet)]
    noisy = loader("mixed", workers, **{"shuffle": None, "batch_size": 4, **options})
    found = []
    for _ in range(2):
        batches = []
        for batch in noisy:
            torch.rand(3), random.random(), np.random.randn()
            before = global_states()
            batches.append(bits(batch))
            assert global_states() == before
        found.append(batches)

    assert found == expected


def test_strings_and_tuples_are_indices() -> None:
    """Anything that can be written down; what cannot is refused by its type."""
    names = {"a": 1, "b": 2, ("a", 1): 3, 2.5: 4, None: 5}
    found = [list(DataLoader(names, sampler=list(names), batch_size=2, num_workers=n, seed=0)) for n in (0, 1)]

    assert [batch.tolist() for batch in found[0]] == [batch.tolist() for batch in found[1]] == [[1, 2], [3, 4], [5]]
    with pytest.raises(UsageError, match="an index of type object"):
        list(DataLoader(names, sampler=[object()], seed=0))


class Bulk(torch.utils.data.Dataset[Any]):
    """Fetches many samples at once, drawing or not."""

    def __init__(self, draws: bool) -> None:
        self.draws, self.sizes = draws, list[int]()

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> Any:
        self.sizes.append(len(indices))
        return [(index, torch.rand(1).item() if self.draws else 0.0) for index in indices]


class Elsewhere(Bulk):
    """Draws other numbers where it is asked for a single sample in the plain way."""

    def __getitem__(self, index: int) -> Any:
        return index, -1.0


@pytest.mark.parametrize("draws", [False, True])
def test_fetching_in_bulk(draws: bool) -> None:
    """At once where nothing is drawn; one by one where something is, so that ranks, workers and `fetch` agree."""
    dataset = Bulk(draws)
    options: dict[str, Any] = {"batch_size": 6, "shuffle": True, "seed": 0}
    plain = list(DataLoader(dataset, **options))
    parts = [list(DataLoader(Bulk(draws), num_workers=1, rank=r, world_size=2, **options)) for r in range(2)]

    assert dataset.sizes == ([6] + [1] * 12 if draws else [6, 6])
    drawn = {int(index): float(value) for batch in plain for index, value in zip(*batch, strict=True)}
    assert [fetch(Elsewhere(draws), index, seed=0)[1] for index in range(12)] == [drawn[index] for index in range(12)]
    for number, (indices, drawn) in enumerate(plain):
        assert indices.tolist() == [i for part in parts for i in part[number][0].tolist()]
        assert drawn.tolist() == [x for part in parts for x in part[number][1].tolist()]


def test_a_subset_draws_by_its_own_indices() -> None:
    """Torch's Subset fetches in bulk, whatever it is a subset of."""
    subset, asked = Subset(images("mixed"), range(3, 20)), []
    found = [epoch(DataLoader(subset, 5, seed=1, num_workers=workers)) for workers in (0, 2)]
    counting = Samples(9, lambda index: asked.append(index) or random.randrange(2))
    list(DataLoader(Subset(counting, range(8)), 4, seed=0))

    assert found[0] == found[1]
    assert asked == list(range(8))


def nesting(index: int) -> Any:
    """Fetches by other means while it is fetched from: a sample of another dataset, and an episode of a loader."""
    before = random.random()
    one = fetch(images("mixed"), index)[1].sum().item()
    episode = sum(batch[1].sum().item() for batch in DataLoader(images("python", 3), seed=index))
    return index, torch.tensor([before, one, episode, random.random(), np.random.rand()])


def test_fetching_within_a_sample() -> None:
    """The outer sample goes on where it was, in a worker too."""
    found = [epoch(DataLoader(Samples(6, nesting), 2, seed=0, num_workers=workers)) for workers in (0, 2)]

    assert found[0] == found[1]
    assert len({digest for batch in found[0] for _, digest in batch}) == 6


def test_workers_see_the_users_dataset() -> None:
    """`get_worker_info().dataset` is what the documentation of torch promises, in `worker_init_fn` too."""

    def seen(_: int = 0) -> str:
        info: Any = get_worker_info()
        return f"{type(info.dataset).__name__} {info.dataset.length}"

    def shortened(number: int) -> None:
        info: Any = get_worker_info()
        info.dataset.length = 3

    made = DataLoader(Samples(4, seen), None, num_workers=2, worker_init_fn=shortened, seed=0)

    assert list(made) == ["Samples 3"] * 4


# ---- epochs and state


def test_epochs_can_be_set() -> None:
    """Epoch 1 is epoch 1, however one comes there; setting it to where a loaded state stands keeps the position."""
    made, other = loader("python"), loader("python")
    first, second = epoch(made), epoch(made)
    other.set_epoch(1)
    assert epoch(other) == second
    other.set_epoch(0)
    assert epoch(other) == first
    rest = resumed(loader("python"), begun(made))
    rest.set_epoch(2)
    assert rest.state_dict()["samples"] == 6
    rest.set_epoch(3)
    assert rest.state_dict() | {"epoch": 3, "samples": 0} == rest.state_dict()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_that_is_left_is_saved_as_over(workers: int) -> None:
    """Saved before the break it goes on, saved after it the next epoch begins; each as in the process that saved."""

    def made() -> DataLoader:
        return DataLoader(range(20), 4, shuffle=True, seed=0, num_workers=workers)  # type: ignore[arg-type]

    def first_of_the_rest(state: Any) -> Any:
        return next(iter(resumed(made(), state))).tolist()  # type: ignore[attr-defined]

    plain, left = made(), made()
    whole = [[batch.tolist() for batch in plain] for _ in range(3)]  # type: ignore[attr-defined]
    for number in range(2):
        for _ in left:
            within = left.state_dict()
            break
        with pytest.warns(StateWarning, match="left early is saved as over"):
            after = left.state_dict()
        assert (first_of_the_rest(within), first_of_the_rest(after)) == (whole[number][1], whole[number + 1][0])
    interrupted, state = made(), {}
    with contextlib.suppress(KeyboardInterrupt):
        try:
            for _ in interrupted:
                raise KeyboardInterrupt
        finally:
            state = interrupted.state_dict()
    assert first_of_the_rest(state) == whole[0][1]
    # At its end nothing is left, and nothing is said.
    for count, _ in enumerate(left, 1):
        if count == 5:
            break
    assert (left.state_dict()["epoch"], left.state_dict()["samples"]) == (3, 0)
    assert copy.deepcopy(left).state_dict() == pickle.loads(pickle.dumps(left)).state_dict() == left.state_dict()
    left.load_state_dict(within)
    assert left.state_dict() == within


def test_a_state_of_another_order_is_refused() -> None:
    """A shuffled loader does not become one in sequence; what was saved before that was noted is taken."""
    shuffled, plain = (DataLoader(NUMBERS, 6, shuffle=one, seed=0) for one in (True, False))
    state = shuffled.state_dict()
    with pytest.raises(DataStateError, match=r"was saved with a RandomSampler for the order, .* a SequentialSampler"):
        plain.load_state_dict(state)
    del state["sampler"]
    plain.load_state_dict(state)


def test_an_old_iterator_does_not_move_the_position() -> None:
    """The newest one counts."""
    made = loader("none")
    old = iter(made)
    new = iter(made)
    next(new)
    next(old), next(old)

    assert (made.state_dict()["epoch"], made.state_dict()["samples"]) == (1, 6)


def test_a_state_is_small_and_goes_through_json_and_torch_save(tmp_path: Any) -> None:
    """Whole numbers only, also for a long dataset."""
    made = DataLoader(range(10**6), batch_size=64, shuffle=True, seed=3)  # type: ignore[arg-type]
    iterator = iter(made)
    batches = [next(iterator).tolist() for _ in range(3)]
    torch.save({"data": made.state_dict()}, tmp_path / "it.pt")
    again = DataLoader(range(10**6), batch_size=64, shuffle=True, seed=3)  # type: ignore[arg-type]
    rest = resumed(again, torch.load(tmp_path / "it.pt")["data"])

    assert json.loads(json.dumps(made.state_dict())) == made.state_dict()
    assert len(json.dumps(made.state_dict())) < 200
    assert next(iter(rest)).tolist() == next(iterator).tolist() not in batches


def test_another_batch_size_goes_on_with_the_very_next_sample() -> None:
    """The position counts samples."""
    state = begun(DataLoader(NUMBERS, 6, shuffle=True, seed=0), 2)
    whole = orders(DataLoader(NUMBERS, 6, shuffle=True, seed=0))[0]
    rest = orders(resumed(DataLoader(NUMBERS, 5, shuffle=True, seed=0), state))[0]

    assert list(itertools.chain(*rest)) == list(itertools.chain(*whole[2:]))


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_rest_of_a_batch_that_a_sampler_made(ranks: int) -> None:
    """Another batch sampler goes on with the very next sample, too; with ranks each gets its part of it."""

    def made(size: int, **options: Any) -> DataLoader:
        return DataLoader(NUMBERS, batch_sampler=BatchSampler(range(23), size, False), seed=0, **options)

    state = begun(made(4))
    parts = [orders(resumed(made(6, rank=rank, world_size=ranks), state))[0] for rank in range(ranks)]

    assert [list(itertools.chain(*batch)) for batch in zip(*parts, strict=True)][:2] == [[4, 5], [6, 7, 8, 9, 10, 11]]


def test_a_state_brings_its_seed_to_several_ranks() -> None:
    """As the hint of the error says."""
    state = begun(DataLoader(NUMBERS, 6, shuffle=True, seed=4))
    rest = resumed(DataLoader(NUMBERS, 6, shuffle=True, rank=0, world_size=2), state)

    whole = orders(DataLoader(NUMBERS, 6, shuffle=True, seed=4))[0]
    assert orders(rest)[0] == [batch[: len(batch) // 2] for batch in whole[1:]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_after_an_error_has_only_what_was_handed_over(workers: int) -> None:
    """`except: save(); raise` resumes with the batch that failed; who goes on gets the next one."""

    def failing(index: int) -> int:
        if index == 5:
            raise OSError("truncated")
        return index

    made = DataLoader(Samples(12, failing), 4, seed=0, num_workers=workers)
    iterator = iter(made)
    next(iterator)
    with contextlib.suppress(OSError):
        next(iterator)

    assert made.state_dict()["samples"] == 4
    assert next(iterator).tolist() == [8, 9, 10, 11]
    assert made.state_dict()["samples"] == 12


def test_a_timeout_can_be_waited_out() -> None:
    """The batch still comes, and the state counts it then."""
    slow = Samples(3, lambda index: time.sleep(1.6 if index == 1 else 0) or index)
    made = DataLoader(slow, 1, seed=0, num_workers=1, timeout=1)
    iterator = iter(made)
    found = []
    while len(found) < 3:
        try:
            found.append(next(iterator).item())
        except RuntimeError as error:
            assert "timed out" in str(error)  # noqa: PT017 - it may come once or twice
        assert made.state_dict()["samples"] == len(found)

    assert found == [0, 1, 2]


def test_a_state_of_another_loader_is_refused() -> None:
    """Length, seed, version, or no state at all; each beside the nearest one that is taken."""
    made = loader("none")
    state = made.state_dict()
    for change, told in (
        ({"length": 24}, "dataset of 24 samples, this one has 23 samples"),
        ({"length": -1}, "unknown length"),
        ({"seed": 8}, "saved with seed=8, this loader has seed=7"),
        ({"version": 2}, "version 2"),
    ):
        with pytest.raises(DataStateError, match=told):
            made.load_state_dict({**state, **change})
    for wrong in (None, {**state, "version": "1"}, {**state, "samples": -5}):
        with pytest.raises(DataStateError, match=r"a state is a dict|is not the state"):
            made.load_state_dict(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="epoch must be a whole number, got 'abc'"):
        made.set_epoch("abc")  # type: ignore[arg-type]
    assert json.dumps(loader("none", seed=np.int64(3)).state_dict())
    with pytest.raises(DataStateError, match="'epoch' is missing"):
        made.load_state_dict({key: value for key, value in state.items() if key != "epoch"})
    made.load_state_dict(state)
    loader("none", seed=None).load_state_dict(state)


def test_without_a_seed_it_hangs_on_torchs() -> None:
    """Read, not drawn; two loaders are two streams; a state brings its seed along."""
    before = torch.get_rng_state()
    first, second = loader("torch", seed=None), loader("torch", seed=None)
    with_generator = loader("torch", seed=None, generator=torch.Generator().manual_seed(5))

    assert torch.equal(before, torch.get_rng_state())
    assert len({made.state_dict()["seed"] for made in (first, second, with_generator)}) == 3
    assert epoch(resumed(second, first.state_dict())) == epoch(first)


# ---- ranks


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize(("last_batch", "sizes"), [("drop", [10, 10]), ("pad", [10, 10, 10]), ("uneven", [10, 10, 3])])
def test_tails(ranks: int, last_batch: Any, sizes: list[int]) -> None:
    """The same global batches for every number of ranks; padded with the epoch's first samples."""
    parts = [
        orders(DataLoader(NUMBERS, 10, shuffle=True, seed=1, last_batch=last_batch, rank=rank, world_size=ranks))[0]
        for rank in range(ranks)
    ]
    batches = [list(itertools.chain(*(part[b] for part in parts if b < len(part)))) for b in range(len(sizes))]
    whole = orders(DataLoader(NUMBERS, 10, shuffle=True, seed=1))[0]

    assert [len(batch) for batch in batches] == sizes
    assert batches[:2] == whole[:2]
    if last_batch == "pad":
        assert batches[2] == whole[2] + whole[0][:7]
    assert len(DataLoader(NUMBERS, 10, seed=1, last_batch=last_batch)) == len(sizes)


def test_a_padded_epoch_that_is_over_leaves_no_batch() -> None:
    """Saved after it, past the last sample, and resumed with batches that need no padding: nothing is too small."""
    data: Any = range(12)
    state = begun(DataLoader(data, 5, last_batch="pad", seed=0), 3)

    assert state["samples"] == 15
    assert list(resumed(DataLoader(data, 4, seed=0, rank=0, world_size=2), state)) == []


@pytest.mark.parametrize("last_batch", ["keep", "drop", "pad"])
def test_lengths_come_from_the_sampler(last_batch: Any) -> None:
    """Also where it yields more than the dataset has."""
    sampler = WeightedRandomSampler([1.0] * 10, 101)
    made = DataLoader(range(10), 4, sampler=sampler, seed=0, last_batch=last_batch)  # type: ignore[arg-type]

    assert len(made) == len(list(made)) == (25 if last_batch == "drop" else 26)
    uneven = [DataLoader(range(9), 4, seed=0, last_batch="uneven", rank=r, world_size=4) for r in range(4)]  # type: ignore[arg-type]
    assert [len(one) for one in uneven] == [len(list(one)) for one in uneven]


@pytest.mark.parametrize(
    "options", [{"last_batch": "pad", "shuffle": True}, {"sampler": [4, 4, 1, 4, 2, 1, 4, 4]}], ids=["pad", "sampler"]
)
def test_a_sample_that_comes_again_is_another_one(options: dict[str, Any]) -> None:
    """Each repeat has a key of its own, also what fills up a batch, whichever worker fetches it."""
    found = [epoch(DataLoader(images("torch", 5), 4, seed=0, num_workers=n, **options)) for n in (0, 3)]

    assert found[0] == found[1]
    assert len({digest for batch in found[0] for _, digest in batch}) == 8


@pytest.mark.parametrize(
    ("last_batch", "expected"),
    [
        ("drop", [[0, 3, 6], [1, 4, 7], [2, 5, 8]]),
        ("pad", [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]),
        ("uneven", [[0, 3, 6], [1, 4, 7], [2, 5, 8, 9]]),
    ],
)
def test_samples_that_are_not_batched_go_round(last_batch: Any, expected: list[list[int]]) -> None:
    """With batch_size=None every rank takes its turn, and says how many there are."""
    made = [
        DataLoader(range(10), batch_size=None, seed=0, last_batch=last_batch, rank=r, world_size=3) for r in range(3)
    ]  # type: ignore[arg-type]

    assert [list(one) for one in made] == expected
    assert [len(one) for one in made] == [len(part) for part in expected]
    for data in (range(10), Mapped(range(10), int)):
        with pytest.raises(UsageError, match="a global batch of 1 samples"):
            list(DataLoader(data, batch_size=None, seed=0, rank=0, world_size=3))


def test_ranks_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torchrun sets it; arguments come first; and ranks that did not agree on a seed are refused."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")

    assert orders(DataLoader(NUMBERS, 6, seed=0))[0][0] == [3, 4, 5]
    assert orders(DataLoader(NUMBERS, 6, seed=0, rank=0, world_size=1))[0][0] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(UsageError, match="2 ranks need one seed"):
        iter(DataLoader(NUMBERS, 6))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"in_order": False}, "in_order=False"),
        ({"rank": 1}, "go together"),
        ({"rank": 2, "world_size": 2}, "rank must be from 0 to 1"),
        ({"batch_size": 10, "rank": 0, "world_size": 4}, "batch of 3 samples leaves some of 4 ranks without any"),
        ({"last_batch": "cut"}, "last_batch must be one of keep, drop, pad, uneven, got 'cut'"),
        ({"drop_last": True, "last_batch": "pad"}, "contradict each other"),
        ({"seed": 1.5}, "seed must be a whole number, got 1.5"),
        ({"last_batch": "pad", "batch_sampler": [[1]]}, "batch_sampler makes its own"),
        ({"on_error": "ignore"}, "on_error must be one of raise, skip, got 'ignore'"),
        ({"sampler": DistributedSampler(NUMBERS, 2, 0)}, "DistributedSampler"),
    ],
)
def test_what_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        iter(DataLoader(NUMBERS, **{"seed": 0, **options}))


# ---- streams


class Shuffled(IterableDataset[Any]):
    """A shuffle buffer, augmentation, and sharing out among workers as torch's documentation has it."""

    def __init__(self, length: int = 23) -> None:
        self.length = length
        self.rng = np.random.default_rng(0)

    def __iter__(self) -> Any:
        info = get_worker_info()
        buffer: list[int] = []
        for number in range(0 if info is None else info.id, self.length, 1 if info is None else info.num_workers):
            buffer.append(number)
            if len(buffer) == 5:
                yield self.one(buffer.pop(random.randrange(5)))
        yield from (self.one(number) for number in buffer)

    def one(self, number: int) -> Any:
        image = np.full((2, 2), number) + self.rng.normal() + np.random.randn()
        return number, torch.from_numpy(image), torch.rand(2)


def jitter(number: int) -> Any:
    return number, torch.rand(2), torch.randn(1, generator=sample_generator())


STREAMS = [Shuffled(), Mapped(range(23), jitter)]


@pytest.mark.parametrize("stream", STREAMS, ids=["shuffled", "mapped"])
def test_streams(stream: Any) -> None:
    """Whole in every process: the same for any workers, ranks and after any resume."""

    def made(workers: int = 0, **options: Any) -> DataLoader:
        return DataLoader(stream, batch_size=6, seed=0, num_workers=workers, **options)

    plain = made()
    whole = [epoch(plain), epoch(plain)]
    persistent = made(2, persistent_workers=True)
    parts = [epoch(made(1, rank=rank, world_size=3)) for rank in range(3)]

    assert sorted(index for batch in whole[0] for index, _ in batch) == list(range(23))
    assert not set(itertools.chain(*whole[0])) & set(itertools.chain(*whole[1]))
    for workers in (1, 3):
        assert epoch(made(workers)) == whole[0]
    assert [epoch(persistent), epoch(persistent)] == whole
    assert epoch(resumed(made(1), begun(made(2), 2))) == whole[0][2:]
    assert [list(itertools.chain(*batch)) for batch in zip(*parts, strict=True)] == whole[0]


class Span(IterableDataset[int]):
    """As torch's documentation shares a stream out: each worker is given a part of it when it starts."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end

    def __iter__(self) -> Any:
        return iter(range(self.start, self.end))


def share_out(number: int) -> None:
    info: Any = get_worker_info()
    size = (info.dataset.end - info.dataset.start) // info.num_workers
    info.dataset.start += info.id * size
    info.dataset.end = info.dataset.start + size


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_a_stream_that_workers_would_share_out_stays_whole(workers: int) -> None:
    """Nothing is lost, and nothing comes twice."""
    made = DataLoader(Span(3, 15), 4, seed=0, num_workers=workers, worker_init_fn=share_out)

    assert [number for batch in made for number in batch.tolist()] == list(range(3, 15))


def test_a_stream_that_can_be_read_only_once_is_refused() -> None:
    """Every epoch and every worker reads it; and a function's StopIteration is an error, not the end."""
    with pytest.raises(UsageError, match="a generator can be read only once"):
        Mapped((number for number in range(3)), str)

    def stop(number: int) -> int:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration was raised while fetching sample 0"):
        list(DataLoader(Mapped(range(3), stop), seed=0))


@pytest.mark.parametrize("last_batch", ["drop", "pad", "uneven"])
def test_streams_end_as_indexed_data_ends(last_batch: Any) -> None:
    """One by one or in batches too small for all ranks: each rank gets the same positions."""
    for size, length in ((None, 10), (4, 9)):
        for rank in range(4):
            options: Any = {"batch_size": size, "seed": 0, "last_batch": last_batch, "rank": rank, "world_size": 4}
            indexed = list(DataLoader(range(length), **options))  # type: ignore[arg-type]
            streamed = list(DataLoader(Mapped(range(length), int), num_workers=2 * (rank == 3), **options))

            assert [len(np.atleast_1d(batch)) for batch in streamed] == [len(np.atleast_1d(b)) for b in indexed]
            if last_batch != "pad":
                assert list(map(str, streamed)) == list(map(str, indexed))


def test_what_pads_a_stream_has_a_key_of_its_own() -> None:
    """The same elements, drawn for anew; the first time they are what they are without padding."""
    padded = list(DataLoader(Mapped(range(2), jitter), 6, seed=0, last_batch="pad"))
    plain = list(DataLoader(Mapped(range(2), jitter), 6, seed=0))
    (numbers, draws, _), (_, expected, _) = padded[0], plain[0]

    assert numbers.tolist() == [0, 1, 0, 1, 0, 1]
    assert torch.equal(draws[:2], expected)
    assert len(draws.unique(dim=0)) == 6


def test_only_the_owner_computes_what_is_mapped() -> None:
    """The function runs once per element, over all workers and ranks."""
    seen: list[int] = []

    def note(number: int) -> int:
        seen.append(number)
        return number

    for rank in range(2):
        list(DataLoader(Mapped(range(10), note), batch_size=4, seed=0, rank=rank, world_size=2))

    assert sorted(seen) == list(range(10))
    assert list(Mapped(range(3), str)) == ["0", "1", "2"]


# ---- one sample


def test_a_single_sample_is_fetched_as_a_loader_does() -> None:
    """For looking at one that an error named."""
    dataset = images("mixed")
    made = DataLoader(dataset, sampler=[4, 9, 4], batch_size=1, seed=3)
    batches = epoch(made), epoch(made)
    again = [fetch(dataset, 4, seed=3, epoch=1, repeat=repeat) for repeat in (0, 1)]

    assert epoch([torch.utils.data.default_collate([one]) for one in again]) == [batches[1][0], batches[1][2]]


def test_explicit_generators() -> None:
    """The same one within a sample, whatever else is fetched for it; another one in the next, and none outside."""

    def drawn(_: int = 0) -> int:
        return int(torch.randint(2**31, (), generator=sample_generator()))

    def twice(index: int) -> list[int]:
        before, _ = drawn(), fetch(Samples(9, drawn), 8 - index)
        return [before, drawn()]

    dataset = Samples(4, twice)
    first, second = fetch(dataset, 0), fetch(dataset, 1)

    assert len({*first, *second}) == 4
    assert fetch(dataset, 0) == first
    with pytest.raises(UsageError, match="no sample is being fetched"):
        sample_generator()
    with pytest.raises(UsageError, match="library must be one of torch, numpy, python, got 'jax'"):
        sample_generator("jax")


def test_the_public_names() -> None:
    """`samebits.data` is there as soon as samebits is."""
    assert samebits.data.DataLoader is DataLoader
    assert all(getattr(samebits.data, name) is not None for name in samebits.data.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Dataloader'"):
        samebits.data.Dataloader  # noqa: B018


def test_a_copy_of_a_loader_reads_its_own_dataset() -> None:
    """Copied after its first epoch, with all that it has made by then."""
    original = DataLoader(Samples(4, int), 2, seed=0)
    first = [batch.tolist() for batch in original]
    copied = copy.deepcopy(original)
    cast(Samples, copied.dataset).sample = lambda index: 10 * index

    assert [batch.tolist() for batch in copied] == [[10 * number for number in batch] for batch in first]
    assert [batch.tolist() for batch in original] == first
