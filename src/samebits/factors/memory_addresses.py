"""memory-addresses: where objects lie in memory, and so the order of sets of parameters and modules."""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import Any, ClassVar

from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext, Setting
from samebits.factors.own_objects import ObjectHashes

# <sys/personality.h>: a call with ASK reports the setting and changes nothing.
ADDR_NO_RANDOMIZE, ASK = 0x0040000, 0xFFFFFFFF


class MemoryAddresses(Factor):
    """`id()` is an address, and tensors, modules and objects of your own classes hash by it: sets have no order.

    `clip_grad_norm_(list(set(net.parameters())), 1.0)` adds the norms in another order in every run: the operating
    system moves the heap, and whatever was allocated before moves objects within it. Pinned, tensors, modules, the
    script's functions and objects of its classes (those without a hash of their own or `__slots__`) hash by the order
    in which they were first hashed; sets of them have the same order wherever they lie. `samebits run` also starts the
    command without address space randomisation (`personality(2)`, ADDR_NO_RANDOMIZE; Linux, where containers allow it),
    so that `id()` and sets of other objects repeat as far as the program and its hash seed do.
    A check leaves addresses random, and varies only the hashes: any treatment moves addresses, so what rests on them
    could be taken for another factor's doing. Only where runs diverge with all else pinned, and no factor can be named,
    it fixes addresses as well: where that helps, as with `sorted(key=id)`, sets of classes, and classes
    with a hash of their own, it names the lines that reading found.
    """

    name = "memory-addresses"
    scope = "environment"
    summary = "id() is an address, so sets of parameters or modules are iterated in a different order in every run"
    explanation = "the order of sets of objects, and their hash(), id() and repr(), depend on where these lie in memory"
    too_late = "the import of torch, for sets of tensors and modules; the interpreter's start, for id()"
    fix = "build a list or dict.fromkeys(...), which keep an order, instead of the set whose order counts at {place}"
    fix_unplaced = "go by names or positions, not by the order of sets of objects, nor by their hash(), id() or repr()"
    fixes: ClassVar = {
        "id()": "order by what is the same in every run, such as a name or a position, instead of id() at {place}",
        "hash()": "replace hash() at {place} by what is the same in every run, such as a position in a list",
    }
    varied_by_default = True
    found_statically = True
    held_in_part = True
    priced = ("pinned",)

    def starting(self, setting: Setting) -> AbstractContextManager[None]:
        return _addresses_fixed() if setting.mode == "pinned" else nullcontext()

    def treat(self, context: FactorContext) -> None:
        if context.mode == "natural":
            return
        if context.setting.probed:
            _scatter()
            # Again after the import, which fills the holes.
            context.when_loaded("torch", lambda torch: _scatter())
        # Never negative: for CPython, a hash of -1 is an error.
        _number(context, lambda number: number if context.mode == "pinned" else context.derive_varied(number) >> 2)

    def observe(self, context: FactorContext | None = None) -> Observation:
        where = _where_objects_lie(is_pinned_here=context is not None and context.mode == "pinned")
        if context is None:
            return Observation(where, False)
        torch = sys.modules.get("torch")
        if torch is not None and not _is_ours(torch.Tensor.__hash__):
            reason = "torch was imported before, so tensors may have been hashed by their addresses"
            return Observation(where, False, can_pin=False, reason=reason)
        order = "by number" if context.mode == "pinned" else "by other numbers"
        return Observation(f"tensors, modules, functions and objects of yours hash {order}; {where}", True)


# Blocks that stay allocated between the holes, and how many blocks Python had allocated by then.
_scattered: list[object] = []
_allocated = 0


def _scatter() -> None:
    """Leave holes at random places of the heap, so that also the low bits of addresses differ from run to run.

    Pages move by themselves, but the place of a small object within a page depends on the allocations before it.
    """
    global _allocated
    import posix
    import random

    chance = random.Random(posix.urandom(8))  # not `os`, which may be pinned
    # Python allocates each multiple of 16 bytes, up to 512, from pages of its own; `bytes` shorter than 2 are shared.
    blocks = [bytes(size) for size in range(2, 512 - sys.getsizeof(b""), 16) for _ in range(256)]
    chance.shuffle(blocks)
    _scattered[:] = blocks[: len(blocks) // 2]
    del blocks
    _allocated = sys.getallocatedblocks()


def _scatter_again() -> None:
    """Leave new holes, if enough was allocated since the last time to fill those."""
    if sys.getallocatedblocks() - _allocated > len(_scattered):
        _scatter()


def _where_objects_lie(*, is_pinned_here: bool) -> str:
    fixed = is_fixed()
    if fixed is None:
        return "addresses may move"
    if fixed:
        return "addresses are fixed"
    refused = is_pinned_here and not may_fix()
    return "addresses are random" + (", and this system does not let programs fix them" if refused else "")


def is_fixed() -> bool | None:
    """Whether this process was started without address space randomisation; None where that is not known."""
    now = _personality(ASK)
    return None if now is None else bool(now & ADDR_NO_RANDOMIZE)


def may_fix() -> bool:
    """Whether this process can start programs without randomisation; this changes nothing."""
    with _addresses_fixed():
        return bool(is_fixed())


@contextmanager
def _addresses_fixed() -> Iterator[None]:
    """A block in which the processes that this thread starts, and their children, have fixed addresses.

    On Linux the setting belongs to the thread, is inherited, and takes effect at the next exec. Containers may refuse
    it; then nothing happens, and `is_fixed` says so.
    """
    before = _personality(ASK)
    if before is None:
        yield
        return
    _personality(before | ADDR_NO_RANDOMIZE)
    try:
        yield
    finally:
        _personality(before)


def _personality(wanted: int) -> int | None:
    """Make the system call of that name, and return the setting before it; None if it is missing or refused."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        before = ctypes.CDLL(None, use_errno=True).personality(ctypes.c_ulong(wanted))
    except (OSError, AttributeError):
        return None
    return None if before == -1 else int(before)


def _number(context: FactorContext, to_hash: Callable[[int], int]) -> None:
    # After torch's import it is too late: an object hashed before would not be found again under another number.
    if "torch" not in sys.modules:
        numbers = _Numbers(context, to_hash)
        numbers.own_objects.install(context)
        context.when_loaded("torch", numbers.install)


def _is_ours(function: object) -> bool:
    return getattr(function, "__module__", "") == __name__


class _Numbers:
    """Hashes that do not depend on addresses: each object gets a number when it is first hashed."""

    def __init__(self, context: FactorContext, to_hash: Callable[[int], int]) -> None:
        self.context, self.to_hash = context, to_hash
        self.count = itertools.count(1)
        # By address, as long as the object lives: a dictionary with objects as keys would hash them itself.
        self.known: dict[int, tuple[weakref.ref[object], int]] = {}
        # Hashes of objects with a `__del__`, which the garbage collector calls after it has cleared their references.
        self.dying: dict[int, int] = {}
        # The classes that were given this hash, and their own `__hash__` before.
        self.given: list[tuple[Any, Callable[[object], int] | None]] = []
        self.number = self._numbering()
        # Imports between that of torch and the script's own classes fill the holes, too.
        self.own_objects = ObjectHashes(self.number, _scatter_again if context.setting.probed else None)
        context.undo.callback(self._take_back)

    def _numbering(self) -> Callable[[object], int]:
        known, new = self.known, self.new

        def number(self: object) -> int:
            entry = known.get(id(self))
            return entry[1] if entry is not None and entry[0]() is self else new(self)

        number.__name__ = "__hash__"
        return number

    def install(self, torch: ModuleType) -> None:
        for owner in (torch.Tensor, torch.nn.Module):
            self.given.append((owner, vars(owner).get("__hash__")))
            owner.__hash__ = self.number

    def _take_back(self) -> None:
        # Sets and dictionaries outlive the pin, and must find the numbered objects in them until the last has died.
        if self.known:
            return
        self.own_objects.take_back()
        while self.given:
            owner, original = self.given.pop()
            if not _is_ours(owner.__hash__):
                continue
            if original is None:
                del owner.__hash__
            else:
                owner.__hash__ = original

    def _died(self, address: int, has_finalizer: bool) -> None:
        entry = self.known.pop(address, None)
        if has_finalizer and entry is not None:
            self.dying[address] = entry[1]
        if self.context.ended:
            self._take_back()

    def new(self, thing: object) -> int:
        """Return the hash of an object that was not hashed before, or is being finalized."""
        dying = self.dying.pop(id(thing), None)
        if dying is not None and gc.is_finalized(thing):
            self.dying[id(thing)] = dying
            return dying
        if self.context.ended:
            before = next((own for owner, own in self.given if own and isinstance(thing, owner)), object.__hash__)
            return int(before(thing))
        address, hashed = id(thing), self.to_hash(next(self.count))
        if address in self.known and self.known[address][0]() is None:
            del self.known[address]
        has_finalizer = hasattr(type(thing), "__del__")
        entry = weakref.ref(thing, lambda _: self._died(address, has_finalizer)), hashed
        # Another thread may have been quicker.
        return self.known.setdefault(address, entry)[1]
