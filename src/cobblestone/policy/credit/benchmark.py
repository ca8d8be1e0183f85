"""The first credit system: benchmark x CPU time.

Source: CreditNew page, "the first credit system" (C1 = Whetstone x CPU time); BOINC's document *Computation
credit* for the form with both benchmarks, (Whetstone + Dhrystone) / 2 x CPU time.  The claims of the
replicas are combined by their mean, their minimum, or by dropping the extremes.

Known differences: a client reports no CPU time for short programs without the BOINC API (client 7.20.5); their
run time stands in for it, and without one the job's estimate.  A claim is at most the job's bound.  Where one claim is more
than ten times another, their mean gives way to the smaller or the median (`combine.guarded_mean`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cobblestone.domain.reasons import Reason, phrase, reason
from cobblestone.policy.credit.claims import (
    Claim,
    ClaimInput,
    ClaimMode,
    CreditContext,
    Grant,
    StatisticIncrements,
    WorkunitFacts,
)
from cobblestone.policy.credit.cobblestone import CreditUnit
from cobblestone.policy.credit.combine import COMBINATIONS
from cobblestone.policy.credit.pfc import learn_run_times, run_time


def cpu_seconds(facts: ClaimInput) -> tuple[float, tuple[Reason, ...]]:
    """CPU time of a result; its run time where the client reported none."""
    if facts.cpu_time > 0.0:
        return facts.cpu_time, ()
    seconds = run_time(facts)
    if seconds <= 0.0:
        return 0.0, ()
    return seconds, (reason("cpu_time_missing", "No CPU time reported: run time {s} s is taken.", s=seconds),)


def estimate_claim(workunit: WorkunitFacts, unit: CreditUnit) -> Claim:
    """Claim of a result that reported no usable time: the job's estimate."""
    amount = unit.of_flops(min(workunit.rsc_fpops_est, workunit.rsc_fpops_bound))
    why = reason("no_run_time", "No usable time was reported: the job's estimate, {amount}.", amount=amount)
    return Claim(amount=amount, mode=ClaimMode.ESTIMATE, reasons=(why,))


def within_bound(claim: Claim, workunit: WorkunitFacts, unit: CreditUnit) -> Claim:
    """Return the claim, or what the job's bound allows."""
    most = unit.of_flops(workunit.rsc_fpops_bound)
    if claim.amount <= most:
        return claim
    why = reason("beyond_bound", "Clamped to the job's bound {bound}.", bound=workunit.rsc_fpops_bound)
    return replace(claim, amount=most, reasons=(*claim.reasons, why))


def benchmark_credit(
    facts: ClaimInput, workunit: WorkunitFacts, unit: CreditUnit, *, both: bool = False
) -> Claim:
    """Claim of the first system: C1, or with ``both`` benchmarks."""
    seconds, reasons = cpu_seconds(facts)
    if seconds <= 0.0:
        return estimate_claim(workunit, unit)
    if both:
        amount = unit.of_reference_machine(seconds, facts.p_fpops, facts.p_iops)
        why = reason(
            "benchmarks_x_cpu_time",
            "Claim {amount}: {cpu_time} s of CPU x mean of Whetstone {p_fpops} and Dhrystone {p_iops} per second.",
            amount=amount,
            cpu_time=seconds,
            p_fpops=facts.p_fpops,
            p_iops=facts.p_iops,
        )
    else:
        amount = unit.of_flops(facts.p_fpops * seconds)
        why = reason(
            "whetstone_x_cpu_time",
            "Claim {amount}: {cpu_time} s of CPU x Whetstone {p_fpops} per second.",
            amount=amount,
            cpu_time=seconds,
            p_fpops=facts.p_fpops,
        )
    return within_bound(Claim(amount=amount, reasons=(*reasons, why)), workunit, unit)


_CALLED = {
    "mean": phrase("mean"),
    "minimum": phrase("minimum"),
    "drop-extremes": phrase("mean without the extremes"),
}
"""What the ledger calls the ways of `COMBINATIONS`."""


def combined_grant(claims: Sequence[Claim], combination: str) -> Grant:
    """One amount for all replicas from the claims that rest on something measured; from all that count, when none does."""
    measured = [claim.amount for claim in claims if claim.mode is ClaimMode.NORMAL]
    amounts = measured or [claim.amount for claim in claims if claim.mode is not ClaimMode.REFUSED]
    amount = COMBINATIONS[combination](amounts)
    why = reason(
        "combined",
        "Granted {amount}: {combination} of {n} claims.",
        amount=amount,
        combination=_CALLED[combination],
        n=len(amounts),
    )
    return Grant(credits=(amount,) * len(claims), reasons=(why,))


@dataclass(frozen=True, slots=True)
class BenchmarkSystem:
    """Benchmark x CPU time."""

    name: str = "benchmark"
    combination: str = "mean"
    both: bool = False  #: Whetstone and Dhrystone, the older form

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """CPU time x speed by benchmark."""
        return benchmark_credit(facts, workunit, context.unit, both=self.both)

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Return the combined claim, for all."""
        return combined_grant(claims, self.combination)

    def learn(
        self,
        inputs: Sequence[ClaimInput],
        claims: Sequence[Claim],
        workunit: WorkunitFacts,
        context: CreditContext,
    ) -> StatisticIncrements:
        """Run times only."""
        return learn_run_times(inputs, claims, workunit)
