"""How much of the time the host computes: exponentially fading fractions of time.

Source: BOINC's ``time_stats``.  The fractions forget with a time constant of ten days.  ``on_frac`` is a
part of all time, the others are parts of the time that the client runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

TIME_CONSTANT = 10 * 86400.0
#: A longer step than this means that the machine or the client slept.
LONGEST_STEP = 100.0
#: A step this long is taken for a wrong clock and changes nothing.
ABSURD_STEP = 14 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTimes:
    """The fractions; ``connected`` is None where the system cannot tell."""

    on_frac: float = 1.0
    active_frac: float = 1.0
    gpu_active_frac: float = 1.0
    connected_frac: float | None = 1.0
    cpu_and_network_frac: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostActivity:
    """What the host was allowed to do during the last step."""

    active: bool = True
    gpu_active: bool = True
    connected: bool | None = True
    network_suspended: bool = False


def fade(value: float, seconds: float, *, present: bool) -> float:
    """Return a fraction after ``seconds`` during which its condition held (``present``) or not."""
    if not 0.0 < seconds <= ABSURD_STEP:
        return value
    keep = math.exp(-seconds / TIME_CONSTANT)
    return 1.0 - (1.0 - value) * keep if present else value * keep


def update_host_times(
    times: HostTimes, seconds: float, *, activity: HostActivity = HostActivity(), just_started: bool = False
) -> HostTimes:
    """Return the fractions after a step; the first step after a start, and one of more than 100 s, count as
    time off.
    """
    if just_started or seconds > LONGEST_STEP:
        return HostTimes(
            on_frac=fade(times.on_frac, seconds, present=False),
            active_frac=times.active_frac,
            gpu_active_frac=times.gpu_active_frac,
            connected_frac=times.connected_frac,
            cpu_and_network_frac=times.cpu_and_network_frac,
        )
    connected: float | None = None
    if activity.connected is not None:
        before = 1.0 if times.connected_frac is None else times.connected_frac
        connected = fade(before, seconds, present=activity.connected and not activity.network_suspended)
    network = activity.connected is not False and not activity.network_suspended and activity.active
    return HostTimes(
        on_frac=fade(times.on_frac, seconds, present=True),
        active_frac=fade(times.active_frac, seconds, present=activity.active),
        gpu_active_frac=fade(times.gpu_active_frac, seconds, present=activity.active and activity.gpu_active),
        connected_frac=connected,
        cpu_and_network_frac=fade(times.cpu_and_network_frac, seconds, present=network),
    )
