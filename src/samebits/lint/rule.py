"""What a rule is, and which there are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from samebits.base.errors import UsageError
from samebits.lint import rules

# What the file of any rule works with, it imports from here.
from samebits.lint.findings import Finding, Findings, Level
from samebits.lint.project import Project
from samebits.lint.source import Source

__all__ = ["Finding", "Findings", "Project", "Rule", "Source", "all_rules", "find_rule"]


@dataclass(frozen=True)
class Rule:
    """Something to look for in code: a file of `rules/`, called as its code.

    It stands above the function that finds it: `@Rule("error", fix="safe")`.

    Attributes:
        level: how bad a finding is.
        factors: those of `samebits factors` that a finding lets in.
        fix: whether `--fix` cures it; what is unsafe changes what the script does, and not only an order.
        cure: what the room `fixing` calls the way in which it does, if that is not its first factor.
        torch: the versions of torch to which it applies, where that is not all.
        code: as it is selected and ignored, such as SB202.
        doc: the docstring of its file: a summary, why it matters, and indented code, bad first, then good.
        find: the function of its file that yields findings in a file, knowing the others.
    """

    level: Level
    factors: tuple[str, ...] = ()
    fix: Literal["safe", "unsafe", "none"] = "none"
    cure: str = ""
    torch: str = ""
    code: str = ""
    doc: str = ""
    find: Callable[[Project, Source], Findings] = lambda project, source: ()

    def __call__(self, find: Callable[[Project, Source], Findings]) -> Rule:
        """The same, with the function that yields findings."""
        return replace(self, find=find)

    @property
    def summary(self) -> str:
        """The rule in one sentence, without its full stop."""
        return self.doc.partition("\n\n")[0].strip().rstrip(".").replace("\n", " ")


def find_rule(code: str) -> Rule:
    """The rule of that code; UsageError where there is none."""
    known = {rule.code: rule for rule in all_rules()}
    if code not in known:
        raise UsageError(f"no rule has the code {code!r}", f"there are {', '.join(known)}")
    return known[code]


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    names = sorted(path.stem for path in Path(rules.__file__).parent.glob("sb*.py"))
    return tuple(map(_read, names))


def _read(name: str) -> Rule:
    own = importlib.import_module(f"{rules.__name__}.{name}")
    rule: Rule = own.find
    cure = rule.cure or rule.factors[0] if rule.fix != "none" else ""
    return replace(rule, code=name.upper(), doc=own.__doc__ or "", cure=cure)
