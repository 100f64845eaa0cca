"""A tracer of the user's lines while a sample is fetched: which of them draw, and which change an object."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from samebits.base.sites import Site, is_user_file, site_of
from samebits.bits.digest import digest, is_evidence

# A sample whose code runs through more lines is not followed any further.
LINES_FOLLOWED = 5000
_DEPTH = 3
_ITEMS = 50
_ITEMS_CARRIED = 20
_LONG = 200

# Takes the site, the frame, and a list: of what the function returned if it ended at this line, else empty.
OnLine = Callable[[Site, FrameType, list[object]], None]


def trace_lines(call: Callable[[], object], after_line: OnLine) -> object:
    """Return `call()`, and call `after_line` for each of the user's lines once it has been executed.

    A line that calls a user's function is reported after that function's lines. Under a debugger nothing is reported.
    """
    if sys.gettrace() is not None:
        return call()
    left = LINES_FOLLOWED
    # The line that is being executed in each of the user's frames, outermost first.
    stack: list[tuple[FrameType, Site]] = []

    def enter(frame: FrameType, event: str, _: object) -> Any:
        """Follow a call into the user's code; libraries are stepped over."""
        if left <= 0 or not is_user_file(frame.f_code.co_filename):
            return None
        stack.append((frame, site_of(frame)))
        return step

    def step(frame: FrameType, event: str, result: object) -> object:
        """Report the line that has ended: the next line begins, or the function returns or raises."""
        nonlocal left
        if event == "exception" or not stack or stack[-1][0] is not frame:
            return step
        left -= 1
        _, site = stack.pop()
        # Calls that `after_line` makes are not followed.
        sys.settrace(None)
        try:
            after_line(site, frame, [result] if event == "return" else [])
        finally:
            if left > 0:
                sys.settrace(enter)
        if event != "return":
            stack.append((frame, site_of(frame)))
        return step

    sys.settrace(enter)
    try:
        return call()
    finally:
        sys.settrace(None)


class SampleTracer:
    """A tracer that finds which of the user's lines make the first two samples depend on more than their indices.

    These are the lines that draw, and those that change, in the second sample, what the dataset holds: in the first, it
    may only prepare what it keeps. `found` is called once for each line, with the name it changes, or None if it draws.
    """

    def __init__(self, found: Callable[[Site, str | None], None]) -> None:
        self.found = found
        self.samples = 0
        self._known: set[tuple[str, int]] = set()

    def __call__(self, fetch: Callable[[], object], states: Callable[[], list[object]], dataset: object) -> object:
        if self.samples >= 2:
            return fetch()
        self.samples += 1
        drawn = change_detector(lambda: {str(number): state for number, state in enumerate(states())})
        carried = change_detector(lambda: {} if self.samples == 1 else carried_values(dataset, caches=False))

        def after_line(site: Site, frame: FrameType, result: list[object]) -> None:
            if drawn() is not None:
                self._report(site, None)
            if (name := carried()) is not None:
                self._report(site, name)

        return trace_lines(fetch, after_line)

    def _report(self, site: Site, changed: str | None) -> None:
        if site.key not in self._known:
            self._known.add(site.key)
            self.found(site, changed)


def carried_values(one: object, caches: bool = True, depth: int = 4, path: str = "self") -> dict[str, object]:
    """Return what an object carries from sample to sample: attribute → value, also of the objects that it holds.

    Generators are left out, since they are keyed. Dicts and sets are included only with `caches`: those that grow
    mostly keep what was read before.
    """
    carried: dict[str, object] = {}
    attributes = getattr(one, "__dict__", None)
    for name, value in attributes.items() if isinstance(attributes, dict) else ():
        if caches or not isinstance(value, dict | set):
            carried[f"{path}.{name}"] = _carried(value)
            if depth:
                carried |= carried_values(value, caches, depth - 1, f"{path}.{name}")
    if isinstance(one, list | tuple) and depth:
        for number, item in enumerate(one[:_ITEMS_CARRIED]):
            carried |= carried_values(item, caches, depth - 1, f"{path}[{number}]")
    return carried


def _carried(one: Any) -> object:
    kind = type(one)
    if kind is str:
        # Texts are compared after every line, and Python hashes a text only once.
        return one if len(one) < _LONG else (len(one), hash(one))
    if kind is float:
        return one.hex()
    if one is None or kind in (bool, int):
        return one
    return len(one) if isinstance(one, list | dict | set) else kind.__name__


def change_detector(look: Callable[[], dict[str, object]]) -> Callable[[], str | None]:
    """Return a function that names, in each call, the first value that changed since the call before; else None."""

    def looked() -> dict[str, object] | None:
        try:
            return look()
        except Exception:
            # An object that cannot be read, or that another thread changes meanwhile, is passed over.
            return None

    before = looked()

    def changed() -> str | None:
        nonlocal before
        last, before = before, looked()
        if last is None or before is None or last == before:
            return None
        missing = object()
        names = dict.fromkeys((*before, *last))
        return next(name for name in names if before.get(name, missing) != last.get(name, missing))

    return changed


def value_of(value: Any, depth: int = _DEPTH) -> Any:
    """Return a value in a form that can be compared between two executions; None if there is no such form.

    It has the bits of tensors and arrays, states of generators, attributes of objects, first items of containers.
    """
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, torch.Tensor):
        return digest(value) if is_evidence(value) else None
    if isinstance(value, torch.Generator):
        return hash(tuple(value.get_state().tolist()))
    if isinstance(value, random.Random):
        return None if isinstance(value, random.SystemRandom) else hash(value.getstate())
    if hasattr(value, "__array_interface__"):
        if value.dtype.hasobject:
            return value_of(value.tolist(), depth)
        return hashlib.blake2b(value.tobytes(), digest_size=8).digest()
    if hasattr(value, "bit_generator"):
        return repr(value.bit_generator.state)
    return _parts(value, depth - 1) if depth else None


def _parts(value: object, depth: int) -> object:
    if isinstance(value, list | tuple):
        return (len(value), *[value_of(item, depth) for item in value[:_ITEMS]])
    if isinstance(value, dict):
        return {str(key): value_of(item, depth) for key, item in list(value.items())[:_ITEMS]}
    attributes = getattr(value, "__dict__", None)
    if not isinstance(attributes, dict) or callable(value):
        return None
    return {name: value_of(item, depth) for name, item in list(attributes.items())[:_ITEMS]}
