"""A generator is made without a seed.

It begins with entropy of the operating system, and no global seed reaches it.

    rng = np.random.default_rng()
    order = rng.permutation(100)

With one:

    rng = np.random.default_rng(0)
    order = rng.permutation(100)
"""

import ast

from samebits.lint.libraries import GENERATORS
from samebits.lint.project import is_none_fallback
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import dotted, is_none

_SECRETS = ("secrets.choice", "secrets.randbelow", "secrets.randbits", "random.SystemRandom")


@Rule("error", factors=("os-entropy",), fix="unsafe")
def find(project: Project, source: Source) -> Findings:
    """Generators without a seed in scripts that use torch, unless the caller gave none, or a later line seeds them."""
    closures = [project.closure(entry) for entry in project.entries_of(source)]
    if not any("torch" in file.imported for closure in closures for file in closure):
        return
    for name in (*GENERATORS, *_SECRETS):
        for call in source.calls[name] if name != "torch.Generator" else ():
            is_open = name in _SECRETS or (is_none(call.args[0]) if call.args else not call.keywords)
            if is_open and not is_none_fallback(source, call) and not _is_seeded(source, call):
                seedless = f"asks the operating system for every draw, and takes no seed: {name}()"
                unseeded = f"draws its seed from the operating system: {name}() without one"
                yield Finding.at(source, call, seedless if name in _SECRETS else unseeded)


def _is_seeded(source: Source, call: ast.Call) -> bool:
    """Whether the generator that a call makes is seeded or given a state, by a name that it is assigned to."""
    parent = source.parents[call]
    names = [dotted(target) for target in parent.targets] if isinstance(parent, ast.Assign) else []
    return any(
        dotted(node).startswith(f"{name}.") and node.attr in ("seed", "setstate", "set_state", "state", "bit_generator")
        for name in filter(None, names)
        for node in source.every(ast.Attribute)
    )
