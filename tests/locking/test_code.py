"""What has changed in the code since it was locked, in repositories and without one."""

import os
import subprocess
from pathlib import Path

import pytest

from samebits.locking.code import MOST_NAMED, Code, changes_since, code_of, files_in
from samebits.locking.running import FinishedRun
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Files, Journal

TEXT = "".join(f"line {number}\n" for number in range(1, 21))


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def code(folder: Path, *names: str) -> Code:
    """The code in these files of a folder; without names, its script."""
    return code_of([str(folder / name) for name in names or ["train.py"]], folder)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repository"
    path.mkdir()
    git(path, "init", "-q")
    (path / "train.py").write_text(TEXT)
    git(path, "add", ".")
    git(path, "commit", "-qm", "first")
    return path


def test_a_clean_tree_is_a_commit(repository: Path) -> None:
    """With git's own name of every content."""
    now = code(repository)

    assert now.commit == git(repository, "rev-parse", "HEAD")
    assert now.uncommitted == ()
    assert git(repository, "rev-parse", "HEAD:train.py").startswith(now.files["train.py"])


def test_nothing_is_written_into_the_repository(repository: Path) -> None:
    """Not even to its index, whose times are out of date: somebody may commit at this moment."""
    os.utime(repository / "train.py", (0, 0))
    before = (repository / ".git" / "index").read_bytes()
    code(repository)

    assert (repository / ".git" / "index").read_bytes() == before


def test_a_dirty_tree_is_told(repository: Path) -> None:
    """Files that are not as committed, and files that git does not know; not what has nothing to do with the run."""
    (repository / "train.py").write_text(TEXT + "more\n")
    (repository / "new file.py").write_text("x")
    (repository / "other.py").write_text("x")
    now = code(repository, "train.py", "new file.py")

    assert now.uncommitted == ("new file.py", "train.py")
    assert set(now.files) == {"new file.py", "train.py"}


def test_what_was_locked_before_it_was_committed_is_found_again(repository: Path) -> None:
    """The lock and the change go into one commit; later the changed lines are known all the same."""
    (repository / "train.py").write_text(TEXT + "locked\n")
    before = code(repository).files
    git(repository, "commit", "-qam", "the change and its lock")
    (repository / "train.py").write_text("# begin\n" + TEXT.replace("line 7\n", "line seven\n") + "locked\n")
    now = code(repository).files
    (change,) = changes_since(before, now, repository)

    assert (change.path, change.how, change.line, change.lines) == ("train.py", "changed", 1, 2)
    assert changes_since(now, now, repository) == ()


def test_a_content_that_git_does_not_know_has_no_lines(repository: Path) -> None:
    """It is said to have changed, and nothing is made up; removed lines at the end name the last line there is."""
    before = {"train.py": "0123456789ab", "gone.py": "0123456789ab"}
    now = code(repository).files
    found = changes_since(before, now, repository)
    assert [(one.path, one.how, one.line) for one in found] == [
        ("gone.py", "removed", None),
        ("train.py", "changed", None),
    ]

    (repository / "train.py").write_text("line 1\n")
    (change,) = changes_since(now, code(repository).files, repository)
    assert (change.line, change.lines) == (1, 19)


def test_without_git_contents_have_names_too(tmp_path: Path) -> None:
    """So a change is seen, and not in which line."""
    (tmp_path / "train.py").write_text("a")
    before = code(tmp_path)
    (tmp_path / "train.py").write_text("b")
    after = code(tmp_path)

    assert (before.commit, before.uncommitted) == ("", ())
    assert [(one.path, one.line) for one in changes_since(before.files, after.files, tmp_path)] == [("train.py", None)]


def test_of_many_files_the_rest_is_one(tmp_path: Path) -> None:
    """A change in it is noticed; what lies outside of the project is left out."""
    project = tmp_path / "project"
    project.mkdir()
    paths = [project / f"module{number:02}.py" for number in range(40)]
    for path in [*paths, tmp_path / "outside.py"]:
        path.write_text(path.name)
    given = [str(path) for path in [*paths, tmp_path / "outside.py"]]
    before = code_of(given, project).files
    paths[-1].write_text("other")
    after = code_of(given, project).files

    assert len(before) == MOST_NAMED + 1
    assert [one.path for one in changes_since(before, after, project)] == ["(28 more files)"]


def test_files_that_a_command_names_are_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its script and its configurations, however they are given; no folder, and nothing that is not there."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "a.yaml", "b.yaml"):
        (tmp_path / name).touch()
    command = ["python", "train.py", "--config=a.yaml", "--more", "b.yaml", "data.folder=.", "--lr=3", "c.yaml"]

    assert files_in(command) == [str(tmp_path / name) for name in ("train.py", "a.yaml", "b.yaml")]


def test_the_code_of_a_run_is_what_it_read_and_what_its_command_names(tmp_path: Path) -> None:
    """Modules, texts that it read before it trained, and files in the command; all are compared with the lock."""
    for name in ("train.py", "model.py", "words.txt", "a.yaml"):
        (tmp_path / name).touch()
    module, words, named = (str(tmp_path / name) for name in ("model.py", "words.txt", "a.yaml"))
    Journal(tmp_path).note(Files((module,), texts=(words,)))
    folder = RunFolder(tmp_path)
    folder.write_manifest({"typed": ["python", "train.py", named]})

    assert FinishedRun(folder).code >= {module, words, named}
