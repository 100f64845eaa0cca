"""Cures, one function for each kind: each takes a cause and its line, and returns edits of the source."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from samebits.base.sites import Site
from samebits.fixing.edits import Edit, EditableFile, NoCureError
from samebits.fixing.insertion_points import Opening, above_imports, first_line, imports_end, module_at, name_of
from samebits.fixing.reach import Way, has_ranks, is_left_alone, is_used_up, way_to
from samebits.lint.environment import closest_variable, variables_set
from samebits.lint.flow import Flow
from samebits.lint.hash_order import iterated_by
from samebits.lint.libraries import OF_TORCH, SPLITS
from samebits.lint.project import Project, argument, parts_of
from samebits.lint.source import Source, called, dotted, is_none, last_name


@dataclass(frozen=True)
class MendRequest:
    """A cause to mend: one that experiments confirmed, or a line that reading found.

    Attributes:
        factor: name of the factor; for a line that reading found, the key of its cures in `patch.WAYS`.
        site: the line; None where no line is known.
        called: the function called at the line, or the assignment of a flag, as it was witnessed.
        fix: what a person would change, in words.
        script: path of the script that is run.
        others: further lines at which the factor enters; what one seed mends is mended at all of them.
        late: the line that seeds the generator, where the generator was drawn from before.
        early: lines that seeded other generators before this one was drawn from.
        threads: number of threads that the script computes with; 0 where it is not known.
    """

    factor: str
    site: Site | None
    called: str = ""
    fix: str = ""
    script: str = ""
    others: tuple[Site, ...] = ()
    late: Site | None = None
    early: tuple[Site, ...] = ()
    threads: int = 0

    @property
    def last_name(self) -> str:
        """The last part of the called function's name: `listdir` for `os.listdir()`."""
        return self.called.removesuffix("()").rpartition(".")[2]

    @property
    def place(self) -> Site:
        """The line; raises NoCureError where none is known."""
        if self.site is None:
            raise NoCureError("no line is known")
        return self.site


@dataclass(frozen=True)
class Cure:
    """The edits that mend one cause.

    Attributes:
        edits: path → edits of that file, and lines to insert at its start.
        does: what the edits do, as a clause.
        effect: what else they change, as a clause.
    """

    edits: Mapping[str, Sequence[Edit | Opening]]
    does: str
    effect: str


class EditableFiles:
    """The files that may be edited.

    Args:
        read: returns the file at a path; raises NoCureError where the file must not be edited, or cannot.
        paths: paths of all files of the program, for data flow across files.
        callers: paths of further files, which may call what those define.
    """

    def __init__(
        self, read: Callable[[str], EditableFile], paths: Iterable[str] = (), callers: Iterable[str] = ()
    ) -> None:
        self._read, self._paths, self._callers = read, [*paths], [*callers]
        self._known: dict[str, EditableFile] = {}

    def of(self, path: str) -> EditableFile:
        """Return the file at a path."""
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def script(self, wanted: MendRequest) -> EditableFile:
        """Return the script that is run; raises NoCureError where it is no file of the user's."""
        if not wanted.script:
            raise NoCureError("the script is no file of yours")
        return self.of(wanted.script)

    def at(self, site: Site) -> EditableFile:
        """Return the file of a line; raises NoCureError where the line is not the one that ran."""
        file = self.of(site.path)
        if not 0 < site.line <= len(file.lines):
            raise NoCureError(f"{site.place} is not in the file")
        if site.noted and file.lines[site.line - 1].strip() != site.noted.strip():
            raise NoCureError(f"{site.place} is another line than the one that ran: {site.noted.strip()}")
        return file

    @cached_property
    def project(self) -> Project:
        """All files together: what they import, and which of their functions are called where."""
        own = [*self._paths, *self._known]
        others = _sources(self._read, [path for path in self._callers if path not in own])
        return Project([*_sources(self.of, own), *others])

    @cached_property
    def flow(self) -> Flow:
        """The data flow of all files: the shapes that their expressions may have."""
        return Flow([*_sources(self.of, [*self._paths, *self._known])])


def _sources(read: Callable[[str], EditableFile], paths: Iterable[str]) -> Iterator[Source]:
    """The files at some paths, without those that must not be edited, or cannot."""
    for path in dict.fromkeys(paths):
        with suppress(NoCureError):
            yield read(path).source


def once(files: EditableFiles, own: EditableFile, node: ast.AST, is_apart: bool = False) -> Way:
    """Return the way to a node that runs once in a program, or in a process where something else tells these apart.

    Raises:
        NoCureError: it may run more than once.
    """
    if not (way := way_to(files.project, own.source, node)):
        raise NoCureError("it may run more than once, and one seed would make every time alike")
    if not is_apart and has_ranks(files.project, own.source):
        raise NoCureError("several processes may run it, and one seed would make them alike")
    return way


# ---- calls at a line, and edits of expressions


def calls_at(own: EditableFile, site: Site, names: Collection[str]) -> list[ast.Call]:
    """Return the calls of functions with these last names at a line, else those across it, in the order of the file."""
    calls = [call for call in own.source.methods.of(names) if call.lineno <= site.line <= (call.end_lineno or 0)]
    # In a chain of calls over several lines, every call begins on the first line, but its name may be on a later one.
    exact = [call for call in calls if site.line in (call.lineno, call.func.end_lineno)]
    return sorted(exact or calls, key=lambda call: (call.lineno, call.col_offset))


def _called_at(own: EditableFile, wanted: MendRequest, names: Collection[str]) -> list[ast.Call]:
    """Return the line's calls of the witnessed function, else of these names; NoCureError where there are none."""
    calls = calls_at(own, wanted.place, {wanted.last_name} & set(names)) or calls_at(own, wanted.place, names)
    if not calls:
        function = wanted.called or " or ".join(sorted(names))
        raise NoCureError(f"the line does not show a call of {function}: a library makes it")
    return calls


def wrapped(own: EditableFile, node: ast.AST, before: str, after: str) -> list[Edit]:
    """Return the edits that put text before and after an expression."""
    start, stop = own.span(node)
    return [Edit(start, start, before), Edit(stop, stop, after)]


def with_argument(own: EditableFile, call: ast.Call, name: str, value: str, position: int = 99) -> Edit:
    """Return the edit that sets an argument of a call; an argument that is left out is added behind the last one."""
    if present := argument(call, name, position):
        return Edit(*own.span(present), value)
    end = max((own.span(node)[1] for node in (*call.args, *call.keywords)), default=0)
    at = end or own.span(call)[1] - 1
    return Edit(at, at, f", {name}={value}" if end else f"{name}={value}")


def ordinal(own: EditableFile, call: ast.Call) -> str:
    """Return how many calls of the same name stand above a call: a seed that none of the others gets."""
    places = [(one.lineno, one.col_offset) for one in own.source.methods[last_name(call.func)]]
    return str(sorted(places).index((call.lineno, call.col_offset)))


def renamed(own: EditableFile, name: ast.AST, new: str) -> Edit:
    """Return the edit that replaces the last name of `a.b.c`, or a plain name by a builtin; NoCureError for others."""
    _, stop = own.span(name)
    if not isinstance(name, ast.Attribute) and not hasattr(builtins, new):
        raise NoCureError(f"{last_name(name)} is imported by its own name, and {new} may not be")
    return Edit(stop - len(last_name(name)), stop, new)


# ---- orders

# Those that give a list; the others give iterators.
_LISTS = {"os.listdir", "glob.glob"}
_LISTINGS = {"listdir", "scandir", "iterdir", "glob", "iglob", "rglob"}
_ANOTHER_ORDER = "items may get other numbers than before, for example the labels of classes"


def sort_listing(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Put `sorted(...)` around a listing."""
    edits: dict[str, list[Edit]] = {}
    for site in (wanted.place, *wanted.others):
        file = files.at(site)
        sort, names = (_sort_walk, {"walk", "fwalk"}) if wanted.called.endswith("walk") else (_sort_call, _LISTINGS)
        for call in _called_at(file, replace(wanted, site=site), names):
            edits.setdefault(file.path, []).extend(sort(file, call))
    return Cure(edits, "sorts the listing", _ANOTHER_ORDER)


def _sort_call(own: EditableFile, call: ast.Call) -> list[Edit]:
    parent = own.source.parents[call]
    key = ", key=lambda entry: entry.name" if last_name(call.func) == "scandir" else ""
    if isinstance(parent, ast.withitem):
        mentions = [
            node
            for node in ast.walk(own.source.parents[parent])
            if isinstance(node, ast.Name) and node.id == last_name(parent.optional_vars or parent)
        ]
        iterated = [node for node in mentions if getattr(own.source.parents[node], "iter", None) is node]
        if len(iterated) != 1 or len(mentions) != 2:
            raise NoCureError("the listing is used in more than one loop")
        return wrapped(own, iterated[0], "sorted(", f"{key})")
    if isinstance(parent, ast.Call) and last_name(parent.func) == "sorted":
        raise NoCureError("the listing is sorted already, by a key that several entries share")
    if own.source.qualified(call.func) in _LISTS or is_used_up(own.source, call):
        return wrapped(own, call, "sorted(", f"{key})")
    name = last_name(parent.targets[0]) if isinstance(parent, ast.Assign) else ""
    users = [parent, *(own.source.parents[node] for node in own.source.named[name])]
    if any(isinstance(user, ast.Attribute | ast.withitem) for user in users):
        raise NoCureError("the listing is used as only an iterator of its kind can be")
    return wrapped(own, call, "iter(sorted(", f"{key}))")


def _sort_walk(own: EditableFile, call: ast.Call) -> list[Edit]:
    """Return the edits that sort folders and files in a loop `for root, folders, files in os.walk(...)`."""
    loop = own.source.parents[call]
    target = getattr(loop, "target", None)
    if not isinstance(target, ast.Tuple) or not all(isinstance(element, ast.Name) for element in target.elts):
        raise NoCureError("the result of os.walk is not unpacked in a loop")
    names = [last_name(element) for element in target.elts[1:3]]
    if isinstance(loop, ast.For):
        first = loop.body[0]
        own.whole_lines(first)
        indent = own.lines[first.lineno - 1][: first.col_offset]
        start = own.offset(first_line(first))
        return [Edit(start, start, "".join(f"{indent}{name}.sort()\n" for name in names))]
    comprehension = own.source.parents[loop]
    inner = [part.iter for part in getattr(comprehension, "generators", ()) if last_name(part.iter) in names]
    if not inner:
        raise NoCureError("the result of os.walk is not unpacked in a loop")
    return [edit for node in (call, *inner) for edit in wrapped(own, node, "sorted(", ")")]


def _sets_at(files: EditableFiles, site: Site) -> Iterator[tuple[EditableFile, ast.expr]]:
    """The sets whose order a line uses, each with the file."""
    file, shape_of = files.at(site), files.flow.of
    for node in ast.walk(file.source.tree):
        for taken in iterated_by(node):
            if taken.lineno <= site.line <= (taken.end_lineno or 0) and shape_of(taken).order_depends_on:
                yield file, taken


def without_hashes(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Put `sorted(..., key=str)` around sets whose order is used, and replace `hash` by `zlib.crc32`, at every line."""
    edits, does = dict[str, list[Edit | Opening]](), dict[str, str]()
    for site in (wanted.place, *wanted.others):
        try:
            file = files.at(site)
        except NoCureError:
            if site is wanted.place:
                raise
            continue
        for call in calls_at(file, site, ("hash",)):
            if len(call.args) == 1 and isinstance(call.func, ast.Name):
                # repr(), as tuples and enums are hashed, too. Sets that are equal may differ in order: sort them first.
                value = file.written(call.args[0])
                value = f"sorted({value}, key=str)" if files.flow.of(call.args[0]).kind == "set" else value
                zlib, opening = module_at(file, call, "zlib")
                number = f"{zlib}.crc32(repr({value}).encode())"
                edits.setdefault(file.path, []).extend([Edit(*file.span(call), number), opening])
                does["replaces hash() by zlib.crc32()"] = "texts get other numbers than before, from 0 to 2**32 - 1"
        for holder, node in _sets_at(files, site):
            edits.setdefault(holder.path, []).extend(_sorted_set(holder, node))
            does["sorts the set"] = _ANOTHER_ORDER
    if not edits:
        raise NoCureError("the line shows neither a set nor a call of hash()")
    return Cure(edits, " and ".join(does), "; ".join(does.values()))


def _sorted_set(own: EditableFile, node: ast.expr) -> list[Edit]:
    parent = own.source.parents[node]
    if isinstance(parent, ast.Call) and parent.args == [node] and dotted(parent.func) == "list":
        _, stop = own.span(node)
        return [renamed(own, parent.func, "sorted"), Edit(stop, stop, ", key=str")]
    return wrapped(own, node, "sorted(", ", key=str)")


def ordered_set(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Replace `set(...)` by `dict.fromkeys(...)`, where a dictionary works at every mention of the set's name."""
    edits: dict[str, list[Edit]] = {}
    for file, node in _sets_at(files, wanted.place):
        for value in _made(file, node):
            edits.setdefault(file.path, []).extend(_as_keys(file, value))
    if not edits:
        raise NoCureError("the line does not show the set")
    return Cure(edits, "makes the set with dict.fromkeys(), which keeps its order", "the set keeps the order it gets")


def _made(own: EditableFile, node: ast.expr) -> list[ast.expr]:
    """Return the expressions that are assigned to a name; of another expression, the expression itself."""
    if not isinstance(node, ast.Name):
        return [node]
    here = own.source.function_of(node)
    mentions = own.source.mentions(node.id)
    if not isinstance(here, ast.Module):
        mentions = [mention for mention in mentions if own.source.function_of(mention) is here]
    for mention in mentions:
        parent = own.source.parents[mention]
        is_call = isinstance(parent, ast.Call) and mention in parent.args
        is_plain = isinstance(parent, ast.For | ast.comprehension | ast.Assign | ast.Starred | ast.Compare)
        if not (is_call or is_plain):
            raise NoCureError(f"{node.id} is used as only a set can be")
    stores = [own.source.parents[mention] for mention in mentions if isinstance(mention.ctx, ast.Store)]
    if not stores or not all(isinstance(store, ast.Assign) and len(store.targets) == 1 for store in stores):
        raise NoCureError(f"it is not known how {node.id} is made")
    return [store.value for store in stores if isinstance(store, ast.Assign)]


def _as_keys(own: EditableFile, node: ast.expr) -> Iterator[Edit]:
    start, stop = own.span(node)
    match node:
        case ast.BinOp(op=ast.BitOr()):
            yield from _as_keys(own, node.left)
            yield from _as_keys(own, node.right)
        case ast.Call(func=ast.Name(id="set" | "frozenset"), args=[_]):
            yield Edit(*own.span(node.func), "dict.fromkeys")
        case ast.SetComp():
            yield from (Edit(start, start + 1, "dict.fromkeys("), Edit(stop - 1, stop, ")"))
        case ast.Set():
            yield from (Edit(start, start + 1, "dict.fromkeys(["), Edit(stop - 1, stop, "])"))
        case _:
            raise NoCureError("it is not known how the set is made")


def in_order_of_tasks(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Replace `as_completed(...)` by the tasks and `imap_unordered` by `imap`, and take batches in order."""
    file, edits = files.at(wanted.place), list[Edit]()
    for call in _called_at(file, wanted, ("as_completed", "imap_unordered", "DataLoader")):
        if last_name(call.func) == "DataLoader":
            edits.append(with_argument(file, call, "in_order", "True"))
            continue
        if last_name(call.func) == "imap_unordered":
            edits.append(renamed(file, call.func, "imap"))
            continue
        names = {called(part) for arg in call.args for part in parts_of(file.source, arg) if isinstance(part, ast.Call)}
        if file.source.qualified(call.func).startswith("asyncio.") and not names & {"create_task", "ensure_future"}:
            raise NoCureError("coroutines that are awaited one after another may start only then: use asyncio.gather()")
        if len(call.args) != 1 or call.keywords:
            raise NoCureError("the call has a time limit, which would be lost")
        if files.flow.of(call.args[0]).kind == "set":
            edits += (edit for value in _made(file, call.args[0]) for edit in _as_keys(file, value))
        (start, stop), (first, last) = file.span(call), file.span(call.args[0])
        is_taken = is_used_up(file.source, call)
        before, after = ("", "") if is_taken else ("iter(", ")")
        if isinstance(call.args[0], ast.GeneratorExp):
            # All tasks are started before the first one is waited for.
            edits += [Edit(start, first + 1, f"{before}["), Edit(last - 1, stop, f"]{after}")]
            continue
        if not is_taken or not is_left_alone(file.source, call, call.args[0]):
            before, after = f"{before}list(", f"){after}"
        edits += [Edit(start, first, before), Edit(last, stop, after)]
    effect = "results come in the order of their tasks, so one that takes long is waited for"
    return Cure({file.path: edits}, "takes results in the order of their tasks", effect)


# ---- settings

_OTHER_KERNELS = "operations are computed by other kernels, maybe slower ones, so losses may differ in their last bits"


def _setting(files: EditableFiles, wanted: MendRequest, call: str, does: str, effect: str) -> Cure:
    """Return the cure that adds a call of torch at the start of the script."""
    file = files.script(wanted)
    below = imports_end(file.source, "torch")
    return Cure({file.path: [Opening(f"{name_of(file, 'torch', below)}.{call}", "torch", below)]}, does, effect)


def fixed_threads(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Call `torch.set_num_threads(...)` with the number of threads in effect."""
    if not wanted.threads:
        raise NoCureError("it is not known how many threads are in effect")
    effect = f"nothing on this machine, which uses {wanted.threads} already"
    return _setting(files, wanted, f"set_num_threads({wanted.threads})", "fixes the number of threads", effect)


def deterministic(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Pass `True` alone where a line switches deterministic algorithms off or asks for warnings; else add the call."""
    if wanted.site is None:
        if wanted.called:
            raise NoCureError(f"with deterministic algorithms torch refuses {wanted.called.partition(',')[0]}")
        does = "asks for deterministic kernels"
        return _setting(files, wanted, "use_deterministic_algorithms(True)", does, _OTHER_KERNELS)
    file, edits = files.at(wanted.site), list[Edit]()
    for call in _called_at(file, wanted, ("use_deterministic_algorithms",)):
        (_, start), (_, stop) = file.span(call.func), file.span(call)
        edits.append(Edit(start, stop, "(True)"))
    return Cure({file.path: edits}, "asks for deterministic kernels", _OTHER_KERNELS)


def steady_flag(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Negate the value that a line gives to a flag, as in `torch.backends.cudnn.benchmark = True`."""
    flag, _, value = wanted.called.partition(" = ")
    file, edits = files.at(wanted.place), list[Edit]()
    for node in file.source.every(ast.Assign):
        sets_flag = node.lineno == wanted.place.line and flag.rpartition(".")[2] in map(last_name, node.targets)
        if sets_flag and isinstance(node.value, ast.Constant):
            edits.append(Edit(*file.span(node.value), str(value != "True")))
    if not edits:
        raise NoCureError(f"the line does not set {flag} to a constant")
    return Cure({file.path: edits}, f"sets {flag} to {value != 'True'}", _OTHER_KERNELS)


def highest_precision(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Ask for matrix products of floats in full precision."""
    effect = "matrix products are computed in full precision, and take longer on a GPU"
    return _setting(files, wanted, 'set_float32_matmul_precision("highest")', "asks for full precision", effect)


def fill_with_zeros(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Replace `empty` by `zeros`."""
    by_name = {"empty": "zeros", "empty_like": "zeros_like", "new_empty": "new_zeros"}
    file, edits = files.at(wanted.place), list[Edit]()
    for call in _called_at(file, wanted, by_name):
        if last_name(call.func) == "empty" and any(one.arg in ("memory_format", None) for one in call.keywords):
            raise NoCureError("torch.zeros() takes no memory_format")
        edits.append(renamed(file, call.func, by_name[last_name(call.func)]))
    return Cure({file.path: edits}, "fills the tensor with zeros", "what was read before it was written is 0 now")


def keyed_loader(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Replace torch's `DataLoader(...)` by `samebits.data.DataLoader(..., seed=0)`."""
    file, edits = files.at(wanted.place), list[Edit | Opening]()
    for call in _called_at(file, wanted, ("DataLoader",)):
        once(files, file, call, is_apart=True)
        data, opening = module_at(file, call, "samebits.data")
        seed = with_argument(file, call, "seed", ordinal(file, call))
        edits += [opening, Edit(*file.span(call.func), f"{data}.DataLoader"), seed]
    effect = (
        "each sample gets its own random numbers by its index: other ones than before, alike for any number of workers"
    )
    return Cure({file.path: edits}, "keys each sample by its index", effect)


# ---- cures for findings of `samebits lint` that are no factors


def unshuffled(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Pass `shuffle=False` to a loader or sampler from which a model is evaluated."""
    file, edits = files.at(wanted.place), list[Edit]()
    for call in _called_at(file, wanted, ("DataLoader", "DistributedSampler")):
        position = 2 if last_name(call.func) == "DataLoader" else 3
        edits.append(with_argument(file, call, "shuffle", "False", position))
        if argument(call, "shuffle", position) is None and any(keyword.arg is None for keyword in call.keywords):
            raise NoCureError("shuffle comes from a dict that other loaders may be given, too")
    return Cure({file.path: edits}, "evaluates in the order of the data", "evaluating draws nothing any more")


def correct_spelling(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Correct the misspelt name of an environment variable."""
    file, edits = files.at(wanted.place), list[Edit]()
    for name, _, node in variables_set(file.source):
        for part in ast.walk(node) if node.lineno == wanted.place.line else ():  # type: ignore[attr-defined]
            if isinstance(part, ast.Constant) and part.value == name:
                edits.append(Edit(*file.span(part), file.written(part).replace(name, closest_variable(name) or name)))
    if not edits:
        raise NoCureError("the line does not show the name as a text")
    return Cure({file.path: edits}, "calls the variable by its name", "the variable takes effect")


def set_above(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Move the line that sets an environment variable above all imports."""
    file = files.at(wanted.place)
    statements = [statement for statement in file.source.tree.body if statement.lineno == wanted.place.line]
    names = {part.id for statement in statements for part in ast.walk(statement) if isinstance(part, ast.Name)}
    if len(statements) != 1 or names != {"os"}:
        raise NoCureError("the line uses more than os, which may not be there above the imports")
    start, stop = file.whole_lines(statements[0])
    opening = Opening(file.text[start:stop].rstrip("\r\n"), "os", _os_import(file) or above_imports(file.source))
    return Cure({file.path: [Edit(start, stop, ""), opening]}, "sets it above all imports", "the variable takes effect")


def _os_import(own: EditableFile) -> int:
    """Return the line that imports `os`, where only modules of Python itself are imported above it; else 0."""
    for node in own.source.tree.body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
        if names == ["os"] and isinstance(node, ast.Import):
            return node.lineno
        if not {name.partition(".")[0] for name in names if name} <= sys.stdlib_module_names:
            return 0
    return 0


def own_generator(files: EditableFiles, wanted: MendRequest) -> Cure:
    """Give a loader, a split or a sampler, which `wanted.called` names, a generator of its own with a seed."""
    file, edits = files.at(wanted.place), list[Edit | Opening]()
    *_, keyword, needed, made = SPLITS.get(wanted.last_name, OF_TORCH)
    for call in calls_at(file, wanted.place, (wanted.last_name,)):
        present = argument(call, keyword)
        if (present is None or is_none(present)) and all(one.arg for one in call.keywords):
            once(files, file, call, is_apart=True)  # all ranks are to split alike
            module, opening = module_at(file, call, needed) if needed else ("", None)
            edits.append(with_argument(file, call, keyword, made.format(module, ordinal(file, call))))
            edits += [opening] if opening else []
    if not edits:
        raise NoCureError(f"the line does not show a call of {wanted.called} without a generator")
    effect = "what it draws no longer depends on what else is drawn, and is another order than before"
    return Cure({file.path: edits}, "gives it a generator with a seed", effect)
