"""Words for the answer of `samebits resume`."""

from __future__ import annotations

from pathlib import Path

from samebits.report.places import difference_words, place_words, run_rows
from samebits.report.rows import AnswerReport, Rows, counted, source_row, unseen_rows
from samebits.resuming.missing import MOST_VALUES_SHOWN, differences_clause
from samebits.resuming.verdict import Missing, Resumption, State, Trial

# The end of remedies for states that `Training` saves and many scripts forget.
_HELD = "; samebits.state.Training holds all of it"
# Stream that differs first → what to look at where no restored state explains the difference.
_LOOK_AT = {
    "grad": "what clips, freezes or hooks gradients",
    "artifact": "what decides when and what it saves there, such as the best result so far",
    "loss": "what goes into the loss besides the data, and what the model does with them",
    "batch": "where its data come from: a server, a process, or a file that grows",
}
REMEDIES: dict[State, str] = {
    "not-resumed": "load the checkpoint where the script starts, and continue with the step that it was saved at; "
    "if the script needs the path of the checkpoint: --with '--resume PATH'",
    "parameters": "save model.state_dict() of every model, and load it before the first step",
    "buffers": "save the whole model.state_dict(), which holds its buffers, and not its parameters alone",
    "averaged": "save every copy of the weights (averaged, target, best) with the model, and load it" + _HELD,
    "position": "save how many batches of the epoch are done, and skip as many when the epoch is resumed",
    "order": "give the sampler a generator of its own, seeded by seed and epoch (sampler.set_epoch, or "
    "generator=torch.Generator().manual_seed(seed + epoch)), or save its state at the start of the epoch",
    "sample-generators": "restore the generators before the first batch is made, not after: random.getstate(), "
    "numpy.random.get_state() and torch.get_rng_state() as they were at the save; or key samples by their index "
    "(samebits.data.DataLoader)" + _HELD,
    "generators": "save torch.get_rng_state() (and of every device, such as torch.cuda.get_rng_state_all()), "
    "numpy.random.get_state() and random.getstate(), and restore them last, just before training continues" + _HELD,
    "optimizer": "save optimizer.state_dict(), and load it after the optimizer was made" + _HELD,
    "scheduler": "save scheduler.state_dict(), and load it together with the optimizer's" + _HELD,
    "scaler": "save scaler.state_dict(), and load it" + _HELD,
    "accumulation": "save after an optimizer step, or save the gradients and how many batches are in them" + _HELD,
    "rank-state": "save the state of every rank in a file of its own, and load that on the same rank" + _HELD,
    "snapshot": "copy the state before the thread that saves it starts: copy.deepcopy(model.state_dict())",
    "look-ahead": "save the position of the batch that was trained last, not of the one that was fetched last",
    "mode": "set again which parameters are trained (requires_grad), and which modules are in which mode (train, eval)",
    "carried": "save what one step hands to the next (hidden states, the state of an environment), and load it",
    "counter": "save that number with the rest, and load it",
    "replay": "save what was collected (a replay buffer, a history), and load it",
    "epoch": "save which epoch is under way and whether it is over, and begin the next one only then",
}  # fmt: skip


def resume_report(found: Resumption) -> AnswerReport:
    """Return the answer of `samebits resume`: where each resumed training diverges, and which state it lacks."""
    first, end = found.first, [*run_rows(found.runs), *unseen_rows(found.not_observed)]
    if first is None or (found.kind == "undecided" and not any(trial.compared for trial in found.trials)):
        return AnswerReport(_headline(found), end)
    rows: Rows = []
    for trial in found.trials:
        rows += _trial_rows(trial, is_one_of_many=len(found.trials) > 1)
    seed = "" if found.seed is None else f"{found.seed}, by which the steps were chosen at random"
    return AnswerReport(_headline(found), [*rows, ("rests on", _rests_on(found)), ("seed", seed), *end])


def _headline(found: Resumption) -> str:
    first = found.first
    if first is not None and first is found.failing and first.error is not None:
        return f"different bits: {first.error.message.splitlines()[0]}"
    if first is None or not (first.compared or first.differs):
        trouble = found.trouble
        return "undecided: no resumed step could be compared" if trouble is None else trouble.message.splitlines()[0]
    if first.differs:
        return f"different bits: {_differs(first)}"
    if found.kind == "undecided":
        resumes = counted(len(found.trials), "resume")
        return f"undecided: not all of {resumes} could be judged; of the others, {_agrees(found)}"
    return f"same bits: {_agrees(found)}"


def _differs(trial: Trial) -> str:
    ignored = next((missing for missing in trial.missing if missing.state == "not-resumed"), None)
    if ignored is not None:
        return f"the script {ignored.evidence.partition(';')[0]}"
    start = f"resumed from step {trial.resumed_step}, " if trial.resumed_step is not None else ""
    if trial.divergence is None:
        return f"{start}{trial.missing[0].evidence}"
    return f"{start}the training diverges {place_words(trial.divergence)}"


def _agrees(found: Resumption) -> str:
    judged = [trial for trial in found.trials if trial.error is None]
    steps = ", ".join(f"resumed from step {trial.resumed_step}" for trial in judged)
    compared = min(trial.compared for trial in judged)
    each = "each " if len(judged) > 1 else ""
    return f"{steps}, the training agrees with the uninterrupted one, {each}for {counted(compared, 'step')}"


def _rests_on(found: Resumption) -> str:
    """Tell after which step each trial was killed, what it loaded then, and how much was compared."""
    parts = []
    for trial in found.trials:
        end = ", and what was saved at the end" if trial.is_to_the_end else ""
        compared = "not judged" if trial.error else f"{counted(trial.compared, 'step')} compared{end}"
        parts.append(f"killed after step {trial.killed_after}, loaded {_loaded(trial)}: {compared}")
    return f"{'; '.join(parts)} (data, losses, gradients, parameters, buffers, optimizers, what is saved)"


def _loaded(trial: Trial) -> str:
    """Name the files that the resumed run loaded, or else the line."""
    files = ", ".join(f"{name or 'a file'} of {counted(steps, 'step')}" for name, steps in trial.loaded)
    at = trial.checkpoint.loaded_at
    return files or ("nothing that was seen" if at is None else f"what {at.place} reads")


def _trial_rows(trial: Trial, is_one_of_many: bool) -> Rows:
    rows: Rows = []
    if is_one_of_many:
        outcome = "agrees" if not trial.differs else _differs(trial)
        rows.append(("resume", f"killed after step {trial.killed_after}: {'not judged' if trial.error else outcome}"))
    if trial.divergence is not None:
        rows.append(("first", difference_words(trial.divergence)))
    for lack in trial.missing:
        rows.append(("missing", f"{lack.state}{f' of rank {lack.rank}' if lack.rank else ''}: {lack.evidence}"))
        rows += [("", _state_of(lack, len(trial.missing))), ("", f"fix: {REMEDIES[lack.state]}")]
    if trial.differs and not trial.missing:
        rows.append(("missing", f"not known: {_not_known(trial)}"))
    rows.append(("killed", _killed(trial)))
    checkpoint = trial.checkpoint
    if checkpoint.saved_at is not None:
        after = "" if trial.saved_step is None else f", when {counted(trial.saved_step, 'step')} were done"
        rows += [("saved", f"{checkpoint.saved_at.place}{after}"), source_row(checkpoint.saved_at.source)]
    if checkpoint.loaded_at is not None:
        rows += [("loaded", checkpoint.loaded_at.place), source_row(checkpoint.loaded_at.source)]
    elif not trial.error:
        rows.append(("loaded", _loaded(trial)))
    return [*rows, ("error", "" if trial.error is None else trial.error.message)]


def _state_of(missing: Missing, number: int) -> str:
    if missing.confirmed:
        together = ", and all others named here," if number > 1 else ""
        return f"confirmed: restoring it{together} makes the runs match"
    if missing.moves_to is not None:
        return f"suspected: restoring it moves the first difference to step {missing.moves_to}"
    return "suspected: seen in the recordings; restoring it did not or could not confirm it"


def _not_known(trial: Trial) -> str:
    stream = "" if trial.divergence is None else trial.divergence.stream
    look = f"look at {_LOOK_AT.get(stream, 'what the script does between the load and that step')}"
    if not trial.lacks:
        return look
    return f"restoring this did not help: {differences_clause(trial.lacks[:MOST_VALUES_SHOWN])}; {look}"


def _killed(trial: Trial) -> str:
    done = counted(trial.killed_after + 1, "step")
    after = f"after step {trial.killed_after}, when {done} were done, by SIG{trial.signal}"
    return f"while it saved {Path(trial.torn).name}, {after}" if trial.torn else after
