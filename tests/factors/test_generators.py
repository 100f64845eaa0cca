"""python-rng, numpy-rng, torch-rng: pinned, varied, witnessed while unseeded, released line by line."""

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader

import samebits
from tests.factors.contexts import here, lines, treated, watched

DRAWS: dict[str, Callable[[], Any]] = {
    "python-rng": lambda: [random.random() for _ in range(8)],
    "numpy-rng": lambda: np.random.rand(8).tolist(),
    "torch-rng": lambda: torch.rand(8, dtype=torch.float64).tolist(),
}
SEEDS: dict[str, Callable[[int], Any]] = {
    "python-rng": lambda seed: random.seed(seed),
    "numpy-rng": lambda seed: np.random.seed(seed),
    "torch-rng": lambda seed: torch.manual_seed(seed),
}
PROGRAM = "/home/user/program.py"
each_generator = pytest.mark.parametrize("factor", DRAWS)


def drawn(factor: str, mode: Any = "pinned", **setting: Any) -> Any:
    with treated(factor, mode, **setting):
        return DRAWS[factor]()


@each_generator
def test_a_program_that_seeds_first_sees_nothing(factor: str) -> None:
    """Whatever is done to a generator before it is seeded, the numbers after seeding are the seed's."""
    SEEDS[factor](7)
    expected = DRAWS[factor]()

    for mode in ("pinned", "varied"):
        with watched(factor, mode) as seen:
            SEEDS[factor](7)
            assert DRAWS[factor]() == expected
        assert seen == []


def test_the_three_streams_are_independent() -> None:
    """One seed does not give NumPy, torch and Python the same numbers, as the usual recipes do."""
    with samebits.pinned(seed=0, factors=list(DRAWS)):
        python = [random.getrandbits(8) for _ in range(32)]
        numpy = np.random.randint(0, 256, 32).tolist()
        ours = torch.randint(0, 256, (32,)).tolist()
    np.random.seed(5)
    torch.manual_seed(5)
    recipe = np.random.randint(0, 256, 32).tolist(), torch.randint(0, 256, (32,)).tolist()

    for a, b in ((python, numpy), (numpy, ours), (python, ours)):
        assert sum(x == y for x, y in zip(a, b, strict=True)) <= 2
    assert recipe[0] == recipe[1], "the planted failure: one number for both gives both the same stream"


@each_generator
def test_ranks_share_a_stream_unless_asked_otherwise(factor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default every rank builds the same parameters; with per_rank each has a stream of its own.

    Two nodes have a local rank 0 each: the global one decides.
    """

    def on(per_rank: bool, **variables: str) -> Any:
        for name in ("RANK", "LOCAL_RANK"):
            monkeypatch.delenv(name, raising=False)
        for name, rank in variables.items():
            monkeypatch.setenv(name, rank)
        with samebits.pinned(factors=[factor], per_rank=per_rank):
            return DRAWS[factor]()

    single = drawn(factor)
    own = [on(True, RANK="0"), on(True, RANK="1"), on(True, LOCAL_RANK="0", RANK="4")]

    assert on(False, RANK="1") == on(False, LOCAL_RANK="1") == single
    assert all(a != b for i, a in enumerate([single, *own]) for b in own[i:])
    assert on(True, LOCAL_RANK="1") == on(True, RANK="1") == own[1]


# Witnesses: the user's line, once, and only before the seed.


def test_witness_names_the_first_draw_of_a_line_once() -> None:
    """A line that draws a thousand times is one witness, with what was called first."""
    with watched("python-rng") as seen:
        for _ in range(3):
            start = here() + 1
            random.choice("ab"), random.random()
        random.seed(0)
        random.random()

    assert [(w.what, w.site.line) for w in seen if w.site] == [("random.choice", start)]
    assert seen[0].site is not None
    assert seen[0].site.path == __file__
    assert seen[0].site.function.endswith("test_witness_names_the_first_draw_of_a_line_once")


ALL_DRAWS: list[tuple[str, Callable[[], Any]]] = [
    ("python-rng", lambda: random.random()),
    ("python-rng", lambda: random.shuffle([1, 2, 3])),
    ("python-rng", lambda: random.sample(range(10), 3)),
    ("python-rng", lambda: random.gauss(0, 1)),
    ("python-rng", lambda: random.choices("ab", k=2)),
    ("python-rng", lambda: random.getrandbits(4)),
    ("python-rng", lambda: random.randbytes(2)),
    ("numpy-rng", lambda: np.random.rand(2)),
    ("numpy-rng", lambda: np.random.permutation(4)),
    ("numpy-rng", lambda: np.random.sample(3)),
    ("numpy-rng", lambda: np.random.mtrand._rand.randint(4)),
    ("torch-rng", lambda: torch.rand(2)),
    ("torch-rng", lambda: torch.empty(2).normal_()),
    ("torch-rng", lambda: torch.poisson(torch.ones(3))),
    ("torch-rng", lambda: torch.distributions.Gamma(torch.ones(2), torch.ones(2)).sample()),
    ("torch-rng", lambda: nn.Linear(2, 2)),
    ("torch-rng", lambda: nn.functional.dropout(torch.ones(8))),
    ("torch-rng", lambda: nn.init.trunc_normal_(torch.empty(3))),
    ("torch-rng", lambda: next(iter(DataLoader(torch.arange(4), shuffle=True)))),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("factor", "draw"), ALL_DRAWS)
@pytest.mark.parametrize("mode", ["natural", "pinned"])
def test_every_way_to_draw_is_witnessed(factor: str, draw: Callable[[], Any], mode: Any) -> None:
    """Whatever function of the library draws, in the open or deep inside, it is the user's line that is named."""
    with watched(factor, mode) as seen:
        draw()

    assert lines(seen) == [draw.__code__.co_firstlineno]


NO_DRAWS: list[tuple[str, Callable[[], Any]]] = [
    ("python-rng", lambda: random.SystemRandom().random()),
    ("python-rng", lambda: random.getstate()),
    ("numpy-rng", lambda: np.random.get_state()),
    ("torch-rng", lambda: torch.rand(2, generator=torch.Generator().manual_seed(1))),
    ("torch-rng", lambda: torch.poisson(torch.ones(2), generator=torch.Generator().manual_seed(1))),
    ("torch-rng", lambda: nn.functional.dropout(torch.ones(8), training=False)),
    ("torch-rng", lambda: nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 4, 8)] * 3)),
    ("torch-rng", lambda: torch.zeros(3) + 1),
]


@pytest.mark.parametrize(("factor", "call"), NO_DRAWS)
def test_what_does_not_draw_from_the_global_generator_is_not_witnessed(factor: str, call: Callable[[], Any]) -> None:
    """Generators of one's own, and operations that could draw and do not, concern no one."""
    with watched(factor) as seen:
        call()

    assert seen == []


@each_generator
def test_threads_and_generators_are_witnessed_at_their_line(factor: str) -> None:
    """Code that runs on a thread, in a generator, in a comprehension is the user's all the same."""
    draw = {"python-rng": "random.random()", "numpy-rng": "np.random.rand()", "torch-rng": "torch.rand(1)"}[factor]
    source = f"""
def in_generator():
    yield {draw}

list(in_generator())
[{draw} for _ in range(2)]
"""

    def in_thread() -> None:
        exec(compile(f"\n\n\n\n\n\n\n\n{draw}", PROGRAM, "exec"))

    thread = threading.Thread(target=in_thread)
    with watched(factor) as seen:
        exec(compile(source, PROGRAM, "exec"), globals() | {})
        thread.start()
        thread.join()

    # A limit of torch's dispatch modes: each thread has its own.
    assert lines(seen) == [3, 6, 9][: 2 if factor == "torch-rng" else 3]


@each_generator
def test_a_seed_that_is_taken_back_does_not_count(factor: str) -> None:
    """`with numpy_seed(0): …` saves the state, seeds, and restores: the draws after it are unseeded again."""

    def borrow() -> None:
        python, numpy = random.getstate(), np.random.get_state()
        with torch.random.fork_rng():
            for seed in SEEDS.values():
                seed(0)
            DRAWS[factor]()
        random.setstate(python)
        np.random.set_state(numpy)

    with watched(factor) as seen:
        borrow()
        DRAWS[factor]()
    with watched(factor) as none_seen:
        SEEDS[factor](1)
        borrow()
        DRAWS[factor]()

    assert lines(seen) == [DRAWS[factor].__code__.co_firstlineno]
    assert none_seen == []


@each_generator
def test_after_the_users_own_pinned_block_draws_are_witnessed_again(factor: str) -> None:
    """Our own context manager is one that takes its seed back."""
    with watched(factor) as seen:
        with samebits.pinned(factors=[factor]):
            DRAWS[factor]()
        DRAWS[factor]()

    assert lines(seen) == [DRAWS[factor].__code__.co_firstlineno]


@pytest.mark.parametrize("mode", ["natural", "pinned"])
def test_the_users_own_pin_counts_as_seeding(mode: Any) -> None:
    """Also where the run pins the same factor with the same seed, so that the state after it is the one before."""
    with watched("torch-rng", mode) as seen, samebits.pinned(factors=["torch-rng"]):
        torch.rand(1)

    assert seen == []


def test_other_ways_to_seed_count_as_seeding() -> None:
    """The generator's own method, a state from a checkpoint, another bit generator."""
    checkpoint = torch.Generator().manual_seed(3).get_state()
    own, state = np.random.get_bit_generator(), np.random.RandomState(1).get_state()
    ways: list[tuple[str, Callable[[], Any]]] = [
        ("torch-rng", lambda: torch.default_generator.manual_seed(torch.initial_seed() + 1)),
        ("torch-rng", lambda: torch.set_rng_state(checkpoint)),
        ("numpy-rng", lambda: np.random.set_state(state)),
        ("numpy-rng", lambda: np.random.set_bit_generator(np.random.PCG64(1))),
    ]
    for factor, seed in ways:
        with watched(factor) as seen:
            seed()
            DRAWS[factor]()
        assert seen == []
    np.random.set_bit_generator(own)


def test_a_draw_that_fails_fails_as_ever() -> None:
    """Errors of the drawing functions reach the user, and the next draw is right."""
    with watched("python-rng", "pinned"):
        with pytest.raises(IndexError):
            random.choice([])
        after = random.random()
    with treated("python-rng"):
        with pytest.raises(IndexError):
            random.choice([])
        expected = random.random()
    with watched("numpy-rng"), pytest.raises(ValueError, match="a"):
        np.random.choice([])

    assert after == expected


# Releasing one line: every other draw keeps the value it has when everything is pinned.


EXPRESSIONS = {
    "python-rng": (
        "random.random()",
        "random.shuffle(cards := list(range(52))) or cards",
        "random.sample(range(100), 9)",
        "random.gauss(0, 1)",
        "random.normalvariate(0, 1)",
        "random.gammavariate(0.5, 1)",
        "random.vonmisesvariate(0, 4)",
        "random.randrange(3 * 2**40)",
        "random.choices(range(9), k=3)",
    ),
    "numpy-rng": (
        "np.random.randn(3).tolist()",
        "np.random.standard_gamma(0.3)",
        "np.random.binomial(100, 0.3)",
        "np.random.zipf(1.5)",
        "np.random.permutation(9).tolist()",
        "np.random.shuffle(cards := list(range(52))) or cards",
        "np.random.choice(50, 5, replace=False).tolist()",
        "np.random.multivariate_normal([0, 0], [[1, 0], [0, 1]]).tolist()",
        "np.random.randint(0, 10**12)",
    ),
    "torch-rng": (
        "torch.randn(3).tolist()",
        "torch.randn(17).tolist()",
        "torch.randperm(9).tolist()",
        "torch.multinomial(torch.ones(9), 3).tolist()",
        "torch.empty(5).exponential_().tolist()",
        "torch.normal(torch.zeros(5), 1).tolist()",
        "nn.functional.dropout(torch.ones(9)).tolist()",
        "torch._standard_gamma(torch.full((3,), 0.3)).tolist()",
        "torch.randint(0, 2**40, (3,)).tolist()",
    ),
}
RELEASED: list[dict[str, Any]] = [{"released": ((PROGRAM, 2),), "variant": variant} for variant in (1, 2)]


def values(factor: str, expressions: list[str], **setting: Any) -> list[Any]:
    """What each line of a program gives."""
    with treated(factor, **setting):
        return values_here(expressions)


def values_here(expressions: list[str]) -> list[Any]:
    source = "\n".join(["values = []", *(f"values.append({text})" for text in expressions)])
    namespace: dict[str, Any] = {"random": random, "np": np, "torch": torch, "nn": nn}
    exec(compile(source, PROGRAM, "exec"), namespace)
    return list(namespace["values"])


@each_generator
@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_releasing_any_line_of_any_program_changes_no_other(factor: str, data: st.DataObject) -> None:
    """However many numbers a draw takes, and however it rejects: the lines after it find the stream where it was."""
    expressions = data.draw(st.lists(st.sampled_from(EXPRESSIONS[factor]), min_size=2, max_size=7))
    chosen = data.draw(st.integers(0, len(expressions) - 1))
    pinned = values(factor, expressions)
    released = values(factor, expressions, released=((PROGRAM, chosen + 2),), variant=2)

    # A shuffled list stays shuffled otherwise, so what is made of it later is not compared.
    apart = [
        i for i, (a, b) in enumerate(zip(pinned, released, strict=True)) if a != b and "cards" not in expressions[i]
    ]
    assert set(apart) <= {chosen}


@each_generator
def test_a_released_line_is_another_one_in_each_variant(factor: str) -> None:
    """And never the pinned one; watching alone changes nothing."""
    expressions = list(EXPRESSIONS[factor])
    pinned, *others = (values(factor, expressions, **asked) for asked in ({}, *RELEASED))
    with watched(factor, "pinned"):
        assert values_here(expressions) == pinned

    assert len({repr(found[0]) for found in (pinned, *others)}) == 3


def test_dropout_released_is_consistent_with_its_gradient() -> None:
    """Forward and backward use the same mask, the released one."""
    with treated("torch-rng", released=((__file__, here() + 2),)):
        x = torch.ones(64, requires_grad=True)
        y = nn.functional.dropout(x)
        y.sum().backward()

    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


@each_generator
def test_releasing_after_the_seed_changes_nothing(factor: str) -> None:
    """A line that draws from a seeded generator has nothing to be released from."""
    seed = {"python-rng": "random.seed(3)", "numpy-rng": "np.random.seed(3)", "torch-rng": "torch.manual_seed(3)"}
    expressions = [f"({seed[factor]}, 0)[1]", *EXPRESSIONS[factor][:3]]

    assert values(factor, expressions) == values(factor, expressions, released=((PROGRAM, 3),))


# Transparency of what stands in.


def test_the_watched_numpy_generator_is_a_generator() -> None:
    """scikit-learn takes it, pickle and copy carry it, and isinstance knows it."""
    import copy
    import pickle

    from sklearn.utils import check_random_state

    plain = np.random.rand
    with watched("numpy-rng") as seen:
        # numba looks functions up in a table of NumPy's.
        assert {plain: 1}[np.random.rand] == 1
        # It is a method: pickle takes the generator along.
        carried = pickle.loads(pickle.dumps(np.random.rand))
        generator = check_random_state(None)
        isinstance_holds = isinstance(generator, np.random.RandomState)
        copied, pickled = copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))
        start = here() + 1
        drawn = generator.rand(3).tolist()

    assert isinstance_holds
    assert isinstance(carried.__self__, np.random.RandomState)
    assert copied.rand(3).tolist() == pickled.rand(3).tolist() == drawn
    assert lines(seen) == [start]


def test_a_generator_of_ones_own_is_untouched() -> None:
    """Seeded generators, and subclasses of random.Random, draw what they always draw."""

    class Loaded(random.Random):
        def random(self) -> float:
            return 0.25

    def drawn() -> list[Any]:
        own = random.Random(3).random(), np.random.RandomState(3).rand(), np.random.default_rng(3).random()
        return [*own, Loaded(1).uniform(0, 4), Loaded(1).choice("abc")]

    expected = drawn()
    for mode in ("pinned", "varied"):
        with watched("python-rng", mode), watched("numpy-rng", mode):  # type: ignore[arg-type]
            assert drawn() == expected


def test_a_users_dispatch_mode_survives_the_watch() -> None:
    """Seeding inside a mode of the program's own neither removes that mode nor leaves ours broken."""
    from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

    class Counting(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.calls += 1
            return func(*args, **(kwargs or {}))

    with watched("torch-rng") as seen:
        with Counting() as counting:
            torch.rand(1)
            torch.manual_seed(0)
            torch.zeros(1) + 1
            with torch.random.fork_rng():
                torch.manual_seed(0)
            still_there = _get_current_dispatch_mode() is counting
        torch.rand(1)

    assert still_there
    assert counting.calls >= 3
    assert len(seen) == 1
    assert _get_current_dispatch_mode() is None
