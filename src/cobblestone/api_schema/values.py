"""Common parts of requests and replies: bounds of single values, the form of errors, and descriptions of invalid values.

What is wrong with a JSON value that a struct does not allow, in words: which member, its value, and what is allowed.

msgspec says what it expected and where, as a path such as ``$.jobs[3].priority``, but neither the value nor all that would
be allowed: these are looked up in the value and in the struct.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, cast

import msgspec
from msgspec import inspect

#: What all paths of the API begin with, below the project's address.
PREFIX = "/api/v1"
#: Ids beyond this are none: JSON numbers are exact up to here.
MAX_ID = 2**53


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A JSON object of a request: unknown members are rejected."""


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters after the ``?`` of an address: unknown ones are rejected."""


class Reply(msgspec.Struct, frozen=True):
    """A JSON object of a reply: later versions may add members."""


# Texts are bounded, and hold no control characters: they end up in log lines, XML and file names.
Line = Annotated[str, msgspec.Meta(max_length=200, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]
FilledLine = Annotated[Line, msgspec.Meta(min_length=1)]
Text = Annotated[
    str, msgspec.Meta(min_length=1, max_length=20_000, pattern=r"\A[^\x00-\x08\x0b-\x1f\x7f]*\Z")
]
FileName = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"\A[A-Za-z0-9_\-.~]+\Z")]
Id = Annotated[int, msgspec.Meta(ge=1, le=MAX_ID)]
#: Where a part of a list begins: 0, or the id of the last one before.
Position = Annotated[int, msgspec.Meta(ge=0, le=MAX_ID)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Part = Annotated[float, msgspec.Meta(gt=0, le=1)]


class PageQuery(Query, frozen=True):
    """A page of a long list, newest first."""

    before: Position | None = None  #: only smaller ids
    limit: Limit = 100


class Problem(Reply, frozen=True, kw_only=True):
    """An error."""

    code: str  #: stable, for programs
    message: str  #: what and where, for people
    hint: str = ""  #: what to do
    member: str = ""  #: of the body or query that is wrong, as the message names it


class ErrorReply(Reply, frozen=True, kw_only=True):
    """The body of every answer with a status from 400 up."""

    error: Problem


SHOWN = 60  # characters of a value

_AT = re.compile(r" - at (?:`key` in )?`(\$[^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[(\.\.\.)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")


class Fault(NamedTuple):
    """The fault in a value."""

    member: str  #: such as ``limits.delay_bound``; empty: the whole
    message: str  #: a sentence that names the member in backquotes

    def __str__(self) -> str:
        return self.message


def find_fault(error: msgspec.ValidationError, given: object, kind: Any) -> Fault:
    """Explain an error of msgspec about ``given``, a value as JSON decodes it, that should become a ``kind``."""
    text = str(error)
    place = _AT.search(text)
    problem = text[: place.start()] if place else text
    node: inspect.Type | None = inspect.type_info(kind)
    steps = _steps(place.group(1)) if place else []
    where = ""
    value: object = given
    if isinstance(given, Mapping) and steps[:1] == ["jobs"] and len(steps) > 1 and isinstance(steps[1], int):
        first = cast("Mapping[str, object]", given).get("first", 0)
        where = f"Job {steps[1] + (first if isinstance(first, int) else 0)}: "
    for step in steps:
        node, value = _below(node, step), _part(value, step)
    member = _name(steps[2:] if where else steps)
    if (found := _UNKNOWN.match(problem)) is not None:
        whole = f"`{member}`" if member else "This"
        return Fault(member, f"{where}{whole} has no `{found[1][:SHOWN]}`; it can have: {_members(node)}.")
    if (found := _MISSING.match(problem)) is not None:
        lacking = _name([*steps[2 if where else 0 :], found[1]])
        return Fault(lacking, f"{where}`{lacking}` is missing.")
    if text.startswith(" - at `key` in ", len(problem)):
        keys = [each.key_type for each in _choices(node) if isinstance(each, inspect.DictType)]
        return Fault(member, f"{where}Each name in `{member}` must be {_allowed(next(iter(keys), None))}.")
    allowed = _allowed(node)
    shown = "" if steps[-1:] == ["…"] else f" is {_shown(value)}; it"
    subject = f"A value in `{member}`" if steps[-1:] == ["…"] else f"`{member}`" if member else "The whole"
    return Fault(member, f"{where}{subject}{shown} must be {allowed}.")


def find_json_fault(error: msgspec.ValidationError, text: bytes, kind: Any) -> Fault:
    """Explain an error of msgspec about a JSON text, which may also be malformed after the place of the error."""
    try:
        given: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Fault("", "It is not valid JSON.")
    return find_fault(error, given, kind)


def _steps(path: str) -> list[str | int]:
    return [
        name or (int(number) if number else "…") for name, number, _ in _STEP.findall(path.removeprefix("$"))
    ]


def _name(steps: Sequence[str | int]) -> str:
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step != "…":
            text += f".{step}" if text else step
    return text


def _part(value: object, step: str | int) -> object:
    if isinstance(value, Mapping) and isinstance(step, str):
        return cast("Mapping[str, object]", value).get(step)
    if isinstance(value, list | tuple) and isinstance(step, int) and step < len(cast("list[object]", value)):
        return cast("list[object]", value)[step]
    return None


def _below(node: inspect.Type | None, step: str | int) -> inspect.Type | None:
    for each in _choices(node):
        if isinstance(each, inspect.StructType | inspect.DataclassType):
            for field in each.fields:
                if field.encode_name == step:
                    return field.type
        elif isinstance(each, inspect.ListType) and isinstance(step, int):
            return each.item_type
        elif isinstance(each, inspect.DictType) and isinstance(step, str):
            return each.value_type
    return None


def _choices(node: inspect.Type | None) -> list[inspect.Type]:
    """Return the allowed kinds of a value, without null."""
    if isinstance(node, inspect.Metadata):
        return _choices(node.type)
    if isinstance(node, inspect.UnionType):
        return [kind for each in node.types for kind in _choices(each)]
    return [] if node is None or isinstance(node, inspect.NoneType) else [node]


def _members(node: inspect.Type | None) -> str:
    for each in _choices(node):
        if isinstance(each, inspect.StructType | inspect.DataclassType):
            return ", ".join(field.encode_name for field in each.fields)
    return "other names"


def _allowed(node: inspect.Type | None) -> str:
    return " or ".join(_kind(each) for each in _choices(node)) or "something else"


def _kind(node: inspect.Type) -> str:
    match node:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"a whole number{_range(node)}"
        case inspect.FloatType():
            return f"a number{_range(node)}"
        case inspect.StrType():
            return _text(node)
        case inspect.LiteralType():
            return f"one of {', '.join(map(str, node.values))}"
        case inspect.EnumType():
            return f"one of {', '.join(str(each.value) for each in node.cls)}"
        case inspect.ListType() | inspect.VarTupleType():
            length = _length(node.min_length, node.max_length, "entries")
            return f"a list{length}"
        case inspect.DictType() | inspect.StructType() | inspect.DataclassType():
            return "an object with names and values"
        case _:
            return "something else"


def _range(node: inspect.IntType | inspect.FloatType) -> str:
    low, high = node.ge, node.le
    if low is not None and high is not None:
        return f" from {low:,.10g} to {high:,.10g}"
    parts = [
        f"{word} {bound:,.10g}"
        for word, bound in (("above", node.gt), ("at least", low), ("below", node.lt), ("at most", high))
        if bound is not None
    ]
    return f" {' and '.join(parts)}" if parts else ""


def _text(node: inspect.StrType) -> str:
    length = _length(node.min_length, node.max_length, "characters")
    pattern = node.pattern or ""
    if pattern.startswith(r"\A[^"):
        outside = "line breaks and control characters" if "\\x1f" in pattern else "NUL"
        return f"a text{length} without {outside}" + (" and without / and \\" if "/" in pattern else "")
    if pattern:
        return (
            f"a text{length} that matches {pattern.removeprefix(chr(92) + 'A').removesuffix(chr(92) + 'Z')}"
        )
    return f"a text{length}"


def _length(least: int | None, most: int | None, what: str) -> str:
    if most is None:
        return f" of at least {least} {what}" if least else ""
    return f" of {least} to {most} {what}" if least else f" of at most {most} {what}"


def _shown(value: object) -> str:
    """Return a value for use in a sentence: short ones whole, for long texts and lists the length."""
    if isinstance(value, str) and len(value) > SHOWN:
        return f"{value[:SHOWN]!r}… ({len(value)} characters)"
    if isinstance(value, list):
        return f"a list of {len(cast('list[object]', value))} entries"
    if isinstance(value, Mapping):
        return "an object"
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value).lower() if isinstance(value, bool) else repr(value)[:SHOWN]
