"""Environment variables that can change the bits of a training, and where code sets them."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from samebits.lint.source import Source

# Variables that are read when NumPy or torch is loaded.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "MKL_CBWR")
KNOWN = (*THREADS, "PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG", "CUDA_LAUNCH_BLOCKING", "CUDA_VISIBLE_DEVICES")


def meant(name: str) -> str:
    """Return the variable that a misspelt name means; empty where the name is right, or is close to none."""
    near = difflib.get_close_matches(name.upper(), KNOWN, n=1, cutoff=0.93)
    return near[0] if near and name not in KNOWN else ""


def settings(source: Source) -> Iterator[tuple[str, ast.AST]]:
    """The names of variables that a file sets, each with the statement or call that does."""
    if not {"environ", "putenv"} & source.words:
        return
    for node in source.every(ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and source.qualified(target.value) == "os.environ":
                yield from _named(target.slice, node)
    for name in ("os.environ.setdefault", "os.putenv"):
        for call in source.calls[name]:
            yield from _named(call.args[0] if call.args else None, call)
    for call in source.calls["os.environ.update"]:
        for keyword in call.keywords:
            yield from [(keyword.arg, call)] if keyword.arg else []
        for key in call.args[0].keys if call.args and isinstance(call.args[0], ast.Dict) else []:
            yield from _named(key, call)


def _named(key: ast.expr | None, node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        yield key.value, node
