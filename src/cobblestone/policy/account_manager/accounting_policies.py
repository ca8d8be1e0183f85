"""The figure that a person sees, and three ways in which what a project granted reaches an account manager.

The figure that a person sees: what projects confirmed, and a bounded part of what they have not confirmed yet.

    allowance   = max(starter, KAPPA x final)
    provisional = allowance x pending / (pending + allowance)
    target      = final + provisional

``final`` is what projects granted; ``pending`` what clients claim beyond it.  The provisional part grows with every claim,
ever more slowly, and never beyond the allowance; so whatever clients claim, however many accounts they have,

    sum of shown <= (1 + HOLD) x ((1 + KAPPA) x sum of final + starters)

and the starters of all accounts that came from one address block add up to `STARTER_POOL` at most.  The figure follows its
target within hours, so that an answer of a project is no jump.  A target that falls is not followed down: growth is withheld
until it has caught up; only what is more than `HOLD` above it is taken back, which for a fall of the provisional part alone is at
most 1 - (1 + HOLD) / (1 + KAPPA), or 2.9 %.

All functions are pure; times are Unix seconds, credit in Cobblestones.  See docs/accounting.md for the proofs.

How what a project granted reaches an account manager: three ways, and the estimate where there is none.

Each reads another kind of answer and says the same: how much became final, how much was revoked, and how much at most is still
pending by what the project knows.  What follows from that is the same for all (`confirm`), over the same ledger of what clients
claimed.

* `ByJobs`: the client's lists of jobs, asked about in batches: what was each of these granted?
* `ByTotals`: the running total of an account.
* `BySums`: three sums a day per account: final, provisional, revoked.

Sums are taken as bounded: a project's figure that falls is a revocation, one that jumps is limited by what clients of the manager
claimed (`CEILING`), and nothing that a project says moves another project's record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, exp2, expm1, isnan, log
from typing import Protocol, TypeVar

from cobblestone.domain.exports import CountedJobState
from cobblestone.domain.values import DAY, changed, value

#: The provisional part is at most this part of what was confirmed.
KAPPA = 0.05
#: The figure stays at most this much above its target.
HOLD = 0.02
#: What accounts of one address block are shown together before anything is confirmed: what a GFLOPS does in 2.4 hours.
STARTER_POOL = 20.0
#: Time in which the figure closes all but 1/e of the gap to a target above it.
RISE_SECONDS = DAY / 2
#: Half-life of what is held above the target.
SINK_SECONDS = 30 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFigure:
    """The figure shown to a person, and when."""

    shown: float = 0.0
    time: float = 0.0
    starter: float = 0.0  #: the allowance before anything is confirmed, given once, see `starter_of_new`


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureGoal:
    """The target of the figure."""

    final: float
    provisional: float
    waiting: float  #: claimed, and beyond the allowance: shown beside the figure, not in it

    @property
    def whole(self) -> float:
        """The figure when it has arrived."""
        return self.final + self.provisional


def target_of(final: float, pending: float, *, starter: float) -> FigureGoal:
    """Return the target for what was confirmed and what is pending; neither may be negative."""
    allowance = max(starter, KAPPA * final)
    provisional = allowance * (pending / (pending + allowance)) if pending > 0 and allowance > 0 else 0.0
    return FigureGoal(final=final, provisional=provisional, waiting=max(0.0, pending - provisional))


def shown_at(figure: ShownFigure, target: FigureGoal, now: float) -> float:
    """Return the figure to show now; if the clock went back, the last one shown."""
    elapsed = max(0.0, now - figure.time)
    gap = target.whole - figure.shown
    if gap >= 0:
        return figure.shown + gap * (1.0 - exp(-elapsed / RISE_SECONDS))
    held = min(-gap, HOLD * target.whole)
    return target.whole + held * exp2(-elapsed / SINK_SECONDS)


def follow(figure: ShownFigure, before: FigureGoal, after: FigureGoal, now: float) -> ShownFigure:
    """Return the figure now that its target has changed: it followed the one before until this moment.

    What it is more than `HOLD` above the new one is taken back at once.
    """
    shown = min(shown_at(figure, before, now), (1.0 + HOLD) * max(after.whole, 0.0))
    return ShownFigure(shown=shown, time=max(now, figure.time), starter=figure.starter)


def starter_of_new(outstanding: float) -> float:
    """Return the starter of a new account, from the starters that accounts of its address block have: half of what is left."""
    return max(0.0, STARTER_POOL - outstanding) / 2


#: What a project confirms counts up to this multiple of the estimate that was counted by the manager's own limits.
CEILING = 2.0
#: More than all computers of the family have earned together.
LARGEST_CREDIT = 1e15
#: A pending estimate counts by this much less than what such estimates were granted before.
CAUTION = 0.9
#: Claims that no one confirms are forgotten.
PENDING_HALF_LIFE = 10 * DAY
#: Part of a claim beyond what the project knows of that each answer takes away: a project may be behind, or between two jobs.
DISBELIEF = 0.5
RATIO_HALF_LIFE = 30 * DAY
#: Credit: the weight of "an estimate is what will be granted" against what was seen.
RATIO_PRIOR = 10.0
TINY = 1e-9


@value(kw_only=True)
class Confirmation:
    """The record of an account at a project that reports granted credit."""

    final: float = 0.0  #: granted, and not revoked since
    revoked: float = 0.0  #: in all, for the page
    pending: float = 0.0  #: claimed, and not confirmed yet, at ``time``
    estimate: float = 0.0  #: counted by the ledger until ``time``
    #: forgotten with `RATIO_HALF_LIFE`; with the next one: what an estimate is worth
    granted_lately: float = 0.0
    estimated_lately: float = 0.0
    time: float = 0.0
    mark: float | None = None  #: of `ByTotals`: the last total that the project stated
    day: int = -1  #: of `BySums`: the last day that is complete
    day_final: float = 0.0  #: of `BySums`: what was counted of the day after it
    day_revoked: float = 0.0

    @property
    def ratio(self) -> float:
        """Return the expected grant for a unit of the estimate."""
        seen = (self.granted_lately + RATIO_PRIOR) / (self.estimated_lately + RATIO_PRIOR)
        return CAUTION * min(seen, CEILING)

    @property
    def accepted(self) -> float:
        """Return what counts as final: at most what the manager's own limits allow the computers, see `CEILING`."""
        return min(self.final, CEILING * self.estimate)


@value(kw_only=True)
class Statement:
    """The change reported by an answer, in the same form for all methods."""

    final: float = 0.0
    revoked: float = 0.0
    pending_at_most: float | None = None  #: None: the project does not say


Answer_contra = TypeVar("Answer_contra", contravariant=True)


class AccountingPolicy(Protocol[Answer_contra]):
    """A way in which grants reach the manager."""

    name: str

    def read(self, known: Confirmation, answer: Answer_contra) -> tuple[Confirmation, Statement]:
        """Return the record with the marks that the next answer is compared with, and what this one says."""
        ...


def claim(known: Confirmation, estimate: float, *, now: float) -> Confirmation:
    """Add what the ledger counted since; ``estimate`` is its sum for the account at the project.

    What is new is taken to have come evenly since the record's time (in a new record: now), so that it is forgotten alike whether
    it was claimed hour by hour or, where a project did not answer for weeks, at once.
    """
    elapsed = max(0.0, now - known.time)
    new = max(0.0, estimate - known.estimate)
    memory = exp2(-elapsed / RATIO_HALF_LIFE)
    came = elapsed if known.time > 0.0 else 0.0
    return changed(
        known,
        pending=known.pending * exp2(-elapsed / PENDING_HALF_LIFE)
        + known.ratio * new * _left_of_even(came / PENDING_HALF_LIFE),
        estimate=max(known.estimate, estimate),
        granted_lately=known.granted_lately * memory,
        estimated_lately=known.estimated_lately * memory + new * _left_of_even(came / RATIO_HALF_LIFE),
        time=max(now, known.time),
    )


def _left_of_even(half_lives: float) -> float:
    """Return the mean of 2^-x for x from 0 to ``half_lives``: what is left of a unit that came evenly."""
    return -expm1(-log(2.0) * half_lives) / (log(2.0) * half_lives) if half_lives > TINY else 1.0


def confirm(known: Confirmation, statement: Statement) -> Confirmation:
    """Book what a project said; the record is that of this moment, see `claim`."""
    pending = max(0.0, known.pending - statement.final)
    if statement.pending_at_most is not None:
        excess = max(0.0, pending - statement.pending_at_most)
        pending -= DISBELIEF * excess
    revoked = min(statement.revoked, known.final + statement.final)
    return changed(
        known,
        final=min(known.final + statement.final - revoked, LARGEST_CREDIT),
        revoked=min(known.revoked + revoked, LARGEST_CREDIT),
        pending=pending,
        granted_lately=known.granted_lately + max(0.0, statement.final - revoked),
    )


def sums_for_figure(records: Iterable[tuple[Confirmation, bool]]) -> tuple[float, float]:
    """Return final and pending credit over projects; with each record: does the operator vouch for the project?

    What a project confirms that no one vouches for is worth as much as a claim.
    """
    final = pending = 0.0
    for record, vouched in records:
        if vouched:
            final += record.accepted
            pending += record.pending
        else:
            pending += record.accepted + record.pending
    return final, pending


def bounded(credit: float) -> float:
    """Return a figure of a project within bounds: what is negative or no number is 0."""
    return 0.0 if isnan(credit) else min(max(credit, 0.0), LARGEST_CREDIT)


# -- the running total of an account ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TotalAnswer:
    """The total of an account or a computer."""

    total: float


class ByTotals:
    """Totals: what is more than the last time is final, what is less was revoked; the first one is the mark."""

    name = "totals"

    def read(self, known: Confirmation, answer: TotalAnswer) -> tuple[Confirmation, Statement]:
        """See `AccountingPolicy`."""
        total = bounded(answer.total)
        before = total if known.mark is None else known.mark
        return changed(known, mark=total), Statement(
            final=max(0.0, total - before), revoked=max(0.0, before - total)
        )


# -- three sums a day -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedDay:
    """A project's report on an account and a day."""

    day: int  #: since 1970, UTC
    final: float  #: granted for good on that day
    revoked: float  #: taken back on that day
    provisional: float | None = None  #: not decided now; None of days that are over


class BySums:
    """Three sums a day; the last day may be stated again, with more in it."""

    name = "sums"

    def read(self, known: Confirmation, answer: Iterable[ReportedDay]) -> tuple[Confirmation, Statement]:
        """See `AccountingPolicy`.  Days that are complete are left out; of one stated twice the last counts."""
        days = {each.day: each for each in answer if each.day > known.day}
        final = revoked = 0.0
        pending: float | None = None
        for day in sorted(days):
            each = days[day]
            new = (bounded(each.final), bounded(each.revoked))
            if day > known.day + 1 or known.day < 0:
                known = changed(known, day=day - 1, day_final=0.0, day_revoked=0.0)
            final += max(0.0, new[0] - known.day_final)
            revoked += max(0.0, new[1] - known.day_revoked) + max(0.0, known.day_final - new[0])
            known = changed(known, day_final=new[0], day_revoked=max(new[1], known.day_revoked))
            pending = None if each.provisional is None else bounded(each.provisional)
        return known, Statement(final=final, revoked=revoked, pending_at_most=pending)


# -- lists of jobs ----------------------------------------------------------------------------------------


#: Of a job that runs, half is done on average.
IN_PROGRESS_PART = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer:
    """The grant of a job, or its expected grant."""

    name: str
    state: CountedJobState
    credit: float = 0.0  #: granted, or what the project expects of it


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswers:
    """Answers for jobs of an account, and what was known of them before."""

    answers: tuple[JobAnswer, ...]
    granted_before: Mapping[str, float]  #: of the jobs that were asked for, by name


class ByJobs:
    """Jobs: each is booked by its name, so that asking again changes nothing."""

    name = "jobs"

    def read(self, known: Confirmation, answer: JobAnswers) -> tuple[Confirmation, Statement]:
        """See `AccountingPolicy`.  Answers for jobs that were not asked for, or a second one for the same, count nothing."""
        final = revoked = pending = 0.0
        asked = dict(answer.granted_before)
        for job in answer.answers:
            before = asked.pop(job.name, None)
            if before is None:
                continue
            granted = bounded(job.credit) if job.state is CountedJobState.GRANTED else 0.0
            final += max(0.0, granted - before)
            revoked += max(0.0, before - granted)
            pending += expected_of(job)
        return known, Statement(final=final, revoked=revoked, pending_at_most=pending)


def expected_of(job: JobAnswer) -> float:
    """Return the credit that a job that is not over is expected to have earned by now."""
    if job.state is CountedJobState.REPORTED:
        return bounded(job.credit)
    return IN_PROGRESS_PART * bounded(job.credit) if job.state is CountedJobState.IN_PROGRESS else 0.0
