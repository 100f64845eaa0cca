"""Processes of a pool draw from NumPy's global generator.

Forked ones begin with one and the same state: each draws the same numbers, and which task gets them depends on which
process takes it.

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

import ast

from samebits.lint.libraries import DRAWS
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import dotted, last_name, owner_of, walk

_MAPPING = ("map", "imap", "imap_unordered", "starmap", "map_async", "apply_async", "apply")


@Rule("error", factors=("numpy-rng",))
def find(project: Project, source: Source) -> Findings:
    """Draws from NumPy's global generator in functions that are given to a pool of `multiprocessing`."""
    for call in (call for name in _MAPPING for call in source.methods[name]):
        owner = dotted(owner_of(call))
        if "pool" not in owner.lower() or "Pool" not in source.words or "ThreadPool" in source.words or not call.args:
            continue
        task = project.function(source, last_name(call.args[0]))
        for node in walk(task[1]) if task else ():
            if isinstance(node, ast.Call) and task and task[0].qualified(node.func) in DRAWS["numpy"]:
                yield Finding.at(task[0], node, f"draws in each process of {owner} from a copy of one generator")
