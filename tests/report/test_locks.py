"""What is said of locking and verifying: in words, as data, as annotations, as test results and as SARIF."""

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.base.errors import LockfileError, ScriptFailedError
from samebits.checking.verdict import CheckVerdict
from samebits.locking.code import CodeChange
from samebits.locking.comparing import differences, nearest
from samebits.locking.verdict import EntriesVerified, EntryLocked, LockDivergence, Verified
from samebits.report.answers import document_of
from samebits.report.forms import github, junit, sarif
from samebits.report.locks import lock_report, verify_report
from samebits.runfolder.environment import Environment
from tests.locking.entries import ELSEWHERE, HERE, locked
from tests.report.test_reports import different, same, script
from tests.schemas import assert_valid

__all__ = ["script"]
PLACE = LockDivergence("stream", 8, 7, ("grad", "param"), "8", (("0x1p+0",), ("0x1.8p+0",)))
SAME = Verified("train", "train.py", "same", HERE, HERE.name, steps=9, streams=("batch", "param"), locked=locked())
OTHER = replace(
    SAME,
    name="other",
    kind="different",
    divergences=(PLACE, LockDivergence("artifact", path="last.pt")),
    code=(CodeChange("src/a b,c.py", "changed", 12, 3), CodeChange("new.py", "added")),
)
UNKNOWN = replace(SAME, name="new", kind="unknown", environment=ELSEWHERE, differences=differences(HERE, ELSEWHERE))
BROKEN = Verified("gone", "gone.py", "undecided", error=ScriptFailedError("the command failed:\n  boom", "see there"))


def verification(*entries: Verified) -> EntriesVerified:
    return EntriesVerified(Path("samebits.lock"), entries)


@pytest.mark.parametrize(
    ("entries", "kind", "status", "headline"),
    [
        ((SAME,), "same", 0, "same bits: train agrees with samebits.lock in 9 steps: data and parameters"),
        ((OTHER,), "different", 1, "different bits: other diverges from samebits.lock at step 8, in the gradients"),
        ((UNKNOWN,), "unknown", 2, "unknown here: new was never locked for this environment"),
        ((BROKEN,), "undecided", 2, "undecided: gone: the command failed:"),
        ((SAME, SAME), "same", 0, "same bits: all 2 entries agree with samebits.lock"),
        ((SAME, OTHER, UNKNOWN, BROKEN), "different", 1, "different bits: 1 of 4 entries diverge: other"),
        ((SAME, UNKNOWN), "unknown", 2, "unknown here: 1 of 2 entries were never locked for this environment"),
        ((BROKEN, UNKNOWN), "undecided", 2, "undecided: 1 of 2 entries could not be judged: gone"),
    ],
)
def test_the_first_line_answers(entries: tuple[Verified, ...], kind: str, status: int, headline: str) -> None:
    """In text, in JSON, and by the exit status; what is different is never outdone by what is not known."""
    found = verification(*entries)
    document = document_of("verify", found)

    assert_valid(document)
    assert (found.kind, found.exit_code, document["verdict"], document["headline"]) == (kind, status, kind, headline)
    assert verify_report(found).text.splitlines()[0] == headline


def test_a_variable_that_differs_is_told() -> None:
    """Of those that the script reads; then the environment is not the locked one."""
    told = verify_report(verification(replace(OTHER, variables=("LR",)))).text

    assert "the script reads LR, which differs" in told
    assert "matches the locked one" not in told
    assert "matches the locked one" in verify_report(verification(OTHER)).text


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (PLACE, "at step 8, in the gradients"),
        (replace(PLACE, step=5, agreed=4), "at step 5"),
        (replace(PLACE, step=5, agreed=1), "between steps 2 and 5"),
        (replace(PLACE, step=5, agreed=None), "between steps 0 and 5"),
        (replace(PLACE, step=0, agreed=None, seen="0"), "at step 0, in the gradients"),
        (LockDivergence("stream", 9, 8, ("end",), "end"), "after the last step, in the final state of the models"),
        (LockDivergence("length", 9, 8, lengths=(9, 12)), "in its length: it took 12 steps, and 9 are locked"),
        (
            LockDivergence("data", path="x", why="it is not there"),
            "in the data: x is not as it was locked: it is not there",
        ),
    ],
)
def test_a_place_is_named_as_exactly_as_it_is_known(place: LockDivergence, words: str) -> None:
    """The stream where the step is locked in full, the step where the one before agrees, else the steps between."""
    line = verify_report(verification(replace(OTHER, divergences=(place,)))).text.splitlines()[0]

    assert line == f"different bits: other diverges from samebits.lock {words}"


def test_an_answer_says_what_to_look_at() -> None:
    """Which streams, since when, where the code changed, and what to type once it is meant."""
    told = verify_report(verification(OTHER)).text

    for line in (
        "  first     at step 8 these differ from what is locked: gradients and parameters",
        "            loss 0x1p+0 locked, 0x1.8p+0 here",
        "  agree     steps 0 to 7",
        "  also      in an artifact: last.pt is not as it was locked",
        f"            the environment matches the locked one, {HERE.name}, in everything that is known to change bits",
        "  code      src/a b,c.py:12, 3 lines changed since it was locked",
        "  code      new.py, added since it was locked",
        "  next      samebits verify other --update     (if the new bits are intended)",
    ):
        assert line in told.splitlines()


@pytest.mark.parametrize(("is_steady", "words"), [(True, ": it repeats"), (False, "it does not repeat"), (None, "")])
def test_whether_the_other_bits_repeat_is_told(is_steady: bool | None, words: str) -> None:
    """What does not repeat was not changed by the line that is named."""
    told = verify_report(verification(replace(OTHER, is_steady=is_steady))).text

    assert words in told
    assert ("  again     " in told) == (is_steady is not None)


def test_differences_are_ranked() -> None:
    """What can change bits comes first, the likeliest on top; what cannot is told last, and says so."""
    here = replace(HERE, threads="1", cpu="B", instructions="AVX2", cores="64", system="Linux 9", python="3.12.0")
    found = differences(replace(HERE, cpu="A", system="Linux 6"), here)

    assert [one.name for one in found] == ["cpu-threads", "cpu-isa", "cpu", "python", "cores", "system"]
    assert [one.can_change_bits for one in found] == [True, True, True, True, False, False]
    told = verify_report(verification(replace(UNKNOWN, differences=found))).text
    assert "cpu-isa: AVX512 locked, AVX2 here; it can change bits: other vector instructions" in told
    assert "system: Linux 6 locked, Linux 9 here; it cannot change bits" in told


def test_the_nearest_environment_is_named() -> None:
    """The one with the fewest differences that matter; of as many, those that matter less."""
    far = replace(HERE, torch="2.14.0", threads="1")
    near = replace(HERE, python="3.12.0")
    middle = replace(HERE, torch="2.14.0")

    assert nearest({"far": far, "middle": middle, "near": near}, HERE) == "near"
    assert nearest({"far": far, "middle": middle}, HERE) == "middle"


def test_annotations_stand_at_their_lines() -> None:
    """GitHub reads one line each: its signs are escaped, and nothing in the answer below is taken for another one.

    It looks behind any space at the beginning of a line, and for the older form anywhere in it.
    """
    evil = replace(OTHER, notes=("a\n \t::error::evil", "a ##[error]evil", "\x1b\r::stop-commands::x"))
    lines = re.split(r"[\r\n]", github.answer("verify", verification(evil, UNKNOWN, BROKEN, SAME)))
    commands = [line for line in lines if line.lstrip().startswith("::")]

    assert not any("##[" in line or "\x1b" in line for line in lines)
    assert len(commands) == 3
    assert commands[0].startswith(
        "::error file=src/a b%2Cc.py,line=12,title=samebits verify%3A different::different bi"
    )
    assert commands[1].startswith("::warning title=samebits verify%3A unknown::unknown here: new was never locked")
    assert "cpu-threads: 2 locked, 1 here" in commands[1]
    assert commands[2].startswith("::error title=samebits verify%3A undecided::undecided: gone: ")
    assert verify_report(verification(SAME)).text in github.answer("verify", verification(SAME))
    assert github.failure("verify", LockfileError("100% bad\nlines", "mend")).count("\n") == 0


def test_test_results_count_right() -> None:
    """Failed, broken, skipped and passed; what XML cannot hold is replaced."""
    evil = replace(OTHER, name="a<b&\x00\x1b", notes=("]]>\x07",))
    root = ElementTree.fromstring(junit.answer("verify", verification(SAME, evil, UNKNOWN, BROKEN)))
    (suite,) = root
    inside = [[child.tag for child in case] for case in suite]

    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]
    assert inside == [["system-out"], ["failure"], ["skipped"], ["error"]]
    assert suite[1].get("name") == "a<b&\ufffd\ufffd"
    assert ElementTree.fromstring(junit.failure("verify", LockfileError("is empty"))).find("*/*/error") is not None


def test_sarif_holds_what_has_a_line() -> None:
    """Results with places, rules that they refer to; what has no line is told with the run."""
    document: dict[str, Any] = json.loads(sarif.answer("verify", verification(OTHER, UNKNOWN)))
    (run,) = document["runs"]
    (result,) = run["results"]
    (told,) = run["invocations"][0]["toolExecutionNotifications"]

    assert document["version"] == "2.1.0"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "different"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "src/a%20b%2Cc.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 12}
    assert told["level"] == "warning"
    assert run["invocations"][0]["executionSuccessful"]
    broken = json.loads(sarif.failure("verify", LockfileError("is empty")))["runs"][0]
    assert (broken["results"], broken["invocations"][0]["executionSuccessful"]) == ([], False)


def test_locking_says_what_it_did() -> None:
    """What was locked, how it is known to repeat, and where it parts from what was there."""
    found = EntryLocked("train", "train.py", Path("samebits.lock"), "locked", HERE, HERE.name, locked(), is_new=False)
    assert_valid(document_of("lock", found))
    assert lock_report(found).text.startswith("locked: train in samebits.lock, 9 steps\n")
    assert ", after a check" in lock_report(found).text
    moved = lock_report(replace(found, changed=PLACE)).text
    assert "diverges from what was locked at step 8, in the gradients" in moved
    refused = replace(found, kind="undecided", locked=None, error=LockfileError("no", "yes"), environment=Environment())
    assert (refused.exit_code, lock_report(refused).text.splitlines()[0]) == (2, "not locked: no")
    assert_valid(document_of("lock", refused))


def test_a_check_has_the_same_forms(script: Path) -> None:
    """A remark at the line of each cause; a check that agrees has none, and its case has passed."""
    guilty, unknown = different(script), replace(different(script), causes=())
    error = ScriptFailedError("the command failed\n  boom", "see there")
    broken = CheckVerdict("undecided", "train.py", script, error=error)
    lines = [line for line in github.answer("check", guilty).splitlines() if line.startswith("::")]
    assert [line.split(",title=")[0] for line in lines] == [
        "::error file=train.py,line=2",
        "::error file=train.py,line=3",
    ]
    results = json.loads(sarif.answer("check", guilty))["runs"][0]["results"]
    assert [one["ruleId"] for one in results] == ["torch-rng", "file-order"]
    region = results[0]["locations"][0]["physicalLocation"]["region"]
    assert region["snippet"]["text"] == "model = torch.nn.Linear(2, 2)"
    others = ((same(), 0, "system-out"), (unknown, 1, "failure"), (broken, 1, "error"))
    for verdict, marked, element in others:
        assert sum(line.startswith("::") for line in github.answer("check", verdict).splitlines()) == marked
        assert json.loads(sarif.answer("check", verdict))["runs"][0]["results"] == []
        assert ElementTree.fromstring(junit.answer("check", verdict)).find(f"*/*/{element}") is not None
