"""What people and their programs see of the client: its parts, and what has to be put together from several of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cobblestone.client.conditions.conditions import Conditions
from cobblestone.client.conditions.host import ReportedHost
from cobblestone.client.loop import Loop
from cobblestone.client.projects.contacts import Contacts
from cobblestone.client.projects.jobs import Jobs
from cobblestone.client.projects.transfers import Transfers
from cobblestone.client.records.app_versions import resources_in_words, version_in_force
from cobblestone.client.records.decisions import CoreDriver, job_place
from cobblestone.client.records.folders import DataFolder
from cobblestone.client.records.journal import Journal
from cobblestone.client.records.measurements import RunTimeline, in_lanes
from cobblestone.client.records.state import ClientDatabase
from cobblestone.client.remote.account_manager import ManagerContacts
from cobblestone.client.remote.control import ClientCommands
from cobblestone.domain.errors import NotFound
from cobblestone.policy.client.forecast import expected_left
from cobblestone.wire.client.records import JobRecord, ProjectContent


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientView:
    """The parts of the client that its interfaces read."""

    state: ClientDatabase
    folders: DataFolder
    journal: Journal
    conditions: Conditions
    transfers: Transfers
    jobs: Jobs
    contacts: Contacts
    decisions: CoreDriver
    timeline: RunTimeline
    loop: Loop
    facts: Callable[[], ReportedHost]
    started: float

    def contents(self) -> list[ProjectContent]:
        """Return all projects, with the figures of processes and of the core as they are now."""
        self.jobs.readings()
        for known in self.decisions.core.state.jobs:
            if found := self.jobs.find(known.id):
                content, job = found
                job.estimated_remaining, job.edf_scheduled = expected_left(known), known.edf
                version = version_in_force(content, job) if job.task.started else None
                job.resources = resources_in_words(version, job.devices) if version else ""
        self.contacts.look(self.loop.clock())
        return list(self.state.contents.values())

    def find_job(self, name: str) -> tuple[ProjectContent, JobRecord]:
        """Return a job by its name alone.  Raises NotFound."""
        for content in self.state.contents.values():
            if name in content.jobs:
                return content, content.jobs[name]
        raise NotFound(f"There is no task {name}. cobblestone client tasks lists them.")

    async def runs(self, hours: float) -> dict[str, Any]:
        """Return what ran in the last ``hours``, and what will run by the policy's own forecast, each run with its lane."""
        now = self.loop.clock()
        since = now - hours * 3600.0
        self.timeline.save()
        self.loop.save()
        rows: list[dict[str, Any]] = [
            {"project": project, "job": job, "begin": max(begin, since), "end": end, "planned": False}
            for project, job, begin, end in self.state.runs(since)
        ]
        for run in await self.timeline.plan(self.decisions, now):
            project, job = job_place(run.job)
            found = self.jobs.find(run.job)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """All by which the interfaces show and control the client."""

    view: ClientView
    control: ClientCommands
    manager: ManagerContacts
