"""Proposed and extended deadlines."""

from __future__ import annotations

import random

import pytest

from cobblestone.domain.values import DAY, HOUR
from cobblestone.policy.lifecycle.deadlines import (
    STEPS,
    Told,
    Turnaround,
    extended_deadline,
    propose_delay_bound,
    will_be_late,
)


def results(n: int, *, run_time: float, total: float) -> list[Turnaround]:
    return [Turnaround(run_time=run_time, total=total) for _ in range(n)]


def test_a_proposal_needs_twenty_results():
    assert propose_delay_bound(results(19, run_time=60.0, total=HOUR)) is None
    found = propose_delay_bound(results(20, run_time=60.0, total=HOUR))
    assert found is not None
    assert (found.n, found.run_time, found.turnaround, found.delay_bound) == (20, 60.0, HOUR, 2 * HOUR)


@pytest.mark.parametrize(
    ("run_time", "total", "bound"),
    [
        (1.0, 5.0, HOUR),
        (HOUR, 1.2 * HOUR, 12 * HOUR),  # ten run times
        (HOUR, 2.6 * DAY, 7 * DAY),
        (10 * DAY, 80 * DAY, 160 * DAY),
    ],
)
def test_a_deadline_is_twice_the_turnaround_and_ten_run_times(run_time: float, total: float, bound: float):
    found = propose_delay_bound(results(30, run_time=run_time, total=total))
    assert found is not None
    assert found.delay_bound == bound


def test_at_most_one_in_a_hundred_such_results_would_come_too_late():
    rng = random.Random(3)
    took = [rng.lognormvariate(0.0, 0.6) * HOUR for _ in range(2000)]
    found = propose_delay_bound([Turnaround(run_time=each / 10, total=each) for each in took[:1000]])
    assert found is not None
    assert found.delay_bound in STEPS
    assert sum(each > found.delay_bound for each in took[1000:]) < 10


NOW, SENT = 100 * DAY, 93 * DAY


def extended(remaining: float, *, before: tuple[float, float] | None, available: float = 1.0) -> float | None:
    """What becomes of a deadline that is an hour away, of a job with a week; ``before``: remaining, hours ago."""
    return extended_deadline(
        Told(remaining=remaining, time=NOW),
        None if before is None else Told(remaining=before[0], time=NOW - before[1] * HOUR),
        sent=SENT,
        deadline=NOW + HOUR,
        delay_bound=7 * DAY,
        available=available,
        factor=3.0,
    )


def test_a_job_that_makes_progress_but_will_be_late_gets_what_it_needs_and_a_quarter():
    assert extended(8 * HOUR, before=(9 * HOUR, 1)) == NOW + 10 * HOUR
    assert extended(8 * HOUR, before=(9 * HOUR, 1), available=0.5) == NOW + 20 * HOUR


def test_one_that_is_in_time_or_makes_no_progress_or_was_heard_of_once_does_not():
    assert extended(0.9 * HOUR, before=(2 * HOUR, 1)) is None
    assert extended(8 * HOUR, before=None) is None
    assert extended(8 * HOUR, before=(8 * HOUR, 1)) is None
    assert extended(8 * HOUR, before=(8.01 * HOUR, 1)) is None
    assert extended(9 * HOUR, before=(8 * HOUR, 1)) is None
    assert extended(8 * HOUR, before=(9 * HOUR, 0)) is None


def test_no_job_gets_more_than_the_bound_of_all_extensions():
    assert extended(400 * DAY, before=(500 * DAY, 1)) == SENT + 21 * DAY
    later = extended_deadline(
        Told(remaining=9 * DAY, time=NOW), Told(remaining=10 * DAY, time=NOW - DAY), sent=SENT - 20 * DAY,
        deadline=NOW + HOUR, delay_bound=7 * DAY, available=1.0, factor=3.0,
    )  # fmt: skip
    assert later is None


def test_lateness_counts_the_time_in_which_the_computer_is_off():
    told = Told(remaining=HOUR, time=NOW)
    assert not will_be_late(told, deadline=NOW + 2 * HOUR, available=0.6)
    assert will_be_late(told, deadline=NOW + 2 * HOUR, available=0.4)
    assert will_be_late(told, deadline=NOW + 2 * HOUR, available=0.0)
