"""Numbers are added up in the order of a set.

Each order rounds otherwise: the last bits of a sum over a set of words differed from run to run.

    total = sum(weight[word] for word in set(text.split()))

In order, or exactly, with `math.fsum`:

    total = sum(weight[word] for word in sorted(set(text.split())))
"""

import ast

from samebits.lint.findings import SEED
from samebits.lint.orders import set_orders
from samebits.lint.rule import Findings, Project, Rule, Source
from samebits.lint.source import last_name


@Rule("warning", factors=("hash-seed",), fix="safe")
def find(project: Project, source: Source) -> Findings:
    """Sums over values that are looked up, or computed, for the members of a set."""
    for node, use in set_orders(project, source):
        # Numbers hash alike in every run, so a set of them has one order: it must be known to hold something else.
        is_of_numbers = isinstance(node, ast.Call) and last_name(node.func) == "sum" and SEED in use.depends_on
        if "sums" in use.reason and len(use.depends_on) == 1 and not is_of_numbers:
            yield use
