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
from samebits.lint.order_flow import OrderTracker
from samebits.lint.orders import set_orders, sets_taken
from samebits.lint.project import is_parameter, is_type_tested
from samebits.lint.rule import Findings, Project, Rule, Source


@Rule("error", factors=("hash-seed",), fix="safe")
def find(project: Project, source: Source) -> Findings:
    """Sets whose order reaches numbers, an index, a split, a stack, a dataset or a training loop."""
    for node, finding in set_orders(project, source):
        if SEED in finding.depends_on and finding.weight > WEAK:
            sets = [
                one for one in sets_taken(node) if not is_parameter(source, one) and not is_type_tested(source, one)
            ]
            uses = [use for one in sets for use in OrderTracker(project).uses(source, one, of="set")]
            if uses:
                yield replace(finding, reason=f"{finding.reason}, and that {uses[0].how}")
