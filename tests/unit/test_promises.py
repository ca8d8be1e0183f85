"""Each promise of the documentation names a test that exists, and each mutation a line and a promise."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tools.mutations import MUTATIONS, WITHOUT, WITHOUT_OF_FOLDER, Mutation

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


DOCUMENTS = ("security.md", "promises.md")


@pytest.mark.parametrize(("document", "at_least"), [(name, 40) for name in DOCUMENTS])
def test_every_promise_names_a_test_that_exists(document: str, at_least: int) -> None:
    text = (ROOT / "docs" / document).read_text()
    promises = [line for line in text.splitlines() if "`tests/" in line]
    assert len(promises) > at_least
    missing = [place for place in NAMED.findall(text) if place[1] not in functions(ROOT / place[0])]
    assert missing == []
    assert [line for line in promises if not NAMED.search(line)] == []


@cache
def functions(path: Path) -> set[str]:
    if not path.exists():
        return set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: f"{each.file}, {each.test}")
def test_each_mutation_breaks_a_line_that_is_there_and_names_a_promise_s_test(mutation: Mutation) -> None:
    assert (ROOT / "src" / "cobblestone" / mutation.file).read_text().count(mutation.line) == 1
    promised = "".join((ROOT / "docs" / name).read_text() for name in DOCUMENTS)
    assert f"`tests/{mutation.test}`" in promised


def promises() -> list[list[str]]:
    """The tests of each promise, below ``tests``."""
    lines = [line for name in DOCUMENTS for line in (ROOT / "docs" / name).read_text().splitlines()]
    found = [
        [f"{file.removeprefix('tests/')}::{test}" for file, test in NAMED.findall(line)] for line in lines
    ]
    return [each for each in found if each]


def test_each_promise_has_a_line_to_break_or_says_why_it_has_none() -> None:
    mutated = {each.test for each in MUTATIONS}
    bare = [each for each in promises() if mutated.isdisjoint(each)]
    silent = [
        each[0] for each in bare if {test.partition("/")[0] for test in each} - WITHOUT_OF_FOLDER.keys()
    ]
    assert sorted(set(silent)) == sorted(test for tests in WITHOUT.values() for test in tests)
