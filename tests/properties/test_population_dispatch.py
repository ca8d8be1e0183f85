"""Simulated populations choose jobs as the server's rule does: same results, same record, the queue read equally far."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.dispatch_world import LINUX, NOW, description, host

from cobblestone.domain.apps import ANY_PLATFORM, App, AppVersion
from cobblestone.domain.hosts import CPU, HostAppVersion, HostVersionStatistics
from cobblestone.domain.statistics import RunningAverage
from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, WorkunitId
from cobblestone.domain.work import JobLimits
from cobblestone.policy.dispatch.catalogue import Candidate, Catalogue, PeakFlopCount
from cobblestone.policy.dispatch.choose import choose_work
from cobblestone.policy.dispatch.limits import DispatchLimits, quota_day
from cobblestone.policy.dispatch.request import ResourceRequest, WorkRequest
from cobblestone.simulator.population.dispatch import choose_alike

APP, VERSION = AppId(1), AppVersionId(1)


def a_record(rng: random.Random, number: HostId) -> HostAppVersion:
    return HostAppVersion(
        host_id=number,
        app_version_id=VERSION,
        max_jobs_per_day=rng.choice([0, 1, 3, 20, 500]),
        n_jobs_today=rng.choice([0, 1, 7, 400]),
        bad_results=rng.choice([0, 0, 1, 9, 12]),
        quota_day=quota_day(number, NOW) - rng.choice([0, 0, 1, 5]),
        statistics=HostVersionStatistics(
            elapsed=RunningAverage(rng.choice([0, 1, 2, 50]), rng.uniform(1e-11, 1e-8)),
            consecutive_valid=rng.choice([0, 0, 3]),
        ),
    )


def a_request(rng: random.Random) -> WorkRequest:
    number, ncpus = HostId(rng.randint(1, 99)), rng.choice([1, 2, 8])
    return WorkRequest(
        host=host(number, description=description(p_ncpus=ncpus, p_fpops=rng.uniform(1e8, 1e10), on_frac=rng.random())),
        platforms=(LINUX,),
        client_version=72005,
        resources={
            CPU: ResourceRequest(
                seconds=rng.choice([0.0, 1.0, 3e4, 1e6]),
                instances=rng.choice([0.0, 0.0, 1.5]),
                estimated_delay=rng.choice([0.0, 0.0, 5e4]),
            )
        },
        usable_ncpus=ncpus,
        ram_bytes=1e15,
        disk_bytes=1e15,
        in_progress={APP: rng.choice([0, 1, 5])},
        records={VERSION: a_record(rng, number)} if rng.random() < 0.8 else {},
    )  # fmt: skip


def some_limits(rng: random.Random) -> DispatchLimits:
    quota = rng.choice([1, 8, 500])
    return DispatchLimits(
        daily_quota=quota,
        daily_quota_init=rng.choice([0, max(quota // 25, 1)]),
        first_jobs=rng.choice([0, 1, 3]),
        max_jobs_per_rpc=rng.choice([0, 1, 3, 50]),
        check_deadline=rng.random() < 0.7,
        one_result_per_user_per_wu=False,
        one_result_per_host_per_wu=True,
    )


@given(st.integers(0, 10**9))
def test_the_choice_is_that_of_the_servers_rule(seed: int):
    rng = random.Random(seed)
    job = JobLimits(
        rsc_fpops_est=rng.uniform(1e12, 1e14), rsc_fpops_bound=1e30, rsc_memory_bound=0.0, rsc_disk_bound=0.0,
        delay_bound=rng.choice([1e4, 1e5, 1e6]),
    )  # fmt: skip
    workunits = sorted(rng.randint(1, 30) for _ in range(rng.choice([0, 1, 5, 60])))
    queue = [
        Candidate(
            result_id=ResultId(i), result_name=f"r{i}", workunit_id=WorkunitId(n), workunit_name=f"w{n}", app_id=APP, limits=job,
        )
        for i, n in enumerate(workunits)
    ]  # fmt: skip
    here = {WorkunitId(n) for n in workunits if rng.random() < 0.2}
    catalogue = Catalogue(
        apps={APP: App(id=APP, name="a")},
        versions={APP: (AppVersion(id=VERSION, app_id=APP, platform=ANY_PLATFORM, version_num=100),)},
        peak_flop_counts={VERSION: PeakFlopCount(n=rng.choice([0, 500]), avg=rng.uniform(0.5, 2.0))},
    )
    request, limits = a_request(rng), some_limits(rng)

    def at_host(ids: Sequence[WorkunitId]) -> frozenset[WorkunitId]:
        return frozenset(here.intersection(ids))

    left, right = Reader(queue), Reader(queue)
    expected = choose_work(
        request, left, catalogue, limits=limits, already_at_host=at_host, now=NOW, rng=random.Random(0)
    )
    given_, record = choose_alike(
        request, right, catalogue, job=job, limits=limits, already_at_host=at_host, now=NOW
    )
    assert tuple(given_) == expected.assignments
    assert ((record,) if record is not None else ()) == expected.records
    assert left.read == right.read


class Reader:
    """A queue that counts how many candidates were taken from it."""

    def __init__(self, queue: Sequence[Candidate]) -> None:
        self.read = 0
        self._queue = queue

    def __iter__(self) -> Iterator[Candidate]:
        for each in self._queue:
            self.read += 1
            yield each
