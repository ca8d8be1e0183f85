"""When something is due: the deadlines of jobs, the next call of a project's function that failed, and the purge.

Deadlines: proposed from what an app's jobs took, and extended for one that makes progress but will be late.

A deadline that is too short throws away work that was almost done; one that is too long lets a workunit wait for a computer
that will never return.  Both sides are seen in the turnaround of the app's own results, from sending to receipt.

When a project's own function (validator, assimilator) that failed on a job is called again.

Pauses double from a first to a longest one.  After ``max_attempts`` calls the job is parked: it waits until someone has mended
the function and says so, and no other job waits behind it.

When the rows of a workunit may leave the database for the archive.

Source: BOINC's ``db_purge.cpp`` (facts only): files deleted, old enough, and the batch (if any) retired.  A
workunit thus disappears only after it was assimilated, all results are over and validated or abandoned, and
the files are gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.values import value
from cobblestone.domain.work import AssimilateState, BatchState, FileDeleteState
from cobblestone.policy.lifecycle.states import WorkunitView, awaits_validation, is_over

HOUR, DAY = 3600.0, 86400.0

#: From so many results on a deadline is proposed.
SAMPLES = 20
QUANTILE = 0.95
#: A deadline is twice what 95 % of the results took: computers are switched off, and hold work of others.
SLACK = 2.0
#: … and at least ten run times, so that a computer that computes a tenth of the time is in time.
RUN_TIMES = 10.0
STEPS = tuple(
    [HOUR * n for n in (1, 2, 3, 4, 6, 8, 12, 18)]
    + [DAY * n for n in (1, 1.5, 2, 3, 4, 5, 7, 10, 14, 21, 28, 42, 60, 90)]
)

#: A job makes progress when the time that it still needs falls by this part of the time that has passed, or more.
MIN_PROGRESS = 0.05
#: So much more than the client expects is given.
MARGIN = 0.25


@value(kw_only=True)
class Turnaround:
    """The time that one good result took, in seconds."""

    run_time: float  #: elapsed on its computer
    total: float  #: from sending to receipt


@value(kw_only=True)
class DeadlineProposal:
    """A deadline for the jobs of an app, and what it follows from; seconds."""

    n: int  #: results
    run_time: float  #: of 95 % of them at most
    turnaround: float  #: of 95 % of them at most
    delay_bound: float


def propose_delay_bound(results: Sequence[Turnaround]) -> DeadlineProposal | None:
    """Return the time that jobs should be given, by what good results took; None when there are too few."""
    if len(results) < SAMPLES:
        return None
    run_time = _quantile([each.run_time for each in results])
    turnaround = _quantile([each.total for each in results])
    wanted = max(SLACK * turnaround, RUN_TIMES * run_time)
    bound = next((step for step in STEPS if step >= wanted), ceil(wanted / DAY) * DAY)
    return DeadlineProposal(n=len(results), run_time=run_time, turnaround=turnaround, delay_bound=bound)


def _quantile(values: Sequence[float]) -> float:
    """Return the smallest value that the wanted part of all do not exceed."""
    return sorted(values)[ceil(QUANTILE * len(values)) - 1]


@value(kw_only=True)
class Told:
    """A client's report on a running job."""

    remaining: float  #: computing time that it still needs, seconds
    time: float  #: Unix seconds


def will_be_late(told: Told, *, deadline: float, available: float) -> bool:
    """Return whether a job that goes on like that ends after its deadline; ``available``: part of the time that is computed."""
    return told.time + told.remaining / max(available, 1e-3) > deadline


def extended_deadline(
    told: Told,
    before: Told | None,
    *,
    sent: float,
    deadline: float,
    delay_bound: float,
    available: float,
    factor: float,
) -> float | None:
    """Return a later deadline for a job that would be late but makes progress; None: it stays.

    Progress shows in two reports: what a client still needs has become less meanwhile.  A job never gets more than ``factor``
    times its ``delay_bound`` in all, so one whose client promises for ever is given up in the end.
    """
    if before is None or not will_be_late(told, deadline=deadline, available=available):
        return None
    passed = told.time - before.time
    if passed <= 0 or before.remaining - told.remaining < MIN_PROGRESS * passed:
        return None
    needed = told.remaining / max(available, 1e-3) * (1.0 + MARGIN)
    later = min(told.time + needed, sent + factor * delay_bound)
    return later if later > deadline else None


#: Unix seconds that no clock reaches: a parked job.
PARKED_UNTIL = 1e12


def next_attempt(
    n_failures: int, *, max_attempts: int, first_pause: float, longest_pause: float, now: float
) -> float:
    """Return when to call the function again (Unix seconds) after it failed ``n_failures`` times, at least once."""
    if n_failures >= max_attempts:
        return PARKED_UNTIL
    return now + min(first_pause * 2.0 ** min(n_failures - 1, 60), longest_pause)


_BUSY = (FileDeleteState.READY, FileDeleteState.ERROR)
_NOT_GONE = (*_BUSY, FileDeleteState.INIT)


def why_not_purge(
    view: WorkunitView, *, now: float, min_age_seconds: float = 0.0, batch_state: BatchState | None = None
) -> Reason | None:
    """Say why the rows of a workunit must stay; None when they may be archived and removed.

    Args:
        view: the workunit and all its results.
        now: Unix seconds.
        min_age_seconds: rows stay at least this long after the last change.
        batch_state: state of the workunit's batch, if it has one and the batch protects its jobs.

    """
    workunit, results = view.workunit, view.results
    if workunit.assimilate_state is not AssimilateState.DONE:
        return reason("not_assimilated", "the answer was not handed over yet")
    for result in results:
        if not is_over(result) or awaits_validation(result):
            return reason("result_open", "{result} is not over and validated", result=result.name)
        answer = result.id == workunit.canonical_result_id
        if result.file_delete_state in (_NOT_GONE if answer else _BUSY):
            return reason("outputs_exist", "the outputs of {result} are not deleted yet", result=result.name)
    if workunit.file_delete_state is not FileDeleteState.DONE:
        return reason("inputs_exist", "the input files are not deleted yet")
    if batch_state not in (None, BatchState.RETIRED):
        return reason("batch_not_retired", "its batch is not retired")
    changed = _newest_time(view)
    if now < changed + min_age_seconds:
        return reason(
            "too_young",
            "the last change was {age:.0f} s ago; rows stay for {min_age:.0f} s",
            age=now - changed,
            min_age=min_age_seconds,
        )
    return None


def _newest_time(view: WorkunitView) -> float:
    times = [view.workunit.create_time]
    for result in view.results:
        times += (result.create_time, result.sent_time or 0.0, result.received_time or 0.0)
    return max(times)
