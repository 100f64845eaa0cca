"""Each rule says what it should of bad code, and nothing of good code."""

from pathlib import Path

import pytest

from samebits.lint.rule import Rule, all_rules
from samebits.report.lints import rule_page
from tests.lint.snippets import FOLDER, Snippet, of_docs, scores, snippets

CODES = [rule.code for rule in all_rules()]


@pytest.mark.parametrize("snippet", snippets(), ids=lambda one: f"{one.code} {one.title}")
def test_a_rule_names_the_lines_that_are_marked(snippet: Snippet, tmp_path: Path) -> None:
    """Those, and no others."""
    expected = snippet.marked(snippet.code) | snippet.marked("false")

    assert snippet.found(tmp_path) == expected


@pytest.mark.parametrize("code", CODES)
def test_the_page_of_a_rule_is_right(code: str, tmp_path: Path) -> None:
    """What it calls bad is found, and what it calls good is not."""
    bad, good = of_docs(code)

    assert bad.found(tmp_path)
    assert good.found(tmp_path) == set()


@pytest.mark.parametrize("rule", all_rules(), ids=lambda one: one.code)
def test_a_rule_is_whole(rule: Rule) -> None:
    """It has a sentence, a reason of some length, and snippets of both kinds."""
    own = [one for one in snippets() if one.code == rule.code]

    assert rule.summary
    assert len(rule.doc.split("\n\n")[1]) > 60
    assert rule.summary in rule_page(rule)
    assert any(one.guilty for one in own)
    assert any(not one.guilty for one in own)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda one: one.code)
def test_a_rule_is_seldom_wrong(rule: Rule) -> None:
    """Nine in ten of its findings are right."""
    assert scores()[rule.code].precision >= 0.9


def test_no_snippet_belongs_to_nothing() -> None:
    """A file is called as the rule is."""
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CODES)
