"""Credit systems before CreditNew: benchmark x CPU time, counted operations, and credit that no claim decides.

The first credit system: benchmark x CPU time.

Source: CreditNew page, "the first credit system" (C1 = Whetstone x CPU time); BOINC's document *Computation
credit* for the form with both benchmarks, (Whetstone + Dhrystone) / 2 x CPU time.  The claims of the
replicas are combined by their mean, their minimum, or by dropping the extremes.

Known differences: a client reports no CPU time for short programs without the BOINC API (client 7.20.5); their
run time stands in for it, and without one the job's estimate.  A claim is at most the job's bound.  Where one claim is more
than ten times another, their mean gives way to the smaller or the median (`combine.guarded_mean`).

The second credit system: operations counted by the program.

Source: CreditNew page, "the second credit system"; ``sched/credit.cpp`` for the credit of floating-point
and integer operations (the larger of the two).  The report carries ``fpops_cumulative`` or
``fpops_per_cpu_sec`` (client 7.20.5).

A scale keeps the average credit of a job equal to the first system's: the sum of what the first system
claims for the counting jobs, over what their operations are worth unscaled, once `MIN_COUNTED_JOBS` are
known.  All replicas of a job enter with the count that is paid.  A program that cannot count gets a
published average per CPU second; without one, what the first system claims.

Credit that no claim decides: fixed per job, by run time, given by the project itself, or none.

Source: options of BOINC's validator (wiki pages *CreditOptions*, *CreditAlt*; server-semantics: which
credit model). Unlike there, run times are learned under every one of these systems, so that estimates stay
good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cobblestone.domain.reasons import Reason, phrase, reason
from cobblestone.policy.credit.claims import (
    COMBINATIONS,
    AppIncrement,
    AppStatistics,
    Claim,
    ClaimInput,
    ClaimMode,
    CreditContext,
    CreditUnit,
    Grant,
    StatisticIncrements,
    WorkunitFacts,
    low_average,
)
from cobblestone.policy.credit.scales import LearnsRunTimes, learn_run_times, peak_flop_count, run_time


def cpu_seconds(facts: ClaimInput) -> tuple[float, tuple[Reason, ...]]:
    """CPU time of a result; its run time where the client reported none."""
    if facts.cpu_time > 0.0:
        return facts.cpu_time, ()
    seconds = run_time(facts)
    if seconds <= 0.0:
        return 0.0, ()
    return seconds, (
        reason("cpu_time_missing", "No CPU time reported: the run time {s} s is used.", s=seconds),
    )


def estimate_claim(workunit: WorkunitFacts, unit: CreditUnit) -> Claim:
    """Claim of a result that reported no usable time: the job's estimate."""
    amount = unit.of_flops(min(workunit.rsc_fpops_est, workunit.rsc_fpops_bound))
    why = reason(
        "no_run_time", "No usable time was reported: the job's estimate, {amount}, is used.", amount=amount
    )
    return Claim(amount=amount, mode=ClaimMode.ESTIMATE, reasons=(why,))


def within_bound(claim: Claim, workunit: WorkunitFacts, unit: CreditUnit) -> Claim:
    """Return the claim, or what the job's bound allows."""
    most = unit.of_flops(workunit.rsc_fpops_bound)
    if claim.amount <= most:
        return claim
    why = reason("beyond_bound", "Capped at the job's bound {bound}.", bound=workunit.rsc_fpops_bound)
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


#: What the ledger calls the ways of `COMBINATIONS`.
_CALLED = {
    "mean": phrase("mean"),
    "minimum": phrase("minimum"),
    "drop-extremes": phrase("mean without the extremes"),
}


def combined_grant(claims: Sequence[Claim], combination: str) -> Grant:
    """One amount for all replicas from the claims that rest on something measured; from all that count, when none does."""
    measured = [claim.amount for claim in claims if claim.mode is ClaimMode.NORMAL]
    amounts = measured or [claim.amount for claim in claims if claim.mode is not ClaimMode.REFUSED]
    amount = COMBINATIONS[combination](amounts)
    why = reason(
        "combined",
        "Granted {amount}: {combination} of {n} {n:claim|claims}.",
        amount=amount,
        combination=_CALLED[combination],
        n=len(amounts),
    )
    return Grant(credits=(amount,) * len(claims), reasons=(why,))


@dataclass(frozen=True, slots=True)
class BenchmarkSystem(LearnsRunTimes):
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


#: The scale stays what it was until this many jobs have counted.
MIN_COUNTED_JOBS = 100

#: A program that counts a millionth of its operations does not count.
MAX_SCALE = 1e6


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
    pays_counts: bool = True  #: so that validation compares them where it can

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
                "Claim {amount}: no operations counted; {cpu_time} s of CPU x published average {average}.",
                amount=amount,
                cpu_time=seconds,
                average=average,
            )
            claim = Claim(amount=amount, mode=ClaimMode.APPROXIMATE, reasons=(*reasons, why))
            return within_bound(claim, workunit, context.unit)
        claim = benchmark_credit(facts, workunit, context.unit)
        why = reason(
            "nothing_counted",
            "No operations counted, and no average published: the first credit system is used.",
        )
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
        # a job has one count: a replica that claims another lowers no one's scale
        counted = len(counts) * COMBINATIONS[self.combination](counts)
        app = AppIncrement(
            benchmark_credit=benchmark, counted_credit=counted, cpu_seconds=seconds, jobs=len(counts)
        )
        return replace(run_times, app=app)


@dataclass(frozen=True, slots=True)
class FixedSystem(LearnsRunTimes):
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
class RunTimeSystem(LearnsRunTimes):
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
                reason("beyond_bound", "More than twice the job's bound: counted as {bound}.", bound=flops),
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
            "low_average", "Granted {amount}: low average of claims ({n}).", amount=amount, n=len(amounts)
        )
        return Grant(credits=(amount,) * len(claims), reasons=(why,))


@dataclass(frozen=True, slots=True)
class AssignedSystem(LearnsRunTimes):
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
class NoCreditSystem(LearnsRunTimes):
    """Nothing at validation: the project gives no credit, or gives it by trickle messages."""

    name: str = "none"

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Nothing."""
        return Claim(amount=0.0)

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Nothing; what trickle messages brought stays."""
        why = reason("no_credit", "This app grants no credit at validation.")
        return Grant(credits=(0.0,) * len(claims), reasons=(why,))
