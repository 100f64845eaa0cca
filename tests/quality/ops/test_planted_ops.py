"""Models with one operation that goes wrong in the second run, and their clean twins.

The guilty line of a model carries the comment `# <- NAME`, where NAME is the model's. `compare` must name that line,
the operation, the pass, the module and what differs there, and be silent when both runs are well.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import samebits
from samebits.comparison.ops import OpFinding
from samebits.runfolder.folder import open_run
from samebits.runfolder.ops import Ops
from tests.quality.ops import layers, memory, planting, training
from tests.quality.ops.planting import Fault, Slip, Watch

MODULES = (layers, memory, training, planting)
MARK = re.compile(r"# <- ([a-z_, ]+)$")


@dataclass(frozen=True)
class Case:
    """A planted fault and the answer to it.

    Attributes:
        name: of the model.
        finding, op, pass_, module, step: what is to be named.
        backward_of: the forward operation of the guilty one; empty in other passes.
        names: the inputs or results that differ; None where that is not the point.
        extra: with `control flow`, the operations that one run made and the other did not.
        extra_in: which run made them.
        slips: operations that give another bit in the second run; without any, the model has a fault of its own.
    """

    name: str
    finding: OpFinding
    op: str
    pass_: str = "forward"
    module: str = "model"
    step: int = 0
    backward_of: str = ""
    names: tuple[str, ...] | None = None
    extra: tuple[str, ...] = ()
    extra_in: str = ""
    slips: tuple[tuple[Any, ...], ...] = ()


def slip(name: str, op: str, pass_: str = "forward", module: str = "model", call: int = 0, **more: Any) -> Case:
    """An operation of torch that gives another bit in its result: the first, unless `tensor` tells which."""
    target = (op, call, more.pop("tensor", 0))
    return Case(name, "op", op, pass_, module, slips=(target,), **more)


def flow(name: str, *ops: str, extra_in: str, pass_: str = "forward", module: str = "model", step: int = 0) -> Case:
    """Operations that one run makes and the other does not."""
    return Case(name, "control flow", ops[0], pass_, module, step, extra=ops, extra_in=extra_in)


CASES = [
    # Operations of the user's own.
    Case("custom_op_forward", "op", "planted::scale", names=("result",)),
    Case("custom_op_backward", "op", "planted::scale", "backward", backward_of="scale_well"),
    Case("data_dependent_shape", "op", "planted::keep"),
    Case("two_origins", "op", "planted::scale"),
    slip("function_forward", "aten::mul.Tensor"),
    slip("function_backward", "aten::mul.Tensor", "backward", backward_of="mul", call=3),
    # Modules.
    slip("called_twice", "aten::mm", module="model.shared", call=1),
    slip("library_called_twice", "aten::addmm", module="model.shared", call=1),
    slip("library_called_twice_backward", "aten::mm", "backward", "model.shared", backward_of="addmm"),
    slip("inner_backward", "aten::tanh_backward", "backward", "model.0", call=1, backward_of="tanh"),
    slip("module_list", "aten::addmm", module="model.blocks.1", call=1),
    slip("tied", "aten::mm", module="model.decoder", call=1),
    slip("parametrized", "aten::_weight_norm_interface", module="model.head.parametrizations.weight.0"),
    slip("lstm", "aten::sigmoid_", module="model.lstm", call=5),
    slip("lstm_backward", "aten::sigmoid_backward", "backward", "model.lstm", call=5, backward_of="sigmoid_"),
    slip("attention", "aten::_scaled_dot_product_flash_attention_for_cpu"),
    slip(
        "attention_backward",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        "backward",
        backward_of="_scaled_dot_product_flash_attention_for_cpu",
        tensor=1,
        names=("result[1]",),
    ),
    slip("multihead", "aten::_softmax", module="model.mixer"),
    slip(
        "layer_norm_weight",
        "aten::native_layer_norm_backward",
        "backward",
        "model.norm",
        backward_of="native_layer_norm",
        tensor=1,
        names=("result[1]",),
    ),
    slip("conv_weight", "aten::convolution_backward", "backward", "model.0", backward_of="convolution", tensor=1),
    slip("embedding", "aten::embedding_dense_backward", "backward", "table", backward_of="embedding"),
    slip("statistics", "aten::native_batch_norm", module="model.norm", tensor=6, names=("running_mean",)),
    Case("statistics_in_eval", "input", "aten::native_batch_norm", module="model.norm", names=("running_mean",)),
    # Checkpoints.
    slip("checkpointed", "aten::mm", module="model.block"),
    slip("checkpointed_reentrant", "aten::mm", module="model.block"),
    slip("recomputed", "aten::mm", "backward", "model.block", call=1),
    slip("recomputed_reentrant", "aten::mm", "backward", "model.block", call=1),
    slip("recomputed_backward", "aten::tanh_backward", "backward", "model.block", backward_of="tanh"),
    slip("recomputed_reentrant_backward", "aten::tanh_backward", "backward", "model.block", backward_of="tanh"),
    slip("step_after_recomputation", "aten::add_.Tensor", "optimizer", ""),
    # Other numbers, other kinds of gradient.
    slip("autocast", "aten::addmm", module="model.down", call=1),
    slip("autocast_cast", "aten::_to_copy", module="model.down", call=4),
    slip("autocast_backward", "aten::mm", "backward", "model.down", backward_of="addmm"),
    slip("fourier", "aten::_fft_r2c"),
    slip("double_backward", "aten::mm", "backward", "model", call=1, step=1, backward_of="mm"),
    slip("functional", "aten::addmm"),
    slip("functional_backward", "aten::mm", "backward", backward_of="addmm"),
    slip("mapped", "aten::exp", "none", ""),
    Case("threads", "op", "aten::sum", "none", ""),
    slip("loss_function", "aten::nll_loss_forward", module=""),
    slip("loss_backward", "aten::_log_softmax_backward_data", "backward", "", backward_of="_log_softmax"),
    slip("hooked", "aten::mul.Tensor", "backward", "model", call=1),
    slip("sparse_embedding", "aten::add_.Tensor", "optimizer", ""),
    # Optimizers.
    Case("foreach_lr", "argument", "aten::_foreach_mul_.Scalar", "optimizer", "", 1, names=("numbers",)),
    Case("fused_lr", "argument", "aten::_fused_adamw_", "optimizer", "", 1, names=("numbers",)),
    Case("single_lr", "argument", "aten::mul_.Tensor", "optimizer", "", 1, names=("numbers",)),
    Case("sgd_lr", "argument", "aten::add_.Tensor", "optimizer", "", 1, names=("numbers",)),
    slip("foreach_kernel", "aten::_foreach_addcdiv_.ScalarList", "optimizer", "", 1, step=1, names=("self[0]",)),
    slip("fused_kernel", "aten::_fused_adamw_", "optimizer", "", 1, step=1, names=("self[0]",)),
    slip("single_kernel", "aten::addcdiv_", "optimizer", "", 5, step=1),
    slip("lbfgs", "aten::addmm", call=2),
    slip("lbfgs_direction", "aten::dot", "optimizer", ""),
    slip("two_optimizers", "aten::addmm", module="critic", call=2, step=1),
    slip("accumulated_forward", "aten::addmm", module="model.1", call=3),
    slip("accumulated", "aten::add_.Tensor", "backward", "model.1", backward_of="gradient of model.1.bias"),
    slip("clipped", "aten::linalg_vector_norm", "none", "", step=1),
    slip("averaged", "aten::lerp_.Scalar", "none", ""),
    slip("metric", "aten::_softmax", "none", ""),
    # Data and generators.
    slip("collate", "aten::mul.Tensor", "none", ""),
    Case("shuffled", "generator", "aten::random_", "none", "", names=("generator",)),
    Case("dropout", "generator", "aten::bernoulli_.float", module="model.drop", names=("generator",)),
    Case("own_generator", "generator", "aten::randn.generator", "none", "", names=("generator",)),
    Case("numpy_batches", "input", "aten::addmm", module="model.head", step=1, names=("mat1",)),
    Case("numpy_targets", "input", "aten::mse_loss", module="", names=("target",)),
    # Control flow and arguments.
    flow("extra_draw", "aten::rand", extra_in="second", pass_="none", module=""),
    flow("extra_op", "aten::gt.Scalar", "aten::masked_select", extra_in="second"),
    flow("missing_op", "aten::sin", extra_in="first"),
    flow("reordered_ops", "aten::cos", "aten::sin", extra_in="both"),
    flow("replaced_op", "aten::cos", extra_in="both"),
    flow("longer_loop", "aten::sin", extra_in="second"),
    flow("one_more_at_the_end", "aten::zeros", "aten::sum", extra_in="second", pass_="none", module="", step=2),
    Case("masked_shape", "input", "aten::gt.Scalar", module="Net", names=("self",)),
    Case("scalar_argument", "argument", "aten::mul.Tensor", names=("numbers",)),
    Case("complex_argument", "argument", "aten::mul.Tensor"),
    Case("integer_argument", "argument", "aten::roll"),
    Case("slice_argument", "argument", "aten::slice.Tensor"),
    # Memory.
    slip("in_place", "aten::add_.Tensor", "none", "", names=("self",)),
    slip("in_place_with_gradient", "aten::mul_.Tensor", module=""),
    slip("in_place_backward", "aten::mul.Tensor", "backward", "", call=1, backward_of="mul_"),
    slip("through_view", "aten::exp", "none", ""),
    slip("part_of_view", "aten::add_.Tensor", "none", "", names=("self",)),
    slip("view_then_base", "aten::exp_", "none", ""),
    slip("assigned_part", "aten::copy_", "none", ""),
    slip("view_with_gradient", "aten::mul_.Tensor", module=""),
    slip("detached", "aten::exp", module=""),
    slip("out_variant", "aten::mul.out", "none", "", names=("out",)),
    slip("out_of_view", "aten::exp.out", "none", "", names=("out",)),
    slip("foreach_in_place", "aten::_foreach_exp_", "none", "", names=("self[0]",)),
    slip("set_data", "aten::exp", "none", ""),
    Case("empty_read", "input", "aten::mul.Tensor", "none", ""),
    Case("empty_half_read", "input", "aten::sum", "none", ""),
    Case("empty_added_to", "input", "aten::add_.Tensor", "none", ""),
    Case("empty_viewed", "input", "aten::exp", "none", ""),
    Case("empty_like_read", "input", "aten::exp", "none", ""),
]

# The second run finds other leftovers in fresh memory, and looks at none of them.
SILENT = sorted({name for name in vars(memory) if name.startswith("empty_")} - {planted.name for planted in CASES})


def model_of(name: str) -> Any:
    return next(getattr(module, name) for module in MODULES if hasattr(module, name))


def marked_lines() -> Iterator[tuple[str, str, int]]:
    """Name, path and line of every mark."""
    for module in MODULES:
        for line, source in enumerate(Path(str(module.__file__)).read_text(encoding="utf-8").splitlines(), start=1):
            if mark := MARK.search(source):
                yield from ((name, str(module.__file__), line) for name in mark[1].split(", "))


MARKS = {name: (path, line) for name, path, line in marked_lines()}


def compared(name: str, folder: Path, slips: list[Slip]) -> tuple[samebits.Comparison, samebits.Comparison]:
    """What there is to say of a run of a model beside another one without the fault, and beside one that has it."""
    for run in ("first", "twin", "faulty"):
        torch.manual_seed(0)
        is_on = run == "faulty"
        Fault.is_on, entered = is_on and not slips, slips if is_on else []
        try:
            for mode in entered:
                mode.__enter__()
            with samebits.record(folder / run, level="op"):
                model_of(name)()
        finally:
            Fault.is_on = False
            for mode in reversed(entered):
                mode.__exit__(None, None, None)
    return samebits.compare(folder / "first", folder / "twin"), samebits.compare(folder / "first", folder / "faulty")


@pytest.mark.parametrize("planted", CASES, ids=lambda planted: planted.name)
def test_fault_is_named_and_its_clean_twin_is_silent(planted: Case, tmp_path: Path) -> None:
    """The operation, its pass, module and line, and what differs there; without the fault both runs are the same."""
    slips = [Slip(*target) for target in planted.slips]

    twin, found = compared(planted.name, tmp_path, slips)

    assert twin.same
    assert all(mode.has_happened for mode in slips)
    assert found.op is not None
    kind = found.op.row.kind
    answer = replace(
        planted,
        finding=found.op.finding,
        op=kind.op,
        pass_=kind.pass_,
        module=kind.module,
        step=found.op.step,
        backward_of=kind.backward_of if planted.backward_of else "",
        names=planted.names and found.op.names,
        extra=tuple(row.kind.op for row in found.op.extra),
        extra_in=found.op.extra_in,
    )
    assert (answer, kind.path, kind.line) == (planted, *MARKS[planted.name])


@pytest.mark.parametrize("name", SILENT)
def test_memory_that_nobody_reads_is_silent(name: str, tmp_path: Path) -> None:
    """What lay in fresh memory before it was written is no difference."""
    assert [found.same for found in compared(name, tmp_path, [])] == [True, True]


def ops_of(folder: Path) -> list[str]:
    (recording,) = open_run(folder).recordings()
    return [row.kind.op for row in Ops(recording).rows()]


@pytest.mark.parametrize(
    "name",
    ["through_view", "out_variant", "empty_copied", "checkpointed", "collate", "foreach_kernel", "lstm", "statistics"],
)
def test_recorded_are_the_models_operations(name: str, tmp_path: Path) -> None:
    """What the model calls when nobody records, and nothing that the recorder calls."""
    model = model_of(name)
    with Watch() as alone:
        model()
    with samebits.record(tmp_path / "run", level="op"):
        model()

    assert ops_of(tmp_path / "run") == alone.ops


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_script_module_runs(tmp_path: Path) -> None:
    """A module without Python code of its own is called as ever."""
    model = torch.jit.script(torch.nn.Linear(4, 4))

    with samebits.record(tmp_path / "run", level="op"):
        model(torch.zeros(3, 4))

    assert "aten::addmm" in ops_of(tmp_path / "run")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("level", ["step", "op"])
def test_tracer_sees_the_model_only(level: str, tmp_path: Path) -> None:
    """A trace that is made while samebits records is the one that is made otherwise."""
    model, x = torch.nn.Linear(4, 4), torch.zeros(3, 4)
    expected = [node.kind() for node in torch.jit.trace(model, x).inlined_graph.nodes()]

    with samebits.record(tmp_path / "run", level=level):
        traced = torch.jit.trace(model, x)

    assert [node.kind() for node in traced.inlined_graph.nodes()] == expected


def test_every_mark_has_its_case() -> None:
    """No planted fault lies about unchecked."""
    assert sorted(name for name, _, _ in marked_lines()) == sorted(planted.name for planted in CASES)
