"""The forecast is what the client then does, if the world keeps to it."""

from __future__ import annotations

import random

import msgspec
import pytest
from tests.helpers.client_play import HOUR, Play, job, once

from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.values import HostDevices, Permission, ProjectDescription
from cobblestone.policy.client.forecast import PlannedRun, forecast


def plan_of(play: Play, *, most_steps: int) -> list[PlannedRun]:
    plain = msgspec.json.decode(msgspec.json.encode(play.core.snapshot()))
    core = ClientCore.restore(plain, rng=random.Random(1))
    return forecast(core, now=play.now, horizon=24 * HOUR, most_steps=most_steps)


def world(policy: str, *, ncpus: int = 2, suspended: str = "") -> Play:
    jobs = [job(f"j{n}", estimate=(1 + n % 3) * HOUR, deadline=(6 + 5 * n) * HOUR) for n in range(6)]
    play = Play(
        [ProjectDescription(id="p")],
        {"p": once(*jobs, unasked=True)},
        devices=HostDevices(ncpus=ncpus),
        permission=Permission(cpu=suspended),
        policy=policy,
    )
    play.run(0.5 * HOUR)
    return play


@pytest.mark.parametrize("policy", ["recent", "own"])
def test_jobs_end_when_and_in_the_order_that_was_forecast(policy: str):
    play = world(policy)
    plan = plan_of(play, most_steps=500)
    play.run(24.5 * HOUR)
    ends = {run.job: run.end for run in plan if run.finishes}
    assert ends.keys() == play.finished.keys() == {f"j{n}" for n in range(6)}
    for name, end in ends.items():
        assert end == pytest.approx(play.finished[name], abs=120.0), name


def test_no_more_runs_at_once_than_there_are_cpus_and_nothing_runs_twice():
    plan = plan_of(world("recent", ncpus=2), most_steps=500)
    for run in plan:
        others = [each for each in plan if each is not run and each.begin < run.end and run.begin < each.end]
        assert run.job not in {each.job for each in others}
        assert sum(each.begin <= run.begin < each.end for each in others) < 2


def test_a_job_that_will_be_late_is_marked():
    play = Play(
        [ProjectDescription(id="p")],
        {"p": once(job("slow", estimate=10 * HOUR, deadline=5 * HOUR), unasked=True)},
        devices=HostDevices(ncpus=1),
    )
    plan = plan_of(play, most_steps=500)
    assert plan == [PlannedRun(job="slow", begin=0.0, end=10 * HOUR, finishes=True, late=True)]


def test_nothing_is_forecast_while_nothing_may_run_and_steps_are_bounded():
    asleep = world("recent", suspended="user_active")
    assert plan_of(asleep, most_steps=500) == []
    few = plan_of(world("recent"), most_steps=1)
    assert few
    assert max(run.end for run in few) < 12 * HOUR


def test_the_core_that_was_copied_stays_as_it_was():
    play = world("recent")
    before = msgspec.json.encode(play.core.snapshot())
    plan_of(play, most_steps=500)
    assert msgspec.json.encode(play.core.snapshot()) == before
