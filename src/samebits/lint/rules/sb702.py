"""Each rank splits the data by a seed of its own.

What one rank holds out, another one trains on: the score is that of data which were learned.

    torch.manual_seed(args.seed + rank)
    train, held_out = random_split(data, [80, 20])

With one seed for the split:

    torch.manual_seed(args.seed + rank)
    train, held_out = random_split(data, [80, 20], generator=torch.Generator().manual_seed(args.seed))
"""

import ast
import re

from samebits.lint.project import parts_of, seeds_in, splits_in
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import last_name

_RANK = re.compile(r"((.*_)?rank|process_index)", re.IGNORECASE)


@Rule("error", fix="safe", cure="generator")
def find(project: Project, source: Source) -> Findings:
    """Where the last seed above a split in its function, or else every seed of the script, is made of the rank."""
    for library, split in splits_in(source):
        every = [(one, call) for one in project.together(source) for own, call in seeds_in(one) if own == library]
        here = source.function_of(split)
        near = [seed for seed in every if seed[0] is source and source.function_of(seed[1]) is here]
        near = [seed for seed in near if seed[1].lineno < split.lineno]
        if (near or every) and all(_names_rank(*seed) for seed in near[-1:] or every):
            reason = f"{last_name(split.func)}() draws from a generator that is seeded by the rank"
            yield Finding.at(source, split, reason)


def _names_rank(source: Source, seed: ast.Call) -> bool:
    return any(_RANK.fullmatch(last_name(part)) for given in seed.args for part in parts_of(source, given))
