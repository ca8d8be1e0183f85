"""Comparison rules: the interface of a kind, the kinds that there are, and whether the outputs of two results agree.

The interface of a kind of comparison rule, and what kinds share.

A kind is registered once (`cobblestone.policy.validation.comparison`, or the entry point group
``cobblestone.comparisons`` of an installed package); the API, the command line, the validator and its quick way by checksum know
it from there.

Whether the outputs of two results agree, by the app's comparison rule, and whether outputs are usable at all.

What a rule means is said by its kind, see `cobblestone.policy.validation.comparison`.  Callers that know more kinds than the
built-in ones hand them over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Protocol

from cobblestone.domain.apps import ComparisonRule
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.reasons import Reason, phrase, reason
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

#: Outputs of a result, by the name under which the program writes them.
Files = Mapping[str, bytes]

#: What a rule says beyond its kind, as the database keeps it.
Options = Mapping[str, str | float]

#: Characters of what is wrong with an output, which may quote it.
MAX_PROBLEM = 500

#: Place among the outputs, size in bytes and MD5 of each output of a result.
Checksums = Sequence[tuple[int, int, str]]


class ComparisonKind(Protocol):
    """A way to say whether the outputs of two results agree.  Implementations keep no state.

    What they raise says nothing about the outputs: no one is judged, and the operator hears of it.  A kind that derives from it
    has no options and reads every output, unless it says otherwise.
    """

    name: str = ""
    """Word before the colon of a rule."""
    syntax: str
    """The syntax of a rule of this kind, for error messages."""

    def parse(self, text: str) -> dict[str, str | float]:
        """Read what follows the colon, defaults filled in.

        Raises:
            ConfigError: it makes no sense; says what is possible.
        """
        if text:
            raise ConfigError(f"comparison {self.name} takes no options, but got {text!r}")
        return {}

    def agree_by_checksum(self, a: Checksums, b: Checksums) -> bool:
        """Return whether these outputs agree in any case; False: they must be read."""
        return False

    def project_function(self, options: Options) -> str:
        """``FILE.py:function`` of the project that compares instead; empty: the kind does so itself."""
        return ""

    def refusal(self, options: Options, files: Files, limits: ReadLimits) -> Reason | None:
        """Say why outputs, all of them there, cannot be compared with others; None when they can."""

    def differences(self, options: Options, a: Files, b: Files, limits: ReadLimits) -> Iterator[Reason]:
        """Say where the outputs of two results differ, a reason for each place; none: they agree."""
        ...


#: The name by which packages with kinds of their own derive from it.
ReadsOutputs = ComparisonKind


def differences_of_files(
    a: Files, b: Files, compare_one: Callable[[bytes, bytes, str], Iterator[Reason]]
) -> Iterator[Reason]:
    """Compare outputs of the same name; those that one result lacks differ.  ``compare_one`` takes two contents and a name."""
    yield from missing_differences(a, b, phrase("output"), phrase("outputs"))
    for name in a:
        if name in b:
            try:
                yield from compare_one(a[name], b[name], name)
            except MalformedOutput as error:
                yield malformed(name, error)


def malformed(name: str, error: MalformedOutput) -> Reason:
    """Return an output that cannot be read."""
    whole = len(str(error)) <= MAX_PROBLEM
    problem = error.why if whole else str(error)[:MAX_PROBLEM]
    return reason("output_malformed", "{file}: {problem}", file=name, problem=problem)


class Bitwise(ComparisonKind):
    """Bytes."""

    name = "bitwise"
    syntax = "bitwise"

    def agree_by_checksum(self, a: Checksums, b: Checksums) -> bool:
        """Equal sums are equal bytes; other bytes may still be equal once unpacked."""
        return a == b

    def differences(self, options: Options, a: Files, b: Files, limits: ReadLimits) -> Iterator[Reason]:
        """First differing byte of each output."""

        def compare_one(one: bytes, other: bytes, name: str) -> Iterator[Reason]:
            if one != other and one.startswith(GZIP_MAGIC) and other.startswith(GZIP_MAGIC):
                one, other = gunzip(one, limits), gunzip(other, limits)
            yield from byte_differences(one, other, name)

        return differences_of_files(a, b, compare_one)


_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def tolerance_of(options: Options) -> Tolerance:
    """Tolerance of a numeric rule, whose options may be texts.

    Raises:
        ConfigError: an option has an impossible value.
    """
    read = Numeric().parse(",".join(f"{name}={value}" for name, value in options.items()))
    return Tolerance(rtol=float(read["rtol"]), atol=float(read["atol"]), nan_equal=bool(read["nan_equal"]))


class Numeric(ComparisonKind):
    """Numbers within a tolerance, everything else exactly."""

    name = "numeric"
    syntax = "numeric:rtol=1e-6,atol=0,nan_equal=false"

    def parse(self, text: str) -> dict[str, str | float]:
        """Tolerances; defaults are rtol=1e-6, atol=0, nan_equal=false."""
        options: dict[str, str | float] = {"rtol": 1e-6, "atol": 0.0, "nan_equal": False}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, equals, value = (word.strip() for word in part.partition("="))
            if name not in options or not equals:
                close = get_close_matches(name, options, n=1)
                hint = f"did you mean {close[0]}=…?" if close else f"use {self.syntax}"
                raise ConfigError(f"numeric comparison: {part!r} is not an option; {hint}")
            options[name] = _truth(value) if name == "nan_equal" else _bound(name, value)
        return options

    def refusal(self, options: Options, files: Files, limits: ReadLimits) -> Reason | None:
        """Malformed outputs, and NaN where it is not allowed."""
        nan_equal = tolerance_of(options).nan_equal
        for name, content in files.items():
            try:
                document = read_document(name, content, limits)
            except MalformedOutput as error:
                return malformed(name, error)
            if not nan_equal:
                for found in nan_places(document, name):
                    return found
        return None

    def differences(self, options: Options, a: Files, b: Files, limits: ReadLimits) -> Iterator[Reason]:
        """Places where numbers are too far apart, or anything else differs."""
        tolerance = tolerance_of(options)

        def compare_one(one: bytes, other: bytes, name: str) -> Iterator[Reason]:
            documents = read_document(name, one, limits), read_document(name, other, limits)
            return differences(*documents, tolerance, name)

        return differences_of_files(a, b, compare_one)


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


_FUNCTION = re.compile(r"([\w.-]+(?:/[\w.-]+)*\.py):([A-Za-z_]\w*)")


class PythonFunction(ComparisonKind):
    """A function of the project."""

    name = "python"
    syntax = "python:FILE.py:FUNCTION"

    def parse(self, text: str) -> dict[str, str | float]:
        """File below the project's folder, and function; also as ``function=FILE.py:FUNCTION``."""
        text, *others = text.removeprefix("function=").split(",")
        if others:
            name = others[0].partition("=")[0].strip()
            raise ConfigError(f"python comparison: {name!r} is not an option; there is only the function")
        if _FUNCTION.fullmatch(text) is None or ".." in text:
            raise ConfigError(
                f"python comparison: {text!r} must name a file in the project's folder and a function, "
                "for example python:validate.py:compare"
            )
        return {"function": text}

    def project_function(self, options: Options) -> str:
        """Return the function that the rule names."""
        return str(options["function"])

    def differences(self, options: Options, a: Files, b: Files, limits: ReadLimits) -> Iterator[Reason]:
        """Refuse: policy runs no foreign code."""
        raise ConfigError("a python comparison is run by the validator, not here")


class Trivial(ComparisonKind):
    """Nothing is compared."""

    name = "trivial"
    syntax = "trivial"

    def agree_by_checksum(self, a: Checksums, b: Checksums) -> bool:
        """Return True: everything agrees."""
        return True

    def differences(self, options: Options, a: Files, b: Files, limits: ReadLimits) -> Iterator[Reason]:
        """None."""
        return iter(())


#: Group in which a package announces its own kind.
ENTRY_POINT_GROUP = "cobblestone.comparisons"


def _built_in() -> dict[str, ComparisonKind]:
    kinds: tuple[ComparisonKind, ...] = (Bitwise(), Trivial(), Numeric(), PythonFunction())
    return {kind.name: kind for kind in kinds}


#: The built-in kinds by name.
COMPARISON_KINDS: dict[str, ComparisonKind] = _built_in()


#: Differences that a comparison reports; the search stops there.
MAX_REASONS = 3

DEFAULT_LIMITS = ReadLimits()

Kinds = Mapping[str, ComparisonKind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The result of a comparison."""

    match: bool
    #: where the outputs differ, at most `MAX_REASONS`; empty when they match
    reasons: tuple[Reason, ...] = ()


def kind_named(name: str, kinds: Kinds = COMPARISON_KINDS) -> ComparisonKind:
    """Return the kind of this name.

    Raises:
        ConfigError: there is none; says which there are.
    """
    kind = kinds.get(name)
    if kind is not None:
        return kind
    close = get_close_matches(name, kinds, n=1)
    *others, last = (each.syntax for each in kinds.values())
    hint = f"did you mean {close[0]}?" if close else f"use {', '.join(others)}, or {last}"
    raise ConfigError(f"unknown comparison {name!r}; {hint}")


def parse_comparison(text: str, kinds: Kinds = COMPARISON_KINDS) -> ComparisonRule:
    """Read a comparison rule: the name of a kind, and after a colon its options.

    Raises:
        ConfigError: the text is no such rule; says what is wrong and what is possible.

    """
    name, _, rest = text.strip().partition(":")
    kind = kind_named(name.strip(), kinds)
    return ComparisonRule(kind=kind.name, options=kind.parse(rest.strip()))


def compare(
    rule: ComparisonRule,
    a: Files,
    b: Files,
    *,
    limits: ReadLimits = DEFAULT_LIMITS,
    kinds: Kinds = COMPARISON_KINDS,
) -> Agreement:
    """Compare the outputs of two results.

    Raises:
        ConfigError: the rule is unknown, or ``python`` (which a validator process runs).

    """
    found = kind_named(rule.kind, kinds).differences(rule.options, a, b, limits)
    reasons = tuple(islice(found, MAX_REASONS))
    return Agreement(match=not reasons, reasons=reasons)


def missing_output(name: str) -> Reason:
    """Say that a result lacks an output that it must have."""
    return reason("output_missing", "{file} is missing", file=name)


def usable(
    rule: ComparisonRule,
    files: Files,
    specs: Sequence[OutputSpec],
    *,
    limits: ReadLimits = DEFAULT_LIMITS,
    kinds: Kinds = COMPARISON_KINDS,
) -> Reason | None:
    """Say why the outputs of a result cannot be compared with others; None when they can.

    Missing or too large outputs, and what the rule's kind refuses.
    """
    for spec in specs:
        content = files.get(spec.open_name)
        if content is None:
            if not spec.optional:
                return missing_output(spec.open_name)
        elif len(content) > spec.max_nbytes:
            return reason(
                "output_too_large",
                "{file} has {nbytes} bytes; {max_nbytes} are allowed",
                file=spec.open_name,
                nbytes=len(content),
                max_nbytes=spec.max_nbytes,
            )
    return kind_named(rule.kind, kinds).refusal(rule.options, files, limits)
