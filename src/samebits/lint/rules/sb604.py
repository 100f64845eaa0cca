"""A training resumes at an epoch, and without the state of what it steps with.

Moments, step counts, learning rates and loss scales begin anew, so the resumed run goes elsewhere than the one that was
not interrupted.

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

import ast
import re

from samebits.lint.project import argument, checkpoint_part, counters_from
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import last_name, owner_of

# Thing that has a state, apart from a model → the part of names that shows it, and the pattern of its makers.
_PARTS = {
    "optimizer": ("opt", re.compile(r"SGD|Adam\w*|[NR]Adam|RMSprop|Ada(grad|delta)")),
    "scheduler": ("sched", re.compile(r"\w+(LR|Restarts|LROnPlateau)")),
    "gradient scaler": ("scaler", re.compile(r"GradScaler")),
}


@Rule("warning")
def find(project: Project, source: Source) -> Findings:
    """Calls that load a model from a checkpoint that gives the epoch, too, where another part's state is not loaded."""
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
    made = [
        (one, call) for one in together for name in one.methods if maker.fullmatch(name) for call in one.methods[name]
    ]
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
