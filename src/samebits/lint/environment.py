"""Environment variables that can change the bits of a training, and where code sets them."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from samebits.lint.source import Source

# Variables that are read when NumPy or torch is loaded.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "MKL_CBWR")
KNOWN = (*THREADS, "PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG", "CUDA_LAUNCH_BLOCKING", "CUDA_VISIBLE_DEVICES")


def closest_variable(name: str) -> str:
    """Return the variable that a misspelt name means; empty where the name is right, or is close to none."""
    near = difflib.get_close_matches(name.upper(), KNOWN, n=1, cutoff=0.93)
    return near[0] if near and name not in KNOWN else ""


# The name of a variable, what it is set to, and the statement or call that does.
Set = tuple[str, ast.expr, ast.AST]


def variables_set(source: Source) -> Iterator[Set]:
    """The variables that a file sets."""
    if not {"environ", "putenv"} & source.words:
        return
    for node in source.every(ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and source.qualified(target.value) == "os.environ":
                yield from _named(target.slice, node.value, node)
    for name in ("os.environ.setdefault", "os.putenv"):
        for call in source.calls[name]:
            if len(call.args) == 2:
                yield from _named(call.args[0], call.args[1], call)
    for call in source.calls["os.environ.update"]:
        yield from ((keyword.arg, keyword.value, call) for keyword in call.keywords if keyword.arg)
        for given in call.args[:1]:
            if isinstance(given, ast.Dict):
                for key, value in zip(given.keys, given.values, strict=True):
                    yield from _named(key, value, call)


def _named(key: ast.expr | None, value: ast.expr, node: ast.AST) -> Iterator[Set]:
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        yield key.value, value, node
