"""Which jobs are too many is found at once as it would be found by asking for one after the other."""

from __future__ import annotations

import random

from tests.helpers.effort import times

from cobblestone.policy.dispatch.deadline_check import BookedJob, Workload, too_many


def one_by_one(begun: list[BookedJob], others: list[BookedJob], ncpus: int) -> list[bool]:
    workload = Workload(begun, ncpus=ncpus)
    found = [False] * len(others)
    for i in sorted(range(len(others)), key=lambda i: others[i].deadline):
        if workload.admits(others[i]):
            workload.add(others[i])
        else:
            found[i] = True
    return found


def draw(r: random.Random, longest: float, grid: bool) -> BookedJob:
    deadline, size = r.uniform(0.0, longest), r.uniform(1.0, 30.0)
    return BookedJob(round(deadline, -1), round(size, -1)) if grid else BookedJob(deadline, size)


def test_both_ways_find_the_same_jobs(rng: random.Random) -> None:
    refused = 0
    for _ in range(times(800)):
        ncpus = rng.choice((1, 2, 4, 16))
        longest = 100.0 * rng.choice((1.0, 5.0, 20.0)) / ncpus
        grid = rng.random() < 0.5  # many equal deadlines and times
        begun = [draw(rng, longest, grid) for _ in range(rng.randint(0, 2 * ncpus))]
        others = [draw(rng, longest, grid) for _ in range(rng.randint(0, 40))]
        expected = one_by_one(begun, others, ncpus)
        assert too_many(begun, others, ncpus=ncpus) == expected
        refused += sum(expected)
    assert refused > 1000


def test_what_was_refused_is_refused_as_if_it_was_looked_at_again(rng: random.Random) -> None:
    refused = 0
    for _ in range(times(400)):
        ncpus = rng.choice((1, 2, 4, 16))
        longest = 100.0 * rng.choice((1.0, 5.0, 20.0)) / ncpus
        begun = [draw(rng, longest, grid=True) for _ in range(rng.randint(0, 2 * ncpus))]
        workload, forgetful = Workload(begun, ncpus=ncpus), Workload(begun, ncpus=ncpus)
        for _ in range(60):
            job = draw(rng, longest, grid=True)
            forgetful._refused.clear()
            expected = forgetful.admits(job)
            assert workload.admits(job) == expected
            refused += not expected
            if expected and rng.random() < 0.5:
                workload.add(job)
                forgetful.add(job)
    assert refused > 1000
