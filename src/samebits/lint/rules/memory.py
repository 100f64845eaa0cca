"""Memory that nobody wrote yet, or that several write to."""

from __future__ import annotations

import ast

from samebits.lint.findings import Finding, Findings
from samebits.lint.project import Project, argument, class_around, is_true
from samebits.lint.rule import rule
from samebits.lint.source import Source, dotted, last_name, owner_of, walk

# Functions that reduce, and so return a whole result, or that write to their argument.
_COMPLETE = {"all", "any", "max", "amax", "min", "amin", "sum", "prod", "mean", "std", "var", "copyto"}
_COMPLETE |= {"nanmax", "nanmin", "nansum", "nanprod", "nanmean", "nanstd", "nanvar"}


@rule("SB408", "error", factors=("uninitialized-memory",))
def result_unwritten(project: Project, source: Source) -> Findings:
    """A function of NumPy computes where it is told to, and leaves the rest as it was found.

    Without `out`, what it returns there is memory that nobody wrote: in one of six processes it held other numbers.

        rate = np.divide(clicked, shown, where=shown > 0)

    With something to leave there:

        rate = np.divide(clicked, shown, out=np.zeros_like(clicked), where=shown > 0)
    """
    # Calls of NumPy's functions with `where` and no `out`.
    for keyword in source.every(ast.keyword):
        call = source.parents[keyword]
        if keyword.arg != "where" or is_true(keyword.value) or not isinstance(call, ast.Call):
            continue
        library, _, name = source.qualified(call.func).rpartition(".")
        has_out = argument(call, "out") or any(not other.arg for other in call.keywords)
        if library == "numpy" and name not in _COMPLETE and not has_out:
            yield Finding.at(source, call, f"leaves the result of {name}() unwritten wherever its `where` is False")


_WAITS = {"synchronize", "query", "wait"}


@rule("SB409", "warning", factors=("stream-order",))
def copy_unwaited(project: Project, source: Source) -> Findings:
    """A copy from a GPU to the host that nobody waits for is read before it is there.

    With `non_blocking=True` the call returns at once, and the tensor holds what stood in that memory before, until the
    GPU has come so far. In a short test it mostly has.

        losses.append(loss.detach().to("cpu", non_blocking=True))

    With a wait before it is read:

        losses.append(loss.detach().to("cpu", non_blocking=True))
        torch.cuda.synchronize()
    """
    # Copies to the CPU with `non_blocking=True` in a file in which nothing waits.
    for call in source.methods["to"]:
        target = argument(call, "device", 0)
        if isinstance(target, ast.Call) and source.qualified(target.func) == "torch.device":
            target = argument(target, "device", 0)
        is_copied = isinstance(target, ast.Constant) and target.value == "cpu"
        if is_copied and is_true(argument(call, "non_blocking")) and not source.words & _WAITS:
            yield Finding.at(source, call, "copies to the host, and nothing here waits for it")


_EMPTY = ("torch.empty", "torch.Tensor", "torch.FloatTensor", "torch.empty_like")


@rule("SB502", "error", factors=("uninitialized-memory",))
def parameter_unwritten(project: Project, source: Source) -> Findings:
    """A parameter is made of memory that nobody wrote.

    `torch.empty` and `torch.Tensor(n)` hold what was there before: it differed between two plain runs, and is NaN in
    deterministic mode.

        class Scale(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.empty(8))

    Filled:

        class Scale(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.empty(8))
                nn.init.ones_(self.weight)
    """
    # Parameters made of unwritten memory, where nothing in the class or the file seems to initialize them.
    for call in source.methods["Parameter"]:
        node, holder, tensor = source.parents[call], class_around(source, call), call.args[0] if call.args else None
        if not (isinstance(node, ast.Assign) and isinstance(tensor, ast.Call) and tensor.args and holder):
            continue
        name, maker = dotted(node.targets[0]), source.qualified(tensor.func)
        # `torch.Tensor` of a list, or of a name that may be one, holds the list's numbers.
        is_full = "empty" not in maker and isinstance(tensor.args[0], ast.List | ast.Tuple | ast.Name)
        is_unfilled = argument(call, "requires_grad") is None and not _is_filled(source, holder, name)
        if maker in _EMPTY and not is_full and is_unfilled:
            yield Finding.at(source, node, f"makes {name} of memory that nobody wrote")


def _is_filled(source: Source, holder: ast.ClassDef, name: str) -> bool:
    """Whether the class mentions the parameter again, or something may initialize, load or walk over all parameters."""
    if sum(dotted(node) == name for node in walk(holder)) > 1:
        return True
    words = {last_name(node) for node in walk(holder)} | source.words
    return any("init" in word or "reset" in word for word in words - {"__init__"}) or bool(
        words & {"parameters", "load_state_dict", "from_pretrained", "setattr", "apply"}
    )


@rule("SB503", "warning", factors=("torch-algorithms",))
def atomic_add(project: Project, source: Source) -> Findings:
    """A kernel of one's own adds atomically.

    Which thread adds first is left to the device; floats round otherwise in each order, and no mode of torch knows of
    it.

        @triton.jit
        def add_rows(out, rows):
            tl.atomic_add(out, tl.load(rows))

    One program for each output, which adds in its own order:

        @triton.jit
        def add_rows(out, rows):
            tl.store(out, tl.sum(tl.load(rows)))
    """
    # Calls of `atomic_add` of triton.language.
    for call in source.methods["atomic_add"]:
        if source.qualified(call.func).startswith(("triton.", "tl.", ".tl.")):
            yield Finding.at(source, call, "adds in the order in which threads come")


_STARTING = ("Process", "spawn", "start_processes")


@rule("SB504", "error")
def shared_parameters(project: Project, source: Source) -> Findings:
    """Several processes step on parameters that they share.

    Which process reads and writes first is left to the system: no seed and no pin makes it repeat.

        model.share_memory()
        workers = [mp.Process(target=fit, args=(loss, optimizer)) for rank in range(4)]

    Average what processes of their own have learned, for instance with DistributedDataParallel:

        model = nn.parallel.DistributedDataParallel(model)
    """
    # Calls of `share_memory()` on an object named as a model, where processes are started and something steps.
    for call in source.methods.of(["share_memory", "share_memory_"]):
        starts = any(name in source.methods for name in _STARTING)
        steps = any({"step", "backward"} <= file.methods.keys() for file in (source, *project.imports_of(source)))
        owner = last_name(owner_of(call)).lower()
        if starts and steps and any(word in owner for word in ("model", "net", "policy", "actor")):
            yield Finding.at(source, call, f"shares {owner} among processes that step on it as they come")
