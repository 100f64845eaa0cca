"""Seed arguments that do not seed are found, and those that do are passed by in silence; see also SB102 and SB103."""

import textwrap
from pathlib import Path

import pytest

from samebits.lint.seeds import find_seed_arguments

PARSER = """
    import argparse, torch
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
"""
NO_DEFAULT = PARSER.replace(", default=0)", ")")


def found(folder: Path, **files: str) -> list[tuple[str, int, str]]:
    """Name of the file, line and kind of all findings in a program of these files."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    findings = find_seed_arguments(sorted(folder.glob("*.py")))
    return [
        (Path(one.path).stem, one.line, "unused" if "is never read" in one.reason else "default-none")
        for one in findings
    ]


FAULTY = {
    "another name": (PARSER.replace("--seed", "--random-seed") + "    print(args.lr)", 5, "unused"),
    "a parameter that is None": ("def make(*, seed=None):\n    return default_rng(seed)", 1, "default-none"),
    "a field that is None": (
        "@dataclass\nclass Config:\n    seed: int | None = None\nuse(Config().seed)",
        3,
        "default-none",
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_an_argument_that_does_not_seed_is_found(name: str, tmp_path: Path) -> None:
    """At the line that declares it, with what is the matter."""
    text, line, kind = FAULTY[name]

    assert found(tmp_path, train=text) == [("train", line, kind)]


SAID = {
    "a call with None": ("torch.manual_seed(args.seed)", "what is seeded with None starts anew in every run"),
    "drawn": ("if args.seed is None: args.seed = draw()", "then it is drawn"),
    "a guard": ("if args.seed is not None: torch.manual_seed(args.seed)", "without it the seeding is skipped"),
    "a guard of another kind": ("if args.seed: torch.manual_seed(args.seed)", "without it the seeding is skipped"),
}


@pytest.mark.parametrize("name", SAID)
def test_what_none_does_is_said_as_the_script_does_it(name: str, tmp_path: Path) -> None:
    """Behind a guard nothing is seeded at all, which is not the same as seeding with None."""
    line, expected = SAID[name]
    (tmp_path / "train.py").write_text(textwrap.dedent(NO_DEFAULT + f"    {line}"))

    (finding,) = find_seed_arguments([tmp_path / "train.py"])

    assert finding.reason == f"--seed is None unless it is given, and {expected}"


CLEAN = {
    "read by name": PARSER + "    torch.manual_seed(getattr(args, 'seed'))",
    "read by key": PARSER + "    torch.manual_seed(config['seed'])",
    "handed to a library": PARSER + "    Trainer(args).train()",
    "made a constant": NO_DEFAULT + "    if args.seed is None: args.seed = 0\n    torch.manual_seed(args.seed)",
    "another word": PARSER.replace("--seed", "--seeds-per-row") + "    print(args.lr)",
    "a parameter": "def make(n, seed=3):\n    return default_rng(seed)",
    "an interface": "def make(seed=None):\n    'Make.'\n    raise NotImplementedError",
    "all locals": "def make(seed=3):\n    return build(locals())",
    "a field": "@dataclass\nclass Config:\n    seed: int = 0\nuse(Config().seed)",
    "fields as a dict": "@dataclass\nclass Config:\n    seed: int = 0\nuse(asdict(Config()))",
    "click": "@click.command()\n@click.option('--seed', default=0)\ndef main(seed):\n    train(seed)",
    "no Python": "def (",
}


@pytest.mark.parametrize("name", CLEAN)
def test_an_argument_that_seeds_is_passed_by(name: str, tmp_path: Path) -> None:
    """Also where it might be read in a way that reading the code does not see."""
    assert found(tmp_path, train=CLEAN[name]) == []


def test_an_argument_may_be_read_in_another_file(tmp_path: Path) -> None:
    """`args` is handed to a function of the program's own, which reads it, or does not."""
    train = PARSER + "    from setup import prepare\n    prepare(args)"
    reading = "def prepare(args):\n    torch.manual_seed(args.seed)"

    assert found(tmp_path, train=train, setup=reading) == []
    assert found(tmp_path, setup="def prepare(args):\n    print(args.lr)") == [("train", 5, "unused")]


def test_an_argument_parsed_in_a_function_is_followed(tmp_path: Path) -> None:
    """The namespace that a function returns is the same namespace."""
    text = """
        def parse():
            parser = ArgumentParser()
            parser.add_argument("--seed", type=int, default=0)
            return parser.parse_args()
        def main():
            args = parse()
            {}
    """

    assert found(tmp_path, train=text.format("print(args.lr)")) == [("train", 4, "unused")]
    assert found(tmp_path, train=text.format("torch.manual_seed(args.seed)")) == []
    assert found(tmp_path, train=text.format("fit(args)")) == []


def test_the_text_says_what_is_the_matter(tmp_path: Path) -> None:
    """By the name that a user types."""
    (tmp_path / "train.py").write_text(textwrap.dedent(PARSER))
    (finding,) = find_seed_arguments([tmp_path / "train.py", tmp_path / "missing.py"])

    assert finding.reason == "--seed is never read, so it seeds nothing"
    assert finding.path == str(tmp_path / "train.py")
