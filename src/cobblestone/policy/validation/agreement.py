"""Whether the outputs of two results agree, by the app's comparison rule, and whether outputs are usable at all.

Kinds of rules: ``bitwise`` (all bytes equal; the gzip wrapper is no part of the answer), ``numeric`` (see
`cobblestone.policy.validation.numeric`), ``trivial`` (everything agrees) and ``python`` (the project's own
function, which a validator process runs: not here).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

from cobblestone.domain.apps import ComparisonRule
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.work import OutputSpec
from cobblestone.policy.validation.archives import GZIP_MAGIC, MalformedOutput, ReadLimits, gunzip
from cobblestone.policy.validation.documents import read_document
from cobblestone.policy.validation.numeric import (
    Tolerance,
    byte_differences,
    differences,
    missing_differences,
    nan_places,
)

MAX_REASONS = 3
"""Differences that a comparison reports; the search stops there."""

DEFAULT_LIMITS = ReadLimits()

Files = Mapping[str, bytes]
"""Outputs of a result, by the name under which the program writes them."""

_SYNTAX = "bitwise, trivial, numeric:rtol=1e-6,atol=0,nan_equal=false, or python:FILE.py:FUNCTION"
_KINDS = ("bitwise", "trivial", "numeric", "python")
_PYTHON = re.compile(r"([\w.-]+(?:/[\w.-]+)*\.py):([A-Za-z_]\w*)")
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What a comparison found."""

    match: bool
    reasons: tuple[
        Reason, ...
    ] = ()  #: where the outputs differ, at most `MAX_REASONS`; empty when they match


def parse_comparison(text: str) -> ComparisonRule:
    """Read a comparison rule: ``bitwise``, ``trivial``, ``numeric:rtol=1e-6,atol=0`` or ``python:FILE.py:FUNCTION``.

    Defaults of ``numeric`` are rtol=1e-6, atol=0, nan_equal=false.

    Raises:
        ConfigError: the text is no such rule; says what is wrong and what is possible.

    """
    kind, _, rest = text.strip().partition(":")
    kind, rest = kind.strip(), rest.strip()
    if kind not in _KINDS:
        close = get_close_matches(kind, _KINDS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"use {_SYNTAX}"
        raise ConfigError(f"unknown comparison {kind!r}; {hint}")
    if kind == "numeric":
        return ComparisonRule(kind=kind, options=_numeric_options(rest))
    if kind == "python":
        return ComparisonRule(kind=kind, options={"function": _function(rest)})
    if rest:
        raise ConfigError(f"comparison {kind} takes no options, but got {rest!r}")
    return ComparisonRule(kind=kind)


def format_comparison(rule: ComparisonRule) -> str:
    """Write a rule so that `parse_comparison` reads it back."""
    if rule.kind == "python":
        return f"python:{rule.options['function']}"
    if rule.kind == "numeric":
        tolerance = tolerance_of(rule)
        nan = ",nan_equal=true" if tolerance.nan_equal else ""
        return f"numeric:rtol={tolerance.rtol!r},atol={tolerance.atol!r}{nan}"
    return rule.kind


def tolerance_of(rule: ComparisonRule) -> Tolerance:
    """Tolerance of a numeric rule.

    Raises:
        ConfigError: an option has an impossible value.

    """
    given = ",".join(f"{name}={value}" for name, value in rule.options.items())
    options = _numeric_options(given)
    return Tolerance(
        rtol=float(options["rtol"]), atol=float(options["atol"]), nan_equal=bool(options["nan_equal"])
    )


def compare(rule: ComparisonRule, a: Files, b: Files, *, limits: ReadLimits = DEFAULT_LIMITS) -> Agreement:
    """Compare the outputs of two results.

    Raises:
        ConfigError: the rule is unknown, or ``python`` (which a validator process runs).

    """
    match rule.kind:
        case "trivial":
            return Agreement(match=True)
        case "bitwise":
            found = _in_files(a, b, lambda x, y, name: _bitwise(x, y, name, limits))
        case "numeric":
            tolerance = tolerance_of(rule)
            found = _in_files(a, b, lambda x, y, name: _numeric(x, y, name, tolerance, limits))
        case "python":
            raise ConfigError("a python comparison is run by the validator, not here")
        case _:
            raise ConfigError(f"unknown comparison {rule.kind!r}; use {_SYNTAX}")
    reasons = tuple(islice(found, MAX_REASONS))
    return Agreement(match=not reasons, reasons=reasons)


def usable(
    rule: ComparisonRule,
    files: Files,
    specs: Sequence[OutputSpec],
    *,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Reason | None:
    """Say why the outputs of a result cannot be compared with others; None when they can.

    Missing or too large outputs, and for ``numeric`` also malformed ones and NaN where it is not allowed.
    """
    for spec in specs:
        content = files.get(spec.open_name)
        if content is None:
            if not spec.optional:
                return reason("output_missing", "{file} is missing", file=spec.open_name)
        elif len(content) > spec.max_nbytes:
            return reason(
                "output_too_large",
                "{file} has {nbytes} bytes; {max_nbytes} are allowed",
                file=spec.open_name,
                nbytes=len(content),
                max_nbytes=spec.max_nbytes,
            )
    if rule.kind != "numeric":
        return None
    nan_equal = tolerance_of(rule).nan_equal
    for name, content in files.items():
        try:
            document = read_document(name, content, limits)
        except MalformedOutput as error:
            return _malformed(name, error)
        if not nan_equal:
            for found in nan_places(document, name):
                return found
    return None


def _in_files(
    a: Files, b: Files, compare_one: Callable[[bytes, bytes, str], Iterator[Reason]]
) -> Iterator[Reason]:
    yield from missing_differences(a, b, "output", "outputs")
    for name in a:
        if name in b:
            yield from compare_one(a[name], b[name], name)


def _bitwise(a: bytes, b: bytes, name: str, limits: ReadLimits) -> Iterator[Reason]:
    if a != b and a.startswith(GZIP_MAGIC) and b.startswith(GZIP_MAGIC):
        try:
            a, b = gunzip(a, limits), gunzip(b, limits)
        except MalformedOutput as error:
            yield _malformed(name, error)
            return
    yield from byte_differences(a, b, name)


def _numeric(a: bytes, b: bytes, name: str, tolerance: Tolerance, limits: ReadLimits) -> Iterator[Reason]:
    try:
        documents = read_document(name, a, limits), read_document(name, b, limits)
    except MalformedOutput as error:
        yield _malformed(name, error)
        return
    yield from differences(*documents, tolerance, name)


def _malformed(name: str, error: MalformedOutput) -> Reason:
    return reason("output_malformed", "{file}: {problem}", file=name, problem=str(error))


def _numeric_options(text: str) -> dict[str, str | float]:
    options: dict[str, str | float] = {"rtol": 1e-6, "atol": 0.0, "nan_equal": False}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if name not in options or not equals:
            close = get_close_matches(name, options, n=1)
            hint = f"did you mean {close[0]}=…?" if close else f"use {_SYNTAX}"
            raise ConfigError(f"numeric comparison: {part!r} is no option; {hint}")
        options[name] = _truth(value) if name == "nan_equal" else _bound(name, value)
    return options


def _truth(value: str) -> bool:
    if value.lower() not in _TRUTH:
        raise ConfigError(f"numeric comparison: nan_equal is true or false, not {value!r}")
    return _TRUTH[value.lower()]


def _bound(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise ConfigError(
            f"numeric comparison: {name} must be a number such as 1e-6, not {value!r}"
        ) from None
    if not math.isfinite(number) or number < 0:
        raise ConfigError(f"numeric comparison: {name} must be zero or positive, not {value}")
    if name == "rtol" and number >= 1:
        raise ConfigError(f"numeric comparison: rtol is relative and must be below 1, not {value}")
    return number


def _function(text: str) -> str:
    if _PYTHON.fullmatch(text) is None or ".." in text:
        raise ConfigError(
            f"python comparison: {text!r} must name a file in the project's folder and a function, "
            "for example python:validate.py:compare"
        )
    return text
