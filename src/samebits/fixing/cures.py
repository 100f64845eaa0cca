"""One function for each kind of cure: from what is to be mended, and where, to edits of the source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from samebits.base.sites import Site
from samebits.fixing.edits import Edit, NoCureError, Original
from samebits.fixing.openings import Opening, first_line, name_of
from samebits.lint.environment import meant, settings
from samebits.lint.flow import Flow
from samebits.lint.hash_order import taken_by
from samebits.lint.project import argument, parts_of
from samebits.lint.source import called, dotted, last_name


@dataclass(frozen=True)
class Wanted:
    """Something that is to be mended: a cause that was measured, or a line that reading found.

    Attributes:
        factor: its name.
        site: the line; None where there is none.
        called: what was called there, as it was witnessed.
        fix: what a person would change, in words.
        script: path of the script that is run.
        others: further lines at which it enters; what one seed mends is mended at all of them.
        late: where a generator is seeded that was drawn from before.
        early: lines that seeded other generators before this one was drawn from.
        threads: how many the script computes with; 0 where that is not known.
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
        """Of what was called."""
        return self.called.removesuffix("()").rpartition(".")[2]

    @property
    def place(self) -> Site:
        """The line; NoCureError where there is none."""
        if self.site is None:
            raise NoCureError("no line is known")
        return self.site


@dataclass(frozen=True)
class Cure:
    """Edits that mend one thing.

    Attributes:
        edits: path → its edits, and lines that are put below its imports.
        does: what they do, as a clause.
        effect: what else is another than before, as a clause.
    """

    edits: Mapping[str, Sequence[Edit | Opening]]
    does: str
    effect: str


class Sources:
    """The files that may be edited.

    Args:
        read: gives the file at a path; NoCureError where it must not be edited, or cannot.
        paths: of all files of the program, for what is read across files.
    """

    def __init__(self, read: Callable[[str], Original], paths: Iterable[str] = ()) -> None:
        self._read, self._paths = read, [*paths]
        self._known: dict[str, Original] = {}

    def of(self, path: str) -> Original:
        """The file at a path."""
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def script(self, wanted: Wanted) -> Original:
        """The script that is run."""
        if not wanted.script:
            raise NoCureError("the script is no file of yours")
        return self.of(wanted.script)

    def all(self) -> Iterator[Original]:
        """Those of the program that can be read."""
        for path in dict.fromkeys([*self._paths, *self._known]):
            try:
                yield self.of(path)
            except NoCureError:
                continue

    def at(self, site: Site) -> Original:
        """The file of a line, which has to be as it was when it ran."""
        own = self.of(site.path)
        if not 0 < site.line <= len(own.lines):
            raise NoCureError(f"{site.place} is not in the file")
        if site.noted and own.lines[site.line - 1].strip() != site.noted.strip():
            raise NoCureError(f"{site.place} is another line than the one that ran: {site.noted.strip()}")
        return own

    @cached_property
    def flow(self) -> Flow:
        """What expressions of all files may be."""
        return Flow([one.source for one in self.all()])


# ---- places


def calls_at(own: Original, site: Site, names: Collection[str]) -> list[ast.Call]:
    """Calls of functions with these last names that stand at a line, or else go across it, the first one first."""
    calls = [call for name in names for call in own.source.methods[name]]
    calls = [call for call in calls if call.lineno <= site.line <= (call.end_lineno or 0)]
    # A chain of calls begins on another line than the name of its last one.
    exact = [call for call in calls if site.line in (call.lineno, call.func.end_lineno)]
    return sorted(exact or calls, key=lambda call: (call.lineno, call.col_offset))


def _called_at(own: Original, wanted: Wanted, names: Collection[str]) -> list[ast.Call]:
    """What was called there, where the line shows that, else any of the names."""
    calls = calls_at(own, wanted.place, {wanted.last_name} & set(names)) or calls_at(own, wanted.place, names)
    if not calls:
        what = wanted.called or " or ".join(sorted(names))
        raise NoCureError(f"the line does not show a call of {what}: a library makes it")
    return calls


def wrapped(own: Original, node: ast.AST, before: str, after: str) -> list[Edit]:
    """An expression with something before and something after it."""
    start, stop = own.span(node)
    return [Edit(start, start, before), Edit(stop, stop, after)]


def with_argument(own: Original, call: ast.Call, name: str, value: str, position: int = 99) -> Edit:
    """An argument of a call with another value; where it is left out, behind the last one."""
    if given := argument(call, name, position):
        return Edit(*own.span(given), value)
    last = max((own.span(one)[1] for one in (*call.args, *call.keywords)), default=0)
    at = last or own.span(call)[1] - 1
    return Edit(at, at, f", {name}={value}" if last else f"{name}={value}")


def renamed(own: Original, name: ast.AST, new: str) -> Edit:
    """The last name of `a.b.c`, or a plain name, by another one."""
    _, stop = own.span(name)
    return Edit(stop - len(last_name(name)), stop, new)


# ---- orders

_LISTINGS = {"listdir", "scandir", "iterdir", "glob", "iglob", "rglob"}
_ANOTHER_ORDER = "what comes in this order may get other numbers than before: which class is which, say"


def sort_listing(files: Sources, wanted: Wanted) -> Cure:
    """`sorted(...)` around a listing."""
    edits: dict[str, list[Edit]] = {}
    for site in (wanted.place, *wanted.others):
        own = files.at(site)
        sort, names = (_sort_walk, {"walk", "fwalk"}) if wanted.called.endswith("walk") else (_sort_call, _LISTINGS)
        for call in _called_at(own, replace(wanted, site=site), names):
            edits.setdefault(own.path, []).extend(sort(own, call))
    return Cure(edits, "sorts the listing", _ANOTHER_ORDER)


def _sort_call(own: Original, call: ast.Call) -> list[Edit]:
    parent = own.source.parents[call]
    key = ", key=lambda entry: entry.name" if last_name(call.func) == "scandir" else ""
    if isinstance(parent, ast.withitem):
        used = [
            node
            for node in ast.walk(own.source.parents[parent])
            if isinstance(node, ast.Name) and node.id == last_name(parent.optional_vars or parent)
        ]
        loops = [node for node in used if getattr(own.source.parents[node], "iter", None) is node]
        if len(loops) != 1 or len(used) != 2:
            raise NoCureError("the listing is used in more than one loop")
        return wrapped(own, loops[0], "sorted(", f"{key})")
    if isinstance(parent, ast.Call) and last_name(parent.func) == "sorted":
        raise NoCureError("the listing is sorted already, by something that several entries share")
    is_iterator = isinstance(parent, ast.Call) and last_name(parent.func) == "next"
    return wrapped(own, call, "iter(sorted(" if is_iterator else "sorted(", f"{key}){')' if is_iterator else ''}")


def _sort_walk(own: Original, call: ast.Call) -> list[Edit]:
    """Folders and files of `for root, folders, files in os.walk(...)`, in place."""
    loop = own.source.parents[call]
    target = getattr(loop, "target", None)
    if not isinstance(target, ast.Tuple) or not all(isinstance(one, ast.Name) for one in target.elts):
        raise NoCureError("what os.walk gives is not taken apart in a loop")
    names = [last_name(one) for one in target.elts[1:3]]
    if isinstance(loop, ast.For):
        first = loop.body[0]
        if first.lineno == loop.lineno:
            raise NoCureError("the loop is written on one line")
        indent = own.lines[first.lineno - 1][: first.col_offset]
        start = own.offset(first_line(first))
        return [Edit(start, start, "".join(f"{indent}{name}.sort()\n" for name in names))]
    made = own.source.parents[loop]
    inner = [one.iter for one in getattr(made, "generators", ()) if last_name(one.iter) in names]
    if not inner:
        raise NoCureError("what os.walk gives is not taken apart in a loop")
    return [edit for node in (call, *inner) for edit in wrapped(own, node, "sorted(", ")")]


def _sets_at(files: Sources, site: Site) -> Iterator[tuple[Original, ast.expr]]:
    """Sets whose order a line takes."""
    own, of = files.at(site), files.flow.of
    for node in ast.walk(own.source.tree):
        for one in taken_by(node):
            if one.lineno <= site.line <= (one.end_lineno or 0) and of(one).order_depends_on:
                yield own, one


def without_hashes(files: Sources, wanted: Wanted) -> Cure:
    """`sorted(..., key=str)` around a set whose order counts, and `zlib.crc32` for `hash`, at every line."""
    edits, does = dict[str, list[Edit | Opening]](), dict[str, str]()
    for site in (wanted.place, *wanted.others):
        try:
            own = files.at(site)
        except NoCureError:
            if site is wanted.place:
                raise
            continue
        for call in calls_at(own, site, ("hash",)):
            if len(call.args) == 1 and isinstance(call.func, ast.Name):
                # What is hashed may be no text: a tuple, an enum; of a set the order is no part of what it is.
                value = own.written(call.args[0])
                value = f"sorted({value}, key=str)" if files.flow.of(call.args[0]).kind == "set" else value
                number = f"{name_of(own, 'zlib')}.crc32(repr({value}).encode())"
                edits.setdefault(own.path, []).extend([Edit(*own.span(call), number), Opening("", "zlib")])
                does["replaces hash() by zlib.crc32()"] = "texts get other numbers than before, from 0 to 2**32 - 1"
        for of, node in _sets_at(files, site):
            edits.setdefault(of.path, []).extend(_sorted_set(of, node))
            does["sorts the set"] = _ANOTHER_ORDER
    if not edits:
        raise NoCureError("the line shows neither a set nor a call of hash()")
    return Cure(edits, " and ".join(does), "; ".join(does.values()))


def _sorted_set(own: Original, node: ast.expr) -> list[Edit]:
    parent = own.source.parents[node]
    if isinstance(parent, ast.Call) and parent.args == [node] and dotted(parent.func) == "list":
        _, stop = own.span(node)
        return [renamed(own, parent.func, "sorted"), Edit(stop, stop, ", key=str")]
    return wrapped(own, node, "sorted(", ", key=str)")


def ordered_set(files: Sources, wanted: Wanted) -> Cure:
    """`dict.fromkeys(...)` in the place of `set(...)`, where a dictionary will do in all places of its name."""
    edits: dict[str, list[Edit]] = {}
    for own, node in _sets_at(files, wanted.place):
        for made in _made(own, node):
            edits.setdefault(own.path, []).extend(_as_keys(own, made))
    if not edits:
        raise NoCureError("the line does not show the set")
    return Cure(edits, "makes the set with dict.fromkeys(), which keeps its order", "the set keeps the order it gets")


def _made(own: Original, node: ast.expr) -> list[ast.expr]:
    """The expressions that make what a name stands for, or the expression itself."""
    if not isinstance(node, ast.Name):
        return [node]
    here = own.source.function_of(node)
    mentions = own.source.mentions(node.id)
    if not isinstance(here, ast.Module):
        mentions = [one for one in mentions if own.source.function_of(one) is here]
    for one in mentions:
        parent = own.source.parents[one]
        is_call = isinstance(parent, ast.Call) and one in parent.args
        is_plain = isinstance(parent, ast.For | ast.comprehension | ast.Assign | ast.Starred | ast.Compare)
        if not (is_call or is_plain):
            raise NoCureError(f"{node.id} is used as only a set can be")
    values = [own.source.parents[one] for one in mentions if isinstance(one.ctx, ast.Store)]
    if not values or not all(isinstance(one, ast.Assign) and len(one.targets) == 1 for one in values):
        raise NoCureError(f"it is not known how {node.id} is made")
    return [one.value for one in values if isinstance(one, ast.Assign)]


def _as_keys(own: Original, node: ast.expr) -> Iterator[Edit]:
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


def in_order_of_tasks(files: Sources, wanted: Wanted) -> Cure:
    """The tasks themselves in the place of `as_completed(...)`, `imap` for `imap_unordered`, batches in order."""
    own, edits = files.at(wanted.place), list[Edit]()
    for call in _called_at(own, wanted, ("as_completed", "imap_unordered", "DataLoader")):
        if last_name(call.func) == "DataLoader":
            edits.append(with_argument(own, call, "in_order", "True"))
            continue
        if last_name(call.func) == "imap_unordered":
            edits.append(renamed(own, call.func, "imap"))
            continue
        given = {called(part) for one in call.args for part in parts_of(own.source, one) if isinstance(part, ast.Call)}
        if own.source.qualified(call.func).startswith("asyncio.") and not given & {"create_task", "ensure_future"}:
            raise NoCureError("what asyncio waits for one after another may begin only then: gather them")
        if len(call.args) != 1 or call.keywords:
            raise NoCureError("the call has a time limit, which would be lost")
        if files.flow.of(call.args[0]).kind == "set":
            edits += (edit for made in _made(own, call.args[0]) for edit in _as_keys(own, made))
        (start, stop), (first, last) = own.span(call), own.span(call.args[0])
        if isinstance(call.args[0], ast.GeneratorExp):
            # All tasks are started before the first one is waited for.
            edits += [Edit(start, first + 1, "["), Edit(last - 1, stop, "]")]
            continue
        edits += [Edit(start, first, ""), Edit(last, stop, "")]
    effect = "results come in the order of their tasks, so one that takes long is waited for"
    return Cure({own.path: edits}, "takes results in the order of their tasks", effect)


# ---- settings

_OTHER_KERNELS = "operations are computed by other kernels, maybe slower ones, so losses may differ in their last bits"


def _setting(files: Sources, wanted: Wanted, call: str, does: str, effect: str) -> Cure:
    """A call of torch at the start of the script."""
    own = files.script(wanted)
    return Cure({own.path: [Opening(f"{name_of(own, 'torch')}.{call}", "torch")]}, does, effect)


def fixed_threads(files: Sources, wanted: Wanted) -> Cure:
    """`torch.set_num_threads(...)` with the number in effect."""
    if not wanted.threads:
        raise NoCureError("it is not known how many threads are in effect")
    effect = f"nothing on this machine, which uses {wanted.threads} already"
    return _setting(files, wanted, f"set_num_threads({wanted.threads})", "fixes the number of threads", effect)


def deterministic(files: Sources, wanted: Wanted) -> Cure:
    """`True` where a line switches deterministic algorithms off or asks for warnings; the call where there is none."""
    if wanted.site is None:
        if wanted.called:
            raise NoCureError(f"with deterministic algorithms torch refuses {wanted.called.partition(',')[0]}")
        does = "asks for deterministic kernels"
        return _setting(files, wanted, "use_deterministic_algorithms(True)", does, _OTHER_KERNELS)
    own, edits = files.at(wanted.site), list[Edit]()
    for call in _called_at(own, wanted, ("use_deterministic_algorithms",)):
        (_, first), (_, stop) = own.span(call.func), own.span(call)
        edits.append(Edit(first, stop, "(True)"))
    return Cure({own.path: edits}, "asks for deterministic kernels", _OTHER_KERNELS)


def steady_flag(files: Sources, wanted: Wanted) -> Cure:
    """The other value of a flag that a line sets, such as `torch.backends.cudnn.benchmark = True`."""
    flag, _, value = wanted.called.partition(" = ")
    own, edits = files.at(wanted.place), list[Edit]()
    for node in own.source.every(ast.Assign):
        is_it = node.lineno == wanted.place.line and flag.rpartition(".")[2] in map(last_name, node.targets)
        if is_it and isinstance(node.value, ast.Constant):
            edits.append(Edit(*own.span(node.value), str(value != "True")))
    if not edits:
        raise NoCureError(f"the line does not set {flag} to a constant")
    return Cure({own.path: edits}, f"sets {flag} to {value != 'True'}", _OTHER_KERNELS)


def highest_precision(files: Sources, wanted: Wanted) -> Cure:
    """Products of floats in full precision."""
    effect = "products have all their bits, and take longer on a GPU"
    return _setting(files, wanted, 'set_float32_matmul_precision("highest")', "asks for full precision", effect)


def filled(files: Sources, wanted: Wanted) -> Cure:
    """`zeros` in the place of `empty`."""
    names = {"empty": "zeros", "empty_like": "zeros_like", "new_empty": "new_zeros"}
    own = files.at(wanted.place)
    edits = [renamed(own, call.func, names[last_name(call.func)]) for call in _called_at(own, wanted, names)]
    return Cure({own.path: edits}, "fills the tensor with zeros", "what was read before it was written is 0 now")


def keyed_loader(files: Sources, wanted: Wanted) -> Cure:
    """`samebits.data.DataLoader(..., seed=0)` in the place of torch's."""
    own, edits = files.at(wanted.place), list[Edit | Opening]([Opening("", "samebits.data")])
    loader = f"{name_of(own, 'samebits.data')}.DataLoader"
    for call in _called_at(own, wanted, ("DataLoader",)):
        edits += [Edit(*own.span(call.func), loader), with_argument(own, call, "seed", "0")]
    effect = (
        "samples get random numbers of their own, by their index: other ones than before, with any number of workers"
    )
    return Cure({own.path: edits}, "keys each sample by its index", effect)


# ---- what reading alone finds


def unshuffled(files: Sources, wanted: Wanted) -> Cure:
    """`shuffle=False` for a loader or sampler from which a model is evaluated."""
    own, edits = files.at(wanted.place), list[Edit]()
    for call in _called_at(own, wanted, ("DataLoader", "DistributedSampler")):
        position = 2 if last_name(call.func) == "DataLoader" else 3
        edits.append(with_argument(own, call, "shuffle", "False", position))
        if argument(call, "shuffle", position) is None and any(one.arg is None for one in call.keywords):
            raise NoCureError("shuffle comes from a dict that other loaders may be given, too")
    return Cure({own.path: edits}, "evaluates in the order of the data", "evaluating draws nothing any more")


def spelt(files: Sources, wanted: Wanted) -> Cure:
    """The name of the variable that is meant."""
    own, edits = files.at(wanted.place), list[Edit]()
    for name, node in settings(own.source):
        for part in ast.walk(node) if node.lineno == wanted.place.line else ():  # type: ignore[attr-defined]
            if isinstance(part, ast.Constant) and part.value == name:
                edits.append(Edit(*own.span(part), own.written(part).replace(name, meant(name) or name)))
    if not edits:
        raise NoCureError("the line does not show the name as a text")
    return Cure({own.path: edits}, "calls the variable by its name", "the variable takes effect")


def set_above(files: Sources, wanted: Wanted) -> Cure:
    """A variable set above all imports."""
    own = files.at(wanted.place)
    statements = [one for one in own.source.tree.body if one.lineno == wanted.place.line]
    names = {part.id for one in statements for part in ast.walk(one) if isinstance(part, ast.Name)}
    if len(statements) != 1 or names != {"os"}:
        raise NoCureError("the line uses more than os, which may not be there above the imports")
    start, stop = own.whole_lines(statements[0])
    opening = Opening(own.text[start:stop].rstrip("\r\n"), "os", _os_import(own) or -1)
    return Cure({own.path: [Edit(start, stop, ""), opening]}, "sets it above all imports", "the variable takes effect")


def _os_import(own: Original) -> int:
    """The line that imports `os`, where only Python's own modules are imported above it; else 0."""
    for node in own.source.tree.body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
        if names == ["os"] and isinstance(node, ast.Import):
            return node.lineno
        if not {name.partition(".")[0] for name in names if name} <= sys.stdlib_module_names:
            return 0
    return 0


def own_generator(files: Sources, wanted: Wanted) -> Cure:
    """A generator of its own, with a seed, for a loader, a split or a sampler; `called` is its name."""
    own, edits = files.at(wanted.place), list[Edit | Opening]()
    generator = f"{name_of(own, 'torch')}.Generator().manual_seed(0)"
    for call in calls_at(own, wanted.place, (wanted.last_name,)):
        if not any(one.arg in ("generator", None) for one in call.keywords):
            edits.append(with_argument(own, call, "generator", generator))
    if not edits:
        raise NoCureError(f"the line does not show a call of {wanted.called} without a generator")
    effect = "what it draws no longer depends on what else is drawn, and is another order than before"
    return Cure({own.path: [*edits, Opening("", "torch")]}, "gives it a generator with a seed", effect)
