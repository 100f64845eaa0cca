"""A generator of torch is made, and never seeded.

It begins with 67280421310721 in every run, which repeats, and which nobody chose: another `--seed` changes nothing
that it draws.

    generator = torch.Generator()
    loader = DataLoader(data, shuffle=True, generator=generator)

With a seed:

    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(data, shuffle=True, generator=generator)
"""

import ast

from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import dotted

_SEEDING = {"manual_seed", "seed", "set_state"}


@Rule("info")
def find(project: Project, source: Source) -> Findings:
    """Generators that are assigned to a name, and that the file never seeds by that name."""
    for call in source.calls["torch.Generator"]:
        parent = source.parents[call]
        if isinstance(parent, ast.Assign) and (name := dotted(parent.targets[0])):
            used = {one.attr for one in source.every(ast.Attribute) if dotted(one.value) == name}
            if not used & _SEEDING:
                yield Finding.at(source, call, f"leaves {name} with the seed that all generators begin with")
