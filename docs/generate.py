"""Fills in what is generated: the factor table, the factor reference, and the tour's output in the README.

python docs/generate.py            # factors only, quick
python docs/generate.py --tour     # runs the tour's commands as well, a minute or two
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path

from samebits.factors.catalog import CATALOG

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
REFERENCE = ROOT / "docs" / "reference" / "factors.md"


def main() -> None:
    """Write both files."""
    readme = with_factors(README.read_text())
    if "--tour" in sys.argv[1:]:
        readme = with_tour(readme)
    README.write_text(readme)
    REFERENCE.write_text(reference())


def with_factors(readme: str) -> str:
    """The README with the table of factors as it is now."""
    return _between(readme, "<!-- factors:start -->", "<!-- factors:end -->", f"\n{table()}\n")


def table() -> str:
    """One row for each factor: what it is, and what is done about it by default."""
    rows = ["| factor | why it matters | `run` | `check` |", "|---|---|---|---|"]
    for factor in CATALOG:
        pinned = "pins" if factor.pinned_by_default else "on request"
        varied = "varies" if factor.varied_by_default else "releases" if factor.varies_between_runs else "on request"
        rows.append(f"| `{factor.name}` | {factor.summary} | {pinned} | {varied} |")
    return "\n".join(rows)


def reference() -> str:
    """A page with everything the factor files say."""
    head = "# Factors\n\nWhat can change the bits of a run whose code did not change. Made by `docs/generate.py`.\n"
    return head + "".join(_section(factor) for factor in CATALOG)


def _section(factor) -> str:
    facts = [
        f"- **scope**: {factor.scope}",
        f"- **too late to pin since**: {factor.too_late}",
        f"- **pinned by `samebits run`**: {'yes' if factor.pinned_by_default else 'only with --pin'}",
        f"- **varied by `samebits check`**: {'yes' if factor.varied_by_default else 'only with --vary'}",
        "- **differs between two runs on one machine**: "
        + ("yes" if factor.varies_between_runs else "no, only between machines"),
        f"- **cure**: {factor.fix_for()}",
    ]
    text = inspect.cleandoc(factor.__doc__ or "")
    return f"\n## {factor.name}\n\n{factor.summary}.\n\n{text}\n\n" + "\n".join(facts) + "\n"


def with_tour(readme: str) -> str:
    """The README with the output of every command of the tour."""
    for words in re.findall(r"<!-- tour:(?!end)([\w -]+) -->", readme):
        *options, name = words.split()
        verb = options.pop(0) if options[:1] == ["cost"] else "check"
        command = ["samebits", verb, *options, f"examples/{name}.py"]
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
