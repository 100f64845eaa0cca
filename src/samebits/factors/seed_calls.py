"""Seeds given to generators, witnessed with their values: they reveal seeds from the time, a process id or entropy.

Seeding is no factor, since a program should seed. But where two runs give a generator different seeds, the line to
change is the one that seeds, and not the operation that shows the difference first.
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

# The most seeds reported of a line, and of a process: a loop that seeds in every step shows it with a few values.
MOST_AT_ONE_LINE = 8
MOST = 256
# A DataLoader draws seeds for samplers and workers from torch's generator: nobody gave these.
DERIVING = "torch.utils.data."


@dataclass(frozen=True)
class SeedCall:
    """A call that seeded a generator, the first one at this line with this value in this process.

    Attributes:
        what: the called function, such as `torch.manual_seed`.
        value: the seed: a number or a string as it is, bytes as hexadecimal digits, arrays as text.
        site: the user's line.
    """

    what: str
    value: int | float | str
    site: Site


@dataclass
class _SeedWatch:
    """A watch on the seeds that the user's lines give, also through a library; not samebits' or a DataLoader's own."""

    report: Callable[[SeedCall], None]
    noted: dict[tuple[str, int], set[object]] = field(default_factory=dict)
    inside: threading.local = field(default_factory=threading.local)
    count: int = 0

    def seed(
        self, what: str, position: int, original: Callable[..., object], /, *args: object, **kwargs: object
    ) -> object:
        """Call `original` and note the seed: its argument at `position`, or without one its result.

        Seeding one generator often seeds others, so only the outermost call counts.
        """
        if getattr(self.inside, "call", False) or self.count >= MOST:
            return original(*args, **kwargs)
        self.inside.call = True
        try:
            result = original(*args, **kwargs)
        finally:
            self.inside.call = False
        given = [*args[position:], *(kwargs[name] for name in ("seed", "a", "x") if name in kwargs)]
        # This inspects objects of the program; an error that they raise here must not reach it.
        with suppress(Exception):
            self.note(what, given[0] if given else result, result)
        return result

    def note(self, what: str, seed: object, result: object) -> None:
        """Report the seed, unless it is None, is no seed, or was reported before."""
        value = _plain(seed, result)
        giver = None if value is None else _seeding_frame()
        if giver is None or value is None:
            return
        noted = self.noted.setdefault((giver.f_code.co_filename, giver.f_lineno), set())
        # 1, 1.0 and True are equal, but different seeds.
        if len(noted) < MOST_AT_ONE_LINE and (type(value), value) not in noted:
            noted.add((type(value), value))
            self.count += 1
            self.report(SeedCall(what, value, site_of(giver)))


def _seeding_frame() -> FrameType | None:
    """Return the user's frame that gave the seed; None if samebits gave the seed, or torch drew it."""
    frame = sys._getframe(1)
    while not is_user_file(frame.f_code.co_filename):
        path = frame.f_code.co_filename
        is_ours = is_own_file(path) and path not in _WATCHING
        # A seed that torch kept for the first use of a device was noted when it was given.
        is_torchs = frame.f_code.co_name == "_lazy_init" or str(frame.f_globals["__name__"]).startswith(DERIVING)
        if path == IMPORTING or frame.f_back is None or is_ours or is_torchs:
            return None
        frame = frame.f_back
    return frame


_WATCHING = (__file__, patching.__file__)


def _plain(seed: Any, result: object) -> int | float | str | None:
    """Return the seed as plain data; None for anything else, such as a generator that is passed on."""
    if hasattr(seed, "__torch_function__"):
        # Reading the tensor would add an operation to those of the program.
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
    is_list = isinstance(seed, list | tuple) and all(isinstance(item, int) for item in seed)
    return str(list(seed)) if is_list else None


def witness_seeds(report: Callable[[SeedCall], None]) -> FactorContext:
    """Report every seed given to a generator until the returned context ends; this changes no bits."""
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
    # Both `RandomState(seed)` and `RandomState.seed` call this method.
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
