"""memory-addresses: sets of tensors and modules have an order that no address decides; addresses can be fixed."""

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from samebits.factors import memory_addresses
from samebits.factors.context import FactorContext, Mode, Setting
from samebits.factors.memory_addresses import MemoryAddresses, _Numbers, is_fixed, may_fix
from samebits.runfolder.spec import RunSpec

FACTOR = MemoryAddresses()


def library() -> Any:
    """A module with two classes that hash as those of torch do."""

    class Tensor:
        def __hash__(self) -> int:
            return id(self)

    class Module:
        pass

    class Parameter(Tensor):
        pass

    return SimpleNamespace(Tensor=Tensor, Parameter=Parameter, nn=SimpleNamespace(Module=Module))


def numbered(mode: Mode = "pinned", variant: int = 1) -> tuple[Any, FactorContext, _Numbers]:
    context = FactorContext(FACTOR.name, Setting(mode, variant=variant))
    numbers = _Numbers(context, (lambda n: n) if mode == "pinned" else lambda n: context.derive_varied(n) >> 2)
    made = library()
    numbers.install(made)
    return made, context, numbers


def order(mode: Mode, variant: int = 1, count: int = 8) -> list[int]:
    made, _, _ = numbered(mode, variant)
    things = [made.Parameter() for _ in range(count)]
    return [things.index(thing) for thing in set(things)]


def test_pinned_sets_have_the_order_of_first_hashing() -> None:
    """Wherever the objects lie."""
    assert order("pinned") == order("pinned") == list(range(8))


def test_varied_sets_have_other_orders() -> None:
    """Twenty variants of eight members are hardly ever alike, and each repeats."""
    orders = [tuple(order("varied", variant)) for variant in range(1, 21)]

    assert len(set(orders)) >= 19
    assert order("varied", 3) == list(orders[2])


def test_subclasses_and_modules_are_numbered_and_other_classes_are_not() -> None:
    """A hash of a class's own is the class's own."""
    made, _, _ = numbered()

    class Own(made.nn.Module):  # type: ignore[misc]
        def __hash__(self) -> int:
            return 77

    assert [hash(made.nn.Module()), hash(made.Parameter()), hash(Own())] == [1, 2, 77]
    assert made.nn.Module() != made.nn.Module()


def test_a_number_stays_as_long_as_the_object_and_nothing_is_held() -> None:
    """What takes the place of an object in memory is another object, and the table does not grow."""
    made, _, numbers = numbered()
    kept = made.Tensor()
    first = hash(kept)
    seen = set()
    for _ in range(100):
        seen.add(hash(made.Tensor()))
    gc.collect()

    assert hash(kept) == first
    assert len(seen) == 100
    assert len(numbers.known) == 1


def test_threads_agree_on_one_number() -> None:
    """However many hash an object for the first time at once."""
    made, _, _ = numbered()
    things = [made.Tensor() for _ in range(200)]
    gate = threading.Barrier(4)

    def hashes() -> list[int]:
        gate.wait()
        return [hash(thing) for thing in things]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: hashes(), range(4)))

    assert found == [found[0]] * 4


def test_what_has_a_number_keeps_it_after_the_pin() -> None:
    """A set made while it was pinned finds its members afterwards; without such members nothing is left."""
    made, context, _ = numbered()
    thing = made.Tensor()
    found = {thing}
    context.end()
    later = made.Tensor()

    assert thing in found
    assert hash(later) == id(later)

    made, context, _ = numbered()
    context.end()
    assert "__hash__" not in vars(made.nn.Module)
    other = made.Tensor()
    assert hash(other) == id(other)


def test_after_the_import_of_torch_it_is_too_late() -> None:
    """Dictionaries that hold tensors by their addresses must find them; so that is said, and nothing is changed."""
    import torch

    before = torch.Tensor.__hash__
    context = FactorContext(FACTOR.name, Setting("pinned"))
    FACTOR.apply(context)
    seen = FACTOR.observe(context)
    context.end()

    assert torch.Tensor.__hash__ is before
    assert (seen.held, seen.can_pin) == (False, False)
    assert "imported before" in FACTOR.verify(context)


def test_addresses_are_fixed_for_what_is_started_and_for_nobody_else(tmp_path: Path) -> None:
    """`samebits run` gives a program the same addresses each time; this process keeps its own setting."""
    if not may_fix():
        pytest.skip("this system does not let programs fix addresses")
    script = tmp_path / "where.py"
    script.write_text("print(id(object()), [id([]) for _ in range(3)])\n")
    before = is_fixed()
    command = [sys.executable, "-m", "samebits", "run", "--no-record"]

    def run(*pins: str) -> str:
        return subprocess.check_output([*command, *pins, str(script)], text=True, cwd=tmp_path)

    fixed = {run("--pin", "memory-addresses", "--pin", "hash-seed") for _ in range(2)}
    random = {run("--pin", "hash-seed") for _ in range(2)}

    assert len(fixed) == 1
    assert len(random) == 2 or before
    assert is_fixed() == before


def test_where_it_is_refused_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers may forbid the system call; the program is started all the same."""
    real = memory_addresses._personality
    asked: list[int] = []

    def refusing(wanted: int) -> int | None:
        asked.append(wanted)
        return real(wanted) if wanted == memory_addresses.ASK else None

    monkeypatch.setattr(memory_addresses, "_personality", refusing)
    with RunSpec(settings={FACTOR.name: Setting("pinned")}).starting():
        inside = is_fixed()
    seen = FACTOR.observe(FactorContext(FACTOR.name, Setting("pinned")))

    assert asked[1] & memory_addresses.ADDR_NO_RANDOMIZE
    assert inside == is_fixed()
    if not inside:
        assert "does not let programs fix them" in seen.value


def test_the_hash_is_given_back_with_the_last_that_was_numbered() -> None:
    """What was hashed once keeps its number while it lives, and no longer is anything of the pin left."""
    made, context, _ = numbered()
    before = vars(library().Tensor)["__hash__"].__code__
    thing, other = made.Tensor(), made.nn.Module()
    found = {thing, other}
    context.end()
    is_left = "__hash__" in vars(made.nn.Module)
    del thing, other, found
    gc.collect()

    assert is_left
    assert "__hash__" not in vars(made.nn.Module)
    assert vars(made.Tensor)["__hash__"].__code__ is before


def test_a_finalizer_finds_its_object_in_a_set() -> None:
    """The garbage collector has cleared references to it by then; the next object at its address has a new number."""
    made, _, numbers = numbered()
    removed = []

    class Node(made.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, nodes: set[object]) -> None:
            self.nodes, self.itself = nodes, self
            nodes.add(self)

        def __del__(self) -> None:
            self.nodes.remove(self)
            removed.append(hash(self))

    nodes = [Node(set()) for _ in range(50)]
    hashes = [hash(node) for node in nodes]
    del nodes
    gc.collect()
    again = [hash(Node(set())) for _ in range(50)]

    assert sorted(removed[:50]) == sorted(hashes)
    assert not {*again} & {*hashes}
    del again
    gc.collect()
    assert not numbers.known


FUNCTIONS = """import {first}
def flip(): pass
def scale(): pass
known = {{flip: "flip", scale: "scale"}}
import samebits
samebits.pin(factors=["memory-addresses"])
print(hash(flip), hash(scale), hash(lambda: 0), known[flip], hash(len) > 99, hash({first}.dumps) > 99)
"""


def test_functions_are_numbered_before_the_script_begins(tmp_path: Path) -> None:
    """Those of the script only; a pin in the middle of it leaves them, since they may lie in a dictionary by then."""
    script = tmp_path / "train.py"
    script.write_text(FUNCTIONS.format(first="json"))
    own = [sys.executable, "-m", "samebits", "run", "--no-record", "--pin", "memory-addresses", str(script)]

    pinned = subprocess.check_output(own, text=True, cwd=tmp_path)
    late = subprocess.check_output([sys.executable, str(script)], text=True, cwd=tmp_path)

    assert pinned.split() == ["1", "2", "3", "flip", "True", "True"]
    assert late.split()[3:] == ["flip", "True", "True"]
    assert min(map(int, late.split()[:3])) > 99


SCATTERED = """import json, sys
from samebits.factors.context import Setting
from samebits.factors.pinning import treat
treat({"memory-addresses": Setting("pinned", probed=sys.argv[1] == "probed")}, 0)
import asyncio, email.mime.text, http.client, sqlite3, unittest.mock, xml.dom.minidom
class Slot:
    __slots__ = ("key",)
slots = [Slot() for _ in range(300)]
print(sorted(range(300), key=lambda at: id(slots[at])))
"""


def test_probed_addresses_differ_in_their_low_bits_too(tmp_path: Path) -> None:
    """A page moves by itself, but what lies where within it follows from what was allocated before, as by imports."""
    script = tmp_path / "train.py"
    script.write_text(SCATTERED)

    def seen(how: str) -> set[str]:
        environ = {**os.environ, "PYTHONHASHSEED": "0"}
        return {subprocess.check_output([sys.executable, str(script), how], text=True, env=environ) for _ in range(4)}

    assert len(seen("probed")) == 4
    assert len(seen("plain")) < 4
