"""cuDNN is asked for repeatable kernels, or a seed is set, and for the quickest ones of the day.

With `benchmark = True` it times its kernels in every process and takes the quickest: which one that is changes from
run to run, and each rounds otherwise.

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = True

Without a race:

    torch.manual_seed(0)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
"""

from samebits.lint.project import assignments_to, is_true, seeds_in
from samebits.lint.rule import Finding, Findings, Project, Rule, Source


@Rule("warning", factors=("torch-algorithms",), fix="unsafe", cure="cudnn-autotune")
def find(project: Project, source: Source) -> Findings:
    """`benchmark = True` in a script that trains with a seed or repeatable kernels, or in a function that seeds."""
    seeding = {source.function_of(call) for _, call in seeds_in(source)}
    is_deterministic = any(is_true(value) for _, value in assignments_to(source, f"{_CUDNN}.deterministic"))
    for node, value in assignments_to(source, f"{_CUDNN}.benchmark"):
        should_repeat = source in project.trains and (is_deterministic or "torch" in project.seeds(source))
        if is_true(value) and (should_repeat or source.function_of(node) in seeding):
            yield Finding.at(source, node, "lets cuDNN choose kernels by time, which a seed does not hold still")


_CUDNN = "torch.backends.cudnn"
