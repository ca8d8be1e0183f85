"""Each promise of the documentation names a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize(("document", "at_least"), [("security.md", 40), ("promises.md", 40)])
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
