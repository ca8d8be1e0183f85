"""How much of the time the host computes, by the core, under a clock that the test moves."""

from __future__ import annotations

import json
import math
import random

import pytest

from cobblestone.policy.client.core.events import (
    AvailabilityKnown,
    Event,
    HostOff,
    HostOn,
    PermissionChanged,
    ProjectAttached,
    TimePassed,
)
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.values import HostTimes, Permission, ProjectDescription

DAY = 86400.0
START = 1.8e9


def core(*events: Event) -> ClientCore:
    made = ClientCore.start("recent", rng=random.Random(1))
    made.handle(HostOn(START), ProjectAttached(START, ProjectDescription(id="p")))
    for event in events:
        made.handle(event)
    return made


def test_time_off_lowers_what_is_on_and_no_part_of_it() -> None:
    found = core(HostOff(START + DAY), HostOn(START + 2 * DAY)).state.host_times(START + 2 * DAY)
    assert found.on_frac == pytest.approx(math.exp(-0.1))
    assert (found.active_frac, found.gpu_active_frac, found.cpu_and_network_frac) == (1.0, 1.0, 1.0)


def test_a_suspension_lowers_the_fraction_while_it_lasts_and_it_rises_again_afterwards() -> None:
    made = core(PermissionChanged(START, Permission(cpu="user_active", gpu="user_active")))
    during = made.state.host_times(START + 5 * DAY)
    assert during.active_frac == pytest.approx(math.exp(-0.5))
    assert during.gpu_active_frac == during.cpu_and_network_frac == during.active_frac
    assert during.on_frac == 1.0
    made.handle(PermissionChanged(START + 5 * DAY, Permission(gpu="gpu_mode_never")))
    after = made.state.host_times(START + 10 * DAY)
    assert after.active_frac == pytest.approx(1 - (1 - math.exp(-0.5)) * math.exp(-0.5))
    assert after.gpu_active_frac == pytest.approx(math.exp(-1.0))


def test_the_network_counts_when_it_is_there_and_allowed() -> None:
    made = core(PermissionChanged(START, Permission(connected=True)))
    assert made.state.host_times(START + DAY).connected_frac == 1.0
    made.handle(PermissionChanged(START + DAY, Permission(connected=True, network="time_of_day")))
    made.handle(PermissionChanged(START + 2 * DAY, Permission(connected=False)))
    found = made.state.host_times(START + 3 * DAY)
    assert found.connected_frac == found.cpu_and_network_frac == pytest.approx(math.exp(-0.2))
    assert found.active_frac == 1.0
    made.handle(PermissionChanged(START + 3 * DAY, Permission()))
    assert made.state.host_times(START + 3 * DAY).connected_frac is None


def test_a_clock_that_jumps_by_weeks_changes_nothing() -> None:
    made = core(HostOff(START + DAY), HostOn(START + 30 * DAY))
    assert made.state.host_times(START + 30 * DAY).on_frac == 1.0


def test_weeks_without_a_break_are_not_forgotten() -> None:
    made = core(HostOff(START), HostOn(START + 10 * DAY))
    low = made.state.host_times(START + 10 * DAY).on_frac
    made.handle(TimePassed(START + 40 * DAY))
    assert low == pytest.approx(math.exp(-1.0))
    assert made.state.host_times(START + 40 * DAY).on_frac == pytest.approx(1 - (1 - low) * math.exp(-3.0))


def test_the_policy_goes_on_from_what_the_client_before_has_measured() -> None:
    times = HostTimes(on_frac=0.5, active_frac=0.8, gpu_active_frac=0.4, cpu_and_network_frac=0.3)
    made = core(AvailabilityKnown(START, times))
    assert made.state.host_times(START) == times
    assert made.policy.available() == pytest.approx(0.4)


def test_the_fractions_survive_a_restart() -> None:
    made = core(PermissionChanged(START, Permission(cpu="battery", connected=True)))
    plain = json.loads(json.dumps(made.snapshot()))
    again = ClientCore.restore(plain, rng=random.Random(1))
    assert again.state.host_times(START + DAY) == made.state.host_times(START + DAY)


def test_a_state_from_before_the_network_was_measured_can_be_read() -> None:
    plain = json.loads(json.dumps(core().snapshot()))
    for name in ("connected", "cpu_and_network"):
        del plain["state"][name]
    del plain["state"]["permission"]["connected"]
    assert ClientCore.restore(plain, rng=random.Random(1)).state.host_times(START).cpu_and_network_frac == 1.0
