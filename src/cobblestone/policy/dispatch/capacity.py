"""What of a computer the client may use: CPUs, memory, disk.

Source: BOINC's ``sched_send.cpp`` and ``sched_check.cpp`` (facts). Zero in a preference means that it was not
given.
"""

from __future__ import annotations

from cobblestone.domain.hosts import HostDescription
from cobblestone.domain.values import value
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.request import ProjectPreferences

GIGABYTE = 1e9
UNKNOWN_RAM = 1e9  #: bytes, of a host that does not tell
MAX_CLAIMED_NCPUS = 1_000_000
DEFAULT_MIN_FREE = 1e9  #: bytes of disk that stay free when preferences do not say


@value(kw_only=True)
class ComputingPreferences:
    """The values of the global preferences that the server looks at."""

    disk_max_used_gb: float = 0.0
    disk_max_used_pct: float = 0.0
    disk_min_free_gb: float = 0.0
    work_buf_min_days: float = 0.0
    ram_max_used_busy_pct: float = 0.0
    ram_max_used_idle_pct: float = 0.0
    max_ncpus_pct: float = 0.0


@value(kw_only=True)
class Capacity:
    """Usable CPUs (at least 1), bytes of memory and bytes of free disk (0 or more)."""

    ncpus: float
    ram_bytes: float
    disk_bytes: float


def bounded_ncpus(ncpus: float, limits: DispatchLimits, preferences: ProjectPreferences) -> float:
    """CPUs that count: at least 1, at most what the operator and the volunteer allow."""
    most = min(limits.max_ncpus, preferences.max_cpus) if preferences.max_cpus > 0 else limits.max_ncpus
    return max(min(ncpus, most), 1.0)


def usable_capacity(
    description: HostDescription,
    computing: ComputingPreferences,
    *,
    preferences: ProjectPreferences,
    limits: DispatchLimits,
) -> Capacity:
    """CPUs, memory and free disk that a host leaves to the client."""
    percent = computing.max_ncpus_pct if 0 < computing.max_ncpus_pct <= 100 else 100.0
    ram = description.m_nbytes if description.m_nbytes > 0 else UNKNOWN_RAM
    ram_percent = max(computing.ram_max_used_busy_pct, computing.ram_max_used_idle_pct)
    if 0 < ram_percent <= 100:
        ram *= ram_percent / 100.0
    return Capacity(
        ncpus=bounded_ncpus(
            min(description.p_ncpus, MAX_CLAIMED_NCPUS) * percent / 100.0, limits, preferences
        ),
        ram_bytes=ram,
        disk_bytes=usable_disk(description, computing),
    )


def usable_disk(description: HostDescription, computing: ComputingPreferences) -> float:
    """Bytes that the client may still fill: the tightest of the volunteer's three disk limits."""
    used = description.d_boinc_used_total
    keep_free = computing.disk_min_free_gb * GIGABYTE if computing.disk_min_free_gb > 0 else DEFAULT_MIN_FREE
    available = description.d_free - keep_free
    if computing.disk_max_used_pct > 0:
        available = min(available, description.d_total * computing.disk_max_used_pct / 100.0 - used)
    if computing.disk_max_used_gb > 0:
        available = min(available, computing.disk_max_used_gb * GIGABYTE - used)
    return max(available, 0.0)
