"""Each promise of the documentation names a test that exists, and each mutation a line and a promise."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from tests.helpers.wasm_slot import FLAGS
from tools.mutations import MUTATIONS, Mutation

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
def test_each_mutation_breaks_a_line_that_is_there_and_names_a_promise_s_test(
    mutation: Mutation, tmp_path: Path
) -> None:
    path = ROOT / mutation.file
    text = path.read_text()
    assert text.count(mutation.line) == 1
    assert f"`tests/{mutation.test}`" in "".join((ROOT / "docs" / name).read_text() for name in DOCUMENTS)
    # What cannot be compiled would be noticed by any test.
    broken = text.replace(mutation.line, mutation.broken)
    if path.suffix == ".py":
        ast.parse(broken)
    elif path.suffix == ".c":
        (tmp_path / path.name).write_text(broken)
        words = ["gcc", *FLAGS, "-fsyntax-only", "-I", str(path.parent), str(tmp_path / path.name)]
        subprocess.run(words, check=True, timeout=60)


def test_each_promise_has_a_line_to_break() -> None:
    mutated = {each.test for each in MUTATIONS}
    bare = {tests[0] for tests in promises() if mutated.isdisjoint(tests)}
    assert bare == set()


def promises() -> list[list[str]]:
    """The tests of each promise, below ``tests``."""
    lines = [line for name in DOCUMENTS for line in (ROOT / "docs" / name).read_text().splitlines()]
    found = [
        [f"{file.removeprefix('tests/')}::{test}" for file, test in NAMED.findall(line)] for line in lines
    ]
    return [each for each in found if each]
