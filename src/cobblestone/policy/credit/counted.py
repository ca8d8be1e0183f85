"""The second credit system: operations counted by the program.

Source: CreditNew page, "the second credit system"; ``sched/credit.cpp`` for the credit of floating-point
and integer operations (the larger of the two).  The report carries ``fpops_cumulative`` or
``fpops_per_cpu_sec`` (client 7.20.5).

A scale keeps the average credit of a job equal to the first system's: the sum of what the first system
claims for the counting jobs, over what their operations are worth unscaled, once `MIN_COUNTED_JOBS` are
known.  All replicas of a job enter with the count that is paid.  A program that cannot count gets a
published average per CPU second; without one, what the first system claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cobblestone.domain.reasons import reason
from cobblestone.policy.credit.benchmark import (
    benchmark_credit,
    combined_grant,
    cpu_seconds,
    estimate_claim,
    within_bound,
)
from cobblestone.policy.credit.claims import (
    AppIncrement,
    AppStatistics,
    Claim,
    ClaimInput,
    ClaimMode,
    CreditContext,
    Grant,
    StatisticIncrements,
    WorkunitFacts,
)
from cobblestone.policy.credit.combine import COMBINATIONS
from cobblestone.policy.credit.pfc import learn_run_times

MIN_COUNTED_JOBS = 100
"""The scale stays what it was until this many jobs have counted."""

MAX_SCALE = 1e6
"""A program that counts a millionth of its operations does not count."""


def counted_operations(*, cumulative: float, per_cpu_second: float, cpu_time: float) -> float:
    """Operations of a report that gives them as a sum, or per second of CPU time; 0 when it gives neither."""
    return cumulative if cumulative > 0.0 else per_cpu_second * cpu_time


def _countable(facts: ClaimInput, workunit: WorkunitFacts) -> float:
    return min(max(facts.fpops_counted, facts.intops_counted), workunit.rsc_fpops_bound)


def scale_from(counted: AppIncrement, previous: float) -> float:
    """Return the scale that the sums of counting jobs call for; ``previous`` while they are too few."""
    if counted.jobs < MIN_COUNTED_JOBS or counted.counted_credit <= 0.0 or counted.benchmark_credit <= 0.0:
        return previous
    return min(MAX_SCALE, max(1.0 / MAX_SCALE, counted.benchmark_credit / counted.counted_credit))


def credit_per_cpu_second(app: AppStatistics) -> float:
    """Return the average that a counting project publishes for those that cannot count; 0 when not known yet."""
    counted = app.counted
    if counted is None or counted.jobs < MIN_COUNTED_JOBS or counted.cpu_seconds <= 0.0:
        return 0.0
    return counted.counted_credit * app.flops_scale / counted.cpu_seconds


@dataclass(frozen=True, slots=True)
class CountedSystem:
    """Counted operations x scale."""

    name: str = "counted"
    combination: str = "mean"

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Return counted operations x the app's scale, or the average per CPU second."""
        app = context.statistics.app
        operations = max(facts.fpops_counted, facts.intops_counted)
        if operations > 0.0:
            counted = _countable(facts, workunit)
            amount = context.unit.of_flops(counted) * app.flops_scale
            why = reason(
                "counted_operations",
                "Claim {amount}: {operations} counted operations (limit {limit}) x scale {scale}.",
                amount=amount,
                operations=operations,
                limit=workunit.rsc_fpops_bound,
                scale=app.flops_scale,
            )
            return Claim(amount=amount, reasons=(why,))
        average = app.credit_per_cpu_second or credit_per_cpu_second(app)
        if average > 0.0:
            seconds, reasons = cpu_seconds(facts)
            if seconds <= 0.0:
                return replace(estimate_claim(workunit, context.unit), mode=ClaimMode.APPROXIMATE)
            amount = seconds * average
            why = reason(
                "average_per_cpu_second",
                "Claim {amount}: nothing counted; {cpu_time} s of CPU x published average {average}.",
                amount=amount,
                cpu_time=seconds,
                average=average,
            )
            claim = Claim(amount=amount, mode=ClaimMode.APPROXIMATE, reasons=(*reasons, why))
            return within_bound(claim, workunit, context.unit)
        claim = benchmark_credit(facts, workunit, context.unit)
        why = reason("nothing_counted", "Nothing counted, and no average published: as in the first system.")
        return replace(claim, mode=ClaimMode.APPROXIMATE, reasons=(why, *claim.reasons))

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Return the combined claim of those that counted; of all, when none did."""
        counted = [claim for claim in claims if claim.mode is ClaimMode.NORMAL]
        grant = combined_grant(counted or claims, self.combination)
        return Grant(credits=grant.credits[:1] * len(claims), reasons=grant.reasons)

    def learn(
        self,
        inputs: Sequence[ClaimInput],
        claims: Sequence[Claim],
        workunit: WorkunitFacts,
        context: CreditContext,
    ) -> StatisticIncrements:
        """Run times, and the sums for the scale."""
        benchmark = seconds = 0.0
        counts: list[float] = []
        for facts, claim in zip(inputs, claims, strict=True):
            first = benchmark_credit(facts, workunit, context.unit)
            known = first.mode is ClaimMode.NORMAL and first.amount > 0.0
            if claim.mode is ClaimMode.NORMAL and known and not facts.outlier:
                benchmark += first.amount
                counts.append(context.unit.of_flops(_countable(facts, workunit)))
                seconds += cpu_seconds(facts)[0]
        run_times = learn_run_times(inputs, claims, workunit)
        if not counts:
            return run_times
        # a job has one count: a replica that claims another lowers nobody's scale
        counted = len(counts) * COMBINATIONS[self.combination](counts)
        app = AppIncrement(
            benchmark_credit=benchmark, counted_credit=counted, cpu_seconds=seconds, jobs=len(counts)
        )
        return replace(run_times, app=app)
