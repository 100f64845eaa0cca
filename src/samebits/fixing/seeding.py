"""Cures that are a seed: of a library's own generator, of a generator that was made without one, of any number."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from samebits.base.sites import Site
from samebits.fixing.cures import Cure, Sources, Wanted, calls_at, with_argument
from samebits.fixing.edits import Edit, NoCureError, Original
from samebits.fixing.openings import (
    Opening,
    block_of,
    call_name,
    first_line,
    imports_end,
    is_seed_name,
    name_of,
    seed_constant,
)
from samebits.lint.project import draws_in, loop_around, seeds_in
from samebits.lint.seeds import PARSERS, seed_options
from samebits.lint.source import Function, is_none, last_name, parameters

# Of each factor: the module, and what seeds its generator.
_SEEDERS = {
    "torch-rng": ("torch", "manual_seed"),
    "numpy-rng": ("numpy", "random.seed"),
    "python-rng": ("random", "seed"),
}
_ONE_OF_THEM = "its losses are those of one seed, of all that it may have drawn"


def _seeds(own: Original, factor: str, seed: str) -> str:
    module, seeder = _SEEDERS[factor]
    return f"{name_of(own, module)}.{seeder}({seed})"


def _indent(own: Original, statement: ast.stmt) -> str:
    return own.lines[statement.lineno - 1][: statement.col_offset]


def _seeded_below(own: Original, statement: ast.stmt, factor: str, seed: str) -> list[Edit | Opening]:
    """A line that seeds, below a statement."""
    at = own.end_of_line(statement.end_lineno or 0)
    line = f"\n{_indent(own, statement)}{_seeds(own, factor, seed)}"
    return [Edit(at, at, line), Opening("", _SEEDERS[factor][0])]


# ---- global generators: ways to seed them, in the script's own style first


def seed_moved(files: Sources, wanted: Wanted) -> Cure:
    """The seeding that comes too late is moved up in its block, to where all that it uses is known."""
    if wanted.late is None:
        raise NoCureError("nothing seeds it too late")
    own = files.at(wanted.late)
    block, seed = block_of(own, wanted.late.line)
    holder = own.source.parents[seed]
    if isinstance(holder, Function) and _names(seed) & {one.arg for one, _ in parameters(holder.args)}:
        # The seed of `def set_seed(seed)`: its call is moved.
        calls = own.source.methods[holder.name]
        if len(calls) != 1:
            raise NoCureError(f"{holder.name} is called more than once, or in another file")
        block, seed = block_of(own, calls[0].lineno)
    if not isinstance(seed, ast.Expr):
        raise NoCureError("the seeding is part of a larger statement")
    before = block[: block.index(seed)]
    known = [index for index, one in enumerate(before) if _is_head(one) or _bound(one) & _names(seed)]
    goal = before[known[-1] + 1 if known else 0 :][:1]
    if not goal:
        raise NoCureError("the seeding cannot come earlier")
    own.whole_lines(goal[0])
    (start, stop), at = own.whole_lines(seed), own.offset(first_line(goal[0]))
    edits = [Edit(at, at, own.text[start:stop].rstrip("\r\n") + "\n"), Edit(start, stop, "")]
    return Cure({own.path: edits}, "moves the seed to where it takes effect", _ONE_OF_THEM)


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement binds."""
    stored = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return stored | ({node.name} if isinstance(node, Function | ast.ClassDef) else set())


def _is_head(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal)


def seed_of_option(files: Sources, wanted: Wanted) -> Cure:
    """Through the script's own `--seed`: where nothing reads it, it is given to the generator."""
    own = files.script(wanted)
    for call, option in seed_options(own.source, is_read=False):
        default = [with_argument(own, call, "default", "0")] if option.is_none else []
        for statement, namespace in _parsings(own):
            if any(_is_before(own, site, statement) for site in _sites(wanted)):
                continue
            edits = [*default, *_seeded_below(own, statement, wanted.factor, f"{namespace}.{option.name}")]
            return Cure({own.path: edits}, f"seeds with {option.shown}, which was never used", _ONE_OF_THEM)
    raise NoCureError("the script has no option for a seed that is unused")


def seed_of_default(files: Sources, wanted: Wanted) -> Cure:
    """A number in the place of None as the default of `--seed`, where the script seeds as soon as it is given."""
    own = files.script(wanted)
    for call, option in seed_options(own.source, is_read=True):
        if option.is_none and _seeds_with(own, option.name):
            edit = with_argument(own, call, "default", "0")
            return Cure({own.path: [edit]}, f"gives {option.shown} a default", _ONE_OF_THEM)
    raise NoCureError("the script has no option for a seed that is None unless it is given")


def _sites(wanted: Wanted) -> list[Site]:
    return [one for one in (wanted.site, *wanted.others) if one is not None]


def _is_before(own: Original, site: Site, statement: ast.stmt) -> bool:
    """Whether a line stands above a statement, in the same function."""
    holder = own.source.function_of(statement)
    if isinstance(holder, Function):
        is_same = holder.lineno <= site.line <= (holder.end_lineno or 0)
    else:
        is_same = site.function == "<module>"
    return site.path == own.path and is_same and site.line <= statement.lineno


def _parsings(own: Original) -> Iterator[tuple[ast.stmt, str]]:
    """Statements that parse the command line, each with the name that the arguments get."""
    returns = [(own.source.function_of(node), node.value) for node in own.source.every(ast.Return) if node.value]
    makers = {getattr(function, "name", "") for function, value in returns if call_name(value) in PARSERS} | PARSERS
    for node in own.source.every(ast.Assign):
        match node.targets[0]:
            case ast.Name(id=name) | ast.Tuple(elts=[ast.Name(id=name), *_]) if call_name(node.value) in makers:
                # Not where a function of its own changes and returns them.
                if (own.source.function_of(node), name) not in [(one, last_name(value)) for one, value in returns]:
                    yield node, name


def _seeds_with(own: Original, name: str) -> bool:
    """Whether something is seeded with a variable or attribute of a name."""
    calls = (call for name, found in own.source.methods.items() if "seed" in name.lower() for call in found)
    return any(last_name(inner) == name for call in calls for inner in ast.walk(call) if inner is not call)


def seed_beside(files: Sources, wanted: Wanted) -> Cure:
    """Beside the line that seeds another library, before this one draws, with the same seed."""
    for site in wanted.early:
        own = files.at(site)
        _, statement = block_of(own, site.line)
        is_alone = not _indent(own, statement).strip() and statement.end_lineno == site.line
        is_special = getattr(own.source.function_of(statement), "name", "").startswith("__")
        match getattr(statement, "value", None):
            case ast.Call(args=[ast.Name() | ast.Attribute() | ast.Constant() as seed], keywords=[]) as call:
                if isinstance(statement, ast.Expr) and is_alone and not is_special and "seed" in call_name(call):
                    edits = _seeded_below(own, statement, wanted.factor, own.written(seed))
                    return Cure({own.path: edits}, "seeds it with the others", _ONE_OF_THEM)
    raise NoCureError("nothing else is seeded before it is drawn from")


def seed_as_others(files: Sources, wanted: Wanted) -> Cure:
    """The same for what reading finds: a line that draws from generators which are not seeded, while others are."""
    own = files.at(wanted.place)
    seeds = dict(seeds_in(own.source))
    edits = list[Edit | Opening]()
    for factor, (module, _) in _SEEDERS.items():
        if module not in seeds and any(draw.lineno == wanted.place.line for draw in draws_in(own.source, module)):
            early = tuple(Site(own.path, call.lineno, own.source.qualname(call)) for call in seeds.values())
            edits += seed_beside(files, replace(wanted, factor=factor, early=early)).edits[own.path]
    if not edits:
        raise NoCureError("the line does not show what it draws from")
    return Cure({own.path: edits}, "seeds it with the others", _ONE_OF_THEM)


def seed_at_start(files: Sources, wanted: Wanted) -> Cure:
    """Once, at the start of the script: below its imports, or below its own constant for a seed."""
    own, (module, _) = files.script(wanted), _SEEDERS[wanted.factor]
    end, (constant, line) = imports_end(own), seed_constant(own)
    sites = _sites(wanted)
    draws_in = [one for one in sites if one.path == own.path and 0 < one.line <= end]
    if draws_in or any(one.path != own.path and one.function in ("<module>", "") for one in sites):
        # What draws while it is imported.
        opening = Opening(_seeds(own, wanted.factor, "0"), module, -1)
        return Cure({own.path: [opening]}, "seeds it above all imports", _ONE_OF_THEM)
    before = [one.line for one in sites if one.path == own.path and one.function == "<module>"]
    is_known = bool(constant) and all(line < one for one in before)
    text = _seeds(own, wanted.factor, constant if is_known else "0")
    opening = Opening(text, module, line if is_known else 0)
    return Cure({own.path: [opening]}, "seeds it at the start of the script", _ONE_OF_THEM)


# ---- a seed where one is made of what differs from run to run

_SEEDED = {"manual_seed", "manual_seed_all", "seed", "seed_all", "default_rng", "RandomState", "Random", "SeedSequence"}
_SEEDED |= {"seed_everything", "set_seed", "PCG64", "MT19937", "Philox", "PRNGKey"}
_SEEDLESS = {"default_rng", "RandomState", "Random", "SeedSequence", "SystemRandom"}
_SEEDLESS |= {"PCG64", "MT19937", "Philox", "SFC64"}
_ONCE = {"main", "__init__", "setup", "prepare_data"}
_BRANCHES = (ast.IfExp, ast.BoolOp)
_COMPUTED = (ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Subscript, ast.JoinedStr, ast.FormattedValue)
_STREAM = "entropy"


def seed_fixed(files: Sources, wanted: Wanted) -> Cure:
    """A seed in the place of one that is computed from the time, a process id, or the operating system's entropy."""
    own = files.at(wanted.place)
    calls = calls_at(own, wanted.place, (wanted.last_name,)) or calls_at(own, wanted.place, _DRAWS)
    edits = list[Edit | Opening]()
    for call in calls:
        target = _seed_around(own, call)
        if target is None:
            raise NoCureError("what is read there is no seed")
        is_default = isinstance(own.source.parents[target], ast.keyword)
        text, needed = ("0", []) if is_default else _number(own, target)
        edits += [Edit(*own.span(target), text), *needed]
    if not edits:
        raise NoCureError(f"the line does not show a call of {wanted.called}")
    return Cure({own.path: edits}, "gives it a fixed seed", _ONE_OF_THEM)


def _seed_around(own: Original, node: ast.expr) -> ast.expr | None:
    """The whole of the expression that becomes a seed; None where it becomes something else."""
    target: ast.expr = node
    is_open, inner = True, node
    while True:
        parent = own.source.parents[inner]
        if isinstance(parent, ast.keyword):
            holder = own.source.parents[parent]
            is_option = parent.arg == "default" and "seed" in ast.unparse(holder).lower()
            return target if is_seed_name(parent.arg or "") or is_option else None
        if isinstance(parent, ast.Call) and inner in parent.args:
            if last_name(parent.func) in _SEEDED or is_seed_name(last_name(parent.func)):
                return target
        elif isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            return target if any(is_seed_name(last_name(one)) for one in targets) else None
        elif isinstance(parent, ast.Return):
            return target if is_seed_name(getattr(own.source.function_of(parent), "name", "")) else None
        elif isinstance(parent, ast.Lambda) and not parent.args.args:
            pass
        elif isinstance(parent, _BRANCHES):
            is_open = False
        elif not isinstance(parent, (*_COMPUTED, ast.Call)):
            return None
        assert isinstance(parent, ast.expr)
        inner = parent
        target = parent if is_open else target


def _number(own: Original, node: ast.AST) -> tuple[str, list[Opening]]:
    """A seed for a place: a number where it is reached once; otherwise another one each time, the same in each run."""
    holder = own.source.function_of(node)
    is_loop = loop_around(own.source, node) is not None
    if isinstance(holder, ast.Module) and not is_loop:
        return "0", []
    if isinstance(holder, Function):
        arguments = [one.arg for one in holder.args.args]
        if holder.name == "__getitem__" and len(arguments) > 1:
            return arguments[1], []
        if holder.name in _ONCE and not is_loop:
            return "0", []
    if _is_in_workers(own, holder):
        return f"{name_of(own, 'torch')}.initial_seed() % 2**32", [Opening("", "torch")]
    if isinstance(holder, Function) and not is_loop and _is_called_once(own, holder):
        return "0", []
    stream, needed = _stream(own)
    return f"{stream}.getrandbits(32)", needed


def _is_in_workers(own: Original, holder: ast.AST) -> bool:
    """Whether a function runs in the workers of a loader."""
    parent = own.source.parents.get(holder)
    if isinstance(parent, ast.keyword) and parent.arg == "worker_init_fn":
        return True
    if not isinstance(holder, Function):
        return False
    given = [node for node in own.source.every(ast.keyword) if node.arg == "worker_init_fn"]
    return holder.name == "__iter__" or any(last_name(one.value) == holder.name for one in given)


def _is_called_once(own: Original, holder: ast.AST) -> bool:
    """Whether a function of this file is called at one place, outside of functions and loops."""
    mentions = own.source.mentions(getattr(holder, "name", ""))
    if len(mentions) != 1 or not isinstance(own.source.parents[mentions[0]], ast.Call):
        return False
    outer = own.source.function_of(mentions[0])
    is_top = isinstance(outer, ast.Module) or getattr(outer, "name", "") in _ONCE
    made = any(isinstance(one, ast.ListComp | ast.GeneratorExp) for one in own.source.around(mentions[0]))
    return is_top and not made and loop_around(own.source, mentions[0]) is None


def _stream(own: Original) -> tuple[str, list[Opening]]:
    """A generator of the file's own."""
    name = f"_{_STREAM}" if own.source.mentions(_STREAM) else _STREAM
    return name, [Opening(f"{name} = {name_of(own, 'random')}.Random(0)", "random")]


def seed_given(files: Sources, wanted: Wanted) -> Cure:
    """A seed for what was made without one: `default_rng()`, `random.Random()`, `torch.seed()`, `generator.seed()`."""
    own, edits = files.at(wanted.place), list[Edit | Opening]()
    for call in calls_at(own, wanted.place, _SEEDLESS | {"seed", "seed_all"}):
        if not all(map(is_none, _given(call))):
            continue
        text, needed = _number(own, call)
        (_, first), (_, stop) = own.span(call.func), own.span(call)
        name = last_name(call.func)
        if name == "SystemRandom":
            edits += [Edit(*own.span(call), f"{name_of(own, 'random')}.Random({text})"), Opening("", "random")]
        else:
            edits.append(Edit(first, stop, f"({text})"))
            if name in ("seed", "seed_all") and "torch" in wanted.called:
                edits.append(Edit(first - len(name), first, f"manual_{name}"))
        edits += needed
    if not edits:
        raise NoCureError("the line does not show what is made without a seed")
    return Cure({own.path: edits}, "gives it a seed", _ONE_OF_THEM)


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(one.value for one in call.keywords)]


# What a stream of one's own gives in the place of a call; `{0}` is the stream, `{1}` the arguments, `{2}` the module
# `io`, and `{3}` what stands before the name.
_DRAWS = {
    "uuid4": "{3}UUID(int={0}.getrandbits(128), version=4)",
    "urandom": "{0}.randbytes({1})",
    "token_bytes": "{0}.randbytes({1})",
    "token_hex": "{0}.randbytes({1}).hex()",
    "randbits": "{0}.getrandbits({1})",
    "randbelow": "{0}.randrange({1})",
    "choice": "{0}.choice({1})",
    "open": "{2}.BytesIO({0}.randbytes(2**16))",
}


def drawn_instead(files: Sources, wanted: Wanted) -> Cure:
    """What the operating system hands out is drawn from a generator of the file's own, which has a seed."""
    own, edits = files.at(wanted.place), list[Edit | Opening]()
    asked = {"open"} if wanted.called.startswith("/dev/") else {wanted.last_name} & set(_DRAWS)
    for call in calls_at(own, wanted.place, asked) or calls_at(own, wanted.place, set(_DRAWS) - {"open", "choice"}):
        name = last_name(call.func)
        given = ", ".join(own.written(one) for one in _given(call))
        if not given and name.startswith("token"):
            given = "32"
        if name == "uuid4" and isinstance(call.func, ast.Name):
            raise NoCureError("uuid4 is imported by its own name")
        once = name != "uuid4" and _number(own, call)[0] == "0"
        stream, needed = (f"{name_of(own, 'random')}.Random(0)", [Opening("", "random")]) if once else _stream(own)
        io, before = name_of(own, "io") if name == "open" else "", own.written(call.func).removesuffix(name)
        edits += [Edit(*own.span(call), _DRAWS[name].format(stream, given, io, before)), *needed]
        edits += [Opening("", "io")] if io else []
    if not edits:
        raise NoCureError("the line does not show the call")
    effect = "what is drawn there is the same in every run: it is no secret, and two runs have the same ids"
    return Cure({own.path: edits}, "draws it from a generator with a seed", effect)
