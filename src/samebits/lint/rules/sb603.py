"""A generator is seeded after it was given the state of a checkpoint.

The seed puts it back to where the training began, so the resumed run draws again what was drawn in its first epochs:
the same order of batches, the same masks of dropout.

    state = torch.load("last.pt")
    torch.set_rng_state(state["rng"])
    torch.manual_seed(0)

Seed first, and restore then:

    torch.manual_seed(0)
    state = torch.load("last.pt")
    torch.set_rng_state(state["rng"])
"""

import ast
from collections.abc import Iterator

from samebits.lint.libraries import SEEDS
from samebits.lint.project import seeds_in, statements_above
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import walk

_RESTORING = {name: library for name, library in SEEDS.items() if "state" in name}


@Rule("error")
def find(project: Project, source: Source) -> Findings:
    """Calls that seed a generator below the one, or a call of its function, that restores it from a checkpoint."""
    restored = [*_restored(source), *_restored_elsewhere(project, source)]
    for library, call in seeds_in(source) if restored else ():
        above, here = statements_above(source, call), source.function_of(call)
        nearby = [one for restorer, one in restored if restorer == library and source.function_of(one) is here]
        before = [one for one in nearby if any(outer in above for outer in source.ancestors(one))]
        if before and call not in nearby and all(one.lineno < call.lineno for one in nearby):
            yield Finding.at(source, call, f"throws away the state that line {before[-1].lineno} has restored")


def _restored(source: Source) -> Iterator[tuple[str, ast.Call]]:
    """The calls that give a generator a state which is part of something, not one that was put aside for a while."""
    for name, library in _RESTORING.items():
        for call in source.calls[name]:
            if any(isinstance(part, ast.Subscript) for argument in call.args for part in walk(argument)):
                yield library, call


def _restored_elsewhere(project: Project, source: Source) -> Iterator[tuple[str, ast.Call]]:
    """The calls of functions, in a file or its imports, that restore a generator from a checkpoint."""
    for file in project.closure(source):
        for library, call in _restored(file):
            for user in source.methods[getattr(file.function_of(call), "name", "")]:
                *module, name = source.qualified(user.func).split(".")
                is_meant = not any(module) or file.is_meant(module)
                if is_meant and project.function(source, name) == (file, file.function_of(call)):
                    yield library, user
