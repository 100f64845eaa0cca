"""A DistributedSampler is never told the epoch.

It shuffles by its seed and the epoch; without `set_epoch` every epoch comes in the order of the first.

    sampler = DistributedSampler(data)
    for epoch in range(3):
        train(DataLoader(data, sampler=sampler))

Told:

    sampler = DistributedSampler(data)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        train(DataLoader(data, sampler=sampler))
"""

from samebits.lint.libraries import FRAMEWORKS
from samebits.lint.project import argument
from samebits.lint.rule import Finding, Findings, Project, Rule, Source


@Rule("error")
def find(project: Project, source: Source) -> Findings:
    """Samplers that shuffle, in files of whose scripts none mentions `set_epoch`."""
    for call in source.methods["DistributedSampler"]:
        shuffle, roots = argument(call, "shuffle", 3), {name.split(".")[0] for name in source.imported.values()}
        files = project.files_of_scripts(source) if project.entries_of(source) else project.sources
        if project.is_mentioned(files, "set_epoch"):
            continue
        if getattr(shuffle, "value", True) is not False and not roots & set(FRAMEWORKS):  # they call it themselves
            yield Finding.at(source, call, "shuffles every epoch alike: set_epoch() is called nowhere")
