"""The validator's rules: which results agree, which one is canonical, and what follows for the workunit.

A validator process only delivers facts (`ValidationReport`); `judge` decides everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cobblestone.domain.ids import ResultId
from cobblestone.domain.reasons import Reason
from cobblestone.policy.lifecycle.effects import ValidationEffect, WorkunitView

Pair = tuple[ResultId, ResultId]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedAt:
    """What the validator found when it read one result's outputs."""

    result_id: ResultId
    usable: bool
    problem: str = ""  #: why it is not usable, in words; empty when it is
    transient: bool = (
        False  #: not usable *now* (the disk is away, the check ran out of time): look again later
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationReport:
    """The facts that a validator process delivers about one workunit."""

    looked_at: tuple[LookedAt, ...]
    matches: frozenset[Pair] = frozenset()  #: compared pairs that agree, in either order
    differences: Mapping[Pair, str] = field(
        default_factory=dict[Pair, str]
    )  #: for the others: where and by how much


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationDecision:
    """What follows from a report: effects to apply in one transaction, and who is to be credited."""

    effects: tuple[ValidationEffect, ...]
    next_check: (
        float | None
    )  #: the new ``transition_time`` (Unix seconds); None = never, the assimilator sets it
    canonical_id: ResultId | None = None  #: the canonical result, newly chosen or already there
    newly_canonical: bool = False
    newly_valid: tuple[ResultId, ...] = ()  #: credit is due
    newly_invalid: tuple[ResultId, ...] = ()  #: disagree with the canonical result
    unusable: tuple[ResultId, ...] = ()  #: outputs missing or malformed
    reasons: tuple[Reason, ...] = ()


def results_to_look_at(view: WorkunitView) -> tuple[ResultId, ...]:
    """Results whose outputs a validator must read for this workunit; empty when there is nothing to do."""
    raise NotImplementedError


def pairs_to_compare(view: WorkunitView) -> tuple[Pair, ...]:
    """Pairs of results whose outputs a validator must compare."""
    raise NotImplementedError


def judge(view: WorkunitView, report: ValidationReport, *, now: float) -> ValidationDecision:
    """Decide what follows from a validator's report, at ``now`` (Unix seconds)."""
    raise NotImplementedError
