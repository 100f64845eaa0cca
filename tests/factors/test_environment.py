"""hash-seed, cpu-threads, cpu-isa, cublas-workspace: what must be said before the interpreter starts."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

import samebits
from samebits.base.errors import TooLateError, UsageError
from samebits.factors import cpu_threads, hash_seed
from samebits.factors.catalog import find
from samebits.factors.context import Setting
from samebits.factors.pinning import treat
from tests.factors.contexts import python, treated


def asked(factor: str, environ: dict[str, str] | None = None, mode: Any = "pinned", **setting: Any) -> dict[str, str]:
    return find(factor).environment(Setting(mode, **setting), 0, environ or {})


ISA = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "AVX2"}
THREADS = {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3", "MKL_DYNAMIC": "FALSE"}
OWN_THREADS = {"OMP_NUM_THREADS": "4,2", "MKL_NUM_THREADS": "1", "MKL_DYNAMIC": "TRUE"}
NCCL = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_NCHANNELS": "1"}


def hash_seed_of(value: str) -> dict[str, str]:
    return {"PYTHONHASHSEED": value}


def workspace_of(value: str, lt: str = "32768") -> dict[str, str]:
    return {"CUBLAS_WORKSPACE_CONFIG": value, "CUBLASLT_WORKSPACE_SIZE": lt}


# Factor, what the user has set, the value that was asked for, and what a pinned run begins with.
BEGUN_WITH: list[tuple[str, dict[str, str], str | None, dict[str, str]]] = [
    ("hash-seed", {}, None, hash_seed_of("0")),
    ("hash-seed", hash_seed_of("5"), None, hash_seed_of("5")),
    ("hash-seed", hash_seed_of("random"), None, hash_seed_of("0")),
    ("hash-seed", hash_seed_of("5"), "9", hash_seed_of("9")),
    ("cpu-threads", {}, None, {}),
    ("cpu-threads", {"OMP_NUM_THREADS": "3"}, None, THREADS),
    ("cpu-threads", OWN_THREADS, None, {**OWN_THREADS, "OPENBLAS_NUM_THREADS": "4"}),
    ("cpu-threads", OWN_THREADS, "3", THREADS),
    ("cpu-isa", {}, None, ISA),
    ("cpu-isa", {"ATEN_CPU_CAPABILITY": "avx512", "MKL_CBWR": ""}, None, {**ISA, "ATEN_CPU_CAPABILITY": "avx512"}),
    ("cublas-workspace", {}, None, workspace_of(":4096:8")),
    ("cublas-workspace", {"CUBLASLT_WORKSPACE_SIZE": "77"}, None, workspace_of(":4096:8", "77")),
    ("cublas-workspace", workspace_of(":16:8"), None, workspace_of(":16:8")),
    ("cublas-workspace", workspace_of(":4096:2"), None, workspace_of(":4096:8")),
    ("cublas-workspace", workspace_of(":4096:8"), ":16:8", workspace_of(":16:8")),
    ("nccl-algorithms", {}, None, NCCL),
    ("nccl-algorithms", {"NCCL_ALGO": "CollnetDirect"}, None, {**NCCL, "NCCL_ALGO": "CollnetDirect"}),
    ("inductor-autotune", {}, None, {"TORCHINDUCTOR_DETERMINISTIC": "1"}),
    ("inductor-autotune", {"TORCHINDUCTOR_DETERMINISTIC": "0"}, None, {"TORCHINDUCTOR_DETERMINISTIC": "1"}),
]


@pytest.mark.parametrize(("factor", "own", "value", "expected"), BEGUN_WITH)
def test_what_the_user_has_set_is_kept_where_it_holds(
    factor: str, own: dict[str, str], value: str | None, expected: dict[str, str]
) -> None:
    """Only what is missing is filled in, unless a value was asked for; varied, every choice is another one."""
    varied = asked(factor, own, "varied")

    assert asked(factor, own, value=value) == expected
    assert asked(factor, own, "natural") == {}
    assert varied
    # The first is the choice; what is set along with it may stay.
    assert next(iter(varied.items())) not in own.items()


def test_varied_hash_seeds_are_valid_and_all_different() -> None:
    """And never 0, which a pinned run has."""
    varied = [int(asked("hash-seed", {}, "varied", variant=variant)["PYTHONHASHSEED"]) for variant in (1, 2, 3)]

    assert len(set(varied)) == 3
    assert all(0 < seed < 2**32 for seed in varied)


# hash-seed

OBSERVE = """
import samebits
o = samebits.status()["hash-seed"].observation
print(json.dumps([o.value, o.held, o.can_pin, o.reason]))
"""
NOT_SET = "PYTHONHASHSEED is read when the interpreter starts, and it was not set then"
FREE = ["another one in every run", False, False, NOT_SET]


@pytest.mark.parametrize(
    ("variables", "options", "expected"),
    [
        ({}, (), FREE),
        ({"PYTHONHASHSEED": "random"}, (), FREE),
        ({"PYTHONHASHSEED": "0"}, (), ["fixed: 0", True, True, ""]),
        ({"PYTHONHASHSEED": "123"}, (), ["fixed: 123", True, True, ""]),
        ({"PYTHONHASHSEED": "4294967295"}, (), ["fixed: 4294967295", True, True, ""]),
        ({"PYTHONHASHSEED": "123"}, ("-E",), FREE),
        ({"PYTHONHASHSEED": "123"}, ("-R",), FREE),
    ],
)
def test_the_hash_seed_in_effect_is_told(variables: dict[str, str], options: tuple[str, ...], expected: Any) -> None:
    """Read off the hashes themselves: what the variable says may have come too late, or been ignored."""
    assert python(OBSERVE, *options, **variables) == expected


def test_a_hash_seed_set_inside_is_too_late() -> None:
    """The classic mistake: os.environ["PYTHONHASHSEED"] = "0" at the top of the script."""
    code = """
import samebits, warnings
os.environ["PYTHONHASHSEED"] = "7"
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    samebits.pin(factors=["hash-seed"])
try:
    samebits.pin(factors=["hash-seed"], strict=True)
    error = ""
except samebits.TooLateError as late:
    error = str(late)
print(json.dumps([str(told[0].message), told[0].filename, told[0].lineno, error]))
"""
    message, filename, line, error = python(code)

    assert NOT_SET in message
    assert (filename, line) == ("<string>", 7)
    assert error.startswith(f"hash-seed could not be pinned: {NOT_SET}")
    assert "hint: start with `samebits run" in error


def test_a_hash_seed_set_in_time_is_no_reason_to_complain() -> None:
    """Any number will do, also in strict mode; another number than the one asked for will not."""
    code = """
import samebits, warnings
warnings.simplefilter("error")
samebits.pin(factors=["hash-seed"], strict=True)
try:
    samebits.pin(values={"hash-seed": 5}, factors=[], strict=True)
except samebits.TooLateError as late:
    print(json.dumps(str(late)))
"""
    assert "and it was 123 then" in python(code, PYTHONHASHSEED="123")


def test_the_hash_of_this_interpreter_is_computed_right() -> None:
    """Ours is CPython's own, for many seeds at once; one wrong seed is not taken for the right one."""
    code = "import samebits.factors.hash_seed as h\nprint(json.dumps([s for s in range(1, 200) if h._hashes_with(s)]))"

    assert python(code, PYTHONHASHSEED="77") == [77]
    assert hash_seed._is_valid("4294967295")
    assert not hash_seed._is_valid("4294967296")
    assert not hash_seed._is_valid("-1")
    assert not hash_seed._is_valid("٣")


def test_varying_the_hash_seed_changes_the_order_of_a_set() -> None:
    """What a wrong program notices; one that sorts notices nothing."""
    code = "words = set('the quick brown fox jumps over'.split())\nprint(json.dumps([list(words), sorted(words)]))"
    runs = [python(code, **asked("hash-seed", {}, "varied", variant=variant)) for variant in (1, 2)]
    pinned = [python(code, **asked("hash-seed")) for _ in range(2)]

    assert runs[0][0] != runs[1][0]
    assert runs[0][1] == runs[1][1] == pinned[0][1]
    assert pinned[0] == pinned[1]


# cpu-threads


@pytest.mark.parametrize("own", ["", "1", "2", "7", "many"])
def test_varied_thread_counts_differ_from_the_users_and_from_each_other(own: str) -> None:
    """The child takes the count from the environment, so what is asked for is what it gets."""
    environ = {"OMP_NUM_THREADS": own}
    counts = [int(asked("cpu-threads", environ, "varied", variant=v)["OMP_NUM_THREADS"]) for v in (1, 2, 3)]

    assert len({*counts, own}) == 4
    assert all(count > 0 for count in counts)


@pytest.mark.parametrize(("siblings", "counts"), [(["0-1"] * 2, [3, 4]), (["0-1", "0-1", "2-3", "2-3"], [1, 3])])
def test_a_varied_thread_count_is_none_that_torch_may_begin_with(
    siblings: list[str], counts: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a variable it takes all cores, or the physical ones, where two of them share one."""
    for core, text in enumerate(siblings):
        (tmp_path / str(core)).write_text(f"{text}\n")
    monkeypatch.setattr(cpu_threads, "TOPOLOGY", f"{tmp_path}/{{}}")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(len(siblings))))

    assert [int(asked("cpu-threads", {}, "varied", variant=v)["OMP_NUM_THREADS"]) for v in (1, 2)] == counts


def test_what_is_varied_arrives_in_the_child() -> None:
    """Set in the environment, and not changed again by the child's own half; torch tells what it made of it."""
    code = """
from samebits.factors.context import Setting
from samebits.factors.pinning import treat
t = treat({"cpu-threads": Setting("varied"), "cpu-isa": Setting("varied")}, 0)
import torch
print(json.dumps([torch.get_num_threads(), torch.backends.cpu.get_cpu_capability()]))
"""
    wanted = asked("cpu-threads", {}, "varied")
    threads, instructions = python(code, **wanted, **asked("cpu-isa", {}, "varied"))

    assert threads == int(wanted["OMP_NUM_THREADS"])
    assert instructions in ("DEFAULT", "NO AVX")


def test_another_count_is_noticed_by_a_sum() -> None:
    """What a wrong program notices: a large sum is added in another order, and rounds to other bits."""
    numbers = torch.randn(1 << 20, generator=torch.Generator().manual_seed(0))
    sums = {}
    for count in ("1", "2", "4"):
        with treated("cpu-threads", value=count):
            sums[count] = (numbers.sum().item(), numbers.clone().sum().item())

    assert len({pair[0] for pair in sums.values()}) > 1
    assert all(a == b for a, b in sums.values())


def test_a_pinned_count_is_verified() -> None:
    """When the program changes the count afterwards, status() says so."""
    with samebits.pinned(values={"cpu-threads": 4}, factors=[]):
        held = samebits.status()["cpu-threads"]
        torch.set_num_threads(3)
        changed = samebits.status()["cpu-threads"]

    assert (held.is_pinned, held.observation.value) == (True, "4")
    assert (changed.is_pinned, changed.observation.reason) == (False, "3 threads are in use instead of 4")


def test_without_a_value_the_programs_own_count_is_as_good() -> None:
    """`torch.set_num_threads(3)` in the script fixes the count; nobody asked for another."""
    with samebits.pinned(factors=["cpu-threads"]):
        torch.set_num_threads(3)
        seen = samebits.status()["cpu-threads"]

    assert seen.is_pinned


@pytest.mark.parametrize("value", ["0", "-1", "many", "2.5", "", "٣"])
def test_a_thread_count_that_is_none_is_refused(value: str) -> None:
    """A number of threads, at least one."""
    with pytest.raises(UsageError, match="cpu-threads takes a number of threads"):
        samebits.pin(factors=[], values={"cpu-threads": value})


# cpu-isa


def test_pinned_before_torch_is_imported_it_takes() -> None:
    """Also when another pinned factor imports torch: variables are set first, whatever the order of the catalogue."""
    code = """
import samebits
with samebits.pinned(factors=["torch-rng", "cpu-threads", "cpu-isa"], strict=True) as status:
    import torch
    inside = [os.environ["ATEN_CPU_CAPABILITY"], torch.backends.cpu.get_cpu_capability(), status["cpu-isa"].is_pinned]
print(json.dumps([inside, "ATEN_CPU_CAPABILITY" in os.environ]))
"""
    assert python(code) == [["avx2", "AVX2", True], False]


def test_after_the_import_of_torch_it_is_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels are chosen; setting the variables then is noticed, too."""
    for name in ISA:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(TooLateError, match="torch was imported before, and chose its kernels then"):
        samebits.pin(factors=["cpu-isa"], strict=True)
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    differs = torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "NO AVX")

    assert (samebits.status()["cpu-isa"].observation.held is False) == differs


# cublas-workspace


def test_the_workspace_is_set_from_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept where it is valid, replaced where a value was asked for, and given back."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    with samebits.pinned(factors=["cublas-workspace"], strict=True):
        kept = os.environ["CUBLAS_WORKSPACE_CONFIG"]
    with samebits.pinned(factors=[], values={"cublas-workspace": ":4096:8"}, strict=True) as status:
        replaced = os.environ["CUBLAS_WORKSPACE_CONFIG"]
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
        changed = samebits.status()["cublas-workspace"]
    back = os.environ["CUBLAS_WORKSPACE_CONFIG"]

    assert (kept, replaced, back) == (":16:8", ":4096:8", ":16:8")
    assert (status["cublas-workspace"].is_pinned, changed.is_pinned) == (True, False)
    with pytest.raises(UsageError, match="takes :4096:8 or :16:8"):
        samebits.pin(values={"cublas-workspace": ":4096:2"})


def test_a_workspace_set_after_the_first_use_of_cuda_is_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch up to 2.9 reads it at the first call of cuBLAS, once."""
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    treatment = treat({"cublas-workspace": Setting("pinned")}, 0)
    try:
        observed = find("cublas-workspace").observe(treatment.contexts["cublas-workspace"])
    finally:
        treatment.undo()

    assert (observed.held, observed.can_pin) == (False, False)
    assert observed.reason == "CUDA was used before it was set"
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
