"""os-entropy: random numbers that the operating system hands out."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from samebits.factors.base import CallFactor, Observation, Scene
from samebits.seeds import derive
from samebits.sites import user_site


class OsEntropy(CallFactor):
    """`os.urandom` and everything that rests on it: uuid4, secrets, SystemRandom, and generators made without a seed.

    `np.random.default_rng()`, `Generator`, `RandomState()`, `SeedSequence()`, `random.Random()`, and a `seed()`
    without an argument all ask the operating system. Pinned, every process gets derived streams of its own; that
    takes away the unpredictability that keys and tokens need, so it is pinned only when asked for. Not seen:
    `/dev/urandom` opened as a file, `uuid.uuid1()`, `torch.Generator.seed()`, and C extensions that ask the kernel
    themselves. Witnessed although harmless: `np.random.RandomState(3)` asks first and throws the answer away.
    """

    name = "os-entropy"
    summary = "os.urandom, uuid4, secrets and generators made without a seed differ in every run by design"
    story = "{what} asked the operating system"
    cure = "give the generator made at line {line} a seed"
    pinned_by_default = False
    varied_by_default = True

    def install(self, scene: Scene) -> None:
        entropy = _Entropy(scene)
        for owner, name in ((os, "urandom"), (random, "_urandom"), (os, "getrandom")):
            if hasattr(owner, name):
                scene.replace(owner, name, entropy.asked(f"os.{name.strip('_')}", getattr(owner, name)))
        self._install_seeding(scene, entropy)
        scene.when_loaded("torch", lambda torch: _install_torch(torch, scene, entropy))

    def observe(self, scene: Scene | None = None) -> Observation:
        if scene is None or scene.mode == "natural":
            return Observation("the operating system's", False)
        return Observation("a derived stream" if scene.mode == "pinned" else "another derived stream", True)

    def _install_seeding(self, scene: Scene, entropy: _Entropy) -> None:
        plain = random.Random.seed

        @wraps(plain)
        def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
            plain(self, entropy.seed("random.Random()") if a is None else a, version)

        # random.seed is a method bound before the class was touched, and it may carry another factor's watch by now.
        outer = random.seed

        def global_seed(a: Any = None, version: int = 2) -> None:
            outer(entropy.seed("random.seed()") if a is None else a, version)

        scene.set(random.Random, "seed", seed)
        scene.replace(random, "seed", global_seed)


class _Lineage:
    """Which process of the program this is: every rank, worker and forked child goes on with streams of its own."""

    def __init__(self) -> None:
        self._path: tuple[str | int, ...] = ("rank", os.environ["RANK"]) if "RANK" in os.environ else ()
        self._forks = 0

    @property
    def path(self) -> tuple[str | int, ...]:
        """Words for this process; multiprocessing numbers its own, also those that it spawns."""
        # While that module is being imported it asks for entropy itself, before it knows of any process.
        process: Any = getattr(sys.modules.get("multiprocessing.process"), "_current_process", None)
        return self._path if process is None else (*self._path, *process._identity)

    def _count(self) -> None:
        self._forks += 1

    def _descend(self) -> None:
        self._path, self._forks = (*self._path, "fork", self._forks), 0

    @classmethod
    @cache
    def of_process(cls) -> _Lineage:
        """The one of this process; Python never forgets a function that is called at a fork, so it is told once."""
        lineage = cls()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=lineage._count, after_in_child=lineage._descend)
        return lineage


class _Entropy:
    """Derived bytes: a stream for every function that asks, so that background threads cannot shift anybody's.

    multiprocessing asks from a thread of its own for every tensor that a worker hands over, at no fixed time.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.lineage = _Lineage.of_process()
        self.drawn: dict[tuple[str | int, ...], int] = {}

    def asked(self, what: str, original: Callable[..., bytes]) -> Callable[..., bytes]:
        """A stand-in for `os.urandom`."""

        def urandom(size: int, *args: Any, **kwargs: Any) -> bytes:
            mode = self.scene.enter(what)
            # What cannot be handed out (a negative size, no number at all) fails as it always does.
            as_ever = mode == "natural" or not isinstance(size, int) or size < 0
            return original(size, *args, **kwargs) if as_ever else self.derived(size, mode)

        return urandom

    def derived(self, size: int, mode: str) -> bytes:
        """The next bytes of the stream of whoever asks."""
        site = user_site()
        asker = ("library", "") if site is None else (os.path.basename(site.path), site.function)
        words = (*self.lineage.path, *asker)
        drawn = self.drawn[words] = self.drawn.get(words, 0) + 1
        root = self.scene.derive(*words) if mode == "pinned" else self.scene.other(*words)
        blocks = (derive(root, drawn, block, bits=512) for block in range(-(-size // 64)))
        return b"".join(block.to_bytes(64, "little") for block in blocks)[:size]

    def seed(self, what: str) -> int | None:
        """What an unseeded generator starts from: None leaves it to Python."""
        mode = self.scene.enter(what)
        return None if mode == "natural" else int.from_bytes(self.derived(32, mode), "little")


def _install_torch(torch: Any, scene: Scene, entropy: _Entropy) -> None:
    original = torch.seed

    def seed() -> int:
        drawn = entropy.seed("torch.seed()")
        if drawn is None:
            return int(original())
        torch.manual_seed(drawn & 0xFFFFFFFF)
        return drawn & 0xFFFFFFFF

    for owner in (torch, torch.random):
        scene.replace(owner, "seed", seed)
