"""pin(), pinned(), status(): pin factors in this process, verify that each pin took effect, and undo everything."""

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
        """The event after which it can no longer be pinned from inside."""
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
        factors: all factors.
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
    """The factors treated in this process until `undo()`, which puts everything back, last change first."""

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
        settings: factor → how to treat it; factors that are not named are natural.
        seed: root of every derived value.
        path: words that give this process streams of its own.
        report: receives every witness; None if nobody needs them.
        handed_out: as in `FactorContext`.
        own: whether the user's program calls this: then modules to treat are imported now, where they are installed.
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
            # Only after all factors: some of them set variables that a module reads when it is imported.
            for name in dict.fromkeys(name for context in contexts.values() for name in context.awaited_modules):
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
    """Pin factors in this process, from here to its end.

        import samebits
        samebits.pin(seed=0)            # first thing in the script

    Args:
        seed: root of all streams; python-rng, numpy-rng and torch-rng each get a seed derived from it by hashing, so
            that they are independent of one another.
        factors: names to pin; by default those of the catalogue that are pinned by default.
        strict: raise instead of warning if it is too late for a factor; then all that this call pinned is undone.
        per_rank: give every rank streams of its own. By default all ranks have the same, so that they build the same
            parameters.
        values: the values to pin to, for factors with a choice, for example `{"cpu-threads": 4}`.

    Returns:
        What is in effect now, factor by factor.

    Raises:
        UnknownFactorError: a name is not that of a factor.
        TooLateError: with `strict`, something was done too early.
    """
    if not hasattr(seed, "__index__"):
        raise UsageError(f"seed takes a whole number, got {seed!r}")
    settings = settings_for(factors, {name: str(value) for name, value in (values or {}).items()})
    with ExitStack() as stack:
        treatment = treat(settings, seed, rank_path() if per_rank else (), own=True)
        stack.callback(treatment.undo)
        late = failed_pins(treatment) | _taken_before(treatment)
        if late and strict:
            raise TooLateError(_late_message(late), _LATE_HINT)
        if late:
            # If the caller turned warnings into errors, everything is put back here, too.
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
    """Pin as `pin` does, for the length of a `with` block; afterwards everything is as before, also after an exception.

    The whole process is pinned, not only this thread. A `pin` inside the block ends with the block, too.

    >>> import random
    >>> with pinned(seed=0, factors=["python-rng"]):
    ...     first = random.random()
    >>> with pinned(seed=0, factors=["python-rng"]):
    ...     first == random.random()
    True
    """
    in_effect = pin(seed, factors=factors, strict=strict, per_rank=per_rank, values=values)
    treatment = _active[-1]
    try:
        yield in_effect
    except Exception as error:
        _name_the_line(error)
        raise
    finally:
        while treatment in _active:
            _active.pop().undo()


def status() -> Status:
    """Return what is in effect in this process, factor by factor; this imports nothing and changes nothing."""
    contexts: dict[str, FactorContext] = {}
    for treatment in _active:
        contexts |= {name: context for name, context in treatment.contexts.items() if context.mode != "natural"}
    return Status(tuple(_status_of(factor, contexts.get(factor.name)) for factor in CATALOG))


def _status_of(factor: Factor, context: FactorContext | None) -> FactorStatus:
    mode = context.mode if context else "natural"
    return FactorStatus(factor.name, factor.scope, factor.summary, mode, factor.observe(context))


def replacement_counts() -> Counter[tuple[str, Site | None]]:
    """Count how often formulas of samebits replaced an operation so far, by the operation and the user's line."""
    counts = Counter[tuple[str, Site | None]]()
    for treatment in _active:
        for context in treatment.contexts.values():
            # Each of several treatments counts every call, so the larger count is taken and not the sum.
            counts |= context.replaced
    return counts


def adopt(treatment: Treatment) -> None:
    """Make `status()` report a treatment that was started from outside the program."""
    _active.append(treatment)


def _users_level() -> int:
    """Return the `stacklevel` of the user's line: the first caller outside of this module and of `contextlib`."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"] in (__name__, "contextlib"):
        frame, level = frame.f_back, level + 1
    return level


_LATE_HINT = "start with `samebits run train.py`, which pins before Python starts, or set it in the shell"


def _late_message(late: Mapping[str, str]) -> str:
    return "; ".join(f"{name} could not be pinned: {why}" for name, why in late.items())


def settings_for(factors: Iterable[str] | None, values: Mapping[str, str] | None = None) -> dict[str, Setting]:
    """Return pinned settings for the named factors, or for those pinned by default, with values checked."""
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


def parsed_settings(words: Iterable[str]) -> dict[str, Setting]:
    """Return checked pinned settings for words such as `["clock", "cpu-threads=4"]`, in catalogue order."""
    pairs = [word.partition("=") for word in words]
    values = {name: value for name, equals, value in pairs if equals}
    settings = settings_for([name for name, _, _ in pairs], values)
    return {name: settings[name] for name in in_order(settings)}


def failed_pins(treatment: Treatment) -> dict[str, str]:
    """Return the factors whose pin did not take effect, each with what was done too early."""
    late = {}
    for factor in CATALOG:
        context = treatment.contexts[factor.name]
        reason = (context.failed or factor.verify(context)) if context.mode == "pinned" else ""
        if reason:
            late[factor.name] = reason
    return late


def _taken_before(treatment: Treatment) -> dict[str, str]:
    """Return the pinned factors that still enter through names imported too early, each with such an import."""
    clauses = {name: context.early_import() for name, context in treatment.contexts.items() if context.mode == "pinned"}
    return {name: clause for name, clause in clauses.items() if clause}


def _name_the_line(error: Exception) -> None:
    # Python shows notes under the message from 3.11 on; older versions have no notes.
    note = line_of_refusal(error)
    if note and hasattr(error, "add_note") and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def line_of_refusal(error: BaseException) -> str:
    """Return a sentence naming the user's line that did what a pin forbids; empty if no pin raised the error."""
    pinned_here = {
        name for treatment in _active for name, context in treatment.contexts.items() if context.mode == "pinned"
    }
    reason = next(filter(None, (factor.explain(error) for factor in CATALOG if factor.name in pinned_here)), "")
    site = error_site(error)
    return f"samebits: called at {site.path}:{site.line} ({reason})" if reason and site else ""
