"""The compiled twin gives the figures of the policy, for any log and every system."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from cobblestone.credit_lab.figures import Replay, ReplayOptions
from cobblestone.credit_lab.replay import replay, replay_fast
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.helpers.job_logs import random_job_log

from cobblestone.credit_lab import vectorised
from cobblestone.policy.credit.claims import CreditUnit
from cobblestone.policy.credit.registry import credit_system, credit_system_names

SYSTEMS = [
    name for name in credit_system_names() if not name.startswith("ledger")
]  # the policy itself replays it


def numbers(values: Sequence[float]) -> list[float]:
    return [float(value) for value in values]


def assert_equal(policy: Replay, twin: Replay) -> None:
    assert [int(mode) for mode in twin.modes] == list(policy.modes)
    assert numbers(twin.claimed) == pytest.approx(numbers(policy.claimed), rel=1e-9, abs=1e-9)
    assert numbers(twin.granted) == pytest.approx(numbers(policy.granted), rel=1e-9, abs=1e-9)
    assert twin.version_scales == pytest.approx(policy.version_scales, rel=1e-9)
    for kind in ("hosts", "users", "teams", "versions"):
        one, other = list(getattr(policy, kind).rows()), list(getattr(twin, kind).rows())
        assert [row[0] for row in other] == [row[0] for row in one]
        for expected, found in zip(one, other, strict=True):
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    for expected, found in zip(policy.records.rows(), twin.records.rows(), strict=True):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


@given(
    seed=st.integers(0, 2**32),
    name=st.sampled_from(SYSTEMS),
    lines=st.integers(1, 60),
    hostile=st.sampled_from([0.0, 0.05, 0.5]),
    limit=st.sampled_from([None, 20.0]),
    unit=st.sampled_from([100.0, 200.0]),
    host_scale_check=st.booleans(),
    per_cpu_second=st.sampled_from([0.0, 0.01]),
)
@settings(deadline=None)  # the first example compiles
@example(55, "after-assimilation", 41, 0.5, None, 100.0, False, 0.0)  # a time that is not a number
@example(1357946657, "creditnew-deployed", 18, 0.5, 20.0, 200.0, False, 0.0)  # tiny time x tiny speed = 0
@example(107, "runtime", 15, 0.5, 20.0, 200.0, True, 0.0)  # the same
def test_the_twin_equals_the_policy(
    seed: int,
    name: str,
    lines: int,
    hostile: float,
    limit: float | None,
    unit: float,
    host_scale_check: bool,
    per_cpu_second: float,
) -> None:
    log = random_job_log(random.Random(seed), lines, hosts=6, hostile=hostile)
    options = ReplayOptions(
        unit=CreditUnit(unit),
        max_granted=limit,
        scale_interval=300.0,
        host_scale_check=host_scale_check,
        credit_per_cpu_second=per_cpu_second,
    )
    assert_equal(replay(log, credit_system(name), options), replay_fast(log, name, options))


@pytest.mark.parametrize(
    "name", ["counted", "creditnew-designed", "creditnew-deployed", "steady", "steady-measured"]
)
@pytest.mark.parametrize("hostile", [0.0, 0.02])
@pytest.mark.parametrize("host_scale_check", [False, True])
def test_the_twin_equals_the_policy_when_scales_are_at_work(
    name: str, hostile: float, host_scale_check: bool
) -> None:
    log = random_job_log(random.Random(7), 3000, hosts=20, hostile=hostile, others=0.02)
    options = ReplayOptions(host_scale_check=host_scale_check)
    policy = replay(log, credit_system(name), options)
    assert_equal(policy, replay_fast(log, name, options))
    assert len(policy.version_scales) == 8
    if name.startswith("creditnew"):
        assert {0, 1} <= set(policy.modes)


def test_a_log_that_is_replayed_in_pieces_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    log = random_job_log(random.Random(3), 1500)
    whole = replay_fast(log, "creditnew-deployed")
    monkeypatch.setattr(vectorised, "LINES_AT_A_TIME", 7)
    pieces = replay_fast(log, "creditnew-deployed")
    assert numbers(pieces.granted) == numbers(whole.granted)
    assert pieces.version_scales == whole.version_scales
