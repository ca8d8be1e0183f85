"""Every regular expression of the package takes linear time, and none is possessive (``a++``) or atomic (``(?>a)``).

The latter would make patterns fast, but Python before 3.11.5 gets them wrong where a group may be tried again:
``(?:e\\d++)?+`` took the ``e`` of ``3e``.  So what follows a repetition must not begin with what is repeated, and a search
must not start anew within what it has just read.  That is tried with texts that are made of the pattern itself: each
repetition in it, again and again, behind what stands before it.
"""

from __future__ import annotations

import ast
import importlib
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "cobblestone"
PARSER: Any = importlib.import_module("re._parser")
COMPILER: Any = importlib.import_module("re._compiler")
WRONG = {"POSSESSIVE_REPEAT", "ATOMIC_GROUP"}
ANYTHING = "x"
"""Stands for a part of a pattern that is known only when the program runs."""
OF_OPERATORS = {"pattern"}
"""Expressions for patterns that come from a project's own files, or that pydantic repeats, not from a call."""

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


# -- linear time ------------------------------------------------------------------------------------------

ORDERS = ("a1 _.-\n<", "1a .-_\n<", " \na1.-", "\n a1", ".a1", "-a1", "<a1", "_a1")
"""Characters for sets and dots: the first one that fits is taken."""
OTHERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\"'!#$%&()*+,/:;<=>?@[]^`{|}~\\\x01\x80\xe9\u2028"
SIZES = (12, 16, 20, 24, 64, 512, 12_000)
"""Characters of a text.  What is linear reads the longest in less than a millisecond; what is not takes several times the limit
then, or, where each character doubles the time, soon."""
LIMIT_SECONDS = 0.005
STEEPEST = 8.0
"""What four times the text may take, in times: of a linear pattern it is 4, of a quadratic one 16."""
FEW = 30
"""A repetition that is bounded by less is none."""
WAYS: Mapping[str, str] = {"match": "match", "fullmatch": "fullmatch"}
"""Uses of a pattern that begin at one place; all others search."""

Match = Callable[[str], object]


def first_fit(kind: Any, value: object, characters: str, flags: int) -> str:
    """The first character that a set, a dot or "not this one" fits."""
    sub = PARSER.SubPattern(PARSER.State(), [(kind, value)])
    sub.state.flags = flags
    found = COMPILER.compile(sub, flags).search(characters)
    return "" if found is None else found[0]


def sample(parsed: Any, order: str, groups: dict[int, str], flags: int) -> str:
    """A text that a parsed pattern matches, as short as it can be with each repetition done once."""
    out = ""
    for kind, value in parsed:
        match str(kind), value:
            case "LITERAL", code:
                out += chr(code)
            case "IN" | "ANY" | "NOT_LITERAL", _:
                out += first_fit(kind, value, order + OTHERS, flags)
            case "MAX_REPEAT" | "MIN_REPEAT", (least, most, sub):
                out += sample(sub, order, groups, flags) * max(least, min(1, most))
            case "SUBPATTERN", (number, _, _, sub):
                groups[number] = sample(sub, order, groups, flags)
                out += groups[number]
            case "BRANCH", (_, branches):
                out += sample(branches[0], order, groups, flags)
            case "GROUPREF", number:
                out += groups.get(number, "")
            case _:
                pass
    return out


def repetitions(parsed: Any, before: str, order: str, flags: int) -> Iterator[tuple[str, str]]:
    """Yield what is repeated in a parsed pattern, and what stands before it."""
    groups: dict[int, str] = {}
    for kind, value in parsed:
        match str(kind), value:
            case "MAX_REPEAT" | "MIN_REPEAT", (_, most, sub):
                if int(most) >= FEW and (pump := sample(sub, order, groups, flags)):
                    yield before, pump
                yield from repetitions(sub, before, order, flags)
            case ("SUBPATTERN", (*_, sub)) | ("ASSERT" | "ASSERT_NOT", (_, sub)):
                yield from repetitions(sub, before, order, flags)
            case "BRANCH", (_, branches):
                for branch in branches:
                    yield from repetitions(branch, before, order, flags)
            case _:
                pass
        before += sample([(kind, value)], order, groups, flags)


def slow_text(text: str, flags: int, ways: Iterable[str]) -> str:
    """Return the beginning of a text for which a pattern takes more than linear time; empty if none is found."""
    pattern = re.compile(text, flags)
    runs: list[Match] = [getattr(pattern, WAYS[way]) for way in ways if way in WAYS]
    if any(way not in WAYS for way in ways):
        runs.append(lambda subject: sum(1 for _ in pattern.finditer(subject)))
    parsed = PARSER.parse(text, flags)
    tried: set[tuple[str, str, str]] = set()
    for order in ORDERS:
        for before, pump in repetitions(parsed, "", order, pattern.flags):
            tried |= {(before, pump, end) for end in "\0<!"}
            tried |= {("", each, "\0") for each in (before + pump, before) if each}
    for before, pump, end in sorted(tried):
        for size in SIZES:
            whole, quarter = (before + pump * max(1, n // len(pump)) + end for n in (size, size // 4))
            if any(takes_long(run, whole, quarter) for run in runs):
                return whole[:60]
    return ""


def takes_long(run: Match, whole: str, quarter: str) -> bool:
    """Whether a text takes longer than the limit, and much more than its share: a busy machine is slow for each."""
    return (longest := seconds(run, whole)) >= LIMIT_SECONDS and longest > STEEPEST * seconds(run, quarter)


def seconds(run: Match, subject: str) -> float:
    """The CPU time of the first try within the limit, or of the shortest of three."""
    least = math.inf
    for _ in range(3):
        began = time.process_time()
        run(subject)
        least = min(least, time.process_time() - began)
        if least < LIMIT_SECONDS:
            break
    return least


USE = re.compile(r"(?<!\w)(\w+)\.(match|fullmatch|search|sub|subn|split|findall|finditer)\b")


def patterns_in(
    tree: ast.Module, names: Names, used: Mapping[str, set[str]]
) -> Iterator[tuple[int, str, int, set[str]]]:
    """Yield line, text, flags and uses of the patterns of a module."""
    nodes = list(ast.walk(tree))
    compiled = {value: name for name, value in names_in(nodes).items()}
    for node in nodes:
        if isinstance(node, ast.Call) and is_call_of_re(node) and node.args:
            text = text_of(node.args[0], {**names, **names_in(nodes)})
            function = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            ways = used.get(compiled.get(node, ""), set()) if function == "compile" else {function}
            flags = sum({getattr(re, each) for each in re.findall(r"\bre\.([A-Z]+)\b", ast.unparse(node))})
            if text is not None:
                yield node.lineno, text, flags, ways or {"search"}


def test_every_pattern_takes_linear_time() -> None:
    trees: dict[Path, ast.Module] = {}
    names: dict[str, ast.expr] = {}
    used: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if re.search(r"\bre\b", text):
            trees[path] = ast.parse(text)
            names |= names_in(trees[path].body)
        for name, way in USE.findall(text):
            used.setdefault(name, set()).add(way)
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text!r} is slow for {slow!r}"
        for path, tree in sorted(trees.items())
        for line, text, flags, ways in patterns_in(tree, names, used)
        if (slow := slow_text(text, flags, ways))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "flags", "way", "slow"),
    [
        (r"<venue>(.*?)</venue>", re.DOTALL, "findall", True),
        (r"<\?[^>]*>", 0, "search", True),
        (r"<x>\s*([^<]*?)\s*</x>", 0, "search", True),
        (r"\s*\n\s*x", 0, "fullmatch", True),
        (r"[a-z]+=", 0, "search", True),
        (r"[a-z]+=", 0, "match", False),
        (r"(a|b+)+c", 0, "match", True),
        (r"<(\w+)>([^<]*)</\1>", 0, "findall", False),
        (r"(?<!\d)\d+x", 0, "search", False),
    ],
)
def test_what_is_slow_is_found(text: str, flags: int, way: str, slow: bool) -> None:
    assert bool(slow_text(text, flags, {way})) is slow
