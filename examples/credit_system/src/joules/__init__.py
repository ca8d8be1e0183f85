"""A credit system of our own: one credit for each kilowatt-hour that a job probably took.

Nobody measures the energy; what a processor takes under load is known well enough. All replicas of a job get the
smallest claim, so nobody gains by a slow or wasteful computer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.domain.reasons import reason
from cobblestone.policy.credit.claims import minimum
from cobblestone.policy.credit.scales import learn_run_times
from cobblestone.policy.credit.system import (
    Claim,
    ClaimInput,
    CreditContext,
    Grant,
    StatisticIncrements,
    WorkunitFacts,
)

WATTS_OF_A_CPU_CORE = 10.0
WATTS_OF_A_GPU = 200.0
JOULES_PER_KILOWATT_HOUR = 3.6e6


@dataclass(frozen=True, slots=True)
class JouleSystem:
    """Energy: 10 W per processor second, 200 W per GPU second."""

    name: str = "joules"

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Energy of one result; its figures arrive finite, not negative, and bounded."""
        seconds = facts.elapsed_time if facts.is_gpu else facts.cpu_time
        watts = WATTS_OF_A_GPU if facts.is_gpu else WATTS_OF_A_CPU_CORE
        amount = seconds * watts / JOULES_PER_KILOWATT_HOUR
        why = reason(
            "energy",
            "Claim {amount} kWh: {seconds} s at {watts} W.",
            amount=amount,
            seconds=seconds,
            watts=watts,
        )
        return Claim(amount=amount, reasons=(why,))

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Grant the smallest claim, to all."""
        amount = minimum([claim.amount for claim in claims])
        why = reason(
            "least_energy", "Granted {amount}: the least of {n} claims.", amount=amount, n=len(claims)
        )
        return Grant(credits=(amount,) * len(claims), reasons=(why,))

    def learn(
        self,
        inputs: Sequence[ClaimInput],
        claims: Sequence[Claim],
        workunit: WorkunitFacts,
        context: CreditContext,
    ) -> StatisticIncrements:
        """Run times, from which the server estimates how long jobs take; return no increments to learn nothing."""
        return learn_run_times(inputs, claims, workunit)
