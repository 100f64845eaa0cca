"""The first operation at which two recordings diverge, and what it is that diverges there."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.comparison.ops import OpDivergence, first_op_divergence
from samebits.runfolder.ops import CHUNK, OpBuffer, OpKind, Ops
from samebits.runfolder.steps import Recording, Writer

Row = tuple[OpKind, Sequence[int]]


def kind(op: str, **more: object) -> OpKind:
    return replace(OpKind(f"aten::{op}", ins=("self",), outs=("result",)), **more)


MM, RELU, SELECT = kind("mm", module="net.fc"), kind("relu"), kind("masked_select")
DROP = kind("bernoulli_", ins=("generator",), outs=("self",))
STEP = kind("add_.Tensor", pass_="optimizer", ins=("self", "numbers"), outs=("self",))


def rows(count: int = 40) -> list[Row]:
    """A step as it is told when nothing goes wrong."""
    kinds = [MM, RELU, DROP, STEP]
    return [(k, [i] * (len(k.ins) + len(k.outs))) for i, k in enumerate(kinds * (count // 4))]


def recorded(folder: Path, steps: Sequence[Sequence[Row]]) -> Recording:
    folder.mkdir()
    writer, sheet, ids = Writer(folder, 0), OpBuffer(), dict[OpKind, int]()
    for step in steps:
        for op, evidence in step:
            if op not in ids:
                ids[op] = sheet.add_kind(op)
            sheet.add(ids[op], evidence)
        sheet.start_step(sheet.step + 1)
        sheet.write(writer)
    writer.close()
    return Recording(writer.path)


def divergent(tmp_path: Path, a: Sequence[Sequence[Row]], b: Sequence[Sequence[Row]]) -> OpDivergence:
    """The first operation at which one run of these steps and another diverge; there is one."""
    found = first_op_divergence(recorded(tmp_path / "a", a), recorded(tmp_path / "b", b))
    assert found is not None
    return found


def changed(at: int, evidence: Sequence[int], op: OpKind | None = None) -> list[Row]:
    found = rows()
    found[at] = (op or found[at][0], evidence)
    return found


@pytest.mark.parametrize(
    ("second", "reordered"),
    [((8, 5, 7, 1), ("self",)), ((8, 5, 6, 1), ()), ((7, 5, 8, 2), ())],
    ids=["permuted", "one is another tensor", "another input differs, too"],
)
def test_a_list_of_the_same_tensors_in_another_order_is_told_apart(
    tmp_path: Path, second: tuple[int, ...], reordered: tuple[str, ...]
) -> None:
    """Nothing but the order of the list, and nothing else beside it."""
    norms = kind("_foreach_norm.Scalar", ins=("self[0]", "self[1]", "self[2]", "scale"), outs=("result[0]",))

    assert divergent(tmp_path, [[(norms, [7, 5, 8, 1, 3])]], [[(norms, [*second, 3])]]).reordered == reordered


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """Every operation, in order, over steps and chunks."""
    steps = [rows(4 * CHUNK), rows(8)]
    read = Ops(recorded(tmp_path / "a", steps))

    assert [(row.step, row.index) for row in read.rows()][-2:] == [(1, 6), (1, 7)]
    assert [(row.kind, list(row.evidence)) for row in read.rows()] == [row for step in steps for row in step]


def test_equal_runs_do_not_part(tmp_path: Path) -> None:
    """The twin of all the cases below."""
    a, b = (recorded(tmp_path / name, [rows(), rows(2000)]) for name in "ab")

    assert first_op_divergence(a, b) is None


SWAPPED = [*rows()[:4], rows()[5], rows()[4], *rows()[6:]]


@pytest.mark.parametrize(
    ("b", "index", "finding", "names"),
    [
        (changed(5, [5, 99]), 5, "op", ("result",)),
        (changed(5, [99, 99]), 5, "input", ("self",)),
        (changed(6, [99, 6]), 6, "generator", ("generator",)),
        (changed(7, [7, 99, 7]), 7, "argument", ("numbers",)),
        (changed(8, [8, 8], replace(MM, arguments="(float32[3])")), 8, "argument", ()),
        (changed(9, [9, 99])[:12] + [(MM, [99, 99])] * 2, 9, "op", ("result",)),
        (SWAPPED, 4, "control flow", ()),
        ([*rows(), (SELECT, [1, 1])], 40, "control flow", ()),
    ],
    ids=["result", "input", "generator", "number", "shape", "the earliest of several", "another order", "one goes on"],
)
def test_what_differs_says_what_is_to_blame(
    b: list[Row], index: int, finding: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    """The operation, its input, its generator or Python; a later difference says nothing new."""
    found = divergent(tmp_path, [rows(), rows()], [rows(), b])

    assert (found.step, found.index, found.finding, found.names) == (1, index, finding, names)
    assert found.row.kind.op == (b if index < len(b) else rows())[index][0].op


@pytest.mark.parametrize(
    ("a", "b", "extra", "extra_in"),
    [
        (0, 1, ["masked_select"], "second"),
        (1, 0, ["masked_select"], "first"),
        (0, 3, ["masked_select"] * 3, "second"),
    ],
)
def test_an_extra_operation(a: int, b: int, extra: list[str], extra_in: str, tmp_path: Path) -> None:
    """It is named, with the run that did it; those that follow are not blamed."""
    left, right = ([*rows()[:10], *[(SELECT, [1, 1])] * count, *rows()[10:]] for count in (a, b))
    found = divergent(tmp_path, [left], [right])

    assert (found.finding, found.index, found.extra_in) == ("control flow", 10, extra_in)
    assert [row.kind.op.removeprefix("aten::") for row in found.extra] == extra


@pytest.mark.parametrize("count", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_a_million_operations_are_searched_in_no_time(count: int, tmp_path: Path) -> None:
    """Roots are halved and two chunks are read: less than 0.2 s, of a third of a million, too."""
    steps = [rows(10_000)] * count
    guilty = count * 3 // 4
    a = recorded(tmp_path / "a", steps)
    late = list(rows(10_000))
    late[777] = (RELU, [777, 99])
    b = recorded(tmp_path / "b", [*steps[:guilty], late, *steps[guilty + 1 :]])
    start = time.perf_counter()
    found = first_op_divergence(a, b)
    seconds = time.perf_counter() - start

    assert found is not None
    assert (found.step, found.index) == (guilty, 777)
    assert seconds < 0.2
