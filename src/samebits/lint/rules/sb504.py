"""Several processes step on parameters that they share.

Which process reads and writes first is left to the system: no seed and no pin makes it repeat.

    model.share_memory()
    workers = [mp.Process(target=fit, args=(loss, optimizer)) for rank in range(4)]

Average what processes of their own have learned, for instance with DistributedDataParallel:

    model = nn.parallel.DistributedDataParallel(model)
"""

from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import last_name, owner_of

_STARTING = ("Process", "spawn", "start_processes")


@Rule("error")
def find(project: Project, source: Source) -> Findings:
    """Calls of `share_memory()` on an object named as a model, where processes are started and something steps."""
    for call in (*source.methods["share_memory"], *source.methods["share_memory_"]):
        starts = any(name in source.methods for name in _STARTING)
        steps = any({"step", "backward"} <= file.methods.keys() for file in (source, *project.imports_of(source)))
        owner = last_name(owner_of(call)).lower()
        if starts and steps and any(word in owner for word in ("model", "net", "policy", "actor")):
            yield Finding.at(source, call, f"shares {owner} among processes that step on it as they come")
