"""pin(), pinned(), status(): what they promise whatever the factor is."""

import os
import random
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import samebits
from samebits.base.errors import TooLateError, TooLateWarning, UnknownFactorError, UsageError
from samebits.factors.catalog import CATALOG, names
from samebits.factors.context import Setting
from samebits.factors.pinning import _active, adopt, line_of_refusal, settings_for, treat
from tests.factors.contexts import python

SOURCE = Path(samebits.__file__).parents[1]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Every test puts back what it pinned."""
    before = random.getstate(), time.time, os.listdir
    yield
    while _active:
        _active.pop().undo()
    assert (random.getstate(), time.time, os.listdir) == before
    assert isinstance(time.time, type(len))


# What is asked for


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"factors": "clock"}, UsageError, "factors takes a list of names, got the string 'clock'"),
        ({"factors": ["clok"]}, UnknownFactorError, "there is no factor 'clok'"),
        ({"factors": ["clock", 3]}, UnknownFactorError, "there is no factor 3"),
        ({"factors": [None]}, UnknownFactorError, "there is no factor None"),
        ({"values": {"clok": 1}}, UnknownFactorError, "there is no factor 'clok'"),
        ({"values": {"clock": 1}}, UsageError, "clock takes no value, got '1'"),
        ({"values": {"cpu-threads": 0}}, UsageError, "cpu-threads takes a number of threads, got '0'"),
        ({"seed": "0"}, UsageError, "seed takes a whole number, got '0'"),
        ({"seed": 1.5}, UsageError, "seed takes a whole number, got 1.5"),
        ({"seed": None}, UsageError, "seed takes a whole number, got None"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """One sentence with the value, before anything is changed; the error is a ValueError for whoever catches those."""
    for call in (samebits.pin, lambda **given: samebits.pinned(**given).__enter__()):
        with pytest.raises(error) as caught:
            call(**arguments)
        assert str(caught.value).startswith(message)
        assert isinstance(caught.value, ValueError)
        # A string is a list of letters to Python; the hint shows the list that was meant.
        assert arguments.get("factors") != "clock" or caught.value.hint == "write ['clock']"
    assert _active == []


def test_any_collection_of_names_and_any_whole_number_will_do() -> None:
    """Tuples, sets, generators; NumPy's integers, negative and huge seeds."""
    import numpy as np

    found = []
    for factors in (("python-rng",), {"python-rng"}, iter(["python-rng"]), ["python-rng"] * 2, {"python-rng": 1}):
        with samebits.pinned(seed=np.int64(3), factors=factors):  # type: ignore[arg-type]
            found.append(random.random())
    for seed in (-3, 2**200, True):
        with samebits.pinned(seed=seed, factors=["python-rng"]):
            found.append(random.random())
    with samebits.pinned(seed=3, factors=["python-rng"]):
        assert random.random() == found[0]
    with samebits.pinned(factors=[]):
        pass

    assert len(set(found[:5])) == 1
    assert len(set(found)) == 4


def test_by_default_what_the_catalogue_says_is_pinned() -> None:
    """And a value pins its factor, too."""
    default = settings_for(None)
    asked = settings_for(["clock"], {"cpu-threads": "4"})

    assert list(default) == [factor.name for factor in CATALOG if factor.pinned_by_default]
    assert asked == {"clock": Setting("pinned"), "cpu-threads": Setting("pinned", "4")}
    assert {"clock", "os-entropy"}.isdisjoint(default)


# Too late


@pytest.mark.parametrize(("strict", "error"), [(True, TooLateError), (False, TooLateWarning)])
@pytest.mark.filterwarnings("error::samebits.TooLateWarning")
def test_a_pin_that_fails_puts_back_what_was_pinned(strict: bool, error: type[Exception]) -> None:
    """Raised by `strict`, or under `python -W error`: factors before the late one in the catalogue, and after it."""
    before = random.getstate(), dict(os.environ), os.listdir
    with pytest.raises(error, match="hash-seed could not be pinned"):
        samebits.pin(factors=["python-rng", "hash-seed", "file-order", "cublas-workspace"], strict=strict)

    assert (random.getstate(), dict(os.environ)) == before[:2]
    assert os.listdir is before[2]
    assert _active == []


def test_the_warning_points_at_the_users_line() -> None:
    """Not at samebits, and not at contextlib."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        samebits.pin(factors=["hash-seed"])
        with samebits.pinned(factors=["hash-seed"]):
            pass
        samebits.pinned(factors=["hash-seed"])(int)()

    assert [(w.category, w.filename) for w in told] == [(TooLateWarning, __file__)] * 3
    assert "start with `samebits run train.py`" in str(told[0].message)


def test_an_error_halfway_puts_back_the_first_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a factor fails to be pinned, those before it are undone."""

    def fail(self: Any, context: Any) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr("samebits.factors.file_order.FileOrder.treat", fail)
    with pytest.raises(RuntimeError, match="no such luck"):
        samebits.pin(factors=["clock", "file-order"])

    assert isinstance(time.time, type(len))
    assert _active == []


# pin and pinned together


def test_a_pin_inside_a_block_ends_with_the_block() -> None:
    """Otherwise leaving the block would take away half of it, and status() would claim the rest."""
    with samebits.pinned(factors=["python-rng"]):
        samebits.pin(factors=["clock"])
        inside = samebits.status()["clock"].mode
    after = samebits.status()

    assert inside == "pinned"
    assert [status.name for status in after if status.mode != "natural"] == []


def test_a_pin_outlives_a_block_inside_it() -> None:
    """Leaving the block goes back to the pin, not to nature."""
    samebits.pin(seed=1, factors=["python-rng", "clock"])
    first = random.random()
    with samebits.pinned(seed=2, factors=["python-rng", "clock"]):
        other = random.random()
    second = random.random()
    mode = samebits.status()["clock"].mode
    _active.pop().undo()
    with samebits.pinned(seed=1, factors=["python-rng"]):
        assert (random.random(), random.random()) == (first, second)

    assert other not in (first, second)
    assert mode == "pinned"


def test_pinned_is_a_decorator_too() -> None:
    """Every call is pinned afresh."""

    @samebits.pinned(seed=3, factors=["python-rng"])
    def draw() -> float:
        return random.random()

    assert draw() == draw()


def test_what_is_raised_in_the_block_is_what_comes_out() -> None:
    """The same exception object, with its cause, also when it is no Exception at all."""
    for kind in (ValueError, KeyboardInterrupt, SystemExit, StopIteration, GeneratorExit):
        error = kind("x")
        with pytest.raises((kind, RuntimeError)) as caught, samebits.pinned(factors=["python-rng"]):
            raise error
        assert caught.value is error


# status()


def test_status_imports_nothing_and_changes_nothing() -> None:
    """Asked first thing in a process, it tells what can be known without torch."""
    code = """
import samebits
from samebits import status
before = set(sys.modules)
found = status()
print(json.dumps([
    sorted({name.partition(".")[0] for name in sys.modules} & {"torch", "numpy"}),
    {s.name: [s.mode, s.observation.held] for s in found},
    "samebits" in sys.modules,
]))
"""
    loaded, modes, _ = python(code)

    assert loaded == []
    assert list(modes) == names()
    assert {mode for mode, _ in modes.values()} == {"natural"}
    assert modes["torch-algorithms"] == ["natural", None]


def test_status_is_a_table_and_a_sequence() -> None:
    """By name, in order, as text; an unknown name is an error with a suggestion."""
    with samebits.pinned(factors=["clock"]) as given:
        found = samebits.status()

    assert found["clock"] == given["clock"]
    assert found["clock"].is_pinned
    assert not found["os-entropy"].is_pinned
    assert [status.name for status in found] == names()
    assert len(str(found).splitlines()) == len(names())
    assert "clock" in str(found)
    assert "a logical clock" in str(found)
    with pytest.raises(UnknownFactorError, match="clok"):
        found["clok"]


def test_a_treatment_from_outside_is_told() -> None:
    """What `samebits run` pinned before the program began, and what the program pinned over it."""
    treatment = treat({"clock": Setting("varied"), "file-order": Setting("pinned")}, 0)
    adopt(treatment)
    with samebits.pinned(factors=["clock"]):
        inside = samebits.status()
    outside = samebits.status()
    _active.remove(treatment)
    treatment.undo()
    treatment.undo()

    assert (inside["clock"].mode, inside["file-order"].mode) == ("pinned", "pinned")
    assert (outside["clock"].mode, outside["clock"].observation.value) == ("varied", "shifted by days, at another pace")


# Without torch, and with torch on the way

DRAW = """
import torch, numpy as np, random
def drawn():
    return [torch.rand(2).tolist(), np.random.rand(), random.random()]
"""


@pytest.mark.parametrize("how", ["-S", "blocked"])
def test_pin_works_where_torch_is_not_installed(how: str) -> None:
    """Everything else is pinned; torch's factors would be pinned if it came."""
    block = "sys.modules['torch'] = sys.modules['numpy'] = None\n" if how == "blocked" else ""
    code = f"""
{block}sys.path.insert(0, {str(SOURCE)!r})
import samebits, random
found = samebits.pin(strict=True)
first = random.random()
samebits.pin()
print(json.dumps([first == random.random(), found["torch-rng"].observation.value, "torch" in sys.modules]))
"""
    same, value, loaded = python(code, *(["-S"] if how == "-S" else []), PYTHONHASHSEED="0")

    assert same
    assert value == "torch is not loaded; it will be seeded when it is"
    assert loaded == (how == "blocked")


def test_pin_first_thing_or_after_the_imports_gives_the_same_numbers() -> None:
    """What a module draws while it is imported has no influence on the streams; and nobody else draws the same."""
    pins = "import samebits\nsamebits.pin(seed=3)\n"
    first = python(f"{pins}{DRAW}print(json.dumps(drawn()))", PYTHONHASHSEED="0")
    free, last = python(f"{DRAW}free = drawn()\n{pins}print(json.dumps([free, drawn()]))", PYTHONHASHSEED="0")

    assert first == last
    assert all(a != b for a, b in zip(first, free, strict=True))


def test_ranks_come_from_torch_distributed_when_it_is_initialised(tmp_path: Path) -> None:
    """It knows better than the variables, which a launcher may have left from something else."""
    code = f"""
import samebits, random, torch
from samebits.base.ranks import current_rank
before = [current_rank()]
given = dict(RANK=os.environ.pop("RANK"), WORLD_SIZE=os.environ.pop("WORLD_SIZE"))
os.environ["LOCAL_RANK"] = "5"
before.append(current_rank())
os.environ |= given
torch.distributed.init_process_group("gloo", init_method="file://{tmp_path}/store", rank=0, world_size=1)
print(json.dumps([*before, current_rank()]))
torch.distributed.destroy_process_group()
"""
    assert python(code, RANK="5", WORLD_SIZE="8") == [5, None, 0]


@pytest.mark.parametrize("rank", ["", "x", "-1", "1.5"])
def test_a_rank_that_is_no_number_is_no_rank(rank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Per-rank streams of a single process are the streams of everybody."""
    monkeypatch.setenv("RANK", rank)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    with samebits.pinned(factors=["python-rng"], per_rank=True):
        own = random.random()
    with samebits.pinned(factors=["python-rng"]):
        assert random.random() == own


def test_errors_that_are_nobodys_doing_have_no_line() -> None:
    """Without a pin, or without a line of the user's, nothing is claimed."""
    error = RuntimeError("x does not have a deterministic implementation")
    with samebits.pinned(factors=["torch-algorithms"]):
        without_line = line_of_refusal(error)

    assert line_of_refusal(error) == without_line == ""
