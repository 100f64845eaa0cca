"""The plugin for pytest, tried out by pytest itself: marker, seeds, expected bits, workers, and what others install."""

import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from samebits.base.seeds import derive
from samebits.locking.lockfile import Lockfile

pytest_plugins = ["pytester"]

# Loaded before a run within this process looks for them: some cannot be loaded twice, and each takes its time.
for _name in ("agent.recorder", "agent.ops.mode", "agent.environment", "testing.expected", "testing.repeats"):
    importlib.import_module(f"samebits.{_name}")
assert np.random.__name__


# Hypothesis would be loaded anew in each of them.
QUIET = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest")
LISTED = ("-v", *QUIET[1:])
# A training as small as can be; noise is what an earlier call left in the process.
TRAINING = """
import os, random
import numpy as np
import pytest, torch

COUNT = [0]

@pytest.fixture
def model():
    return torch.nn.Linear(3, 2)

def train(model, noise=0.0):
    for _ in range(2):
        loss = model(torch.randn(4, 3)).square().mean()
        loss = loss * (1 + noise * COUNT[0])
        for parameter, gradient in zip(model.parameters(), torch.autograd.grad(loss, model.parameters())):
            parameter.data -= 0.1 * gradient
"""


def outcomes(result: pytest.RunResult) -> dict[str, str]:
    """Test → what became of it."""
    found = re.findall(
        r"^test_\w+\.py::(\S+) (PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)", result.stdout.str(), re.MULTILINE
    )
    return {name: outcome.lower() for name, outcome in found}


def test_it_does_nothing_unless_asked(pytester: pytest.Pytester) -> None:
    """Of a run in which no test asks the plugin knows no other room; it draws, prints and writes nothing."""
    pytester.makepyfile(
        """
        import random, sys
        def test_plain():
            random.seed(1)
            assert random.random() == random.Random(1).random()
        def test_modules():
            loaded = {name for name in sys.modules if name.partition(".")[0] in ("samebits", "torch", "numpy")}
            plugin = {"samebits.integrations.pytest", "samebits.integrations.pytest.asked"}
            assert loaded == plugin | {"samebits", "samebits.base", "samebits.base.lazy", "samebits.integrations"}
        """
    )
    result = pytester.runpytest_subprocess(*QUIET)

    result.assert_outcomes(passed=2)
    assert "samebits" not in result.stdout.str()
    assert not (pytester.path / "samebits.lock").exists()


def test_the_marker_runs_a_test_twice(pytester: pytest.Pytester) -> None:
    """What repeats passes, with fresh fixtures for each run; what does not fails, with operation and line."""
    pytester.makepyfile(
        TRAINING
        + """
RUNS = []

@pytest.mark.samebits
def test_repeats(model, tmp_path):
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine").touch()
    RUNS.append([float(model.weight[0, 0]), random.random(), np.random.rand()])
    train(model)

def test_it_ran_twice():
    assert len(RUNS) == 2 and RUNS[0] == RUNS[1]

@pytest.mark.samebits(runs=3)
def test_diverges(model):
    COUNT[0] += 1
    train(model, 0.1)

@pytest.mark.samebits(vary=["file-order"])
def test_depends_on_file_order(tmp_path):
    for name in "abcdefgh":
        (tmp_path / name).touch()
    torch.tensor([ord(name) for name in os.listdir(tmp_path)]).float().mul(2)

@pytest.mark.samebits(vary=["file-order"])
def test_does_not(tmp_path):
    for name in "abcdefgh":
        (tmp_path / name).touch()
    torch.tensor([ord(name) for name in sorted(os.listdir(tmp_path))]).float().mul(2)

class TestOwnObject:
    @pytest.mark.samebits
    def test_method(self, model):
        assert not hasattr(self, "seen")
        self.seen = True
        train(model)

@pytest.mark.samebits
def test_fails_the_second_time(model):
    COUNT.append(0)
    train(model)
    assert len(COUNT) == 2, "called before"

@pytest.mark.samebits
@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_parameters(model, rate):
    train(model)
"""
    )
    result = pytester.runpytest_inprocess(*LISTED)

    assert outcomes(result) == {
        "test_repeats": "passed",
        "test_it_ran_twice": "passed",
        "test_diverges": "failed",
        "test_depends_on_file_order": "failed",
        "test_does_not": "passed",
        "TestOwnObject::test_method": "passed",
        "test_fails_the_second_time": "failed",
        "test_parameters[0.1]": "passed",
        "test_parameters[0.2]": "passed",
    }
    text = result.stdout.str()
    assert "runs 1 and 2 diverge: different bits: at step 0, op 5: argument: aten::mul.Tensor" in text
    assert "loss = loss * (1 + noise * COUNT[0])" in text
    assert "in run 2 file-order had another value" in text
    assert "runs 1 and 2 diverge: run 2 failed, and run 1 did not" in text
    assert "seeded from 0; again: pytest test_the_marker_runs_a_test_twice.py::test_diverges --samebits-seed 0" in text


def test_a_marker_that_makes_no_sense_fails(pytester: pytest.Pytester) -> None:
    """Each with what is wrong and what to write, and before the test runs."""
    pytester.makepyfile(
        """
        import unittest
        import pytest, torch

        @pytest.mark.samebits(runs=1)
        def test_runs(): raise KeyError
        @pytest.mark.samebits(vary="clock")
        def test_words(): raise KeyError
        @pytest.mark.samebits(vary=["hash-sed"])
        def test_name(): raise KeyError
        @pytest.mark.samebits(vary=["hash-seed"])
        def test_scope(): raise KeyError
        @pytest.mark.samebits(times=3)
        def test_word(): raise KeyError
        @pytest.mark.samebits
        class TestOld(unittest.TestCase):
            def test_old(self): raise KeyError
        @pytest.mark.samebits
        def test_nothing(): pass
        """
    )
    result = pytester.runpytest_inprocess(*QUIET)

    text = result.stdout.str()
    for words in (
        "runs must be at least 2, got 1",
        "vary takes a list of factors, got 'clock'",
        "did you mean hash-seed?",
        "hash-seed is fixed when Python starts",
        "the marker samebits takes runs, vary and isolated, got times",
        "not for tests of unittest",
        "test_nothing did nothing that can be compared",
    ):
        assert words in text
    assert "KeyError" not in text
    assert result.parseoutcomes() == {"errors": 6, "failed": 1}


def test_a_marker_of_a_module_passes_over_tests_of_unittest(pytester: pytest.Pytester) -> None:
    """They run as they are; the others run twice."""
    pytester.makepyfile(
        """
        import unittest, pytest, torch
        pytestmark = pytest.mark.samebits
        runs = []
        class TestOld(unittest.TestCase):
            def test_old(self): runs.append("old")
        def test_new():
            runs.append("new")
            return torch.ones(1).sum() and None
        def test_all():
            assert runs == ["old", "new", "new"] + ["all"] * runs.count("all")
            runs.append("all")
            torch.ones(1).sum()
        """
    )
    pytester.runpytest_inprocess(*QUIET).assert_outcomes(passed=3)


def test_what_is_fixed_when_python_starts_is_varied_in_processes_of_their_own(pytester: pytest.Pytester) -> None:
    """Without the options of the outer pytest, which may be for it alone."""
    pytester.makeini("[pytest]\naddopts = --for-the-outer-one\n")
    pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--for-the-outer-one', action='count')")
    pytester.makepyfile(
        TRAINING
        + """
@pytest.mark.samebits(isolated=True, vary=["hash-seed"])
def test_hash_seed():
    torch.tensor([ord(one) for one in {"a", "b", "c", "d", "e", "f"}]).float().mul(2)
"""
    )
    result = pytester.runpytest_inprocess(*LISTED)

    assert outcomes(result) == {"test_hash_seed": "failed"}
    assert "in run 2 hash-seed had another value; each run had a process of its own" in result.stdout.str()


def test_an_async_test_is_told_what_pytest_tells(pytester: pytest.Pytester) -> None:
    """Where no plugin can call it; where one can, that it cannot do so twice, or that it was not asked of us."""
    pytester.makepyfile(
        """
        import asyncio, functools, os
        import pytest, torch

        def called_by_a_plugin(test):
            return functools.wraps(test)(lambda: asyncio.run(test()))

        @pytest.mark.samebits
        async def test_async(): torch.ones(2)
        @pytest.mark.samebits
        @called_by_a_plugin
        async def test_wrapped(): torch.ones(2)
        @pytest.mark.samebits
        def test_plain(): torch.ones(2)
        """
    )
    alone = pytester.runpytest_inprocess(*LISTED)
    pytester.makeconftest(
        """
        import asyncio, pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_pyfunc_call(pyfuncitem):
            if pyfuncitem.name != "test_wrapped":
                called = pyfuncitem.obj()
                asyncio.run(called) if called else None
                return True
        """
    )
    called = pytester.runpytest_inprocess(*LISTED)

    # Before pytest 8.4 it was skipped.
    assert outcomes(alone)["test_async"] in ("failed", "skipped")
    assert outcomes(alone) | {"test_async": ""} == {"test_async": "", "test_wrapped": "failed", "test_plain": "passed"}
    assert "async def function" in alone.stdout.str()
    assert alone.stdout.str().count("cannot be called twice in one process: add isolated=True") == 1
    assert outcomes(called) == {"test_async": "failed", "test_wrapped": "failed", "test_plain": "failed"}
    for name in ("test_async", "test_plain"):
        assert f"{name} was called by another plugin, so it was neither repeated nor recorded" in called.stdout.str()


ENDS = """
import pytest, torch

isolated = pytest.mark.samebits(isolated=True)

@isolated
@pytest.mark.xfail(strict=True, reason="was broken")
def test_strict_xfail_that_passes(): torch.ones(2)

@isolated
@pytest.mark.xfail(reason="is broken", raises=KeyError)
def test_xfail(): raise KeyError
"""
MORE_ENDS = """
@isolated
def test_skip(): pytest.skip("not today")

@isolated
@pytest.mark.xfail(reason="was broken")
def test_xfail_that_passes(): torch.ones(2)

@isolated
@pytest.mark.xfail(raises=KeyError)
def test_fails_otherwise(): raise ValueError("otherwise")

@isolated
def test_xfail_inside():
    pytest.xfail("from here")

@isolated
def test_xfail_on_request(request):
    request.applymarker(pytest.mark.xfail(reason="later"))
    raise KeyError

@isolated
def test_strict_xfail_on_request(request):
    request.applymarker(pytest.mark.xfail(reason="later", strict=True))
    torch.ones(2)

@isolated
@pytest.mark.xfail(run=False, reason="crashes")
def test_does_not_run(): torch.ones(2)

@pytest.fixture
def skipping(): pytest.skip("in the fixture")

@isolated
def test_skip_in_fixture(skipping): torch.ones(2)

@isolated
async def test_async(): torch.ones(2)
"""


@pytest.mark.parametrize("more", ["", pytest.param(MORE_ENDS, marks=pytest.mark.slow)], ids=["some", "all"])
def test_an_end_in_a_process_of_its_own_is_the_same_here(pytester: pytest.Pytester, more: str) -> None:
    """What pytest makes of each test does not depend on where it runs, but for what it prints of a failure."""
    tests = ENDS + more
    pytester.makepyfile(test_ends=tests)
    here = pytester.runpytest_inprocess("-rsxX", *LISTED)
    words = ("--runxfail", "-k", "strict_xfail_that or inside", *LISTED)
    as_if_none = outcomes(pytester.runpytest_inprocess(*words)) if more else {}
    pytester.makepyfile(
        test_ends=tests.replace("isolated = pytest.mark.samebits(isolated=True)", "isolated = lambda x: x")
    )
    plain = pytester.runpytest_inprocess("-rsxX", *LISTED)

    assert len(outcomes(here)) == tests.count("def test_")
    assert outcomes(here) == outcomes(plain)
    assert outcomes(here)["test_xfail"] == "xfail"
    summaries = [re.findall(r"^(?:XFAIL|XPASS|SKIPPED) .*", one.stdout.str(), re.MULTILINE) for one in (here, plain)]
    assert summaries[0] == summaries[1]
    text = here.stdout.str()
    assert "[XPASS(strict)] was broken" in text
    assert "cannot be rewritten" not in text
    if more:
        assert "ValueError: otherwise" in text
        assert "async def functions are not natively supported" in text or outcomes(here)["test_async"] == "skipped"
        # With that option pytest.xfail() does nothing, so nothing is left that could be compared.
        assert as_if_none == {"test_strict_xfail_that_passes": "passed", "test_xfail_inside": "failed"}


def test_what_no_seed_holds_is_named(pytester: pytest.Pytester) -> None:
    """The clock and entropy, where they entered, in a test or its fixtures; and a process of its own is no cure."""
    pytester.makepyfile(
        """
        import time
        import numpy as np
        import pytest, torch

        @pytest.fixture
        def noise():
            return np.random.default_rng()

        @pytest.mark.samebits
        def test_clock(): torch.ones(2).mul(time.time())
        @pytest.mark.samebits
        def test_entropy(noise): return noise.random(3)
        COUNT = [0]
        @pytest.mark.samebits
        def test_module():
            COUNT[0] += 1
            return COUNT[0]
        @pytest.mark.samebits(vary=["clock"])
        def test_varied(): torch.ones(2).mul(time.time())

        def test_afterwards():
            assert type(time.time).__name__ == "builtin_function_or_method"
        """
    )
    result = pytester.runpytest_inprocess(*QUIET)

    clock, entropy, module, varied = result.stdout.str().split("runs 1 and 2 diverge")[1:5]
    file = "test_what_no_seed_holds_is_named.py"
    assert (
        f"clock: time.time was read; use a fixed value, or count steps, instead of the time read at {file}:10" in clock
    )
    assert f"os-entropy: NumPy's generator asked the operating system; give NumPy's generator at {file}:7" in entropy
    for words in (clock, entropy):
        assert "or the cause is what they shared, the process" in words
    assert "were seen to enter, and" not in module
    assert "against which isolation does not help, were not seen to enter" in module
    assert "in run 2 clock had another value" in varied
    assert f"use a fixed value, or count steps, instead of the time read at {file}:19" in varied
    result.assert_outcomes(failed=4, passed=1)


@pytest.mark.slow
def test_a_process_of_its_own(pytester: pytest.Pytester) -> None:
    """What a process keeps does not matter, and its id does; a failure is shown with what pytest printed there."""
    pytester.makepyfile(
        test_alone="""
        import os
        import pytest, torch

        isolated, COUNT = pytest.mark.samebits(isolated=True), [0]
        @isolated
        def test_id(): torch.ones(2).mul(os.getpid())
        @isolated
        def test_fails(): assert 1 + 1 == 3
        @isolated
        def test_repeats():
            COUNT[0] += 1
            torch.ones(2).mul(COUNT[0])
        @pytest.mark.samebits(isolated=True, vary=["torch-rng"])
        def test_draws(): torch.ones(2).mul(torch.rand(()))
        """
    )
    result = pytester.runpytest_inprocess(*LISTED)

    text = result.stdout.str()
    ends = {"test_id": "failed", "test_fails": "failed", "test_repeats": "passed", "test_draws": "failed"}
    assert outcomes(result) == ends
    assert "in run 2 torch-rng had another value; each run had a process of its own" in text
    assert "process-id: os.getpid was asked; use a fixed seed, plus the number of the rank or worker, instead" in text
    result.stdout.fnmatch_lines(["*in a process of its own:*", "*assert (1 + 1) == 3*"])
    assert "PytestAssertRewriteWarning" not in text
    assert text.count("seeded from 0") == 3


# ---- seeds -----------------------------------------------------------------------------------------------------------

DRAWS = """
import random
import numpy as np
import pytest, torch

def draw():
    return [random.random(), float(np.random.rand()), float(torch.rand(1))]

@pytest.fixture(scope="module")
def shared():
    return draw()

def keep(request, *draws):
    with open("draws.txt", "a") as file:
        file.write(f"{request.node.name} {draws}\\n")
"""


def drawn(pytester: pytest.Pytester, *options: str) -> dict[str, str]:
    """Test → what it drew."""
    path = pytester.path / "draws.txt"
    path.unlink(missing_ok=True)
    assert pytester.runpytest_inprocess(*options).ret == 0
    return dict(line.split(" ", 1) for line in path.read_text().splitlines())


def test_streams_depend_on_seed_and_test_alone(pytester: pytest.Pytester) -> None:
    """Not on the order of tests, nor on what ran before; a fixture that tests share has streams of its own."""
    pytester.makepyfile(
        DRAWS
        + """
@pytest.mark.parametrize("number", [1, 2])
def test_draws(request, shared, number):
    keep(request, shared, draw())

def test_other(request):
    keep(request, draw())
"""
    )
    one, again, other = (drawn(pytester, *QUIET, "--samebits-seed", seed) for seed in ("1", "1", "2"))
    alone = drawn(pytester, *QUIET, "--samebits-seed", "1", "-k", "2")

    assert one == again
    assert all(one[name] != other[name] for name in one)
    assert len(set(one.values())) == 3
    assert alone == {"test_draws[2]": one["test_draws[2]"]}


def test_other_tests_draw_as_without_us(pytester: pytest.Pytester) -> None:
    """After a test that asked the generators stand where they would stand if it had drawn nothing."""
    pytester.makepyfile(
        DRAWS
        + """
def test_before(request):
    random.seed(1); np.random.seed(1); torch.manual_seed(1)

@pytest.mark.samebits
def test_asks(): draw()

def test_after(request):
    found = draw()
    random.seed(1); np.random.seed(1); torch.manual_seed(1)
    assert found == draw()
"""
    )
    pytester.runpytest_inprocess(*QUIET).assert_outcomes(passed=3)


def test_pytest_randomly_and_samebits_get_along(pytester: pytest.Pytester) -> None:
    """It seeds torch, too; tests that ask of us draw the same whatever its seed is."""
    pytest.importorskip("pytest_randomly")
    pytester.makepyfile(
        DRAWS
        + """
def test_theirs(request):
    keep(request, draw())

def test_ours(request, samebits, shared):
    keep(request, shared, draw())

@pytest.mark.samebits
def test_both(request):
    keep(request, draw())
"""
    )
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    one, again, other = (drawn(pytester, *options, "-p", "randomly", f"--randomly-seed={seed}") for seed in (1, 1, 2))
    plain = drawn(pytester, *QUIET)

    assert one == again
    assert one["test_theirs"] != other["test_theirs"]
    assert one["test_ours"] == other["test_ours"] == plain["test_ours"]
    assert one["test_both"] == other["test_both"] == plain["test_both"]


def test_the_seed_is_derived(pytester: pytest.Pytester) -> None:
    """By samebits.derive, from the seed and the id of the test, so that it can be had without pytest."""
    pytester.makepyfile(
        test_seed="""
        import random, torch
        from samebits.factors.pinning import treat
        from samebits.testing.seeding import seeded
        from samebits import derive, pinned

        def test_here(samebits):
            mine = random.random(), float(torch.rand(1))
            with pinned(derive(0, "test_seed.py::test_here", "call"), factors=["python-rng", "torch-rng"]):
                assert mine == (random.random(), float(torch.rand(1)))
        """
    )
    pytester.runpytest_inprocess(*QUIET).assert_outcomes(passed=1)
    assert derive(0, "a", "call") != derive(0, "a")


# ---- expected bits ---------------------------------------------------------------------------------------------------

LOCKED = (
    TRAINING
    + """
FLIP = bool(os.environ.get("FLIP"))

def test_model(samebits, model):
    train(model)
    if FLIP:
        with torch.no_grad():
            model.weight.view(-1)[5] = torch.nextafter(model.weight.view(-1)[5], torch.tensor(9.0))
    samebits.assert_same("model", model)
    samebits.assert_same("draws", {"torch": torch.rand(3), "numpy": np.random.rand(3)})

@pytest.mark.samebits
def test_twice(samebits, model):
    samebits.assert_same("weight", model.weight)
"""
)


def lockfile_in(pytester: pytest.Pytester) -> Path:
    return pytester.path / "samebits.lock"


def locked_in(pytester: pytest.Pytester) -> set[str]:
    """Which tests have locked bits."""
    return {*Lockfile.load(lockfile_in(pytester)).tests}


@pytest.fixture
def ask_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Says how many threads the tests that are tried out are to set: to them, another environment."""
    before = torch.get_num_threads()
    yield lambda number: monkeypatch.setenv("THREADS", str(number))
    torch.set_num_threads(before)


def test_expected_bits(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing locked is a failure; locked, the tests pass; one flipped ULP fails until it is accepted."""
    pytester.makepyfile(test_locked=LOCKED)
    missing = pytester.runpytest_inprocess(*QUIET)
    written_by_itself = lockfile_in(pytester).exists()
    first = pytester.runpytest_inprocess(*QUIET, "--samebits-update-new-only")
    text = lockfile_in(pytester).read_text()
    same = pytester.runpytest_inprocess(*QUIET)
    monkeypatch.setenv("FLIP", "1")
    flipped, kept = (pytester.runpytest_inprocess(*QUIET, *more) for more in ((), ("--samebits-update-new-only",)))
    unchanged = lockfile_in(pytester).read_text() == text
    accepted, passing = (pytester.runpytest_inprocess(*QUIET, *more) for more in (("--samebits-update",), ()))

    missing.assert_outcomes(failed=2)
    assert "nothing is locked of test_locked.py::test_model in" in missing.stdout.str()
    assert "hint: pytest test_locked.py::test_model --samebits-update-new-only" in missing.stdout.str()
    assert not written_by_itself
    first.assert_outcomes(passed=2)
    assert "2 tests locked anew" in first.stdout.str()
    assert locked_in(pytester) == {"test_locked.py::test_model", "test_locked.py::test_twice"}
    same.assert_outcomes(passed=2)
    flipped.assert_outcomes(passed=1, failed=1)
    assert "different bits: 'model.weight' of test_locked.py::test_model has the digest" in flipped.stdout.str()
    assert "1 of 2 tensors differ" in flipped.stdout.str()
    assert "'model.weight' is now float32 of shape (2, 3), " in flipped.stdout.str()
    kept.assert_outcomes(passed=1, failed=1)
    assert unchanged
    accepted.assert_outcomes(passed=2)
    passing.assert_outcomes(passed=2)


def test_commands_can_be_pasted_where_pytest_was_started(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a subfolder, too: ids are then as pytest shows them there."""
    pytester.makeini("[pytest]")
    folder = pytester.mkdir("sub")
    (folder / "test_in.py").write_text("import torch\ndef test_one(samebits): samebits.assert_same('a', torch.ones(1))")
    monkeypatch.chdir(folder)
    missing = pytester.runpytest_inprocess(*QUIET)
    words = re.search(r"hint: pytest (\S+) (--samebits-update-new-only)", missing.stdout.str())
    again = re.search(r"again: pytest (\S+) (--samebits-seed) (0)", missing.stdout.str())
    assert words is not None
    assert again is not None
    written, passing = (pytester.runpytest_inprocess(*QUIET, *one.groups()) for one in (words, again))

    assert words[1] == again[1] == "test_in.py::test_one"
    written.assert_outcomes(passed=1)
    passing.assert_outcomes(passed=1)
    assert locked_in(pytester) == {"sub/test_in.py::test_one"}


def test_nothing_is_written_in_ci(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless that was said; and comparing goes on as everywhere."""
    pytester.makepyfile(test_locked=LOCKED)
    monkeypatch.setenv("CI", "0")
    assert pytester.runpytest_inprocess(*QUIET, "-k", "nothing", "--samebits-update").ret != pytest.ExitCode.USAGE_ERROR
    monkeypatch.setenv("CI", "true")
    refused = pytester.runpytest_inprocess(*QUIET, "--samebits-update")
    nothing = lockfile_in(pytester).exists()
    told = pytester.runpytest_inprocess(*QUIET, "--samebits-update", "--samebits-write-in-ci")

    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "CI is set: add --samebits-write-in-ci" in refused.stderr.str()
    assert not nothing
    told.assert_outcomes(passed=2)
    pytester.runpytest_inprocess(*QUIET).assert_outcomes(passed=2)


def test_unused_entries_are_reported(pytester: pytest.Pytester) -> None:
    """Names and tests that are gone; of tests that were not run nothing is said, and nothing removed."""
    pytester.makepyfile(
        test_locked=LOCKED,
        test_more="import torch\n" + "\ndef test_gone(samebits): samebits.assert_same('a', torch.ones(2))",
    )
    pytester.runpytest_inprocess(*QUIET, "--samebits-update").assert_outcomes(passed=3)
    pytester.makepyfile(test_locked=LOCKED.replace("def test_twice", "def test_new").replace('"draws"', '"drawn"'))
    Path("test_more.py").unlink()
    part = pytester.runpytest_inprocess(*QUIET, "--samebits-remove-unused", "-k", "model", "--samebits-update")
    names = locked_in(pytester)
    whole = pytester.runpytest_inprocess(*QUIET, "--samebits-update-new-only")
    removed = pytester.runpytest_inprocess(*QUIET, "--samebits-remove-unused")

    assert "nothing was removed, because not every test was run" in part.stdout.str()
    assert len(names) == 3
    for line in (
        "test_locked.py::test_twice, test_locked.py has no such test",
        "test_more.py::test_gone, there is no test_more.py",
    ):
        assert f"unused in {lockfile_in(pytester)}: {line}" in whole.stdout.str()
        assert f"removed from {lockfile_in(pytester)}: {line}" in removed.stdout.str()
    assert locked_in(pytester) == {"test_locked.py::test_model", "test_locked.py::test_new"}


def test_what_another_machine_needs_stays(pytester: pytest.Pytester, ask_threads: Callable[[int], None]) -> None:
    """Parameters that this one does not have, a function that it does not define, and names that it does not use."""
    pytester.makepyfile(
        test_threads="""
        import os, pytest, torch
        many = int(os.environ.get("THREADS", "1"))
        torch.set_num_threads(many)
        @pytest.mark.parametrize("number", range(many))
        def test_each(samebits, number): samebits.assert_same("a", torch.ones(1))
        def test_some(samebits): many > 1 and samebits.assert_same("a", torch.ones(1))
        if many > 1:
            def test_many(samebits): samebits.assert_same("a", torch.ones(1))
        """
    )
    for number, passed in ((2, 4), (1, 2)):
        ask_threads(number)
        pytester.runpytest_inprocess(*QUIET, "--samebits-update").assert_outcomes(passed=passed)
    kept = locked_in(pytester)
    quiet = pytester.runpytest_inprocess(*QUIET, "--samebits-remove-unused")
    left = locked_in(pytester)
    ask_threads(2)
    file = Path("test_threads.py")
    file.write_text(file.read_text().replace("range(many)", "range(1)").replace("def test_many", "def test_more"))
    removed = pytester.runpytest_inprocess(*QUIET, "--samebits-remove-unused", "-k", "")

    names = ("test_each[0]", "test_each[1]", "test_some", "test_many")
    assert left == kept == {f"test_threads.py::{name}" for name in names}
    assert "unused" not in quiet.stdout.str()
    assert "test_each[1], test_threads.py has no such test here" in removed.stdout.str()
    assert locked_in(pytester) == {"test_threads.py::test_each[0]", "test_threads.py::test_some"}


def test_what_cannot_be_compared_fails(pytester: pytest.Pytester) -> None:
    """Another seed, a name used twice, a value without bits, a lockfile that was edited."""
    pytester.makepyfile(
        test_bad="""
        import pytest, torch
        def test_twice(samebits):
            samebits.assert_same("a", torch.ones(1))
            samebits.assert_same("a", torch.ones(1))
        def test_none(samebits): samebits.assert_same("a", object())
        def test_name(samebits): samebits.assert_same("", torch.ones(1))
        def test_fine(samebits): samebits.assert_same("a", torch.ones(1))
        """
    )
    result = pytester.runpytest_inprocess(*QUIET, "--samebits-update")
    result.assert_outcomes(failed=3, passed=1)
    for words in ("'a' was named twice", "'a' is an object without bits", "name must be a text", "1 test locked anew"):
        assert words in result.stdout.str()
    other = pytester.runpytest_inprocess(*QUIET, "-k", "fine", "--samebits-seed", "5")
    assert "was locked with --samebits-seed 0, and this run has 5" in other.stdout.str()
    lockfile_in(pytester).write_text(lockfile_in(pytester).read_text().replace('\na = "', '\nb = "'))
    edited = pytester.runpytest_inprocess(*QUIET, "-k", "fine")
    edited.assert_outcomes(failed=1, deselected=3)
    assert "'a' of test_bad.py::test_fine is not locked in" in edited.stdout.str()


def test_a_name_may_go_on_from_another_one(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither lacks what belongs to the other, whichever was locked first; a module that lost a tensor does lack it."""
    pytester.makepyfile(
        test_names="""
        import os, torch
        def test_one(samebits):
            samebits.assert_same("model.loss", torch.ones(1))
            if os.environ["WHAT"] != "loss":
                samebits.assert_same("model", torch.nn.Linear(2, 1, bias=os.environ["WHAT"] != "no bias"))
                samebits.assert_same("model.loss.grad", torch.ones(1))
        """
    )
    said, new, seed = [], "--samebits-update-new-only", "--samebits-seed=0"
    for what, word in (("loss", new), ("all", new), ("all", seed), ("no bias", seed)):
        monkeypatch.setenv("WHAT", what)
        said.append(pytester.runpytest_inprocess(*QUIET, word))

    assert [one.parseoutcomes() for one in said] == [{"passed": 1}] * 3 + [{"failed": 1}]
    assert "'model' of test_names.py::test_one lacks 'model.bias', which is locked" in said[-1].stdout.str()


def test_an_environment_that_was_never_locked_is_not_red(
    pytester: pytest.Pytester, ask_threads: Callable[[int], None]
) -> None:
    """Skipped at its end, with what is other here and the command that adds it; another failure is red."""
    pytester.makepyfile(
        test_threads="""
        import os, pytest, torch
        torch.set_num_threads(int(os.environ.get("THREADS", "1")))
        def test_one(samebits): samebits.assert_same("a", torch.ones(1))
        def test_red(samebits):
            samebits.assert_same("a", torch.ones(1))
            assert not os.environ.get("THREADS")
        """
    )
    pytester.runpytest_inprocess(*QUIET, "--samebits-update").assert_outcomes(passed=2)
    ask_threads(3)
    unknown = pytester.runpytest_inprocess(*QUIET, "-rs")
    added = pytester.runpytest_inprocess(*QUIET, "-k", "one", "--samebits-update-new-only")

    unknown.assert_outcomes(skipped=1, failed=1)
    assert "is unknown in this environment: it was locked with threads 1, here it is 3" in unknown.stdout.str()
    assert "SKIPPED [1] test_threads.py:3: test_threads.py::test_one is unknown" in unknown.stdout.str()
    added.assert_outcomes(passed=1, deselected=1)
    assert len(Lockfile.load(lockfile_in(pytester)).tests["test_threads.py::test_one"].on) == 2


def test_entries_of_tests_that_were_not_collected_stay(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--lf` pytest collects those alone that failed last, and says nothing of the others."""
    pytester.makepyfile(
        test_two="""
        import os, torch
        def test_one(samebits): samebits.assert_same("a", torch.ones(1))
        def test_other(samebits):
            samebits.assert_same("b", torch.ones(1))
            assert not os.environ.get("FAILS")
        """
    )
    pytester.runpytest_inprocess(*QUIET, "--samebits-update").assert_outcomes(passed=2)
    with monkeypatch.context() as failing:
        failing.setenv("FAILS", "1")
        pytester.runpytest_inprocess(*QUIET, "-p", "cacheprovider").assert_outcomes(passed=1, failed=1)
    again = pytester.runpytest_inprocess(*QUIET, "-p", "cacheprovider", "--lf", "--samebits-remove-unused")

    again.assert_outcomes(passed=1)
    assert "unused" not in again.stdout.str()
    assert locked_in(pytester) == {"test_two.py::test_one", "test_two.py::test_other"}


def test_the_page_shows_what_works(pytester: pytest.Pytester) -> None:
    """The code of docs/how-to/pytest.md, run as it stands: it fails as the page says, is locked, and passes."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "pytest.md"
    pytester.makepyfile(test_model="\n\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)))
    missing = pytester.runpytest_inprocess(*QUIET)
    command = re.search(r"pytest (test_model.*) (--samebits-update-new-only)", missing.stdout.str())
    assert command is not None
    locked, passing = (pytester.runpytest_inprocess(*QUIET, *words) for words in (command.groups(), ()))

    missing.assert_outcomes(passed=1, failed=1)
    assert f"pytest {command[1]} {command[2]}" in page.read_text()
    locked.assert_outcomes(passed=1)
    passing.assert_outcomes(passed=2)


# ---- several processes -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_workers_come_to_the_same_verdict(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """With four workers as with none: outcomes, the words of failures, and every byte of the lockfile."""
    pytest.importorskip("xdist")
    more = """
@pytest.mark.samebits
def test_diverges(model):
    COUNT[0] += 1
    train(model, 0.1)

@pytest.mark.xdist_group("together")
def test_group(samebits, model):
    samebits.assert_same("weight", model.weight)
"""
    pytester.makepyfile(test_locked=LOCKED + more)
    texts, failures = [], []
    for workers in (("-n", "0"), ("-n", "4"), ("-n", "4", "--dist", "loadgroup")):
        lockfile_in(pytester).unlink(missing_ok=True)
        options = ("-p", "no:randomly", "-p", "no:cacheprovider", *workers)
        pytester.runpytest_subprocess(*options).assert_outcomes(failed=4)
        pytester.runpytest_subprocess(*options, "--samebits-update").assert_outcomes(passed=3, failed=1)
        texts.append(lockfile_in(pytester).read_text())
        result = pytester.runpytest_subprocess(*options)
        result.assert_outcomes(passed=3, failed=1)
        failures.append(re.findall(r"runs 1 and 2 diverge.*|seeded from.*", result.stdout.str()))

    assert texts[0] == texts[1] == texts[2]
    assert failures[0] == failures[1] == failures[2]


@pytest.mark.slow
def test_a_worker_that_dies_deletes_nothing(pytester: pytest.Pytester) -> None:
    """What others found is written; what was locked stays; and nothing is called unused."""
    pytest.importorskip("xdist")
    pytester.makepyfile(test_locked=LOCKED)
    pytester.runpytest_inprocess(*QUIET, "--samebits-update").assert_outcomes(passed=2)
    pytester.makepyfile(
        test_locked=LOCKED.replace("def test_twice", "def test_new") + "\ndef test_dies():\n    os._exit(3)\n"
    )
    options = ("-p", "no:randomly", "-n", "2", "--samebits-update", "--samebits-remove-unused")
    result = pytester.runpytest_subprocess(*options)

    result.assert_outcomes(passed=2, failed=1)
    assert "nothing was removed, because not every test was run" in result.stdout.str()
    names = {"test_model", "test_twice", "test_new"}
    assert locked_in(pytester) == {f"test_locked.py::{name}" for name in names}


@pytest.mark.slow
def test_expected_bits_of_a_test_in_its_own_process(pytester: pytest.Pytester) -> None:
    """They are compared there, and collected here."""
    pytester.makepyfile(test_locked=LOCKED.replace("@pytest.mark.samebits", "@pytest.mark.samebits(isolated=True)"))
    for options, passed, failed in (((), 0, 2), (("--samebits-update",), 2, 0), ((), 2, 0)):
        pytester.runpytest_inprocess(*QUIET, *options).assert_outcomes(passed=passed, failed=failed)
    assert len(locked_in(pytester)) == 2
