"""PatchedFunction, FactorContext: what replaces a function behaves like it, and is put in and taken away exactly."""

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

from samebits.factors.context import FactorContext, Setting, Witness

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
def context() -> FactorContext:
    return FactorContext("clock", Setting("pinned"))


def test_a_stand_in_looks_like_the_function(module: Any, context: FactorContext) -> None:
    """Name, documentation, signature, attributes; callable, hashable, weakly referable, a key among functions."""
    add.units = "metres"  # type: ignore[attr-defined]
    patched = context.replace(module, "add", lambda _, a, b=2: a - b)

    assert module.add is patched
    assert patched(5) == 3
    assert (patched.__name__, patched.__doc__, patched.units) == ("add", add.__doc__, "metres")
    assert inspect.signature(patched) == inspect.signature(add)
    assert inspect.unwrap(patched) is add
    assert callable(patched)
    assert weakref.ref(patched)() is patched
    assert {add: 1}[patched] == {patched: 1}[add] == 1
    assert add in {patched}
    assert add == patched == add
    assert patched != max
    assert patched != 3
    assert repr(patched) == repr(add)
    assert functools.partial(patched, 5)(1) == 4
    with pytest.raises(AttributeError):
        patched.kilometres  # noqa: B018


def test_stand_ins_of_stand_ins_are_all_equal(module: Any, context: FactorContext) -> None:
    """Nested pins wrap each other, and tables still know them all."""
    inner = context.replace(module, "add", add)
    outer = context.replace(module, "add", add)

    assert outer == inner == add == outer
    assert hash(outer) == hash(add)
    assert {outer: 1}[add] == 1


def test_a_stand_in_is_copied_and_pickled_by_its_name(module: Any, context: FactorContext) -> None:
    """As functions are: a copy is the same object, a pickle holds a name that any process can look up."""
    patched = context.replace(module, "add", lambda _, a, b=2: a - b)
    raw = pickle.dumps(patched)

    assert copy.copy(patched) is copy.deepcopy(patched) is pickle.loads(raw) is patched
    context.end()
    assert pickle.loads(raw) is add


def test_a_class_does_not_make_a_method_of_it(module: Any, context: FactorContext) -> None:
    """Built-in functions are not bound, and neither are patched functions; a plain function would be."""
    context.replace(module, "add", lambda _, a, b=2: a - b)

    class Holder:
        patched, plain = module.add, add

    assert Holder().patched(5, 1) == 4
    with pytest.raises(TypeError):
        Holder().plain(5, 1)  # type: ignore[operator]


def test_an_attribute_comes_back_as_the_same_object(module: Any, context: FactorContext) -> None:
    """Also a static method, and one that was inherited is inherited again."""

    class Base:
        @staticmethod
        def f() -> int:
            return 1

    class Child(Base):
        pass

    raw = vars(Base)["f"]
    context.set(Base, "f", staticmethod(lambda: 2))
    context.set(Child, "f", staticmethod(lambda: 3))
    assert (Base.f(), Child.f()) == (2, 3)
    context.end()

    assert vars(Base)["f"] is raw
    assert "f" not in vars(Child)


def test_everything_is_undone_although_one_undoing_fails(module: Any, context: FactorContext) -> None:
    """The others are not left behind, and the failure is not hidden."""
    context.replace(module, "add", max)
    context.undo.callback(lambda: 1 // 0)
    context.set_environment("SAMEBITS_TEST_VARIABLE", "1")

    with pytest.raises(ZeroDivisionError):
        context.end()
    assert module.add is add
    assert "SAMEBITS_TEST_VARIABLE" not in os.environ


def test_an_ended_context_neither_witnesses_nor_treats() -> None:
    """A program that kept a patched function gets the original, and nothing is reported."""
    seen: list[Witness] = []
    context = FactorContext("clock", Setting("pinned"), report=seen.append)

    assert context.enter("before") == "pinned"
    context.end()
    assert context.enter("after") == "natural"
    assert [w.what for w in seen] == ["before"]


@pytest.mark.parametrize("word", ["derive", "derive_varied"])
def test_streams_differ_by_seed_path_factor_and_variant(word: str) -> None:
    """Each of them is part of the derivation; the variant of what is varied only."""

    def value(factor: str = "clock", seed: int = 0, path: tuple[str | int, ...] = (), variant: int = 1) -> Any:
        return getattr(FactorContext(factor, Setting("varied", variant=variant), seed, path), word)("x")

    values = [value(), value("hash-seed"), value(seed=1), value(path=("rank", 0)), value(path=("rank", 1))]

    assert len(set(values)) == len(values)
    assert (value(variant=2) == value()) == (word == "derive")


def test_a_function_that_was_taken_before_is_found(
    module: Any, context: FactorContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of its own in a module of the user's cannot be replaced: it is told, with the file and what it holds."""
    context.replace(module, "add", max)
    found = context.early_import()
    monkeypatch.delitem(globals(), "add")

    assert found == "test_patching.py had imported samebits_test_module.add by name before"
    assert context.early_import() == ""


def test_names_that_come_after_are_fine(context: FactorContext) -> None:
    """Taken while the patched function is in place, a name is treated like any other."""
    context.replace(time, "time_ns", lambda _: 3)
    namespace: dict[str, Any] = {}
    exec("from time import time_ns", namespace)

    assert namespace["time_ns"]() == 3
    assert context.early_import() == ""
    context.end()


def test_a_script_that_imported_by_name_is_told() -> None:
    """The whole way: the warning names the script and the function, and `strict` stops."""
    code = "from time import time\nimport samebits\nsamebits.pin(factors=['clock'], strict={})"
    told = [
        subprocess.run([sys.executable, "-c", code.format(strict)], capture_output=True, text=True, check=False)
        for strict in (False, True)
    ]

    assert [result.returncode for result in told] == [0, 1]
    assert "TooLateWarning: clock could not be pinned: __main__ had imported time.time by name before" in told[0].stderr
    assert "TooLateError: clock could not be pinned" in told[1].stderr
