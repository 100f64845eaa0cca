"""A training resumes with its optimizer's state, and without those of the generators.

What it draws from there on is other than without the interruption: dropout, shuffling, augmentation. Resumed so, a run
differed from the one that was not interrupted; with the states of the generators it did not.

    state = torch.load("last.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])

With them:

    state = torch.load("last.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["rng"])
"""

import re

from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import last_name, owner_of

_RESTORING = {"set_rng_state", "setstate", "set_state", "fork_rng", "load_state", "TrainingState"}
_OPTIMIZER = re.compile(r"(.*_)?(optim\w*|opt)(_\w+)?", re.IGNORECASE)


@Rule("warning")
def find(project: Project, source: Source) -> Findings:
    """Calls that give an optimizer its state, where the scripts give none to a generator."""
    for call in source.methods["load_state_dict"]:
        owner = last_name(owner_of(call))
        entries = project.entries_of(source)
        if not _OPTIMIZER.fullmatch(owner) or not any(entry in project.trains for entry in entries):
            continue
        words = {word for file in project.files_of_scripts(source) for word in file.words}
        if not words & _RESTORING and not any("rng" in word.lower() for word in words):
            yield Finding.at(source, call, f"resumes {owner}, but no script here restores the states of generators")
