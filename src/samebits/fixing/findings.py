"""What reading finds, mended as what experiments confirm is."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from samebits.base.sites import Site
from samebits.fixing.cures import Sources, Wanted
from samebits.fixing.edits import NoCureError, Original, original
from samebits.fixing.patch import Draft, patch
from samebits.lint.findings import Finding
from samebits.lint.rule import find_rule


def mend(found: Sequence[Finding], also_unsafe: bool = False) -> tuple[Draft, list[Finding]]:
    """Edits for the findings that have a cure, and which those are; nothing is written.

    Args:
        found: by `samebits lint`; what stands in a notebook is left as it is.
        also_unsafe: cure those, too, whose cure changes what the script does.
    """
    wanted: dict[tuple[str, Site], tuple[Wanted, list[Finding]]] = {}
    for one in found:
        rule, site = find_rule(one.rule), Site(os.path.abspath(one.path), one.line, one.function, one.source)
        if rule.cure and not one.cell and (rule.fix == "safe" or also_unsafe):
            own = Wanted(rule.cure, site, called=_called(one, rule.cure))
            wanted.setdefault((rule.cure, site), (own, []))[1].append(one)
    draft = patch([own for own, _ in wanted.values()], Sources(_read, [site.path for _, site in wanted]))
    mended = {(one.factor, one.site) for one in draft.mends}
    return draft, [one for key, (_, each) in wanted.items() if key in mended for one in each]


def _called(found: Finding, cure: str) -> str:
    """What was called there, as far as a cure has to know."""
    if cure == "file-order":
        return "os.walk" if "walk(" in found.source else ""
    named = re.search(r"([\w.]+)\(\)", found.reason)
    return {"cudnn-autotune": "torch.backends.cudnn.benchmark = True"}.get(cure, named[1] if named else "")


def _read(path: str) -> Original:
    try:
        return original(path, Path(path).read_bytes())
    except OSError as error:
        raise NoCureError(f"{path} cannot be read: {error.strerror}") from error
