"""Whether the outputs of two results agree, by the app's comparison rule, and whether outputs are usable at all.

What a rule means is said by its kind, see `cobblestone.policy.validation.comparisons`.  Callers that know more kinds than the
built-in ones hand them over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

from cobblestone.domain.apps import ComparisonRule
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.work import OutputSpec
from cobblestone.policy.validation.archives import ReadLimits
from cobblestone.policy.validation.comparisons.kind import ComparisonKind, Files
from cobblestone.policy.validation.comparisons.registry import COMPARISON_KINDS

MAX_REASONS = 3
"""Differences that a comparison reports; the search stops there."""

DEFAULT_LIMITS = ReadLimits()

Kinds = Mapping[str, ComparisonKind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What a comparison found."""

    match: bool
    reasons: tuple[
        Reason, ...
    ] = ()  #: where the outputs differ, at most `MAX_REASONS`; empty when they match


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
