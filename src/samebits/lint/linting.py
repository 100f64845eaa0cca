"""Applies the rules to all files of some paths."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from samebits.base.errors import UsageError
from samebits.base.records import published
from samebits.lint.findings import Finding
from samebits.lint.parallel import Group, balanced_shares, import_groups, in_processes
from samebits.lint.project import Project
from samebits.lint.rule import Rule, all_rules
from samebits.lint.source import Source, UnreadableError, parsed, text_of, without_collecting

# Folders that are skipped below a given path: nobody trains there, or nobody wrote what is in them.
_PASSED_BY = {"tests", "test", "docs", "node_modules", "site-packages", "build", "dist", "__pycache__"}
_NO_TRAINING = re.compile(r"(setup|conf|conftest|test_\w+|\w+_test|noxfile)\.py")
_GENERATED = re.compile(r"\A(#.*\n)*#.*(@generated|do not edit)", re.IGNORECASE)
# Fewer files than these are read sooner than a process for them is started.
_WORTH_A_PROCESS = 50
_IGNORED = re.compile(r"#\s*samebits:\s*ignore\[(?P<codes>[\w\s,]*)\](?P<reason>.*)")


@dataclass(frozen=True)
class LintOptions:
    """The settings of `[tool.samebits.lint]`, or the options of `samebits lint`.

    Attributes:
        select: codes of rules, or how they begin; only these rules are applied.
        ignore: codes of rules, or how they begin; these rules are not applied.
        exclude: patterns of paths that are skipped.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def filling(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return options by name; those that are not given have the values here."""
        return {name: value or getattr(self, name) for name, value in given.items()}


@dataclass(frozen=True)
class Unread:
    """A file that could not be read.

    Attributes:
        path: of the file.
        line: where it stops being Python, 0 where that is not the reason.
        why: as a clause that follows the path.
    """

    path: str
    line: int
    why: str


@dataclass(frozen=True)
class Linted:
    """What reading some paths found.

    Attributes:
        files: how many were looked at.
        findings: by path and line.
        ignored: how many findings comments took back.
        unread: files that could not be read.
        fixed: findings that were cured; they are none of `findings`.
    """

    files: int
    findings: tuple[Finding, ...]
    ignored: int = 0
    unread: tuple[Unread, ...] = ()
    fixed: tuple[Finding, ...] = ()

    @property
    @published()
    def kind(self) -> Literal["found", "none", "undecided"]:
        """Whether something was found that may break a run; undecided where a file could not be read."""
        kinds: dict[int, Literal["found", "none", "undecided"]] = {0: "none", 1: "found", 2: "undecided"}
        return kinds[self.exit_code]

    @property
    @published()
    def exit_code(self) -> int:
        """0 nothing found, 1 something found that may break a run, 2 a file could not be read."""
        if any(one.level != "info" for one in self.findings):
            return 1
        return 2 if self.unread else 0


def lint(paths: Sequence[str | Path], options: LintOptions | None = None, jobs: int = 1) -> Linted:
    """Return what the rules find in files and folders; neither torch nor any of the files is imported.

    Args:
        paths: files of any name; of folders, all Python files and notebooks except tests and the like are read.
        options: which rules apply.
        jobs: number of processes that may read files which do not import each other.

    Raises:
        UsageError: a path does not exist, or no rule has a code that the options name.
    """
    options = options or LintOptions()
    chosen = _chosen(options)
    files = files_in(paths, options.exclude)
    texts, unread = Group(), list[Unread]()
    for name in files:
        try:
            texts[name] = text_of(name)
        except UnreadableError as error:
            unread.append(Unread(name, error.line, error.why))
    processes = min(jobs, len(texts) // _WORTH_A_PROCESS) if sys.platform == "linux" else 1
    read = functools.partial(_read, [rule.code for rule in chosen])
    parts = in_processes(read, balanced_shares(import_groups(texts), max(1, processes)))
    findings = sorted((one for part in parts for one in part.findings), key=lambda one: (one.path, one.line, one.rule))
    unread = sorted([*unread, *(one for part in parts for one in part.unread)], key=lambda one: files.index(one.path))
    return Linted(len(files), tuple(findings), sum(part.ignored for part in parts), tuple(unread))


@without_collecting()
def _read(codes: Sequence[str], groups: Iterable[Group]) -> Linted:
    """Return what rules find in some files; a rule sees all files of a group together."""
    rules = [rule for rule in all_rules() if rule.code in codes]
    kept, ignored, unread = list[Finding](), 0, list[Unread]()
    for group in groups:
        sources = dict[str, Source]()
        for name, (text, cells) in group.items():
            try:
                if not _GENERATED.match(text):
                    sources[name] = parsed(name, text, cells)
            except UnreadableError as error:
                unread.append(Unread(name, error.line, error.why))
        found = dict[tuple[str, int, str, str], Finding]()
        project = Project([*sources.values()])
        for rule, source in product(rules, sources.values()):
            try:
                for one in rule.find(project, source):
                    finding = replace(one, rule=rule.code, level=rule.level)
                    found[finding.path, finding.line, finding.rule, finding.reason] = finding
            except Exception as error:  # the other rules and files are read all the same
                why = f"{rule.code} cannot read it, which is samebits' mistake ({type(error).__name__}: {error})"
                unread.append(Unread(source.path, 0, why))
        wanted = [finding for finding in found.values() if not _is_ignored(sources[finding.path], finding)]
        kept += [_in_cell(sources[finding.path], finding) for finding in wanted]
        ignored += len(found) - len(wanted)
    return Linted(0, tuple(kept), ignored, tuple(unread))


def _chosen(options: LintOptions) -> list[Rule]:
    rules = all_rules()
    for code in (*options.select, *options.ignore):
        if not code or not any(rule.code.startswith(code) for rule in rules):
            raise UsageError(f"no rule has the code {code!r}", f"there are {', '.join(rule.code for rule in rules)}")
    selected = [rule for rule in rules if rule.code.startswith(options.select)] if options.select else rules
    return [rule for rule in selected if not (options.ignore and rule.code.startswith(options.ignore))]


def files_in(paths: Sequence[str | Path], exclude: Sequence[str] = ()) -> list[str]:
    """Return the files that are read of some paths; raises UsageError where there is none."""
    return list(dict.fromkeys(name for path in paths for name in _files(Path(path), exclude)))


def _files(path: Path, exclude: Sequence[str]) -> Iterator[str]:
    if path.is_file():
        yield str(path)
        return
    if not path.is_dir():
        raise UsageError(f"there is no file or folder {path}", "name files or folders that exist")
    for folder, subfolders, names in os.walk(path):
        subfolders[:] = sorted(name for name in subfolders if not _is_passed_by(Path(folder, name), exclude))
        for name in sorted(names):
            file = Path(folder, name)
            if name.endswith((".py", ".ipynb")) and not _NO_TRAINING.fullmatch(name) and not _matches(file, exclude):
                yield str(file)


def _is_passed_by(folder: Path, exclude: Sequence[str]) -> bool:
    is_by_default = folder.name in _PASSED_BY or folder.name.startswith(".") or (folder / "pyvenv.cfg").exists()
    return is_by_default or _matches(folder, exclude)


def _matches(path: Path, patterns: Iterable[str]) -> bool:
    return any(path.match(pattern) for pattern in patterns)


def _is_ignored(source: Source, finding: Finding) -> bool:
    """Whether a comment at a finding's line, or alone on the line above, names its rule and gives a reason."""
    above = source.lines[finding.line - 2] if finding.line > 1 else ""
    comments = [source.lines[finding.line - 1], above if above.lstrip().startswith("#") else ""]
    matches = [match for text in comments if (match := _IGNORED.search(text))]
    return any(finding.rule in re.split(r"[\s,]+", match["codes"]) and match["reason"].strip() for match in matches)


def _in_cell(source: Source, finding: Finding) -> Finding:
    if not source.cells:
        return finding
    start, number = max(cell for cell in source.cells if cell[0] < finding.line)
    return replace(finding, line=finding.line - start, cell=number, others=())
