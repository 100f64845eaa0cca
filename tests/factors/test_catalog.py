"""The catalogue: names, did you mean, and what every factor must have."""

import ast
import os
import string
from pathlib import Path

import pytest

import samebits
from samebits.base.errors import UnknownFactorError, UsageError
from samebits.base.sites import Site
from samebits.factors import base
from samebits.factors.base import CallFactor, Factor, Observation
from samebits.factors.catalog import CATALOG, find, in_order, names
from samebits.factors.context import FactorContext, Setting

SOURCE = Path(samebits.__file__).parent
each_factor = pytest.mark.parametrize("factor", CATALOG, ids=names())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("numpy", "numpy-rng"),
        ("numpy_rng", "numpy-rng"),
        ("Hash-Seed", "hash-seed"),
        ("hashseed", "hash-seed"),
        ("torch-algorithm", "torch-algorithms"),
        ("cudnn-benchmark", "cudnn-algorithms"),
    ],
)
def test_a_misspelt_factor_gets_a_suggestion(typed: str, meant: str) -> None:
    """The error names what was typed, and the nearest factor."""
    with pytest.raises(UnknownFactorError, match=f"there is no factor '{typed}'") as caught:
        find(typed)

    assert "did you mean" in caught.value.hint
    if typed != "cudnn-benchmark":
        assert caught.value.hint == f"did you mean {meant}?"


@pytest.mark.parametrize("typed", ["", "zzz", "🙂"])
def test_what_resembles_nothing_gets_the_list(typed: str) -> None:
    """All names, so that the next try is right."""
    with pytest.raises(UnknownFactorError) as caught:
        find(typed)

    assert all(name in caught.value.hint for name in names())


def test_names_are_found_and_ordered() -> None:
    """Each factor under its own name, in the catalogue's order, once."""
    assert [find(name) for name in names()] == list(CATALOG)
    assert in_order(["clock", "python-rng", "clock"]) == ["python-rng", "clock"]
    assert len(set(names())) == len(CATALOG)


@each_factor
def test_every_factor_says_what_it_must(factor: Factor) -> None:
    """A summary of one line, a story and a cure with known gaps, a page, a scope."""
    page = type(factor).__doc__ or ""

    assert factor.scope in ("environment", "process")
    assert len(factor.summary) <= 120
    assert not factor.summary.endswith(".")
    assert len(page.splitlines()) >= 3
    assert {field for _, field, _, _ in string.Formatter().parse(factor.explanation) if field} <= {"what"}
    for what in ("called", *factor.fixes):
        assert "{" not in factor.fix_for(None, "train.py", what) + factor.fix_for(Site("train.py", 3), "train.py", what)
    assert factor.has_sites or not isinstance(factor, CallFactor)
    assert all(len(line) - len(line.lstrip()) in (0, 4) for line in page.splitlines()), "no stray indentation"


@each_factor
def test_a_natural_context_without_listeners_does_nothing(factor: Factor) -> None:
    """Nothing is replaced, awaited or to be undone."""
    context = FactorContext(factor.name, Setting())
    factor.apply(context)

    assert context.awaited_modules == []
    assert context.undo.pop_all()._exit_callbacks == type(context.undo._exit_callbacks)()  # type: ignore[attr-defined]
    assert factor.environment(Setting(), 0, {"OMP_NUM_THREADS": "3", "PYTHONHASHSEED": "1"}) == {}


@each_factor
def test_observing_needs_no_context_and_no_torch(factor: Factor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value as text, whatever is loaded."""
    import sys

    import numpy.random  # noqa: F401 - whatever ran before this test: first they are there
    import torch  # noqa: F401

    seen = [factor.observe(), factor.observe(FactorContext(factor.name, Setting("pinned")))]
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.delitem(sys.modules, "numpy.random")
    seen += [factor.observe(), factor.observe(FactorContext(factor.name, Setting("pinned")))]

    assert all(observation.value for observation in seen)


@each_factor
def test_a_value_that_cannot_be_pinned_to_is_refused(factor: Factor) -> None:
    """With the factor's name and the value, before anything is touched."""
    with pytest.raises(UsageError, match=f"{factor.name} takes .*'no such value'"):
        samebits.pin(factors=[], values={factor.name: "no such value"})


def test_shared_code_knows_no_factor_by_name() -> None:
    """What all factors use, and what uses all factors, is written without naming one."""
    shared = [SOURCE / "factors" / "pinning.py", SOURCE / "base" / "sites.py"]
    shared += [SOURCE / "factors" / f"{name}.py" for name in ("base", "context", "imports")]
    for path in shared:
        tree = ast.parse(path.read_text())
        docs = {id(node.body[0].value) for node in ast.walk(tree) if _has_docstring(node)}  # type: ignore[attr-defined]
        texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in docs]
        named = [text for text in texts if isinstance(text, str) and any(name in text for name in names())]
        assert named == [], path


def _has_docstring(node: ast.AST) -> bool:
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    return documented and ast.get_docstring(node) is not None  # type: ignore[arg-type]


def test_a_factor_of_ones_own_needs_no_more_than_the_base() -> None:
    """It is treated only where something is asked; what is in effect is the one thing that each has to say."""

    class Mine(base.Factor):
        name, summary, explanation = "mine", "mine", "mine"
        done: list[str] = []  # noqa: RUF012

        def treat(self, context: FactorContext) -> None:
            self.done.append(context.mode)

        def observe(self, context: FactorContext | None = None) -> Observation:
            return Observation("mine", held=None)

    for setting in (Setting("pinned"), Setting("varied"), Setting()):
        Mine().apply(FactorContext("mine", setting, report=print))
    Mine().apply(FactorContext("mine", Setting()))

    assert Mine.done == ["pinned", "varied", "natural"]
    with pytest.raises(TypeError, match="observe"):
        type("Mute", (base.Factor,), {})()


SITE = Site(os.path.join(os.getcwd(), "data", "files.py"), 12, "load")
PLACE = "data/files.py:12"
CURES = [
    ("python-rng", "", f"call random.seed(0) once, at the start of train.py, before {PLACE} draws"),
    ("numpy-rng", "", f"call np.random.seed(0) once, at the start of train.py, before {PLACE} draws"),
    (
        "torch-rng",
        "called",
        f"call torch.manual_seed(0) once, at the start of train.py, before {PLACE} draws",
    ),
    (
        "clock",
        "",
        f"use a fixed value, or count steps, instead of the time read at {PLACE}",
    ),
    (
        "clock",
        "time.perf_counter",
        f"count steps, or write the choice into the code, instead of deciding by the seconds read at {PLACE}",
    ),
    ("hash-seed", "", f"sort before ordering: sorted(set(...), key=str) at {PLACE}, or use dict.fromkeys(...)"),
    ("file-order", "", f"sort the listing at {PLACE}: sorted(...)"),
    (
        "completion-order",
        "asyncio.as_completed",
        f"take the results in the order of their tasks at {PLACE}: iterate over the tasks themselves",
    ),
    ("completion-order", "Pool.imap_unordered", f"call imap instead of imap_unordered at {PLACE}"),
    (
        "files-left-behind",
        "outside",
        f"delete what {PLACE} finds before every training, or make it once before the first one",
    ),
    ("cudnn-autotune", "", f"set torch.backends.cudnn.benchmark = False at {PLACE}"),
    (
        "os-entropy",
        "random.SystemRandom",
        f"draw at {PLACE} from one random.Random(0), made once, not from a random.SystemRandom",
    ),
    ("os-entropy", "os.urandom", f"draw from random.Random(0) instead of os.urandom at {PLACE}"),
    ("os-entropy", "uuid.uuid4", f"use a counter instead of uuid.uuid4 at {PLACE}"),
    ("os-entropy", "random.Random()", f"give random.Random() at {PLACE} a seed"),
    ("os-entropy", "NumPy's generator", f"give NumPy's generator at {PLACE} a seed"),
    ("os-entropy", "torch.Generator.seed()", f"call manual_seed(0) instead of torch.Generator.seed() at {PLACE}"),
    (
        "os-entropy",
        "torch.cuda.seed_all()",
        f"call torch.cuda.manual_seed_all(0) instead of torch.cuda.seed_all() at {PLACE}",
    ),
]


@pytest.mark.parametrize(("name", "called", "fix"), CURES, ids=[f"{name} {called}" for name, called, _ in CURES])
def test_a_cure_names_the_line_and_fits_what_was_called(name: str, called: str, fix: str) -> None:
    """A seed belongs at the start of the script that is run, whatever file draws; everything else at its own line."""
    assert find(name).fix_for(SITE, os.path.abspath("train.py"), called) == fix


@each_factor
def test_without_a_line_a_cure_names_none(factor: Factor) -> None:
    """A whole sentence all the same, and the script where that is known."""
    fix = factor.fix_for()

    assert " at ," not in fix
    assert ("the script" in fix) == factor.fixed_once == ("train.py" in factor.fix_for(script="train.py"))
