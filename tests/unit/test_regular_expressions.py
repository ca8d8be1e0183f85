"""No regular expression of the package has possessive quantifiers (``a++``) or atomic groups (``(?>a)``).

Python before 3.11.5 gets them wrong where a group may be tried again: ``(?:e\\d++)?+`` took the ``e`` of ``3e``.  A pattern that
needs them to be fast is written so that what follows a repetition cannot begin with what is repeated.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "cobblestone"
PARSER: Any = importlib.import_module("re._parser")
WRONG = {"POSSESSIVE_REPEAT", "ATOMIC_GROUP"}
ANYTHING = "x"
"""Stands for a part of a pattern that is known only when the program runs."""
OF_OPERATORS = {"pattern"}
"""Expressions for patterns that come from a project's own files, not from the package."""

Names = Mapping[str, ast.expr]


def names_in(nodes: Iterable[ast.AST]) -> dict[str, ast.expr]:
    """What is assigned to names."""
    found: dict[str, ast.expr] = {}
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found[target.id] = node.value
    return found


def is_call_of_re(node: ast.AST) -> bool:
    """Whether this is a call of a function of ``re`` that takes a pattern."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=function)):
            return function not in ("escape", "purge")
        case _:
            return False


def text_of(node: ast.expr, names: Names) -> str | None:
    """The text of a pattern, put together from its parts; None: all of it is known only when the program runs."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Constant(value=bytes() as data):
            return data.decode("latin-1")
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part, names) or ANYTHING for part in parts)
        case ast.FormattedValue(value=value):
            return text_of(value, names)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (text_of(left, names) or ANYTHING) + (text_of(right, names) or ANYTHING)
        case ast.BinOp(left=left, op=ast.Mod()):
            text = text_of(left, names)
            return text and text.replace("%s", ANYTHING)
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name), attr="pattern") if name in names:
            return text_of(names[name], {key: each for key, each in names.items() if key != name})
        case ast.Call(args=[pattern, *_]) if is_call_of_re(node):
            return text_of(pattern, names)
        case _:
            return None


def flags_of(call: ast.Call) -> int:
    """The flags that change how a pattern is read."""
    return re.VERBOSE if re.search(r"\bre\.(VERBOSE|X)\b", ast.unparse(call)) else 0


def is_wrong(parsed: object) -> bool:
    """Whether a parsed pattern holds one of the constructs."""
    if str(parsed) in WRONG:
        return True
    return isinstance(parsed, tuple | list | PARSER.SubPattern) and any(
        is_wrong(part) for part in cast("Iterable[object]", parsed)
    )


def complaints(tree: ast.Module, others: Names) -> Iterator[str]:
    """Say what is wrong with the regular expressions of a module."""
    nodes = list(ast.walk(tree))
    names = {**others, **names_in(nodes)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "re":
            yield f"{node.lineno}: import re itself, so that its calls are found here"
        if isinstance(node, ast.Import) and any(each.name == "re" and each.asname for each in node.names):
            yield f"{node.lineno}: import re by its own name, so that its calls are found here"
        if not isinstance(node, ast.Call):
            continue
        of_re = is_call_of_re(node)
        patterns = [each.value for each in node.keywords if each.arg == "pattern"]
        for pattern in [*node.args[:1], *patterns] if of_re else patterns:
            text = text_of(pattern, names)
            if text is None and of_re and ast.unparse(pattern) not in OF_OPERATORS:
                yield f"{node.lineno}: {ast.unparse(pattern)} cannot be looked at: write the pattern into the call"
            elif text is not None and is_wrong(PARSER.parse(text, flags_of(node))):
                yield f"{node.lineno}: {ast.unparse(pattern)} is possessive or atomic, which Python 3.11.4 gets wrong"


def test_no_pattern_is_possessive_or_atomic() -> None:
    trees: dict[Path, ast.Module] = {}
    names: dict[str, ast.expr] = {}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        names |= names_in(tree.body)
        if re.search(r"\bre\b|pattern=", text):
            trees[path] = tree
    found = [
        f"{path.relative_to(PACKAGE)}:{complaint}"
        for path, tree in sorted(trees.items())
        for complaint in complaints(tree, names)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("re.compile(r'a++b')", True),
        ("re.search('(?:e[0-9]++)?+', text)", True),
        ("re.sub(b'(?>a|b)c', b'', data)", True),
        ("re.match(pattern='x{2,3}+', string=text)", True),
        ("re.split(r'(?:(a)|[bc]*+)', text)", True),
        ("re.compile('a+' r'+', re.ASCII)", True),
        ("re.compile('a+' + '+')", True),
        ("re.compile('a %s+' % '')", False),
        ("PART = r'\\\\d+'\nre.compile(rf'{PART}+')", True),
        ("PART = re.compile(r'\\\\d+')\nre.compile(rf'({PART.pattern}+)')", True),
        ("WHOLE = 'a?+'\nre.compile(WHOLE)", True),
        ("re.compile(f'{word}++')", True),
        ("re.compile('a +', re.VERBOSE)", False),
        ("Meta(pattern='a++')", True),
        ("re.compile('a+ # +')", False),
        ("re.compile(r'[++]+\\++?(a+)+')", False),
        ("re.escape('a++')", False),
        ("name = 'C++'", False),
        ("re.compile(somewhere())", True),
        ("from re import compile", True),
        ("import re as r", True),
    ],
)
def test_such_a_pattern_is_found_however_it_is_written(source: str, found: bool) -> None:
    assert bool(list(complaints(ast.parse(source), {}))) is found
