"""os-entropy: random numbers that the operating system hands out."""

from __future__ import annotations

import os
import random
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from types import ModuleType
from typing import Any

from samebits.accelerators.devices import modules
from samebits.base.seeds import derive
from samebits.base.sites import Site, user_site
from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext, Mode
from samebits.factors.lineage import Lineage
from samebits.factors.patching import wrapped
from samebits.factors.random_devices import watch_devices

NUMPYS = "NumPy's generator"
SQL_FUNCTIONS = {"RANDOM()": 0, "RANDOMBLOB()": 1}  # how many arguments each takes

# Modules of the standard library whose functions return unpredictable values, and what to use instead.
REPEATABLE = {
    **dict.fromkeys(("os", "random", "secrets"), "draw from random.Random(0)"),
    "tempfile": "name it by a running number",
    "uuid": "use a counter",
}


class OsEntropy(CallFactor):
    """`os.urandom` and everything that rests on it: uuid4, secrets, SystemRandom, and generators made without a seed.

    `np.random.default_rng()`, `Generator`, `RandomState()`, `SeedSequence()`, `random.Random()`, and a `seed()`
    without an argument (also that of a `torch.Generator`) all ask the operating system, and so does code that opens
    `/dev/urandom` or `/dev/random` as a file; `RANDOM()` and `RANDOMBLOB()` in the SQL of `sqlite3` have a generator
    that does. Pinned, every process gets derived streams of its own; that takes away
    the unpredictability that keys and tokens need, so it is pinned only when asked for. A temporary file or folder that
    stays keeps its name, so the next run gives another one there; the names of all others repeat. Not seen: C
    extensions that ask the kernel themselves, and programs such as `od` that read a device. Witnessed although it is
    harmless: `np.random.RandomState(3)` asks first and throws the answer away.
    """

    name = "os-entropy"
    summary = "os.urandom, uuid4, secrets and generators made without a seed differ in every run by design"
    explanation = "{what} asked the operating system"
    fix = "seed every generator, and let nothing that the operating system hands out into seeds or data"
    pinned_by_default = False
    varied_by_default = True
    is_random = True
    effects = ("the operating system's", "a derived stream", "another derived stream")

    def treat(self, context: FactorContext) -> None:
        entropy = _Entropy(context)
        for owner, name in ((os, "urandom"), (random, "_urandom"), (os, "getrandom")):
            if hasattr(owner, name):
                context.replace(owner, name, partial(entropy.asked, f"os.{name.strip('_')}"))
        watch_devices(context, entropy.derived)
        context.replace_method(random.Random, "seed", entropy.seeded)
        # random.seed is a method bound before the class was touched, and it may carry another factor's watch by now.
        context.replace(random, "seed", entropy.globally_seeded)
        context.when_loaded("tempfile", lambda module: _install_tempfile(module, context, entropy))
        context.when_loaded("sqlite3", lambda module: _install_sqlite(module, context, entropy))
        context.when_loaded("numpy.random.bit_generator", lambda module: _install_numpy(module, context, entropy))
        context.when_loaded("torch", lambda torch: _install_torch(torch, context, entropy))

    def fix_for(self, site: Site | None = None, script: str = "", what: str = "") -> str:
        if site is None:
            return super().fix_for()
        if re.fullmatch(r"torch(\.\w+)?\.seed(_all)?\(\)", what):
            seeded_call = what.replace(".seed", ".manual_seed").replace("()", "(0)").removeprefix("torch.Generator.")
            return f"call {seeded_call} instead of {what} at {site.place}"
        if what == "random.SystemRandom":
            return f"draw at {site.place} from one random.Random(0), made once, not from a random.SystemRandom"
        if what in SQL_FUNCTIONS:
            return f"draw in Python, from one random.Random(0), not by {what} in the SQL at {site.place}"
        if what.startswith("/dev/"):
            return f"draw bytes from random.Random(0) instead of {what} at {site.place}"
        instead = REPEATABLE.get(what.partition(".")[0])
        if what.endswith(")") or instead is None:
            return f"give {what} at {site.place} a seed"
        return f"{instead} instead of {what} at {site.place}"


class _Entropy:
    """Derived bytes, in a stream for every function that asks, so that no background thread shifts the others' streams.

    multiprocessing asks from a thread of its own for every tensor that a worker hands over, at no fixed time.
    """

    def __init__(self, context: FactorContext) -> None:
        self.context = context
        self.lineage = Lineage.of_process()
        # Of each caller, the numbers of its draws; two threads that ask at once get two.
        self.numbers: dict[tuple[str | int, ...], count[int]] = {}
        # The function that asks in this thread, where it is known better than from the frames.
        self.asking = threading.local()

    def asked(self, what: str, original: Callable[..., bytes], size: int, *args: object, **kwargs: object) -> bytes:
        """Answer a call of `os.urandom` or its like."""
        mode = self.context.enter(getattr(self.asking, "what", "") or _called(self.context, what))
        # An impossible size (negative, or not a number) fails as it always does.
        is_untreated = mode == "natural" or not isinstance(size, int) or size < 0
        drawn = original(size, *args, **kwargs) if is_untreated else self.derived(size, mode)
        return self.context.report_entropy(drawn)

    def seeded(self, original: Callable[..., None], generator: random.Random, a: Any = None, version: int = 2) -> None:
        """Answer a call of `random.Random.seed`; without a seed, a derived one is used."""
        original(generator, self.seed(_called(self.context, "random.Random()")) if a is None else a, version)

    def globally_seeded(self, original: Callable[..., None], a: Any = None, version: int = 2) -> None:
        """Answer a call of `random.seed`; without a seed, a derived one is used."""
        original(self.seed("random.seed()") if a is None else a, version)

    def derived(self, size: int, mode: Mode) -> bytes:
        """Return the next bytes of the caller's stream."""
        site = user_site()
        asker = ("library", "") if site is None else (os.path.basename(site.path), site.function)
        words = (*self.lineage.path, *asker)
        drawn = next(self.numbers.setdefault(words, count(1)))
        root = self.context.derive_for(mode, *words)
        blocks = (derive(root, drawn, block, bits=512) for block in range(-(-size // 64)))
        return b"".join(block.to_bytes(64, "little") for block in blocks)[:size]

    def seed(self, what: str) -> int | None:
        """Return the seed for a generator that was given none; None leaves the seeding to Python."""
        mode = self.context.enter(what)
        return None if mode == "natural" else int.from_bytes(self.derived(32, mode), "little")


def _called(context: FactorContext, what: str) -> str:
    """Return the function by which the user's line asked the operating system."""
    name = context.called(what)
    if name.startswith("random.") and what.startswith("os."):
        # `secrets.randbits` and its like are methods of this class.
        return "random.SystemRandom"
    return what if name == "random.Random" else name


def _install_tempfile(module: ModuleType, context: FactorContext, entropy: _Entropy) -> None:
    """Give every call names of its own: a name taken by an earlier run's leftover then does not shift other calls."""

    def candidates(original: Callable[[], Iterator[str]]) -> Iterator[str]:
        seed = entropy.seed(context.called("tempfile"))
        if seed is None:
            return original()
        characters, rng = module._RandomNameSequence.characters, random.Random(seed)
        return iter(lambda: "".join(rng.choices(characters, k=8)), "")

    context.replace(module, "_get_candidate_names", candidates)


def _install_sqlite(module: ModuleType, context: FactorContext, entropy: _Entropy) -> None:
    """Give every connection its own random functions: SQLite's generator asks the operating system only once."""

    def connect(original: Callable[..., Any], /, *args: object, **kwargs: object) -> object:
        connection = original(*args, **kwargs)
        for what, arguments in SQL_FUNCTIONS.items():
            connection.create_function(what.removesuffix("()"), arguments, partial(draw, what, {}))
        return connection

    def draw(what: str, generators: dict[Mode, random.Random], size: object = None) -> object:
        mode = context.enter(what)
        if mode not in generators:
            generators[mode] = random.Random(None if mode == "natural" else entropy.derived(32, mode))
        if what == "RANDOM()":
            return generators[mode].getrandbits(64) - 2**63
        return generators[mode].randbytes(_length(size))

    for owner in (module, module.dbapi2):
        context.replace(owner, "connect", connect)


def _length(size: object) -> int:
    """Return the length of a RANDOMBLOB: SQLite takes a value that begins with no number as 0, and 0 as 1."""
    digits = re.match(rb"\s*[+-]?\d+", size if isinstance(size, bytes) else str(size).encode())
    return max(1, int(digits[0])) if digits else 1


def _install_numpy(module: ModuleType, context: FactorContext, entropy: _Entropy) -> None:
    def randbits(original: Callable[[int], int], k: int) -> int:
        entropy.asking.what = context.called(NUMPYS)
        try:
            return int(original(k))
        finally:
            entropy.asking.what = ""

    context.replace(module, "randbits", randbits)


def _install_torch(torch: ModuleType, context: FactorContext, entropy: _Entropy) -> None:
    def seed(what: str, manual_seed: Callable[[int], object], original: Callable[[], object], tells: bool) -> object:
        drawn = entropy.seed(what)
        if drawn is None:
            return original()
        # The CPU's generator keeps 32 bits of a seed.
        manual_seed(drawn & 0xFFFFFFFF)
        return drawn & 0xFFFFFFFF if tells else None

    def seed_own(original: Callable[..., int], generator: Any) -> object:
        what = context.called("torch.Generator.seed()")
        return seed(what, generator.manual_seed, partial(original, generator), tells=True)

    for owner in (torch, torch.random):
        context.replace(owner, "seed", partial(seed, "torch.seed()", torch.manual_seed, tells=True))
    for module in modules().values():
        for name in (name for name in ("seed", "seed_all") if hasattr(module, f"manual_{name}")):
            call = partial(seed, f"{module.__name__}.{name}()", getattr(module, f"manual_{name}"), tells=False)
            for owner in dict.fromkeys((module, getattr(module, "random", module))):
                context.replace(owner, name, call)
    context.set_method(torch.Generator, "seed", wrapped(torch.Generator.seed, seed_own))
