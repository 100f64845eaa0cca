"""StandIn, Scene: what stands in for a function behaves like it, and is put in place and taken away exactly."""

import copy
import functools
import inspect
import os
import pickle
import subprocess
import sys
import time
import types
import weakref
from typing import Any

import pytest

from samebits.factors.base import Scene, Setting, Witness

MODULE = types.ModuleType("samebits_test_module")


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module with a function, as any library has."""
    monkeypatch.setitem(sys.modules, MODULE.__name__, MODULE)
    MODULE.add = add  # type: ignore[attr-defined]
    return MODULE


@pytest.fixture
def scene() -> Scene:
    return Scene("clock", Setting("pinned"))


def test_a_stand_in_looks_like_the_function(module: Any, scene: Scene) -> None:
    """Name, documentation, signature, attributes; callable, hashable, weakly referable, a key among functions."""
    add.units = "metres"  # type: ignore[attr-defined]
    stand_in = scene.replace(module, "add", lambda a, b=2: a - b)

    assert module.add is stand_in
    assert stand_in(5) == 3
    assert (stand_in.__name__, stand_in.__doc__, stand_in.units) == ("add", add.__doc__, "metres")
    assert inspect.signature(stand_in) == inspect.signature(add)
    assert inspect.unwrap(stand_in) is add
    assert callable(stand_in)
    assert weakref.ref(stand_in)() is stand_in
    assert {add: 1}[stand_in] == {stand_in: 1}[add] == 1
    assert add in {stand_in}
    assert add == stand_in == add
    assert stand_in != max
    assert stand_in != 3
    assert repr(stand_in) == repr(add)
    assert functools.partial(stand_in, 5)(1) == 4
    with pytest.raises(AttributeError):
        stand_in.kilometres  # noqa: B018


def test_stand_ins_of_stand_ins_are_all_equal(module: Any, scene: Scene) -> None:
    """Nested pins wrap each other, and tables still know them all."""
    inner = scene.replace(module, "add", add)
    outer = scene.replace(module, "add", add)

    assert outer == inner == add == outer
    assert hash(outer) == hash(add)
    assert {outer: 1}[add] == 1


def test_a_stand_in_is_copied_and_pickled_by_its_name(module: Any, scene: Scene) -> None:
    """As functions are: a copy is the same object, a pickle holds a name that any process can look up."""
    stand_in = scene.replace(module, "add", lambda a, b=2: a - b)
    raw = pickle.dumps(stand_in)

    assert copy.copy(stand_in) is copy.deepcopy(stand_in) is pickle.loads(raw) is stand_in
    scene.end()
    assert pickle.loads(raw) is add


def test_a_class_does_not_make_a_method_of_it(module: Any, scene: Scene) -> None:
    """Built-in functions are not bound, and neither are stand-ins; a plain function would be."""
    scene.replace(module, "add", lambda a, b=2: a - b)

    class Holder:
        stand_in, plain = module.add, add

    assert Holder().stand_in(5, 1) == 4
    with pytest.raises(TypeError):
        Holder().plain(5, 1)  # type: ignore[operator]


def test_an_attribute_comes_back_as_the_same_object(module: Any, scene: Scene) -> None:
    """Also a static method, and one that was inherited is inherited again."""

    class Base:
        @staticmethod
        def f() -> int:
            return 1

    class Child(Base):
        pass

    raw = vars(Base)["f"]
    scene.set(Base, "f", staticmethod(lambda: 2))
    scene.set(Child, "f", staticmethod(lambda: 3))
    assert (Base.f(), Child.f()) == (2, 3)
    scene.end()

    assert vars(Base)["f"] is raw
    assert "f" not in vars(Child)


def test_everything_is_undone_although_one_undoing_fails(module: Any, scene: Scene) -> None:
    """The others are not left behind, and the failure is not hidden."""
    scene.replace(module, "add", max)
    scene.undo.callback(lambda: 1 // 0)
    scene.set_environment("SAMEBITS_TEST_VARIABLE", "1")

    with pytest.raises(ZeroDivisionError):
        scene.end()
    assert module.add is add
    assert "SAMEBITS_TEST_VARIABLE" not in os.environ


def test_an_ended_scene_neither_witnesses_nor_treats() -> None:
    """Whoever kept a stand-in gets the original, and nobody hears of it."""
    seen: list[Witness] = []
    scene = Scene("clock", Setting("pinned"), report=seen.append)

    assert scene.enter("before") == "pinned"
    scene.end()
    assert scene.enter("after") == "natural"
    assert [w.what for w in seen] == ["before"]


@pytest.mark.parametrize("word", ["derive", "other"])
def test_streams_differ_by_seed_path_factor_and_variant(word: str) -> None:
    """Each of them is part of the derivation; the variant of what is varied only."""

    def value(factor: str = "clock", seed: int = 0, path: tuple[str | int, ...] = (), variant: int = 1) -> Any:
        return getattr(Scene(factor, Setting("varied", variant=variant), seed, path), word)("x")

    values = [value(), value("hash-seed"), value(seed=1), value(path=("rank", 0)), value(path=("rank", 1))]

    assert len(set(values)) == len(values)
    assert (value(variant=2) == value()) == (word == "derive")


def test_a_function_that_was_taken_before_is_found(module: Any, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of its own in a module of the user's cannot be replaced: it is told, with the file and what it holds."""
    scene.replace(module, "add", max)
    found = scene.taken_before()
    monkeypatch.delitem(globals(), "add")

    assert found == "test_stand_ins.py had imported samebits_test_module.add by name before"
    assert scene.taken_before() == ""


def test_names_that_come_after_are_fine(scene: Scene) -> None:
    """Taken while the stand-in is in place, a name is treated like any other."""
    scene.replace(time, "time_ns", lambda: 3)
    namespace: dict[str, Any] = {}
    exec("from time import time_ns", namespace)

    assert namespace["time_ns"]() == 3
    assert scene.taken_before() == ""
    scene.end()


def test_a_script_that_imported_by_name_is_told() -> None:
    """The whole way: the warning names the script and the function, and `strict` stops."""
    code = "import warnings\nfrom time import time\nimport samebits\nsamebits.pin(factors=['clock'], strict={})"
    told = [
        subprocess.run([sys.executable, "-c", code.format(strict)], capture_output=True, text=True, check=False)
        for strict in (False, True)
    ]

    assert [result.returncode for result in told] == [0, 1]
    assert "TooLateWarning: clock could not be pinned: __main__ had imported time.time by name before" in told[0].stderr
    assert "TooLateError: clock could not be pinned" in told[1].stderr
