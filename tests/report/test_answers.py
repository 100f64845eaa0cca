"""Every answer as a document: its record, valid by the published schema, and the same record when it is read again."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import jsonschema
import pytest

from samebits.base.errors import ScriptFailedError
from samebits.base.records import from_data, keys, published, to_data
from samebits.comparison.locate import Divergence
from samebits.comparison.runs import Diff, RunComparison
from samebits.comparison.values import Distance
from samebits.factors.pinning import status
from samebits.lint.findings import Finding
from samebits.lint.linting import Linted, Unread
from samebits.locking.verdict import EntryLocked
from samebits.pricing.prices import Costs
from samebits.report.answers import ANSWERS, document_of, error_document, find_answer, json_text, read_answer
from tests.locking.entries import HERE, locked
from tests.pricing.test_prices import UNMEASURED, WHOLE, costs, price
from tests.report import test_crossings, test_locks, test_resumes
from tests.report.test_reports import different, same, script
from tests.schemas import assert_valid

__all__ = ["script"]
ERROR = ScriptFailedError("it failed", "fix it")
DIFF = Diff(Path("a"), Path("b"), RunComparison(Divergence(1, "loss", "0"), None, ("loss",)), Distance(1, 1, 1, 0.1))
FOUND = Finding(
    "train.py", 3, "main", "x = set(y)", "x", 40, frozenset({"hash-seed"}), (5,), rule="SB202", level="error"
)
LINTED = Linted(2, (FOUND,), 1, (Unread("a.py", 3, "it is no Python"),), (FOUND,))
LOCKED = EntryLocked("train", "train.py", Path("samebits.lock"), "locked", HERE, HERE.name, locked(), is_new=False)
TRIALS = (test_resumes.RIGHT, test_resumes.WRONG, test_resumes.FAILED)
ENTRIES = (test_locks.SAME, test_locks.OTHER, test_locks.UNKNOWN, test_locks.BROKEN)


@dataclass(frozen=True)
class Sample:
    """A record with a key that is not its name, and a property that is written."""

    kind: str = field(metadata={"key": "verdict"})
    runs: int = 0

    @property
    @published()
    def is_enough(self) -> bool:
        """Two will do."""
        return self.runs > 1

    @property
    def own(self) -> str:
        return "nobody else's"


def test_a_record_says_what_is_written_of_it() -> None:
    """Fields by their keys, properties that are published and no other; what is read again is computed anew."""
    data = to_data(Sample("same", 2))

    assert data == {"verdict": "same", "runs": 2, "is_enough": True}
    assert from_data(Sample, {"verdict": "same", "runs": 1, "is_enough": True, "own": "x"}) == Sample("same", 1)
    with pytest.raises(ValueError, match="no Sample"):
        from_data(Sample, {"kind": "same", "runs": 1})


def records(script: Path) -> list[tuple[str, object]]:
    """Answers of every kind, with all that they can hold, and with nothing."""
    return [
        ("against", test_crossings.FOUND),
        ("check", same()),
        ("check", different(script)),
        ("check", replace(same(), kind="undecided", error=ERROR)),
        ("cost", costs(UNMEASURED, price(WHOLE, 1.2, 1.3))),
        ("cost", Costs("it.py", Path("home"), error=ERROR)),
        ("diff", DIFF),
        ("diff", Diff(Path("a"), Path("b"), RunComparison(None, None))),
        ("factors", status()),
        ("lint", LINTED),
        ("lock", LOCKED),
        ("lock", replace(LOCKED, kind="different", locked=None, check=different(script))),
        ("replay", test_crossings.GIVEN),
        ("resume", test_resumes.resumption(*TRIALS)),
        ("resume", test_resumes.resumption()),
        ("verify", test_locks.verification(*ENTRIES)),
    ]


def test_a_document_is_its_record(script: Path) -> None:
    """Valid, with every key; read again it is the same document; with a key missing it is refused."""
    found = records(script)
    for kind, record in found:
        document = document_of(kind, record)
        again = from_data(find_answer(kind).record, document)

        assert_valid(document)
        assert document.keys() == {"schema", "headline", "error", "rows", *keys(find_answer(kind).record)}
        assert document_of(kind, again) == document
        with pytest.raises(jsonschema.ValidationError):
            assert_valid({key: value for key, value in document.items() if key != "headline"})
    assert {kind for kind, _ in found} == set(ANSWERS)


@pytest.mark.parametrize("kind", ANSWERS)
def test_what_cannot_begin_is_a_document_too(kind: str) -> None:
    """With the reason, and in the shape of its answer."""
    document = error_document(kind, ERROR)

    assert_valid(document)
    assert (document["headline"], document["error"]["hint"]) == ("it failed", "fix it")
    assert document.get("verdict", "undecided") == "undecided"


def test_what_is_kept_is_read_again(script: Path, tmp_path: Path) -> None:
    """The kind and the record, of those that have a folder."""
    for kind, record in records(script):
        (tmp_path / "answer.json").write_text(json_text(document_of(kind, record)))
        found, again = read_answer(tmp_path)

        assert (found, document_of(kind, again)) == (kind, document_of(kind, record))
