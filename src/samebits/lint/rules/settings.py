"""Settings that make torch repeat, and do not hold."""

from __future__ import annotations

import ast

from samebits.lint.environment import variables_set
from samebits.lint.findings import Finding, Findings
from samebits.lint.project import Project, argument, assignments_to, is_true, seeds_in
from samebits.lint.rule import rule
from samebits.lint.source import Function, Source

_CUDNN = "torch.backends.cudnn"


@rule("SB401", "warning", factors=("torch-algorithms",), fix="unsafe", cure="cudnn-autotune")
def autotuned(project: Project, source: Source) -> Findings:
    """cuDNN is asked for repeatable kernels, or a seed is set, and for the quickest ones of the day.

    With `benchmark = True` it times its kernels in every process and takes the quickest: which one that is changes from
    run to run, and each rounds otherwise.

        torch.manual_seed(0)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = True

    Without a race:

        torch.manual_seed(0)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    """  # noqa: D403
    # `benchmark = True` in a script that trains with a seed or repeatable kernels, or in a function that seeds.
    seeding = {source.function_of(call) for _, call in seeds_in(source)}
    is_deterministic = any(is_true(value) for _, value in assignments_to(source, f"{_CUDNN}.deterministic"))
    for node, value in assignments_to(source, f"{_CUDNN}.benchmark"):
        should_repeat = source in project.trains and (is_deterministic or "torch" in project.seeds(source))
        if is_true(value) and (should_repeat or source.function_of(node) in seeding):
            yield Finding.at(source, node, "lets cuDNN choose kernels by time, which a seed does not hold still")


_RIGHT = (":4096:8", ":16:8")


@rule("SB402", "error", factors=("torch-algorithms",), torch="torch.use_deterministic_algorithms checks it until 2.12")
def cublas_value(project: Project, source: Source) -> Findings:
    """CUBLAS_WORKSPACE_CONFIG has a value that does not make cuBLAS repeat.

    NVIDIA names two: `:4096:8` and `:16:8`. With any other, such as `:4096:2`, torch refused to multiply matrices in
    deterministic mode until 2.12; later versions do not look.

        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:2"

    One of the two:

        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    """
    # Statements that set the variable to a constant other than those two.
    for name, value, node in variables_set(source):
        text = value.value if name == "CUBLAS_WORKSPACE_CONFIG" and isinstance(value, ast.Constant) else _RIGHT[0]
        if text not in _RIGHT:
            yield Finding.at(source, node, f"sets {name} to {text!r}, which is neither {' nor '.join(_RIGHT)}")


@rule("SB403", "warning", factors=("torch-algorithms",), fix="unsafe")
def only_warned(project: Project, source: Source) -> Findings:
    """Deterministic algorithms are asked for, and then only as a warning, or not any more.

    With `warn_only=True` an operation that cannot repeat runs all the same; after `False` all of them do.

        torch.use_deterministic_algorithms(True, warn_only=True)

    All or an error:

        torch.use_deterministic_algorithms(True)
    """
    # Calls with `warn_only=True`, and calls with False below a call with True.
    calls = source.calls["torch.use_deterministic_algorithms"]
    on = [call.lineno for call in calls if is_true(argument(call, "mode", 0))]
    for call in calls:
        mode = argument(call, "mode", 0)
        is_chosen = any(isinstance(outer, ast.If) for outer in source.ancestors(call))
        if is_chosen and isinstance(source.function_of(call), Function):
            continue  # by an option or a caller
        if is_true(argument(call, "warn_only")):
            yield Finding.at(source, call, "lets operations that cannot repeat run with a warning")
        elif getattr(mode, "value", None) is False and min(on, default=call.lineno) < call.lineno:
            yield Finding.at(source, call, "takes deterministic algorithms back")


@rule("SB404", "warning", factors=("torch-rng",))
def mode_without_seed(project: Project, source: Source) -> Findings:
    """Deterministic algorithms are on, and nothing is seeded.

    The mode has operations give the same result for the same input; without a seed, weights and batches are other ones
    in each run.

        torch.use_deterministic_algorithms(True)
        model = nn.Linear(4, 1)

    With both:

        torch.use_deterministic_algorithms(True)
        torch.manual_seed(0)
        model = nn.Linear(4, 1)
    """
    # Calls that ask for deterministic algorithms in scripts that train and do not seed torch.
    for call in source.calls["torch.use_deterministic_algorithms"]:
        entries = project.entries_of(source)
        is_on = is_true(argument(call, "mode", 0)) and project.lacks_seed(source, "torch")
        if is_on and any(entry in project.trains for entry in entries):
            yield Finding.at(source, call, "asks for deterministic algorithms in a script that does not seed torch")


@rule("SB407", "warning", factors=("uninitialized-memory",), torch="2.2 and newer")
def memory_unfilled(project: Project, source: Source) -> Findings:
    """Memory that was never written is left as it was found, in deterministic mode.

    Torch fills `torch.empty` with NaN there, so that reading it shows. Switched off, a mistake gives other numbers in
    each run.

        torch.utils.deterministic.fill_uninitialized_memory = False

    As it is by default:

        torch.utils.deterministic.fill_uninitialized_memory = True
    """
    # Assignments of False to the flag that fills memory.
    for node, value in assignments_to(source, "torch.utils.deterministic.fill_uninitialized_memory"):
        if getattr(value, "value", None) is False:
            yield Finding.at(source, node, "leaves memory as it was found, which deterministic mode would fill")
