"""`--format json`: one document with a schema name, see docs/reference/schemas."""

from __future__ import annotations

from pathlib import Path

from samebits.against.verdict import Crossing
from samebits.base.errors import SamebitsError
from samebits.checking.verdict import CheckVerdict
from samebits.comparison.runs import Diff
from samebits.factors.pinning import Status
from samebits.locking.verdict import EntriesVerified, EntryLocked
from samebits.pricing.prices import Costs
from samebits.replay.runner import Replay
from samebits.report.costs import cost_json
from samebits.report.crossings import against_json
from samebits.report.json import HAS_ERRORS, check_json, diff_json, dumped, factors_json, replayed_json, unanswered
from samebits.report.locks import lock_json, verify_json
from samebits.report.resumes import resume_json
from samebits.resuming.verdict import Resumption

IS_DATA = True


def check(verdict: CheckVerdict) -> str:
    """`samebits.check/1`."""
    return dumped(check_json(verdict))


def diff(found: Diff) -> str:
    """`samebits.diff/1`."""
    return dumped(diff_json(found))


def cost(costs: Costs) -> str:
    """`samebits.cost/1`."""
    return dumped(cost_json(costs))


def factors(status: Status) -> str:
    """`samebits.factors/1`."""
    return dumped(factors_json(status))


def replay(operands: Path, replay: Replay) -> str:
    """`samebits.replay/1`."""
    return dumped(replayed_json(str(operands), replay))


def resume(found: Resumption) -> str:
    """`samebits.resume/1`."""
    return dumped(resume_json(found))


def against(found: Crossing) -> str:
    """`samebits.against/1`."""
    return dumped(against_json(found))


def lock(found: EntryLocked) -> str:
    """`samebits.lock/1`."""
    return dumped(lock_json(found))


def verify(found: EntriesVerified) -> str:
    """`samebits.verify/1`."""
    return dumped(verify_json(found))


def failure(kind: str, error: SamebitsError) -> str:
    """The same document without an answer, where it has room for an error."""
    return dumped(unanswered(kind, error)) if kind in HAS_ERRORS else ""
