"""What the client may use of a computer."""

from __future__ import annotations

import pytest
from tests.helpers.dispatch_world import description

from cobblestone.domain.computing import DispatchPreferences
from cobblestone.domain.hosts import HostDescription
from cobblestone.policy.dispatch.budget import Capacity, usable_capacity, usable_disk
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.request import ProjectPreferences

HOST = description(p_ncpus=8, m_nbytes=16e9, d_total=1000e9, d_free=100e9, d_boinc_used_total=10e9)


def capacity(
    host: HostDescription = HOST,
    *,
    limits: DispatchLimits | None = None,
    preferences: ProjectPreferences | None = None,
    **computing: float,
) -> Capacity:
    return usable_capacity(
        host,
        DispatchPreferences(**computing),
        preferences=preferences or ProjectPreferences(),
        limits=limits or DispatchLimits(),
    )


def test_without_preferences_nearly_everything_may_be_used():
    assert capacity() == Capacity(ncpus=8, ram_bytes=16e9, disk_bytes=99e9)


def test_cpus_are_a_percentage_and_at_least_one():
    assert capacity(max_ncpus_pct=50).ncpus == 4
    assert capacity(max_ncpus_pct=1).ncpus == 1


def test_operator_and_volunteer_limit_the_cpus():
    assert capacity(limits=DispatchLimits(max_ncpus=6)).ncpus == 6
    assert capacity(preferences=ProjectPreferences(max_cpus=3)).ncpus == 3


def test_the_larger_of_the_two_memory_fractions_counts():
    assert capacity(ram_max_used_busy_pct=25, ram_max_used_idle_pct=75).ram_bytes == 12e9


def test_unknown_memory_is_taken_as_a_gigabyte():
    assert capacity(description(m_nbytes=0)).ram_bytes == 1e9


@pytest.mark.parametrize(
    ("computing", "left"),
    [
        ({"disk_min_free_gb": 20}, 80e9),
        ({"disk_max_used_pct": 5}, 40e9),
        ({"disk_max_used_gb": 15}, 5e9),
        ({"disk_max_used_gb": 15, "disk_max_used_pct": 5, "disk_min_free_gb": 20}, 5e9),
        ({"disk_max_used_gb": 1}, 0.0),
    ],
)
def test_the_tightest_disk_limit_counts(computing: dict[str, float], left: float):
    assert usable_disk(HOST, DispatchPreferences(**computing)) == pytest.approx(left)
