"""Call sites: the user's line, however much library lies in between."""

import dataclasses
import functools
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samebits.base.sites import Site, called_by_user, error_site, is_user_file, shown_path, user_files, user_modules
from tests.factors.contexts import here, watched


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (__file__, True),
        ("train.py", True),
        ("/home/me/site-packages-tools/train.py", True),
        (os.__file__, False),
        (random.__file__, False),
        (pytest.__file__, False),
        ("/opt/x/lib/python3/dist-packages/numpy/core.py", False),
        ("/tmp/torchinductor_me/ab/cabdef.py", False),
        ("<frozen importlib._bootstrap>", False),
        ("<attrs generated init x>", False),
        ("<__array_function__ internals>", False),
        (sys.modules["samebits.factors.pinning"].__file__, False),
    ],
)
def test_what_belongs_to_the_user(path: str, expected: bool) -> None:
    """Scripts and local modules do; installed packages, the standard library, samebits and made-up code do not."""
    assert is_user_file(path) == expected


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.cache
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@decorated
def decorated_draw() -> float:
    return random.random()


@dataclasses.dataclass
class Sample:
    value: float = dataclasses.field(default_factory=lambda: random.random())


def test_functions_of_every_sort_are_sites() -> None:
    """Decorated functions, lambdas, comprehensions, generators, methods: the line where the draw is written."""

    class Model:
        def draw(self) -> float:
            return random.random()

    def generator() -> Any:
        yield random.random()

    start = here()
    with watched("python-rng") as seen:
        decorated_draw()
        (lambda: random.random())()
        [random.random() for _ in range(3)]
        list(generator())
        Model().draw()
        sorted([3, 1, 2], key=lambda _: random.random())
        min([1, 2], key=lambda _: random.random())

    sites = [w.site for w in seen if w.site]
    assert [site.line for site in sites] == [
        decorated_draw.__wrapped__.__wrapped__.__code__.co_firstlineno + 2,  # type: ignore[attr-defined]
        start + 3,
        start + 4,
        start - 2,
        start - 5,
        start + 7,
        start + 8,
    ]
    assert {site.path for site in sites} == {__file__}
    assert sites[0].function == "decorated_draw"
    assert "draw" in sites[4].function


def test_made_up_code_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """The constructor of a dataclass lies in `<string>`: what draws in there is blamed on lines that exist."""
    # pytest-xdist runs its workers as `python -c`, where `<string>` is the program.
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "train.py", raising=False)
    with watched("python-rng") as seen:

        @dataclasses.dataclass
        class Bare:
            value: float = dataclasses.field(default_factory=random.random)

        line = here() + 1
        Bare()
        Sample()

    default: Any = Sample.__dataclass_fields__["value"].default_factory
    assert [w.site and (w.site.path, w.site.line) for w in seen] == [
        (__file__, line),
        (__file__, default.__code__.co_firstlineno),
    ]


def test_code_on_the_command_line_and_in_a_pipe_is_the_users(tmp_path: Path) -> None:
    """`python -c`, `python -` and `exec` in a script: only the first two have no file to name."""
    program = "import random, samebits.factors.pinning as p\nseen = []\nt = p.treat({}, 0, report=seen.append)\n"
    program += "random.random()\nprint([(w.site.path, w.site.line) for w in seen])\n"
    script = tmp_path / "script.py"
    script.write_text(program.replace("random.random()", "exec('random.random()')"))

    def output(*arguments: str, text: str | None = None) -> str:
        return subprocess.check_output([sys.executable, *arguments], input=text, text=True)

    assert output("-c", program) == "[('<string>', 4)]\n"
    assert output("-", text=program) == "[('<stdin>', 4)]\n"
    assert output(str(script)) == f"[({str(script)!r}, 4)]\n"


def test_helper_modules_and_installed_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper beside the script is where it happened; an installed package is not, so its caller is."""
    (tmp_path / "helper_beside.py").write_text("import random\n\n\ndef noise():\n    return random.random()\n")
    installed = tmp_path / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "helper_installed.py").write_text("import random\n\n\ndef noise():\n    return random.random()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(installed))
    import helper_beside  # type: ignore[import-not-found]
    import helper_installed  # type: ignore[import-not-found]

    with watched("python-rng") as seen:
        helper_beside.noise()
        start = here() + 1
        helper_installed.noise()

    assert [(w.site.path, w.site.line) for w in seen if w.site] == [
        (str(tmp_path / "helper_beside.py"), 5),
        (__file__, start),
    ]
    assert str(tmp_path / "helper_beside.py") in user_files()
    assert str(installed / "helper_installed.py") not in user_files()
    assert helper_beside in user_modules()


def test_a_site_tells_its_source_and_its_key() -> None:
    """The line as it is written; two functions on one line are one place."""
    line = here()
    site = Site(__file__, line, "f")

    assert site.source == "line = here()"
    assert site.key == Site(__file__, line, "g").key
    assert Site("/nowhere.py", 1).source == ""


def test_the_site_of_an_error_is_the_innermost_line_of_the_users() -> None:
    """The traceback still knows it when the frames are gone."""

    def fail() -> None:
        random.choice([])

    line = fail.__code__.co_firstlineno + 1
    with pytest.raises(IndexError) as caught:
        fail()
    site = error_site(caught.value)

    assert site is not None
    assert (site.path, site.line) == (__file__, line)
    assert error_site(ValueError("never raised")) is None


def test_looking_for_the_users_modules_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some modules import others when they are asked for an attribute; they are not asked."""
    import types

    class Lazy(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"asked for {name}")

    monkeypatch.setitem(sys.modules, "samebits_lazy", Lazy("samebits_lazy"))
    monkeypatch.setitem(sys.modules, "samebits_odd", object())  # type: ignore[arg-type]

    assert "samebits_lazy" not in {module.__name__ for module in user_modules()}
    assert user_files()


SCRIPT = """
import atexit
from samebits.base.sites import user_files, user_script
atexit.register(lambda: print(user_script(), user_files()))
"""


@pytest.mark.parametrize(
    "words", [["train.py"], ["-m", "train"], ["-c", "import train"]], ids=["file", "module", "code"]
)
def test_the_script_is_known_to_the_end(words: list[str], tmp_path: Path) -> None:
    """Python takes the file's name away before it asks exit handlers; code given on the command line is no file."""
    (tmp_path / "train.py").write_text(SCRIPT)
    told = subprocess.check_output([sys.executable, *words], cwd=tmp_path, text=True)

    path = str(tmp_path / "train.py")
    assert told == f"{'' if words[0] == '-c' else path} {[path]}\n"


def test_a_place_is_shown_as_short_as_it_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative in the current folder and below, absolute elsewhere; code without a file as it is."""
    monkeypatch.chdir(tmp_path)

    assert Site(str(tmp_path / "a" / "train.py"), 3).place == f"a{os.sep}train.py:3"
    assert shown_path(str(tmp_path.parent / "x.py")) == str(tmp_path.parent / "x.py")
    assert shown_path("<string>") == "<string>"


def test_what_was_called_is_the_librarys_outermost_function() -> None:
    """Without its private parts; a constructor goes by its class; empty where no library lies in between."""
    text = "def _ask(ask): return ask()\ndef asked(ask): return _ask(ask)"
    library: dict[str, Any] = {"__name__": "lib._core.ask"}
    exec(compile(text, os.path.join(os.path.dirname(os.__file__), "x.py"), "exec"), library)

    assert called_by_user() == ""
    assert library["asked"](called_by_user) == "lib.ask.asked"
    assert library["_ask"](called_by_user) == "lib.ask.ask"


def test_a_place_that_was_sent_is_not_read(tmp_path: Path) -> None:
    """A document names any path, the reader's own files too; a place of this process has the line of its file."""
    path = tmp_path / "own.py"
    path.write_text("secret = 1\n")

    assert Site.from_note({"path": str(path), "line": 1, "source": ""}).source == ""
    assert Site(str(path), 1).source == "secret = 1"
