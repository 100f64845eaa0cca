"""What files hold: the same content has the same leaves wherever it lies, and another one is named."""

import gzip
import json
import os
import pickle
import sqlite3
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from torch import nn

from samebits.comparison.contents import content_of
from samebits.comparison.products import Products, differing_leaves


class Scaled(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.inner, self.by = nn.Linear(2, 2), by
        nn.init.ones_(self.inner.weight)
        nn.init.zeros_(self.inner.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * self.by


class Forest:
    """As scikit-learn's estimators: what was fitted are attributes, arrays among them."""

    def __init__(self, by: float) -> None:
        self.depth, self.trees_ = 3, [np.arange(4.0), np.array([0.5, by])]


def one_more(raw: bytes) -> bytes:
    """A record of an event file: length, checksum, content, checksum."""
    return struct.pack("<Q", len(raw)) + b"\0" * 4 + raw + b"\0" * 4


def write_events(path: Path, by: float) -> None:
    scalar = b"\x0a\x04loss\x15" + struct.pack("<f", by)
    summary = b"\x0a" + bytes([len(scalar)]) + scalar
    event = b"\x09" + struct.pack("<d", 7.0) + b"\x10\x01" + b"\x2a" + bytes([len(summary)]) + summary
    first = b"\x09" + struct.pack("<d", 7.0) + b"\x1a\x0dbrain.Event:2"
    header = struct.pack("<Q", len(first)) + bytes.fromhex("a37f4b22") + first + b"\0" * 4
    path.write_bytes(header + one_more(event))


def write_table(path: Path, by: float) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE runs(name, score)")
    database.execute("INSERT INTO runs VALUES('one', ?)", (by,))
    database.commit()
    database.close()


def scripted(path: Path, by: float) -> None:
    torch.jit.script(Scaled(by)).save(str(path))


def exported(path: Path, by: float) -> None:
    torch.export.save(torch.export.export(Scaled(by), (torch.ones(1, 2),)), path)


def arrays(path: Path, by: float) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, x=np.ones(2), y=np.array([by, None], dtype=object))


def old_format(path: Path, by: float) -> None:
    path.write_bytes(pickle.dumps({"forest": Forest(by), "names": {"b", "a", "c"}}))


def packed(path: Path, by: float) -> None:
    path.write_bytes(gzip.compress(json.dumps({"score": by}).encode()))


def archived(path: Path, by: float) -> None:
    torch.save({"best": by}, inside := path.with_name("model.pt"))
    with tarfile.open(path, "w:xz") as file:
        file.add(inside, "model.pt")


def dumped(path: Path, by: float, **how: object) -> None:
    """Arrays and tensors in one file of joblib, where a pickle names a tensor's storage by its address."""
    own = {"net": Scaled(1.0).state_dict(), "scale": np.full((2, 3), by), "any": np.array(["x", None], dtype=object)}
    joblib.dump({**own, "names": np.array(["a", "bc"]), "last": 1}, path, **how)


# How a file is written that holds a number, and the leaf that says so.
WRITTEN: list[tuple[Callable[[Path, float], object], str]] = [
    (scripted, "by"),
    (exported, "models/model.json: graph_module.graph.nodes[1].inputs[1].arg.as_float"),
    (lambda path, by: torch.save(Scaled(by), path), "by"),
    (lambda path, by: torch.save({"net": Scaled(1.0).state_dict(), "best": by}, path), "best"),
    (lambda path, by: torch.save({"ema": torch.ones(3)[1:] * by}, path), "ema"),
    *((partial(dumped, **how), "scale.elements") for how in ({}, {"compress": 3}, {"compress": ("lzma", 1)})),
    (lambda path, by: path.write_bytes(pickle.dumps({"net": Scaled(1.0), "ema": torch.ones(2) * by})), "ema"),
    (lambda path, by: torch.save({"ema": torch.ones(2) * by}, path, _use_new_zipfile_serialization=False), "ema"),
    (lambda path, by: torch.save({"names": ["cat", "dog"] if by == 1.0 else ["dog", "cat"]}, path), "names[0]"),
    (lambda path, by: torch.save({"a": 1, "b": 2} if by == 1.0 else {"b": 2, "a": 1}, path), "keys, word 1"),
    (lambda path, by: torch.save({"tail": torch.tensor([1.0, 1.0, by])[2:]}, path), "tail"),
    (lambda path, by: path.write_bytes(pickle.dumps("header", 2) + pickle.dumps({"score": by}, 2)), ""),
    (arrays, "y.npy: elements.state[4][0]"),
    (old_format, "forest.trees_[1].state[4]"),
    (write_table, "runs[0][1]"),
    (write_events, "record 1.5.1.2"),
    (packed, "score"),
    (archived, "model.pt: best"),
    (lambda path, by: path.write_text(json.dumps({"scores": [0.5, by]})), "scores[1]"),
    (lambda path, by: path.write_text(f"epoch 1 loss 0.5\nepoch 2 loss {by}\n"), "line 2, word 4"),
    (lambda path, by: path.write_bytes(b"\xff\0" + struct.pack("<d", by)), ""),
]


@pytest.mark.parametrize(("write", "leaf"), WRITTEN, ids=[leaf or "bytes" for _, leaf in WRITTEN])
def test_the_same_content_is_the_same_and_another_is_named(
    write: Callable[[Path, float], object], leaf: str, tmp_path: Path
) -> None:
    """Under another name, a second later; and with another value, at its leaf."""
    one, again, other = tmp_path / "one.x", tmp_path / "named otherwise.x", tmp_path / "other.x"
    for path, by in ((one, 1.0), (again, 1.0), (other, 2.0)):
        write(path, by)

    assert content_of(one) == content_of(again)
    found = differing_leaves(*(Products({"file": content_of(path)}) for path in (one, other)))
    assert [one.key for one in found][:1] == [("file", leaf)]


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return exec, (f"open({str(self.path)!r}, 'w').write('run')",)


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    """A pickle is read by names; what is no pickle after all is known by its bytes."""
    trace, own, torn = tmp_path / "trace", tmp_path / "evil.pt", tmp_path / "torn.pt"
    torch.save({"evil": Evil(trace), "x": 1}, own)
    torn.write_bytes(own.read_bytes()[:200])

    assert content_of(own)["x"] == "1"
    assert list(content_of(torn)) == [""]
    assert not trace.exists()


def test_what_holds_itself_has_an_end(tmp_path: Path) -> None:
    """Modules that know their parents do."""
    net = Scaled(1.0)
    object.__setattr__(net.inner, "parent", net)
    torch.save(net, tmp_path / "net.pt")

    assert content_of(tmp_path / "net.pt")["_modules.inner.parent"] == "as the whole"


class Halves:
    """Its state is a pair of dictionaries, which may have the same keys."""

    def __init__(self, train: int, test: int) -> None:
        self.train, self.test = train, test

    def __getstate__(self) -> object:
        return {"size": self.train}, {"size": self.test}

    def __setstate__(self, state: object) -> None: ...


SAMPLES = [{"path": "a"}, {"path": "b"}]
GRID = torch.arange(24.0).view(4, 6)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"all": SAMPLES, "test": SAMPLES[:1]}, {"all": SAMPLES, "test": SAMPLES[1:]}),
        ([{}, {}, {}], [{}]),
        ({"a": {}}, {"b": {}}),
        (Halves(1, 2), Halves(3, 2)),
        (GRID[:, 0], GRID[:, 3]),
        (GRID[:3, :3], GRID[1:, 2:5]),
        (GRID[:, :4], GRID[:, :4].t()),
    ],
    ids=["a shared object", "empty dictionaries", "keys of those", "two states", "columns", "crops", "a transpose"],
)
def test_another_object_has_other_leaves(one: object, other: object, tmp_path: Path) -> None:
    """In a plain pickle, where no recording sees the tensors; the same object again has the same leaves."""
    found = []
    for number, thing in enumerate((one, one, other)):
        path = tmp_path / str(number)
        path.write_bytes(pickle.dumps(thing))
        found.append(content_of(path))

    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("ends", [".db.gz", ".zip", ".tar"])
def test_a_database_in_an_archive_counts(ends: str, tmp_path: Path) -> None:
    for name, by in (("a", 1.0), ("b", 2.0)):
        write_table(tmp_path / "table.db", by)
        if ends == ".db.gz":
            (tmp_path / f"{name}{ends}").write_bytes(gzip.compress((tmp_path / "table.db").read_bytes()))
        elif ends == ".zip":
            with zipfile.ZipFile(tmp_path / f"{name}{ends}", "w") as archive:
                archive.write(tmp_path / "table.db", "table.db")
        else:
            with tarfile.open(tmp_path / f"{name}{ends}", "w") as tar:
                tar.add(tmp_path / "table.db", "table.db")
        (tmp_path / "table.db").unlink()

    assert content_of(tmp_path / f"a{ends}") != content_of(tmp_path / f"b{ends}")


@pytest.mark.parametrize("length", [0, 1, 300, 600, 1100, 2048])
def test_an_archive_that_is_cut_off_counts_by_its_bytes(length: int, tmp_path: Path) -> None:
    """A shard that a run was writing when it was ended."""
    (tmp_path / "sample.txt").write_text("a sample\n" * 200)
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        tar.add(tmp_path / "sample.txt", "sample.txt")
    cut = tmp_path / "cut.tar"
    cut.write_bytes((tmp_path / "shard.tar").read_bytes()[:length])

    assert content_of(cut) != content_of(tmp_path / "shard.tar")


def test_the_constants_of_torchscript_are_in_no_order(tmp_path: Path) -> None:
    """It writes them as a set gives them, in another order under another hash seed."""
    code = "import sys, torch; torch.manual_seed(0); torch.jit.script(torch.nn.Linear(4, 2)).save(sys.argv[1])"
    paths = [tmp_path / f"{seed}.pt" for seed in (1, 2)]
    for seed, path in enumerate(paths, 1):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(path)], env=environment, check=True)

    assert paths[0].read_bytes() != paths[1].read_bytes()
    assert content_of(paths[0]) == content_of(paths[1])
