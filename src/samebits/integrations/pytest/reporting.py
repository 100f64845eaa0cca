"""What tests named: collected in the process that reports, written once, and said at the end of the whole run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from samebits.integrations.pytest.asked import SESSION, lockfile, update_mode, writing_option


class Reporter:
    """What arrives in the process that reports: this one, or the one that distributes the tests of xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.known = config, config.stash[SESSION]
        if any("::" in word for word in config.args):
            self.known.is_whole = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What one test named."""
        sent = getattr(report, "samebits", None)
        if sent is None:
            return
        from samebits.base.records import from_data
        from samebits.testing.expected import NamedByTest

        named = None if sent["named"] is None else from_data(NamedByTest, sent["named"])
        if named is not None and named.unknown:
            self.known.unknown.append(named.unknown)
        elif report.passed:
            self.known.passed[sent["test"]] = named

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Iterable[str]) -> None:
        """What a worker has; each has all of it."""
        self.known.collected |= set(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        """A worker has ended, or died."""
        sent = getattr(node, "workeroutput", {}).get("samebits")
        self.known.is_whole &= bool(sent and sent["is_whole"])
        self.known.collected |= set(sent["collected"] if sent else ())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """The lockfile is written once, and what it holds for nobody is found."""
        known, path = self.known, lockfile(self.config)
        if not known.passed and not known.unknown and not path.exists():
            return
        from samebits.base.errors import SamebitsError

        try:
            known.lines += self._written(path) + self._unused(path)
        except SamebitsError as error:
            known.lines.append(f"error: {error}")
            if known.passed or writing_option(self.config):
                session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """What was written, what is unknown here, and what is unused."""
        lines = [*self.known.lines, *self.known.unknown]
        if lines:
            terminalreporter.section("samebits")
            for line in lines:
                terminalreporter.write_line(line)

    def _written(self, path: Path) -> list[str]:
        if update_mode(self.config) == "nothing":
            return []
        from samebits.testing.expected import write_named

        found = [named for named in self.known.passed.values() if named is not None]
        count = write_named(path, found, only_new=update_mode(self.config) == "new")
        return [f"{path}: {count} test{'' if count == 1 else 's'} locked anew" if count else f"{path} is as it was"]

    def _unused(self, path: Path) -> list[str]:
        from samebits.locking.lockfile import Lockfile, update
        from samebits.testing.expected import without_unused

        files: dict[str, set[str]] = {}
        for test in self.known.collected if self.known.is_whole else ():
            files.setdefault(test.partition("::")[0], set()).add(test)
        asked = [test if named is None else named for test, named in self.known.passed.items()], files

        def kept(lockfile: Lockfile) -> tuple[Lockfile, list[str]]:
            return without_unused(lockfile, *asked, self.config.rootpath)

        unused = kept(Lockfile.load(path))[1] if path.exists() else []
        if not self.config.getoption("samebits_remove_unused"):
            lines = [f"unused in {path}: {why}" for why in unused]
            return [*lines, "to remove that: pytest --samebits-remove-unused"] if lines else []
        if not self.known.is_whole:
            return [f"{path}: nothing was removed, because not every test was run"]
        if unused:
            update(path, lambda now: kept(now)[0])
        return [f"removed from {path}: {why}" for why in unused]
