"""What people read of a patch."""

from dataclasses import replace
from pathlib import Path

from samebits.base.sites import Site
from samebits.checking.verdict import CheckVerdict, DivergentRuns, Patch, Remedy
from samebits.comparison.locate import Divergence
from samebits.fixing.patch import Mend, Unmended
from samebits.report.patches import patch_rows
from samebits.report.text import check_report

SITE = Site("/project/train.py", 7, "main", "x = os.listdir('.')")
MEND = Mend("file-order", SITE, "sorts the listing", "classes may get other numbers")
DIFF = "--- a/train.py\n+++ b/train.py\n@@ -7,1 +7,1 @@\n-x = os.listdir('.')\n+x = sorted(os.listdir('.'))\n"
LEFT = Unmended("thread-order", None, "no edit of the code mends it")


def verdict(patch: Patch) -> CheckVerdict:
    return CheckVerdict("different", "train.py --lr 3", Path("/project/.samebits/1"), patch=patch)


def rows(patch: Patch) -> list[tuple[str, str]]:
    return patch_rows(verdict(patch))


def test_a_patch_that_nobody_asked_for_is_offered() -> None:
    """By the command that applies it, with the lines that it changes where those are few."""
    own = Patch(DIFF, ("/project/train.py",), 1, (MEND,))

    asked = replace(verdict(own), options=("--vary", "data-workers", "--max-steps", "3"))
    assert patch_rows(asked)[0][1].startswith(
        "samebits check --fix --vary data-workers --max-steps 3 train.py --lr 3  "
    )
    offered = ("apply", "samebits check --fix train.py --lr 3     (1 file, 1 line, tried on a copy first)")
    assert rows(own) == [offered, ("", "    -x = os.listdir('.')"), ("", "    +x = sorted(os.listdir('.'))")]
    assert len(rows(replace(own, lines=5))) == 1


def test_an_applied_patch_says_what_it_changes() -> None:
    """And with which pin it repeats, of what it leaves."""
    own = Patch("…", ("train.py",), 1, (MEND,), (LEFT,), ("thread-order",), True, True, 3, applied=True)

    assert rows(own) == [
        ("patch", "1 file, 1 line: proven with --pin thread-order, 3 runs agree"),
        ("", "file-order: sorts the listing"),
        ("changes", "classes may get other numbers"),
        ("left", "thread-order: no edit of the code mends it; samebits run --pin thread-order holds it still"),
        ("applied", "to train.py"),
    ]


def test_a_patch_that_is_not_enough_says_where_runs_diverge() -> None:
    """And that nothing was applied; one that could not be proven says why."""
    place = DivergentRuns(1, 3, Divergence(4, "loss", "loss"))
    own = Patch("…", ("train.py",), 1, (MEND,), proven=False)

    for patch, why in (
        (replace(own, diverged=place), "not enough: patched, runs 1 and 3 diverge at step 4, in the loss"),
        (replace(own, why="the script failed"), "not proven: the script failed"),
    ):
        assert rows(patch)[0] == ("patch", f"1 file, 1 line: {why}; nothing was applied")
    assert rows(Patch(cannot=(LEFT,)))[0] == ("patch", "none can be made")


def test_a_patch_that_is_proven_stands_for_what_would_be_said() -> None:
    """What to change is said in words where it is not, or where a cause is left that no edit mends."""
    remedy = Remedy(("os-entropy",), True, runs=(1, 2), whole=(1, 2), code=("use a counter",))
    apart = DivergentRuns(1, 2, Divergence(0, "grad"))
    found = replace(verdict(Patch(proven=True)), remedy=remedy, divergent=apart)

    assert "use a counter" not in check_report(found).text
    for other in (None, Patch(proven=False), Patch(proven=True, cannot=(LEFT,))):
        assert "use a counter" in check_report(replace(found, patch=other)).text
