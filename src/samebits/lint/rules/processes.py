"""What a process reads when it starts, and what those that it starts have of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samebits.lint.environment import THREADS, closest_variable, variables_set
from samebits.lint.findings import Finding, Findings
from samebits.lint.libraries import ALL, DRAWS
from samebits.lint.project import MAIN, Project, argument, holder_of, seeds_in
from samebits.lint.rule import rule
from samebits.lint.source import Source, dotted, last_name, owner_of, walk


@rule("SB112", "warning", fix="safe", cure="misspelt")
def misspelt_variable(project: Project, source: Source) -> Findings:
    """The name of an environment variable is misspelt.

    What nobody reads has no effect, and nobody says so: `PYTHONASHSEED=0` leaves the order of sets as it was.

        os.environ["CUBLAS_WORKSPACE_CONFG"] = ":4096:8"

    As it is called:

        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    """
    # Statements that set a variable whose name is nearly that of a known one.
    for name, _, node in variables_set(source):
        if right_name := closest_variable(name):
            yield Finding.at(source, node, f"sets {name}, which nothing reads: it is called {right_name}")


_STARTING = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")


@rule("SB705", "error", factors=("torch-rng", "numpy-rng", "python-rng"))
def spawned_unseeded(project: Project, source: Source) -> Findings:
    """A seed is set in the process that starts the others, and in none of these.

    Processes that `spawn` starts begin as new interpreters: each draws initial weights, dropout and shuffling from
    generators that nothing seeded. In two runs of such a script, none of the ranks repeated.

        import torch.multiprocessing as mp
        def main():
            torch.manual_seed(0)
            mp.spawn(worker, nprocs=2)

    In each of them:

        import torch.multiprocessing as mp
        def worker(rank):
            torch.manual_seed(0)
            train(rank)

        def main():
            mp.spawn(worker, nprocs=2)
    """
    # Calls in a script that trains which seed torch only where it spawns, or where spawned processes never come.
    starts = [call for call in source.calls.of(_STARTING) if argument(call, "start_method") is None]
    if not starts or source not in project.trains or ALL in project.seeds(source):
        return
    starters = {source.function_of(start) for start in starts}
    seeds = [(file, call) for file in project.closure(source) for library, call in seeds_in(file) if library == "torch"]
    here = [call for file, call in seeds if file is source]
    if (
        seeds
        and len(here) == len(seeds)
        and all(source.function_of(call) in starters or holder_of(source, call) == MAIN for call in here)
    ):
        yield Finding.at(source, here[0], f"seeds this process, and none of those that line {starts[0].lineno} starts")


_STARTS = {"Popen", "subprocess", "spawn", "Process", "launch"}
_STARTS |= {"execv", "execve", "execl", "execle", "execvp", "execvpe"}


@rule("SB801", "error")
def hash_seed_late(project: Project, source: Source) -> Findings:
    """PYTHONHASHSEED is set in the process that it should hold still.

    Python reads it once, when it starts. Six runs of a script that set it in its first line iterated over sets in six
    orders.

        os.environ["PYTHONHASHSEED"] = "0"
        names = list({"cat", "dog"})

    Start the script with it, or with `samebits run`; or do not depend on the order of sets:

        names = sorted({"cat", "dog"})
    """
    # Statements that set PYTHONHASHSEED in a file that starts no further process which would read it.
    for name, _, node in variables_set(source):
        if name == "PYTHONHASHSEED" and not project.is_mentioned([source], *_STARTS):
            yield Finding.at(source, node, "sets PYTHONHASHSEED, which Python has read before")


_MAPPING = ("map", "imap", "imap_unordered", "starmap", "map_async", "apply_async", "apply")


@rule("SB803", "error", factors=("numpy-rng",))
def pool_draws(project: Project, source: Source) -> Findings:
    """Processes of a pool draw from NumPy's global generator.

    Forked ones begin with one and the same state: each draws the same numbers, and which task gets them depends on
    which process takes it.

        def augment(path):
            return np.random.normal(size=3)

        with multiprocessing.Pool(4) as pool:
            rows = pool.map(augment, paths)

    A generator for each task:

        def augment(number):
            return np.random.default_rng([seed, number]).normal(size=3)

        with multiprocessing.Pool(4) as pool:
            rows = pool.map(augment, numbers)
    """
    # Draws from NumPy's global generator in functions that are given to a pool of `multiprocessing`.
    for call in source.methods.of(_MAPPING):
        owner = dotted(owner_of(call))
        if "pool" not in owner.lower() or "Pool" not in source.words or "ThreadPool" in source.words or not call.args:
            continue
        task = project.function(source, last_name(call.args[0]))
        for node in walk(task[1]) if task else ():
            if isinstance(node, ast.Call) and task and task[0].qualified(node.func) in DRAWS["numpy"]:
                yield Finding.at(task[0], node, f"draws in each process of {owner} from a copy of one generator")


@rule("SB804", "error", factors=("cpu-threads",), fix="safe", cure="late variable")
def variable_late(project: Project, source: Source) -> Findings:
    """A variable that libraries read when they are loaded is set after they were.

    `OMP_NUM_THREADS` and its kin are read once, at import. Set later they change nothing, and sums go on being split
    among as many threads as there are cores.

        import torch

        os.environ["OMP_NUM_THREADS"] = "1"

    Above all imports, or from within torch:

        import torch

        torch.set_num_threads(1)
    """
    # Statements at the top of a file that set a variable for threads below an import of torch or NumPy.
    for name, _, node in variables_set(source):
        loaded = next(_imports(source, node), None)
        if name in THREADS and loaded is not None and isinstance(source.function_of(node), ast.Module):
            yield Finding.at(source, node, f"sets {name} after line {loaded.lineno}, where it is read")


def _imports(source: Source, node: ast.AST) -> Iterator[ast.stmt]:
    if any(name in source.words for name in ("Popen", "subprocess", "execv", "spawn", "Process", "Pool")):
        return
    for one in source.every(ast.Import, ast.ImportFrom):
        names = [alias.name for alias in one.names] if isinstance(one, ast.Import) else [one.module or ""]
        is_top = isinstance(source.parents[one], ast.Module)
        if is_top and one.lineno < node.lineno and any(name.split(".")[0] in ("torch", "numpy") for name in names):  # type: ignore[attr-defined]
            yield one
