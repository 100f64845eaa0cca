"""Whether a training is seeded: by what, and when."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from samebits.lint.findings import WEAK, Finding, Findings
from samebits.lint.libraries import ALL
from samebits.lint.project import (
    Project,
    class_around,
    draws_in,
    is_none_fallback,
    loop_around,
    seeds_in,
    splits_in,
    statements_above,
)
from samebits.lint.rule import rule
from samebits.lint.seeds import UNUSED, seed_arguments
from samebits.lint.source import Function, Source, dotted, last_name


@rule("SB101", "warning", factors=("torch-rng",))
def nothing_seeded(project: Project, source: Source) -> Findings:
    """A script trains, and nothing that it runs seeds a generator.

    Initial weights, shuffling and dropout are drawn anew in every run, so no two runs agree. Of 185 public training
    scripts, 60 held no call that seeds.

        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(4)).backward()
        optimizer.step()

    Seed once, before the first draw:

        torch.manual_seed(0)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(4)).backward()
        optimizer.step()
    """
    # The first line that draws from torch's generator, in a script that trains and seeds nothing.
    draws = (draws_in(source, "torch") or project.models_in(source)) if source in project.trains else []
    if draws and not project.seeds(source):
        reason = "draws from torch's generator, which nothing in this script or what it imports seeds"
        yield Finding.at(source, draws[0], reason, others=draws[1:])


_NUMBER = re.compile(r"seed[\w: ]*=\s*\d+")


@rule("SB102", "error")
def option_unread(project: Project, source: Source) -> Findings:
    """A seed option is declared, and nothing reads it.

    Whoever passes `--seed 1` believes that the run repeats, and it does not: two runs with one seed differ as two
    without.

        parser.add_argument("--seed", type=int, default=0)
        args = parser.parse_args()
        train(args.lr)

    Seed with it, before anything is drawn:

        parser.add_argument("--seed", type=int, default=0)
        args = parser.parse_args()
        torch.manual_seed(args.seed)
        train(args.lr)
    """
    # Options and fields for a seed that nothing reads; of parameters, those whose default is a number.
    for finding in seed_arguments(project, source):
        if finding.reason.endswith(UNUSED) and (finding.weight > WEAK or _NUMBER.search(finding.source)):
            yield finding


@rule("SB103", "warning")
def option_none(project: Project, source: Source) -> Findings:
    """A seed is None, or drawn, unless one is given.

    Most people run a script as it is. Then nothing is seeded, or each run with another number, and only those who knew
    of the option can repeat theirs.

        parser.add_argument("--seed", type=int, default=None)
        args = parser.parse_args()
        if args.seed is not None:
            torch.manual_seed(args.seed)

    A number is as good as any other:

        parser.add_argument("--seed", type=int, default=0)
        args = parser.parse_args()
        torch.manual_seed(args.seed)
    """
    # Options and fields for a seed that are None unless given; not parameters, which callers may always give.
    return (one for one in seed_arguments(project, source) if one.weight > WEAK and not one.reason.endswith(UNUSED))


_NAMES = {"numpy": "NumPy's global generator", "random": "Python's generator", "torch": "torch's generator"}


@rule("SB104", "error", factors=("numpy-rng", "python-rng", "torch-rng"), fix="safe", cure="another seed")
def other_library(project: Project, source: Source) -> Findings:
    """One library's generator is seeded, and another's is drawn from.

    Each library has a generator of its own. With torch seeded alone, augmentations by NumPy or Python differed in each
    of six runs.

        torch.manual_seed(0)
        noise = np.random.normal(size=8)
        batch = torch.randn(8)

    Seed each that is drawn from:

        torch.manual_seed(0)
        np.random.seed(0)
        noise = np.random.normal(size=8)
        batch = torch.randn(8)
    """
    # The first draw of a file from a generator that none of its scripts seeds, though each seeds another one.
    entries = project.entries_of(source)
    if not entries or not all(project.seeds(entry) and entry in project.trains for entry in entries):
        return
    for library, name in _NAMES.items():
        draws = draws_in(source, library) if project.lacks_seed(source, library) else []
        if library != "torch" and project.has_workers(source):
            # In each worker, torch seeds NumPy and Python.
            draws = [draw for draw in draws if class_around(source, draw) is None]
        if draws:
            seeded = " and ".join(sorted(project.seeds(entries[0])))
            yield Finding.at(source, draws[0], f"draws from {name}; only {seeded} is seeded", others=draws[1:])


@rule("SB105", "error", factors=("torch-rng", "numpy-rng", "python-rng"))
def seeded_late(project: Project, source: Source) -> Findings:
    """A generator is seeded after it was drawn from.

    What is made above the seed, initial weights as a rule, differs from run to run, while everything below it repeats.

        model = nn.Linear(4, 1)
        torch.manual_seed(0)

    Seed first:

        torch.manual_seed(0)
        model = nn.Linear(4, 1)
    """
    # Draws above the only call that seeds their library, in the same function.
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


_TRAINING = re.compile(r"epoch|step|batch|iteration", re.IGNORECASE)


@rule("SB109", "warning")
def seeded_again(project: Project, source: Source) -> Findings:
    """A generator is seeded anew in every step, epoch or sample, with the same number.

    It repeats, and more than it should: every epoch is shuffled alike, every batch drops the same units.

        for epoch in range(10):
            torch.manual_seed(0)
            order = torch.randperm(100)

    Once, before the loop:

        torch.manual_seed(0)
        for epoch in range(10):
            order = torch.randperm(100)
    """
    # Calls that seed with a constant in a training loop, or where a sample is made or a step is computed.
    for _, call in seeds_in(source):
        if call.args and isinstance(call.args[0], ast.Constant) and _is_repeated(source, call):
            yield Finding.at(source, call, f"seeds with {ast.unparse(call.args[0])} again and again")


def _is_repeated(source: Source, call: ast.Call) -> bool:
    loop, function = loop_around(source, call), source.function_of(call)
    if loop is None:
        return isinstance(function, ast.FunctionDef) and function.name in ("__getitem__", "training_step", "forward")
    return isinstance(loop, ast.For) and bool(_TRAINING.search(ast.unparse(loop.target)))
