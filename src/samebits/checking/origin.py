"""The search for the operation: runs under two plans that diverge in a step are repeated, with its operations recorded.

    recorded    one run under the first plan
    followed    runs under the second plan that read along, until one diverges from the recorded run
    kept        one more run under the first plan that keeps the operands of the operation at which they diverged

On the CPU the run that reads along keeps its own operands. On an accelerator it notes only the place, because copies of
everything that an operation writes to may need more memory than there is; there this run is repeated, too.

Then the operands of both runs are compared bit by bit, and the operation alone is called on them again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from samebits.base.errors import SamebitsError
from samebits.checking.plan import keeping_nothing
from samebits.checking.pool import RunPool
from samebits.checking.verdict import Origin, OriginOnRank, Run
from samebits.comparison.ops import OpDivergence, is_collective, op_divergences
from samebits.comparison.values import distance_of_results
from samebits.replay.runner import replay
from samebits.runfolder.ops import OPERANDS, KeptCall, operands_name, read_call
from samebits.runfolder.spec import OpWindow, RunSpec

MAX_PAIRS = 5
WIDER = 8
FAR = 100
# How often a run that has diverged is made again to keep its operands: a race may not show the next time.
KEPT_AGAIN = 2

Place = tuple[int, int, int]


class RecordingEndedError(SamebitsError):
    """A recording of operations ended before the run did, so it says nothing about where runs diverge."""

    kind = "recording"


def find_origins(pool: RunPool, a: RunSpec, b: RunSpec, step: int, most: int = 1) -> Iterator[Origin]:
    """The operations at which runs under two plans diverge, from `step` on, each as soon as it is known.

    To find one more, both runs are given the first run's results at every origin found so far, and continue from there.
    """
    window, origin = _window(pool, a, b, step)
    grafts: tuple[str, ...] = ()
    places = set()
    while origin is not None and (key := _key(origin.first.place)) not in places:
        yield origin
        places.add(key)
        if len(places) >= most or origin.operands is None or origin.first.place.finding == "control flow":
            return
        grafts = (*grafts, str(origin.operands))
        origin = _in_window(pool, a, b, replace(window, grafts=grafts))


def _window(pool: RunPool, a: RunSpec, b: RunSpec, step: int) -> tuple[OpWindow, Origin | None]:
    """Return the window of steps in which the first origin lies, and that origin."""
    window = OpWindow(step, step)
    origin = _in_window(pool, a, b, window)
    while origin is not None and window.first > 0 and _came_from_before(origin):
        # An input that arrives different was made before the window: look further back, to the start if that is near.
        if window.first < step and step > FAR:
            break
        window = replace(window, first=max(0, step - WIDER) if window.first == step else 0)
        origin = _in_window(pool, a, b, window) or origin
    return window, origin


def _in_window(pool: RunPool, a: RunSpec, b: RunSpec, window: OpWindow) -> Origin | None:
    recorded = _recorded(pool, _with_ops(a, window, "operations"))
    against = replace(window, against=str(recorded.path))
    followed, places, pairs = recorded, dict[int, OpDivergence](), 0
    while not places and pairs < MAX_PAIRS and pool.left:
        followed = _recorded(pool, _with_ops(b, against, "operations again"))
        places, pairs = _places(recorded, followed), pairs + 1
    if not places:
        return None
    keeping = replace(against, keep=tuple(dict.fromkeys((place.step, place.index) for place in places.values())))
    again = _with_ops(b, keeping, "operands of the other kept")
    runs, trouble = _with_operands(pool, again, recorded, followed, places)
    followed = runs[0]
    origin = Origin(recorded.id, followed.id, pairs, tuple(_on_rank(place, runs) for place in places.values()))
    if trouble is not None or not pool.left:
        return origin if trouble is None else replace(origin, unmeasured=trouble.message)
    kept = pool.run(_with_ops(a, keeping, "operands kept"))
    if kept.trouble is not None:
        return replace(origin, unmeasured=kept.trouble.message)
    return _measured(origin, followed, kept, _places(recorded, kept))


def _recorded(pool: RunPool, plan: RunSpec) -> Run:
    """Make a run that records all operations of its window; raise RecordingEndedError where it did not."""
    run = pool.run(plan)
    if run.trouble is not None:
        raise RecordingEndedError(run.trouble.message, run.trouble.hint)
    return run


def _with_operands(
    pool: RunPool, plan: RunSpec, recorded: Run, followed: Run, places: dict[int, OpDivergence]
) -> tuple[list[Run], SamebitsError | None]:
    """Return the run that diverged, or one that diverges at the same place and has kept its operands; then the others.

    The second value says why no operands could be kept, where a recording ended before its run did.
    """
    runs = [followed]
    wanted = {rank: _key(place) for rank, place in places.items()}
    kept = [_file(followed, _key(place)).exists() for place in places.values() if place.finding != "control flow"]
    for _ in range(KEPT_AGAIN):
        if pool.left < 2 or all(kept):
            break
        again = pool.run(plan)
        if again.trouble is not None:
            return runs, again.trouble
        if {rank: _key(place) for rank, place in _places(recorded, again).items()} == wanted:
            return [again, *runs], None
        runs.append(again)
    return runs, None


def _with_ops(plan: RunSpec, spec: OpWindow, role: str) -> RunSpec:
    return replace(keeping_nothing(plan), role=role, ops=spec, stop_after=spec.last)


def _places(a: Run, b: Run) -> dict[int, OpDivergence]:
    """Return rank → the operation at which it diverges."""
    divergences = op_divergences(a.folder.recordings(), b.folder.recordings())
    # The first process of a rank is the training.
    return {place.rank: place for place in reversed(divergences)}


def _on_rank(place: OpDivergence, runs: Sequence[Run]) -> OriginOnRank:
    # What wrote the inputs last is the same in runs that diverge elsewhere: a race shows now here, now there.
    calls = (call for run in runs if (call := _call(run, _key(place))) is not None)
    call = next((call for call in calls if call.kind == place.row.kind), None)
    producers = {} if call is None else call.producers
    if place.finding == "op" and call is not None:
        # An operation is not to blame for what another stream may be writing still, or for memory never written.
        read = [one for name, one in producers.items() if name.partition("[")[0] not in call.write_only]
        late = [one for one in read if one.other_stream and not one.uninitialized and not is_collective(one.op)]
        return OriginOnRank(place, next(iter([*late, *(one for one in producers.values() if one.uninitialized)]), None))
    if place.finding != "input" or place.reordered:
        return OriginOnRank(place)
    arrived = [producers[name] for name in place.names if name in producers]
    # Collectives work in buffers of their own, and copy the results into the tensors that they were given.
    arrived += [one for one in producers.values() if is_collective(one.op)]
    return OriginOnRank(place, arrived[0] if arrived else None)


def _key(place: OpDivergence) -> Place:
    return place.rank, place.step, place.index


def _file(run: Run, key: Place) -> Path:
    return run.path / OPERANDS / f"{operands_name(*key)}.json"


def _call(run: Run, key: Place) -> KeptCall | None:
    path = _file(run, key)
    return read_call(path, run.path) if path.exists() else None


def _came_from_before(origin: Origin) -> bool:
    """Whether the first difference is an input that neither an operation of the window nor a collective made."""
    first = origin.first
    return first.place.finding == "input" and first.producer is None and not first.place.reordered


def _measured(origin: Origin, b: Run, a: Run, earlier: dict[int, OpDivergence]) -> Origin:
    """Return the origin with how far the results differ, if the inputs are truly equal, and what replaying shows."""
    place = origin.first.place
    key = _key(place)
    call_a, call_b = _call(a, key), _call(b, key)
    moved = earlier.get(place.rank)
    if call_a is not None and (moved is None or (moved.step, moved.index) >= (place.step, place.index)):
        origin = replace(origin, operands=_file(a, key))
        if place.finding == "op" and call_b is not None:
            distance, changed = distance_of_results(_file(a, key), _file(b, key)), _changed_inputs(call_a, call_b)
            origin = replace(origin, distance=distance, unobserved_write=changed)
    if place.finding != "op" or call_b is None:
        return origin
    meanwhile = [name for call in (call_a, call_b) if call is not None for name in call.changed_meanwhile]
    shared = tuple(dict.fromkeys(call_b.shared))
    origin = replace(origin, changed_meanwhile=tuple(dict.fromkeys(meanwhile)), shared=shared)
    if origin.unobserved_write or origin.changed_meanwhile:
        return origin
    # A custom operation was called again by the run that kept it.
    run = a if call_a is not None and call_a.called_again else b
    again = replay(run.folder, _file(run, key), python=run.facts.interpreter)
    return replace(origin, replay=again)


def _changed_inputs(a: KeptCall, b: KeptCall) -> tuple[str, ...]:
    """Return inputs whose bits differ although every recorded operation before agreed: something wrote there unseen."""
    labels, write_only = b.labels, b.write_only
    names = [f"in.{i}" for i in range(len(labels))]
    return tuple(
        labels[i]
        for i, name in enumerate(names)
        if labels[i].partition("[")[0] not in write_only and a.digests.get(name) != b.digests.get(name)
    )
