"""Follows the cures that `check` prints, to the letter: each is an edit of the file and line that it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

LISTINGS = ("listdir", "scandir", "iterdir", "glob", "iglob", "rglob")
# What a person would write where a call must not reach the training.
CONSTANTS = {
    "time": "0.0",
    "time_ns": "0",
    "perf_counter": "0.0",
    "now": "datetime(2000, 1, 1)",
    "uuid4": "uuid.UUID(int=0)",
    "randbits": "0",
    "urandom": "b'0000'",
    "getpid": "0",
    "NamedTemporaryFile": "open(folder / f'{len(list(folder.iterdir()))}.pt', 'wb')",
    "mkdtemp": "(lambda place: (place.mkdir(), place)[1])(folder / f'{len(list(folder.iterdir()))}')",
}


def followed(fix: str, folder: Path) -> None:
    """Change the files in `folder` as the cure says; an AssertionError where it cannot be followed."""
    fix, _, others = fix.partition("; the same at ")
    for place in filter(None, others.split(", ")):
        followed(re.sub(PLACE, place, fix, count=1), folder)
    for pattern, follow in CURES:
        found = re.fullmatch(pattern, fix)
        if found is not None:
            follow(folder, *found.groups())
            return
    raise AssertionError(f"nobody knows how to follow this: {fix}")


def _seed_at_start(folder: Path, call: str, name: str, *_: str) -> None:
    module = {"np": "numpy as np"}.get(call.partition(".")[0], call.partition(".")[0])
    _insert(folder / name, f"import {module}\n{call}\n")


def _at_start(folder: Path, call: str) -> None:
    _insert(folder / "faulty.py", f"import torch\n{call}\n")


def _insert(path: Path, lines: str) -> None:
    """At the start of the script: below its docstring and what has to come from `__future__`."""
    source = path.read_text(encoding="utf-8")
    body = ast.parse(source).body
    head = [node for node in body if isinstance(node, ast.Expr | ast.ImportFrom) and _is_head(node)]
    at = max((node.end_lineno or 0 for node in head), default=0)
    rows = source.splitlines(keepends=True)
    path.write_text("".join([*rows[:at], lines, *rows[at:]]), encoding="utf-8")


def _is_head(node: ast.Expr | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _on_line(edit: Callable[[ast.AST, str], str | None]) -> Callable[..., None]:
    """An edit of the first expression on a line that it has an answer for."""

    def follow(folder: Path, *groups: str) -> None:
        name, number = groups[-2], int(groups[-1])
        path = folder / name
        source = path.read_text(encoding="utf-8")
        rows = source.splitlines(keepends=True)
        for node in ast.walk(ast.parse(source)):
            if getattr(node, "lineno", None) is None or not node.lineno <= number <= (node.end_lineno or 0):  # type: ignore[attr-defined]
                continue
            text = ast.get_source_segment(source, node) or ""
            new = edit(node, text) if isinstance(node, ast.expr) and "\n" not in text else None
            if new is not None and text in rows[node.lineno - 1]:
                rows[node.lineno - 1] = rows[node.lineno - 1].replace(text, new, 1)
                path.write_text("".join(rows), encoding="utf-8")
                return
        raise AssertionError(f"nothing to change at {name}:{number}")

    return follow


def _as_the_twin(folder: Path, *_: str) -> None:
    """What threads share, or a query draws, is for a person to change: the twin does what the cure says."""
    (folder / "faulty.py").write_text((folder / "clean.py").read_text(encoding="utf-8"), encoding="utf-8")


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _sorted_listing(node: ast.AST, text: str) -> str | None:
    return f"sorted({text})" if _called(node) in LISTINGS else None


def _sorted_set(node: ast.AST, text: str) -> str | None:
    if isinstance(node, ast.Call) and _called(node) in ("list", "enumerate") and len(node.args) == 1:
        inside = ast.unparse(node.args[0])
        return f"sorted({inside}, key=str)" if _called(node) == "list" else f"enumerate(sorted({inside}, key=str))"
    return None


def _in_order(folder: Path, name: str, number: str) -> None:
    """The sets that the line takes are made with `dict.fromkeys` instead, wherever in the file that is."""
    path = folder / name
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    used = re.findall(r"\w+", rows[int(number) - 1])
    made = [i for i, row in enumerate(rows) if row.partition(" = ")[0] in used and "set(" in row]
    assert made
    for i in made:
        rows[i] = rows[i].replace("set(", "dict.fromkeys(")
    path.write_text("".join(rows), encoding="utf-8")


def _without_hash(node: ast.AST, text: str) -> str | None:
    if isinstance(node, ast.Call) and _called(node) == "hash":
        return f"__import__('zlib').crc32({ast.unparse(node.args[0])}.encode())"
    return None


def _seeded(node: ast.AST, text: str) -> str | None:
    return text.replace("()", "(0)") if isinstance(node, ast.Call) and text.endswith("()") else None


def _constant(node: ast.AST, text: str) -> str | None:
    return CONSTANTS.get(_called(node))


def _other_bytes(node: ast.AST, text: str) -> str | None:
    return "__import__('io').BytesIO(bytes(64))" if _called(node) == "open" else None


def _zeros(node: ast.AST, text: str) -> str | None:
    return text.replace("empty", "zeros", 1) if _called(node) == "empty" else None


def _keyed_loader(node: ast.AST, text: str) -> str | None:
    if _called(node) != "DataLoader":
        return None
    return "__import__('samebits.data').data." + text.removesuffix(")") + ", seed=0)"


def _instead(folder: Path, new: str, old: str, name: str, number: str) -> None:
    path = folder / name
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if old == "torch.Generator.seed()":  # a method: the line has the object's own name before it
        old, new = ".seed()", f".{new}"
    assert old in rows[int(number) - 1]
    rows[int(number) - 1] = rows[int(number) - 1].replace(old, new)
    path.write_text("".join(rows), encoding="utf-8")


def _in_order_of_tasks(folder: Path, name: str, number: str) -> None:
    """`for job in jobs` where `as_completed` stood; coroutines are awaited one after the other."""
    path = folder / name
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    row = rows[int(number) - 1]
    rows[int(number) - 1] = re.sub(r"(asyncio\.)?as_completed\((\w+)\)", r"\2", row)
    assert row != rows[int(number) - 1]
    path.write_text("".join(rows), encoding="utf-8")


def _in_its_place(folder: Path, call: str, name: str, number: str) -> None:
    path = folder / name
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    rows[int(number) - 1] = f"{call}\n"
    path.write_text("".join(rows), encoding="utf-8")


def _left_alone(folder: Path, _: str, name: str, number: str) -> None:
    path = folder / name
    rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    row = rows[int(number) - 1]
    rows[int(number) - 1] = row[: len(row) - len(row.lstrip())] + "pass\n"
    path.write_text("".join(rows), encoding="utf-8")


PLACE = r"([\w./-]+):(\d+)"
CURES: list[tuple[str, Callable[..., None]]] = [
    (rf"call (\S+) once, at the start of (\S+), before (?:{PLACE} draws|its first draw)", _seed_at_start),
    (rf"sort the listing at {PLACE}: sorted\(\.\.\.\)", _on_line(_sorted_listing)),
    (
        rf"sort before ordering: sorted\(set\(\.\.\.\), key=str\) at {PLACE}, or use dict.fromkeys\(...\)",
        _on_line(_sorted_set),
    ),
    (rf"replace hash\(\) at {PLACE} by what is the same in every run, such as .*", _on_line(_without_hash)),
    (
        rf"build a list or dict.fromkeys\(...\), which keep an order, instead of the set whose order counts at {PLACE}",
        _in_order,
    ),
    (rf"give (.+) at {PLACE} a seed", _on_line(_seeded)),
    (rf"(?:call|write) (\S+) instead of (\S+) at {PLACE}", _instead),
    (
        rf"take the results in the order of their tasks at {PLACE}: iterate over the tasks themselves",
        _in_order_of_tasks,
    ),
    (rf"number the tasks of the threads started at {PLACE}: results in that order, .* meanwhile", _as_the_twin),
    (rf"draw at {PLACE} from one random.Random\(0\), made once, not from a random.SystemRandom", _as_the_twin),
    (rf"draw in Python, from one random.Random\(0\), not by RANDOM\(\) in the SQL at {PLACE}", _as_the_twin),
    (rf"(?:draw from random.Random\(0\)|use .+|name it .+) instead of (\S+) at {PLACE}", _on_line(_constant)),
    (rf"draw bytes from random.Random\(0\) instead of (\S+) at {PLACE}", _on_line(_other_bytes)),
    (rf"use a fixed value, or count steps, instead of the time read at {PLACE}", _on_line(_constant)),
    (rf"count steps, or .*, instead of deciding by the seconds read at {PLACE}", _on_line(_constant)),
    (
        rf"write every element of the tensor made at {PLACE} before reading it, or use torch.zeros",
        _on_line(_zeros),
    ),
    (
        rf"use samebits.data.DataLoader\(\.\.\., seed=0\) at {PLACE}, which keys each sample by its index",
        _on_line(_keyed_loader),
    ),
    (rf"make samples independent of (\S+) \({PLACE}\)", _left_alone),
    (
        r"(call) torch.set_num_threads with a fixed number at the start",
        lambda folder, _: _at_start(folder, "torch.set_num_threads(1)"),
    ),
    (r"call (torch.use_deterministic_algorithms\(True\)) at the start", _at_start),
    (rf"call (torch.use_deterministic_algorithms\(True\)) at {PLACE}", _in_its_place),
]
