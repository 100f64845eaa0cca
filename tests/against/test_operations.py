"""Two programs paired operation by operation: what differs is accused, what is only written otherwise is not."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from samebits.against.operations import OpMismatch, first_mismatch
from samebits.runfolder.ops import OpKind, OpRow


def row(index: int, op: str, ins: dict[str, int], outs: dict[str, int], **more: object) -> OpRow:
    kind = OpKind(f"aten::{op}", ins=tuple(ins), outs=tuple(outs), path="train.py", line=7, **more)  # type: ignore[arg-type]
    return OpRow(0, index, kind, (*ins.values(), *outs.values()))


# y = relu(x @ w + b); z = y.sum()
WHOLE = [
    row(0, "addmm", {"b": 1, "x": 2, "w": 3}, {"out": 5}),
    row(1, "relu", {"self": 5}, {"out": 6}),
    row(2, "sum", {"self": 6}, {"out": 7}),
]
APART = [
    row(0, "mm", {"x": 2, "w": 3}, {"out": 4}),
    row(1, "add", {"self": 4, "other": 1}, {"out": 5}),
    row(2, "relu", {"self": 5}, {"out": 6}),
    row(3, "sum", {"self": 6}, {"out": 7}),
]


def with_out(rows: list[OpRow], index: int, out: int) -> list[OpRow]:
    """The same program, in which one result is another one, and whatever follows from it."""
    old, moved = rows[index].outs["out"], {}
    moved[old] = out
    changed = []
    for one in rows:
        ins = {name: moved.get(value, value) for name, value in one.ins.items()}
        outs = dict(one.outs)
        if ins != one.ins:
            moved[outs["out"]] = outs["out"] + 1000
        outs = {name: moved.get(value, value) for name, value in outs.items()}
        changed.append(replace(one, evidence=(*ins.values(), *outs.values())))
    return changed


def mismatch(a: list[OpRow], b: list[OpRow]) -> OpMismatch:
    """Where two programs part; they do."""
    found, _ = first_mismatch(a, b)
    assert found is not None
    return found


def test_what_is_the_same_is_no_mismatch() -> None:
    """Also where one version does in one operation what the other does in two."""
    assert first_mismatch(WHOLE, WHOLE)[0] is None
    found, aligned = first_mismatch(WHOLE, APART)
    assert found is None
    assert (aligned.pairs, aligned.only_here, aligned.only_there) == (2, 1, 2)


def test_equal_inputs_and_other_results_accuse_the_operation() -> None:
    """The first one, and not those to which the difference goes on."""
    found = mismatch(WHOLE, with_out(WHOLE, 1, 60))

    assert (found.finding, found.row.kind.op, found.names) == ("op", "aten::relu", ("out",))
    assert first_mismatch(WHOLE, with_out(WHOLE, 1, 60))[1].is_exact


def test_other_operations_with_another_result_are_named_on_both_sides() -> None:
    """Not the operation that they hand on to."""
    found = mismatch(WHOLE, with_out(APART, 1, 50))

    assert found.finding == "otherwise"
    assert [one.kind.op for one in found.instead_a] == ["aten::addmm"]
    assert [one.kind.op for one in found.instead_b] == ["aten::mm", "aten::add"]


def test_what_arrives_different_accuses_no_operation() -> None:
    """Data are not made by operations."""
    other = [replace(WHOLE[0], evidence=(1, 20, 3, 55)), *WHOLE[1:]]
    found = mismatch(WHOLE, other)

    assert (found.finding, found.names) == ("input", ("x",))


def test_a_generator_and_an_argument_are_no_fault_of_the_operation() -> None:
    """What it was told, or what it drew from, was another one."""
    drawn = row(0, "rand", {"generator": 1}, {"out": 5})
    other = row(0, "rand", {"generator": 2}, {"out": 6})
    scaled, more = (row(0, "mul", {"self": 1}, {"out": out}, arguments=f"(float32[2], {out})") for out in (2, 3))

    assert mismatch([drawn], [other]).finding == "generator"
    assert mismatch([scaled], [more]).finding == "argument"


@given(st.permutations(range(6)))
def test_another_order_is_no_mismatch(order: list[int]) -> None:
    """Operations that do not depend on one another may be done in any order."""
    program = [row(index, "mul", {"self": 10 + index}, {"out": 20 + index}) for index in range(6)]

    assert first_mismatch(program, [program[index] for index in order])[0] is None
