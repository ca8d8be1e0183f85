"""Each promise of the documentation names a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = re.compile(r"^\| promise \| test \|\n\| ---.*\n((?:\| .*\n)+)", re.M)
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize(("document", "at_least"), [("security.md", 100), ("promises.md", 40)])
def test_every_promise_names_a_test_that_exists(document: str, at_least: int) -> None:
    tables = TABLE.findall((ROOT / "docs" / document).read_text())
    promises = [row for table in tables for row in table.splitlines()]
    assert len(promises) > at_least
    missing: list[str] = []
    for row in promises:
        found = NAMED.search(row)
        if found is None or found[2] not in functions(ROOT / found[1]):
            missing.append(row)
    assert missing == []


@cache
def functions(path: Path) -> set[str]:
    if not path.exists():
        return set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)}
