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
    """Assignments of an epoch from a checkpoint at which a loop begins whose counter is saved under the same key."""
    loops = [(dotted(node.target), begin) for node in source.every(ast.For) if (begin := _begin(node))]
    for node, _, key in counters_from(source) if loops else ():
        counted = {name for name, begin in loops if begin in map(dotted, node.targets)}
        if checkpoint_part(node.value)[1] == key and counted & {*map(dotted, _saved(source, key))}:
            yield Finding.at(source, node, f"goes on at the {key} that was finished when it was saved")


def _begin(loop: ast.For) -> str:
    """Return the name at which a loop over a range begins; empty where its body changes the counter."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range" | "trange"), args=[begin, _, *_]):
            names = [dotted(one.target) for each in loop.body for one in walk(each) if isinstance(one, ast.AugAssign)]
            return "" if dotted(loop.target) in names else dotted(begin)
    return ""


def _saved(source: Source, key: str) -> Iterator[ast.expr]:
    """The values that dicts of a file hold under a key."""
    for node in source.every(ast.Dict):
        for name, value in zip(node.keys, node.values, strict=True):
            if isinstance(name, ast.Constant) and name.value == key:
                yield value
