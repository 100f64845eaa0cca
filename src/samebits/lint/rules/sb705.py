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

from samebits.lint.libraries import ALL
from samebits.lint.project import MAIN, argument, holder_of, seeds_in
from samebits.lint.rule import Finding, Findings, Project, Rule, Source


@Rule("error", factors=("torch-rng", "numpy-rng", "python-rng"))
def find(project: Project, source: Source) -> Findings:
    """Calls in a script that trains which seed torch only where it spawns, or where spawned processes never come."""
    starts = [call for name in _STARTING for call in source.calls[name] if argument(call, "start_method") is None]
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


_STARTING = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
