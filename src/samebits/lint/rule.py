"""Rules of `samebits lint`: what a rule is, and all that there are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from samebits.base.errors import UsageError
from samebits.lint import rules

# The files of the rules import these names from here.
from samebits.lint.findings import Finding, Findings, Level
from samebits.lint.project import Project
from samebits.lint.source import Source

__all__ = ["Finding", "Findings", "Project", "Rule", "Source", "all_rules", "find_rule"]


@dataclass(frozen=True)
class Rule:
    """Something to look for in code: one file of `rules/`, named after the rule's code.

    It decorates the function that finds it: `@Rule("error", fix="safe")`.

    Attributes:
        level: how bad a finding is.
        factors: names of the factors that a finding lets in, as `samebits factors` lists them.
        fix: whether `--fix` cures a finding; an unsafe cure changes what the script does, and not only an order.
        cure: key of the cure in `fixing.patch.WAYS`, if it is not the rule's first factor.
        torch: the versions of torch to which the rule applies, where these are not all.
        code: the code by which the rule is selected and ignored, such as SB202.
        doc: the docstring of its file: a summary, why it matters, and indented code, bad first, then good.
        find: the function of its file that yields the findings in one source of a project.
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
        """Return the rule with the function that yields its findings."""
        return replace(self, find=find)

    @property
    def summary(self) -> str:
        """The rule in one sentence, without its full stop."""
        return self.doc.partition("\n\n")[0].strip().rstrip(".").replace("\n", " ")


def find_rule(code: str) -> Rule:
    """Return the rule with a code; raises UsageError where there is none."""
    by_code = {rule.code: rule for rule in all_rules()}
    if code not in by_code:
        raise UsageError(f"no rule has the code {code!r}", f"there are {', '.join(by_code)}")
    return by_code[code]


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return all rules, in the order of their codes."""
    names = sorted(path.stem for path in Path(rules.__file__).parent.glob("sb*.py"))
    return tuple(map(_read, names))


def _read(name: str) -> Rule:
    module = importlib.import_module(f"{rules.__name__}.{name}")
    rule: Rule = module.find
    cure = rule.cure or rule.factors[0] if rule.fix != "none" else ""
    return replace(rule, code=name.upper(), doc=module.__doc__ or "", cure=cure)
