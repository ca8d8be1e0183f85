"""What a host that returns nothing good can waste is bounded, however it fails and whenever it asks."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.dispatch_world import (
    NOW,
    candidates,
    catalogue,
    choose,
    description,
    host,
    records,
    request,
    version,
)
from tests.helpers.effort import times
from tests.helpers.stated_bounds import wasted_at_most

from cobblestone.domain.values import AppId
from cobblestone.policy.dispatch import limits as quota
from cobblestone.policy.dispatch.limits import DispatchLimits

HOUR = 3600.0
OFFER = catalogue(version())
QUEUE = candidates(100)


def jobs_wasted(rng: random.Random, limits: DispatchLimits, *, processors: int, days: int) -> int:
    """Simulate a host that asks at random times, holds its jobs for random times, and spoils all of them."""
    known = records()
    held: list[float] = []  # when each job it holds goes wrong
    wasted, now = 0, NOW
    machine = host(description=description(p_ncpus=processors))
    patience = rng.choice([0.1, 5.0, 48.0])
    eagerness = rng.choice([0.2, 3.0, 20.0])
    while now < NOW + days * 86400:
        for _ in [moment for moment in held if moment <= now]:
            (record,) = known.values()
            known = records(quota.after_failure(record, limits.daily_quota))
        held = [moment for moment in held if moment > now]
        asked = request(
            host=machine,
            seconds=1e9,
            disk_bytes=1e15,
            usable_ncpus=float(processors),
            records=known,
            in_progress={AppId(1): len(held)},
        )
        decision = choose(asked, QUEUE, OFFER, limits=limits, now=now)
        if decision.assignments:
            known = records(*decision.records)
            wasted += len(decision.assignments)
            held += [now + rng.uniform(0.0, patience) * HOUR for _ in decision.assignments]
        now += rng.uniform(0.01, eagerness) * HOUR
    return wasted


@settings(max_examples=times(15))  # each is a simulation of weeks
@given(
    seed=st.integers(0, 10**6),
    processors=st.sampled_from([1, 4, 8]),
    initial=st.sampled_from([1, 3, 10]),
    daily_quota=st.sampled_from([20, 100, 500]),
)
def test_no_host_wastes_more_than_stated(seed: int, processors: int, initial: int, daily_quota: int):
    limits = DispatchLimits(daily_quota=daily_quota, daily_quota_init=initial, max_jobs_per_rpc=0)
    days = 20
    wasted = jobs_wasted(random.Random(seed), limits, processors=processors, days=days)
    assert wasted <= wasted_at_most(
        initial=initial, processors=processors, daily_quota=daily_quota, days=days
    )


@settings(max_examples=times(15))
@given(seed=st.integers(0, 10**6), failing=st.floats(0.0, 0.15))
def test_a_host_that_fails_now_and_then_keeps_most_of_its_quota(seed: int, failing: float):
    rng = random.Random(seed)
    record = quota.for_today(next(iter(records_of_one().values())), daily_quota=500, initial=20, now=NOW)
    limits: list[int] = []
    for _ in range(1000):
        bad = rng.random() < failing
        record = quota.after_failure(record, 500) if bad else quota.after_valid(record, 500)
        limits.append(quota.jobs_per_day(record, 500))
    assert sum(limits[100:]) / 900 > 500 * 0.6


def records_of_one():
    decision = choose(request(seconds=1), QUEUE, OFFER)
    return records(*decision.records)
