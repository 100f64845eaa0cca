"""Cures that seed: global generators, generators made without a seed, and numbers that are new in every run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from samebits.base.sites import Site
from samebits.fixing.cures import Cure, EditableFiles, MendRequest, calls_at, with_argument
from samebits.fixing.edits import Edit, EditableFile, NoCureError
from samebits.fixing.insertion_points import (
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

# Factor → the module, and its function that seeds the generator.
_SEEDERS = {
    "torch-rng": ("torch", "manual_seed"),
    "numpy-rng": ("numpy", "random.seed"),
    "python-rng": ("random", "seed"),
}
_ONE_OF_THEM = "its losses are those of one fixed seed from now on"


def _seeds(own: EditableFile, factor: str, seed: str) -> str:
    module, seeder = _SEEDERS[factor]
    return f"{name_of(own, module)}.{seeder}({seed})"


def _indent(own: EditableFile, statement: ast.stmt) -> str:
    return own.lines[statement.lineno - 1][: statement.col_offset]


def _seeded_below(own: EditableFile, statement: ast.stmt, factor: str, seed: str) -> list[Edit | Opening]:
    """Return the edits that add a line that seeds, below a statement."""
    at = own.end_of_line(statement.end_lineno or 0)
    line = f"\n{_indent(own, statement)}{_seeds(own, factor, seed)}"
    return [Edit(at, at, line), Opening("", _SEEDERS[factor][0])]


# ---- ways to seed global generators, those in the script's own style first


def seed_moved(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Move a seeding that comes too late up in its block, to where all names that it uses are bound."""
    if wanted.late is None:
        raise NoCureError("nothing seeds it too late")
    file = files.at(wanted.late)
    block, seeding = block_of(file, wanted.late.line)
    holder = file.source.parents[seeding]
    if isinstance(holder, Function) and _names(seeding) & {arg.arg for arg, _ in parameters(holder.args)}:
        # The seed is a parameter, as in `def set_seed(seed)`: move the call of that function.
        calls = file.source.methods[holder.name]
        if len(calls) != 1:
            raise NoCureError(f"{holder.name} is called more than once, or in another file")
        block, seeding = block_of(file, calls[0].lineno)
    if not isinstance(seeding, ast.Expr):
        raise NoCureError("the seeding is part of a larger statement")
    before = block[: block.index(seeding)]
    needed = [index for index, node in enumerate(before) if _is_head(node) or _bound(node) & _names(seeding)]
    goal = before[needed[-1] + 1 if needed else 0 :][:1]
    if not goal:
        raise NoCureError("the seeding cannot come earlier")
    file.whole_lines(goal[0])
    (start, stop), at = file.whole_lines(seeding), file.offset(first_line(goal[0]))
    edits = [Edit(at, at, file.text[start:stop].rstrip("\r\n") + "\n"), Edit(start, stop, "")]
    return Cure({file.path: edits}, "moves the seed to where it takes effect", _ONE_OF_THEM)


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _bound(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""
    stored = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return stored | ({node.name} if isinstance(node, Function | ast.ClassDef) else set())


def _is_head(node: ast.stmt) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal)


def seed_of_option(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Seed with the script's own option for a seed, such as `--seed`, where nothing reads that."""
    file = files.script(wanted)
    for call, option in seed_options(file.source, is_read=False):
        default = [with_argument(file, call, "default", "0")] if option.is_none else []
        for statement, namespace in _parsings(file):
            if any(_is_before(file, site, statement) for site in _sites(wanted)):
                continue
            edits = [*default, *_seeded_below(file, statement, wanted.factor, f"{namespace}.{option.name}")]
            return Cure({file.path: edits}, f"seeds with {option.shown}, which was never used", _ONE_OF_THEM)
    raise NoCureError("the script has no option for a seed that is unused")


def seed_of_default(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Give `--seed` the default 0 instead of None, where the script seeds with the option if it is given."""
    file = files.script(wanted)
    for call, option in seed_options(file.source, is_read=True):
        if option.is_none and _seeds_with(file, option.name):
            edit = with_argument(file, call, "default", "0")
            return Cure({file.path: [edit]}, f"gives {option.shown} a default", _ONE_OF_THEM)
    raise NoCureError("the script has no option for a seed that is None unless it is given")


def _sites(wanted: MendRequest) -> list[Site]:
    return [site for site in (wanted.site, *wanted.others) if site is not None]


def _is_before(own: EditableFile, site: Site, statement: ast.stmt) -> bool:
    """Whether a line is that of a statement or stands above it, in the same function."""
    holder = own.source.function_of(statement)
    if isinstance(holder, Function):
        is_same = holder.lineno <= site.line <= (holder.end_lineno or 0)
    else:
        is_same = site.function == "<module>"
    return site.path == own.path and is_same and site.line <= statement.lineno


def _parsings(own: EditableFile) -> Iterator[tuple[ast.stmt, str]]:
    """The statements that parse the command line, each with the name that the parsed arguments get."""
    returns = [(own.source.function_of(node), node.value) for node in own.source.every(ast.Return) if node.value]
    makers = {getattr(function, "name", "") for function, value in returns if call_name(value) in PARSERS} | PARSERS
    for node in own.source.every(ast.Assign):
        match node.targets[0]:
            case ast.Name(id=name) | ast.Tuple(elts=[ast.Name(id=name), *_]) if call_name(node.value) in makers:
                # Not in a function that returns the arguments: it may change them before.
                if (own.source.function_of(node), name) not in [(one, last_name(value)) for one, value in returns]:
                    yield node, name


def _seeds_with(own: EditableFile, name: str) -> bool:
    """Whether a seeding call uses a variable or attribute of a name."""
    calls = (call for function, each in own.source.methods.items() if "seed" in function.lower() for call in each)
    return any(last_name(inner) == name for call in calls for inner in ast.walk(call) if inner is not call)


def seed_beside(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Seed with the same seed below the line that seeds another library, before this generator is drawn from."""
    for site in wanted.early:
        file = files.at(site)
        _, statement = block_of(file, site.line)
        is_alone = not _indent(file, statement).strip() and statement.end_lineno == site.line
        is_special = getattr(file.source.function_of(statement), "name", "").startswith("__")
        match getattr(statement, "value", None):
            case ast.Call(args=[ast.Name() | ast.Attribute() | ast.Constant() as seed], keywords=[]) as call:
                if isinstance(statement, ast.Expr) and is_alone and not is_special and "seed" in call_name(call):
                    edits = _seeded_below(file, statement, wanted.factor, file.written(seed))
                    return Cure({file.path: edits}, "seeds it with the others", _ONE_OF_THEM)
    raise NoCureError("nothing else is seeded before it is drawn from")


def seed_as_others(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Seed the generators that a line draws from as others are seeded in its file; for findings of `samebits lint`."""
    file = files.at(wanted.place)
    seeds = dict(seeds_in(file.source))
    edits = list[Edit | Opening]()
    for factor, (module, _) in _SEEDERS.items():
        if module not in seeds and any(draw.lineno == wanted.place.line for draw in draws_in(file.source, module)):
            early = tuple(Site(file.path, call.lineno, file.source.qualname(call)) for call in seeds.values())
            edits += seed_beside(files, replace(wanted, factor=factor, early=early)).edits[file.path]
    if not edits:
        raise NoCureError("the line does not show what it draws from")
    return Cure({file.path: edits}, "seeds it with the others", _ONE_OF_THEM)


def seed_at_start(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Seed once at the start of the script: below its imports, or below its own constant for a seed."""
    file, (module, _) = files.script(wanted), _SEEDERS[wanted.factor]
    end, (constant, line) = imports_end(file), seed_constant(file)
    sites = _sites(wanted)
    at_imports = [site for site in sites if site.path == file.path and 0 < site.line <= end]
    if at_imports or any(site.path != file.path and site.function in ("<module>", "") for site in sites):
        # A module draws while it is imported.
        opening = Opening(_seeds(file, wanted.factor, "0"), module, -1)
        return Cure({file.path: [opening]}, "seeds it above all imports", _ONE_OF_THEM)
    draw_lines = [site.line for site in sites if site.path == file.path and site.function == "<module>"]
    is_usable = bool(constant) and all(line < draw_line for draw_line in draw_lines)
    text = _seeds(file, wanted.factor, constant if is_usable else "0")
    opening = Opening(text, module, line if is_usable else 0)
    return Cure({file.path: [opening]}, "seeds it at the start of the script", _ONE_OF_THEM)


# ---- seeds in the place of numbers that differ from run to run

_SEEDED = {"manual_seed", "manual_seed_all", "seed", "seed_all", "default_rng", "RandomState", "Random", "SeedSequence"}
_SEEDED |= {"seed_everything", "set_seed", "PCG64", "MT19937", "Philox", "PRNGKey"}
_SEEDLESS = {"default_rng", "RandomState", "Random", "SeedSequence", "SystemRandom"}
_SEEDLESS |= {"PCG64", "MT19937", "Philox", "SFC64"}
_ONCE = {"main", "__init__", "setup", "prepare_data"}
_BRANCHES = (ast.IfExp, ast.BoolOp)
_COMPUTED = (ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Subscript, ast.JoinedStr, ast.FormattedValue)
_STREAM = "entropy"


def seed_fixed(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Replace a seed that is computed from the time, a process id or the operating system's entropy by a fixed one."""
    file = files.at(wanted.place)
    calls = calls_at(file, wanted.place, (wanted.last_name,)) or calls_at(file, wanted.place, _DRAWS)
    edits = list[Edit | Opening]()
    for call in calls:
        target = _seed_around(file, call)
        if target is None:
            raise NoCureError("the value that the line reads does not become a seed")
        is_default = isinstance(file.source.parents[target], ast.keyword)
        text, needed = ("0", []) if is_default else _number(file, target)
        edits += [Edit(*file.span(target), text), *needed]
    if not edits:
        raise NoCureError(f"the line does not show a call of {wanted.called}")
    return Cure({file.path: edits}, "gives it a fixed seed", _ONE_OF_THEM)


def _seed_around(own: EditableFile, node: ast.expr) -> ast.expr | None:
    """Return the whole expression that becomes a seed; None where it becomes something else."""
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
            return target if any(is_seed_name(last_name(node)) for node in targets) else None
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


def _number(own: EditableFile, node: ast.AST) -> tuple[str, list[Opening]]:
    """Return a seed as text, and lines it needs: 0 for a node reached once, else new each time, alike in all runs."""
    holder = own.source.function_of(node)
    is_loop = loop_around(own.source, node) is not None
    if isinstance(holder, ast.Module) and not is_loop:
        return "0", []
    if isinstance(holder, Function):
        names = [arg.arg for arg in holder.args.args]
        if holder.name == "__getitem__" and len(names) > 1:
            return names[1], []
        if holder.name in _ONCE and not is_loop:
            return "0", []
    if _is_in_workers(own, holder):
        return f"{name_of(own, 'torch')}.initial_seed() % 2**32", [Opening("", "torch")]
    if isinstance(holder, Function) and not is_loop and _is_called_once(own, holder):
        return "0", []
    stream, needed = _stream(own)
    return f"{stream}.getrandbits(32)", needed


def _is_in_workers(own: EditableFile, holder: ast.AST) -> bool:
    """Whether a function runs in the workers of a loader."""
    parent = own.source.parents.get(holder)
    if isinstance(parent, ast.keyword) and parent.arg == "worker_init_fn":
        return True
    if not isinstance(holder, Function):
        return False
    keywords = [node for node in own.source.every(ast.keyword) if node.arg == "worker_init_fn"]
    return holder.name == "__iter__" or any(last_name(keyword.value) == holder.name for keyword in keywords)


def _is_called_once(own: EditableFile, holder: ast.AST) -> bool:
    """Whether a function is called at one place of its file, at the top level or in `main` and its like, in no loop."""
    mentions = own.source.mentions(getattr(holder, "name", ""))
    if len(mentions) != 1 or not isinstance(own.source.parents[mentions[0]], ast.Call):
        return False
    outer = own.source.function_of(mentions[0])
    is_top = isinstance(outer, ast.Module) or getattr(outer, "name", "") in _ONCE
    is_comprehended = any(isinstance(one, ast.ListComp | ast.GeneratorExp) for one in own.source.ancestors(mentions[0]))
    return is_top and not is_comprehended and loop_around(own.source, mentions[0]) is None


def _stream(own: EditableFile) -> tuple[str, list[Opening]]:
    """Return the name of a generator of the file's own, and the line that makes it."""
    name = f"_{_STREAM}" if own.source.mentions(_STREAM) else _STREAM
    return name, [Opening(f"{name} = {name_of(own, 'random')}.Random(0)", "random")]


def seed_given(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Pass a seed to a call without one: `default_rng()`, `random.Random()`, `torch.seed()`, `generator.seed()`."""
    file, edits = files.at(wanted.place), list[Edit | Opening]()
    for call in calls_at(file, wanted.place, _SEEDLESS | {"seed", "seed_all"}):
        if not all(map(is_none, _given(call))):
            continue
        text, needed = _number(file, call)
        (_, first), (_, stop) = file.span(call.func), file.span(call)
        name = last_name(call.func)
        if name == "SystemRandom":
            edits += [Edit(*file.span(call), f"{name_of(file, 'random')}.Random({text})"), Opening("", "random")]
        else:
            edits.append(Edit(first, stop, f"({text})"))
            if name in ("seed", "seed_all") and "torch" in wanted.called:
                edits.append(Edit(first - len(name), first, f"manual_{name}"))
        edits += needed
    if not edits:
        raise NoCureError("the line does not show what is made without a seed")
    return Cure({file.path: edits}, "gives it a seed", _ONE_OF_THEM)


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


# Function that asks the operating system → what replaces its call: `{0}` is a seeded generator, `{1}` the arguments,
# `{2}` the module `io`, and `{3}` the text before the function's name.
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


def drawn_instead(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Draw from a seeded generator of the file's own instead of the operating system."""
    file, edits = files.at(wanted.place), list[Edit | Opening]()
    names = {"open"} if wanted.called.startswith("/dev/") else {wanted.last_name} & set(_DRAWS)
    for call in calls_at(file, wanted.place, names) or calls_at(file, wanted.place, set(_DRAWS) - {"open", "choice"}):
        name = last_name(call.func)
        arguments = ", ".join(file.written(node) for node in _given(call))
        if not arguments and name.startswith("token"):
            arguments = "32"
        if name == "uuid4" and isinstance(call.func, ast.Name):
            raise NoCureError("uuid4 is imported by its own name")
        is_once = name != "uuid4" and _number(file, call)[0] == "0"
        stream, needed = (f"{name_of(file, 'random')}.Random(0)", [Opening("", "random")]) if is_once else _stream(file)
        io, before = name_of(file, "io") if name == "open" else "", file.written(call.func).removesuffix(name)
        edits += [Edit(*file.span(call), _DRAWS[name].format(stream, arguments, io, before)), *needed]
        edits += [Opening("", "io")] if io else []
    if not edits:
        raise NoCureError("the line does not show the call")
    effect = "what is drawn there is the same in every run: it is no secret, and two runs have the same ids"
    return Cure({file.path: edits}, "draws it from a generator with a seed", effect)
