"""What surrounds the code says the same as the code: versions, changes, workflows."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import samebits
from samebits.cli.main import find_command

ROOT = Path(__file__).parents[1]
TO_COPY = ROOT / "docs" / "how-to" / "verify.yml"
WORKFLOWS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), TO_COPY]


def parsed(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_the_changelog_has_this_version() -> None:
    """On top, with at least one change, each a list item that ends with a full stop."""
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[1:]
    version, _, body = sections[0].partition("\n")
    items = re.split(r"^- ", body.split("\n\n", 2)[-1], flags=re.M)[1:]

    assert version.split(" ")[0] == samebits.__version__
    assert items
    assert [item for item in items if not item.strip().endswith((".", "`."))] == []


def test_the_citation_names_this_version() -> None:
    """Someone who cites it cites what was installed."""
    citation = parsed(ROOT / "CITATION.cff")

    assert citation["version"] == samebits.__version__
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_ask_for_no_more_than_they_need(path: Path) -> None:
    """Rights are read-only unless a job says why; every step runs something; every job ends some time."""
    workflow = parsed(path)

    assert workflow["permissions"] == {"contents": "read"}
    assert True in workflow or "on" in workflow  # YAML 1.1 reads the key `on` as true
    for name, job in workflow["jobs"].items():
        assert job["runs-on"] == "ubuntu-latest", name
        assert all("run" in step or "uses" in step for step in job["steps"]), name
        assert job.get("permissions", {}) in ({}, {"id-token": "write"}), name


def options_of(line: str) -> dict[str, Any]:
    """How samebits understands a line; an option that it does not have is an error."""
    _, name, *words = shlex.split(line)
    return find_command(name).make_context(name, words).params


def test_the_workflow_to_copy_uses_what_there_is() -> None:
    """Its lines are understood as they are meant, and another spelling would be noticed."""
    jobs = parsed(TO_COPY)["jobs"]
    lines = {
        name: [step["run"] for step in job["steps"] if "samebits" in step.get("run", "")] for name, job in jobs.items()
    }
    (verify,), (lock,) = lines["verify"], lines["lock"]

    assert (options_of(verify)["allow_unknown"], options_of(verify)["update"]) == (True, False)
    assert (options_of(lock)["update_new_only"], options_of(lock)["write_in_ci"]) == (True, True)
    with pytest.raises(click.NoSuchOption):
        options_of(verify.replace("--allow-unknown", "--alow-unknown"))


def test_the_versions_are_those_that_are_promised() -> None:
    """The workflow's table is the one of noxfile.py, and its oldest pair is what pyproject.toml asks for."""
    pairs = re.findall(r'\("(3\.\d+)", "(\d+\.\d+\.\d+)"\)', (ROOT / "noxfile.py").read_text())
    table = parsed(ROOT / ".github" / "workflows" / "versions.yml")["jobs"]["versions"]["strategy"]["matrix"]["include"]
    project = (ROOT / "pyproject.toml").read_text()

    assert [(one["python"], one["torch"]) for one in table] == pairs
    assert f'requires-python = ">={pairs[0][0]}"' in project
    assert f'"torch>={pairs[0][1].removesuffix(".0")}"' in project


def test_a_bug_report_asks_for_the_run_folder() -> None:
    """Without it a wrong verdict can hardly be looked into."""
    form = parsed(ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml")
    fields = {field["id"]: field for field in form["body"] if "id" in field}

    assert fields["folder"]["validations"] == {"required": True}
