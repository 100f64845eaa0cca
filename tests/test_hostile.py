"""Folders that a stranger made: nothing in them is run, led out of, sent to the terminal, or believed to be small."""

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from samebits.cli.main import main
from samebits.locking.entries import RunEntry
from samebits.locking.lockfile import update
from samebits.report.answers import document_of, json_text
from samebits.report.forms import form_names
from samebits.runfolder.steps import Column, Recording, Writer
from tests.locking.entries import HERE, locked, lockfile
from tests.replay.test_replay import half, kept
from tests.report.test_page import CHECK, RUNS

SECRET = "the reader's own: 7f3a"
STEERING = ("\x1b", "\x9b", "\u202e", "\r", "\b")


class Sent:
    """A folder as it came, beside files of the reader's.

    Attributes:
        home: the folder of a check with one run.
        run: that run.
        canary: is there once anything of the folder was run.
        own: a file of the reader's.
    """

    def __init__(self, folder: Path, honest: Path) -> None:
        self.home, self.run = folder / "sent", folder / "sent" / "run"
        self.canary, self.own = folder / "canary", folder / "reader" / "own.py"
        self.own.parent.mkdir()
        self.own.write_text(f"{SECRET}\n" * 20)
        shutil.copytree(honest, self.run)
        sent = replace(CHECK, runs=(replace(RUNS[0], folder=self.run),))
        (self.home / "answer.json").write_text(json_text(document_of("check", sent)))
        (self.run / "place.json").write_text(json.dumps({"folder": "/", "files": str(self.run / "files")}))
        (folder / "touch").write_text(f"#!/bin/sh\ntouch '{self.canary}'\n")
        (folder / "touch").chmod(0o755)

    @property
    def code(self) -> str:
        """Python that leaves a trace, dressed to be taken for the end of a text, and to steer a terminal."""
        code = f"__import__('pathlib').Path({str(self.canary)!r}).touch()"
        return f"\x1b[2J\x9b1m\u202e\r\b\"\"\"\n{code}\n'''{{{code}}}"

    @property
    def call(self) -> Path:
        return next((self.run / "operands").glob("rank*.json"))

    def edit(self, change: Callable[[str, Any], Any]) -> None:
        """Change every value in every document, by the name of its key."""
        for path in [self.home / "answer.json", *self.run.glob("*.json"), self.call]:
            path.write_text(json.dumps(changed("", json.loads(path.read_text()), change)))
        for path in self.run.glob("journal.*"):
            lines = (changed("", json.loads(line), change) for line in path.read_text().splitlines())
            path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def edit_call(self, **more: object) -> None:
        self.call.write_text(json.dumps({**json.loads(self.call.read_text()), **more}))

    def link(self, path: Path) -> None:
        """Put a link to the reader's file in the place of a file, or to its folder in that of a folder."""
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        path.symlink_to(self.own if path.suffix else self.own.parent)

    def rename(self, mark: str) -> None:
        """Record the same anew under other names, with digests that fit."""
        path = self.run / "recording.sqlite"
        old = Recording(path)
        rows = [(row, old.kind(row), old.columns(row)) for row in range(len(old))]
        path.unlink()
        writer = Writer(self.run, 0, digest=old.digest)
        for row, kind, columns in rows:
            named = {stream: tuple(mark + name for name in own.names) for stream, own in columns.items()}
            writer.write(row, kind, {stream: Column(named[stream], own.digests) for stream, own in columns.items()})
        writer.close()

    def sql(self, *statements: str) -> None:
        with sqlite3.connect(self.run / "recording.sqlite") as db:
            for statement in statements:
                db.execute(statement)


def changed(name: str, value: Any, change: Callable[[str, Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: changed(key, one, change) for key, one in value.items()}
    if isinstance(value, list):
        return [changed(name, one, change) for one in value]
    return change(name, value)


# Without these a document is not read at all.
KEPT = ("note", "schema", "status", "verdict")


def text_is(text: str, *but: str) -> Callable[[str, Any], Any]:
    return lambda name, value: text if isinstance(value, str) and name not in (*KEPT, *but) else value


def number_is(number: float) -> Callable[[str, Any], Any]:
    return lambda _, value: number if type(value) in (int, float) else value


EVIL: dict[str, Callable[[Sent], object]] = {
    "code in every text": lambda sent: sent.edit(text_is(sent.code)),
    "code wherever a call may hold it": lambda sent: (
        sent.edit(text_is(sent.code, "op", "pass_", "dtype", "device", "backends.cudnn.conv.fp32_precision")),
        sent.edit_call(arguments=[{"torch": sent.code}, {"value": sent.code}, {"device": sent.code}]),
    ),
    "code as a setting": lambda sent: sent.edit_call(
        settings={"set_num_threads": [1], "backends.cudnn.os.system": [f"touch {sent.canary}"]}
    ),
    "a program as an environment": lambda sent: sent.edit_call(environment={"LD_PRELOAD": str(sent.own)}),
    "code to import": lambda sent: [
        (sent.run / "operands" / f"{name}.py").write_text(f"open({str(sent.canary)!r}, 'w')")
        for name in ("torch", "argparse", "base64", "json")
    ],
    "an operation that reads files": lambda sent: sent.edit_call(
        op="aten::from_file", arguments=[{"value": str(sent.own)}, {"value": False}, {"value": 40}], written=[]
    ),
    "an operation that writes files": lambda sent: sent.edit_call(
        op="aten::save", arguments=[{"value": 1}, {"value": str(sent.canary)}], written=[]
    ),
    "an operation that is none": lambda sent: sent.edit_call(op="import_module::__call__.__call__"),
    "another Python": lambda sent: sent.edit(
        lambda name, value: str(sent.home.parent / "touch") if name == "executable" else value
    ),
    "paths to the reader's file": lambda sent: sent.edit(text_is(str(sent.own))),
    "paths upwards": lambda sent: sent.edit(text_is("../../reader/own.py")),
    "paths to the folder above": lambda sent: sent.edit(text_is("../..")),
    "large numbers": lambda sent: sent.edit(number_is(10**13)),
    "larger numbers": lambda sent: sent.edit(number_is(10**400)),
    "numbers below 0": lambda sent: sent.edit(number_is(-1)),
    "texts for numbers": lambda sent: sent.edit(number_is("x")),  # type: ignore[arg-type]
    "nothing for anything": lambda sent: sent.edit(lambda name, value: value if name in KEPT else None),
    "many results": lambda sent: sent.edit_call(called_again={"calls": 10**13, "results": 10**13}),
    "a nest": lambda sent: [path.write_text("[" * 10**5) for path in (sent.call, sent.home / "answer.json")],
    "bytes that are not there": lambda sent: next((sent.run / "operands").glob("*.safetensors")).write_bytes(
        (10**15).to_bytes(8, "little") + b"{}"
    ),
    "a link for the recording": lambda sent: sent.link(sent.run / "recording.sqlite"),
    "a link for the manifest": lambda sent: sent.link(sent.run / "manifest.json"),
    "a link for the operands": lambda sent: sent.link(next((sent.run / "operands").glob("*.safetensors"))),
    "a link for the call": lambda sent: sent.link(sent.call),
    "a link for a folder": lambda sent: sent.link(sent.run / "operands"),
    "a link for the run": lambda sent: sent.link(sent.run),
    "a link for the journal": lambda sent: sent.link(sent.run / "journal.x.1.jsonl"),
    "a pipe for the recording": lambda sent: (
        (sent.run / "recording.sqlite").unlink(),
        os.mkfifo(sent.run / "recording.sqlite"),
    ),
    "a recording that computes": lambda sent: sent.sql(
        "ALTER TABLE steps RENAME TO s",
        "CREATE VIEW steps AS WITH RECURSIVE n(step) AS (SELECT 0 UNION ALL SELECT step + 1 FROM n) "
        "SELECT step, 'step' AS kind, x'00' AS root, x'' AS streams FROM n",
    ),
    "a recording of numbers": lambda sent: sent.sql(
        "UPDATE ops SET root=1000000000000000, count=1000000000000", "UPDATE steps SET root=1000000000000000"
    ),
    "a recording of names": lambda sent: sent.sql("UPDATE layouts SET names='[{}]'", "UPDATE steps SET root=x'00'"),
    "a recording of other names": lambda sent: sent.rename("\x1b[2J\u202e"),
    "a recording of lanes": lambda sent: sent.sql(
        "UPDATE meta SET value='[[1e400, {}]]' WHERE key='order'", "UPDATE meta SET value=x'1b' WHERE key='process'"
    ),
    "a recording of operations": lambda sent: sent.sql(
        f"UPDATE op_kinds SET content='{json.dumps({'op': chr(27), 'path': str(sent.own), 'line': 3, 'outs': ['x']})}'",
        "UPDATE ops SET root=x'00'",
    ),
    "a journal that removes the reader's file": lambda sent: (sent.run / "recording.sqlite-journal").write_bytes(
        b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504) + str(sent.own).encode() + b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
    ),
}


def trained() -> None:
    half()
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(2):
        model(torch.ones(3, 2)).sum().backward()
        optimizer.step()


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with operations, one of them with its operands."""
    return kept(trained, "aten::mul.Tensor", tmp_path_factory.mktemp("honest")).parent.parent


@pytest.fixture
def sent(tmp_path: Path, honest: Path, monkeypatch: pytest.MonkeyPatch) -> Sent:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Sent(tmp_path, honest)


def said(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """Exit status and all that a command prints."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out, err = capfd.readouterr()
    return int(ended.value.code or 0), out + err


def assert_harmless(sent: Sent, text: str) -> None:
    assert not sent.canary.exists()
    assert sent.own.read_text() == f"{SECRET}\n" * 20
    assert not [one for one in STEERING if one in text]
    assert "Traceback" not in text
    written = [path for path in (*Path().iterdir(), *sent.home.rglob("*.py")) if path.is_file()]
    for content in (text, *(path.read_text() for path in written)):
        assert SECRET not in content
    assert {path.name for path in sent.own.parent.iterdir()} == {"own.py"}


# Every other one, but for two that are like others and take longest: they call the operation again.
FAST = {one for number, one in enumerate(EVIL) if number % 2} - {"a link for the manifest", "bytes that are not there"}


@pytest.mark.parametrize("evil", [one if one in FAST else pytest.param(one, marks=pytest.mark.slow) for one in EVIL])
def test_a_strangers_folder_is_only_read(
    evil: str, sent: Sent, honest: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Compared, shown, replayed, held against a lock: the answer is one, or a sentence of why there is none."""
    entry = RunEntry((), data={str(sent.own): "00"})
    update(Path("samebits.lock"), lambda now: now.with_run("train", entry, HERE, locked()))
    EVIL[evil](sent)

    # What calls an operation again reads no recording.
    again = [] if "recording" in evil else [("replay", "--times", "2", sent.home)]
    for words in (
        ("diff", honest, sent.run),
        ("diff", "--format", "json", sent.run, honest),
        *again,
        ("report", sent.home, "-o", "home.html"),
        ("report", sent.run, "-o", "run.html"),
        ("verify", "train", "--recording", sent.run),
        ("verify", "train", "--format", "github", "--recording", sent.home),
    ):
        status, text = said(capfd, *words)
        assert status in (0, 1, 2), words
        assert_harmless(sent, text)


def test_an_honest_folder_is_read_all_the_same(sent: Sent, honest: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The twin: the same run, compared with itself, replayed and shown."""
    assert said(capfd, "diff", honest, sent.run)[0] == 0
    assert said(capfd, "report", sent.run, "-o", "run.html")[0] == 0
    sent.edit(lambda name, value: "/other/python" if name == "executable" else value)
    status, text = said(capfd, "replay", "--times", "2", sent.home)
    assert (status, "called by another Python than the run's, which was /other/python" in text) == (0, True)


def test_what_lies_under_samebits_may_be_sent_too(sent: Sent, capfd: pytest.CaptureFixture[str]) -> None:
    """A folder that was unpacked there is removed like any; what its links lead to stays."""
    home = Path(".samebits", "20260131-120000-1")
    home.parent.mkdir()
    shutil.copytree(sent.home, home)
    (home / "out").symlink_to(sent.own.parent)
    (home / ".busy").symlink_to("/dev/zero")
    status, text = said(capfd, "clean")

    assert (status, home.exists()) == (0, False)
    assert_harmless(sent, text)


def test_a_strangers_lockfile_is_only_read(sent: Sent, capfd: pytest.CaptureFixture[str]) -> None:
    """Names that steer a terminal, paths that lead elsewhere: digested at most, and shown as what they are."""
    entry = replace(
        lockfile().entry("train"),
        data={"../reader/own.py": "00", "\x1b[2J": "00", str(sent.own): "00"},
        command=(f"train.py{sent.code}",),
        on={},
    )
    own = replace(locked(), artifacts={"{run}/../../../reader/own.py": "00", "{run}/\x1b[2J": "00"})
    update(Path("samebits.lock"), lambda now: now.with_run(f"a{sent.code}", entry, HERE, own))
    sent.edit(lambda name, value: entry.command[0] if name in ("typed", "command") else value)
    (sent.run / "files").mkdir()

    for form in form_names("verify"):
        status, text = said(capfd, "verify", f"a{sent.code}", "--format", form, "--recording", sent.run)
        assert status in (1, 2)
        assert_harmless(sent, text)


@pytest.mark.skipif(sys.platform == "win32", reason="names there hold no such characters")
def test_names_that_steer_are_shown(sent: Sent, capfd: pytest.CaptureFixture[str]) -> None:
    """An error names the file with every such character as its number."""
    status, text = said(capfd, "diff", "\x1b]0;title\x07", sent.run)

    assert status == 2
    assert r"there is no run folder \x1b]0;title\x07" in text
