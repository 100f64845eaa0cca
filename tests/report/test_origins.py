"""How the operation at which runs diverge is told: every finding in its own words, and as JSON."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.checking.verdict import CheckVerdict, DivergentRuns, LeftOut, Origin, OriginOnRank, Unknown
from samebits.comparison.locate import Divergence
from samebits.comparison.ops import OpDivergence
from samebits.comparison.values import Distance
from samebits.replay.runner import Condition, Replay
from samebits.report.answers import document_of
from samebits.report.text import check_report
from samebits.report.unknown import advice
from samebits.runfolder.ops import OpKind, OpRow, Producer
from tests.schemas import assert_valid

# An operation of the backward pass, on a line that can be shown.
KIND = OpKind(
    *("aten::index_add", "backward", "model.tok_embeddings", "model.py", 2, "forward", "embedding"),
    arguments="(float32[8])",
    ins=("self", "source"),
    outs=("result",),
    source="h = self.tok_embeddings(tokens)",
)
ROW = OpRow(0, 1482, KIND, (1, 2, 3))
OP = OpDivergence("op", 0, 1482, 0, ROW, ROW, ("result",))
INPUT = replace(OP, finding="input", names=("self",))
PRODUCER = Producer(0, 3, "aten::mul.Tensor")
RECEIVED = replace(PRODUCER, op="c10d::allreduce_")
RACY = Replay(Path("bug.py"), (Condition("as recorded", 20, 4, (0, 1, 2, 3)), Condition("1 thread", 5, 1, (4,))), 5)
APART = DivergentRuns(1, 2, Divergence(0, "grad", "weight", differing=1, total=1))


def told(place: OpDivergence, producer: Producer | None = None, **more: Any) -> CheckVerdict:
    origin = Origin(3, 4, 1, (OriginOnRank(place, producer),), **more)
    return CheckVerdict("different", "train.py", Path("/runs"), divergent=APART, origins=(origin,))


def lines(verdict: CheckVerdict) -> list[str]:
    assert_valid(document_of("check", verdict))
    return check_report(verdict).text.splitlines()


def test_an_operation_that_is_to_blame() -> None:
    """The whole answer, golden; our own failure stands below what is known all the same."""
    verdict = told(OP, distance=Distance(3, 65536, 1, 1e-7), replay=RACY, unmeasured="no space left")

    assert lines(verdict)[:7] == [
        "different bits: runs 3 and 4 diverge at step 0, op 1482",
        "  op        aten::index_add (backward of embedding)      "
        "inputs equal, outputs differ in 3 of 65536 elements, at most 1 ULP",
        "  module    model.tok_embeddings",
        "  source    model.py:2  h = self.tok_embeddings(tokens)",
        "  confirmed replayed 20 times on its captured inputs: 4 different results",
        "  script    bug.py",
        "            its operands could not be kept: no space left",
    ]


@pytest.mark.parametrize("held", [True, False])
def test_a_pin_that_was_in_force_is_no_advice(held: bool) -> None:
    """The operation races: where deterministic algorithms were pinned all the same, or refused, another one is."""
    verdict = replace(told(OP, replay=RACY), unknown=Unknown(APART, held, 2, 4))
    refused = LeftOut("torch-algorithms", "pinned", "raised an error")
    instead = "another operation in place of aten::index_add, with a result that repeats"
    pin = f"samebits run --pin torch-algorithms, or {instead}"

    assert advice(verdict) == [instead if held else pin]
    assert advice(replace(verdict, left_out=(refused,))) == [instead]


def test_where_an_argument_comes_from_is_to_be_looked_at() -> None:
    """Free memory, say: what the catalogue holds is not called outside of it."""
    (said,) = advice(replace(told(replace(OP, finding="argument", names=())), unknown=Unknown(APART, True, 2, 4)))

    assert said.startswith("look at what the arguments of aten::index_add are computed from: what the machine reports")


@pytest.mark.parametrize(
    ("finding", "names", "producer", "more", "says"),
    [
        ("input", ("source",), None, {}, "no recorded operation made it"),
        ("input", ("source",), replace(PRODUCER, uninitialized=True), {}, "allocated: no operation wrote there since"),
        ("input", ("source",), RECEIVED, {}, "received from another"),
        ("input", ("source",), PRODUCER, {}, "the last operation that wrote there"),
        ("generator", ("generator",), None, {}, "would draw from a generator in another state"),
        ("argument", ("numbers",), None, {}, "a number that Python computed differs"),
        ("op", ("result",), None, {"unobserved_write": ("self",)}, "its input self was changed past the dispatcher"),
        ("op", ("result",), None, {"changed_meanwhile": ("self",)}, "another process or thread writes there"),
        ("op", ("result",), None, {"shared": ("self",)}, "self is memory that processes share"),
    ],
)
def test_findings_that_acquit_the_operation(
    finding: Any, names: tuple[str, ...], producer: Producer | None, more: Any, says: str
) -> None:
    """What came in different, and from where as far as that is known."""
    verdict = told(replace(OP, finding=finding, names=names), producer, **more)
    found, document = lines(verdict), document_of("check", verdict)

    assert any(says in line for line in found)
    assert not any("inputs equal" in line for line in found)
    assert document["origins"][0]["is_accused"] is False
    assert document["rows"][0][1] in found[1]


def test_shared_memory_does_not_excuse_what_replaying_confirms() -> None:
    """On captured inputs nobody else writes."""
    verdict = told(OP, shared=("self",), replay=RACY)

    assert document_of("check", verdict)["origins"][0]["is_accused"]
    assert "inputs equal" in lines(verdict)[1]


def test_control_flow() -> None:
    """The extra operation and the run that did it."""
    extra = replace(ROW, kind=replace(KIND, op="aten::masked_select", backward_of=""))
    place = OpDivergence("control flow", 0, 1482, 0, ROW, extra, (), (extra,), "second")

    assert "the second run did an extra aten::masked_select at model.py:2" in lines(told(place))[1]


@pytest.mark.parametrize(
    ("replay", "says"),
    [
        (Replay(None, failure="it is unknown"), "not possible: it is unknown"),
        (Replay(Path("x.py"), (Condition("as recorded", 20, 1, (0,)),), 1, True), "not reproduced: 20 calls"),
        (
            Replay(Path("x.py"), (Condition("as recorded", 9, 1, (0,)), Condition("1 thread", 9, 1, (1,))), 2, True),
            "repeats under each condition, and differs between: as recorded | 1 thread",
        ),
    ],
)
def test_what_replaying_showed(replay: Replay, says: str) -> None:
    """Confirmed or not, and under which conditions."""
    assert any(says in line for line in lines(told(OP, replay=replay)))


def test_ranks_and_further_origins() -> None:
    """The rank to blame first, the receiving one below; further operations on a line each."""
    own = OriginOnRank(replace(OP, index=7, rank=1))
    received = OriginOnRank(replace(INPUT, index=3), RECEIVED)
    first = Origin(3, 4, 2, (received, own))
    verdict = replace(told(own.place), origins=(first, Origin(5, 6, 1, (own,))))
    text = "\n".join(lines(verdict))

    assert text.startswith("different bits: runs 3 and 4 diverge at step 0, op 7 of rank 1")
    assert "  rank      0: at step 0, op 3, received" in text
    assert "seen in 1 of 2 pairs of runs" in text
    assert "  also      at step 0, op 7 of rank 1: aten::index_add" in text


def test_what_another_stream_wrote_has_to_be_waited_for() -> None:
    other, same = (
        "\n".join(lines(told(INPUT, replace(PRODUCER, other_stream=is_other)))) for is_other in (True, False)
    )

    assert "aten::mul.Tensor agreed, on another stream: nobody waited for it, or something else wrote there" in other
    assert "aten::mul.Tensor, agreed: something else has since" in same


def test_an_operation_that_reads_what_another_stream_may_be_writing_is_accused_only_by_its_replay() -> None:
    """What was read as evidence and what the kernel read may differ."""
    late, unknown = replace(PRODUCER, other_stream=True), Unknown(APART, True)
    steady = Replay(Path("bug.py"), (Condition("as recorded", 20, 1, (0,)),), 1)
    doubted, raced = (replace(told(OP, late, replay=one), unknown=unknown) for one in (steady, RACY))

    assert "an input was written on another stream, which may not have ended when it was read" in lines(doubted)[1]
    assert not any("no race in" in line for line in lines(doubted))
    assert "inputs equal" in lines(raced)[1]
    assert "another operation in place of aten::index_add" in advice(raced)[0]


def test_the_same_tensors_in_another_order_are_told_as_that() -> None:
    """Nobody wrote anything: the list was put together in another order."""
    text = "\n".join(lines(told(replace(INPUT, names=("self[0]", "self[1]"), reordered=("self",)), PRODUCER)))

    assert "given the same tensors in another order (self)" in text
    assert "something else has since" not in text
