"""Measurements of the client: time, network speed, estimated credit, and the timeline of past and future runs.

What the client measures of itself over weeks: how much of the time it computes, and how fast the network is.

The fractions of time are the core's, which uses them; here they are put beside the seconds since the start and since the first
start, and kept for projects, account managers and managers.

Estimated credit: run time times the peak speed of the devices that a job uses, whatever the project grants later.

It grows while jobs run, needs no project, and is what account managers of the family work with.  Source: BOINC's client,
``project.h`` (facts only); 200 cobblestones are a day of 1e9 operations per second.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from cobblestone.client.records.app_versions import version_in_force
from cobblestone.client.records.decisions import CoreDriver
from cobblestone.client.records.state import ClientDatabase
from cobblestone.ops.policies import is_own, make_policy, watched
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.state import CoreState
from cobblestone.policy.client.core.values import HostDevices, HostTimes
from cobblestone.policy.client.forecast import PlannedRun, forecast
from cobblestone.policy.client.host.transfers import TransferRate, after_transfer
from cobblestone.policy.client.recent.rec import CREDIT_PER_FLOP
from cobblestone.wire.client.records import JobRecord, ProjectContent
from cobblestone.wire.scheduler.host import TimeStats

#: Seconds between two looks; a longer gap is a sleep, in which nothing ran.
MAX_GAP = 10.0
SAVE_EVERY = 60.0
_UNKNOWN = -1.0


class Measurements:
    """Elapsed times and transferred bytes.  Stored with the client's notes."""

    def __init__(self, state: ClientDatabase, started: float) -> None:
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

    def passed(self, core: CoreState, now: float) -> None:
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
        """Move the start back with a clock that was set back."""
        self._last -= seconds
        self._saved -= seconds
        self._figures = replace(self._figures, client_start_time=self._figures.client_start_time - seconds)

    def time_stats(self, core: CoreState, now: float) -> TimeStats:
        """Return the figures as reported to projects."""
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

    def save(self, core: CoreState, now: float, *, at_once: bool = False) -> None:
        """Store the figures at intervals."""
        if at_once or not 0.0 <= now - self._saved < SAVE_EVERY:
            self._saved = now
            self._state.notes.time_stats = self.time_stats(core, now)
            self._state.keep_notes()

    def moved(self, nbytes: float, *, upload: bool, started: float, now: float) -> None:
        """Learn from a finished transfer."""
        stats = self._state.notes.net_stats
        way = "up" if upload else "down"
        names = {"highest": f"bw{way}", "average": f"avg_{way}", "average_at": f"avg_time_{way}"}
        rate = TransferRate(**{each: getattr(stats, name) for each, name in names.items()})
        rate = after_transfer(rate, nbytes=nbytes, started=started, now=now)
        changes = {name: getattr(rate, each) for each, name in names.items()}
        self._state.notes.net_stats = replace(stats, **changes)


def known_times(stats: TimeStats) -> HostTimes | None:
    """Return the measurements of another client here; None if there was none."""
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
    """Return a fraction recorded by another client; 1 if it is invalid."""
    return stated if 0.0 <= stated <= 1.0 else 1.0


class RunAccounting:
    """Adds up the run times of jobs."""

    def __init__(self, state: ClientDatabase) -> None:
        self._state = state
        self._last = 0.0
        self._unsaved: dict[tuple[str, int, str], tuple[float, float]] = {}

    def passed(
        self, running: Iterable[tuple[ProjectContent, JobRecord]], devices: HostDevices, now: float
    ) -> None:
        """Account for the time since the last call, in which these jobs ran."""
        seconds, self._last = now - self._last, now
        if not 0 < seconds <= MAX_GAP:
            return
        day, peaks = int(now // 86400), {gpu.name: gpu.peak_flops for gpu in devices.gpus}
        for content, job in running:
            version = version_in_force(content, job)
            if version is None:
                continue
            credit = content.project.credit
            cpu = seconds * version.avg_ncpus * devices.cpu_flops * CREDIT_PER_FLOP
            device = ""
            if version.coproc_type:
                device = version.coproc_type
                gpu = seconds * version.coproc_count * peaks.get(device, 0.0) * CREDIT_PER_FLOP
                credit.gpu_ec += gpu
                credit.gpu_time += seconds * version.coproc_count
                self._add(content, day, device, gpu, seconds * version.coproc_count)
            credit.cpu_ec += cpu
            credit.cpu_time += seconds * version.avg_ncpus
            self._add(content, day, "", cpu, seconds * version.avg_ncpus)

    def _add(self, content: ProjectContent, day: int, device: str, credit: float, seconds: float) -> None:
        key = (content.project.master_url, day, device)
        before = self._unsaved.get(key, (0.0, 0.0))
        self._unsaved[key] = (before[0] + credit, before[1] + seconds)

    def save(self) -> None:
        """Mark the sums for the next flush."""
        for (url, day, device), (credit, seconds) in self._unsaved.items():
            self._state.add_estimated(url, day, device, credit, seconds)
            if url in self._state.contents:
                self._state.put_project(self._state.contents[url].project)
        self._unsaved.clear()


KEPT = 7 * 86400.0
HORIZON = 24 * 3600.0
#: Steps of a forecast, for all jobs together: with many jobs it does not lead as far.
STEPS = 60_000
#: Seconds within which a volunteer's own policy must make a forecast.
FORECAST_SECONDS = 30.0
#: Seconds for which a forecast is good.
FRESH = 30.0


class RunTimeline:
    """Records what runs, and keeps the last forecast."""

    def __init__(self, state: ClientDatabase) -> None:
        self._state = state
        self._last = 0.0
        self._since: dict[tuple[str, str], float] = {}
        self._unsaved: dict[tuple[float, str, str], float] = {}
        self._plan: list[PlannedRun] = []
        self._planned_at = 0.0
        self._planning = asyncio.Lock()

    def passed(self, running: Iterable[tuple[str, str]], now: float) -> None:
        """Note that these jobs (project and name) run now."""
        if not 0 < now - self._last <= MAX_GAP:
            self._since.clear()
        self._last = now
        self._since = {key: self._since.get(key, now) for key in running}
        for (project, job), begin in self._since.items():
            self._unsaved[begin, project, job] = now

    def save(self) -> None:
        """Mark the records for the next flush."""
        for (begin, project, job), end in self._unsaved.items():
            self._state.add_run(project, job, begin, end)
        if self._unsaved:
            self._state.forget_runs(self._last - KEPT)
        self._unsaved.clear()

    async def plan(self, decisions: CoreDriver, now: float) -> list[PlannedRun]:
        """Return the forecast, recomputed when it is old, in a thread and on a copy of the core."""
        async with self._planning:
            if not 0 <= now - self._planned_at < FRESH:
                self._planned_at = now
                snapshot = decisions.snapshot()
                steps = max(1, STEPS // (30 + len(decisions.core.state.jobs)))
                self._plan = await asyncio.to_thread(_play, snapshot, now, steps)
        return self._plan


def _play(snapshot: bytes, now: float, steps: int) -> list[PlannedRun]:
    plain = msgspec.json.decode(snapshot)

    def runs() -> list[PlannedRun]:
        core = ClientCore.restore(plain, rng=random.Random(0), make=make_policy)
        return forecast(core, now=now, horizon=HORIZON, most_steps=steps)

    try:
        return watched(plain["policy"], runs, seconds=FORECAST_SECONDS)
    except (Exception, SystemExit):
        if not is_own(plain["policy"]):
            raise
        return []  # its fault is told where it decides


def in_lanes(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Assign each run a lane (from 0), without overlaps in a lane: few lanes, and a job stays in its own."""
    ends: list[float] = []
    last: dict[str, int] = {}
    for run in runs:
        lane = last.get(run["job"], -1)
        if lane < 0 or ends[lane] > run["begin"]:
            free = (number for number, end in enumerate(ends) if end <= run["begin"])
            lane = next(free, len(ends))
        if lane == len(ends):
            ends.append(0.0)
        ends[lane] = run["end"]
        run["lane"] = last[run["job"]] = lane
    return list(runs)
