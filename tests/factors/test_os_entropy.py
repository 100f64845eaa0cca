"""os-entropy: everything that asks the operating system for random numbers."""

import copy
import inspect
import os
import pickle
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import samebits
from samebits.factors.lineage import Lineage
from tests.factors.contexts import here, lines, treated, watched


def seeded_python() -> float:
    random.seed()
    return random.random()


def seeded_numpy() -> float:
    np.random.seed()
    # NumPy leaves the position in its block of numbers as it was.
    np.random.set_state((*np.random.get_state()[:2], 0))  # type: ignore[index,misc]
    return float(np.random.rand())


def seeded_torch() -> tuple[int, float]:
    return torch.seed(), torch.rand(1).item()


def seeded_generator() -> tuple[int, float]:
    generator = torch.Generator()
    return generator.seed(), torch.rand(1, generator=generator).item()


@pytest.mark.parametrize("seed", [seeded_python, seeded_numpy, seeded_torch, seeded_generator])
def test_seeding_without_a_seed_asks_the_operating_system(seed: Callable[[], Any]) -> None:
    """`seed()` looks like a cure and is none: the blame goes to the line that called it, not to the draws after it."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        with watched("os-entropy", "pinned") as seen:
            first = seed()
        with treated("os-entropy"):
            second = seed()
        with treated("os-entropy", "varied"):
            third = seed()
        with watched("python-rng") as not_blamed, watched("numpy-rng"), watched("torch-rng"):
            seed()
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])

    line = seed.__code__.co_firstlineno + (2 if seed is seeded_generator else 1)
    assert first == second != third
    assert lines(seen) == [line]
    assert not_blamed == []


def test_a_generator_keeps_its_class_and_its_method() -> None:
    """`Generator.seed` is treated in place: the class, its signature of errors, and other methods are as ever."""
    plain = torch.Generator
    with samebits.pinned(factors=["os-entropy"]):
        generator = torch.Generator()
        assert type(generator) is torch.Generator is plain
        assert generator.seed() == generator.initial_seed()
        assert torch.Generator.seed.__name__ == "seed"
        with pytest.raises(TypeError):
            generator.seed(3)  # type: ignore[call-arg]
    assert generator.seed() != generator.seed()
    assert type(plain.seed).__name__ == "method_descriptor"


def test_an_accelerator_is_seeded_when_it_is_first_used() -> None:
    """`torch.cuda.seed()` waits in torch's queue where no device is in use, with the derived seed in it."""
    if torch.cuda.is_initialized():
        pytest.skip("the device is in use")
    queue = vars(torch.cuda._lazy_seed_tracker)
    before = dict(queue)

    def waiting() -> Any:
        with treated("os-entropy"):
            torch.cuda.seed()
        *_, call = (call for call in queue["call_order"] if call)
        return inspect.getclosurevars(call[0]).nonlocals["seed"]

    try:
        seeds = [waiting(), waiting()]
    finally:
        queue.update(before)

    assert seeds[0] == seeds[1]
    assert isinstance(seeds[0], int)


WITH_SEEDS: list[Callable[[], Any]] = [
    lambda: random.Random(3).random(),
    lambda: random.Random("x").random(),
    lambda: np.random.default_rng(3).random(),
    lambda: np.random.SeedSequence(3).entropy,
    lambda: torch.Generator().manual_seed(3).initial_seed(),
    lambda: torch.rand(2, generator=torch.Generator()).tolist(),
]


@pytest.mark.parametrize("make", WITH_SEEDS)
def test_generators_made_with_a_seed_are_left_alone(make: Callable[[], Any]) -> None:
    """Seeded, they give the same numbers whatever is done to the entropy, and are not witnessed."""
    expected = make()
    for mode in ("natural", "pinned", "varied"):
        with watched("os-entropy", mode) as seen:  # type: ignore[arg-type]
            assert make() == expected
        assert seen == []


def test_a_legacy_generator_with_a_seed_asks_and_throws_away() -> None:
    """A known limit: NumPy makes `RandomState(3)` unseeded first, so it is witnessed; its numbers are the seed's."""
    expected = np.random.RandomState(3).rand()
    with watched("os-entropy", "varied") as seen:
        assert np.random.RandomState(3).rand() == expected

    assert lines(seen) == [here() - 2]


def test_sizes_and_errors_are_those_of_the_original() -> None:
    """Any number of bytes, none included; what is no size fails as it always does."""
    with samebits.pinned(factors=["os-entropy"]):
        assert [len(os.urandom(size)) for size in (0, 1, 63, 64, 65, 1000)] == [0, 1, 63, 64, 65, 1000]
        for wrong in (-1, "8", None):
            with pytest.raises((TypeError, ValueError)):
                os.urandom(wrong)  # type: ignore[arg-type]


def test_pinned_bytes_look_random() -> None:
    """No two blocks alike, and bits set half of the time."""
    with samebits.pinned(factors=["os-entropy"]):
        chunk = os.urandom(1 << 16)

    blocks = {chunk[i : i + 64] for i in range(0, len(chunk), 64)}
    ones = sum(byte.bit_count() for byte in chunk)
    assert len(blocks) == 1 << 10
    assert abs(ones - (1 << 18)) < 5 * (1 << 9)


def test_background_threads_do_not_shift_what_this_one_gets() -> None:
    """Every function that asks has a stream of its own."""

    def program(threads: int) -> list[bytes]:
        found = [os.urandom(4)]
        for _ in range(threads):
            asking = threading.Thread(target=uuid.uuid4)
            asking.start()
            asking.join()
        return [*found, os.urandom(4)]

    with samebits.pinned(factors=["os-entropy"]):
        alone = program(0)
    with samebits.pinned(factors=["os-entropy"]):
        together = program(3)

    assert alone == together


PROCESSES = """
import multiprocessing, os, sys, samebits
def ask(_):
    if sys.argv[1] == "fork":
        return os.urandom(4).hex()
    with samebits.pinned(factors=["os-entropy"]):
        return os.urandom(4).hex()
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with samebits.pinned(factors=["os-entropy"]):
        found = [os.urandom(4).hex()]
        for _ in range(2):
            with context.Pool(1) as pool:
                found += pool.map(ask, [0])
        if os.fork() == 0:
            print(os.urandom(4).hex(), flush=True)
            os._exit(0)
        os.wait()
        print(*found, os.urandom(4).hex())
"""


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_every_process_has_streams_of_its_own(start: str, tmp_path: Path) -> None:
    """Ranks, workers and forked children: what is unique stays unique, and the next run gives each the same."""
    script = tmp_path / "ask.py"
    script.write_text(PROCESSES)

    def run(rank: str) -> list[str]:
        command = [sys.executable, str(script), start]
        return subprocess.check_output(command, env={**os.environ, "RANK": rank}, text=True).split()

    first, again, other = run("0"), run("0"), run("1")

    assert first == again
    assert len({*first, *other}) == 10


def test_pinning_many_times_leaves_no_hook_behind() -> None:
    """Python never forgets what is to be called at a fork, so there is one for the process."""
    with samebits.pinned(factors=["os-entropy"]):
        one = Lineage.of_process()
    with samebits.pinned(factors=["os-entropy"]):
        another = Lineage.of_process()

    assert one is another


def test_subclasses_of_random_keep_their_seeding() -> None:
    """A subclass that seeds itself in its own way is asked, and SystemRandom is never seeded."""

    class Fixed(random.Random):
        def seed(self, a: Any = None, version: int = 2) -> None:
            super().seed(42)

    expected = random.Random(42).random()
    with watched("os-entropy", "pinned") as seen:
        drawn = Fixed().random()
        random.SystemRandom().seed(3)

    assert drawn == expected
    assert seen == []


def test_generators_survive_copying_and_pickling() -> None:
    """Unpickling makes an unseeded generator first, and its state is set at once."""
    generator = random.Random(3)
    expected = random.Random(3).random()
    with samebits.pinned(factors=["os-entropy"]):
        twins = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator)), copy.copy(generator)]

    assert [twin.random() for twin in twins] == [expected] * 3


def drawn_in_sql(connect: Callable[[str], sqlite3.Connection] | None = None) -> list[object]:
    database = (connect or sqlite3.connect)(":memory:")
    drawn = "random(), abs(RANDOM() % 1000) < 1000, hex(randomblob(9)), randomblob(NULL), randomblob('3 bytes')"
    return list(database.execute(f"SELECT {drawn}"))


def test_what_sql_draws_repeats() -> None:
    """Pinned, every connection draws the same again; varied, something else; the line of the query is witnessed."""
    with watched("os-entropy", "pinned") as seen:
        first = drawn_in_sql()
    with treated("os-entropy"):
        again = drawn_in_sql(sqlite3.dbapi2.connect)
    with treated("os-entropy", "varied"):
        other = drawn_in_sql()
    with watched("os-entropy") as natural:
        free = [drawn_in_sql(), drawn_in_sql()]

    assert first == again
    assert len({str(one) for one in (first, other, *free)}) == 4
    (number, fits, text, *blobs) = first[0]  # type: ignore[misc]
    assert (type(number), fits, len(text), [len(blob) for blob in blobs]) == (int, 1, 18, [1, 3])
    assert [(one.what, one.site and one.site.function) for one in seen] == [("RANDOM()", "drawn_in_sql")]
    assert lines(natural) == lines(seen)


def test_sql_that_draws_nothing_is_no_witness() -> None:
    """A database that is only read says nothing about the operating system, and connections are SQLite's own."""
    with watched("os-entropy") as seen:
        database = sqlite3.connect(":memory:")
        rows = database.execute("SELECT 1").fetchall()

    assert (type(database), rows, seen) == (sqlite3.Connection, [(1,)], [])


def test_temporary_files_can_still_be_made(tmp_path: Path) -> None:
    """Their names come from entropy: two runs that pin it make the same ones, and step aside for each other."""
    with watched("os-entropy", "pinned") as seen:
        names = [tempfile.mkdtemp(dir=tmp_path) for _ in range(2)]
        line = here() - 1
    tempfile._name_sequence = None  # type: ignore[attr-defined]  # as in a new process
    with samebits.pinned(factors=["os-entropy"]):
        more = [tempfile.mkdtemp(dir=tmp_path) for _ in range(2)]

    assert len({*names, *more}) == 4
    assert lines(seen) == [line]


def test_a_temporary_folder_that_stays_moves_no_other_name(tmp_path: Path) -> None:
    """Its own name is taken in the next run; every other call gets the one that it had, and is witnessed by itself."""

    def program() -> tuple[str, str]:
        kept = tempfile.mkdtemp(dir=tmp_path)
        with tempfile.TemporaryDirectory(dir=tmp_path) as passing:
            return kept, passing

    with watched("os-entropy", "pinned") as seen:
        kept, passing = program()
    with samebits.pinned(factors=["os-entropy"]):
        again = program()
    with treated("os-entropy", released=((__file__, program.__code__.co_firstlineno + 2),)):
        released = program()

    start = program.__code__.co_firstlineno
    assert [(one.what, one.site and one.site.line) for one in seen] == [
        ("tempfile.mkdtemp", start + 1),
        ("tempfile.TemporaryDirectory", start + 2),
    ]
    assert again[0] != kept
    assert again[1] == passing != released[1]
