"""A kernel of one's own adds atomically.

Which thread adds first is left to the device; floats round otherwise in each order, and no mode of torch knows of it.

    @triton.jit
    def add_rows(out, rows):
        tl.atomic_add(out, tl.load(rows))

One program for each output, which adds in its own order:

    @triton.jit
    def add_rows(out, rows):
        tl.store(out, tl.sum(tl.load(rows)))
"""

from samebits.lint.rule import Finding, Findings, Project, Rule, Source


@Rule("warning", factors=("torch-algorithms",))
def find(project: Project, source: Source) -> Findings:
    """Calls of `atomic_add` of triton.language."""
    for call in source.methods["atomic_add"]:
        if source.qualified(call.func).startswith(("triton.", "tl.", ".tl.")):
            yield Finding.at(source, call, "adds in the order in which threads come")
