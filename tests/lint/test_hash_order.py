"""Which lines let the hash seed in: a table of snippets, each with a clean twin nearby.

A guilty line carries the comment `# <-`. Every snippet is also executed under several hash seeds: `result` must change
for those with a guilty line and must not for the others, so the table cannot claim what Python does not do.
"""

import json
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

from samebits.lint.findings import ADDRESS, LISTS, LOOPS, NUMBERS, SEED, WEAK, Finding
from samebits.lint.hash_order import find_hash_order

HASH_SEEDS = range(1, 9)
MARK = "# <-"

SNIPPETS = {
    # ---- builtins that give a set an order
    "list_of_set": "result = list(set(words))  # <-",
    "list_of_set_sorted": "result = sorted(set(words))",
    "list_of_set_sorted_outside": "result = sorted(list(set(words)))",
    "list_of_set_sorted_in_place": """
        result = list(set(words))
        result.sort()
    """,
    "list_of_set_sorted_by_length_in_place": """
        result = list(set(words))  # <-
        result.sort(key=len)
    """,
    "list_of_set_sorted_after_counting": """
        names = list(set(words))
        print(len(names))
        names = sorted(names)
        result = names[0]
    """,
    "list_of_set_only_asked": """
        names = list(set(words))
        result = len(names), "cat" in names, max(names)
    """,
    "list_of_set_sorted_while_another_function_has_a_name_like_it": """
        def first(names):
            return names[0]

        names = list(set(words))
        names.sort()
        result = first(names)
    """,
    "list_of_set_counted_here_and_used_in_a_function": """
        def first():
            return names[0]

        names = list(set(words))  # <-
        result = len(names), first()
    """,
    "list_of_list": "result = list(words)",
    "tuple_of_frozenset": "result = tuple(frozenset(words))  # <-",
    "iter_of_set": "result = next(iter(set(words)))  # <-",
    "enumerate": "result = {word: index for index, word in enumerate(set(words))}  # <-",
    "enumerate_sorted": "result = {word: index for index, word in enumerate(sorted(set(words)))}",
    "zip": "result = dict(zip(set(words), range(99)))  # <-",
    "map": "result = [*map(len, set(words))]  # <-",
    "map_into_set": "result = set(map(len, set(words)))",
    "filter": "result = [*filter(None, set(words))]  # <-",
    "reversed_list": "result = [*reversed(list(set(words)))]  # <-",
    "join": "result = ' '.join(set(words))  # <-",
    "join_sorted": "result = ' '.join(sorted(set(words)))",
    "join_into_letters": "result = sorted(set(''.join(set(words))))",
    "fromkeys": "result = dict.fromkeys(set(words), 0)  # <-",
    "fromkeys_of_list": "result = list(dict.fromkeys(words))",
    "str_of_set": "result = str(set(words))  # <-",
    "chain": """
        from itertools import chain

        result = [*chain(set(words), words)]  # <-
    """,
    "chain_from_iterable": """
        import itertools

        result = [*itertools.chain.from_iterable(set(words))]  # <-
    """,
    "reduce": """
        import functools

        result = functools.reduce(lambda a, b: a + b, set(words))  # <-
    """,
    "blind_questions": """
        names = set(words)
        result = len(names), min(names), max(names), any(names), all(names), "cat" in names, bool(names)
    """,
    "blind_comprehensions": """
        names = set(words)
        result = any(w == "cat" for w in names), max(len(w) for w in names), sum(len(w) for w in names)
    """,
    "printed": """
        print(", ".join(set(words)), list(set(words)), f"{', '.join(set(words))}")
        result = None
    """,
    "printed_by_way_of_a_computation": """
        def train(names):
            return names[0]

        result = train(list(set(words)))  # <-
        print(train(list(set(words))))  # <-
    """,
    "raised": """
        try:
            raise ValueError("unknown: " + ", ".join(set(words)))
        except ValueError:
            result = "failed"
    """,
    # ---- ties: a stable sort keeps the order of the set
    "sorted_by_key": "result = sorted(set(words), key=len)  # <-",
    "sorted_by_key_and_self": "result = sorted(set(words), key=lambda word: (len(word), word))",
    "sorted_by_self": "result = sorted(set(words), key=str)",
    "max_by_key": "result = max(set(words), key=len)  # <-",
    # ---- loops
    "for_then_sorted": """
        result = []
        for word in set(words):
            result.append(word)
        result.sort()
    """,
    "for_filling_a_set": """
        result = set()
        for word in set(words):
            if len(word) > 3:
                result.add(word.upper())
    """,
    "for_counting": """
        result = 0
        for word in set(words):
            result += 1
            assert word
    """,
    "for_while_the_set_is_built": """
        names, result = None, []
        for word in words:
            if names:
                result.extend(names)  # <-
            names = {word, *(names or ())}
    """,
    # ---- comprehensions
    "list_comprehension": "result = [len(word) for word in set(words)]  # <-",
    "list_comprehension_sorted": "result = sorted([word.upper() for word in set(words)])",
    "nested_comprehension": "result = [letter for word in words for letter in {word[0], word[1], word[2]}]  # <-",
    "dict_comprehension": "result = {word: len(word) for word in set(words)}  # <-",
    "set_comprehension": "result = {len(word) for word in set(words)}",
    "set_comprehension_ordered": "result = list({word.upper() for word in words})  # <-",
    "generator": "result = tuple(word for word in set(words))  # <-",
    "generator_sorted": "result = sorted(word for word in set(words))",
    "walrus": """
        if names := set(words):
            result = [*names]  # <-
    """,
    # ---- unpacking
    "star": "result = [*set(words)]  # <-",
    "star_sorted": "result = sorted([*set(words), 'x'])",
    "star_into_set": "result = {*set(words)}",
    "star_argument_of_max": "result = max(*set(words))",
    "tuple_unpacking": "a, b, c, *result = set(words)  # <-",
    "tuple_unpacking_of_the_only_member": "(result,) = {words[0]}",
    "pop": "result = set(words).pop()  # <-",
    "pop_of_list": "result = words.copy().pop()",
    "yield_from": """
        def each():
            yield from set(words)  # <-

        result = list(each())
    """,
    "extend": """
        result = []
        result.extend(set(words))  # <-
    """,
    "add_to_list": """
        result = []
        result += set(words)  # <-
    """,
    # ---- what makes a set
    "operators": """
        result = list(set(words) | {"x"})  # <-
        more = list(set(words) & {"cat", "dog", "owl"})  # <-
        rest = list(set(words) - {"cat"})  # <-
        other = list(set(words) ^ {"cat"})  # <-
    """,
    "methods": """
        result = list(set(words).union(["x"]))  # <-
        more = list(set(words).difference(["cat"]).copy())  # <-
        rest = list(set.union(set(words), {"x"}))  # <-
    """,
    "dict_views": """
        a, b = dict.fromkeys(words), {"cat": 1, "dog": 2, "owl": 3, "cow": 4}
        result = list(a.keys() & b.keys())  # <-
        same = list(a.keys())
    """,
    "dict_minus_dict": "result = [*(dict.fromkeys(words).keys() - {'cat'})]  # <-",
    "copied": """
        import copy

        result = list(copy.copy(set(words)))  # <-
    """,
    "conditional": "result = list(set(words) if words else [])  # <-",
    "assigned_in_a_branch": """
        names = None
        if words:
            names = set(words)
        result = list(names)  # <-
    """,
    "try": """
        try:
            names = set(words)
        except TypeError:
            names = []
        finally:
            result = list(names)  # <-
    """,
    # ---- through functions, classes and containers
    "function_annotated": """
        def labels() -> "frozenset[str]":
            return type(frozenset())(words)

        result = list(labels())  # <-
    """,
    "function_returns_a_pair": """
        def labels():
            return set(words), sorted(words)

        names, ordered = labels()
        same = list(ordered)
        result = list(names)  # <-
    """,
    "generator_of_sets": """
        def groups():
            yield set(words)

        for group in groups():
            result = list(group)  # <-
    """,
    "parameter_given_a_set": """
        def order(names):
            return [name for name in names]  # <-

        result = order(set(words))
    """,
    "parameter_given_by_keyword": """
        def order(count, *, names):
            return list(names)[:count]  # <-

        result = order(5, names=set(words))
    """,
    "parameter_default": """
        def order(names=frozenset(("cat", "dog", "owl", "cow"))):
            return list(names)  # <-

        result = order()
    """,
    "closure": """
        def outer():
            names = set(words)

            def inner():
                return list(names)  # <-

            return inner()

        result = outer()
    """,
    "global_statement": """
        NAMES = None

        def build():
            global NAMES
            NAMES = set(words)

        def order():
            return list(NAMES)  # <-

        build()
        result = order()
    """,
    "attribute": """
        class Vocabulary:
            def __init__(self, words):
                self.words = set()
                for word in words:
                    self.words.add(word)

            def order(self):
                return {word: index for index, word in enumerate(self.words)}  # <-

        result = Vocabulary(words).order()
    """,
    "attribute_of_instance": """
        class Vocabulary:
            def __init__(self, words):
                self.words = set(words)

        vocabulary = Vocabulary(words)
        result = list(vocabulary.words)  # <-
    """,
    "attribute_inherited": """
        class Base:
            words = {"cat", "dog", "owl", "cow"}

        class Vocabulary(Base):
            def order(self):
                return list(self.words)  # <-

        result = Vocabulary().order()
    """,
    "attribute_put_in_order": """
        class Vocabulary:
            def __init__(self, words):
                self.words = set(words)

            def finish(self):
                self.words = sorted(self.words)

            def order(self):
                return list(self.words)

        vocabulary = Vocabulary(words)
        vocabulary.finish()
        result = vocabulary.order()
    """,
    "dataclass_field": """
        from dataclasses import dataclass, field

        @dataclass
        class Vocabulary:
            words: set[str] = field(default_factory=set)

            @property
            def long(self):
                return self.words - {"cat"}

            def order(self):
                return list(self.long)  # <-

        result = Vocabulary(set(words)).order()
    """,
    "defaultdict_of_sets": """
        from collections import defaultdict

        groups = defaultdict(set)
        for word in words:
            groups[len(word)].add(word)
        result = [list(group) for length, group in groups.items()]  # <-
        same = [sorted(group) for length, group in groups.items()]
    """,
    "dict_of_sets": """
        groups = {}
        for word in words:
            groups.setdefault(len(word), set()).add(word)
        result = list(groups[3])  # <-
    """,
    "dict_of_sets_annotated": """
        groups: dict[int, set[str]] = {3: set(words)}
        result = list(groups.get(3, ()))  # <-
    """,
    "dict_of_lists": """
        groups = {}
        for word in words:
            groups.setdefault(len(word), []).append(word)
        result = list(groups[3])
    """,
    "mixed_record": """
        record = {"stop": {"the", "a"}, "names": sorted(set(words))}
        result = list(record["names"])
    """,
    "list_of_sets": """
        groups = [set(words), {"x"}]
        result = [list(group) for group in groups]  # <-
        lengths = [len(group) for group in groups]
    """,
    "mapped_to_sets": "result = [list(letters) for letters in map(set, words)]  # <-",
    # ---- sets whose hashes have no seed
    "integers": """
        numbers = {3, 1, 2} | set(range(9)) | {len(word) for word in words}
        result = list(numbers), [n for n in numbers], sum(numbers), numbers.pop()
    """,
    "floats_and_pairs": "result = list({0.5, 0.25}), list({(1, 2), (3, 4)}), list(frozenset((True, 2)))",
    "integers_added": """
        seen, more = set(), set()
        for word in words:
            seen.add(len(word))
            more |= {len(word)}
        result = list(seen), list(more)
    """,
    "one_string_among_integers": "result = list({1, 'cat', 'dog', 'owl', 'cow'})  # <-",
    "sorted_by_their_places": "result = sorted(set(words), key=words.index)",
    "handed_on_by_many": """
        class Node:
            def __init__(self, name):
                self.name, self.near = name, set()

        def walk(root):
            found, waiting = [root], [root]
            while waiting:
                for other in waiting.pop().near:  # <-
                    found.append(other.name)
            return found

        def order(nodes):
            return walk(nodes[0])

        def make():
            nodes = [Node(word) for word in words[:2]]
            nodes[0].near.update(words)
            nodes[0].near = {Word(word) for word in nodes[0].near}
            return nodes, 0

        class Word:
            def __init__(self, name):
                self.name = name

            def __hash__(self):
                return hash(self.name)

        made = [make() for _ in range(2)]
        result = [order(nodes) for nodes, _ in made]
    """,
    # ---- sums
    "sum_of_floats": """
        scores = {word: 0.1 * index for index, word in enumerate(words)}
        result = sum(scores[word] for word in set(words))  # <-
    """,
    "sum_of_floats_exactly": """
        import math

        scores = {word: 0.1 * index for index, word in enumerate(words)}
        result = math.fsum(scores[word] for word in set(words))
    """,
    # ---- hash()
    "hash": "result = hash(words[0]) % 64  # <-",
    "hash_of_numbers": "result = hash(3), hash(-7), hash(0.5), hash((1, 2)), hash(len(words))",
    "hash_as_a_function": "result = [*map(hash, words)]  # <-",
    "hash_method": "result = words[0].__hash__()  # <-",
    "hash_for_sets": """
        class Word:
            def __init__(self, text):
                self.text = text

            def __hash__(self):
                return hash(self.text)

            def __eq__(self, other):
                return self.text == other.text

        result = len({Word(word) for word in words})
    """,
    # ---- arrays
    "array_unique": """
        import numpy as np

        result = np.unique(list(set(words))).tolist(), np.isin(words, list(set(words))).tolist()
    """,
    "pool": """
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor() as pool:
            result = [*pool.map(len, set(words))]  # <-
    """,
    "set_as_a_value": """
        import types

        config = types.SimpleNamespace(set=lambda name: [name])
        result = list(config.set("cat"))
    """,
}

RUNNER = """
import contextlib, io, json, sys

def plain(value):
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if isinstance(value, dict):
        return [[plain(key), plain(item)] for key, item in value.items()]
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else repr(value)

results = {}
for name, source in json.load(sys.stdin).items():
    words = ["cat", "horse", "dog", "owl", "zebra", "cow", "cat", "heron", "ant", "bee", "bison"]
    space = {"words": words, "__name__": "snippet"}
    sys.modules["snippet"] = type(sys)("snippet")
    with contextlib.redirect_stdout(io.StringIO()):
        exec(source, space)
    results[name] = plain(space["result"])
json.dump(results, sys.stdout)
"""


def source_of(name: str) -> str:
    return textwrap.dedent(SNIPPETS[name]).lstrip("\n")


def marked_lines(source: str) -> list[int]:
    return [line for line, text in enumerate(source.splitlines(), start=1) if text.endswith(MARK)]


def found(source: str, folder: Path) -> list[Finding]:
    """What reading a script says of it, in the order of its lines."""
    path = folder / "snippet.py"
    path.write_text(source, encoding="utf-8")
    return sorted(find_hash_order([path]), key=lambda one: one.line)


def found_lines(source: str, folder: Path) -> list[int]:
    return [one.line for one in found(source, folder)]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, set[str]]:
    """What every snippet gives under several hash seeds."""
    sources = json.dumps({name: source_of(name) for name in SNIPPETS})
    seen: dict[str, set[str]] = {name: set() for name in SNIPPETS}
    for seed in HASH_SEEDS:
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", RUNNER]
        done = subprocess.run(command, input=sources, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        for name, result in json.loads(done.stdout).items():
            seen[name].add(json.dumps(result))
    return seen


@pytest.mark.parametrize("name", SNIPPETS)
def test_guilty_lines_are_found_and_no_others(name: str, tmp_path: Path, outcomes: dict[str, set[str]]) -> None:
    """The lines found are the marked ones; where there are any, another hash seed gives another result, else none."""
    source = source_of(name)

    assert found_lines(source, tmp_path) == marked_lines(source)
    assert (len(outcomes[name]) > 1) == bool(marked_lines(source))


def test_members_of_an_enum_are_no_numbers(tmp_path: Path) -> None:
    """They hash by their names, whatever stands in the class; in a class of one's own it is what it is."""
    source = """
from enum import Enum
class Kind(Enum):
    CAT = 1
    DOG = 2
class Size:
    SMALL = 1
    LARGE = 2
kinds = {Kind.CAT, Kind.DOG}
order = list(kinds)
sizes = list({Size.SMALL, Size.LARGE})
"""
    assert [(one.line, one.depends_on) for one in found(source, tmp_path)] == [(10, frozenset({SEED}))]


def test_a_finding_says_where_and_why(tmp_path: Path) -> None:
    """A finding holds the path as given, the qualified function, the stripped line and a reason."""
    path = tmp_path / "data.py"
    path.write_text("class Data:\n    def labels(self, rows):\n        return list(set(rows))  # all of them\n")

    (finding,) = find_hash_order([str(path)])

    assert (finding.path, finding.line, finding.function) == (str(path), 3, "Data.labels")
    assert finding.source == "return list(set(rows))  # all of them"
    assert finding.reason == "orders a set with list()"


@pytest.mark.parametrize(
    ("source", "function"),
    [
        ("x = [*set(a)]", "<module>"),
        ("def f():\n    def g():\n        return [*set(a)]", "f.<locals>.g"),
        ("class C:\n    x = [*set(a)]", "C"),
        ("async def f():\n    return [*set(a)]", "f"),
    ],
)
def test_functions_are_named_as_python_names_them(source: str, function: str, tmp_path: Path) -> None:
    """The function of a finding is its qualified name."""
    assert [one.function for one in found(source, tmp_path)] == [function]


@pytest.mark.parametrize(
    ("source", "weight"),
    [
        ("x = list(set(a))", NUMBERS),
        ("x = {b: i for i, b in enumerate(set(a))}", NUMBERS),
        ("x = hash(a)", NUMBERS),
        ("for b in set(a):\n    ids[b] = len(ids)", NUMBERS),
        ("for b in set(a):\n    ids[b] = n\n    n += 1", NUMBERS),
        ("for b in set(a):\n    ids.setdefault(b, len(ids))", NUMBERS),
        ("x = [f(b) for b in set(a)]", LISTS),
        ("for b in set(a):\n    f(b)", LOOPS),
        ("x = {b: f(b) for b in set(a)}", LOOPS),
        ("x = sum(f(b) for b in set(a))", WEAK),
        ("x = max(set(a), key=f)", WEAK),
    ],
)
def test_what_becomes_numbers_weighs_most(source: str, weight: int, tmp_path: Path) -> None:
    """Ids and hashes weigh more than lists, lists more than loops, loops more than sums."""
    assert [one.weight for one in found(source, tmp_path)] == [weight]


def test_likeliest_first_then_path_and_line(tmp_path: Path) -> None:
    """Findings of several files come by weight, then path, then line."""
    (tmp_path / "b.py").write_text("for x in {'a', 'b'}:\n    f(x)\ny = hash(z)\n")
    (tmp_path / "a.py").write_text("n = sum(f(w) for w in set(v))\nfor x in {'a', 'b'}:\n    f(x)\n")

    findings = find_hash_order([tmp_path / "b.py", tmp_path / "a.py", tmp_path / "b.py"])

    assert [(Path(one.path).name, one.line) for one in findings] == [("b.py", 3), ("a.py", 2), ("b.py", 1), ("a.py", 1)]


def test_one_finding_a_line(tmp_path: Path) -> None:
    """Of several reasons on a line, the weightiest is given."""
    assert [one.reason for one in found("x = sum(f(w) for w in set(v)) + hash(v)\n", tmp_path)] == ["depends on hash()"]


@pytest.mark.parametrize(
    "statement",
    [
        "from data import labels, stop",
        "from .data import labels, stop",
        "import data\nlabels, stop = data.labels, data.stop",
        "import data as d\nlabels, stop = d.labels, d.stop",
        "from . import data\nlabels, stop = data.labels, data.stop",
    ],
)
def test_sets_are_followed_through_imports(statement: str, tmp_path: Path) -> None:
    """A set made in one file and ordered in another is found in the other."""
    (tmp_path / "data.py").write_text("def labels(rows):\n    return set(rows)\nstop = {'a', 'the'}\nfew = [1]\n")
    (tmp_path / "train.py").write_text(f"{statement}\nx = list(labels(r))\ny = list(stop)\n")

    findings = find_hash_order([tmp_path / "train.py", tmp_path / "data.py"])

    lines = len(statement.splitlines())
    assert [(Path(one.path).name, one.line) for one in findings] == [
        ("train.py", lines + 1),
        ("train.py", lines + 2),
    ]


# Other files that cannot be read: `test_linting.py`.
UNREADABLE = {
    "nothing": b"",
    "parentheses": b"x = " + b"(" * 5000 + b")" * 5000 + b"\n",
    "python_2": b"print 'x'\n",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_files_are_skipped(name: str, tmp_path: Path) -> None:
    """A file that is no Python costs nothing but itself."""
    (tmp_path / "bad.py").write_bytes(UNREADABLE[name])
    (tmp_path / "good.py").write_text("x = list(set(a))\n")
    missing = [tmp_path / "missing.py", tmp_path, "<string>", "a\0b"]

    findings = find_hash_order([tmp_path / "bad.py", *missing, tmp_path / "good.py"])

    assert [one.path for one in findings] == [str(tmp_path / "good.py")]


READABLE = {
    "declared_encoding": b"# coding: latin-1\n# caf\xe9\nx = list(set(a))\n",
    "byte_order_mark": b"\xef\xbb\xbf\n\nx = list(set(a))\n",
    "windows_lines": b"\r\n\r\nx = list(set(a))\r\n",
    "form_feed": b"y = '\x0c \x1c'\n\nx = list(set(a))\n",
    "invalid_escape": b"y = '\\d'\n\nx = list(set(a))\n",
    "no_last_newline": b"\n\nx = list(set(a))",
}


@pytest.mark.parametrize("name", READABLE)
def test_odd_files_are_read(name: str, tmp_path: Path) -> None:
    """Encodings, line ends and odd characters do not shift lines; a parser's warnings do not reach the user."""
    (tmp_path / "odd.py").write_bytes(READABLE[name])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (finding,) = find_hash_order([tmp_path / "odd.py"])

    assert (finding.line, finding.source) == (3, "x = list(set(a))")


HUGE = {
    "long_sum": "y = " + " + ".join(["a"] * 900),
    "calls": "y = " + "f(" * 90 + ")" * 90,
    "chain": "y = a" + ".f()" * 300,
    "elif": "if a:\n    pass" + "".join(f"\nelif a == {n}:\n    pass" for n in range(900)),
    "loops": "".join(" " * n + f"for i{n} in a:\n" for n in range(90)) + " " * 90 + "pass",
    "functions": "".join(" " * n + f"def f{n}():\n" for n in range(90)) + " " * 90 + "pass",
    "classes": "".join(" " * n + f"class C{n}:\n" for n in range(90)) + " " * 90 + "pass",
    "growing_shape": "y = []\nwhile a:\n    y = [y, (y, y)]\n    y.append(y)",
    "recursion": "def f(x):\n    return [f([x]), f((x, x))]\nclass C(C):\n    x = property(C)\nf(C().x)",
    "cyclic_classes": "class A(B):\n    pass\nclass B(A):\n    pass\nA().x",
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_nesting_hides_nothing_else(name: str, tmp_path: Path) -> None:
    """However deep a statement is, the next one is read, and soon."""
    assert found_lines(f"{HUGE[name]}\nx = list(set(a))\n", tmp_path) == [len(HUGE[name].splitlines()) + 1]


# Which factors a line lets in: also sets of parameters and modules that are put in order, and `id()` that orders.
BOTH = {ADDRESS, SEED}
GUILTY = {
    "list(set(net.parameters()))": {ADDRESS},
    "list(set(net.parameters()) | set(head.parameters()))": {ADDRESS},
    "[p.norm() for p in {*net.parameters()}]": {ADDRESS},
    "torch.nn.utils.clip_grad_norm_(set(net.parameters()), 1.0)": {ADDRESS},
    "for module in set(net.modules()): module.reset_parameters()": {ADDRESS},
    "[name for name, child in set(net.named_children())]": BOTH,
    "sorted(net.parameters(), key=id)": {ADDRESS},
    "min(layers, key=lambda layer: id(layer))": {ADDRESS},
    "sorted(layers, key=lambda layer: (layer.depth, id(layer)))": {ADDRESS},
    "heapq.heappush(layers, (len(layers), id(net), net))": {ADDRESS},
    "first = net if id(net) < id(head) else head": {ADDRESS},
    "random.seed(id(net))": {ADDRESS},
    "offset = id(net) % 7": {ADDRESS},
    "list({id(p) for p in net.parameters()})": {ADDRESS},
    "list(set(things))": BOTH,
    "import weakref; list(weakref.WeakSet(net.modules()))": {ADDRESS},
    "list({'cat', 'dog'})": {SEED},
    "import asyncio\nasync def f(tasks): done, _ = await asyncio.wait(tasks); return [one.result() for one in done]": {
        ADDRESS
    },
    "from concurrent.futures import wait; done, left = wait(jobs); first = list(done)": {ADDRESS},
    "torch.manual_seed(hash(net) % 100)": BOTH,
    "[hash(p) for p in net.parameters()]": {ADDRESS},
}
CLEAN = (
    "print(len(set(net.parameters())))",
    "frozen = set(net.parameters()); rest = [p for p in head.parameters() if p not in frozen]",
    "seen = {id(p) for p in net.parameters()}; known = id(head) in seen",
    "memo[id(net)] = net",
    "heapq.heappush(layers, (len(layers), net.depth, net))",
    "is_same = id(net) == id(head)",
    "list(dict.fromkeys(net.parameters()))",
    "total = sum(p.numel() for p in net.parameters())",
    "sorted(names, key=len)",
    "list({3, 4})",
    "from concurrent.futures import wait; done, _ = wait(jobs); rows = [one.result() for one in jobs if one in done]",
    "from concurrent.futures import wait\nfor one in wait(jobs)[1]: one.cancel()",
    "code = process.wait(); event.wait(3) or list(jobs)",
)


@pytest.mark.parametrize("line", GUILTY)
def test_a_guilty_line_says_what_it_depends_on(line: str, tmp_path: Path) -> None:
    """Addresses, the hash seed, or either where reading cannot tell what the members are."""
    assert [one.depends_on for one in found(line, tmp_path)] == [GUILTY[line]]


@pytest.mark.parametrize("line", CLEAN)
def test_what_orders_nothing_is_passed_by(line: str, tmp_path: Path) -> None:
    """Membership, counting, memories of what was seen, and what keeps an order of its own."""
    assert found(line, tmp_path) == []
