"""What a training that resumes does not get back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from samebits.lint.findings import Finding, Findings
from samebits.lint.libraries import SEEDS
from samebits.lint.project import Project, argument, checkpoint_part, counters_from, seeds_in, statements_above
from samebits.lint.rule import rule
from samebits.lint.source import Source, dotted, last_name, owner_of, walk

_RESTORING = {"set_rng_state", "setstate", "set_state", "fork_rng", "load_state", "TrainingState"}
_OPTIMIZER = re.compile(r"(.*_)?(optim\w*|opt)(_\w+)?", re.IGNORECASE)


@rule("SB601", "warning")
def generators_not_resumed(project: Project, source: Source) -> Findings:
    """A training resumes with its optimizer's state, and without those of the generators.

    What it draws from there on is other than without the interruption: dropout, shuffling, augmentation. Resumed so, a
    run differed from the one that was not interrupted; with the states of the generators it did not.

        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    With them:

        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
    """
    # Calls that give an optimizer its state, where the scripts give none to a generator.
    for call in source.methods["load_state_dict"]:
        owner = last_name(owner_of(call))
        entries = project.entries_of(source)
        if not _OPTIMIZER.fullmatch(owner) or not any(entry in project.trains for entry in entries):
            continue
        words = {word for file in project.files_of_scripts(source) for word in file.words}
        if not words & _RESTORING and not any("rng" in word.lower() for word in words):
            yield Finding.at(source, call, f"resumes {owner}, but no script here restores the states of generators")


_STATE_SETTERS = {name: library for name, library in SEEDS.items() if "state" in name}


@rule("SB603", "error")
def reseeded(project: Project, source: Source) -> Findings:
    """A generator is seeded after it was given the state of a checkpoint.

    The seed puts it back to where the training began, so the resumed run draws again what was drawn in its first
    epochs: the same order of batches, the same masks of dropout.

        state = torch.load("last.pt")
        torch.set_rng_state(state["rng"])
        torch.manual_seed(0)

    Seed first, and restore then:

        torch.manual_seed(0)
        state = torch.load("last.pt")
        torch.set_rng_state(state["rng"])
    """
    # Calls that seed a generator below the one, or a call of its function, that restores it from a checkpoint.
    restored = [*_restored(source), *_restored_elsewhere(project, source)]
    for library, call in seeds_in(source) if restored else ():
        above, here = statements_above(source, call), source.function_of(call)
        nearby = [one for restorer, one in restored if restorer == library and source.function_of(one) is here]
        before = [one for one in nearby if any(outer in above for outer in source.ancestors(one))]
        if before and call not in nearby and all(one.lineno < call.lineno for one in nearby):
            yield Finding.at(source, call, f"throws away the state that line {before[-1].lineno} has restored")


def _restored(source: Source) -> Iterator[tuple[str, ast.Call]]:
    """The calls that give a generator a state which is part of something, not one that was put aside for a while."""
    for name, library in _STATE_SETTERS.items():
        for call in source.calls[name]:
            if any(isinstance(part, ast.Subscript) for argument in call.args for part in walk(argument)):
                yield library, call


def _restored_elsewhere(project: Project, source: Source) -> Iterator[tuple[str, ast.Call]]:
    """The calls of functions, in a file or its imports, that restore a generator from a checkpoint."""
    for file in project.closure(source):
        for library, call in _restored(file):
            for user in source.methods[getattr(file.function_of(call), "name", "")]:
                *module, name = source.qualified(user.func).split(".")
                is_meant = not any(module) or file.is_meant(module)
                if is_meant and project.function(source, name) == (file, file.function_of(call)):
                    yield library, user


# Thing that has a state, apart from a model → the part of names that shows it, and the pattern of its makers.
_PARTS = {
    "optimizer": ("opt", re.compile(r"SGD|Adam\w*|[NR]Adam|RMSprop|Ada(grad|delta)")),
    "scheduler": ("sched", re.compile(r"\w+(LR|Restarts|LROnPlateau)")),
    "gradient scaler": ("scaler", re.compile(r"GradScaler")),
}


@rule("SB604", "warning")
def parts_not_resumed(project: Project, source: Source) -> Findings:
    """A training resumes at an epoch, and without the state of what it steps with.

    Moments, step counts, learning rates and loss scales begin anew, so the resumed run goes elsewhere than the one that
    was not interrupted.

        optimizer = torch.optim.Adam(model.parameters())
        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        start_epoch = state["epoch"] + 1

    With it:

        optimizer = torch.optim.Adam(model.parameters())
        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start_epoch = state["epoch"] + 1
    """
    # Calls that load a model from a checkpoint that gives the epoch, too, where another part's state is not loaded.
    loads = source.methods["load_state_dict"]
    assignments = counters_from(source) if loads else ()
    counters = [(source.function_of(node), holder) for node, holder, _ in assignments if holder]
    for call in loads:
        here, holder = source.function_of(call), checkpoint_part(call.args[0])[0] if call.args else ""
        if (here, holder) not in counters:
            continue
        together = project.files_of_scripts(source)
        lost = [part for part in _PARTS if _is_lost(part, together)]
        if lost:
            yield Finding.at(source, call, f"resumes the model, but no script here restores its {' and '.join(lost)}")
        counters = [(function, name) for function, name in counters if function is not here]


def _is_lost(what: str, together: frozenset[Source]) -> bool:
    """Whether the files make such a part with a state, and restore none."""
    word, maker = _PARTS[what]
    made = [(one, call) for one in together for call in one.methods.of(filter(maker.fullmatch, one.methods))]
    names = {last_name(target) for file, call in made for target in getattr(file.parents[call], "targets", ())}
    restored = {last_name(owner_of(call)) for file in together for call in file.methods["load_state_dict"]}
    looped = {last_name(loop.target) for file in together for loop in file.every(ast.For)}
    # Some libraries restore the states of all parts at once.
    is_seen = not looped & restored and not any(file.words & {"set_state_dict", "load_state"} for file in together)
    kept = restored & names or [name for name in restored if word in name.lower()]
    return is_seen and not kept and any(_has_state(file, call) for file, call in made)


def _has_state(source: Source, call: ast.Call) -> bool:
    """Whether the part has a state: plain SGD has none, and a scheduler that is told its epoch needs none."""
    if last_name(call.func) == "SGD":
        momentum = argument(call, "momentum", 2)
        return bool(getattr(momentum, "value", momentum))
    with_epoch = [step for step in source.methods["step"] if "sched" in last_name(owner_of(step)).lower() and step.args]
    return argument(call, "last_epoch") is None and not with_epoch


@rule("SB605", "warning")
def epoch_repeated(project: Project, source: Source) -> Findings:
    """A training resumes at the epoch that it had finished.

    What is saved is the number of the epoch that was just trained, and there it goes on: that epoch is trained twice.
    Three of nine public scripts that resume do so.

        start = torch.load("last.pt")["epoch"]
        for epoch in range(start, 10):
            train(epoch)
            torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")

    One further on:

        start = torch.load("last.pt")["epoch"] + 1
        for epoch in range(start, 10):
            train(epoch)
            torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")
    """
    # Assignments of an epoch from a checkpoint at which a loop begins whose counter is saved under the same key.
    loops = [(dotted(node.target), begin) for node in source.every(ast.For) if (begin := _begin(node))]
    for node, _, key in counters_from(source) if loops else ():
        counted = {name for name, begin in loops if begin in map(dotted, node.targets)}
        if checkpoint_part(node.value)[1] == key and counted & {*map(dotted, _saved(source, key))}:
            yield Finding.at(source, node, f"goes on at the {key} that was finished when it was saved")


def _begin(loop: ast.For) -> str:
    """Return the name at which a loop over a range begins; empty where its body changes the counter."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range" | "trange"), args=[begin, _, *_]):
            names = [dotted(one.target) for each in loop.body for one in walk(each) if isinstance(one, ast.AugAssign)]
            return "" if dotted(loop.target) in names else dotted(begin)
    return ""


def _saved(source: Source, key: str) -> Iterator[ast.expr]:
    """The values that dicts of a file hold under a key."""
    for node in source.every(ast.Dict):
        for name, value in zip(node.keys, node.values, strict=True):
            if isinstance(name, ast.Constant) and name.value == key:
                yield value
