"""Credit that no claim decides: fixed per job, by run time, given by the project itself, or none.

Source: options of BOINC's validator (wiki pages *CreditOptions*, *CreditAlt*; server-semantics: which
credit model). Unlike there, run times are learned under every one of these systems, so that estimates stay
good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.domain.reasons import reason
from cobblestone.policy.credit.benchmark import estimate_claim
from cobblestone.policy.credit.claims import (
    Claim,
    ClaimInput,
    ClaimMode,
    CreditContext,
    Grant,
    StatisticIncrements,
    WorkunitFacts,
)
from cobblestone.policy.credit.combine import low_average
from cobblestone.policy.credit.pfc import learn_run_times, peak_flop_count


@dataclass(frozen=True, slots=True)
class _LearnsRunTimes:
    """Systems whose only statistics are run times."""

    name: str

    def learn(
        self,
        inputs: Sequence[ClaimInput],
        claims: Sequence[Claim],
        workunit: WorkunitFacts,
        context: CreditContext,
    ) -> StatisticIncrements:
        """Run times only."""
        return learn_run_times(inputs, claims, workunit)


@dataclass(frozen=True, slots=True)
class FixedSystem(_LearnsRunTimes):
    """The amount that was stored with the job."""

    name: str = "fixed"

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Return the job's amount."""
        amount = workunit.fixed_credit
        if amount <= 0.0:
            why = reason(
                "no_fixed_credit", "The job was made without an amount of credit: nothing is granted."
            )
        else:
            why = reason("fixed_credit", "The job is worth {amount}.", amount=amount)
        return Claim(amount=amount, reasons=(why,))

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Return the same for all."""
        return Grant(credits=(workunit.fixed_credit,) * len(claims))


@dataclass(frozen=True, slots=True)
class RunTimeSystem(_LearnsRunTimes):
    """Elapsed time x peak speed, at most the job's bound; low average of the replicas."""

    name: str = "runtime"

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Peak FLOP count in credit; beyond twice the job's bound it counts as the bound."""
        count = peak_flop_count(facts)
        if count.seconds <= 0.0:
            return estimate_claim(workunit, context.unit)
        flops = count.flops
        why = reason("run_time_x_speed", "{s} s x {speed} FLOPS.", s=count.seconds, speed=count.peak_flops)
        reasons = (why,)
        if flops > 2.0 * workunit.rsc_fpops_bound:
            flops = workunit.rsc_fpops_bound
            reasons += (
                reason("beyond_bound", "Beyond twice the job's bound: counted as {bound}.", bound=flops),
            )
        amount = context.unit.of_flops(flops)
        if not 0.0 < amount <= context.max_granted:
            reasons += (reason("claim_dropped", "Claim {amount} is dropped.", amount=amount),)
            return Claim(amount=amount, mode=ClaimMode.REFUSED, reasons=reasons)
        return Claim(amount=amount, reasons=reasons)

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Low average of the claims that were not dropped."""
        measured = [claim.amount for claim in claims if claim.mode is ClaimMode.NORMAL]
        amounts = measured or [claim.amount for claim in claims if claim.mode is not ClaimMode.REFUSED]
        amount = low_average(amounts)
        why = reason(
            "low_average", "Granted {amount}: low average of {n} claims.", amount=amount, n=len(amounts)
        )
        return Grant(credits=(amount,) * len(claims), reasons=(why,))


@dataclass(frozen=True, slots=True)
class AssignedSystem(_LearnsRunTimes):
    """The amount that the project's own function gave the canonical result, at validation or after
    assimilation."""

    name: str = "assigned"
    after_assimilation: bool = False  #: the validator writes no entry; the assimilator's answer is granted

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Return the amount assigned to this result."""
        amount = facts.claimed_credit
        why = reason("assigned", "The project assigned {amount} to this result.", amount=amount)
        # only the canonical result's amount counts for the workunit
        mode = ClaimMode.NORMAL if facts.canonical else ClaimMode.APPROXIMATE
        return Claim(amount=amount, mode=mode, reasons=(why,))

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Return the canonical result's amount, for all."""
        amount = next((claim.amount for claim in claims if claim.mode is ClaimMode.NORMAL), 0.0)
        why = reason("canonical_amount", "The canonical result was assigned {amount}.", amount=amount)
        return Grant(credits=(amount,) * len(claims), reasons=(why,))


@dataclass(frozen=True, slots=True)
class NoCreditSystem(_LearnsRunTimes):
    """Nothing at validation: the project gives no credit, or gives it by trickle messages."""

    name: str = "none"

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Nothing."""
        return Claim(amount=0.0)

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Nothing; what trickle messages brought stays."""
        why = reason("no_credit", "This app grants no credit at validation.")
        return Grant(credits=(0.0,) * len(claims), reasons=(why,))
