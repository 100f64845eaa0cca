"""Generators, and what draws from them: with which seed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from samebits.lint.findings import Finding, Findings
from samebits.lint.libraries import ENTROPY, GENERATORS, SEEDS
from samebits.lint.project import Project, holder_of, is_none_fallback, parts_of, splits_in, value_of
from samebits.lint.rule import rule
from samebits.lint.source import Source, dotted, is_none, last_name, owner_of

_SEEDING = {"manual_seed", "manual_seed_all", "seed_everything", "set_seed", "seed_all"}


@rule("SB106", "error", factors=("clock", "process-id", "os-entropy"), fix="unsafe")
def seeded_anew(project: Project, source: Source) -> Findings:
    """A generator is seeded with something that is new in every run.

    The clock, the process id, the operating system's entropy: the run cannot be repeated, unless the number is kept.

        torch.manual_seed(int(time.time()))

    A number that is written down:

        torch.manual_seed(0)
    """
    # Calls that seed with entropy of the operating system, or with a value that is computed from something new.
    for call in (*source.calls["torch.seed"], *source.methods["seed"]):
        if source.qualified(call.func) == "torch.seed" or _is_reseeded(source, call):
            yield Finding.at(source, call, "seeds with entropy of the operating system, which is new in every run")
    if not ENTROPY & source.calls.keys():
        return
    for call in (*source.calls.of([*SEEDS, *GENERATORS]), *source.methods.of(_SEEDING)):
        seeds = call.args[:1] or [one.value for one in call.keywords if one.arg == "seed"]
        if maker := _entropy(source, seeds[0]) if seeds else "":
            yield Finding.at(source, call, f"seeds with {maker}(), which is new in every run")


def _is_reseeded(source: Source, call: ast.Call) -> bool:
    """Whether a call is `generator.seed()` of a generator of torch."""
    owner = owner_of(call)
    generator = value_of(source, owner) if owner and not call.args and not call.keywords else None
    return isinstance(generator, ast.Call) and source.qualified(generator.func) == "torch.Generator"


def _entropy(source: Source, seed: ast.expr) -> str:
    for part in parts_of(source, seed):
        if isinstance(part, ast.Call) and source.qualified(part.func) in ENTROPY and not is_none_fallback(source, part):
            return source.qualified(part.func)
    return ""


_SECRETS = ("secrets.choice", "secrets.randbelow", "secrets.randbits", "random.SystemRandom")


@rule("SB107", "error", factors=("os-entropy",), fix="unsafe")
def no_seed(project: Project, source: Source) -> Findings:
    """A generator is made without a seed.

    It begins with entropy of the operating system, and no global seed reaches it.

        rng = np.random.default_rng()
        order = rng.permutation(100)

    With one:

        rng = np.random.default_rng(0)
        order = rng.permutation(100)
    """
    # Generators without a seed in scripts that use torch, unless the caller gave none, or a later line seeds them.
    closures = [project.closure(entry) for entry in project.entries_of(source)]
    if not any("torch" in file.imported for closure in closures for file in closure):
        return
    for name in (*GENERATORS, *_SECRETS):
        for call in source.calls[name] if name != "torch.Generator" else ():
            is_open = name in _SECRETS or (is_none(call.args[0]) if call.args else not call.keywords)
            if is_open and not is_none_fallback(source, call) and not _is_seeded(source, call):
                seedless = f"asks the operating system for every draw, and takes no seed: {name}()"
                unseeded = f"draws its seed from the operating system: {name}() without one"
                yield Finding.at(source, call, seedless if name in _SECRETS else unseeded)


def _is_seeded(source: Source, call: ast.Call) -> bool:
    """Whether the generator that a call makes is seeded or given a state, by a name that it is assigned to."""
    parent = source.parents[call]
    names = [dotted(target) for target in parent.targets] if isinstance(parent, ast.Assign) else []
    return any(
        dotted(node).startswith(f"{name}.") and node.attr in ("seed", "setstate", "set_state", "state", "bit_generator")
        for name in filter(None, names)
        for node in source.every(ast.Attribute)
    )


@rule("SB110", "info")
def default_seed(project: Project, source: Source) -> Findings:
    """A generator of torch is made, and never seeded.

    It begins with 67280421310721 in every run, which repeats, and which nobody chose: another `--seed` changes nothing
    that it draws.

        generator = torch.Generator()
        loader = DataLoader(data, shuffle=True, generator=generator)

    With a seed:

        generator = torch.Generator().manual_seed(0)
        loader = DataLoader(data, shuffle=True, generator=generator)
    """
    # Generators that are assigned to a name, and that the file never seeds by that name.
    for call in source.calls["torch.Generator"]:
        parent = source.parents[call]
        if isinstance(parent, ast.Assign) and (name := dotted(parent.targets[0])):
            used = {one.attr for one in source.every(ast.Attribute) if dotted(one.value) == name}
            if not used & {"manual_seed", "seed", "set_state"}:
                yield Finding.at(source, call, f"leaves {name} with the seed that all generators begin with")


@rule("SB111", "error", factors=("torch-rng", "numpy-rng"), fix="safe", cure="generator")
def split_unseeded(project: Project, source: Source) -> Findings:
    """Data are split or sampled with a generator that nothing seeds.

    What is held out differs from run to run, so results cannot be compared with one another, let alone repeated.

        train, test = random_split(data, [80, 20])
        model = nn.Linear(4, 1)

    With a generator of its own:

        train, test = random_split(data, [80, 20], generator=torch.Generator().manual_seed(0))
        model = nn.Linear(4, 1)
    """
    # Splits and samplings where neither the call nor a script that runs it seeds the generator.
    for library, call in splits_in(source):
        if project.lacks_seed(source, library):
            reason = f"{last_name(call.func)}() draws from the generator of {library}, which nothing seeds"
            yield Finding.at(source, call, reason)


_LIBRARIES = {"gym", "gymnasium", "procgen", "pettingzoo", "supersuit"}
_NAME = re.compile(r"(.*_)?envs?(_.*)?", re.IGNORECASE)
_MAKER = re.compile(r"make(_.*)?|(.*_)?env|\w*Env")


@rule("SB113", "warning", factors=("os-entropy",))
def environment_unseeded(project: Project, source: Source) -> Findings:
    """An environment of gym is reset, and nothing gives it a seed.

    It draws from a generator of its own, which begins with entropy of the system: seeding Python, NumPy and torch does
    not reach it. Its first states, and whatever it plays, differ from run to run.

        import gymnasium
        env = gymnasium.make("CartPole-v1")
        observation, _ = env.reset()

    With a seed for the first episode, from which the others follow:

        import gymnasium
        env = gymnasium.make("CartPole-v1")
        observation, _ = env.reset(seed=0)
    """
    # The first reset of a file, where no reset and no call that makes or seeds an environment is given a seed.
    roots = {name.partition(".")[0] for name in source.imported.values()}
    resets = _named(source.methods["reset"])
    if not roots & _LIBRARIES or not resets or not project.entries_of(source):
        return
    makers, seeded = list[ast.Call](), list[ast.Call]()
    for file in project.closure(source):
        makers += file.methods.of(filter(_MAKER.fullmatch, file.methods))
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
