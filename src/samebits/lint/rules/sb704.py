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

from samebits.lint.project import EVALUATION, argument
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import last_name


@Rule("info")
def find(project: Project, source: Source) -> Findings:
    """Samplers without a seed in scripts that have an option `--seed`; those for evaluation are left to SB304."""
    for call in source.methods["DistributedSampler"]:
        options = [option for file in project.files_of_scripts(source) for option in file.methods["add_argument"]]
        has_option = any(getattr(name, "value", "") == "--seed" for option in options for name in option.args)
        shuffle = getattr(argument(call, "shuffle", 3), "value", True)
        names = [*map(last_name, getattr(source.parents[call], "targets", ()))]
        is_default = argument(call, "seed", 4) is None and all(keyword.arg for keyword in call.keywords)
        if has_option and is_default and shuffle is not False and not any(map(EVALUATION.fullmatch, names)):
            yield Finding.at(source, call, "shuffles by seed 0, whatever --seed says")
