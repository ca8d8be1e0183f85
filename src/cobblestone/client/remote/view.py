"""What people and their programs see of the client: its parts, and what has to be put together from several of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cobblestone.client.projects.contacts import ContactPorts, Contacts
from cobblestone.client.projects.web import FeedReader
from cobblestone.client.records.app_versions import resources_in_words, version_in_force
from cobblestone.client.records.decisions import job_place
from cobblestone.client.records.measurements import RunTimeline, in_lanes
from cobblestone.domain.errors import NotFound
from cobblestone.policy.client.forecast import expected_left
from cobblestone.wire.client.records import JobRecord, ProjectContent


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientView(ContactPorts):
    """The parts of the client that its interfaces, its commands and contacts with the account manager use."""

    contacts: Contacts
    feeds: FeedReader
    timeline: RunTimeline
    started: float
    apply_conditions: Callable[[], None]  #: have preferences and the state of the computer take effect
    describe_projects: Callable[[], None]  #: tell the core what projects and their jobs are like now
    stop: Callable[[], None]  #: end the client

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
        """Return a job by its name, if need be behind its project's address.  Raises NotFound."""
        place, _, bare = name.rpartition("/")
        contents = self.state.contents.items()
        found = [(c, c.jobs[bare]) for url, c in contents if bare in c.jobs and place in ("", url[:-1])]
        if len(found) == 1:
            return found[0]
        where = " or ".join(job.project + bare for _, job in found)
        many = f"Several projects have a task {bare}. Say which one: {where}"
        raise NotFound(many if found else f"There is no task {name}. cobblestone client tasks lists them.")

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
