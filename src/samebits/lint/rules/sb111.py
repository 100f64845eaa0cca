"""Data are split or sampled with a generator that nothing seeds.

What is held out differs from run to run, so results cannot be compared with one another, let alone repeated.

    train, test = random_split(data, [80, 20])
    model = nn.Linear(4, 1)

With a generator of its own:

    train, test = random_split(data, [80, 20], generator=torch.Generator().manual_seed(0))
    model = nn.Linear(4, 1)
"""

from samebits.lint.project import splits_in
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import last_name


@Rule("error", factors=("torch-rng", "numpy-rng"), fix="safe", cure="generator")
def find(project: Project, source: Source) -> Findings:
    """Splits and samplings where neither the call nor a script that runs it seeds the generator."""
    for library, call in splits_in(source):
        if project.lacks_seed(source, library):
            reason = f"{last_name(call.func)}() draws from the generator of {library}, which nothing seeds"
            yield Finding.at(source, call, reason)
