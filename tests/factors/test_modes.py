"""torch-algorithms, the cuDNN switches, float-precision: settings that choose between algorithms."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import samebits
from samebits.base.errors import UsageError
from tests import answers
from tests.factors.contexts import treated, watched

pytestmark = pytest.mark.filterwarnings("ignore::samebits.TooLateWarning")

REFUSED = "does not have a deterministic implementation"


def refused() -> None:
    """An operation that has no deterministic kernel on the CPU."""
    pooled, places = torch.nn.functional.max_pool2d(torch.rand(1, 1, 4, 4), 2, return_indices=True)
    torch.nn.functional.max_unpool2d(pooled, places, 2)


REFUSED_LINE = refused.__code__.co_firstlineno + 3


def test_strict_keeps_torchs_message_and_names_the_line() -> None:
    """The error is torch's own, with the user's line as a note; through torch's own frames, nested too, and once."""
    strict = samebits.pinned(factors=[], values={"torch-algorithms": "strict"})
    with pytest.raises(RuntimeError, match=REFUSED) as caught, strict, samebits.pinned(factors=["clock"]):
        refused()

    line = f"samebits: called at {__file__}:{REFUSED_LINE}"
    if sys.version_info >= (3, 11):
        (note,) = caught.value.__notes__
        other = "torch-algorithms=replace puts a formula in its place or says why not"
        assert note == f"{line} (torch-algorithms is pinned; {other}, =warn lets it pass)"
    refused()


def test_no_other_error_gets_a_note() -> None:
    """Nor this one, where the program itself asked for deterministic algorithms."""
    with pytest.raises(RuntimeError) as other, samebits.pinned():
        torch.ones(2) @ torch.ones(3)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match=REFUSED) as own, samebits.pinned(factors=["clock"]):
            refused()
    finally:
        torch.use_deterministic_algorithms(False)

    assert not getattr(other.value, "__notes__", ())
    assert not getattr(own.value, "__notes__", ())


def test_under_a_run_the_line_is_told_on_stderr(tmp_path: Path) -> None:
    """After the traceback, which is Python's own."""
    script = tmp_path / "train.py"
    program = "import torch\n\nx = torch.ones(1, 1, 2, 2)\ntorch.nn.MaxUnpool2d(2)(x, torch.zeros_like(x).long())\n"
    script.write_text(program)
    result = answers.samebits(tmp_path, "run", "--pin", "torch-algorithms=strict", "--out", "out", str(script))

    assert result.returncode == 1
    assert REFUSED in result.stderr
    assert f"samebits: called at {script}:4 (torch-algorithms is pinned" in result.stderr


def test_a_formula_answers_where_torch_refuses() -> None:
    """Unless told otherwise; where somebody else has replaced such an operation, torch's word holds."""
    with samebits.pinned(factors=["torch-algorithms"], strict=True) as ours:
        refused()
    library = torch.library.Library("aten", "IMPL", "CPU")
    library.impl("put_", lambda self, index, source, accumulate=False: self, allow_override=True)
    try:
        with (
            pytest.raises(RuntimeError, match=REFUSED),
            samebits.pinned(factors=["torch-algorithms"], strict=True) as theirs,
        ):
            refused()
    finally:
        library._destroy()

    assert "formulas of samebits" in ours["torch-algorithms"].observation.value
    assert theirs["torch-algorithms"].observation.value == "deterministic kernels or an error"


def test_warn_lets_it_pass_and_is_never_called_deterministic() -> None:
    """A warning instead of an error, no complaint that the pin did not take, and no claim that it holds."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with samebits.pinned(factors=[], values={"torch-algorithms": "warn"}, strict=True) as status:
            refused()

    assert [REFUSED in str(warning.message) for warning in told] == [True]
    assert not status["torch-algorithms"].is_pinned
    with pytest.raises(UsageError, match="takes replace, strict or warn, got 'loud'"):
        samebits.pin(values={"torch-algorithms": "loud"})


@pytest.mark.parametrize("change", ["off", "warn"])
def test_a_program_that_takes_the_flag_back_gets_warnings_and_is_found_out(change: str) -> None:
    """Kernels stay deterministic where there are any, no new error comes up, and nobody says that it holds."""
    with samebits.pinned(factors=[], values={"torch-algorithms": "strict"}):
        held = samebits.status()["torch-algorithms"].is_pinned
        torch.use_deterministic_algorithms(change != "off", warn_only=change == "warn")
        stays = torch.are_deterministic_algorithms_enabled()
        with pytest.warns(UserWarning, match=REFUSED):
            refused()
        seen = samebits.status()["torch-algorithms"].observation

    assert held
    assert stays
    assert seen.held is False
    assert seen.reason.startswith("the program ")


def test_the_costly_companion_is_off_and_comes_back() -> None:
    """Torch fills all new memory in deterministic mode unless told not to; another factor does that."""
    before = torch.utils.deterministic.fill_uninitialized_memory
    with samebits.pinned(factors=["torch-algorithms"]):
        inside = torch.utils.deterministic.fill_uninitialized_memory
        flags = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()

    assert (before, inside, torch.utils.deterministic.fill_uninitialized_memory) == (True, False, True)
    assert flags == (True, False)


def test_varied_nothing_fails_that_did_not_fail() -> None:
    """Other kernels where there are any, and no error where there are none."""
    with treated("torch-algorithms", "varied"):
        enabled = torch.are_deterministic_algorithms_enabled()
        with pytest.warns(UserWarning, match=REFUSED):
            refused()

    assert enabled


@pytest.mark.parametrize(
    ("factor", "name", "pinned"),
    [
        ("cudnn-autotune", "benchmark", False),
        ("cudnn-algorithms", "deterministic", True),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_the_cudnn_switches(factor: str, name: str, pinned: bool, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pinned to the value that repeats, whatever the program says, which is witnessed; varied to the other one."""
    cudnn: Any = torch.backends.cudnn
    monkeypatch.setattr(cudnn, name, own)
    with treated(factor, "varied"):
        varied = getattr(cudnn, name)
    with watched(factor, "pinned") as witnesses:
        value = getattr(cudnn, name)
        setattr(cudnn, name, pinned)
        setattr(cudnn, name, not pinned)
        line = sys._getframe().f_lineno - 1
        still = getattr(cudnn, name)
        with cudnn.flags(**{name: not pinned}):
            inside = getattr(cudnn, name)

    assert (value, still, inside, varied, getattr(cudnn, name)) == (pinned, pinned, pinned, not own, own)
    first = witnesses[0]
    assert (first.what, first.site.line) == (f"torch.backends.cudnn.{name} = {not pinned}", line)
    setattr(cudnn, name, not own)
    assert getattr(cudnn, name) is not own


def test_where_it_is_left_alone_the_line_that_asks_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watched, it does what the program says; and only what may not repeat is told."""
    cudnn: Any = torch.backends.cudnn
    monkeypatch.setattr(cudnn, "benchmark", False)
    with watched("cudnn-autotune", "natural") as witnesses:
        cudnn.benchmark = True
        line = sys._getframe().f_lineno - 1
        value = cudnn.benchmark
        cudnn.benchmark = False

    assert (value, cudnn.benchmark) == (True, False)
    assert [one.site.line for one in witnesses if one.factor == "cudnn-autotune" and one.site] == [line]


def test_a_released_line_sets_what_it_says() -> None:
    """Where lines are told apart, one of them is let go although the factor is pinned."""
    cudnn: Any = torch.backends.cudnn
    line = sys._getframe().f_lineno + 2
    with treated("cudnn-autotune", "pinned", released=((__file__, line),)):
        cudnn.benchmark = True
        let_go = cudnn.benchmark
        cudnn.benchmark = False
        cudnn.benchmark = True
        kept = cudnn.benchmark

    assert (let_go, kept) == (True, False)


def float_settings() -> list[str]:
    """Everything that a program may have set before, in the older and in the newer way."""
    backends = "torch.backends"
    found = ["pass", "torch.set_float32_matmul_precision('medium')", f"{backends}.cuda.matmul.allow_tf32 = True"]
    found += [f"{backends}.cudnn.allow_tf32 = False"]
    if hasattr(torch.backends, "fp32_precision"):
        found += [f"{backends}.fp32_precision = 'tf32'", f"{backends}.cuda.matmul.fp32_precision = 'tf32'"]
        found += [f"{backends}.cudnn.conv.fp32_precision = 'ieee'", f"{backends}.mkldnn.matmul.fp32_precision = 'bf16'"]
        found += [f"{backends}.cuda.matmul.allow_fp16_reduced_precision_reduction = (False, False)"]
    return found


def test_float_precision_is_pinned_and_given_back_whatever_was_set() -> None:
    """From torch 2.9 on there are two ways to say it, and reading one can fail after the other was used."""
    code = f"""
import operator, torch, samebits
from samebits.factors import float_precision as f
from samebits.factors.context import Setting
from samebits.factors.pinning import treat
def state():
    # Found without the factor's help: every place below torch.backends that has a precision of its own.
    ops = ("", ".matmul", ".conv", ".rnn")
    places = ["", *(f"{{one}}{{op}}" for one in (".cuda", ".cudnn", ".mkldnn") for op in ops)]
    new = []
    for place in places:
        try:
            new.append((place, operator.attrgetter(f"backends{{place}}.fp32_precision")(torch)))
        except AttributeError:
            continue
    older = [n for n in dir(torch._C) if n.startswith("_get_cublas_allow_fp16")]
    return new, f._reductions(torch), [getattr(torch._C, n)() for n in older]
for text in {float_settings()!r}:
    exec(text)
    before = state()
    told = samebits.status()["float-precision"].observation
    assert (told.held is True) == (not before[1]), text
    with samebits.pinned(factors=["float-precision"], strict=True):
        assert f._reductions(torch) == [], (text, f._reductions(torch))
        assert torch.get_float32_matmul_precision() == "highest"
        assert torch.backends.cudnn.allow_tf32 is torch.backends.cuda.matmul.allow_tf32 is False
        torch.set_float32_matmul_precision("high")
        assert samebits.status()["float-precision"].observation.reason.startswith("the program allows fewer bits again")
    assert state() == before, (text, before, state())
    t = treat({{"float-precision": Setting("varied")}}, 0)
    assert bool(f._reductions(torch)) != bool(before[1]), text
    t.undo()
    assert state() == before, (text, before, state())
"""
    subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code], check=True)
