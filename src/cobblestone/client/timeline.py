"""What ran, and what will run: the past as it was seen, the future as the policy in force would have it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from cobblestone.client.decisions import Decisions, job_place
from cobblestone.client.state import State
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.forecast import PlannedRun, forecast

if TYPE_CHECKING:
    from cobblestone.client.daemon import Client

MAX_GAP = 10.0
"""Seconds between two looks; a longer gap is a sleep, in which nothing ran."""
KEPT = 7 * 86400.0
HORIZON = 24 * 3600.0
STEPS = 60_000
"""Steps of a forecast, for all jobs together: with many jobs it does not lead as far."""
FRESH = 30.0
"""Seconds for which a forecast is good."""


class Timeline:
    """Notes what runs, and keeps the last forecast."""

    def __init__(self, state: State) -> None:
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
        """Mark what was noted for the next flush."""
        for (begin, project, job), end in self._unsaved.items():
            self._state.add_run(project, job, begin, end)
        if self._unsaved:
            self._state.forget_runs(self._last - KEPT)
        self._unsaved.clear()

    async def plan(self, decisions: Decisions, now: float) -> list[PlannedRun]:
        """Return the forecast, made anew when it is old.  The work is done in a thread, on a copy of the core."""
        async with self._planning:
            if not 0 <= now - self._planned_at < FRESH:
                self._planned_at = now
                snapshot = msgspec.json.encode(decisions.core.snapshot())
                steps = max(1, STEPS // (30 + len(decisions.core.state.jobs)))
                self._plan = await asyncio.to_thread(_play, snapshot, now, steps)
        return self._plan


def _play(snapshot: bytes, now: float, steps: int) -> list[PlannedRun]:
    core = ClientCore.restore(msgspec.json.decode(snapshot), rng=random.Random(0))
    return forecast(core, now=now, horizon=HORIZON, most_steps=steps)


def in_lanes(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each run a lane (from 0), so that no two in a lane overlap: few lanes, and a job stays in its own."""
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


async def timeline_as_data(client: Client, hours: float) -> dict[str, Any]:
    """Return what ran in the last ``hours``, and what will run, each run with its lane."""
    now = client.clock()
    since = now - hours * 3600.0
    client.timeline.save()
    client.save()
    rows: list[dict[str, Any]] = [
        {"project": project, "job": job, "begin": max(begin, since), "end": end, "planned": False}
        for project, job, begin, end in client.state.runs(since)
    ]
    for run in await client.timeline.plan(client.decisions, now):
        project, job = job_place(run.job)
        found = client.jobs.find(run.job)
        row: dict[str, Any] = {
            "project": project,
            "job": job,
            "begin": run.begin,
            "end": run.end,
            "planned": True,
        }
        row |= {"finishes": run.finishes, "late": run.late}
        rows.append(row | {"deadline": found[1].result.report_deadline if found else None})
    return {"now": now, "runs": in_lanes(rows)}
