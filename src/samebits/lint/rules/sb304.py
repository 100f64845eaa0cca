"""What is evaluated on is shuffled.

The mean over batches then rounds otherwise in each epoch, and iterating draws from the generator that training draws
from: evaluating more or less often changes what is trained.

    test_loader = DataLoader(test_data, batch_size=8, shuffle=True)

In its own order:

    test_loader = DataLoader(test_data, batch_size=8, shuffle=False)
"""

import ast

from samebits.lint.project import EVALUATION, argument_or_option, is_true
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import last_name


@Rule("warning", fix="safe", cure="evaluation")
def find(project: Project, source: Source) -> Findings:
    """Loaders that shuffle, and samplers that shuffle by default, whose name or function speaks of evaluation."""
    for call in (*source.methods["DataLoader"], *source.methods["DistributedSampler"]):
        is_sampler = last_name(call.func) == "DistributedSampler"
        shuffle = argument_or_option(source, call, "shuffle", 3 if is_sampler else 2)
        is_by_default = is_sampler and shuffle is None and all(keyword.arg for keyword in call.keywords)
        if not is_by_default and not is_true(shuffle):
            continue
        parent, function = source.parents[call], source.function_of(call)
        names = [last_name(target) for target in parent.targets] if isinstance(parent, ast.Assign) else []
        names += [function.name] if isinstance(parent, ast.Return) and isinstance(function, ast.FunctionDef) else []
        if any(EVALUATION.fullmatch(name) for name in names):
            yield Finding.at(source, call, f"shuffles {names[0]}, which is evaluated on")
