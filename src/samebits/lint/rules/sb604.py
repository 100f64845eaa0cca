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

# What has a state besides a model, how names show it, and what makes one.
_PARTS = {
    "optimizer": ("opt", re.compile(r"SGD|Adam\w*|[NR]Adam|RMSprop|Ada(grad|delta)")),
    "scheduler": ("sched", re.compile(r"\w+(LR|Restarts|LROnPlateau)")),
    "gradient scaler": ("scaler", re.compile(r"GradScaler")),
}


@Rule("warning")
def find(project: Project, source: Source) -> Findings:
    """Where a checkpoint gives a model its state and a loop its first epoch, and something else nothing."""
    loaded = source.methods["load_state_dict"]
    found = counters_from(source) if loaded else ()
    counters = [(source.function_of(node), holder) for node, holder, _ in found if holder]
    for call in loaded:
        here, holder = source.function_of(call), checkpoint_part(call.args[0])[0] if call.args else ""
        if (here, holder) not in counters:
            continue
        together = project.together(source)
        lost = [what for what in _PARTS if _is_lost(what, together)]
        if lost:
            yield Finding.at(source, call, f"resumes the model, and no script here its {' and '.join(lost)}")
        counters = [(function, name) for function, name in counters if function is not here]


def _is_lost(what: str, together: frozenset[Source]) -> bool:
    """Whether one is made that has a state, and none is given it."""
    part, maker = _PARTS[what]
    made = [
        (one, call) for one in together for name in one.methods if maker.fullmatch(name) for call in one.methods[name]
    ]
    names = {last_name(target) for one, call in made for target in getattr(one.parents[call], "targets", ())}
    restored = {last_name(owner_of(call)) for one in together for call in one.methods["load_state_dict"]}
    looped = {last_name(loop.target) for one in together for loop in one.every(ast.For)}
    # Some libraries give all of them their states at once.
    is_seen = not looped & restored and not any(one.words & {"set_state_dict", "load_state"} for one in together)
    kept = restored & names or [name for name in restored if part in name.lower()]
    return is_seen and not kept and any(_has_state(one, call) for one, call in made)


def _has_state(source: Source, call: ast.Call) -> bool:
    """Not plain SGD, nor a scheduler that is told where to begin, or the epoch of each step."""
    if last_name(call.func) == "SGD":
        momentum = argument(call, "momentum", 2)
        return bool(getattr(momentum, "value", momentum))
    told = [one for one in source.methods["step"] if "sched" in last_name(owner_of(one)).lower() and one.args]
    return argument(call, "last_epoch") is None and not told
