"""Cures that seed: global generators, generators made without a seed, and numbers that are new in every run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from samebits.base.sites import Site
from samebits.fixing.cures import Cure, EditableFiles, MendRequest, calls_at, once, ordinal, with_argument
from samebits.fixing.edits import Edit, EditableFile, NoCureError
from samebits.fixing.insertion_points import (
    Opening,
    above_imports,
    block_of,
    call_name,
    first_line,
    imports_end,
    module_at,
    name_of,
)
from samebits.fixing.reach import comes_first, has_ranks, is_torch_seeded_once
from samebits.lint.project import argument, draws_in, names_rank, seeds_in, value_of
from samebits.lint.seeds import PARSERS, is_seed_name, seed_constant, seed_options
from samebits.lint.source import Function, is_none, last_name, parameters, walk

# Factor → the module, and its function that seeds the generator.
_SEEDERS = {
    "torch-rng": ("torch", "manual_seed"),
    "numpy-rng": ("numpy", "random.seed"),
    "python-rng": ("random", "seed"),
}
_ONE_OF_THEM = "its losses are those of one fixed seed from now on"


def _effect(files: EditableFiles, script: EditableFile) -> str:
    return f"{_ONE_OF_THEM}{', the same one in each process' if has_ranks(files.project, script.source) else ''}"


def _seeds(factor: str, module: str, seed: str, is_small: bool = True) -> str:
    """Return the call that seeds; `is_small` says whether the seed is from 0 to 2**32 - 1, as NumPy demands."""
    rest = "" if is_small or factor != "numpy-rng" else " % 2**32"
    return f"{module}.{_SEEDERS[factor][1]}({seed}{rest})"


def _seeded_below(
    own: EditableFile, statement: ast.stmt, factor: str, seed: str, is_small: bool
) -> list[Edit | Opening]:
    """Return the edits that add a line that seeds, below a statement."""
    own.whole_lines(statement)
    at, indent = own.end_of_line(statement.end_lineno or 0), own.lines[statement.lineno - 1][: statement.col_offset]
    module, opening = module_at(own, statement, _SEEDERS[factor][0])
    return [Edit(at, at, f"\n{indent}{_seeds(factor, module, seed, is_small)}"), opening]


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
    once(files, file, seeding, is_apart=True)
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
        if last_name(argument(call, "type")) != "int":
            raise NoCureError(f"{option.shown} may be no whole number")
        for statement, namespace in _parsings(file):
            if any(_is_before(file, site, statement) for site in _sites(wanted)):
                continue
            once(files, file, statement, is_apart=True)
            seed = f"{namespace}.{option.name}"
            edits = [*default, *_seeded_below(file, statement, wanted.factor, seed, is_small=False)]
            return Cure({file.path: edits}, f"seeds with {option.shown}, which was never used", _effect(files, file))
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
    file, edits = _beside(files, wanted.factor, ((files.at(site), site.line) for site in wanted.early))
    return Cure({file.path: edits}, "seeds it with the others", _ONE_OF_THEM)


def seed_as_others(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Seed the generators that a line draws from as others are seeded in its file; for findings of `samebits lint`."""
    file = files.at(wanted.place)
    seeds = [(library, (file, call.lineno)) for library, call in seeds_in(file.source)]
    edits = list[Edit | Opening]()
    for factor, (module, _) in _SEEDERS.items():
        draws = draws_in(file.source, module)
        if module not in dict(seeds) and any(draw.lineno == wanted.place.line for draw in draws):
            edits += _beside(files, factor, (place for _, place in seeds), draws)[1]
    if not edits:
        raise NoCureError("the line does not show what it draws from")
    return Cure({file.path: edits}, "seeds it with the others", _ONE_OF_THEM)


def _beside(
    files: EditableFiles, factor: str, places: Iterable[tuple[EditableFile, int]], draws: Sequence[ast.Call] = ()
) -> tuple[EditableFile, list[Edit | Opening]]:
    """Return the edits that seed below the first line at which that can be done, and its file."""
    why = "nothing else is seeded before it is drawn from"
    for file, line in places:
        try:
            _, statement = block_of(file, line)
            match statement:
                case ast.Expr(value=ast.Call(args=[seed], keywords=[]) as call) if "seed" in call_name(call):
                    way = once(files, file, statement, is_apart=names_rank(file.source, seed))
                    if not all(comes_first(way, file.source, draw) for draw in draws):
                        raise NoCureError("it is drawn from above the line that seeds another library")
                    value = value_of(file.source, seed)
                    number = getattr(value, "value", None) if isinstance(value, ast.Constant) else None
                    if type(number) is not int and not _is_whole(file, call, seed):
                        raise NoCureError(f"{file.written(seed)} may be no whole number")
                    is_small = type(number) is int and 0 <= number < 2**32
                    return file, _seeded_below(file, statement, factor, file.written(seed), is_small)
        except NoCureError as error:
            why = str(error)
    raise NoCureError(why)


def _is_whole(own: EditableFile, call: ast.Call, seed: ast.expr) -> bool:
    """Whether a name that seeds is a whole number: torch takes no other, and so does an option with a default."""
    options = [(one, option) for one, option in seed_options(own.source, is_read=True) if not option.is_none]
    is_option = any(
        last_name(argument(one, "type")) == "int" and option.name == last_name(seed) for one, option in options
    )
    is_name = isinstance(seed, ast.Name | ast.Attribute)
    return is_name and (own.source.qualified(call.func).startswith("torch.") or is_option)


def seed_at_start(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Seed once at the start of the script: below its imports, or below its own constant for a seed."""
    file, (module, _) = files.script(wanted), _SEEDERS[wanted.factor]
    end, (constant, line) = imports_end(file.source, module), seed_constant(file.source)
    sites = _sites(wanted)
    at_imports = [site for site in sites if site.path == file.path and 0 < site.line <= end]
    if at_imports or any(site.path != file.path and site.function in ("<module>", "") for site in sites):
        # A module draws while it is imported.
        below, seed, does = above_imports(file.source), "0", "seeds it above all imports"
    else:
        draw_lines = [site.line for site in sites if site.path == file.path and site.function == "<module>"]
        is_usable = bool(constant) and all(line < draw_line for draw_line in draw_lines)
        below, seed = (max(line, end), constant) if is_usable else (end, "0")
        does = "seeds it at the start of the script"
    opening = Opening(_seeds(wanted.factor, name_of(file, module, below), seed), module, below)
    return Cure({file.path: [opening]}, does, _effect(files, file))


# ---- seeds in the place of numbers that differ from run to run

_SEEDED = {"manual_seed", "manual_seed_all", "seed", "seed_all", "default_rng", "RandomState", "Random", "SeedSequence"}
_SEEDED |= {"seed_everything", "set_seed", "PCG64", "MT19937", "Philox", "PRNGKey"}
_SEEDLESS = {"default_rng", "RandomState", "Random", "SeedSequence", "SystemRandom"}
_SEEDLESS |= {"PCG64", "MT19937", "Philox", "SFC64"}
_COMPUTED = (ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Subscript, ast.JoinedStr, ast.FormattedValue, ast.IfExp)
_COMPUTED += (ast.BoolOp, ast.Call)  # type: ignore[assignment]
# Functions that return a number, in whose place another one can stand.
_NUMBERS = {"time", "time_ns", "perf_counter", "monotonic", "getpid", "randbits", "randbelow"}


def seed_fixed(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Replace a seed that is computed from the time, a process id or the operating system's entropy by a fixed one."""
    file, edits = files.at(wanted.place), list[Edit | Opening]()
    for call in calls_at(file, wanted.place, (wanted.last_name,)) or calls_at(file, wanted.place, _DRAWS):
        seed = _seed_around(file, call)
        # An option could have been given, and then it is the same in all processes.
        is_apart = isinstance(file.source.parents[seed], ast.keyword) or names_rank(file.source, seed)
        target = call if _names_beside(file, seed, call) else seed
        if target is call and last_name(call.func) not in _NUMBERS:
            raise NoCureError("the seed is computed with other names, and not from a number")
        text, needed = _number(files, file, target, "0", is_apart)
        # A field of a dataclass takes a function that makes its value.
        is_made = getattr(file.source.parents[target], "arg", "") == "default_factory"
        edits += [Edit(*file.span(target), f"lambda: {text}" if is_made else text), *needed]
    if not edits:
        raise NoCureError(f"the line does not show a call of {wanted.called}")
    return Cure({file.path: edits}, "gives it a fixed seed", _ONE_OF_THEM)


def _seed_around(own: EditableFile, node: ast.expr) -> ast.expr:
    """Return the whole expression around a node that becomes a seed; NoCureError where it becomes something else."""
    while not _is_seed(own, node):
        parent = own.source.parents[node]
        if not isinstance(parent, _COMPUTED) and not (isinstance(parent, ast.Lambda) and not parent.args.args):
            raise NoCureError("the value that the line reads does not become a seed")
        node = parent
    return node


def _names_beside(own: EditableFile, seed: ast.expr, call: ast.Call) -> bool:
    """Whether a seed is computed from a call and from names, such as a rank; functions that take the call are none."""
    takers = [outer.func for outer in own.source.ancestors(call) if isinstance(outer, ast.Call)]
    known = {part for one in (call, *takers) for part in walk(one)}
    return any(isinstance(part, ast.Name) and part not in known for part in walk(seed))


def _is_seed(own: EditableFile, node: ast.expr) -> bool:
    """Whether an expression is what a seed is set to."""
    match parent := own.source.parents[node]:
        case ast.keyword():
            call = own.source.parents[parent]
            is_option = parent.arg == "default" and "seed" in ast.unparse(call).lower()
            is_field = parent.arg == "default_factory" and isinstance(call, ast.Call) and _is_seed(own, call)
            return is_seed_name(parent.arg or "") or is_option or is_field
        case ast.Call() if node in parent.args:
            return last_name(parent.func) in _SEEDED or is_seed_name(last_name(parent.func))
        case ast.Assign() | ast.AnnAssign() | ast.NamedExpr():
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            return any(is_seed_name(last_name(one)) for one in targets)
        case ast.Return():
            return is_seed_name(getattr(own.source.function_of(parent), "name", ""))
    return False


def _number(
    files: EditableFiles, own: EditableFile, node: ast.AST, fixed: str, is_apart: bool = False, bits: int = 32
) -> tuple[str, list[Opening]]:
    """Return a seed as text, and lines it needs: a fixed number for a node that runs once, else one drawn from torch.

    That is another one each time, and in each worker of a loader, but the same in all runs.
    """
    try:
        once(files, own, node, is_apart)
        return fixed, []
    except NoCureError:
        if has_ranks(files.project, own.source):
            raise
    if not is_torch_seeded_once(files.project, own.source, node):
        raise NoCureError("it may run more than once, and torch, from which to draw a seed, is not seeded once before")
    torch, opening = module_at(own, node, "torch")
    return f'{torch}.randint(2**{bits}, (), device="cpu").item()', [opening]


def seed_given(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Pass a seed to a call without one: `default_rng()`, `random.Random()`, `torch.seed()`, `generator.seed()`."""
    file, edits = files.at(wanted.place), list[Edit | Opening]()
    for call in calls_at(file, wanted.place, _SEEDLESS | {"seed", "seed_all"}):
        if not all(map(is_none, _given(call))):
            continue
        text, needed = _number(files, file, call, ordinal(file, call))
        (_, first), (_, stop) = file.span(call.func), file.span(call)
        name = last_name(call.func)
        if name == "SystemRandom":
            random, opening = module_at(file, call, "random")
            edits += [Edit(*file.span(call), f"{random}.Random({text})"), opening]
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
        text, needed = _number(files, file, call, ordinal(file, call), bits=62)
        random, opening = module_at(file, call, "random")
        io, further = module_at(file, call, "io") if name == "open" else ("", opening)
        before = file.written(call.func).removesuffix(name)
        drawn = _DRAWS[name].format(f"{random}.Random({text})", arguments, io, before)
        edits += [Edit(*file.span(call), drawn), *needed, opening, further]
    if not edits:
        raise NoCureError("the line does not show the call")
    effect = "what is drawn there is the same in every run: it is no secret, and two runs have the same ids"
    return Cure({file.path: edits}, "draws it from a generator with a seed", effect)
