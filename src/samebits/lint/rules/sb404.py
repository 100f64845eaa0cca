"""Deterministic algorithms are on, and nothing is seeded.

The mode has operations give the same result for the same input; without a seed, weights and batches are other ones in
each run.

    torch.use_deterministic_algorithms(True)
    model = nn.Linear(4, 1)

With both:

    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
"""

from samebits.lint.project import argument, is_true
from samebits.lint.rule import Finding, Findings, Project, Rule, Source


@Rule("warning", factors=("torch-rng",))
def find(project: Project, source: Source) -> Findings:
    """Calls that ask for deterministic algorithms in scripts that train and do not seed torch."""
    for call in source.calls["torch.use_deterministic_algorithms"]:
        entries = project.entries_of(source)
        is_on = is_true(argument(call, "mode", 0)) and project.lacks_seed(source, "torch")
        if is_on and any(entry in project.trains for entry in entries):
            yield Finding.at(source, call, "asks for deterministic algorithms in a script that does not seed torch")
