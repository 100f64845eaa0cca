"""An environment of gym is reset, and nothing gives it a seed.

It draws from a generator of its own, which begins with entropy of the system: seeding Python, NumPy and torch does not
reach it. Its first states, and whatever it plays, differ from run to run.

    import gymnasium
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset()

With a seed for the first episode, from which the others follow:

    import gymnasium
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=0)
"""

import ast
import re
from collections.abc import Iterable

from samebits.lint.project import holder_of
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import dotted, last_name, owner_of

_LIBRARIES = {"gym", "gymnasium", "procgen", "pettingzoo", "supersuit"}
_NAME = re.compile(r"(.*_)?envs?(_.*)?", re.IGNORECASE)
_MAKER = re.compile(r"make(_.*)?|(.*_)?env|\w*Env")


@Rule("warning", factors=("os-entropy",))
def find(project: Project, source: Source) -> Findings:
    """The first reset of a file, where no reset and no call that makes or seeds an environment is given a seed."""
    roots = {name.partition(".")[0] for name in source.imported.values()}
    resets = _named(source.methods["reset"])
    if not roots & _LIBRARIES or not resets or not project.entries_of(source):
        return
    makers, seeded = list[ast.Call](), list[ast.Call]()
    for file in project.closure(source):
        makers += [call for name in file.methods if _MAKER.fullmatch(name) for call in file.methods[name]]
        inner = [call for call in _named(file.methods["reset"]) if _MAKER.fullmatch(holder_of(file, call))]
        seeded += [*_named(file.methods["seed"]), *(call for call in inner if call.keywords)]
    names = [keyword.arg or "seed" for call in (*resets, *makers) for keyword in call.keywords]
    if not seeded and not any("seed" in name for name in names) and not any(call.args for call in resets):
        first, *others = sorted(resets, key=lambda call: call.lineno)
        reason = f"resets {dotted(owner_of(first))} without a seed, so it begins with entropy of the system"
        yield Finding.at(source, first, reason, others=others)


def _named(calls: Iterable[ast.Call]) -> list[ast.Call]:
    """Return the calls of methods of an object that is named as an environment."""
    return [call for call in calls if _NAME.fullmatch(last_name(owner_of(call)))]
