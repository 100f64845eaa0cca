"""Data are split or sampled with a generator that nothing seeds.

What is held out differs from run to run, so results cannot be compared with one another, let alone repeated.

    train, test = random_split(data, [80, 20])
    model = nn.Linear(4, 1)

With a generator of its own:

    train, test = random_split(data, [80, 20], generator=torch.Generator().manual_seed(0))
    model = nn.Linear(4, 1)
"""

from samebits.lint.findings import Finding, Findings
from samebits.lint.libraries import SPLITS
from samebits.lint.project import Project, argument
from samebits.lint.rule import Rule
from samebits.lint.source import is_none, last_name

_GIVEN = ("generator", "random_state", "seed")


@Rule("error", words=tuple(SPLITS), factors=("torch-rng", "numpy-rng"), fix="safe", cure="generator")
def find(project: Project) -> Findings:
    """Where neither the call nor any script that runs it seeds."""
    for source, call in project.methods(*SPLITS):
        name = last_name(call.func)
        library, roots, needs = SPLITS[name]
        if not source.qualified(call.func).startswith(roots) or not project.lacks_seed(source, library):
            continue
        is_left = all(given is None or is_none(given) for given in (argument(call, own) for own in _GIVEN))
        is_left = is_left and not (name == "random_split" and len(call.args) > 2)
        is_asked = not needs or getattr(argument(call, needs), "value", None) is True
        if is_left and is_asked and not any(keyword.arg is None for keyword in call.keywords):
            yield Finding.at(source, call, f"{name}() draws from the generator of {library}, which nothing seeds")
