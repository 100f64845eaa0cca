"""Which state a resumed training lacks, from what differs first: pure, recordings in and states out."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence

from samebits.resuming.tracks import Difference, Side, Track, count_of
from samebits.resuming.verdict import Missing, State
from samebits.runfolder.notes import Fetched
from samebits.runfolder.spec import AVERAGED

_AVERAGED = re.compile(r"ema|averag|swa|shadow|polyak|teacher", re.IGNORECASE)
_SCHEDULER = re.compile(r"sched|last_epoch|_last_lr|base_lrs", re.IGNORECASE)
_SCALER = re.compile(r"growth_tracker|growth_factor|scaler|\.scale$", re.IGNORECASE)
_GENERATOR = re.compile(r"rng|random_state|generator", re.IGNORECASE)
_POSITION = re.compile(r"sampler|loader|batch_idx|position|offset|cursor", re.IGNORECASE)
_EPOCH = re.compile(r"epoch$", re.IGNORECASE)
_OPTIMIZER = re.compile(r"optim|exp_avg|momentum_buffer|param_groups", re.IGNORECASE)
_RATES = re.compile(r"group\d+\.(lr|initial_lr|weight_decay|momentum|betas\b.*)$")
_RATE = re.compile(r"\.(lr|initial_lr)$")
_GROUP = re.compile(r"group\d+\.")
_COUNTER = re.compile(r"\.step$")
_GLOBAL = "the global generators stand elsewhere at the end of that step"


def missing_states(
    side: Side, row: int, difference: Difference, sides: Mapping[int, Side], is_cured: bool | None = None
) -> list[Missing]:
    """What explains that a rank differs there, the first cause first; then what is seen besides.

    Args:
        side: the rank.
        row: of the resumed run.
        difference: what differs first.
        sides: all ranks.
        is_cured: whether it went on with the same bits when it was given its global generators back; None where that
            was not tried.
    """
    found = {one.state: one for one in reversed([*_explained(side, row, difference, sides, is_cured)])}
    seen = list(reversed(found.values()))
    return [*seen, *(one for one in _besides(side, row, seen) if one.state not in found)]


def not_resumed(side: Side, loaded: str, torn: str = "", told: int | None = None) -> Missing:
    """It starts from the beginning.

    Args:
        side: the first rank.
        loaded: what it loads all the same; empty where that is nothing.
        torn: the file of which half was left; it then starts from there without a word.
        told: steps that are done when it saves, where that was said and not seen.
    """
    what = f"{loaded} is loaded, and yet its" if loaded else "no checkpoint is loaded, and its"
    if torn:
        what = f"{torn} was torn, that is passed over in silence, and the"
    said = "ignores its checkpoint: it starts from step 0"
    if told is not None:
        said = f"starts from step 0: it ignores its checkpoint, or has none yet after {told} steps, as --saved-at says"
    evidence = f"{said}; {what} parameters are the initial ones"
    return Missing("not-resumed", evidence, side.a.rank)


def _explained(
    side: Side, row: int, difference: Difference, sides: Mapping[int, Side], is_cured: bool | None
) -> Iterator[Missing]:
    rank = side.a.rank
    swapped = _of_another_rank(side, row, sides)
    if swapped is not None:
        yield swapped
        return
    if row == 0 and not side.start.has_parameters:
        yield _parameters(side, rank)
    if row == 0 and (wrong := _buffers(side)):
        yield Missing("buffers", f"{_some(wrong)} as they are before the first resumed step", rank)
    if row == 0 and not side.start.has_parameters:
        return
    for state, evidence in _by_stream(side, row, difference, is_cured):
        yield Missing(state, evidence, rank)


def _parameters(side: Side, rank: int) -> Missing:
    begun, last = side.b.column(0, "init"), side.a.column(side.start.step - 1, "param")
    wrong = [name for name, digest in last.items() if name in begun and begun[name] != digest]
    which = _some(wrong) if wrong else "the parameters differ"
    return Missing(
        "parameters", f"{which} before the first resumed step, though {side.start.step} steps were saved", rank
    )


def _buffers(side: Side) -> list[str]:
    """Buffers that are not as they were when the training was saved."""
    begun, step = side.b.column(0, "init"), side.start.step
    known = dict(side.a.column(0, "init"))
    names = [name for name in begun if name in known and name not in side.a.column(0, "param")]
    if step:
        known |= side.a.column(step - 1, "buffer")
    # What changed between the last step and the save stands in the row of the next step, and may be right.
    later = side.a.column(step, "buffer")
    return [
        name
        for name in names
        if known[name] != begun[name] and (name not in later or step == 0 or known[name] != begun[name])
    ]


def _of_another_rank(side: Side, row: int, sides: Mapping[int, Side]) -> Missing | None:
    """A rank that goes on as another one did: it was given the state of that one."""
    rank, step = side.a.rank, side.step(row)
    for stream, what in (("batch", "gets the data"), ("rng", "draws the random numbers")):
        own, now = _compared(side, row, stream)
        if not own or own == now:
            continue
        for other, beside in sides.items():
            theirs = _compared(beside, row, stream)[0]
            if other != rank and theirs == now and theirs != own:
                return Missing("rank-state", f"rank {rank} {what} that rank {other} should get at step {step}", rank)
    return None


def _compared(side: Side, row: int, stream: str) -> tuple[dict[str, int], dict[str, int]]:
    a, b = side.pair(row)
    left, right = ({} if stream not in one else one[stream].as_dict() for one in (a, b))
    common = left.keys() & right.keys()
    return {name: left[name] for name in common}, {name: right[name] for name in common}


# ---- by what differs first -------------------------------------------------------------------------------------------


_Said = tuple[State, str]


def _by_stream(side: Side, row: int, difference: Difference, is_cured: bool | None) -> Iterator[_Said]:
    a, b = side.pair(row)
    losses = count_of(a.get("loss")), count_of(b.get("loss"))
    if losses[0] != losses[1]:
        yield "accumulation", f"{losses[1]} losses before that step, and {losses[0]} in the uninterrupted run"
    elif difference.stream == "batch":
        yield from _data(side, row, is_cured)
    elif difference.stream in ("loss", "output"):
        yield from _losses(side, row)
    elif difference.stream == "grad":
        yield from _gradients(side, row, losses[0])
    elif difference.stream == "param":
        yield _updates(side, row)
    elif difference.stream == "buffer":
        yield _of_buffers(difference)
    elif difference.stream == "optimizer":
        yield _of_optimizer(difference.names)
    elif count_of(a.get("artifact")) == count_of(b.get("artifact")):
        yield _of_saved(side, difference)


def _gradients(side: Side, row: int, losses: int) -> Iterator[_Said]:
    half = side.counts.get("loss", 0) if row == 0 else 0
    if half:
        yield "accumulation", f"saved with {half} of the losses of that step accumulated; their gradients are lost"
    elif losses > 1:
        yield "accumulation", "the losses are the same, and the gradients are not: what had been accumulated is lost"
    # Of one loss for each step nothing is accumulated: what clips or freezes has no name here.


def _data(side: Side, row: int, is_cured: bool | None) -> Iterator[_Said]:
    a, b = side.fetched(row)
    known = [(x, y) for x, y in zip(a, b, strict=False) if x.indices and y.indices]
    if known:
        yield from _indexed(side, row, known, is_cured)
    else:
        yield _unindexed(side, row)


def _indexed(side: Side, row: int, known: Sequence[tuple[Fetched, Fetched]], is_cured: bool | None) -> Iterator[_Said]:
    step = side.step(row)
    other = next(((x, y) for x, y in known if x.indices != y.indices), None)
    if other is None:
        yield "sample-generators", f"the batch of step {step} is made of the same indices, and has other contents"
        return
    own, now = other
    drawn = "the order is drawn from a global generator, which stands elsewhere"
    elsewhere = _nearest(side.a_fetched, own, now)
    if elsewhere is None:
        yield "order", f"batch {own.position} of the epoch is made of other indices{f': {drawn}' if now.draws else ''}"
        return
    twice = _again(elsewhere.step, step)
    if elsewhere.epoch != own.epoch:
        # Seeded anew for every epoch, an order is no matter of the generators: of the wrong epoch, it was seeded so.
        if not now.draws or (is_cured is False and elsewhere.epoch > 0):
            yield "epoch", f"gets batch {elsewhere.position} of epoch {elsewhere.epoch}, {twice}"
            return
        if elsewhere.position != own.position:
            yield "position", f"gets batch {elsewhere.position} of an epoch, and not batch {own.position}: {twice}"
        yield "order", f"gets the order of epoch {elsewhere.epoch} in epoch {own.epoch}: {drawn}"
        return
    ahead = elsewhere.position - own.position
    if 0 < ahead <= max(own.ahead, now.ahead):
        batches = (
            "batch that workers had fetched ahead was" if ahead == 1 else "batches that workers had fetched ahead were"
        )
        yield "look-ahead", f"{ahead} {batches} never trained: {twice}"
    else:
        yield "position", f"gets batch {elsewhere.position} of the epoch, and not batch {own.position}: {twice}"


def _nearest(fetched: Sequence[Fetched], own: Fetched, now: Fetched) -> Fetched | None:
    """Where in the uninterrupted run the batch came that comes now; first of all in the same epoch."""
    same = [one for one in fetched if one.indices == now.indices and one.loader == own.loader]
    return min(same, key=lambda one: (one.epoch != own.epoch, abs(one.step - own.step)), default=None)


def _again(elsewhere: int, step: int) -> str:
    """What becomes of steps where the batch of another step is trained."""
    if elsewhere < step:
        return f"the data of step {elsewhere} are trained twice"
    return (
        f"those of steps {step} to {elsewhere - 1} are skipped"
        if elsewhere - 1 > step
        else f"those of step {step} are skipped"
    )


def _unindexed(side: Side, row: int) -> _Said:
    """Batches of which no indices are known: of an iterable dataset, or drawn by the script itself."""
    step = side.step(row)
    _, now = _compared(side, row, "batch")
    same = [one for one in range(side.a.steps) if one != step and _has(side.a, one, now)]
    if not same:
        if wrong_generators(side, row):
            return "generators", f"the data of step {step} are others, and {_GLOBAL}"
        return "order", f"the data of step {step} are others, and come in no step of the uninterrupted run"
    nearest = min(same, key=lambda one: abs(one - step))
    if any(_generators_as(side, row, one) for one in same):
        return "generators", f"the random numbers start anew: {_again(nearest, step)}"
    return "position", f"gets the data of step {nearest}: {_again(nearest, step)}"


def _has(track: Track, row: int, batch: Mapping[str, int]) -> bool:
    return bool(batch) and set(batch.values()) <= set(track.column(row, "batch").values())


def _losses(side: Side, row: int) -> Iterator[_Said]:
    ratio = _power_of_two(side, row) if side.has_scaler else None
    if ratio is not None:
        yield "scaler", f"the losses are the same but for a factor of {ratio:g}, as they are scaled"
        return
    wrong = wrong_generators(side, row)
    if wrong:
        yield "generators", f"the same data give another loss, and {_GLOBAL} ({', '.join(wrong)})"


def _power_of_two(side: Side, row: int) -> float | None:
    a, b = _compared(side, row, "number")
    ratios = set()
    for name, bits in a.items():
        x, y = _number(bits), _number(b[name])
        if not x or not math.isfinite(x) or not math.isfinite(y):
            return None
        ratios.add(y / x)
    ratio = ratios.pop() if len(ratios) == 1 else 1.0
    return ratio if ratio > 0 and ratio != 1 and math.frexp(ratio)[0] == 0.5 else None


def _number(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def _updates(side: Side, row: int) -> _Said:
    names = _differing(side, row, "optimizer")
    rates = [name for name in names if _RATES.search(name)]
    states = [name for name in names if not _GROUP.search(name)]
    # Other betas or another decay make other moments; and after a step that agrees, what was restored was right.
    follow = row > 0 or any(not _RATE.search(name) for name in rates)
    if rates and (not states or follow):
        return "scheduler", f"the gradients are the same, and {_some(rates)}"
    return "optimizer", f"the gradients are the same, and {_some(states or names) if names else 'the updates are not'}"


def _of_buffers(difference: Difference) -> _Said:
    if all(name.startswith(AVERAGED) for name in difference.names):
        return "averaged", f"{_some(difference.names)} after the step"
    return "buffers", f"{_some(difference.names)} after the step"


def _of_optimizer(names: Sequence[str]) -> _Said:
    if all(_RATES.search(name) for name in names):
        return "scheduler", f"{_some(names)} after the step"
    return "optimizer", f"{_some(names)} after the step"


def _of_saved(side: Side, difference: Difference) -> _Said:
    """Only what is saved next differs; what the leaves are called says what they are."""
    names = difference.names
    known: tuple[tuple[State, re.Pattern[str]], ...] = (
        ("averaged", _AVERAGED),
        ("scaler", _SCALER),
        ("scheduler", _SCHEDULER),
        ("generators", _GENERATOR),
        ("optimizer", _OPTIMIZER),
        ("position", _POSITION),
        ("epoch", _EPOCH),
    )
    for state, pattern in known:
        own = [name for name in names if pattern.search(name)]
        if own:
            return state, f"in what is saved next, {_some(own)}"
    trained = side.a.column(0, "param")
    weights = [name for name in names if any(name.endswith(one) for one in trained)]
    if weights:
        return "averaged", f"in what is saved next, {_some(weights)}, and nothing that is trained"
    return "epoch", f"in what is saved next, {_some(names)}: something that the script counts goes on otherwise"


# ---- what is seen besides --------------------------------------------------------------------------------------------


def _besides(side: Side, row: int, found: Sequence[Missing]) -> Iterator[Missing]:
    """States that no difference in the data or the parameters can explain."""
    states = {one.state for one in found}
    rank = side.a.rank
    names = _differing(side, row, "optimizer")
    counters = [name for name in names if _COUNTER.search(name)]
    rates = [name for name in names if _RATES.search(name)]
    # Of gradients that differ for no known reason, some may be missing altogether, and nothing is counted for those.
    if counters and found:
        yield Missing("optimizer", f"besides, {_some(counters)} after the step", rank)
    if rates:
        yield Missing("scheduler", f"besides, {_some(rates)}", rank)
    wrong = wrong_generators(side, row)
    if wrong and states.isdisjoint(("order", "sample-generators", "generators", "epoch", "rank-state", "position")):
        yield Missing("generators", f"besides, {_GLOBAL} ({', '.join(wrong)})", rank)


def wrong_generators(side: Side, row: int) -> list[str]:
    """The global generators that stand elsewhere at the end of a step, by name."""
    a, b = _compared(side, row, "rng")
    return [name for name, digest in a.items() if b[name] != digest]


def _generators_as(side: Side, row: int, step: int) -> bool:
    """Whether a generator stands after a resumed step as it stood after an earlier one, and not as after its own."""
    wrong, now, then = wrong_generators(side, row), side.b.column(row, "rng"), side.a.column(step, "rng")
    return any(now[name] == then.get(name) for name in wrong)


def _differing(side: Side, row: int, stream: str) -> list[str]:
    a, b = (one.get(stream) for one in side.pair(row))
    left, right = ({} if one is None else one.as_dict() for one in (a, b))
    return [name for name in dict.fromkeys([*left, *right]) if left.get(name) != right.get(name)]


def _some(names: Sequence[str]) -> str:
    """`fc.weight and 3 more differ`."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} {'differ' if more else 'differs'}"
