"""What the factors of the standard library do, checked on any Python without torch, NumPy or pytest.

Run as `python stdlib_probe.py` with samebits on the path; silent when all is well.
"""

import dataclasses
import datetime
import glob
import os
import pathlib
import pickle
import random
import shutil
import sys
import tempfile
import time
import uuid
import warnings

import samebits
from samebits.factors.context import Setting, Witness
from samebits.factors.pinning import treat

FACTORS = ("python-rng", "os-entropy", "clock", "file-order")
warnings.simplefilter("ignore", samebits.TooLateWarning)


def listings(folder: str) -> dict[str, list[str]]:
    """The names in a folder, by every way to list it."""
    path = pathlib.Path(folder)
    with os.scandir(folder) as entries:
        scanned = [entry.name for entry in entries]
    found = {
        "listdir": os.listdir(folder),
        "scandir": scanned,
        "walk": next(iter(os.walk(folder)))[2],
        "walk bottom up": list(os.walk(folder, topdown=False))[-1][2],
        "glob": [os.path.basename(name) for name in glob.glob(os.path.join(folder, "*.txt"))],
        "glob recursive": [os.path.basename(n) for n in glob.glob(os.path.join(folder, "**", "*.txt"), recursive=True)],
        "iglob": [os.path.basename(name) for name in glob.iglob(os.path.join(folder, "*.txt"))],
        "iterdir": [entry.name for entry in path.iterdir()],
        "path glob": [entry.name for entry in path.glob("*.txt")],
        "rglob": [entry.name for entry in path.rglob("*.txt")],
    }
    if sys.version_info >= (3, 12):
        found["path walk"] = next(iter(path.walk()))[2]
    return found


def classes() -> dict[str, type]:
    """Classes of every kind that decides about its hash, made anew."""

    class Plain:
        pass

    class Slots:
        __slots__ = ()

    class Own:
        def __hash__(self) -> int:
            return 77

    class Equal:
        def __eq__(self, other: object) -> bool:
            return True

    class Second(Plain, Own):
        pass

    class Child(Plain):
        pass

    @dataclasses.dataclass
    class Fields:
        pass

    @dataclasses.dataclass(frozen=True)
    class Frozen:
        pass

    @dataclasses.dataclass(eq=False)
    class Same:
        pass

    return dict(locals())


def hashed(cls: type) -> str:
    """Whether objects of a class are numbered, hash by their addresses or in a way of their own, or not at all."""
    thing = cls()
    try:
        found = hash(thing)
    except TypeError:
        return "not"
    is_small = found < 1000
    return "address" if found == object.__hash__(thing) else "number" if is_small and found != 77 else "own"


def check_own_classes() -> None:
    natural = {name: hashed(cls) for name, cls in classes().items()}
    treatment = treat({"memory-addresses": Setting("pinned")}, 0)
    made = classes()
    pinned = {name: hashed(cls) for name, cls in made.items()}
    kept = made["Plain"]()
    found = {kept}
    order = [made["Child"]() for _ in range(50)]
    assert list(set(order)) == order
    assert made["Plain"].__hash__ is object.__hash__
    assert "__hash__" not in vars(made["Plain"])
    try:
        type("Wrong", (made["Plain"],), {}, x=1)
        said = ""
    except TypeError as error:
        said = str(error)
    assert "Wrong.__init_subclass__() takes no keyword arguments" in said
    treatment.undo()
    assert kept in found
    assert hashed(made["Child"]) == "address"
    del kept, found, order
    assert {name: hashed(cls) for name, cls in made.items()} == natural
    assert {name: hashed(cls) for name, cls in classes().items()} == natural
    numbered = {"Plain", "Child", "Same"}
    assert {name for name in natural if natural[name] == "address"} == {*numbered, "Slots"}, natural
    assert pinned == {**natural, **dict.fromkeys(numbered, "number")}, pinned


def check_file_order(folder: str) -> None:
    natural = listings(folder)
    for mode, variant, expected in (("pinned", 1, sorted), ("varied", 2, lambda names: sorted(names, reverse=True))):
        treatment = treat({"file-order": Setting(mode, variant=variant)}, 0)  # type: ignore[arg-type]
        found = listings(folder)
        treatment.undo()
        for way, names in found.items():
            assert names == expected(names), (mode, way, names)
            assert sorted(names) == sorted(natural[way]), (mode, way, names)
    treatment = treat({"file-order": Setting("varied")}, 0)
    assert listings(folder)["listdir"] == natural["listdir"][::-1]
    assert listings(folder)["iterdir"] == natural["iterdir"][::-1]
    treatment.undo()
    assert listings(folder) == natural


def check_witness(folder: str) -> None:
    seen: list[Witness] = []
    treatment = treat({"file-order": Setting("pinned")}, 0, report=seen.append)
    line = sys._getframe().f_lineno + 1
    list(pathlib.Path(folder).rglob("*"))
    list(glob.glob(f"{folder}/*"))
    random.random()
    treatment.undo()
    assert [w.site.line for w in seen if w.site] == [line, line + 1, line + 2], seen
    assert [w.factor for w in seen] == ["file-order", "file-order", "python-rng"], seen
    assert all(w.site and w.site.function.endswith("check_witness") for w in seen)


def drawn() -> list[object]:
    now = datetime.datetime.now()
    moments = [time.time(), time.time_ns(), time.ctime(), time.strftime("%c"), now, datetime.date.today()]
    entropy = [os.urandom(8), uuid.uuid4(), random.Random().random(), random.SystemRandom().random()]
    assert pickle.loads(pickle.dumps(now)) == now
    return [*moments, *entropy, random.random(), random.sample(range(99), 5), random.gauss(0, 1)]


def check_values() -> None:
    state, own = (
        random.getstate(),
        {module: dict(vars(module)) for module in (os, random, time, datetime, random.Random)},
    )
    with samebits.pinned(factors=list(FACTORS)):
        pinned = drawn()
    with samebits.pinned(factors=list(FACTORS)):
        assert drawn() == pinned
    treatment = treat({name: Setting("varied") for name in FACTORS}, 0)
    varied = drawn()
    treatment.undo()
    assert all(a != b for a, b in zip(pinned, varied, strict=True)), (pinned, varied)
    assert random.getstate() == state
    for module, before in own.items():
        changed = {name for name, value in vars(module).items() if before.get(name) is not value}
        assert not changed, (module, changed)


def check_deprecation() -> None:
    # datetime.utcnow warns from 3.12 on, and the warning belongs to the line that called it.
    with warnings.catch_warnings(record=True) as told, samebits.pinned(factors=["clock"]):
        warnings.simplefilter("always", DeprecationWarning)
        datetime.datetime.utcnow()
    expected = [__file__] if sys.version_info >= (3, 12) else []
    assert [w.filename for w in told if "utcnow" in str(w.message)] == expected, told


def check_shutil(folder: str) -> None:
    # shutil decides when it is imported, by asking for `os.scandir in os.supports_fd`.
    with samebits.pinned(factors=["file-order"]):
        assert (os.scandir in os.supports_fd) == shutil.rmtree.avoids_symlink_attacks
        copy = shutil.copytree(folder, folder + "-copy")
        shutil.rmtree(copy)


def check_status() -> None:
    with samebits.pinned():
        found = samebits.status()
    assert found["torch-rng"].observation.held is True
    assert samebits.status()["torch-algorithms"].observation.held is None
    assert not {"torch", "numpy"} & set(sys.modules)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as root:
        data = os.path.join(root, "data")
        os.mkdir(data)
        for stem in random.Random(1).sample(["a", "b", "c", "d", "e", "f", "ä", "z10", "z9"], 9):
            open(os.path.join(data, f"{stem}.txt"), "w").close()
        check_own_classes()
        check_file_order(data)
        check_witness(data)
        check_values()
        check_deprecation()
        check_shutil(data)
        check_status()
