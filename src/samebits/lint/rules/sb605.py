"""A training resumes at the epoch that it had finished.

What is saved is the number of the epoch that was just trained, and there it goes on: that epoch is trained twice. Three
of nine public scripts that resume do so.

    start = torch.load("last.pt")["epoch"]
    for epoch in range(start, 10):
        train(epoch)
        torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")

One further on:

    start = torch.load("last.pt")["epoch"] + 1
    for epoch in range(start, 10):
        train(epoch)
        torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")
"""

import ast
from collections.abc import Iterator

from samebits.lint.project import checkpoint_part, counters_from
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import dotted, walk


@Rule("warning")
def find(project: Project, source: Source) -> Findings:
    """Where a loop begins at what a checkpoint holds, and the name that counts it is saved below that key."""
    loops = [(dotted(node.target), begin) for node in source.every(ast.For) if (begin := _begin(node))]
    for node, _, key in counters_from(source) if loops else ():
        counted = {name for name, begin in loops if begin in map(dotted, node.targets)}
        if checkpoint_part(node.value)[1] == key and counted & {*map(dotted, _saved(source, key))}:
            yield Finding.at(source, node, f"goes on at the {key} that was finished when it was saved")


def _begin(loop: ast.For) -> str:
    """The name at which a loop over a range begins, where it counts as it says."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range" | "trange"), args=[begin, _, *_]):
            names = [dotted(one.target) for each in loop.body for one in walk(each) if isinstance(one, ast.AugAssign)]
            return "" if dotted(loop.target) in names else dotted(begin)
    return ""


def _saved(source: Source, key: str) -> Iterator[ast.expr]:
    """What dicts hold below a key."""
    for node in source.every(ast.Dict):
        for own, value in zip(node.keys, node.values, strict=True):
            if isinstance(own, ast.Constant) and own.value == key:
                yield value
