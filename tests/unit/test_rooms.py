"""The house: small rooms, chapters, arrows that point down, and walks that lead where they say.

Arrows between rooms are checked by import-linter (``pyproject.toml``).
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "cobblestone"
WALKS = ROOT / "docs" / "find-your-way.md"
MAX_MODULES = 14
MAX_CODE_LINES = 430


def folders() -> list[Path]:
    """All packages, and folders in them that hold modules."""
    return sorted({path.parent for path in PACKAGE.rglob("*.py") if "versions" not in path.parts})


def code_lines(path: Path) -> int:
    """Lines without blanks, comments and docstrings."""
    text = path.read_text()
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                documented.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        1 for n, line in lines if n not in documented and line.strip() and not line.strip().startswith("#")
    )


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.relative_to(SOURCE).as_posix())
def test_a_room_holds_at_most_fourteen_modules_and_says_who_lives_there(folder: Path) -> None:
    modules = sorted(path.name for path in folder.glob("*.py") if path.name != "__init__.py")
    assert len(modules) <= MAX_MODULES, modules
    if (folder / "__init__.py").exists():
        said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        assert len([line for line in said.splitlines() if line]) >= 2, "who lives there, and what it may know"


def test_a_module_is_a_chapter_or_says_why_it_is_longer() -> None:
    long: list[str] = []
    for path in PACKAGE.rglob("*.py"):
        lines, head = code_lines(path), path.read_text().splitlines()[:20]
        if lines > MAX_CODE_LINES and not any(line.startswith("# length: ") for line in head):
            long.append(f"{path.relative_to(PACKAGE)}: {lines} code lines")
    assert long == []


@cache
def imported(path: Path) -> frozenset[Path]:
    """Files of the modules that a file imports, at its head or inside of functions."""
    found: set[Path] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cobblestone"):
            for name in (node.module, *(f"{node.module}.{each.name}" for each in node.names)):
                place = SOURCE / (name or "").replace(".", "/")
                found.update({place.with_suffix(".py"), place / "__init__.py"})
    return frozenset(each for each in found if each.exists())


def legs() -> list[tuple[str, list[Path]]]:
    """Each leg of each walk: the heading of the walk, and the files in order."""
    found: list[tuple[str, list[Path]]] = []
    heading = ""
    for line in WALKS.read_text().splitlines():
        if line.startswith("## "):
            heading = line[3:]
            found.append((heading, []))
        elif line.startswith("Then"):
            found.append((heading, []))
        elif match := re.match(r"- \[`[^`]+`\]\(\.\./(src/[^)]+)\)", line):
            found[-1][1].append(ROOT / match[1])
    return found


def test_each_module_of_a_walk_is_imported_by_one_before_it() -> None:
    assert len({heading for heading, _ in legs()}) == 8
    for heading, files in legs():
        assert files, heading
        for position, path in enumerate(files):
            assert path.exists(), f"{heading}: {path.relative_to(ROOT)}"
            before = {each for earlier in files[:position] for each in imported(earlier)}
            assert position == 0 or path in before, (
                f"{heading}: nothing before it imports {path.relative_to(ROOT)}"
            )
