"""`--format text`: for people."""

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
from samebits.report.costs import cost_text
from samebits.report.crossings import against_text
from samebits.report.diffs import diff_text
from samebits.report.locks import lock_text, verify_text
from samebits.report.resumes import resume_text
from samebits.report.text import check_text, factors_text, replay_text
from samebits.resuming.verdict import Resumption

IS_DATA = False


def check(verdict: CheckVerdict) -> str:
    """The answer in the first line, then labels."""
    return check_text(verdict)


def diff(found: Diff) -> str:
    """The first place at which two runs differ."""
    return diff_text(found)


def cost(costs: Costs) -> str:
    """A table of prices, and the recommendation."""
    return cost_text(costs)


def factors(status: Status) -> str:
    """Two lines for each factor."""
    return factors_text(status)


def replay(operands: Path, replay: Replay) -> str:
    """How many results the calls gave."""
    return replay_text(operands.stem.replace(".", " "), replay)


def resume(found: Resumption) -> str:
    """Where a resumed training diverges, and which state it lacks."""
    return resume_text(found)


def against(found: Crossing) -> str:
    """Where two environments diverge, at which operation, and which packages they do not share."""
    return against_text(found)


def lock(found: EntryLocked) -> str:
    """What was locked, or why nothing was."""
    return lock_text(found)


def verify(found: EntriesVerified) -> str:
    """Whether locked commands give what they gave, and where not."""
    return verify_text(found)


def failure(kind: str, error: SamebitsError) -> str:
    """Nothing: the error goes to stderr."""
    return ""
