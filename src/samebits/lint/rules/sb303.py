"""How often is evaluated changes what is trained.

Each iteration over a loader draws a number from torch's generator, shuffled or not, with workers or without. In a
script that evaluates every few steps, another interval shifts all that training draws: evaluated after every epoch
and after every second one, two trainings ended with other weights.

    torch.manual_seed(0)
    val_loader = DataLoader(held_out, batch_size=8)
    for epoch in range(10):
        if epoch % args.eval_every == 0:
            evaluate(model, val_loader)

With a generator of its own:

    torch.manual_seed(0)
    val_loader = DataLoader(held_out, batch_size=8, generator=torch.Generator().manual_seed(0))
    for epoch in range(10):
        if epoch % args.eval_every == 0:
            evaluate(model, val_loader)
"""

import ast

from samebits.lint.libraries import ALL
from samebits.lint.project import EVALUATION, argument, is_true, loop_around
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import dotted


@Rule("info", fix="unsafe", cure="generator")
def find(project: Project, source: Source) -> Findings:
    """Loaders of torch with a name that speaks of evaluation, used every few steps in a script that seeds torch."""
    for call in source.calls["torch.utils.data.DataLoader"]:
        parent = source.parents[call]
        name = dotted(parent.targets[0]) if isinstance(parent, ast.Assign) else ""
        has_generator = argument(call, "generator") is not None or any(one.arg is None for one in call.keywords)
        if has_generator or not EVALUATION.fullmatch(name.rpartition(".")[2]) or is_true(argument(call, "shuffle", 2)):
            continue
        seeded = [{"torch", ALL} & project.seeds(entry) for entry in project.entries_of(source)]
        lines = [mention.lineno for mention in source.mentions(name) if _is_now_and_then(source, mention)]
        if lines and seeded and all(seeded):
            reason = f"DataLoader() draws from the generator of training, as often as line {lines[0]} is reached"
            yield Finding.at(source, call, reason)


def _is_now_and_then(source: Source, node: ast.AST) -> bool:
    """Whether a node stands in a loop, below a condition such as `epoch % 5 == 0`."""
    here = source.function_of(node)
    ifs = [outer for outer in source.ancestors(node) if isinstance(outer, ast.If) and source.function_of(outer) is here]
    periodic = [one for one in ifs if any(isinstance(part, ast.Mod) for part in ast.walk(one.test))]
    return any(loop_around(source, one) for one in periodic)
