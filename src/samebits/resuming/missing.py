"""The states that a resumed training may lack, inferred from the first difference. Pure; experiments confirm them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from samebits.base.printable import listed
from samebits.comparison.locate import Divergence
from samebits.resuming.tracks import Digests, RankPair, count_of
from samebits.resuming.verdict import Missing, State
from samebits.runfolder.notes import BatchFetched, Lacks

_GLOBAL = "the global RNG state differs at the end of that step"
# At most this many things are reported with their values.
MOST_VALUES_SHOWN = 3

# The stream that differs first → the states that may be missing, the likeliest first: they are tried in this order.
_LIKELY: dict[str, tuple[State, ...]] = {
    "batch": ("replay", "carried", "generators"),
    "loss": ("buffers", "parameters", "carried", "replay", "scaler", "mode", "generators"),
    "output": ("buffers", "parameters", "carried", "replay", "mode", "generators"),
    "grad": ("accumulation", "mode", "scaler"),
    "param": ("optimizer", "scheduler", "scaler", "mode", "accumulation"),
    "buffer": ("averaged", "buffers", "parameters"),
    "optimizer": ("optimizer", "scheduler"),
    "artifact": ("averaged", "scheduler", "scaler", "optimizer", "replay"),
}
# A state that recordings show to be missing, and the evidence, as a clause.
Shown = tuple[State, str]
# States of which many values may differ; further runs find the values that matter.
MULTI_VALUED: frozenset[State] = frozenset(("counter", "carried", "replay"))


def states_by_likelihood(lacks: Sequence[Lacks], stream: str) -> dict[State, list[Lacks]]:
    """Return each state with its values that differ and can be given back, the likeliest state first."""
    groups: dict[State, list[Lacks]] = {}
    states = {lack.path: lack.state for lack in lacks}
    # Short paths first: a library's values lie deeper than the script's own, and there are many of them.
    for lack in sorted(lacks, key=lambda one: one.path.count(".")):
        if lack.can_put:
            # A learning rate belongs to the schedule; if its optimizer's state is lost too, it was lost with that.
            owner = lack.path.partition(".param_groups[")[0]
            is_lost = lack.path != owner and any(path.startswith(f"{owner}.state[") for path in states)
            groups.setdefault("optimizer" if is_lost else cast("State", lack.state), []).append(lack)
    order = _LIKELY.get(stream, ())
    return dict(sorted(groups.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def grouped_by_object(groups: Mapping[State, Sequence[Lacks]]) -> list[list[Lacks]]:
    """Return the differing values of each object that holds several states, as a buffer's arrays and fill level."""
    by_object: dict[str, list[Lacks]] = {}
    for state, group in groups.items():
        for lack in group if state in MULTI_VALUED else ():
            by_object.setdefault(lack.path.rpartition(".")[0], []).append(lack)
    return [held for name, held in by_object.items() if name and len({lack.state for lack in held}) > 1]


def differences_clause(lacks: Sequence[Lacks]) -> str:
    """Return the values that differ, as a clause.

    >>> differences_clause([Lacks("trainer.best", "counter", "0.9", "inf")])
    'trainer.best is inf in the first resumed step, but was 0.9 when it saved'
    """
    of_rank = [one for one in lacks if one.rank == lacks[0].rank]
    # A value too long to print is described by its length, which may be the same on both sides.
    valued = [one for one in of_rank if one.then != one.now][:MOST_VALUES_SHOWN]
    if not valued:
        return f"{listed([one.path for one in of_rank])} {'are' if len(of_rank) > 1 else 'is'} not as at the save"
    pairs = ((one.path, one.now or "different", one.then or "another") for one in valued)
    return "; ".join(
        f"{path} is {now} in the first resumed step, but was {then} when it saved" for path, now, then in pairs
    )


def not_resumed(side: RankPair, loaded: str, torn: str = "", told: int | None = None) -> Missing:
    """Return the finding that the resumed run starts from the beginning.

    Args:
        side: the first rank.
        loaded: the file that it loads all the same; empty where it loads none.
        torn: the file that was left half written; empty where none was.
        told: how many steps are done at the first save, where the user said so and no save was seen.
    """
    subject = f"{loaded} is loaded, and yet its" if loaded else "no checkpoint is loaded, and its"
    if torn:
        subject = f"{torn} was torn, the script skips it without a message, and the"
    claim = "ignores its checkpoint: it starts from step 0"
    if told is not None:
        claim = f"starts from step 0: it ignores its checkpoint, or has none yet after {told} steps, as --saved-at says"
    evidence = f"{claim}; {subject} parameters are the initial ones"
    return Missing("not-resumed", evidence, side.a.rank)


def suspected(side: RankPair, row: int, difference: Divergence, sides: Mapping[int, RankPair]) -> list[Missing]:
    """Return the states that the recordings show to be missing on a rank, from its first difference."""
    return [Missing(state, evidence, side.a.rank) for state, evidence in _shown(side, row, difference.stream, sides)]


def _shown(side: RankPair, row: int, stream: str, sides: Mapping[int, RankPair]) -> Sequence[Shown]:
    swapped = next(_of_another_rank(side, row, sides), None)
    if swapped is not None:
        return [swapped]
    if row == 0 and not side.start.has_parameters:
        return [_parameters(side)]
    if stream == "batch" and (data := [*_data(side, row)]):
        return data
    a, b = side.comparable_streams(row)
    losses = count_of(a.get("loss", {})), count_of(b.get("loss", {}))
    if losses[0] != losses[1]:
        return [("accumulation", f"{losses[1]} losses before that step, and {losses[0]} in the uninterrupted run")]
    then, now = (one.get("param", {}).keys() for one in (a, b))
    if stream in ("grad", "param") and then - now and now - then:
        strangers = f"{listed(sorted(now - then))}, of no model that is called"
        return [("optimizer", f"it steps {strangers}: it was made before the model was")]
    wrong = wrong_generators(side, row)
    if wrong and stream in ("loss", "output"):
        return [("generators", f"the same data give another loss, and {_GLOBAL} ({', '.join(wrong)})")]
    return []


def _parameters(side: RankPair) -> Shown:
    begun, last = side.b.parameters_before(0), side.a.parameters_before(side.start.step)
    wrong = [name for name, digest in last.items() if name in begun and begun[name] != digest]
    which = f"{listed(wrong)} {'differs' if len(wrong) == 1 else 'differ'}" if wrong else "the parameters differ"
    return "parameters", f"{which} before the first resumed step, though {side.start.step} steps were saved"


def _of_another_rank(side: RankPair, row: int, sides: Mapping[int, RankPair]) -> Iterator[Shown]:
    """Yield `rank-state` where a rank gets another rank's data or random numbers: it was given that rank's state."""
    rank, step = side.a.rank, side.step(row)
    for stream, verb in (("batch", "gets the data"), ("rng", "draws the random numbers")):
        expected, actual = _compared(side, row, stream)
        for other_rank, other_side in sides.items() if expected and expected != actual else ():
            if other_rank != rank and _compared(other_side, row, stream)[0] == actual:
                yield "rank-state", f"rank {rank} {verb} that rank {other_rank} should get at step {step}"


def _compared(side: RankPair, row: int, stream: str) -> tuple[Digests, Digests]:
    a, b = (one.get(stream, {}) for one in side.comparable_streams(row))
    common = a.keys() & b.keys()
    return {name: a[name] for name in common}, {name: b[name] for name in common}


# ---- by the data -----------------------------------------------------------------------------------------------------


def _data(side: RankPair, row: int) -> Iterator[Shown]:
    step = side.step(row)
    indexed = [(x, y) for x, y in zip(*side.fetched(row), strict=False) if x.indices and y.indices]
    differing = next(((x, y) for x, y in indexed if x.indices != y.indices), None)
    if not indexed:
        yield from _unindexed(side, row)
    elif differing is None:
        yield "sample-generators", f"the batch of step {step} is made of the same indices, and has other contents"
    else:
        yield from _indexed(side.a_fetched, step, *differing)


def _indexed(fetched: Sequence[BatchFetched], step: int, own: BatchFetched, now: BatchFetched) -> Iterator[Shown]:
    drawn = "the global RNG state was not restored"
    # Where the uninterrupted run had the batch that comes now; its place in the same epoch is preferred.
    matches = [one for one in fetched if one.indices == now.indices and one.loader == own.loader]
    if not matches:
        yield "order", f"batch {own.position} of the epoch is made of other indices{f': {drawn}' if now.draws else ''}"
        return
    elsewhere = min(matches, key=lambda one: (one.epoch != own.epoch, abs(one.step - own.step)))
    twice, ahead = _again(elsewhere.step, step), elsewhere.position - own.position
    if elsewhere.epoch == own.epoch:
        if 0 < ahead <= max(own.ahead, now.ahead):
            batches = f"{ahead} batches that workers had fetched ahead were"
            batches = batches if ahead > 1 else "1 batch that workers had fetched ahead was"
            yield "look-ahead", f"{batches} never trained: {twice}"
        else:
            yield "position", f"gets batch {elsewhere.position} of the epoch, and not batch {own.position}: {twice}"
    elif not now.draws:
        yield "epoch", f"gets batch {elsewhere.position} of epoch {elsewhere.epoch}, {twice}"
    else:
        if ahead:
            yield "position", f"gets batch {elsewhere.position} of an epoch, and not batch {own.position}: {twice}"
        yield "order", f"epoch {own.epoch} was shuffled like epoch {elsewhere.epoch}: {drawn}"


def _again(elsewhere: int, step: int) -> str:
    """Say which data are trained twice or skipped where a step gets the batch of another step."""
    if elsewhere < step:
        return f"the data of step {elsewhere} are trained twice"
    which = f"steps {step} to {elsewhere - 1}" if elsewhere - 1 > step else f"step {step}"
    return f"those of {which} are skipped"


def _unindexed(side: RankPair, row: int) -> Iterator[Shown]:
    """Explain batches without known indices: those of an iterable dataset, or drawn by the script itself."""
    step = side.step(row)
    expected, actual = _compared(side, row, "batch")
    if any(expected[name] == actual[name] for name in expected):
        return  # The data are right; another input of the model differs.
    other_steps = [one for one in range(side.a.steps) if one != step] if actual else []
    matches = [one for one in other_steps if set(actual.values()) <= set(side.a.column(one, "batch").values())]
    if wrong_generators(side, row) and (not matches or any(_generators_as(side, row, one) for one in matches)):
        yield "generators", f"the data of step {step} are others, and {_GLOBAL}"
    elif matches:
        nearest = min(matches, key=lambda one: abs(one - step))
        yield "position", f"gets the data of step {nearest}: {_again(nearest, step)}"


def wrong_generators(side: RankPair, row: int) -> list[str]:
    """Return the names of the global generators whose states differ at the end of a step."""
    a, b = _compared(side, row, "rng")
    return [name for name, digest in a.items() if b[name] != digest]


def _generators_as(side: RankPair, row: int, step: int) -> bool:
    """Whether a wrong generator has the state after a resumed step that it had after another step, `step`."""
    wrong, now, then = wrong_generators(side, row), side.b.column(row, "rng"), side.a.column(step, "rng")
    return any(now[name] == then.get(name) for name in wrong)
