"""Seeds, witnessed with their values: runs seeded from the time, a process id or entropy are recognised by them.

No factor: seeding is what a program should do. But where two runs give a generator different seeds, that line is the
one to change, and not the operation that shows the difference first.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import FrameType, ModuleType
from typing import Any

from samebits.accelerators.devices import modules
from samebits.base.sites import IMPORTING, Site, is_own_file, is_user_file, site_of
from samebits.factors import patching
from samebits.factors.context import FactorContext, Setting
from samebits.factors.patching import wrapped

# A loop that seeds in every step says after a few values what it does.
MOST_AT_ONE_LINE = 8
MOST = 256
# A DataLoader seeds samplers and workers from torch's generator: no seed that anybody gave.
DERIVING = "torch.utils.data."


@dataclass(frozen=True)
class SeedCall:
    """A generator was seeded: the first time at this line with this value, in this process.

    Attributes:
        what: what was called, such as `torch.manual_seed`.
        value: the seed: a number or a string as it is, bytes as hexadecimal digits, arrays as text.
        site: the user's line.
    """

    what: str
    value: int | float | str
    site: Site


@dataclass
class _SeedWatch:
    """Reports seeds that the user's lines give, also through a library; not those of samebits or of a DataLoader."""

    report: Callable[[SeedCall], None]
    noted: dict[tuple[str, int], set[object]] = field(default_factory=dict)
    inside: threading.local = field(default_factory=threading.local)
    count: int = 0

    def seed(
        self, what: str, position: int, original: Callable[..., object], /, *args: object, **kwargs: object
    ) -> object:
        """What `original` does, whose argument at `position` is the seed; without one, what it returns may be.

        Seeding one generator often seeds others: only the outermost call counts.
        """
        if getattr(self.inside, "call", False) or self.count >= MOST:
            return original(*args, **kwargs)
        self.inside.call = True
        try:
            result = original(*args, **kwargs)
        finally:
            self.inside.call = False
        given = [*args[position:], *(kwargs[name] for name in ("seed", "a", "x") if name in kwargs)]
        # Objects of the program's are looked at here; what they raise is not the program's trouble.
        with suppress(Exception):
            self.note(what, given[0] if given else result, result)
        return result

    def note(self, what: str, seed: object, result: object) -> None:
        """Report the seed, unless it is none, or no seed, or known."""
        value = _plain(seed, result)
        giver = None if value is None else _giver()
        if giver is None or value is None:
            return
        noted = self.noted.setdefault((giver.f_code.co_filename, giver.f_lineno), set())
        # 1, 1.0 and True are equal, and different seeds.
        if len(noted) < MOST_AT_ONE_LINE and (type(value), value) not in noted:
            noted.add((type(value), value))
            self.count += 1
            self.report(SeedCall(what, value, site_of(giver)))


def _giver() -> FrameType | None:
    """The user's frame that gave the seed; None when the seed is samebits' own, or one that torch drew."""
    current = sys._getframe(1)
    while not is_user_file(current.f_code.co_filename):
        path = current.f_code.co_filename
        is_ours = is_own_file(path) and path not in _WATCHING
        # What torch kept for the first use of a device was given, and seen, before.
        is_torchs = current.f_code.co_name == "_lazy_init" or str(current.f_globals["__name__"]).startswith(DERIVING)
        if path == IMPORTING or current.f_back is None or is_ours or is_torchs:
            return None
        current = current.f_back
    return current


_WATCHING = (__file__, patching.__file__)


def _plain(seed: Any, result: object) -> int | float | str | None:
    """The seed as plain data; None for what is no seed, such as a generator that is passed on."""
    if hasattr(seed, "__torch_function__"):
        # Reading a tensor would be an operation more than the program has.
        return int(result.initial_seed()) if hasattr(result, "initial_seed") else None
    if hasattr(seed, "tolist"):
        seed = seed.tolist()
    if isinstance(seed, str | float):
        return seed
    if hasattr(seed, "__index__"):
        return int(seed)
    if isinstance(seed, bytes | bytearray):
        return seed.hex()
    if hasattr(seed, "entropy") and hasattr(seed, "spawn_key"):
        return f"SeedSequence({seed.entropy}, spawn_key={seed.spawn_key})"
    is_list = isinstance(seed, list | tuple) and all(isinstance(one, int) for one in seed)
    return str(list(seed)) if is_list else None


def witness_seeds(report: Callable[[SeedCall], None]) -> FactorContext:
    """Report every seed that is given to a generator from here on, until the returned context ends; no bit changes."""
    context, watch = FactorContext("seeds", Setting()), _SeedWatch(report)
    _watch_python(context, watch)
    context.when_loaded("numpy.random", lambda module: _watch_numpy(module, context, watch))
    context.when_loaded("torch", lambda torch: _watch_torch(torch, context, watch))
    return context


def _watch_python(context: FactorContext, watch: _SeedWatch) -> None:
    context.replace(random, "seed", partial(watch.seed, "random.seed", 0))
    context.replace_method(random.Random, "seed", partial(watch.seed, "random.Random", 1))

    def putenv(original: Callable[..., None], name: str | bytes, value: str | bytes, /) -> None:
        original(name, value)
        if os.fsdecode(name) == "PYTHONHASHSEED":
            watch.note("PYTHONHASHSEED", os.fsdecode(value), None)

    context.replace(os, "putenv", putenv)


def _watch_numpy(module: ModuleType, context: FactorContext, watch: _SeedWatch) -> None:
    for owner in (module, module._generator):
        context.replace(owner, "default_rng", partial(watch.seed, "np.random.default_rng", 0))
    for owner in (module, module.mtrand):
        context.replace(owner, "seed", partial(watch.seed, "np.random.seed", 0))
    # Both `RandomState(seed)` and `RandomState.seed` come by here.
    by_legacy = wrapped(module.MT19937._legacy_seeding, partial(watch.seed, "np.random.RandomState", 1))
    context.set_method(module.MT19937, "_legacy_seeding", by_legacy)


def _watch_torch(torch: ModuleType, context: FactorContext, watch: _SeedWatch) -> None:
    by_device = [*modules().values(), torch.mps]
    for public, owners in (("torch", (torch, torch.random)), *((m.__name__, (m, _home(m))) for m in by_device)):
        for name in ("manual_seed", "manual_seed_all", "seed"):
            for owner in dict.fromkeys(owner for owner in owners if hasattr(owner, name)):
                context.replace(owner, name, partial(watch.seed, f"{public}.{name}", 0))
    for name in ("manual_seed", "seed"):
        call = partial(watch.seed, f"torch.Generator.{name}", 1)
        context.set_method(torch.Generator, name, wrapped(getattr(torch.Generator, name), call))


def _home(module: ModuleType) -> object:
    return getattr(module, "random", module)
