"""Workers are seeded with entropy, or all with one number.

Torch gives each worker a seed of its own, from the one that was set. A `worker_init_fn` that calls `np.random.seed()`
throws that away; one with a constant has all workers draw the same, in every epoch.

    def seed_worker(worker):
        np.random.seed(0)

    loader = DataLoader(data, num_workers=2, worker_init_fn=seed_worker)

From torch's own:

    def seed_worker(worker):
        np.random.seed(torch.initial_seed() % 2**32)

    loader = DataLoader(data, num_workers=2, worker_init_fn=seed_worker)
"""

import ast
from collections.abc import Iterator

from samebits.lint.libraries import SEEDS
from samebits.lint.project import argument
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import last_name, walk


@Rule("error", factors=("os-entropy", "data-workers"))
def find(project: Project, source: Source) -> Findings:
    """Calls in the function given as `worker_init_fn` that seed with entropy or a constant."""
    for call in (*source.methods["DataLoader"], *source.methods["partial"]):
        function = argument(call, "worker_init_fn")
        if isinstance(function, ast.Lambda):
            yield from _seeds(source, function)
        elif function is not None and (found := project.function(source, last_name(function))):
            yield from _seeds(*found)


def _seeds(source: Source, function: ast.AST) -> Iterator[Finding]:
    for node in walk(function):
        if isinstance(node, ast.Call) and source.qualified(node.func) in SEEDS:
            if not node.args or getattr(node.args[0], "value", 0) is None:
                yield Finding.at(source, node, "seeds each worker with entropy, new in every run")
            elif isinstance(node.args[0], ast.Constant):
                yield Finding.at(source, node, "seeds all workers alike, in every epoch")
