"""Writes the pages of the reference that say what the code says: commands, configuration, JSON, library.

Sphinx does it before every build (`conf.py`), so these pages are in no commit and cannot go stale.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import samebits
import samebits.data
import samebits.state
from samebits.cli.main import cli, helps
from samebits.launch.config import Config
from samebits.lint.linting import LintOptions

SCHEMAS = Path(__file__).parent / "reference" / "schemas"
NOTE = "<!-- Made by docs/reference_pages.py when the site is built. -->\n\n"
CONVENTIONS = """\
`COMMAND` is the command as you would type it: `samebits check train.py --lr 3` is short for `samebits check -- python
train.py --lr 3`. Options of samebits come before the script. Answers go to standard output; progress, notes and errors
go to standard error.

| exit code | meaning |
|---|---|
| 0 | the same bits; nothing found |
| 1 | different bits; something found |
| 2 | could not decide: wrong usage, the script failed, or a process that trained could not be entered |
| 125 | `samebits run` itself failed; otherwise `run` passes on the script's own status |
| 130 | interrupted; what was recorded stays readable |
"""
# What public functions return, and what their users look at.
RETURNED = ("samebits.factors.pinning.Status", "samebits.factors.pinning.FactorStatus")


def write(folder: Path) -> None:
    """Write every page; one that is as it was keeps its time, so that Sphinx does not read it again."""
    pages = {
        "commands.md": commands(),
        "configuration.md": configuration(),
        "json.md": schemas(SCHEMAS),
        "library.md": library(),
    }
    for name, text in pages.items():
        path = folder / name
        if not path.is_file() or path.read_text() != NOTE + text:
            path.write_text(NOTE + text)


# ---- commands


def commands() -> str:
    """Every command with its help and all of its options."""
    context = click.Context(cli, info_name="samebits")
    rows = [f"| [`samebits {name}`](#samebits-{name}) | {help_text} |" for name, help_text in helps().items()]
    parts = ["# Commands\n", "| command | what it does |\n|---|---|\n" + "\n".join(rows) + "\n", CONVENTIONS]
    for name in helps():
        command = cli.get_command(context, name)
        assert command is not None
        parts.append(_command(name, command, context))
    return "\n".join(parts)


def _command(name: str, command: click.Command, parent: click.Context) -> str:
    context = click.Context(command, info_name=name, parent=parent)
    usage = command.get_usage(context).removeprefix("Usage: ")
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    rows = [f"| {_flags(option)} | {_cell(_option_help(option))} |" for option in options]
    table = "| option | meaning |\n|---|---|\n" + "\n".join(rows)
    return f"## samebits {name}\n\n```text\n{usage}\n```\n\n{_click_help(command.help or '')}\n\n{table}\n"


def _click_help(text: str) -> str:
    """Help as Markdown; what click is asked to leave as it stands is a block of code."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(_session(one[2:]) if one.startswith("\b\n") else one for one in paragraphs)


def _session(lines: str) -> str:
    """Commands as they are typed."""
    typed = "\n".join(f"$ {line}" for line in lines.splitlines())
    return f"```console\n{typed}\n```"


def _flags(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    if option.is_flag:
        return names
    if isinstance(option.type, click.Choice):
        return f"{names} {_code('|'.join(option.type.choices))}"
    return f"{names} {_code(option.metavar or option.type.name.upper())}"


def _option_help(option: click.Option) -> str:
    shown = f" (default {option.default})" if option.show_default and option.default is not None else ""
    return f"{(option.help or '').rstrip('.')}{shown}." if option.help else f"Default {option.default}."


# ---- configuration


def configuration() -> str:
    """Every key of `[tool.samebits]`."""
    context = click.Context(cli, info_name="samebits")
    check = cli.get_command(context, "check")
    assert check is not None
    helps = {param.name: param.help or "" for param in check.params if isinstance(param, click.Option)}
    helps["pin"] = helps["pins"]
    own = dict(_sections(Config.__doc__ or "")["Attributes"])
    rows = []
    for field in dataclasses.fields(Config):
        if field.name == "lint":
            continue
        meaning = (helps.get(field.name) or own[field.name]).replace(f" (default {field.default})", "")
        meaning = meaning.replace(" (repeatable)", "")
        default = json.dumps(field.default).replace("null", "none")
        rows.append(f"| `{field.name.replace('_', '-')}` | {_code(default)} | {_cell(_first_up(meaning))} |")
    lint = dict(_sections(LintOptions.__doc__ or "")["Attributes"])
    own_rows = [f"| `{name}` | `[]` | {_cell(_first_up(meaning))} |" for name, meaning in lint.items()]
    return (
        "# Configuration\n\n"
        "Defaults for the options of `samebits check` and `samebits run`, in the nearest `pyproject.toml` above the "
        "current folder. What is typed on the command line counts more. An unknown key is an error.\n\n"
        '```toml\n[tool.samebits]\nmax-steps = 200\nvary = ["cpu-threads"]\nshare = ["data"]\n```\n\n'
        "| key | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n\n"
        "`[tool.samebits.lint]` holds those of `samebits lint`:\n\n"
        "| key | default | meaning |\n|---|---|---|\n" + "\n".join(own_rows) + "\n"
    )


# ---- JSON


def schemas(folder: Path) -> str:
    """A table for every object in every published schema."""
    head = (
        "# JSON\n\n"
        "What commands print with `--format json`, and what lies as `answer.json` in the folder of a check. Every "
        "document names its schema in the key `schema`; the rest is the record that Python gets, and what people read "
        "of it. Keys are only ever added, so a program that reads what it knows goes on working. The schemas "
        "themselves are files:\n\n"
    )
    files = sorted(folder.glob("*.json"))
    links = "\n".join(f"- {{download}}`{path.name} <schemas/{path.name}>`" for path in files)
    return head + links + "\n\n" + "\n".join(_schema(path) for path in files)


def _schema(path: Path) -> str:
    document = json.loads(path.read_text())
    return "\n".join([f"## {document['title']}\n", f"{document.get('description', '')}\n", *_Tables(document).drawn()])


class _Tables:
    """The objects of one schema, each drawn once, wherever it is used."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.slug = re.sub(r"[^\w]+", "-", document["title"])
        self.titles: dict[str, str] = {}
        self.waiting: list[tuple[str, Mapping[str, Any]]] = []

    def drawn(self) -> Iterator[str]:
        yield self._table("", self.document)
        while self.waiting:
            title, schema = self.waiting.pop(0)
            yield f"({self._target(title)})=\n### {title}\n"
            yield self._table(title, schema)

    def _target(self, title: str) -> str:
        return re.sub(r"[^\w]+", "-", f"{self.slug}-{title}").strip("-").lower()

    def _table(self, title: str, schema: Mapping[str, Any]) -> str:
        required = set(schema.get("required", ()))
        rows = ["| key | type | meaning |", "|---|---|---|"]
        for key, value in schema.get("properties", {}).items():
            words = self._type(f"{title}.{key}" if title else key, value)
            optional = "" if key in required else "; may be missing"
            rows.append(f"| `{key}` | {words} | {_cell(value.get('description', ''))}{optional} |")
        return "\n".join(rows) + "\n"

    def _type(self, path: str, schema: Mapping[str, Any]) -> str:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self._object(name, self.document["$defs"][name])
        if "const" in schema:
            return _code(json.dumps(schema["const"]))
        if "enum" in schema:
            return ", ".join(_code(json.dumps(value)) for value in schema["enum"])
        if "anyOf" in schema or "oneOf" in schema:
            return " or ".join(self._type(path, one) for one in schema.get("anyOf") or schema["oneOf"])
        kind = schema.get("type", "anything")
        if kind == "array" and "prefixItems" in schema:
            return f"list of {' and '.join(self._type(f'{path}[]', one) for one in schema['prefixItems'])}"
        if kind == "array":
            return f"list of {self._type(f'{path}[]', schema['items'])}" if "items" in schema else "list"
        if kind == "object" and "properties" in schema:
            return self._object(path, schema)
        return " or ".join(kind) if isinstance(kind, list) else str(kind)

    def _object(self, title: str, schema: Mapping[str, Any]) -> str:
        if not schema.get("properties"):
            return "object"
        content = json.dumps(schema["properties"], sort_keys=True)
        if content not in self.titles:
            short = title.rpartition(".")[2].removesuffix("[]")
            self.titles[content] = title if short in self.titles.values() else short
            self.waiting.append((self.titles[content], schema))
        return f"[{self.titles[content]}](#{self._target(self.titles[content])})"


# ---- library


def library() -> str:
    """Every public name, with its signature and what its docstring says; read from the source, nothing is run."""
    # What is called comes first, what is raised last.
    names = sorted(
        samebits._EXPORTS.keys() - {"__version__"}, key=lambda name: (name.endswith(("Error", "Warning")), name.lower())
    )
    raised = [name for name in names if name.endswith(("Error", "Warning"))]
    parts = [
        "# Library\n",
        "Everything here is `samebits.NAME`. Importing samebits loads neither torch nor NumPy.\n",
        *(_entry(f"{samebits._EXPORTS[name]}.{name}", f"samebits.{name}") for name in names if name not in raised),
        "## samebits.data\n",
        "Data that depends on nothing but seed, epoch and index: [how it works](../explanation/data.md).\n",
        *(_entry(f"{home}.{name}", f"samebits.data.{name}", "###") for name, home in samebits.data._EXPORTS.items()),
        "## samebits.state\n",
        "A training as one state, and a resume that is right: [how to use it](../how-to/resume.md).\n",
        *(_entry(f"{home}.{name}", f"samebits.state.{name}", "###") for name, home in samebits.state._EXPORTS.items()),
        "## What status() and pin() return\n",
        *(_entry(path, path.rpartition(".")[2], "###") for path in RETURNED),
        "## Errors and warnings\n",
        "All errors derive from `SamebitsError` and from the error of Python's own that one would expect.\n",
        *(_entry(f"{samebits._EXPORTS[name]}.{name}", f"samebits.{name}", "###") for name in raised),
    ]
    return "\n".join(parts)


def _entry(path: str, shown: str, level: str = "##") -> str:
    """A section for one name: `samebits.api.compare`, shown as `samebits.compare`."""
    node = _definition(*path.rsplit(".", 1))
    if isinstance(node, ast.FunctionDef):
        return f"{level} {shown}\n\n{_signature(shown, node)}\n{_markdown(ast.get_docstring(node) or '')}\n"
    init = _methods(node).get("__init__")
    signature = "" if init is None else _signature(shown, init)
    inherited = "" if _sections(ast.get_docstring(node) or "") or node.name.endswith("Error") else _of_base(node, path)
    described = "\n\n".join(filter(None, [_markdown(ast.get_docstring(node) or ""), inherited]))
    methods = [
        f"\n**`{_call(name, method)}`**\n\n{_markdown(ast.get_docstring(method) or '')}\n"
        for name, method in _methods(node).items()
        if not name.startswith("_") and ast.get_docstring(method)
    ]
    return f"{level} {shown}\n\n{signature}\n{described}\n{''.join(methods)}"


def _definition(module: str, name: str) -> ast.FunctionDef | ast.ClassDef:
    tree = _tree(module)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
    raise LookupError(f"{module} defines no {name}")


def _tree(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return ast.parse(Path(spec.origin).read_text())


def _methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}


def _of_base(node: ast.ClassDef, path: str) -> str:
    """What a base class of ours says of its attributes; empty where there is none."""
    module = path.rpartition(".")[0]
    homes = {
        alias.asname or alias.name: (one.module, alias.name)
        for one in ast.walk(_tree(module))
        if isinstance(one, ast.ImportFrom) and one.module
        for alias in one.names
    }
    for base in node.bases:
        home, name = homes.get(ast.unparse(base), ("", ""))
        if home.startswith("samebits."):
            text = ast.get_docstring(_definition(home, name)) or ""
            return _markdown(text[text.find("Attributes:") :]) if "Attributes:" in text else ""
    return ""


def _signature(shown: str, node: ast.FunctionDef) -> str:
    return f"```python\n{_call(shown, node)}\n```\n"


def _call(shown: str, node: ast.FunctionDef) -> str:
    """How it is called: in one line where that fits, else an argument a line."""
    decorators = [ast.unparse(one) for one in node.decorator_list]
    if "property" in decorators:
        return shown
    arguments = list(_arguments(node.args))
    head = f"with {shown}" if "contextmanager" in decorators else shown
    gives = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" and head == shown else ""
    line = f"{head}({', '.join(arguments)}){gives}"
    return line if len(line) <= 88 else "\n".join([f"{head}(", *(f"    {one}," for one in arguments), f"){gives}"])


def _arguments(args: ast.arguments) -> Iterator[str]:
    """Each argument as it would be written in a call's documentation, without `self`."""
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    for argument, default in zip(plain, defaults, strict=True):
        if argument.arg != "self":
            yield _argument("", argument, default)
    if args.vararg or args.kwonlyargs:
        yield _argument("*", args.vararg, None) if args.vararg else "*"
    for argument, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield _argument("", argument, default)
    if args.kwarg:
        yield _argument("**", args.kwarg, None)


def _argument(stars: str, argument: ast.arg, default: ast.expr | None) -> str:
    annotated = f"{stars}{argument.arg}" + (f": {ast.unparse(argument.annotation)}" if argument.annotation else "")
    return annotated if default is None else f"{annotated} = {ast.unparse(default)}"


# ---- docstrings

_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Warns):$")


def _markdown(docstring: str) -> str:
    """A docstring as Markdown: sections are lists, what is indented is code."""
    return "\n\n".join(_paragraphs(docstring))


def _paragraphs(docstring: str) -> Iterator[str]:
    for paragraph in re.split(r"\n{2,}", docstring.strip()):
        lines = paragraph.splitlines()
        if not lines:
            continue
        if _SECTION.match(lines[0]):
            yield f"**{lines[0].rstrip(':')}**"
            yield "\n".join(f"- `{name}`: {text}" if name else text for name, text in _items(lines[1:]))
        elif paragraph.startswith("    ") or paragraph.startswith(">>>"):
            yield f"```python\n{textwrap.dedent(paragraph)}\n```"
        else:
            yield paragraph


def _sections(docstring: str) -> dict[str, list[tuple[str, str]]]:
    """Of a docstring: section → its items; names that stand together have one item each."""
    found: dict[str, list[tuple[str, str]]] = {}
    for paragraph in re.split(r"\n{2,}", inspect.cleandoc(docstring)):
        title, *lines = paragraph.splitlines()
        if _SECTION.match(title):
            items = _items(lines)
            found[title.rstrip(":")] = [(name, text) for names, text in items for name in re.split(r", | / ", names)]
    return found


def _items(lines: Iterable[str]) -> list[tuple[str, str]]:
    """`name: text` for each item of a section; what is indented further goes on with the item before."""
    found: list[tuple[str, str]] = []
    for line in lines:
        named = re.match(r"^ {4}([\w*, /]+?): (.*)$", line)
        if named:
            found.append((named[1], named[2]))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        else:
            found.append(("", line.strip()))
    return found


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _first_up(text: str) -> str:
    return text[:1].upper() + text[1:]
