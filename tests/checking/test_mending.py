"""What becomes of a patch: it is proven, another one is tried, or nothing is touched. The checks are simulated."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.base.errors import InterruptError, UsageError
from samebits.base.sites import Site
from samebits.checking.mending import Checked, Mending, assert_may_fix, file_of, patched
from samebits.checking.plan import CheckRequest
from samebits.checking.pool import RunPool
from samebits.checking.verdict import CheckVerdict, DivergentRuns, Patch, RunRecord
from samebits.comparison.locate import Divergence
from samebits.factors.context import Setting
from samebits.fixing.cures import EditableFiles, MendRequest
from samebits.fixing.edits import NoCureError, editable_file
from samebits.launch.command import Command

TEXT = "import os\nimport random\n\nx = os.listdir('.')\ny = random.random()\nz = list(set(x))\n"
COMMAND = Command(("python", "train.py"), ("train.py",))
DIVERGENT = DivergentRuns(1, 2, Divergence(3, "loss", "loss"))


class Simulated:
    """A script in a folder, whose check finds causes until these texts stand in it.

    Attributes:
        cured: factor → the text that cures it.
        asked: the files and pins of each proof.
    """

    def __init__(self, folder: Path, cured: dict[str, str]) -> None:
        self.script, self.cured = folder / "train.py", cured
        self.script.write_text(TEXT)
        self.asked: list[tuple[str, frozenset[str]]] = []

    def checked(self, content: bytes, home: Path, pins: Mapping[str, object], shown: int = 9) -> Checked:
        lines = {"file-order": (4, "os.listdir"), "python-rng": (5, "random.random"), "hash-seed": (6, "")}
        left = [name for name, text in self.cured.items() if text not in content.decode() and name not in pins][:shown]
        runs = tuple(RunRecord(number, "control", home, 5, 1.0) for number in (1, 2, 3))
        kind = "different" if left else "same"
        verdict = CheckVerdict(kind, "train.py", home, runs, divergent=DIVERGENT if left else None)
        path = str(self.script)
        rows = content.decode().splitlines()
        causes = [
            MendRequest(name, _site(path, rows, *lines.get(name, (1, ""))), lines.get(name, (1, ""))[1], "", path)
            for name in left
        ]
        return verdict, Mending(tuple(causes), (), EditableFiles(lambda _: editable_file(path, content)))

    def verdict(self, kind: str = "fix", shown: int = 9) -> CheckVerdict:
        request = CheckRequest(COMMAND, patch=kind)  # type: ignore[arg-type]

        def again(home: Path, request: CheckRequest, files: Mapping[str, bytes]) -> Checked:
            assert not request.patch
            self.asked.append((files[str(self.script)].decode(), frozenset(request.pins)))
            return self.checked(files[str(self.script)], home, request.pins)

        home = self.script.parent / "home"
        return patched(self.checked(self.script.read_bytes(), home, {}, shown), request, home, again)


def _site(path: str, rows: list[str], line: int, called: str) -> Site:
    """The line, wherever it stands by now."""
    wanted = TEXT.splitlines()[line - 1][:4]
    at = next(number for number, row in enumerate(rows, 1) if row.startswith(wanted))
    return Site(path, at, "<module>", rows[at - 1])


def patch_of(verdict: CheckVerdict) -> Patch:
    assert verdict.patch is not None
    return verdict.patch


def test_a_patch_that_repeats_is_applied(tmp_path: Path) -> None:
    """The files hold what was proven, and the status says that it is mended."""
    script = Simulated(tmp_path, {"file-order": "sorted(os.listdir('.'))"})

    verdict = script.verdict()

    assert script.script.read_text() == script.asked[0][0] == TEXT.replace("os.listdir('.')", "sorted(os.listdir('.'))")
    assert (patch_of(verdict).proven, patch_of(verdict).applied, verdict.exit_code) == (True, True, 0)
    assert patch_of(verdict).agree == 3


def test_a_diff_is_proven_and_changes_nothing(tmp_path: Path) -> None:
    """The status is that of the script as it is."""
    script = Simulated(tmp_path, {"file-order": "sorted(os.listdir('.'))"})

    verdict = script.verdict("diff")

    assert script.script.read_text() == TEXT
    assert (patch_of(verdict).proven, patch_of(verdict).applied, verdict.exit_code) == (True, False, 1)
    assert "+x = sorted(os.listdir('.'))" in patch_of(verdict).diff


def test_without_being_asked_nothing_is_run(tmp_path: Path) -> None:
    """That a patch can be made is known all the same."""
    script = Simulated(tmp_path, {"file-order": "sorted(os.listdir('.'))"})

    assert (patch_of(script.verdict("")).proven, script.asked) == (None, [])


def test_a_patch_that_is_not_enough_is_not_applied(tmp_path: Path) -> None:
    """It is said where the patched script diverges."""
    script = Simulated(tmp_path, {"file-order": "nothing mends it"})

    verdict = script.verdict()

    assert script.script.read_text() == TEXT
    assert (patch_of(verdict).proven, patch_of(verdict).applied, verdict.exit_code) == (False, False, 1)
    assert patch_of(verdict).diverged == DIVERGENT


def test_a_cause_that_was_hidden_is_mended_too(tmp_path: Path) -> None:
    """The first check saw one of two; the diff is of both, against the file as it was."""
    script = Simulated(tmp_path, {"file-order": "sorted(os.listdir('.'))", "hash-seed": "sorted(set(x), key=str)"})

    verdict = script.verdict(shown=1)

    assert {one.factor for one in patch_of(verdict).mends} == {"file-order", "hash-seed"}
    assert patch_of(verdict).lines == 2
    assert "sorted(set(x), key=str)" in script.script.read_text()


def test_what_no_edit_mends_is_pinned(tmp_path: Path) -> None:
    """Applied, but only with the pin does the script repeat: the status says different."""
    script = Simulated(tmp_path, {"file-order": "sorted(os.listdir('.'))", "thread-order": "nothing mends it"})

    verdict = script.verdict()

    assert script.asked[0][1] == {"thread-order"}
    assert (patch_of(verdict).applied, patch_of(verdict).pins, verdict.exit_code) == (True, ("thread-order",), 1)


def test_where_nothing_can_be_mended_nothing_is_run(tmp_path: Path) -> None:
    """The reason is kept."""
    script = Simulated(tmp_path, {"thread-order": "nothing mends it"})

    verdict = script.verdict()

    assert (script.asked, patch_of(verdict).lines) == ([], 0)
    assert patch_of(verdict).cannot[0].why == "no edit of the code mends it"


def test_a_file_that_was_changed_meanwhile_stays_as_it_is(tmp_path: Path) -> None:
    """The verdict comes with the error."""
    script = Simulated(tmp_path, {"file-order": "sorted(os.listdir('.'))"})
    found = script.checked(script.script.read_bytes(), tmp_path, {})
    script.script.write_text(TEXT + "# mine\n")

    verdict = patched(
        found,
        CheckRequest(COMMAND, patch="fix"),
        tmp_path,
        lambda home, _, files: script.checked(*files.values(), home, {}),
    )

    assert script.script.read_text() == TEXT + "# mine\n"
    assert verdict.error is not None
    assert "has changed since it was checked" in verdict.error.message
    assert (patch_of(verdict).applied, verdict.exit_code) == (False, 2)


def test_an_interrupted_proof_applies_nothing(tmp_path: Path) -> None:
    """And the signal is that of the whole check."""
    script = Simulated(tmp_path, {"file-order": "sorted(os.listdir('.'))"})
    found = script.checked(script.script.read_bytes(), tmp_path, {})

    def ended(home: Path, request: CheckRequest, files: Mapping[str, bytes]) -> Checked:
        proof, mending = script.checked(files[str(script.script)], home, {})
        return replace(proof, kind="undecided", signal=2, error=InterruptError.by(2, home)), mending

    verdict = patched(found, CheckRequest(COMMAND, patch="fix"), tmp_path, ended)

    assert script.script.read_text() == TEXT
    assert (verdict.signal, verdict.exit_code, patch_of(verdict).proven) == (2, 130, False)


def test_files_are_changed_in_ci_only_on_request() -> None:
    """Nobody reviews what CI writes."""
    assert_may_fix({"CI": "true"}, fix=True, told=True)
    assert_may_fix({}, fix=True, told=False)
    assert_may_fix({"CI": "true"}, fix=False, told=False)

    with pytest.raises(UsageError, match="CI=true"):
        assert_may_fix({"CI": "true"}, fix=True, told=False)
    with pytest.raises(UsageError, match="add --fix"):
        assert_may_fix({}, fix=False, told=True)


def test_a_patch_needs_copies() -> None:
    """With one folder for all runs there is nowhere to prove it."""
    with pytest.raises(UsageError, match="--isolation none"):
        CheckRequest(COMMAND, patch="diff", isolation="none")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a script, links, an environment, data, and something beside it."""
    own = tmp_path / "project"
    packages = own / ".venv" / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (own / ".venv" / "pyvenv.cfg").touch()
    for path in (own / "train.py", own / "shared.py", packages / "inside.py", tmp_path / "beside.py"):
        path.write_text("x = 1\n")
    (own / "link.py").symlink_to("train.py")
    (own / "out.py").symlink_to("../beside.py")
    (own / "broken.py").write_text("x = (\n")
    monkeypatch.chdir(own)
    return own


def test_what_may_be_changed_lies_in_the_folder(project: Path, tmp_path: Path) -> None:
    """A link within it leads to the file that is changed; what is shared, installed or outside is left alone."""
    (tmp_path / "home").mkdir()
    pool = RunPool(CheckRequest(COMMAND, share=("shared.py",)), tmp_path / "home")
    refused = {
        "out.py": "lies outside of the folder",
        "../beside.py": "lies outside of the folder",
        ".venv/lib/site-packages/inside.py": "is an installed package's",
        "shared.py": "is not in the copies of the folder",
        "broken.py": "cannot be read as Python",
        "gone.py": "is not in the copies of the folder",
    }
    try:
        for name, why in refused.items():
            with pytest.raises(NoCureError, match=why):
                file_of(pool, str(project / name))
        with pytest.raises(NoCureError, match="is not a file"):
            file_of(pool, "<string>")
        (project / "train.py").write_text("x = 2\n")  # after it was copied

        assert file_of(pool, str(project / "link.py")) == editable_file(str(project / "train.py"), b"x = 1\n")
    finally:
        pool.close()


def test_copies_hold_what_is_to_be_proved(project: Path, tmp_path: Path) -> None:
    """And the file itself stays as it is."""
    (tmp_path / "home").mkdir()
    path = str(project / "train.py")
    pool = RunPool(CheckRequest(COMMAND), tmp_path / "home", replaced={path: b"x = 3\n"})
    try:
        assert file_of(pool, path).content == b"x = 3\n"
        assert Path(path).read_bytes() == b"x = 1\n"
    finally:
        pool.close()


def test_another_check_asks_the_same() -> None:
    """With what decides which causes are found; how many runs are made at a time is nobody's business."""
    pins = {"cpu-threads": Setting("pinned", "2"), "clock": Setting("pinned")}
    plain = CheckRequest(COMMAND, jobs=2)
    asked = replace(plain, pins=pins, vary=("data-workers",), seed=12345678, runs=8, max_steps=5, share=("my data",))
    asked = replace(asked, timeout=2.5, quick=True, strict=True)

    assert plain.options == ()
    assert asked.options == (
        *("--pin", "cpu-threads=2", "--pin", "clock", "--vary", "data-workers", "--share", "my data"),
        *("--seed", "12345678", "--runs", "8", "--max-steps", "5", "--timeout", "2.5", "--quick", "--strict"),
    )
