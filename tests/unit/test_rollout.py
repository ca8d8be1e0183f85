"""Staged roll-out: who gets a version, and how it goes on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.values import AppVersionId, HostId
from cobblestone.policy.dispatch.rollout import (
    RolloutPlan,
    RolloutState,
    StageRecord,
    begin_rollout,
    host_position,
    in_rollout,
    next_step,
)

PLAN = RolloutPlan(stages=(0.05, 0.5, 1.0), max_error_rate=0.1, min_results=20, min_seconds=3600)


def running(stage: int = 0) -> RolloutPlan:
    started = begin_rollout(PLAN, now=0).plan
    for number in range(stage):
        step = next_step(started, StageRecord(n_good=20), now=3600 * (number + 1))
        assert step is not None
        started = step.plan
    return started


@given(
    host=st.integers(1, 2**40),
    version=st.integers(1, 2**30),
    parts=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_a_host_that_got_a_version_keeps_it_while_the_part_grows(
    host: int, version: int, parts: tuple[float, float]
):
    small, large = sorted(parts)
    if in_rollout(HostId(host), AppVersionId(version), small):
        assert in_rollout(HostId(host), AppVersionId(version), large)


def test_the_part_of_the_hosts_is_as_large_as_asked_and_differs_between_versions():
    first = {n for n in range(20_000) if in_rollout(HostId(n), AppVersionId(1), 0.1)}
    second = {n for n in range(20_000) if in_rollout(HostId(n), AppVersionId(2), 0.1)}
    assert 1800 < len(first) < 2200
    assert len(first & second) < 400
    assert 0 <= host_position(HostId(1), AppVersionId(1)) < 1


@pytest.mark.parametrize(("fraction", "gets"), [(1.0, True), (2.0, True), (0.0, False)])
def test_all_or_none_needs_no_position(fraction: float, gets: bool):
    assert in_rollout(HostId(1), AppVersionId(1), fraction) is gets


def test_a_rollout_goes_through_its_stages_when_results_are_good():
    assert begin_rollout(PLAN, now=5).fraction == 0.05
    step = next_step(running(), StageRecord(n_good=19, n_bad=1), now=3600)
    assert step is not None
    assert (step.fraction, step.plan.state, step.plan.stage) == (0.5, RolloutState.RUNNING, 1)
    last = next_step(running(1), StageRecord(n_good=30), now=7200)
    assert last is not None
    assert (last.fraction, last.plan.state) == (1.0, RolloutState.DONE)
    assert next_step(last.plan, StageRecord(n_bad=100), now=1e9) is None


def test_a_stage_waits_for_enough_results_and_enough_time():
    assert next_step(running(), StageRecord(n_good=19), now=1e6) is None
    assert next_step(running(), StageRecord(n_good=500), now=3599) is None


@pytest.mark.parametrize(
    ("good", "bad", "held"), [(18, 2, False), (17, 3, True), (0, 2, False), (0, 3, True), (97, 11, True)]
)
def test_the_gate_holds_a_version_that_fails_too_often_at_once(good: int, bad: int, held: bool):
    step = next_step(running(), StageRecord(n_good=good, n_bad=bad), now=10)
    assert (step is not None) is held
    if step is not None:
        assert (step.fraction, step.plan.state) == (0.0, RolloutState.HELD)
        assert f"{bad} of {good + bad} results failed" in step.reason


def test_a_rollout_may_end_at_a_part_of_the_hosts():
    plan = begin_rollout(RolloutPlan(stages=(0.25,), min_results=1, min_seconds=0), now=0).plan
    step = next_step(plan, StageRecord(n_good=1), now=1)
    assert step is not None
    assert (step.fraction, step.plan.state) == (0.25, RolloutState.DONE)


@pytest.mark.parametrize("stages", [(0.0, 1.0), (0.5, 0.5), (0.5, 0.2), (1.5,)])
def test_stages_must_be_growing_parts(stages: tuple[float, ...]):
    with pytest.raises(ValueError, match="growing parts"):
        begin_rollout(RolloutPlan(stages=stages), now=0)
