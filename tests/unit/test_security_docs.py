"""Each promise of docs/security.md names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_promise_names_a_test_that_exists() -> None:
    text = (ROOT / "docs/security.md").read_text()
    promises = re.findall(r"^\* .*: `tests/.*$", text, re.MULTILINE)
    assert len(promises) > 40
    named = NAMED.findall(text)
    assert len(named) >= len(promises)
    assert [place for place in named if place[1] not in functions(ROOT / place[0])] == []


def functions(path: Path) -> set[str]:
    if not path.exists():
        return set()
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
