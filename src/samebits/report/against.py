"""Words for the answer of `samebits check --against`."""

from __future__ import annotations

from samebits.against.interpreters import Interpreter, Package
from samebits.against.operations import OpMismatch
from samebits.against.verdict import Across, Crossing
from samebits.base.printable import listed
from samebits.base.sites import shown_path
from samebits.report.origins import op_name, place_rows
from samebits.report.places import difference_words, distance_words, place_words, run_rows, stream_list
from samebits.report.rows import AnswerReport, Rows, counted, unseen_rows

# How many packages and operations a terminal shows; JSON has all of them.
MOST_PACKAGES, MOST_INSTEAD = 12, 6
_WHY = {
    "operation": "the operation is its own",
    "imported": "the script imports it",
    "required": "what the operation belongs to needs it",
    "other": "",
}


def against_report(found: Crossing) -> AnswerReport:
    """Return the answer: where two environments diverge, at which operation, and which packages differ."""
    rows: Rows = []
    if found.divergent is not None:
        rows.append(("first", difference_words(found.divergent.divergence)))
        rows.append(("by", distance_words(found.divergent.distance)))
    if found.across is not None:
        rows += _operation(found.across)
    elif found.divergent is not None and not found.notes:
        rows.append(("op", "add --level op to name the operation"))
    rows += _packages(found.packages)
    rows += [("here", _interpreter(found.here)), ("there", _interpreter(found.there))]
    rows += [("pinned", ", ".join(found.pinned)), *(("note", text) for text in found.notes)]
    return AnswerReport(headline(found), [*rows, *run_rows(found.runs), *unseen_rows(found.not_observed)])


def headline(found: Crossing) -> str:
    """Return the answer in one sentence."""
    between = " and ".join(_told_apart(found.here, found.there))
    if found.divergent is not None:
        return f"different bits: {between} diverge {place_words(found.divergent.divergence)}"
    if found.error is not None:
        return f"undecided: {found.error.message.splitlines()[0]}"
    return f"same bits: {between} agree in {stream_list(found.streams)}, for {counted(found.steps, 'step')}"


def _told_apart(here: Interpreter, there: Interpreter) -> tuple[str, str]:
    """Name both sides so that they differ: by torch and Python, else by NumPy as well, else by their paths."""
    names = _short(here), _short(there)
    if names[0] == names[1]:
        numpy = [side.packages.get("numpy", "none") for side in (here, there)]
        names = f"{names[0]} with NumPy {numpy[0]}", f"with NumPy {numpy[1]}"
        if numpy[0] == numpy[1]:
            names = here.path, there.path
    return names


def _short(side: Interpreter) -> str:
    return f"torch {side.packages.get('torch', 'of its own')} (Python {side.python})"


def _interpreter(side: Interpreter) -> str:
    numpy = f", NumPy {side.packages['numpy']}" if "numpy" in side.packages else ""
    return f"{side.path}: Python {side.python}, torch {side.packages.get('torch', '?')}{numpy}"


def _operation(across: Across) -> Rows:
    mismatch = across.mismatch
    kind = mismatch.row.kind
    at = f"at step {mismatch.step}{'' if mismatch.a is None else f', op {mismatch.a.index}'}"
    rows: Rows = [("op", f"{op_name(kind)}      {at}: {_clause(across, mismatch)}")]
    for side, instead in (("here", mismatch.instead_a), ("there", mismatch.instead_b)):
        rows.append(("", f"{side}: {listed([row.kind.op for row in instead], MOST_INSTEAD)}" if instead else ""))
    rows += [*place_rows(kind), *_replay(across)]
    aligned = across.aligned
    if not aligned.is_exact:
        others = f"{aligned.only_here} here and {aligned.only_there} there"
        paired = f"{counted(aligned.pairs, 'operation')} of that step are the same in both"
        rows.append(("aligned", f"{paired}; {others} have other names, or are composed differently"))
    return rows


def _clause(across: Across, mismatch: OpMismatch) -> str:
    if mismatch.finding == "op":
        if across.distance is None:
            return f"inputs equal, {', '.join(mismatch.names)} differs"
        return f"inputs equal, outputs differ: {distance_words(across.distance)}"
    if mismatch.finding == "argument":
        a, b = ("" if row is None else row.kind.arguments for row in (mismatch.a, mismatch.b))
        arguments = f": {a} here, {b} there" if a != b else ", a number that Python computed"
        return f"the same tensors, and called with other arguments{arguments}"
    if mismatch.finding == "otherwise":
        return "the two environments compute this by other operations, with another result"
    if mismatch.finding == "generator":
        return "would draw from a generator in another state"
    names = ", ".join(mismatch.names)
    return f"{names} already differs when it arrives, and no recorded operation changed it: it comes from data or NumPy"


def _replay(across: Across) -> Rows:
    here, there = across.here, across.there
    if here is None or there is None:
        return []
    failure = here.failure or there.failure
    if failure:
        side = "here" if here.failure else "there"
        return [("replay", f"not possible {side}: {failure}")]
    calls = counted(sum(condition.calls for condition in there.conditions), "call")
    again = "called again on its inputs"
    if across.confirmed:
        row = ("confirmed", f"{again}: here it gives the recorded result, there never, in {calls}")
    else:
        who = "both environments give" if there.gives_recorded else "neither environment gives"
        row = ("replay", f"not reproduced: {again}, {who} the recorded result")
    return [row, ("script", "" if here.script is None else shown_path(here.script))]


def _packages(packages: tuple[Package, ...]) -> Rows:
    if not packages:
        return [("packages", "the same in both")]
    rows = []
    for number, item in enumerate(packages[:MOST_PACKAGES]):
        why = f"      {_WHY[item.relation]}" if _WHY[item.relation] else ""
        rows.append(("" if number else "packages", f"{item.name}  {item.here or 'none'} → {item.there or 'none'}{why}"))
    if len(packages) > MOST_PACKAGES:
        rows.append(("", f"and {len(packages) - MOST_PACKAGES} more; --format json lists all"))
    return rows
