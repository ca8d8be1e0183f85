"""Each promise of docs/security.md names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_promise_names_a_test_that_exists() -> None:
    tables = re.findall(
        r"^\| promise .*\n\| ---.*\n((?:\| .*\n)+)", (ROOT / "docs/security.md").read_text(), re.M
    )
    promises = [row for table in tables for row in table.splitlines()]
    assert len(promises) > 40
    missing: list[str] = []
    for row in promises:
        found = NAMED.search(row)
        if found is None or found[2] not in functions(ROOT / found[1]):
            missing.append(row)
    assert missing == []


def functions(path: Path) -> set[str]:
    if not path.exists():
        return set()
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
