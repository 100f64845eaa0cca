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
from samebits.lint.project import class_around, draws_in, is_none_fallback, seeds_in, splits_in, statements_above
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import Function, dotted, last_name


@Rule("error", factors=("torch-rng", "numpy-rng", "python-rng"))
def find(project: Project, source: Source) -> Findings:
    """Draws above the only call that seeds their library, in the same function."""
    if source not in project.entries or ALL in project.seeds(source):
        return
    libraries = [library for file in project.closure(source) for library, _ in seeds_in(file)]
    for library, call in seeds_in(source):
        if libraries.count(library) > 1:
            continue
        above = statements_above(source, call)
        splits = [split for drawn_from, split in splits_in(source) if drawn_from == library]
        draws = [
            draw
            for draw in (*draws_in(source, library), *splits)
            if any(outer in above for outer in _around(source, draw)) and not is_none_fallback(source, draw)
        ]
        all_models = project.models_in(source) if library == "torch" else []
        models = [model for model in all_models if any(outer in above for outer in _around(source, model))]
        layers = [layer for model in models for layer in _layers(project, source, model)]
        draws += models
        draws.sort(key=lambda one: one.lineno)
        if draws:
            reason = f"draws from the generator of {library}, which is seeded only in line {call.lineno}"
            yield Finding.at(source, draws[0], reason, others=[*draws[1:], *layers])


def _layers(project: Project, source: Source, model: ast.Call) -> list[ast.Call]:
    """Return the calls that draw where a model is made: those that make its layers."""
    classes = [node for file, node in project.classes[dotted(model.func)] if file is source]
    return [call for call in draws_in(source, "torch") if class_around(source, call) in classes]


def _around(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that a node stands in, up to its function or a call that only shows it."""
    for outer in source.ancestors(node):
        if isinstance(outer, Function | ast.Lambda | ast.ClassDef) or (
            isinstance(outer, ast.Call) and last_name(outer.func) in ("print", "info", "debug")
        ):
            return  # what is only shown is not trained on
        yield outer
