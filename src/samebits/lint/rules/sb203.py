"""Parameters, modules or tensors are put into a set.

They hash by their addresses, which no variable holds still: the order of `set(model.parameters())` differed in each of
six runs, with and without PYTHONHASHSEED, and with it sums such as the norm of gradients.

    params = set(model.parameters())
    torch.nn.utils.clip_grad_norm_(params, 1.0)

A dict keeps the order in which it was filled, and holds each once:

    params = dict.fromkeys(model.parameters())
    torch.nn.utils.clip_grad_norm_(params, 1.0)
"""

from samebits.lint.findings import ADDRESS, LOOPS
from samebits.lint.orders import set_orders
from samebits.lint.rule import Findings, Project, Rule, Source


@Rule("error", factors=("memory-addresses",), fix="safe")
def find(project: Project, source: Source) -> Findings:
    """Uses of the order of sets whose members hash by their addresses."""
    for _, use in set_orders(project, source):
        if use.depends_on == {ADDRESS} and use.weight >= LOOPS and "a set" in use.reason:
            yield use
