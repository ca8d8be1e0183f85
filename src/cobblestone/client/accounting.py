"""Estimated credit: run time times the peak speed of the devices that a job uses, whatever the project grants later.

It grows while jobs run, needs no project, and is what account managers of the family work with.  Source: BOINC's client,
``project.h`` (facts only); 200 cobblestones are a day of 1e9 operations per second.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cobblestone.client.app_versions import version_in_force
from cobblestone.client.state import State
from cobblestone.policy.client.rec import CREDIT_PER_FLOP
from cobblestone.wire.client_records import JobRecord, ProjectContent

MAX_GAP = 10.0
"""Seconds between two looks; a longer gap is a sleep, of which nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Peak speeds, in operations per second."""

    cpu: float
    gpus: dict[str, float]


class Accounting:
    """Adds up what runs."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._last = 0.0
        self._unsaved: dict[tuple[str, int, str], tuple[float, float]] = {}

    def passed(self, running: Iterable[tuple[ProjectContent, JobRecord]], speeds: Speeds, now: float) -> None:
        """Account for the time since the last call, in which these jobs ran."""
        seconds, self._last = now - self._last, now
        if not 0 < seconds <= MAX_GAP:
            return
        day = int(now // 86400)
        for content, job in running:
            version = version_in_force(content, job)
            if version is None:
                continue
            credit = content.project.credit
            cpu = seconds * version.avg_ncpus * speeds.cpu * CREDIT_PER_FLOP
            device = ""
            if version.coproc_type:
                device = version.coproc_type
                gpu = seconds * version.coproc_count * speeds.gpus.get(device, 0.0) * CREDIT_PER_FLOP
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
        """Mark what was added up for the next flush."""
        for (url, day, device), (credit, seconds) in self._unsaved.items():
            self._state.add_estimated(url, day, device, credit, seconds)
            if url in self._state.contents:
                self._state.put_project(self._state.contents[url].project)
        self._unsaved.clear()
