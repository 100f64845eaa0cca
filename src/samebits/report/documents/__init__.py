"""What a program reads, typed: every JSON document that samebits prints or keeps, a file for each command.

The published schemas are generated from these types and their docstrings by `docs/schemas.py`. Keys are only ever
added. What a document may lack stands in a base of its own, because Python 3.10 has no `NotRequired`.
"""

from __future__ import annotations

from samebits.report.documents.checks import CheckDocument, InterruptedCheckDocument, RunUnderWayDocument
from samebits.report.documents.costs import CostDocument, InterruptedCostDocument
from samebits.report.documents.crossings import AgainstDocument
from samebits.report.documents.diffs import DiffDocument
from samebits.report.documents.factors import FactorsDocument
from samebits.report.documents.locks import LockDocument, VerifyDocument
from samebits.report.documents.origins import ReplayDocument
from samebits.report.documents.resumes import ResumeDocument

# Every document by the name in its `schema` key.
DOCUMENTS: dict[str, type] = {
    "against": AgainstDocument,
    "check": CheckDocument,
    "cost": CostDocument,
    "diff": DiffDocument,
    "factors": FactorsDocument,
    "lock": LockDocument,
    "replay": ReplayDocument,
    "resume": ResumeDocument,
    "verify": VerifyDocument,
}


# What holds no other keys than these, now or later.
CLOSED: tuple[type, ...] = (InterruptedCheckDocument, RunUnderWayDocument, InterruptedCostDocument)
