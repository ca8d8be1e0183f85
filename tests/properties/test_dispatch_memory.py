"""What is remembered of the scheduler's decisions is what `choose_work` decides."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.effort import times

from cobblestone.domain.apps import ANY_PLATFORM, App, AppVersion
from cobblestone.domain.hosts import Host, HostAppVersion, HostDescription
from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, UserId, WorkunitId
from cobblestone.domain.work import DAY, JobLimits
from cobblestone.policy.dispatch.catalogue import Candidate, Catalogue, PeakFlopCount
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.simulator.population import dispatch_memory
from cobblestone.simulator.population.dispatch_memory import (
    DispatchMemory,
    LearnedSpeeds,
    RememberedOffer,
    RememberedRequest,
)

LIMITS = DispatchLimits(daily_quota=20, max_jobs_per_rpc=3, one_result_per_user_per_wu=False)
APPS = {AppId(i): App(id=AppId(i), name=f"a{i}") for i in (1, 2)}


class Desk:
    """A scheduler with its records."""

    def __init__(self) -> None:
        self.speeds = LearnedSpeeds()
        catalogue = Catalogue(
            apps=APPS,
            versions={
                i: (AppVersion(id=AppVersionId(i), app_id=i, platform=ANY_PLATFORM, version_num=1),)
                for i in APPS
            },
            peak_flop_counts=self.speeds.peak_flop_counts,
        )
        self.memory = DispatchMemory(LIMITS, catalogue, self.speeds, random.Random(1))
        self.read = 0

    def choose(
        self, asked: RememberedRequest, candidates: list[Candidate], held: set[int]
    ) -> list[RememberedOffer]:
        self.read = 0

        def queue() -> Iterator[Candidate]:
            for candidate in candidates:
                self.read += 1
                yield candidate

        return self.memory.choose(asked, queue(), lambda workunit: int(workunit) in held)


REMEMBERS = Desk()  # for all examples: what one of them asks, others find remembered


@settings(max_examples=times(60), deadline=None)
@given(
    luck=st.randoms(use_true_random=False),
    seconds=st.sampled_from([0.0, 1.0, 5e4, 3e5]),
    instances=st.sampled_from([0.0, 1.0, 3.0]),
    delay=st.sampled_from([0.0, 4e4, 2e5]),
    means=st.booleans(),
    new=st.booleans(),
)
def test_what_is_remembered_is_what_the_rule_decides(
    luck: random.Random, seconds: float, instances: float, delay: float, means: bool, new: bool
) -> None:
    ncpus = luck.choice([1, 2, 4])
    host = Host(
        id=HostId(luck.randrange(1, 50)),
        user_id=UserId(1),
        description=HostDescription(
            p_ncpus=ncpus, p_fpops=luck.choice([1e9, 3e9]), on_frac=luck.choice([0.05, 0.7])
        ),
    )
    now = luck.random() * 20 * DAY
    asked = RememberedRequest(host, ncpus, seconds, instances, delay, luck.randrange(3), now)
    candidates = [
        Candidate(
            result_id=ResultId(100 + i),
            result_name="r",
            workunit_id=WorkunitId(50 + i // 2),
            workunit_name="w",
            app_id=AppId(luck.choice([1, 1, 2])),
            limits=JobLimits(rsc_fpops_est=1e14, rsc_memory_bound=0.0, rsc_disk_bound=0.0, delay_bound=DAY),
            priority=luck.choice([0, 1]),
        )
        for i in range(luck.randrange(8))
    ]
    held = {50 + i for i in range(4) if luck.random() < 0.3}
    records = {
        version: HostAppVersion(
            host_id=host.id,
            app_version_id=version,
            max_jobs_per_day=luck.choice([0, 1, 5, 20]),
            n_jobs_today=luck.choice([0, 4, 30]),
            quota_day=int(now // DAY) + luck.choice([-1, 0, 1]),
            et_n=luck.choice([0, 1, 5]),
            et_avg=luck.choice([1e-9, 3e-10]),
            bad_results=luck.choice([0, 0, 1, 6]),
        )
        for version in (AppVersionId(1), AppVersionId(2))
        if not new
    }
    asks = Desk()
    answers: list[tuple[list[RememberedOffer], int, dict[AppVersionId, HostAppVersion]]] = []
    for desk in (REMEMBERS, asks):
        desk.speeds.peak_flop_counts.clear()
        if means:
            desk.speeds.peak_flop_counts[AppVersionId(1)] = PeakFlopCount(n=200, avg=1.5)
        desk.speeds.records[int(host.id)] = dict(records)
    with pytest.MonkeyPatch.context() as patch:
        answers.append(
            (REMEMBERS.choose(asked, candidates, held), REMEMBERS.read, REMEMBERS.speeds.records[host.id])
        )
        patch.setattr(dispatch_memory, "FIRST", 0)
        answers.append((asks.choose(asked, candidates, held), asks.read, asks.speeds.records[host.id]))
    assert answers[0] == answers[1]


def test_a_request_like_one_before_is_answered_without_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    limits = JobLimits(rsc_fpops_est=1e14, rsc_memory_bound=0.0, rsc_disk_bound=0.0, delay_bound=DAY)

    def ask(host: int, now: float) -> list[RememberedOffer]:
        row = Host(id=HostId(host), user_id=UserId(host), description=HostDescription(p_fpops=1e9 + host))
        candidate = Candidate(
            result_id=ResultId(host),
            result_name="r",
            workunit_id=WorkunitId(host),
            workunit_name="w",
            app_id=AppId(1),
            limits=limits,
        )
        return desk.choose(RememberedRequest(row, 2, 1000.0, 0.0, 0.0, 0, now), [candidate], set())

    (first,) = ask(1, 40 * DAY)
    monkeypatch.delattr(dispatch_memory, "choose_work")
    (second,) = ask(7, 60.5 * DAY)
    assert (first.report_deadline, second.report_deadline) == (41 * DAY, 61.5 * DAY)
    assert second.candidate.result_id == 7
    assert (first.flops, second.flops) == (1e9 + 1, 1e9 + 7)
    assert desk.speeds.records[7][AppVersionId(1)].n_jobs_today == 1
