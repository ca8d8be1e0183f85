"""What the client measures of itself over weeks: how much of the time it computes, and how fast the network is.

The fractions of time are the core's, which uses them; here they are put beside the seconds since the start and since the first
start, and kept for projects, account managers and managers.
"""

from __future__ import annotations

from dataclasses import replace

from cobblestone.client.state import State
from cobblestone.policy.client.availability import HostTimes
from cobblestone.policy.client.core.state import ClientState
from cobblestone.policy.client.transfer_rates import TransferRate, after_transfer
from cobblestone.wire.host_report import TimeStats

MAX_GAP = 10.0
"""Seconds between two looks; a longer gap is a sleep, in which nothing ran."""
SAVE_EVERY = 60.0
_UNKNOWN = -1.0


class Measurements:
    """Seconds that passed, and bytes that moved.  Kept with the client's notes."""

    def __init__(self, state: State, started: float) -> None:
        self._state = state
        before = state.notes.time_stats
        self._figures = replace(
            before,
            client_start_time=started,
            total_start_time=before.total_start_time or started,
            previous_uptime=max(0.0, before.now - before.client_start_time) if before.now else 0.0,
            session_active_duration=0.0,
            session_gpu_active_duration=0.0,
        )
        self._last = started
        self._saved = started

    def passed(self, core: ClientState, now: float) -> None:
        """Count the time since the last call."""
        seconds, self._last = now - self._last, now
        if not 0.0 < seconds <= MAX_GAP:
            return
        allowed, figures = core.permission, self._figures
        active = seconds if not allowed.cpu else 0.0
        gpu_active = seconds if not (allowed.cpu or allowed.gpu) else 0.0
        self._figures = replace(
            figures,
            total_duration=figures.total_duration + seconds,
            total_active_duration=figures.total_active_duration + active,
            total_gpu_active_duration=figures.total_gpu_active_duration + gpu_active,
            session_active_duration=figures.session_active_duration + active,
            session_gpu_active_duration=figures.session_gpu_active_duration + gpu_active,
        )

    def clock_set_back(self, seconds: float) -> None:
        """Move the start along with a clock that was set back."""
        self._last -= seconds
        self._saved -= seconds
        self._figures = replace(self._figures, client_start_time=self._figures.client_start_time - seconds)

    def time_stats(self, core: ClientState, now: float) -> TimeStats:
        """Return the figures as projects are told."""
        times = core.host_times(now)
        return replace(
            self._figures,
            on_frac=times.on_frac,
            connected_frac=_UNKNOWN if times.connected_frac is None else times.connected_frac,
            cpu_and_network_available_frac=times.cpu_and_network_frac,
            active_frac=times.active_frac,
            gpu_active_frac=times.gpu_active_frac,
            now=now,
        )

    def save(self, core: ClientState, now: float, *, at_once: bool = False) -> None:
        """Keep the figures, now and then."""
        if at_once or not 0.0 <= now - self._saved < SAVE_EVERY:
            self._saved = now
            self._state.notes.time_stats = self.time_stats(core, now)
            self._state.keep_notes()

    def moved(self, nbytes: float, *, upload: bool, started: float, now: float) -> None:
        """Learn from a transfer that has ended."""
        stats = self._state.notes.net_stats
        if upload:
            rate = TransferRate(highest=stats.bwup, average=stats.avg_up, average_at=stats.avg_time_up)
            rate = after_transfer(rate, nbytes=nbytes, started=started, now=now)
            stats = replace(stats, bwup=rate.highest, avg_up=rate.average, avg_time_up=rate.average_at)
        else:
            rate = TransferRate(highest=stats.bwdown, average=stats.avg_down, average_at=stats.avg_time_down)
            rate = after_transfer(rate, nbytes=nbytes, started=started, now=now)
            stats = replace(stats, bwdown=rate.highest, avg_down=rate.average, avg_time_down=rate.average_at)
        self._state.notes.net_stats = stats


def known_times(stats: TimeStats) -> HostTimes | None:
    """Return what another client has measured here; None if there was none."""
    if not stats.total_start_time:
        return None
    return HostTimes(
        on_frac=_fraction(stats.on_frac),
        active_frac=_fraction(stats.active_frac),
        gpu_active_frac=_fraction(stats.gpu_active_frac),
        connected_frac=None if stats.connected_frac < 0 else _fraction(stats.connected_frac),
        cpu_and_network_frac=_fraction(stats.cpu_and_network_available_frac),
    )


def _fraction(stated: float) -> float:
    """Return a fraction that another client has written down; 1 where it is none."""
    return stated if 0.0 <= stated <= 1.0 else 1.0
