"""What the documents show is what the code says and does now, and their links lead somewhere."""

import ast
import doctest
import importlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from samebits.factors.catalog import CATALOG
from tests.answers import samebits

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "samebits"
THE_CODE = ROOT / "docs" / "explanation" / "the-code.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def generator(name: str = "generate") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_factors_is_up_to_date() -> None:
    """`python docs/generate.py` would change nothing; a changed table would be noticed."""
    module = generator()
    readme = (ROOT / "README.md").read_text()

    assert module.with_factors(readme) == readme
    assert module.with_factors(readme.replace("| `clock` |", "| `clocks` |")) == readme
    assert (ROOT / "docs" / "reference" / "factors.md").read_text() == module.reference()
    assert (ROOT / "docs" / "reference" / "lint.md").read_text() == module.rules()


# Runs every snippet by itself, and says what it printed.
_RUN_SNIPPETS = """
import contextlib, io, json, sys
found = []
for snippet in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(snippet, {"__name__": "__main__"})
    found.append(printed.getvalue())
print(json.dumps(found))
"""


def test_what_differs_differs_and_what_repeats_repeats(tmp_path: Path) -> None:
    """Each cause has its section, and what it shows to be wrong and right on any machine is so."""
    page = (ROOT / "docs" / "how-to" / "causes.md").read_text()
    named = set(re.findall(r"^## (.*)$", page, re.MULTILINE))
    wrong = re.findall(r"```python\n# differs\n(.*?)```", page, re.DOTALL)
    right = [found for found in re.findall(r"```python\n# repeats\n(.*?)```", page, re.DOTALL) if "print(" in found]
    runs = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", _RUN_SNIPPETS],
                cwd=tmp_path,
                input=json.dumps(wrong + right),
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for _ in range(3)  # two of them have the same order of a set in one of some hundred tries
    ]

    rest = {"cpu-isa", "inductor-autotune", "triton-autotune", "attention-backend", "nccl-algorithms"}
    assert named == {factor.name for factor in CATALOG} - rest
    assert len(wrong) == len(right) > 0
    same = [len({*found}) == 1 and "" not in found for found in zip(*runs, strict=True)]
    assert same == [False] * len(wrong) + [True] * len(right)


def test_every_decision_in_force_is_listed() -> None:
    """Once, under the heading that it has; what is archived is not there any more."""
    text, archive = ((THE_CODE.parent / f"{name}.md").read_text() for name in ("decisions", "decisions-archive"))
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]

    assert sorted(re.findall(r"^- \[.*?\]\(#(.*?)\)", text, re.MULTILINE)) == sorted(anchors)
    assert not set(headings) & set(re.findall(r"^## (.*)", archive, re.MULTILINE))


def tours(text: str) -> dict[str, str]:
    """Command → what a page shows that it printed."""
    return dict(re.findall(r"<!-- tour:[\w -]+ -->\n```console\n\$ (.*)\n((?:.*\n)*?)```", text))


def test_the_first_page_shows_what_the_tutorial_shows() -> None:
    """There it is compared with what is printed."""
    (block,) = re.findall(r"```console\n(.*?)```", (ROOT / "docs" / "index.md").read_text(), re.DOTALL)

    assert block in (ROOT / "docs" / "tutorials" / "first-verdict.md").read_text()


@pytest.mark.slow
def test_the_tour_shows_what_is_printed(tmp_path: Path) -> None:
    """The answer in the README to the script that repeats is, letter for letter, what `check` prints today."""
    shown = tours((ROOT / "README.md").read_text())["samebits check examples/names_rnn_cured.py"]
    words = ["check", "--out", str(tmp_path / "check"), "examples/names_rnn_cured.py"]
    done = samebits(ROOT, *words, OMP_NUM_THREADS=None)

    assert done.returncode == 0, done.stderr
    assert without_figures(done.stdout) == without_figures(shown)


@pytest.mark.slow
def test_the_resume_shows_what_is_printed(tmp_path: Path) -> None:
    """The resume in the README that lacks a state, letter for letter, and its twin, which lacks none."""
    shown = re.findall(
        r"<!-- resume:digits_resume -->\n```console\n\$ (.*)\n((?:.*\n)*?)```", (ROOT / "README.md").read_text()
    )
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    commands = (shown[0][0], "samebits resume examples/digits_resume_cured.py")
    wrong, right = (samebits(tmp_path, *command.split()[1:], OMP_NUM_THREADS=None) for command in commands)

    assert wrong.returncode == 1, wrong.stderr
    assert without_figures(wrong.stdout) == without_figures(shown[0][1])
    assert right.returncode == 0, right.stdout
    # On a machine with other work the look sees fewer saves, or more.
    assert re.match(r"same bits: resumed from step (30|60), ", right.stdout), right.stdout


def without_figures(text: str) -> str:
    # A look that the script is done within is a whole run.
    return re.sub(r"\d+ runs, \d+ (s|min)$", "N runs, N s", text, flags=re.MULTILINE)


def shown_lines(text: str) -> Iterator[tuple[str, int, str]]:
    """Path, number and source of each line of code that printed answers name and quote."""
    for path, number, source in re.findall(r"(examples/\w+\.py):(\d+)(?:\n {16}|  )(\S.*)", text):
        yield path, int(number), source


def quoted_wrongly(text: str) -> list[str]:
    """Of the lines that are quoted, those that read otherwise in the example."""
    return [
        f"{path}:{number}"
        for path, number, source in shown_lines(text)
        if (ROOT / path).read_text().splitlines()[number - 1].strip() != source
    ]


def test_the_tour_quotes_the_examples_as_they_are() -> None:
    """An example that was changed after the tour was made is noticed."""
    readme = (ROOT / "README.md").read_text()

    assert len(list(shown_lines(readme))) >= 2
    assert quoted_wrongly(readme) == []
    assert quoted_wrongly(readme.replace("digits.py:44  ", "digits.py:45  ")) == ["examples/digits.py:45"]


def test_the_drawing_of_the_layers_is_up_to_date() -> None:
    """It follows the contracts of import-linter and the rooms' own docstrings."""
    module, page = generator(), THE_CODE.read_text()

    assert module.with_layers(page) == page
    assert module.with_layers(page.replace("| agent ", "| agents")) == page


def missing_names(page: str) -> list[str]:
    """Of the functions that a page names as `file.py` `Class.function()`, those that the file does not define."""
    named = re.findall(r"`([\w/]+\.py)`\s`([\w.]+)(?:\(\))?`", page)
    return [f"{path} {name}" for path, name in named if not is_defined(SOURCE / path, name.split("."))]


def is_defined(path: Path, name: list[str]) -> bool:
    body = ast.parse(path.read_text()).body if path.is_file() else []
    for word in name:
        found = next((node for node in body if word in names_of(node)), None)
        if found is None:
            return False
        body = getattr(found, "body", [])
    return True


def names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


def test_the_tour_of_the_code_names_what_there_is() -> None:
    """A function that was moved or renamed is noticed."""
    page = THE_CODE.read_text()
    paths = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", page)

    assert page.count("()`") > 40
    assert missing_names(page) == []
    assert [path for path in paths if not any((base / path).exists() for base in (SOURCE, ROOT))] == []
    renamed = page.replace("`TorchRng.start()`", "`TorchRng.hold()`")
    assert missing_names(renamed) == ["factors/torch_rng.py TorchRng.hold"]


def broken_links(page: Path, text: str) -> list[str]:
    """Local links of a page that lead to no file, or to no heading in it."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if not re.match(r"https?:", link)]
    return [link for link in links if not leads_somewhere(page, link)]


# Written by docs/reference_pages.py when the site is built; the build checks links to headings in them.
MADE_WITH_THE_SITE = {"commands.md", "configuration.md", "json.md", "library.md"}


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, heading = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if target.parent == ROOT / "docs" / "reference" and target.name in MADE_WITH_THE_SITE:
        return True
    return target.exists() and (not heading or heading in headings(target.read_text()))


def headings(text: str) -> set[str]:
    """What links call the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Also for those who read the pages as files, without the site."""
    assert broken_links(page, page.read_text()) == []


def test_a_broken_link_is_noticed() -> None:
    text = "[a](reference/nothing.md) [b](#no-such-heading) [c](explanation/data.md#ranks)"

    assert broken_links(ROOT / "docs" / "index.md", text) == ["reference/nothing.md", "#no-such-heading"]


# Examples that need a training around them, or a framework.
PARTIAL = {f"samebits.{name}" for name in ("state.parts", "state.training")} | {
    f"samebits.integrations.{name}" for name in ("accelerate", "lightning", "transformers")
}
EXAMPLES = {
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "src").rglob("*.py")
    if ">>> " in path.read_text()
}


@pytest.mark.parametrize("name", sorted(EXAMPLES - PARTIAL))
def test_examples_in_docstrings_are_true(name: str) -> None:
    """Doctests run, and there are some."""
    results = doctest.testmod(importlib.import_module(name))

    assert results.attempted > 0
    assert results.failed == 0
