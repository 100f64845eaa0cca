"""Rules of `samebits lint`: what a rule is, and all that there are."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from samebits.base.errors import UsageError
from samebits.lint import rules
from samebits.lint.findings import Findings, Level
from samebits.lint.project import Project
from samebits.lint.source import Source

Find = Callable[[Project, Source], Findings]
Fix = Literal["safe", "unsafe", "none"]


@dataclass(frozen=True)
class Rule:
    """Something to look for in code.

    Attributes:
        code: the code by which the rule is selected and ignored, such as SB202.
        level: how bad a finding is.
        find: the function that yields the findings in one source of a project.
        factors: names of the factors that a finding lets in, as `samebits factors` lists them.
        fix: whether `--fix` cures a finding; an unsafe cure changes what the script does, and not only an order.
        cure: key of the cure in `fixing.patch.WAYS`; empty where there is none.
        torch: the versions of torch to which the rule applies, where these are not all.
        doc: its page: a summary, why it matters, and indented code, bad first, then good.
    """

    code: str
    level: Level
    find: Find
    factors: tuple[str, ...]
    fix: Fix
    cure: str
    torch: str
    doc: str

    @property
    def summary(self) -> str:
        """The rule in one sentence, without its full stop."""
        return self.doc.partition("\n\n")[0].strip().rstrip(".").replace("\n", " ")


def rule(
    code: str, level: Level, factors: tuple[str, ...] = (), fix: Fix = "none", cure: str = "", torch: str = ""
) -> Callable[[Find], Rule]:
    """Return a decorator that makes a rule of the function which finds it; the function's docstring is its page.

    Where it has a fix, the cure is that of its first factor unless another one is named.
    """

    def made(find: Find) -> Rule:
        known = cure or factors[0] if fix != "none" else ""
        return Rule(code, level, find, factors, fix, known, torch, inspect.getdoc(find) or "")

    return made


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return all rules, in the order of their codes."""
    modules = [importlib.import_module(f"{rules.__name__}.{one.name}") for one in pkgutil.iter_modules(rules.__path__)]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Rule)]
    return tuple(sorted(found, key=lambda one: one.code))


def find_rule(code: str) -> Rule:
    """Return the rule with a code; raises UsageError where there is none."""
    by_code = {one.code: one for one in all_rules()}
    if code not in by_code:
        raise UsageError(f"no rule has the code {code!r}", f"there are {', '.join(by_code)}")
    return by_code[code]
