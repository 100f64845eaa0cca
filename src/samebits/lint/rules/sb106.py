"""A generator is seeded with something that is new in every run.

The clock, the process id, the operating system's entropy: the run cannot be repeated, unless the number is kept.

    torch.manual_seed(int(time.time()))

A number that is written down:

    torch.manual_seed(0)
"""

import ast

from samebits.lint.libraries import ENTROPY, GENERATORS, SEEDS
from samebits.lint.project import is_none_fallback, parts_of, value_of
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import owner_of

_SEEDING = {"manual_seed", "manual_seed_all", "seed_everything", "set_seed", "seed_all"}


@Rule("error", factors=("clock", "process-id", "os-entropy"), fix="unsafe")
def find(project: Project, source: Source) -> Findings:
    """Calls that seed with entropy of the operating system, or with a value that is computed from something new."""
    for call in (*source.calls["torch.seed"], *source.methods["seed"]):
        if source.qualified(call.func) == "torch.seed" or _is_reseeded(source, call):
            yield Finding.at(source, call, "seeds with entropy of the operating system, which is new in every run")
    if not ENTROPY & source.calls.keys():
        return
    seeding = [call for name in (*SEEDS, *GENERATORS) for call in source.calls[name]]
    for call in (*seeding, *(call for name in _SEEDING for call in source.methods[name])):
        seeds = call.args[:1] or [one.value for one in call.keywords if one.arg == "seed"]
        if maker := _entropy(source, seeds[0]) if seeds else "":
            yield Finding.at(source, call, f"seeds with {maker}(), which is new in every run")


def _is_reseeded(source: Source, call: ast.Call) -> bool:
    """Whether a call is `generator.seed()` of a generator of torch."""
    owner = owner_of(call)
    generator = value_of(source, owner) if owner and not call.args and not call.keywords else None
    return isinstance(generator, ast.Call) and source.qualified(generator.func) == "torch.Generator"


def _entropy(source: Source, seed: ast.expr) -> str:
    for part in parts_of(source, seed):
        if isinstance(part, ast.Call) and source.qualified(part.func) in ENTROPY and not is_none_fallback(source, part):
            return source.qualified(part.func)
    return ""
