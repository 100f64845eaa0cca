"""pin(), pinned(), status(): hold factors still in this process, look whether it worked, and put everything back."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from samebits.base.errors import TooLateError, TooLateWarning, UsageError
from samebits.base.ranks import rank_path
from samebits.base.records import published
from samebits.base.sites import Site, error_site
from samebits.factors.base import Factor, Observation, Scope
from samebits.factors.catalog import CATALOG, find, in_order
from samebits.factors.context import FactorContext, Setting, Witness, import_if_installed


@dataclass(frozen=True)
class FactorStatus:
    """One factor in this process.

    Attributes:
        name, scope, summary: as in the catalogue.
        mode: how samebits treats it here: `natural`, `pinned` or `varied`.
        observation: what is in effect.
    """

    name: str
    scope: Scope
    summary: str
    mode: str
    observation: Observation

    @property
    def is_pinned(self) -> bool:
        return self.observation.held is True

    @property
    @published()
    def too_late_since(self) -> str:
        """From when on it cannot be pinned any more."""
        return find(self.name).too_late

    @property
    @published()
    def pinned_by_default(self) -> bool:
        """Whether `samebits run` pins it."""
        return find(self.name).pinned_by_default

    @property
    @published()
    def varied_by_default(self) -> bool:
        """Whether `samebits check` varies it."""
        return find(self.name).varied_by_default


@dataclass(frozen=True)
class Status:
    """The answer of `samebits factors`: every factor in this process, in catalogue order.

    Attributes:
        factors: all of them.
    """

    factors: tuple[FactorStatus, ...]

    def __getitem__(self, name: str) -> FactorStatus:
        find(name)
        return next(status for status in self.factors if status.name == name)

    def __iter__(self) -> Iterator[FactorStatus]:
        return iter(self.factors)

    def __str__(self) -> str:
        width = max(len(status.name) for status in self.factors)
        return "\n".join(f"{s.name:<{width}}  {s.mode:<7}  {s.observation.value}" for s in self.factors)


@dataclass(frozen=True, eq=False)
class Treatment:
    """Factors treated in this process until `undo()`, which puts everything back, last change first."""

    contexts: Mapping[str, FactorContext]
    undo: Callable[[], None]


def treat(
    settings: Mapping[str, Setting],
    seed: int,
    path: tuple[str | int, ...] = (),
    report: Callable[[Witness], None] | None = None,
    handed_out: Callable[[str], None] | None = None,
    own: bool = False,
) -> Treatment:
    """Pin, vary and witness factors in this process.

    Args:
        settings: how to treat which factor; those not named are natural.
        seed: root of every derived value.
        path: words that make this process's streams its own.
        report: takes what is witnessed, or None.
        handed_out: as in `FactorContext`.
        own: called by the user's program itself, so what has to be acted on is imported now, where it is installed.
    """
    with ExitStack() as stack:
        contexts: dict[str, FactorContext] = {}
        for factor in CATALOG:
            context = contexts[factor.name] = FactorContext(
                factor.name, settings.get(factor.name, Setting()), seed, path, report, handed_out
            )
            stack.callback(context.end)
            factor.apply(context)
        if own:
            # After all factors: some set variables that a module reads when it is imported.
            for name in dict.fromkeys(name for context in contexts.values() for name in context.awaited):
                import_if_installed(name)
        return Treatment(contexts, stack.pop_all().close)


_active: list[Treatment] = []


def pin(
    seed: int = 0,
    *,
    factors: Iterable[str] | None = None,
    strict: bool = False,
    per_rank: bool = False,
    values: Mapping[str, str | int] | None = None,
) -> Status:
    """Hold factors still in this process, from here to its end.

        import samebits
        samebits.pin(seed=0)            # first thing in the script

    Args:
        seed: root of all streams; python-rng, numpy-rng and torch-rng each get a seed derived from it by hashing, so
            that they are independent of one another.
        factors: names to pin; by default those of the catalogue that are pinned by default.
        strict: raise where it is too late for a factor, instead of warning. What was pinned before is put back then.
        per_rank: give every rank streams of its own. By default all ranks have the same, so that they build the same
            parameters.
        values: what to pin to, for factors with a choice, for example `{"cpu-threads": 4}`.

    Returns:
        What is in effect now, factor by factor.

    Raises:
        UnknownFactorError: a name that is no factor's.
        TooLateError: with `strict`, when something was done too early.
    """
    if not hasattr(seed, "__index__"):
        raise UsageError(f"seed takes a whole number, got {seed!r}")
    settings = settings_for(factors, {name: str(value) for name, value in (values or {}).items()})
    with ExitStack() as stack:
        treatment = treat(settings, seed, rank_path() if per_rank else (), own=True)
        stack.callback(treatment.undo)
        late = too_late(treatment) | _taken_before(treatment)
        if late and strict:
            raise TooLateError(_late_message(late), _LATE_HINT)
        if late:
            # The caller may have turned warnings into errors: then everything is put back, too.
            warnings.warn(f"{_late_message(late)}; {_LATE_HINT}", TooLateWarning, stacklevel=_users_level())
        stack.pop_all()
    _active.append(treatment)
    return status()


@contextmanager
def pinned(
    seed: int = 0,
    *,
    factors: Iterable[str] | None = None,
    strict: bool = False,
    per_rank: bool = False,
    values: Mapping[str, str | int] | None = None,
) -> Iterator[Status]:
    """Like `pin`, for the length of a `with` block; afterwards everything is as before, also after an exception.

    It is the process that is pinned, not the thread; what `pin` pins inside the block ends with the block too.

    >>> import random
    >>> with pinned(seed=0, factors=["python-rng"]):
    ...     first = random.random()
    >>> with pinned(seed=0, factors=["python-rng"]):
    ...     first == random.random()
    True
    """
    seen = pin(seed, factors=factors, strict=strict, per_rank=per_rank, values=values)
    treatment = _active[-1]
    try:
        yield seen
    except Exception as error:
        _name_the_line(error)
        raise
    finally:
        while treatment in _active:
            _active.pop().undo()


def status() -> Status:
    """What is in effect in this process, factor by factor; imports nothing and changes nothing."""
    contexts: dict[str, FactorContext] = {}
    for treatment in _active:
        contexts |= {name: context for name, context in treatment.contexts.items() if context.mode != "natural"}
    return Status(tuple(_status_of(factor, contexts.get(factor.name)) for factor in CATALOG))


def _status_of(factor: Factor, context: FactorContext | None) -> FactorStatus:
    mode = context.mode if context else "natural"
    return FactorStatus(factor.name, factor.scope, factor.summary, mode, factor.observe(context))


def what_was_replaced() -> Counter[tuple[str, Site | None]]:
    """How often formulas of ours answered in this process so far, by the operation and the user's line."""
    found = Counter[tuple[str, Site | None]]()
    for treatment in _active:
        for context in treatment.contexts.values():
            # Each of several treatments counts every call.
            found |= context.replaced
    return found


def adopt(treatment: Treatment) -> None:
    """Let `status()` tell of a treatment that was started from outside the program."""
    _active.append(treatment)


def _users_level() -> int:
    """How far above the caller the user's own line stands, behind us and what makes context managers decorators."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"] in (__name__, "contextlib"):
        frame, level = frame.f_back, level + 1
    return level


_LATE_HINT = "start with `samebits run train.py`, which pins before Python starts, or set it in the shell"


def _late_message(late: Mapping[str, str]) -> str:
    return "; ".join(f"{name} could not be pinned: {why}" for name, why in late.items())


def settings_for(factors: Iterable[str] | None, values: Mapping[str, str] | None = None) -> dict[str, Setting]:
    """Pinned settings for the named factors, or for those pinned by default; values are checked."""
    values = dict(values or {})
    chosen = [factor.name for factor in CATALOG if factor.pinned_by_default] if factors is None else list(factors)
    if isinstance(factors, str):
        raise UsageError(f"factors takes a list of names, got the string {factors!r}", f"write [{factors!r}]")
    for name in [*chosen, *values]:
        find(name)
    for name, value in values.items():
        find(name).check_value(value)
    wanted = dict.fromkeys([*chosen, *values])
    return {name: Setting("pinned", values.get(name)) for name in wanted}


def settings_from(words: Iterable[str]) -> dict[str, Setting]:
    """`["clock", "cpu-threads=4"]` → pinned settings, checked, in catalogue order."""
    pairs = [word.partition("=") for word in words]
    values = {name: value for name, equals, value in pairs if equals}
    settings = settings_for([name for name, _, _ in pairs], values)
    return {name: settings[name] for name in in_order(settings)}


def too_late(treatment: Treatment) -> dict[str, str]:
    """Which pinned factors did not take, and what was done too early."""
    found = {}
    for factor in CATALOG:
        context = treatment.contexts[factor.name]
        why = (context.failed or factor.verify(context)) if context.mode == "pinned" else ""
        if why:
            found[factor.name] = why
    return found


def _taken_before(treatment: Treatment) -> dict[str, str]:
    """Which pinned factors the program still reaches by names that it imported too early."""
    found = {name: context.taken_before() for name, context in treatment.contexts.items() if context.mode == "pinned"}
    return {name: why for name, why in found.items() if why}


def _name_the_line(error: Exception) -> None:
    # Python 3.11 shows notes under the message; older ones simply do not have them.
    line = line_of_refusal(error)
    if line and hasattr(error, "add_note") and line not in getattr(error, "__notes__", ()):
        error.add_note(line)


def line_of_refusal(error: BaseException) -> str:
    """Which line of the user's called what a pin forbids, as a sentence; empty when the error is not a pin's doing."""
    pinned_here = {
        name for treatment in _active for name, context in treatment.contexts.items() if context.mode == "pinned"
    }
    why = next(filter(None, (factor.explain(error) for factor in CATALOG if factor.name in pinned_here)), "")
    site = error_site(error)
    return f"samebits: called at {site.path}:{site.line} ({why})" if why and site else ""
