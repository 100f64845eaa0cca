"""Memory that was never written is left as it was found, in deterministic mode.

Torch fills `torch.empty` with NaN there, so that reading it shows. Switched off, a mistake gives other numbers in each
run.

    torch.utils.deterministic.fill_uninitialized_memory = False

As it is by default:

    torch.utils.deterministic.fill_uninitialized_memory = True
"""

from samebits.lint.project import assignments_to
from samebits.lint.rule import Finding, Findings, Project, Rule, Source


@Rule("warning", factors=("uninitialized-memory",), torch="2.2 and newer")
def find(project: Project, source: Source) -> Findings:
    """Assignments of False to the flag that fills memory."""
    for node, value in assignments_to(source, "torch.utils.deterministic.fill_uninitialized_memory"):
        if getattr(value, "value", None) is False:
            yield Finding.at(source, node, "leaves memory as it was found, which deterministic mode would fill")
