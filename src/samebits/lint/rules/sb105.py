"""A generator is seeded after it was drawn from.

What is made above the seed, initial weights as a rule, differs from run to run, while everything below it repeats.

    model = nn.Linear(4, 1)
    torch.manual_seed(0)

Seed first:

    torch.manual_seed(0)
    model = nn.Linear(4, 1)
"""

import ast
from collections.abc import Iterator

from samebits.lint.libraries import ALL
from samebits.lint.project import class_around, draws_in, is_for_none, seeds_in, splits_in, statements_above
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import Function, dotted, last_name


@Rule("error", factors=("torch-rng", "numpy-rng", "python-rng"))
def find(project: Project, source: Source) -> Findings:
    """Draws in the statements above the only seed of their library, in one function."""
    if source not in project.entries or ALL in project.seeds(source):
        return
    libraries = [library for one in project.closure(source) for library, _ in seeds_in(one)]
    for library, call in seeds_in(source):
        if libraries.count(library) > 1:
            continue
        above = statements_above(source, call)
        splits = [split for own, split in splits_in(source) if own == library]
        draws = [
            one
            for one in (*draws_in(source, library), *splits)
            if any(each in above for each in _around(source, one)) and not is_for_none(source, one)
        ]
        made = project.models_in(source) if library == "torch" else []
        models = [one for one in made if any(each in above for each in _around(source, one))]
        layers = [one for model in models for one in _layers(project, source, model)]
        draws += models
        draws.sort(key=lambda one: one.lineno)
        if draws:
            reason = f"draws from the generator of {library}, which is seeded only in line {call.lineno}"
            yield Finding.at(source, draws[0], reason, others=[*draws[1:], *layers])


def _layers(project: Project, source: Source, model: ast.Call) -> list[ast.Call]:
    """What is drawn where a model is made: its layers."""
    own = [node for one, node in project.classes[dotted(model.func)] if one is source]
    return [call for call in draws_in(source, "torch") if class_around(source, call) in own]


def _around(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    """What it stands in, in the same function."""
    for one in source.around(node):
        if isinstance(one, Function | ast.Lambda | ast.ClassDef) or (
            isinstance(one, ast.Call) and last_name(one.func) in ("print", "info", "debug")
        ):
            return  # what is only shown is not trained on
        yield one
