"""The interface of a credit system, and the functions that a validator calls.

A system answers three questions about the valid results of a workunit, each by a pure method:

1. `CreditSystem.claim`: what does one result claim?
2. `CreditSystem.grant`: what does each result get, given all claims?
3. `CreditSystem.learn`: which samples do the statistics take from it?

`grant_workunit` asks them in order, bounds hostile figures before and amounts after, and keeps every reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from cobblestone.domain.errors import PolicyViolation
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.values import ResultId, value
from cobblestone.policy.credit.claims import (
    DEPLOYED,
    AppIncrement,
    AppStatistics,
    Claim,
    ClaimInput,
    ClaimMode,
    CreditContext,
    CreditUnit,
    Grant,
    HostVersionIncrement,
    HostVersionStatistics,
    PlatformKind,
    StatisticIncrements,
    Statistics,
    VersionIncrement,
    VersionStatistics,
    WorkunitFacts,
    bounded_input,
    bounded_workunit,
)

__all__ = [
    "AppIncrement",
    "AppStatistics",
    "Claim",
    "ClaimInput",
    "ClaimMode",
    "CreditContext",
    "CreditSystem",
    "Grant",
    "GrantOutcome",
    "HostVersionIncrement",
    "HostVersionStatistics",
    "PlatformKind",
    "ResultCredit",
    "StatisticIncrements",
    "Statistics",
    "VersionIncrement",
    "VersionStatistics",
    "WorkunitFacts",
    "grant_straggler",
    "grant_workunit",
]


class CreditSystem(Protocol):
    """A way to turn valid results into credit.  Implementations keep no state."""

    @property
    def name(self) -> str:
        """Name under which an app chooses it, and which the ledger keeps."""
        ...

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Return what one result claims; its figures are finite, not negative, and bounded."""
        ...

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Return what each result gets, in the order of the claims."""
        ...

    def learn(
        self,
        inputs: Sequence[ClaimInput],
        claims: Sequence[Claim],
        workunit: WorkunitFacts,
        context: CreditContext,
    ) -> StatisticIncrements:
        """Which samples the statistics take."""
        ...


@value(kw_only=True)
class ResultCredit:
    """What one result claimed and gets now, and why: the content of its ledger entry."""

    result_id: ResultId
    claimed: float
    granted: float  #: due now: what trickle messages brought is taken off
    mode: ClaimMode = ClaimMode.NORMAL
    reasons: tuple[Reason, ...] = ()


@value(kw_only=True)
class GrantOutcome:
    """What follows for a workunit."""

    system: str
    unit: CreditUnit
    results: tuple[ResultCredit, ...]
    canonical_credit: float  #: what stragglers will get
    increments: StatisticIncrements = StatisticIncrements()
    pending: bool = False  #: write no entry: the credit is granted after assimilation


def _bounded_claim(claim: Claim) -> Claim:
    """Return a claim whose amount is a figure, whatever the system computed."""
    if 0.0 <= claim.amount < math.inf:
        return claim
    why = reason(
        "claim_refused", "Claim {amount} is not a valid amount: it does not count.", amount=str(claim.amount)
    )
    return replace(claim, amount=0.0, mode=ClaimMode.REFUSED, reasons=(*claim.reasons, why))


def _bounded_grant(amount: float, limit: float) -> tuple[float, tuple[Reason, ...]]:
    if 0.0 <= amount <= limit:
        return amount, ()
    if amount > limit and math.isfinite(amount):
        why = reason(
            "grant_bounded", "{amount} is above the limit of a grant, {limit}.", amount=amount, limit=limit
        )
        return limit, (why,)
    return 0.0, (
        reason("grant_refused", "{amount} is not a valid amount: nothing is granted.", amount=str(amount)),
    )


def _without_trickles(amount: float, provisional: float) -> tuple[float, tuple[Reason, ...]]:
    """Return what remains to be granted after the provisional credit of trickle messages, never below 0."""
    if provisional <= 0.0:
        return amount, ()
    due = max(0.0, amount - provisional)
    why = reason(
        "granted_before",
        "Of {amount}, trickle messages already granted {provisional} while it ran; {due} is due.",
        amount=amount,
        provisional=provisional,
        due=due,
    )
    return due, (why,)


def _context(
    statistics: Statistics, unit: CreditUnit, max_granted: float | None, now: float
) -> CreditContext:
    limit = unit.tflops_year if max_granted is None else max_granted
    return CreditContext(statistics=statistics, unit=unit, max_granted=limit, now=now)


def grant_workunit(
    system: CreditSystem,
    workunit: WorkunitFacts,
    inputs: Sequence[ClaimInput],
    statistics: Statistics,
    *,
    unit: CreditUnit = DEPLOYED,
    max_granted: float | None = None,
    now: float,
) -> GrantOutcome:
    """Credit for the valid results of a workunit whose canonical result was just found.

    ``inputs`` are its VALID results in the order of their ids; ``max_granted`` limits a single grant
    (default: a TFLOPS-year in ``unit``); ``now`` is in Unix seconds.  Raises `PolicyViolation` when the
    system answers for another number of results than it was asked about.
    """
    context = _context(statistics, unit, max_granted, now)
    workunit, job_reasons = bounded_workunit(workunit)
    bounded = [bounded_input(facts, now=now) for facts in inputs]
    facts_of = [facts for facts, _ in bounded]
    claims = [_bounded_claim(system.claim(facts, workunit, context)) for facts in facts_of]
    grant = system.grant(claims, workunit, context)
    if len(grant.credits) != len(claims):
        raise PolicyViolation(
            f"credit system {system.name!r} granted {len(grant.credits)} amounts for {len(claims)} claims;"
            " a grant has one amount per claim, in their order"
        )
    results: list[ResultCredit] = []
    canonical_credit = 0.0
    for (facts, input_reasons), claim, amount in zip(bounded, claims, grant.credits, strict=True):
        full, limit_reasons = _bounded_grant(amount, context.max_granted)
        due, trickle_reasons = _without_trickles(full, facts.trickle_credit)
        if facts.canonical or not results:
            canonical_credit = full
        results.append(
            ResultCredit(
                result_id=facts.result_id,
                claimed=claim.amount,
                granted=due,
                mode=claim.mode,
                reasons=(
                    *job_reasons,
                    *input_reasons,
                    *claim.reasons,
                    *grant.reasons,
                    *limit_reasons,
                    *trickle_reasons,
                ),
            )
        )
    return GrantOutcome(
        system=system.name,
        unit=unit,
        results=tuple(results),
        canonical_credit=canonical_credit,
        increments=system.learn(facts_of, claims, workunit, context),
        pending=getattr(system, "after_assimilation", False),
    )


def grant_straggler(
    system: CreditSystem,
    workunit: WorkunitFacts,
    facts: ClaimInput,
    statistics: Statistics,
    *,
    canonical_credit: float,
    unit: CreditUnit = DEPLOYED,
    max_granted: float | None = None,
    now: float,
) -> GrantOutcome:
    """Credit for a result that became valid after the canonical one: the same as the canonical result got.

    Its own claim is kept in the outcome, and statistics learn from its own times.
    """
    context = _context(statistics, unit, max_granted, now)
    workunit, job_reasons = bounded_workunit(workunit)
    facts, input_reasons = bounded_input(facts, now=now)
    claim = _bounded_claim(system.claim(facts, workunit, context))
    full, limit_reasons = _bounded_grant(canonical_credit, context.max_granted)
    due, trickle_reasons = _without_trickles(full, facts.trickle_credit)
    why = reason(
        "straggler", "Came after the canonical result and gets the same credit, {amount}.", amount=full
    )
    result = ResultCredit(
        result_id=facts.result_id,
        claimed=claim.amount,
        granted=due,
        mode=claim.mode,
        reasons=(*job_reasons, *input_reasons, *claim.reasons, why, *limit_reasons, *trickle_reasons),
    )
    return GrantOutcome(
        system=system.name,
        unit=unit,
        results=(result,),
        canonical_credit=full,
        increments=system.learn((facts,), (claim,), workunit, context),
        pending=getattr(system, "after_assimilation", False),
    )
