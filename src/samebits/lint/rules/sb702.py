"""Each rank splits the data by a seed of its own.

What one rank holds out, another one trains on: the score is that of data which were learned.

    torch.manual_seed(args.seed + rank)
    train, held_out = random_split(data, [80, 20])

With one seed for the split:

    torch.manual_seed(args.seed + rank)
    train, held_out = random_split(data, [80, 20], generator=torch.Generator().manual_seed(args.seed))
"""

import ast

from samebits.lint.project import names_rank, seeds_in, splits_in
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import last_name


@Rule("error", fix="safe", cure="generator")
def find(project: Project, source: Source) -> Findings:
    """Splits where the last seed above in the function, or else every seed of the script, is computed from the rank."""
    for library, split in splits_in(source):
        seeds = [
            (file, call) for file in project.files_of_scripts(source) for of, call in seeds_in(file) if of == library
        ]
        here = source.function_of(split)
        near = [seed for seed in seeds if seed[0] is source and source.function_of(seed[1]) is here]
        near = [seed for seed in near if seed[1].lineno < split.lineno]
        if (near or seeds) and all(_names_rank(*seed) for seed in near[-1:] or seeds):
            reason = f"{last_name(split.func)}() draws from a generator that is seeded by the rank"
            yield Finding.at(source, split, reason)


def _names_rank(source: Source, seed: ast.Call) -> bool:
    return any(names_rank(source, argument) for argument in seed.args)
