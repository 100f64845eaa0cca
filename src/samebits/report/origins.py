"""Words for the operation at which runs diverge."""

from __future__ import annotations

from samebits.base.sites import Site, shown_path
from samebits.checking.verdict import Origin, OriginOnRank
from samebits.comparison.ops import OpDivergence
from samebits.replay.runner import Replay
from samebits.report.rows import Rows, counted
from samebits.runfolder.ops import OpKind


def origin_rows(origin: Origin) -> Rows:
    """Return rows for the operation, its module, its line, and what replaying it showed."""
    first = origin.first
    place = first.place
    rows: Rows = [("op", f"{op_name(place.row.kind)}      {describe_finding(origin)}")]
    if place.reordered:
        rows.append(("", "Python put them together in another order: from a set, a dictionary, or a listing"))
    elif place.names and (place.finding == "input" or (place.finding == "argument" and first.producer is not None)):
        rows.append(("", _arrived(first)))
    if place.finding == "control flow":
        rows += [("", f"{row.kind.op}{_at(row.kind)}") for row in place.extra[1:4]]
    rows += place_rows(place.row.kind)
    if origin.replay is not None:
        rows += replay_rows(origin.replay)
    rows.append(("", f"its operands could not be kept: {origin.unmeasured}" if origin.unmeasured else ""))
    rows.append(("", f"seen in 1 of {origin.pairs} pairs of runs" if origin.pairs > 1 else ""))
    return rows + [("rank", _other_rank(other)) for other in origin.ranks if other is not first]


def place_rows(kind: OpKind) -> Rows:
    """Return rows for where operations of a kind are called: the module and the line."""
    site = site_of(kind)
    return [("module", kind.module), ("source", "" if site is None else f"{site.place}  {site.source}".rstrip())]


def other_origin(origin: Origin) -> str:
    """Return one line for a further operation at which the runs diverge when the first one no longer does."""
    kind = origin.first.place.row.kind
    return f"{origin_place(origin)}: {op_name(kind)}{_within(kind)}{_at(kind)}, {describe_finding(origin)}"


def describe_op(place: OpDivergence) -> str:
    """Return one line for where the operations of two recordings diverge."""
    kind = place.row.kind
    names = f", {', '.join(place.names)} differs" if place.names else ""
    if place.reordered:
        names = f", the same tensors in another order ({', '.join(place.reordered)})"
    site = site_of(kind)
    source = "" if site is None else f"  {site.source}"
    finding = f"{place.finding}: {op_name(kind)}{_within(kind)}{names}"
    return f"at step {place.step}, op {place.index}: {finding}{_at(kind)}{source}"


def origin_place(origin: Origin) -> str:
    """Return the place of the operation: `at step 0, op 1482`."""
    place = origin.first.place
    rank = f" of rank {place.rank}" if place.rank or len(origin.ranks) > 1 else ""
    return f"at step {place.step}, op {place.index}{rank}"


def site_of(kind: OpKind) -> Site | None:
    """Return the user's line that an operation belongs to; None where none is known."""
    return Site(kind.path, kind.line, kind.function, kind.source) if kind.path else None


def op_name(kind: OpKind) -> str:
    """Return the name of an operation, with its pass: `aten::mm (backward of linear)`."""
    if not kind.backward_of:
        return kind.op if kind.pass_ in ("forward", "none") else f"{kind.op} ({kind.pass_})"
    return f"{kind.op} ({kind.backward_of if ' ' in kind.backward_of else f'backward of {kind.backward_of}'})"


def describe_finding(origin: Origin) -> str:
    """Return how the operation differs, as a clause: the same words in text, JSON and pages."""
    place = origin.first.place
    if origin.changed_meanwhile:
        inputs = ", ".join(origin.changed_meanwhile)
        return f"its input {inputs} changed while it ran: another process or thread writes there, so it is not to blame"
    if origin.unobserved_write:
        inputs = ", ".join(origin.unobserved_write)
        return f"its input {inputs} was changed past the dispatcher (NumPy, a custom kernel), so it is not to blame"
    if place.finding == "op" and not origin.is_accused and not origin.shared:
        return f"{_by(origin)}; an input was written on another stream, which may not have ended when it was read"
    if place.finding == "op" and not origin.is_accused:
        operands = ", ".join(origin.shared)
        return f"{_by(origin)}; {operands} is memory that processes share, and another may have written there meanwhile"
    if place.finding == "op":
        return f"inputs equal, {_by(origin)}"
    if place.finding == "generator":
        return "would draw from a generator in another state"
    if place.reordered:
        return f"given the same tensors in another order ({', '.join(place.reordered)})"
    if place.finding == "input":
        return f"its input {', '.join(place.names)} already differs when it arrives"
    if place.finding == "argument":
        return f"called with other arguments: {_arguments(place)}"
    return _flow(place)


def _by(origin: Origin) -> str:
    distance = origin.distance
    if distance is None:
        return f"{', '.join(origin.first.place.names)} differs"
    text = f"outputs differ in {distance.elements} of {distance.total} elements"
    if distance.max_ulp is not None:
        return f"{text}, at most {distance.max_ulp} ULP"
    return text


def _arguments(place: OpDivergence) -> str:
    assert place.a is not None
    assert place.b is not None
    if place.a.kind.arguments == place.b.kind.arguments:
        return "a number that Python computed differs"
    return f"{place.a.kind.arguments} and {place.b.kind.arguments}"


def _flow(place: OpDivergence) -> str:
    count, kind = len(place.extra), place.row.kind
    if place.a is None or place.b is None or place.extra_in == "both":
        a, b = (row.kind.op + _at(row.kind) if row else "nothing" for row in (place.a, place.b))
        return f"control flow diverged here: the first run continues with {a}, the second with {b}"
    extra = f"an extra {kind.op}" if count == 1 else f"{counted(count, 'extra operation')}, the first of them {kind.op}"
    return f"control flow diverged here: the {place.extra_in} run did {extra}{_at(kind)}"


def _within(kind: OpKind) -> str:
    return f" in {kind.module}" if kind.module else ""


def _at(kind: OpKind) -> str:
    site = site_of(kind)
    return "" if site is None else f" at {site.place}"


def _arrived(first: OriginOnRank) -> str:
    producer = first.producer
    if producer is None:
        return "no recorded operation made it: it comes from NumPy, a file, a custom kernel, another thread or process"
    where = f" at {Site(producer.path, producer.line).place}" if producer.path else ""
    if first.is_received:
        return f"received from another rank by {producer.op}{where}"
    if first.is_uninitialized:
        return f"memory that {producer.op}{where} allocated: no operation wrote there since; a custom kernel may have"
    if producer.other_stream:
        return f"{producer.op}{where} agreed, on another stream: nobody waited for it, or something else wrote there"
    return f"the last operation that wrote there, {producer.op}{where}, agreed: something else has since"


def _other_rank(other: OriginOnRank) -> str:
    place = other.place
    origin = "received" if other.is_received else f"diverges by itself, {op_name(place.row.kind)}"
    return f"{place.rank}: at step {place.step}, op {place.index}, {origin}"


def replay_rows(replay: Replay) -> Rows:
    """Return rows for what calling the operation again showed, and for the script that does it."""
    if replay.failure:
        return [("replay", f"not possible: {replay.failure}")]
    script = ("script", "" if replay.script is None else shown_path(replay.script))
    calls, on = sum(condition.calls for condition in replay.conditions), "on its captured inputs"
    if replay.is_racy:
        racy = next(c for c in replay.conditions if c.results > 1)
        how = "" if racy is replay.conditions[0] else f", {racy.name}"
        return [("confirmed", f"replayed {racy.calls} times {on}{how}: {racy.results} different results"), script]
    if not replay.is_confirmed:
        return [("replay", f"not reproduced: {calls} calls {on} gave one result"), script]
    by_results: dict[tuple[int, ...], list[str]] = {}
    for condition in replay.conditions:
        by_results.setdefault(condition.which, []).append(condition.name)
    between = " | ".join(", ".join(names) for names in by_results.values())
    return [
        ("confirmed", f"replayed {calls} times {on}: {replay.distinct} different results"),
        ("", f"repeats under each condition, and differs between: {between}"),
        script,
    ]
