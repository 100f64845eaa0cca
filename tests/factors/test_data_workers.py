"""data-workers: pinned, each sample is keyed by its index; varied, every DataLoader has another number of workers."""

import copy
import inspect
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import samebits
from tests.factors.contexts import here, lines, treated, watched

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

DATA: Any = TensorDataset(torch.arange(6))


class Augmented(Dataset[float]):
    """Draws for every sample, as augmentation does."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return torch.rand(1).item()


def batches(workers: int, **options: Any) -> list[Any]:
    torch.manual_seed(0)
    loader = DataLoader(Augmented(), shuffle=True, num_workers=workers, **options)
    return [[batch.tolist() for batch in loader] for _ in range(2)]


def test_pinned_batches_do_not_depend_on_the_number_of_workers() -> None:
    """And left alone they do, which is what makes it a factor."""
    state = torch.get_rng_state()
    natural = batches(0), batches(1)
    with samebits.pinned(factors=["data-workers"]):
        plain = batches(0)
    with samebits.pinned(factors=["data-workers"]):
        others = batches(1)
    with treated("data-workers", "varied"):
        varied = batches(0), batches(1)
    torch.set_rng_state(state)

    assert natural[0] != natural[1]
    assert varied[0] != natural[0]
    assert varied[1] == natural[0]
    assert plain[0] != plain[1]
    assert others == plain


@pytest.mark.parametrize("options", [{"num_workers": 2, "persistent_workers": True}, {"num_workers": 3}])
def test_the_first_loader_of_a_program(options: dict[str, Any]) -> None:
    """With and without workers; nothing is drawn from the global generator, and torch's own comes back afterwards."""
    found = []
    for given in ({}, options):
        with samebits.pinned(factors=["data-workers"]):
            torch.manual_seed(3)
            before = torch.get_rng_state()
            loader = DataLoader(Augmented(), shuffle=True, batch_size=3, **given)
            found.append([batch.tolist() for batch in loader])
            assert torch.equal(torch.get_rng_state(), before)

    assert found[0] == found[1]


def test_loaders_of_one_program_are_different_streams() -> None:
    """Two views of one dataset are augmented differently; another seed, or `generator`, is another stream."""
    with samebits.pinned(factors=["data-workers"]):
        torch.manual_seed(3)
        found = [[batch.item() for batch in DataLoader(Augmented())] for _ in range(2)]
        own = DataLoader(Augmented(), generator=torch.Generator().manual_seed(1))
        found.append([batch.item() for batch in own])

    assert len({value for values in found for value in values}) == 12


def test_a_loader_of_samebits_keeps_its_own_seed() -> None:
    """The pin has nothing to do there; varied, it gets another number of workers and gives the same batches."""
    own = [batch.tolist() for batch in samebits.data.DataLoader(Augmented(), 2, seed=5)]
    for mode in ("pinned", "varied"):
        with treated("data-workers", mode):  # type: ignore[arg-type]
            loader = samebits.data.DataLoader(Augmented(), 2, seed=5)
            assert [batch.tolist() for batch in loader] == own
            assert loader.num_workers == (0 if mode == "pinned" else 2)


class Drawing(Dataset[Any]):
    """Draws on two lines."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        scale = 2 * index
        noise = torch.rand(1)
        return scale + noise + helper()


def helper() -> float:
    return np.random.normal()


def test_the_lines_that_draw_are_witnessed() -> None:
    """Within the loader's own line, which is the one that can be released; batches stay as they are unwatched."""
    with samebits.pinned(factors=["data-workers"]):
        torch.manual_seed(0)
        quiet = [batch.tolist() for batch in DataLoader(Drawing(), 2)]
    with watched("data-workers", "pinned") as seen:
        torch.manual_seed(0)
        made_at = here() + 1
        loader = DataLoader(Drawing(), 2)
        batches = [batch.tolist() for batch in loader]
    first = Drawing.__getitem__.__code__.co_firstlineno

    assert batches == quiet
    assert [witness.within for witness in seen] == [None, (__file__, made_at), (__file__, made_at)]
    assert lines(seen) == [made_at, first + 2, helper.__code__.co_firstlineno + 1]


class Carrying(Dataset[Any]):
    """Counts, keeps what was read, makes ready what it needs, and lets one of it reach a sample."""

    def __init__(self) -> None:
        self.count = 0
        self.kept: dict[int, int] = {}
        self.scale: float | None = None

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if self.scale is None:
            self.scale = 2.0
        self.kept[index] = index
        self.count += 1
        return index + self.count


def test_the_line_that_carries_something_over_is_witnessed() -> None:
    """From the second sample on: neither what is made ready once nor a cache that fills; with what to do about it."""
    with watched("data-workers", "pinned") as seen:
        made_at = here() + 1
        list(DataLoader(Carrying(), 2))
    line = Carrying.__getitem__.__code__.co_firstlineno + 4

    assert lines(seen) == [made_at, line]
    assert seen[1].what == "self.count changed from sample to sample"
    assert seen[1].fix == "make samples independent of self.count"


class Strange(Carrying):
    """Holds what can hardly be looked at, and nothing of it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = 1 << 100_000
        self.text = "a" * 1_000_000
        self.unlike = float("nan")
        self.hidden = Hidden()

    def __getitem__(self, index: int) -> int:
        self.text = "a" * 1_000_000
        return index


class Hidden(dict[str, int]):
    def __len__(self) -> int:
        raise RuntimeError("nobody asks how many")


def test_looking_on_disturbs_nobody() -> None:
    """Huge numbers and texts are compared, not written out; what raises when it is looked at is left alone."""
    with watched("data-workers", "pinned") as seen:
        made_at = here() + 1
        batches = [batch.tolist() for batch in DataLoader(Strange(), 2)]

    assert batches == [[0, 1], [2, 3]]
    assert lines(seen) == [made_at]


def test_a_copy_of_a_pinned_loader_is_pinned_too() -> None:
    """As another loader, with an order of its own that does not depend on workers."""
    found = []
    for workers in (0, 2):
        with samebits.pinned(factors=["data-workers"]):
            torch.manual_seed(0)
            loader = DataLoader(Augmented(), 2, shuffle=True, num_workers=workers)
            copied = copy.deepcopy(loader)
            found.append([[batch.tolist() for batch in one] for one in (loader, copied)])

    assert found[0] == found[1]
    assert found[0][0] != found[0][1]


@pytest.mark.parametrize(("asked", "varied"), [(0, (2, 3, 3)), (1, (0, 3, 4)), (4, (0, 6, 7))])
def test_varied_is_always_another_number(asked: int, varied: tuple[int, ...]) -> None:
    """In every variant another one than the program asked for."""
    found = []
    for variant in (1, 2, 3):
        with treated("data-workers", "varied", variant=variant):
            found.append(DataLoader(DATA, num_workers=asked).num_workers)

    assert all(count != asked for count in found)
    assert found[0] != found[1]


OPTIONS: list[dict[str, Any]] = [
    {"num_workers": 2},
    {"num_workers": 2, "prefetch_factor": 4, "persistent_workers": True, "timeout": 3},
    {"num_workers": 2, "multiprocessing_context": "spawn", "worker_init_fn": print},
    {"num_workers": 3, "pin_memory": False},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_options_that_only_workers_can_have_go_with_them(options: dict[str, Any]) -> None:
    """Torch refuses them without workers; all other options are kept."""
    with treated("data-workers", "varied"):
        loader = DataLoader(DATA, batch_size=3, **options)
        positional = DataLoader(DATA, 3, False, None, None, 2)
        named = DataLoader(dataset=DATA, batch_size=3, **options)

    for made in (loader, positional, named):
        assert (made.num_workers, made.batch_size) == (0, 3)
        assert len(list(made)) == 2
    assert (loader.persistent_workers, loader.timeout, loader.prefetch_factor) == (False, 0, None)


def test_wrong_options_fail_as_ever() -> None:
    """Misspelt or missing ones, with Python's own error."""
    with samebits.pinned(factors=["data-workers"]):
        for wrong in ({"num_worker": 2}, {"dataset": DATA, "workers": 1}):
            with pytest.raises(TypeError):
                DataLoader(**wrong)  # type: ignore[arg-type]


def test_the_signature_is_the_original_one() -> None:
    """Lightning reads it to make a loader again."""
    expected = inspect.signature(DataLoader.__init__), inspect.signature(DataLoader)
    with samebits.pinned(factors=["data-workers"]):
        assert (inspect.signature(DataLoader.__init__), inspect.signature(DataLoader)) == expected
        assert DataLoader.__init__.__name__ == "__init__"


class Loader(DataLoader[Any]):
    """A program's own loader."""

    def __init__(self, workers: int) -> None:
        super().__init__(DATA, num_workers=workers)


def test_subclasses_are_treated_once_and_witnessed_at_their_line() -> None:
    """The line that calls DataLoader's own constructor; one line can be released."""
    with watched("data-workers", "pinned") as seen:
        line = here() + 1
        loaders = [DataLoader(DATA, num_workers=1), Loader(1)]
    released = ((__file__, Loader.__init__.__code__.co_firstlineno + 1),)
    with treated("data-workers", released=released, variant=2):
        others = [DataLoader(DATA, num_workers=1), Loader(1)]

    assert [loader.num_workers for loader in loaders] == [1, 1]
    assert lines(seen) == [line, Loader.__init__.__code__.co_firstlineno + 1]
    assert [loader.num_workers for loader in others] == [1, 3]
