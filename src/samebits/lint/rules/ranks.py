"""Ranks: how they share the data."""

from __future__ import annotations

from samebits.lint.findings import Finding, Findings
from samebits.lint.libraries import FRAMEWORKS
from samebits.lint.project import EVALUATION, Project, argument, names_rank, seeds_in, splits_in
from samebits.lint.rule import rule
from samebits.lint.source import Source, last_name


@rule("SB701", "error")
def epoch_untold(project: Project, source: Source) -> Findings:
    """A DistributedSampler is never told the epoch.

    It shuffles by its seed and the epoch; without `set_epoch` every epoch comes in the order of the first.

        sampler = DistributedSampler(data)
        for epoch in range(3):
            train(DataLoader(data, sampler=sampler))

    Told:

        sampler = DistributedSampler(data)
        for epoch in range(3):
            sampler.set_epoch(epoch)
            train(DataLoader(data, sampler=sampler))
    """
    # Samplers that shuffle, in files of whose scripts none mentions `set_epoch`.
    for call in source.methods["DistributedSampler"]:
        shuffle, roots = argument(call, "shuffle", 3), {name.split(".")[0] for name in source.imported.values()}
        files = project.files_of_scripts(source) if project.entries_of(source) else project.sources
        if project.is_mentioned(files, "set_epoch"):
            continue
        if getattr(shuffle, "value", True) is not False and not roots & set(FRAMEWORKS):  # they call it themselves
            yield Finding.at(source, call, "shuffles every epoch alike: set_epoch() is called nowhere")


@rule("SB702", "error", fix="safe", cure="generator")
def split_by_rank(project: Project, source: Source) -> Findings:
    """Each rank splits the data by a seed of its own.

    What one rank holds out, another one trains on: the score is that of data which were learned.

        torch.manual_seed(args.seed + rank)
        train, held_out = random_split(data, [80, 20])

    With one seed for the split:

        torch.manual_seed(args.seed + rank)
        train, held_out = random_split(data, [80, 20], generator=torch.Generator().manual_seed(args.seed))
    """
    # Splits where the last seed above in the function, or else every seed of the script, is computed from the rank.
    for library, split in splits_in(source):
        seeds = [
            (file, call) for file in project.files_of_scripts(source) for of, call in seeds_in(file) if of == library
        ]
        here = source.function_of(split)
        near = [(file, seed) for file, seed in seeds if file is source and source.function_of(seed) is here]
        deciding = [(file, seed) for file, seed in near if seed.lineno < split.lineno][-1:] or seeds
        if deciding and all(any(names_rank(file, one) for one in seed.args) for file, seed in deciding):
            reason = f"{last_name(split.func)}() draws from a generator that is seeded by the rank"
            yield Finding.at(source, split, reason)


@rule("SB704", "info")
def sampler_seed(project: Project, source: Source) -> Findings:
    """A DistributedSampler keeps its own seed, whatever the script's is.

    Its default is 0: `--seed 1` changes weights and augmentation, and not the order of batches.

        parser = argparse.ArgumentParser()
        parser.add_argument("--seed", type=int, default=0)
        args = parser.parse_args()
        sampler = DistributedSampler(data)

    Given the script's:

        parser = argparse.ArgumentParser()
        parser.add_argument("--seed", type=int, default=0)
        args = parser.parse_args()
        sampler = DistributedSampler(data, seed=args.seed)
    """
    # Samplers without a seed in scripts that have an option `--seed`; those for evaluation are left to SB304.
    for call in source.methods["DistributedSampler"]:
        options = [option for file in project.files_of_scripts(source) for option in file.methods["add_argument"]]
        has_option = any(getattr(name, "value", "") == "--seed" for option in options for name in option.args)
        shuffle = getattr(argument(call, "shuffle", 3), "value", True)
        names = [*map(last_name, getattr(source.parents[call], "targets", ()))]
        is_default = argument(call, "seed", 4) is None and all(keyword.arg for keyword in call.keywords)
        if has_option and is_default and shuffle is not False and not any(map(EVALUATION.fullmatch, names)):
            yield Finding.at(source, call, "shuffles by seed 0, whatever --seed says")
