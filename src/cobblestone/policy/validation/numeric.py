"""Comparison of documents with a numeric tolerance, saying where they differ and by how much.

JSON is compared by structure, tables cell by cell, text token by token, arrays element by element.  Two
numbers agree when ``|a - b| <= atol + rtol * max(|a|, |b|)``, which does not depend on their order (NumPy's
``isclose`` does).  It holds for integers too, computed exactly.  Infinities agree with themselves, NaN with
NaN only if the rule says so.  Everything that is not a number must be equal.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import TypeGuard, TypeVar, cast

from cobblestone.domain.reasons import Reason, phrase, reason
from cobblestone.policy.validation.documents import (
    ArchiveDocument,
    ArrayDocument,
    BinaryDocument,
    Document,
    Json,
    JsonDocument,
    RecordsDocument,
    TableDocument,
    TextDocument,
)

_Item = TypeVar("_Item")

#: A name or value of the outputs as it is, or words about it.
Words = str | Reason

#: Integers up to this are exact as floats.
EXACT = 2**53

#: Characters of a value that a reason shows.
SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """The tolerated difference of two numbers."""

    rtol: float = 1e-6
    atol: float = 0.0
    nan_equal: bool = False

    def agree(self, a: complex, b: complex) -> bool:
        """Return whether two numbers agree."""
        if a == b:
            return True
        # The usual case, quickly: if this holds, the full rule does.  Two infinities are not below each other.
        if type(a) is float and type(b) is float and abs(a - b) < self.atol + self.rtol * abs(a):
            return True
        if a != a or b != b:
            return self.nan_equal and a != a and b != b
        if isinstance(a, int) and isinstance(b, int) and max(abs(a), abs(b)) > EXACT:
            return abs(a - b) <= Fraction(self.atol) + Fraction(self.rtol) * max(abs(a), abs(b))
        try:
            scale = max(abs(a), abs(b))
            # An infinite scale would allow any difference: infinities agree only when they are equal.
            return not math.isinf(scale) and abs(a - b) <= self.atol + self.rtol * scale
        except OverflowError:  # an integer or a modulus beyond the floats
            return False


def differences(a: Document, b: Document, tolerance: Tolerance, where: Words = "") -> Iterator[Reason]:
    """Say where two documents differ, one reason for each place; ``where`` names the file."""
    match a, b:
        case JsonDocument(), JsonDocument():
            yield from _json_differences(a.value, b.value, tolerance, where, None)
        case TableDocument(), TableDocument():
            yield from _table_differences(a, b, tolerance, where)
        case TextDocument(), TextDocument():
            yield from _text_differences(a, b, tolerance, where)
        case ArrayDocument(), ArrayDocument():
            yield from _array_differences(a, b, tolerance, where)
        case RecordsDocument(), RecordsDocument():
            yield from _named_differences(
                a.fields,
                b.fields,
                phrase("field"),
                where,
                lambda x, y, at: _array_differences(x, y, tolerance, at),
            )
        case ArchiveDocument(), ArchiveDocument():
            yield from _named_differences(
                a.members, b.members, phrase("file"), where, lambda x, y, at: differences(x, y, tolerance, at)
            )
        case BinaryDocument(), BinaryDocument():
            yield from byte_differences(a.content, b.content, where)
        case _:
            yield reason(
                "formats_differ",
                "{file}: {first} and {second}",
                file=where,
                first=_FORMATS[type(a)],
                second=_FORMATS[type(b)],
            )


def nan_places(document: Document, where: Words) -> Iterator[Reason]:
    """Say where a document holds NaN: nothing agrees with it unless the rule allows it."""
    match document:
        case JsonDocument():
            places = (f"${path}" for path in _json_nans(document.value))
        case TableDocument():
            rows = zip(document.lines, document.rows, strict=True)
            places = (
                _line_and_column(line, i) for line, row in rows for i, cell in _counted(row) if _is_nan(cell)
            )
        case TextDocument():
            lines = _counted(document.lines)
            tokens = ((number, match) for number, line in lines for match in TOKEN.finditer(line))
            places = (_line_and_column(n, t.start() + 1) for n, t in tokens if _is_nan(t.group()))
        case ArrayDocument():
            values = document.values if document.kind == "number" else ()
            places = (_index(i, document.shape) for i, value in enumerate(values) if value != value)
        case RecordsDocument():
            for name, field in document.fields.items():
                yield from nan_places(field, _inside(where, phrase("field"), name))
            return
        case ArchiveDocument():
            for name, member in document.members.items():
                yield from nan_places(member, _inside(where, phrase("file"), name))
            return
        case BinaryDocument():
            return
    for place in places:
        yield reason(
            "not_a_number",
            "{file}: {place} is NaN, which agrees with nothing; if it is a valid answer, allow it "
            "with nan_equal=true",
            file=where,
            place=place,
        )


def byte_differences(a: bytes, b: bytes, where: Words) -> Iterator[Reason]:
    """Say whether two files differ, and from which byte on."""
    if a != b:
        yield reason(
            "bytes_differ",
            "{file}: {first} and {second} bytes, different from byte {offset} on",
            file=where,
            first=len(a),
            second=len(b),
            offset=_first_difference(a, b),
        )


def missing_differences(
    a: Mapping[str, object], b: Mapping[str, object], what: Reason, where: Words
) -> Iterator[Reason]:
    """Say which names are in one of two mappings only."""
    for name in sorted(a.keys() ^ b.keys()):
        if name in a:
            yield reason(
                "only_in_one",
                "{file}: {what} {name} is only in the first",
                file=where,
                what=what,
                name=_shown(name),
            )
        else:
            yield reason(
                "only_in_one",
                "{file}: {what} {name} is only in the second",
                file=where,
                what=what,
                name=_shown(name),
            )


def _first_difference(a: bytes, b: bytes) -> int:
    """Offset of the first byte that differs; by halves, since most of a file is usually the same."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


# ------------------------------------------------------------------------------------------------- reasons


def _shown(value: object) -> Words:
    if isinstance(value, Reason):
        return value
    return _spelled(value if isinstance(value, str) else repr(value))


def _spelled(text: str) -> str:
    """Return a text that can be shown and stored: truncated, with invisible characters spelled out (``\\x1b``, ``\\ud800``)."""
    cut = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in cut)


def _line_and_column(line: int, column: int, name: str = "") -> Reason:
    return phrase("line {line}, column {column}{name}", line=line, column=column, name=name)


def _inside(where: Words, what: Reason, name: str) -> Reason:
    return phrase("{file}, {what} {name}", file=where, what=what, name=_shown(name))


def _values_differ(where: Words, place: Words, a: object, b: object) -> Reason:
    return reason(
        "values_differ",
        "{file}: {place}: {first} and {second}",
        file=where,
        place=place,
        first=_shown(a),
        second=_shown(b),
    )


def _numbers_differ(where: Words, place: Words, a: complex, b: complex, tolerance: Tolerance) -> Reason:
    return reason(
        "numbers_differ",
        "{file}: {place}: {first} and {second} differ by {difference} (rtol {rtol}, atol {atol})",
        file=where,
        place=place,
        first=_shown(a),
        second=_shown(b),
        difference=_difference(a, b),
        rtol=tolerance.rtol,
        atol=tolerance.atol,
    )


def _difference(a: complex, b: complex) -> Words:
    """Difference of two numbers in words: absolute, and relative to the larger one."""
    try:
        absolute, scale = abs(a - b), max(abs(a), abs(b))
        written = f"{absolute:.3g}"
        if not scale:
            return written
        relative = f"{absolute / scale:.3g}"
        return phrase("{absolute} (relative {relative})", absolute=written, relative=relative)
    except OverflowError:
        return phrase("too large for a floating-point number")


def _sizes_differ(where: Words, place: Words, what: Reason, a: int, b: int) -> Reason:
    return reason(
        "sizes_differ",
        "{file}: {place} has {first} and {second} {what}",
        file=where,
        place=place,
        first=a,
        second=b,
        what=what,
    )


_FORMATS: Mapping[type[Document], Words] = {
    JsonDocument: "JSON",
    TableDocument: phrase("a table"),
    TextDocument: phrase("text"),
    ArrayDocument: phrase("an array"),
    RecordsDocument: phrase("records"),
    ArchiveDocument: phrase("an archive"),
    BinaryDocument: phrase("binary data"),
}


# ---------------------------------------------------------------------------------------------------- JSON


#: Where a JSON value is: the place of its container, and its key there; written out only for a reason that someone reads.
_Place = tuple["_Place", str | int] | None


def _json_differences(
    a: Json, b: Json, tolerance: Tolerance, where: Words, place: _Place
) -> Iterator[Reason]:
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            yield from missing_differences(
                a, b, phrase("member"), phrase("{file}: {place}", file=where, place=_path(place))
            )
        for key in a:
            if key in b and not _leaves_agree(a[key], b[key], tolerance):
                yield from _json_differences(a[key], b[key], tolerance, where, (place, key))
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield _sizes_differ(where, _path(place), phrase("elements"), len(a), len(b))
        for i, (x, y) in enumerate(zip(a, b, strict=False)):
            if not _leaves_agree(x, y, tolerance):
                yield from _json_differences(x, y, tolerance, where, (place, i))
    elif _is_number(a) and _is_number(b):
        if not tolerance.agree(a, b):
            yield _numbers_differ(where, _path(place), a, b, tolerance)
    elif type(a) is not type(b) or a != b:
        yield _values_differ(where, _path(place), _kind_or_value(a), _kind_or_value(b))


def _path(place: _Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, key = place
        steps.append(_step(key))
    return "$" + "".join(reversed(steps))


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{_spelled(key)}" if key.isidentifier() else f"[{_spelled(json.dumps(key, ensure_ascii=False))}]"


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _leaves_agree(a: Json, b: Json, tolerance: Tolerance) -> bool:
    """Return whether two JSON values are leaves that agree; False for lists and objects, which must be walked."""
    if type(a) is float and type(b) is float:
        return tolerance.agree(a, b)
    if _is_number(a) and _is_number(b):
        return tolerance.agree(a, b)
    return type(a) is type(b) and not isinstance(a, dict | list) and a == b


def _kind_or_value(value: Json) -> Words:
    if isinstance(value, dict):
        return phrase("an object with {n} {n:member|members}", n=len(value))
    if isinstance(value, list):
        return phrase("a list of {n}", n=len(value))
    return json.dumps(value, ensure_ascii=False)


def _json_nans(value: Json) -> Iterator[str]:
    """Paths of the NaN below a value, seen from there."""
    if isinstance(value, float):
        if math.isnan(value):
            yield ""
        return
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        if isinstance(child, dict | list | float):
            for path in _json_nans(child):
                yield _step(key) + path


# ------------------------------------------------------------------------------------------ tables and text

_NAN = frozenset({"nan", "NaN", "NAN"})
# Time grows with the length alone: what follows a run of digits is neither a digit nor anything that may follow a part of the
# run, so each shorter run is given up after one character, and a word is read twice at most.
# (Possessive quantifiers would say so themselves, but Python before 3.11.5 gets them wrong: it takes "3e" for a number.)
_PLAIN = r"(?:\d+(?:\.\d*|)|\.\d+)(?:[eEdD][+-]?\d+|)"
_SPECIAL = "nan|NaN|NAN|inf|Inf|INF|infinity|Infinity"
_NUMBER = re.compile(rf"[+-]?(?:{_PLAIN}|{_SPECIAL})", re.ASCII)
# A number stands alone: digits inside a word, such as those of chr12 or 1.2.3, belong to the word.
#: What lines of text are made of: numbers, words and other characters.
TOKEN = re.compile(rf"(?<![\w.]){_NUMBER.pattern}(?![\w.])|\w[\w.]*|\S")
_LONGEST_INTEGER = 1000


def _counted(items: Sequence[_Item]) -> Iterator[tuple[int, _Item]]:
    """Items with their numbers, from 1 on, as people count lines and columns."""
    return enumerate(items, start=1)


def as_number(text: str) -> int | float | None:
    """Value of a cell or token, if it is a number; Fortran's exponent letter D is understood."""
    if _NUMBER.fullmatch(text) is None:
        return None
    if len(text) < _LONGEST_INTEGER and text.lstrip("+-").isdecimal():
        return int(text)
    if "n" in text.lower():
        return float(text)
    value = float(text.lower().replace("d", "e"))
    return None if math.isinf(value) else value  # beyond the floats, only the same digits agree


def _is_nan(text: str) -> bool:
    return text.lstrip("+-") in _NAN


def _words_agree(a: str, b: str, tolerance: Tolerance) -> bool:
    """Return whether two cells or tokens agree: as numbers if both are, else as text."""
    if a == b and not _is_nan(a):
        return True
    x, y = as_number(a), as_number(b)
    return x is not None and y is not None and tolerance.agree(x, y)


def _word_difference(where: Words, place: Words, a: str, b: str, tolerance: Tolerance) -> Reason:
    x, y = as_number(a), as_number(b)
    if x is None or y is None:
        return _values_differ(where, place, repr(a), repr(b))
    return _numbers_differ(where, place, x, y, tolerance)


def _table_differences(
    a: TableDocument, b: TableDocument, tolerance: Tolerance, where: Words
) -> Iterator[Reason]:
    if len(a.rows) != len(b.rows):
        yield _sizes_differ(where, phrase("the table"), phrase("rows"), len(a.rows), len(b.rows))
    names = a.rows[0] if a.rows and not any(map(_is_number_or_empty, a.rows[0])) else []
    for line, x, y in zip(a.lines, a.rows, b.rows, strict=False):
        if len(x) != len(y):
            yield _sizes_differ(where, phrase("line {line}", line=line), phrase("columns"), len(x), len(y))
        for i, (cell, other) in enumerate(zip(x, y, strict=False)):
            if not _words_agree(cell, other, tolerance):
                name = f" ({_shown(names[i])})" if i < len(names) else ""
                yield _word_difference(where, _line_and_column(line, i + 1, name), cell, other, tolerance)


def _is_number_or_empty(cell: str) -> bool:
    return not cell or as_number(cell) is not None


def _text_differences(
    a: TextDocument, b: TextDocument, tolerance: Tolerance, where: Words
) -> Iterator[Reason]:
    if len(a.lines) != len(b.lines):
        yield _sizes_differ(where, phrase("the text"), phrase("lines"), len(a.lines), len(b.lines))
    for number, (x, y) in _counted(list(zip(a.lines, b.lines, strict=False))):
        if x != y or "nan" in x.lower():
            yield from _line_differences(x, y, tolerance, where, number)


def _line_differences(a: str, b: str, tolerance: Tolerance, where: Words, number: int) -> Iterator[Reason]:
    for x, y in zip_longest(TOKEN.finditer(a), TOKEN.finditer(b)):
        present = x or y  # the other one is missing: its line has ended
        if present is None:
            return
        place = _line_and_column(number, present.start() + 1)
        if x is None or y is None:
            first, second = (phrase("the line ends") if each is None else each.group() for each in (x, y))
            yield _values_differ(where, place, first, second)
            return
        if not _words_agree(x.group(), y.group(), tolerance):
            yield _word_difference(where, place, x.group(), y.group(), tolerance)


# -------------------------------------------------------------------------------------- arrays and archives


def _array_differences(
    a: ArrayDocument, b: ArrayDocument, tolerance: Tolerance, where: Words
) -> Iterator[Reason]:
    if a.shape != b.shape:
        yield _values_differ(where, "shape", a.shape, b.shape)
    elif a.kind != b.kind:
        yield _values_differ(where, "dtype", a.kind, b.kind)
    elif isinstance(a.values, bytes) and isinstance(b.values, bytes):
        yield from byte_differences(a.values, b.values, where)
    elif a.kind == "number":
        numbers = zip(cast("Sequence[complex]", a.values), cast("Sequence[complex]", b.values), strict=True)
        for i, (x, y) in enumerate(numbers):
            if x != y and not tolerance.agree(x, y):
                yield _numbers_differ(where, _index(i, a.shape), x, y, tolerance)
    else:
        for i, (x, y) in enumerate(zip(a.values, b.values, strict=True)):
            if x != y:
                yield _values_differ(where, _index(i, a.shape), x, y)


def _index(flat: int, shape: tuple[int, ...]) -> str:
    """Index of the ``flat``-th element in C order, as Python writes it."""
    parts: list[int] = []
    for size in reversed(shape):
        flat, part = divmod(flat, size)
        parts.append(part)
    return f"[{', '.join(map(str, reversed(parts)))}]"


def _named_differences(
    a: Mapping[str, _Item],
    b: Mapping[str, _Item],
    what: Reason,
    where: Words,
    compare: Callable[[_Item, _Item, Words], Iterator[Reason]],
) -> Iterator[Reason]:
    yield from missing_differences(a, b, what, where)
    for name in a:
        if name in b:
            yield from compare(a[name], b[name], _inside(where, what, name))
