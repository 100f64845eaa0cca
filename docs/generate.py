"""Fills in what is generated: tables and pages of factors, the drawing of the layers, the output in the README's tour.

python docs/generate.py            # what follows from the code, quick
python docs/generate.py --tour     # runs the tour's commands as well, a few minutes
"""

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from samebits.factors.catalog import CATALOG
from samebits.lint.rule import Rule, all_rules

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
REFERENCE = ROOT / "docs" / "reference" / "factors.md"
RULES = ROOT / "docs" / "reference" / "lint.md"
TOUR_OF_THE_CODE = ROOT / "docs" / "explanation" / "the-code.md"


def main() -> None:
    """Write every file that holds something generated."""
    readme = with_factors(README.read_text())
    if "--tour" in sys.argv[1:]:
        readme = with_tour(readme)
    README.write_text(readme)
    REFERENCE.write_text(reference())
    RULES.write_text(rules())
    TOUR_OF_THE_CODE.write_text(with_layers(TOUR_OF_THE_CODE.read_text()))


def with_factors(readme: str) -> str:
    """The README with the table of factors as it is now."""
    return _between(readme, "<!-- factors:start -->", "<!-- factors:end -->", f"\n{table()}\n")


def table(linked: bool = False) -> str:
    """One row for each factor: what it is, and what is done about it by default."""
    rows = ["| factor | why it matters | `run` | `check` |", "|---|---|---|---|"]
    for factor in CATALOG:
        pinned = "pins" if factor.pinned_by_default else "on request"
        is_varied = factor.varied_by_default or factor.may_stall
        varied = "varies" if is_varied else "releases" if factor.varies_between_runs else "on request"
        varied = "tries" if factor.by_folder else varied
        name = f"[`{factor.name}`](#{factor.name})" if linked else f"`{factor.name}`"
        rows.append(f"| {name} | {factor.summary} | {pinned} | {varied} |")
    return "\n".join(rows)


def reference() -> str:
    """A page with everything the factor files say."""
    head = (
        "# Factors\n\nWhat can change the bits of a run whose code did not change, and what `samebits run` and "
        f"`samebits check` do about it unless asked otherwise.\n\n{table(linked=True)}\n"
    )
    return head + "".join(_section(factor) for factor in CATALOG)


def _varied(factor) -> str:
    if factor.by_folder:
        return "no, but tried in a run of its own"
    if factor.may_stall:
        return "in runs of its own, where it was seen to enter"
    return "yes" if factor.varied_by_default else "only with `--vary`"


def _section(factor) -> str:
    facts = [
        f"- **scope**: {factor.scope}",
        f"- **too late to pin from inside**: {factor.too_late}",
        f"- **pinned by `samebits run`**: {'yes' if factor.pinned_by_default else 'only with `--pin`'}",
        f"- **varied by `samebits check`**: {_varied(factor)}",
        "- **differs between two runs on one machine**: "
        + ("yes" if factor.varies_between_runs else "no, only between machines"),
        f"- **fix in the code**: {factor.fix_for()}",
    ]
    if f"\n## {factor.name}\n" in (ROOT / "docs" / "how-to" / "causes.md").read_text():
        facts.append(f"- **in code**: [what differs, and what repeats](../how-to/causes.md#{factor.name})")
    codes = [f"[{rule.code}](lint.md#{rule.code.lower()})" for rule in all_rules() if factor.name in rule.factors]
    if codes:
        facts.append(f"- **found without running by `samebits lint`**: {', '.join(codes)}")
    text = inspect.cleandoc(factor.__doc__ or "")
    return f"\n## {factor.name}\n\n{factor.summary}.\n\n{text}\n\n" + "\n".join(facts) + "\n"


def rules() -> str:
    """A page with everything the files of rules say."""
    rows = ["| rule | level | finds | fix |", "|---|---|---|---|"]
    for rule in all_rules():
        rows.append(f"| [{rule.code}](#{rule.code.lower()}) | {rule.level} | {rule.summary} | {rule.fix} |")
    head = """\
# Rules

What `samebits lint` looks for. An *error* breaks the next run, a *warning* is likely to, and *info* is what results
depend on. A *safe* fix changes only whether results repeat, an *unsafe* one what the script does, too. How often each
rule is right, and how much it finds, is measured on snippets, on scripts with known causes and on public code:
`benchmarks/results/lint-2026-11-25.txt`.

"""
    return head + "\n".join(rows) + "\n" + "".join(map(_rule, all_rules()))


def _rule(rule: Rule) -> str:
    _, *paragraphs = rule.doc.strip("\n").split("\n\n")
    text = re.sub(r"(?:^ {4}.*\n|^\n(?= {4}))+", _fenced, "\n\n".join(paragraphs) + "\n", flags=re.MULTILINE)
    facts = [f"- **level**: {rule.level}", f"- **fix**: {rule.fix}"]
    facts += [f"- **torch**: {rule.torch}"] if rule.torch else []
    links = ", ".join(f"[`{name}`](factors.md#{name})" for name in rule.factors)
    facts += [f"- **factors**: {links}"] if links else []
    return f"\n## {rule.code}\n\n{rule.summary}.\n\n{text}\n" + "\n".join(facts) + "\n"


def _fenced(block: re.Match[str]) -> str:
    return f"\n```python\n{textwrap.dedent(block[0]).strip()}\n```\n"


def with_layers(page: str) -> str:
    """The tour of the code with the drawing of the layers as it is now."""
    return _between(page, "<!-- layers:start -->", "<!-- layers:end -->", f"\n```text\n{layers()}\n```\n")


def layers() -> str:
    """The layers that import-linter enforces, top to bottom: what each room is for and where it runs."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    order = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    groups = [[room for room in layer.split(" | ") if room != "__main__"] for layer in order]
    outside = _forbidden_to_import(contracts, "samebits.agent")
    torch_free = _forbidden_to_import(contracts, "torch")
    shared = order[order.index("agent") + 1 :]
    rule = "+" + "-" * 86 + "+"
    lines = [rule]
    for group in filter(None, groups):
        for room in group:
            where = "both" if any(room in layer.split(" | ") for layer in shared) else "inside"
            where = "outside" if where == "inside" and room in outside else where
            lines += _room(room, where, "no torch" if room in torch_free else "")
        lines.append(rule)
    return "\n".join(lines)


def _forbidden_to_import(contracts: list[dict], module: str) -> set[str]:
    """The rooms that a contract keeps from importing a module."""
    contract = next(one for one in contracts if module in one.get("forbidden_modules", ()))
    return {room.removeprefix("samebits.") for room in contract["source_modules"]}


def _room(name: str, *notes: str) -> list[str]:
    """The lines of one room: its name, what it is for, and the notes."""
    room = ROOT / "src" / "samebits" / name
    source = (room / "__init__.py" if room.is_dir() else room.with_suffix(".py")).read_text()
    docstring = ast.get_docstring(ast.parse(source)) or ""
    purpose = textwrap.wrap(re.split(r"\.(?: |$)", docstring.splitlines()[0])[0], 49)
    blank = [("",) * len(notes)] * (len(purpose) - 1)
    names = [name] + [""] * (len(purpose) - 1)
    rows = zip(names, purpose, [notes, *blank], strict=True)
    return [f"| {first:<13} {text:<51}{where:<10}{torch:<9} |" for first, text, (where, torch) in rows]


def with_tour(readme: str) -> str:
    """The README with the output of every command of the tour."""
    for words in re.findall(r"<!-- tour:(?!end)([\w -]+) -->", readme):
        *options, name = words.split()
        command = ["samebits", "check", *options, f"examples/{name}.py"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        shown = f"\n```console\n$ {' '.join(command)}\n{done.stdout}```\n"
        readme = _between(readme, f"<!-- tour:{words} -->", "<!-- tour:end -->", shown)
    return readme


def _between(text: str, start: str, end: str, content: str) -> str:
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}{content}{end}{after}"


if __name__ == "__main__":
    main()
