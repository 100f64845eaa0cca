"""Findings of `samebits lint`, mended by the same cures as the causes that experiments confirm."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from samebits.base.sites import Site
from samebits.fixing.cures import EditableFiles, MendRequest
from samebits.fixing.edits import EditableFile, NoCureError, editable_file
from samebits.fixing.patch import Draft, patch
from samebits.lint.findings import Finding
from samebits.lint.rule import find_rule


def mend(found: Sequence[Finding], also_unsafe: bool = False, paths: Iterable[str] = ()) -> tuple[Draft, list[Finding]]:
    """Return a patch for the findings that have a cure, and the findings that it mends; nothing is written.

    Args:
        found: findings of `samebits lint`; those in notebooks are left as they are.
        also_unsafe: also apply the cures that change what the script does.
        paths: the files that were read, which may call what the others define.
    """
    wanted: dict[tuple[str, Site], tuple[MendRequest, list[Finding]]] = {}
    for one in found:
        rule, site = find_rule(one.rule), Site(os.path.abspath(one.path), one.line, one.function, one.source)
        if rule.cure and not one.cell and (rule.fix == "safe" or also_unsafe):
            cause = MendRequest(rule.cure, site, called=_called(one, rule.cure))
            wanted.setdefault((rule.cure, site), (cause, []))[1].append(one)
    callers = [os.path.abspath(path) for path in paths if path.endswith(".py")]
    files = EditableFiles(_read, [site.path for _, site in wanted], callers)
    draft = patch([cause for cause, _ in wanted.values()], files)
    mended = {(one.factor, one.site) for one in draft.mends}
    return draft, [finding for key, (_, findings) in wanted.items() if key in mended for finding in findings]


def _called(found: Finding, cure: str) -> str:
    """Return what the cure has to know of the called function, or of the flag that is set."""
    if cure == "file-order":
        return "os.walk" if "walk(" in found.source else ""
    match = re.search(r"([\w.]+)\(\)", found.reason)
    return {"cudnn-autotune": "torch.backends.cudnn.benchmark = True"}.get(cure, match[1] if match else "")


def _read(path: str) -> EditableFile:
    try:
        return editable_file(path, Path(path).read_bytes())
    except OSError as error:
        raise NoCureError(f"{path} cannot be read: {error.strerror}") from error
