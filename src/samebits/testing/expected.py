"""Expected bits: the values that tests name, compared with the lockfile, and collected to be written there once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from samebits.base.errors import DivergenceError, LockfileError, SamebitsError, UsageError
from samebits.locking.entries import LockedTensors
from samebits.locking.lockfile import Lockfile, update
from samebits.runfolder.environment import Environment

# A value with more tensors than this is locked as one digest, so that an entry can be read in a diff.
MOST_TENSORS = 32
# The beginning of the paths of `digests_of_result`.
_ROOT = "what was returned"


@dataclass(frozen=True)
class NamedByTest:
    """The values that one test named; survives JSON.

    Attributes:
        test: id of the test.
        given: digests of the tensors, as they would be locked.
        unknown: why nothing of this could be compared in this environment; empty if it could.
    """

    test: str
    given: LockedTensors
    environment: Environment
    unknown: str = ""


class ExpectedBits:
    """The fixture `samebits`: the values that a test names have to have the bits that are locked.

    Args:
        test: id of the test.
        path: path of the lockfile.
        seed: root seed of the test's streams.
        writes: which bits are accepted as they are now: `nothing`, `new` names only, or `all`.
        again: the argument of pytest that runs this test again.
    """

    def __init__(self, test: str, path: Path, seed: int, writes: str, again: str) -> None:
        self._test, self._path, self._seed, self._writes, self._again = test, path, seed, writes, again
        self._found: dict[str, str] = {}
        self._names: list[str] = []
        self._locked: Mapping[str, str] = {}
        self._unknown = self._digest = ""

    def assert_same(self, name: str, value: object) -> None:
        """Require that a tensor, or all tensors of a module, have the bits that are locked under this name.

            def test_forward(samebits):
                samebits.assert_same("output", model(batch))

        Args:
            name: unique within the test.
            value: a tensor, an array, a module (its parameters and buffers), or a dict or list of these. Dtype, shape
                and every bit count.

        Raises:
            DivergenceError: an AssertionError that names what differs.
            LockfileError: nothing is locked under this name, or the lockfile cannot be used.
            UsageError: the value holds no tensor, or the name was used before.
        """
        __tracebackhide__ = True
        try:
            self._assert_same(name, self._digested(name, value), value)
        except SamebitsError as error:
            # Raised from here, so that a traceback ends with the line of the test.
            raise error.with_traceback(None)  # noqa: B904

    def _assert_same(self, name: str, digests: Mapping[str, str], value: object) -> None:
        twice = next((one for one in digests if one in self._found), None)
        if twice is not None:
            raise UsageError(f"{twice!r} was named twice in {self._test}", "give every value a name of its own")
        self._found |= digests
        self._names.append(name)
        if self._writes == "all":
            return
        expected = self._expected()
        if expected is not None:
            self._locked = expected.tensors
            self._compare(name, digests, value)

    @property
    def lacking(self) -> str:
        """The message about a tensor that is locked and that a named value no longer has; empty if there is none."""
        for name in self._names:
            # A value with one digest cannot lack a tensor; a longer name may be another value's.
            deeper = () if name in self._found else (f"{name}.", f"{name}[", f"{name}{{")
            gone = next((path for path in self._locked if path.startswith(deeper) and path not in self._found), None)
            if gone is not None:
                return str(DivergenceError(f"{name!r} of {self._test} lacks {gone!r}, which is locked", self._accept))
        return ""

    @property
    def named(self) -> NamedByTest | None:
        """The values that the test has named so far; None if there are none."""
        if not self._found:
            return None
        given = LockedTensors(self._digest, self._found, self._seed)
        return NamedByTest(self._test, given, self._environment, self._unknown)

    @cached_property
    def _environment(self) -> Environment:
        return environment_of_tests()

    def _digested(self, name: str, value: object) -> dict[str, str]:
        from samebits.agent.result_digests import digests_of_result
        from samebits.bits.digest import DIGEST

        self._digest = DIGEST
        if not isinstance(name, str) or not name or not name.isprintable():
            raise UsageError(f"name must be a text of printable characters, got {name!r}")
        digests = {f"{name}{path.removeprefix(_ROOT)}": f"{one:016x}" for path, one in digests_of_result(value).items()}
        odd = next((path for path in digests if not path.isprintable()), None)
        if odd is not None:
            raise UsageError(f"the path {odd!r} holds what cannot be printed", "give the keys of dicts other names")
        if not digests:
            kind = type(value).__name__
            kind = f"an {kind}" if kind[0] in "aeiouAEIOU" else f"a {kind}"
            raise UsageError(f"{name!r} is {kind} without bits to compare", "give a tensor, an array or a module")
        if len(digests) <= MOST_TENSORS:
            return digests
        content = "\0".join(f"{path}={one}" for path, one in digests.items())
        return {name: hashlib.blake2b(content.encode(), digest_size=8).hexdigest()}

    def _expected(self) -> LockedTensors | None:
        """Return the locked tensors of this test in this environment; None, which is noted, if only others have some.

        LockfileError if the test was never locked at all, or with another seed or other digests.
        """
        lockfile = Lockfile.load(self._path) if self._path.exists() else Lockfile()
        locked = lockfile.tensors(self._test, self._environment)
        if locked is None:
            if self._writes == "new":
                return LockedTensors(self._digest, {}, self._seed)
            if self._test not in lockfile.tests:
                raise self._missing(f"nothing is locked of {self._test}")
            self._unknown = self._unlike(lockfile)
            return None
        if locked.seed != self._seed:
            why = f"{self._test} was locked with --samebits-seed {locked.seed}, and this run has {self._seed}"
            raise LockfileError(why, f"pytest {self._again} --samebits-seed {locked.seed}")
        if locked.digest != self._digest:
            why = f"{self._test} was locked with digests of another kind: {locked.digest}, and these are {self._digest}"
            raise LockfileError(why, "use an environment with xxhash if the locked one had it, and without it if not")
        return locked

    def _compare(self, name: str, digests: Mapping[str, str], value: object) -> None:
        locked = {path: self._locked[path] for path in digests if path in self._locked}
        if not locked:
            if self._writes == "new":
                return
            raise self._missing(f"{name!r} of {self._test} is not locked")
        missing = next((path for path in digests if path not in locked), None)
        if missing is not None:
            raise DivergenceError(f"{name!r} of {self._test} has {missing!r}, which is not locked", self._accept)
        differing = [path for path, digest in digests.items() if digest != locked[path]]
        if differing:
            first, many = differing[0], f"; {len(differing)} of {len(locked)} tensors differ" if len(locked) > 1 else ""
            difference = f"has the digest {digests[first]}, locked is {locked[first]}{many}"
            words = f"different bits: {first!r} of {self._test} {difference}{_now(name, first, value)}"
            raise DivergenceError(words, self._accept)

    @property
    def _accept(self) -> str:
        return f"if that is meant: pytest {self._again} --samebits-update"

    def _missing(self, why: str) -> LockfileError:
        return LockfileError(f"{why} in {self._path}", f"pytest {self._again} --samebits-update-new-only")

    def _unlike(self, lockfile: Lockfile) -> str:
        here = self._environment
        environments = [lockfile.environments[home] for home in lockfile.tests[self._test].on]
        nearest = min(environments, key=lambda one: len(one.differing(here)))
        name = next(iter(nearest.differing(here)))
        return (
            f"{self._test} is unknown in this environment: it was locked with {name} {getattr(nearest, name)}, here "
            f"it is {getattr(here, name)}; to add it: pytest {self._again} --samebits-update-new-only"
        )


def _now(name: str, path: str, value: object) -> str:
    """Return a line with what a named value holds at a path; empty if that cannot be shown (as for a joint digest)."""
    from samebits.agent.result_digests import shown_at

    shown = shown_at(value, f"{_ROOT}{path.removeprefix(name)}")
    return f"\n{path!r} is now {shown}" if shown else ""


def write_named(path: Path, found: Iterable[NamedByTest], only_new: bool) -> int:
    """Write the values that passing tests named into the lockfile; return how many tests' entries have changed.

    With `only_new`, names that are locked keep their bits, and other names are added. A lockfile that cannot be used is
    an error, and is not changed.
    """
    found, changed = sorted(found, key=lambda one: one.test), set[str]()

    def change(lockfile: Lockfile) -> Lockfile:
        for named in found:
            before = lockfile.tensors(named.test, named.environment)
            now = named.given
            if only_new and before is not None:
                now = replace(now, tensors={**now.tensors, **before.tensors})
            if now != before:
                changed.add(named.test)
                lockfile = lockfile.with_tensors(named.test, named.environment, now)
        return lockfile

    if found:
        update(path, change)
    return len(changed)


def without_unused(
    lockfile: Lockfile, passed: Mapping[str, NamedByTest | None], collected: Collection[str], root: Path
) -> tuple[Lockfile, list[str]]:
    """Return the lockfile without the entries that no test uses any more, and what these are, in words.

    A test that is gone with its file or function is left out whole. Of one that is there, other environments may need
    what this one does not: it may have other parameters, or name other values, on a machine with other devices.

    `passed`: id of each test that passed → what it named; `collected`: ids of all tests of some files.
    """
    kept, unused, files = lockfile, [], {test.partition("::")[0] for test in collected}
    here = next((named.environment for named in passed.values() if named is not None), None)
    for test in lockfile.tests:
        file = test.partition("::")[0]
        is_there = (root / file).exists()
        why = f"{file} has no such test" if is_there else f"there is no {file}"
        if not is_there or (file in files and not _has_function(root / file, test, collected)):
            unused.append(f"{test}, {why}")
            kept = kept.without_test(test)
        elif file in files and test not in collected:
            here = here or environment_of_tests()
            if lockfile.tensors(test, here) is not None:
                unused.append(f"{test}, {why} here")
                kept = kept.without_test(test, here)
    for test, named in passed.items():
        if test not in lockfile.tests:
            continue
        here = here or environment_of_tests()
        locked = lockfile.tensors(test, here if named is None else named.environment)
        if locked is None:
            continue
        if named is None:
            unused.append(f"{test}, it names nothing here")
            kept = kept.without_test(test, here)
        elif gone := locked.tensors.keys() - named.given.tensors.keys():
            unused.append(f"{test}, it does not name {', '.join(map(repr, sorted(gone)))}")
            tensors = {name: digest for name, digest in locked.tensors.items() if name not in gone}
            kept = kept.with_tensors(test, named.environment, replace(locked, tensors=tensors))
    return kept, unused


def _has_function(path: Path, test: str, collected: Collection[str]) -> bool:
    """Whether the function of a test is in its file, though it may not be collected on this machine."""
    own = test.partition("[")[0]
    name = re.escape(own.rpartition("::")[2])
    found = any(one.partition("[")[0] == own for one in collected)
    return found or re.search(rf"\bdef {name}\b", path.read_text(encoding="utf-8", errors="replace")) is not None


def environment_of_tests() -> Environment:
    """Return the present environment."""
    from samebits.agent.environment import environment_now
    from samebits.factors.context import import_if_installed

    # What NumPy computes with is part of the environment, whether this test loads NumPy or an earlier one did.
    import_if_installed("numpy")
    return environment_now()
