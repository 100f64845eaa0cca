"""A dataset draws from a generator that it made for itself.

Every worker gets a copy in the same state: with two workers and two epochs, 48 of 64 draws were duplicates, and the
second epoch repeated the first.

    class Noisy(Dataset):
        def __init__(self):
            self.rng = np.random.default_rng(0)

        def __getitem__(self, index):
            return self.rng.normal(size=3)

    loader = DataLoader(Noisy(), num_workers=2)

Draw from a generator that belongs to the sample, or from the global ones, which torch seeds in each worker:

    class Noisy(Dataset):
        def __getitem__(self, index):
            return np.random.default_rng([seed, index]).normal(size=3)

    loader = DataLoader(Noisy(), num_workers=2)
"""

import ast

from samebits.lint.libraries import GENERATORS
from samebits.lint.project import argument, class_around
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import dotted

_MAKING = {"__init__", "__post_init__"}
_DRAWING = {"__getitem__", "__call__", "__iter__", "forward", "transform"}


@Rule("error", factors=("data-workers",))
def find(project: Project, source: Source) -> Findings:
    """Generators that the `__init__` of a dataset makes and its other methods use, where workers may copy them."""
    for call in (call for name in GENERATORS for call in source.calls[name]):
        node = next((one for one in source.ancestors(call) if isinstance(one, ast.stmt)), call)
        holder, name = class_around(source, node), dotted(node.targets[0]) if isinstance(node, ast.Assign) else ""
        if holder is None or not name.startswith("self."):
            continue
        function = source.function_of(node)
        uses = [
            mention
            for mention in source.mentions(name)
            if class_around(source, mention) is holder and source.function_of(mention) is not function
        ]
        if getattr(function, "name", "") in _MAKING and uses and _is_in_workers(project, source, holder):
            reason = f"gives every worker a copy of {name} in the same state"
            yield Finding.at(source, node, reason, others=uses)


def _is_in_workers(project: Project, source: Source, holder: ast.ClassDef) -> bool:
    methods = {member.name for member in holder.body if isinstance(member, ast.FunctionDef)}
    is_seeded = project.is_mentioned(project.files_of_scripts(source), "get_worker_info", "worker_init_fn") or any(
        # The workers of our own loader seed every sample.
        argument(call, "worker_init_fn") is not None or file.qualified(call.func).startswith("samebits")
        for file, call in project.loaders(source)
    )
    is_drawing = bool(methods & _DRAWING) and (project.is_dataset(holder) or "__call__" in methods)
    return is_drawing and not is_seeded and project.has_workers(source)
