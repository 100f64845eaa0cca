"""`hash()` of a string, or `id()`, becomes a number that matters.

Strings hash with a seed that is new in every process, and addresses are new as well: buckets, splits and seeds made of
them differ in every run.

    part = "test" if hash(row["name"]) % 5 == 0 else "train"

A checksum is the same everywhere:

    part = "test" if zlib.crc32(row["name"].encode()) % 5 == 0 else "train"
"""

import ast
import re

from samebits.lint.findings import ADDRESS
from samebits.lint.orders import is_number, set_orders
from samebits.lint.rule import Findings, Project, Rule, Source
from samebits.lint.source import last_name


@Rule("error", factors=("hash-seed", "memory-addresses"), fix="unsafe", cure="hash-seed")
def find(project: Project, source: Source) -> Findings:
    """Hashes and addresses that are taken modulo something, that seed, or that order."""
    for node, use in set_orders(project, source):
        # Most tuples hold numbers, so that their hash is the same everywhere.
        hashed = node.args[0] if isinstance(node, ast.Call) and node.args else None
        is_vague = ADDRESS in use.depends_on and (
            isinstance(hashed, ast.Tuple) or (isinstance(hashed, ast.Call) and last_name(hashed.func) == "tuple")
        )
        if use.reason == "orders by id()" or (is_number(source, node) and not is_vague and _REASON.search(use.reason)):
            yield use


_REASON = re.compile(r"\bhash\(\)|\bid\(\)")
