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
from cobblestone.domain.hosts import HostVersionStatistics
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
    "grant_workunit",
]


class CreditSystem(Protocol):
    """A way to turn valid results into credit.  Implementations keep no state."""

    @property
    def name(self) -> str:
        """Name under which an app chooses it, and which the ledger keeps."""
        ...

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Return the claim of one result; its figures are finite, not negative, and bounded."""
        ...

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Return the grant of each result, in the order of the claims."""
        ...

    def learn(
        self,
        inputs: Sequence[ClaimInput],
        claims: Sequence[Claim],
        workunit: WorkunitFacts,
        context: CreditContext,
    ) -> StatisticIncrements:
        """Return the samples for the statistics."""
        ...


@value(kw_only=True)
class ResultCredit:
    """The claim and grant of one result, with reasons: the content of its ledger entry."""

    result_id: ResultId
    claimed: float
    granted: float  #: due now: what trickle messages brought is taken off
    mode: ClaimMode = ClaimMode.NORMAL
    reasons: tuple[Reason, ...] = ()


@value(kw_only=True)
class GrantOutcome:
    """The outcome for a workunit."""

    system: str
    unit: CreditUnit
    results: tuple[ResultCredit, ...]
    canonical_credit: float  #: what stragglers will get
    increments: StatisticIncrements = StatisticIncrements()
    pending: bool = False  #: write no entry: the credit is granted after assimilation


def _bounded_claim(claim: Claim) -> Claim:
    """Return a claim with a valid amount, whatever the system computed."""
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
    """Return the rest to be granted after the provisional credit of trickle messages, never below 0."""
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


def grant_workunit(
    system: CreditSystem,
    workunit: WorkunitFacts,
    inputs: Sequence[ClaimInput],
    statistics: Statistics,
    *,
    unit: CreditUnit = DEPLOYED,
    max_granted: float | None = None,
    canonical_credit: float | None = None,
    now: float,
) -> GrantOutcome:
    """Credit for the valid results of a workunit whose canonical result was just found, or for a straggler.

    ``inputs`` are its VALID results in the order of their ids; ``max_granted`` limits a single grant
    (default: a TFLOPS-year in ``unit``); ``now`` is in Unix seconds.  A straggler, which became valid after the canonical result,
    comes alone and gets the same ``canonical_credit``; its own claim is kept, and statistics learn from its own times.

    Raises:
        PolicyViolation: the system answers for another number of results than it was asked about.
    """
    limit = unit.tflops_year if max_granted is None else max_granted
    context = CreditContext(statistics=statistics, unit=unit, max_granted=limit, now=now)
    workunit, job_reasons = bounded_workunit(workunit)
    bounded = [bounded_input(facts, now=now) for facts in inputs]
    facts_of = [facts for facts, _ in bounded]
    claims = [_bounded_claim(system.claim(facts, workunit, context)) for facts in facts_of]
    if canonical_credit is None:
        grant = system.grant(claims, workunit, context)
    else:
        grant = _as_canonical(canonical_credit, context.max_granted)
    if len(grant.credits) != len(claims):
        raise PolicyViolation(
            f"credit system {system.name!r} granted {len(grant.credits)} amounts for {len(claims)} claims;"
            " a grant has one amount per claim, in their order"
        )
    results: list[ResultCredit] = []
    of_canonical = 0.0
    for (facts, input_reasons), claim, amount in zip(bounded, claims, grant.credits, strict=True):
        full, limit_reasons = _bounded_grant(amount, context.max_granted)
        due, trickle_reasons = _without_trickles(full, facts.trickle_credit)
        if facts.canonical or not results:
            of_canonical = full
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
        canonical_credit=of_canonical,
        increments=system.learn(facts_of, claims, workunit, context),
        pending=getattr(system, "after_assimilation", False),
    )


def _as_canonical(amount: float, limit: float) -> Grant:
    why = reason(
        "straggler",
        "Came after the canonical result and gets the same credit, {amount}.",
        amount=_bounded_grant(amount, limit)[0],
    )
    return Grant(credits=(amount,), reasons=(why,))
