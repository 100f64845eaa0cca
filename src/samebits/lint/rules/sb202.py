"""The order of a set of strings becomes numbers, a list, or steps of a loop.

Strings hash with a seed that is new in every process, so the order of a set of them is, too: labels, vocabularies and
batches come out otherwise. With PYTHONHASHSEED held, six runs agreed.

    words = set(text.split())
    ids = {word: number for number, word in enumerate(words)}

Put it in order:

    words = set(text.split())
    ids = {word: number for number, word in enumerate(sorted(words))}
"""

from dataclasses import replace

from samebits.lint.findings import SEED, WEAK
from samebits.lint.following import Following
from samebits.lint.orders import set_orders
from samebits.lint.project import is_checked, is_parameter
from samebits.lint.rule import Findings, Project, Rule, Source


@Rule("error", factors=("hash-seed",), fix="safe")
def find(project: Project, source: Source) -> Findings:
    """Sets whose order reaches numbers, an index, a split, a stack, a dataset or a training loop."""
    for one in set_orders(project, source):
        if SEED in one.finding.depends_on and one.finding.weight > WEAK:
            sets = (
                node for node in one.taken if not is_parameter(one.source, node) and not is_checked(one.source, node)
            )
            uses = [use for node in sets for use in Following(project).uses(one.source, node, of="set")]
            if uses:
                yield replace(one.finding, reason=f"{one.finding.reason}, and that {uses[0].how}")
