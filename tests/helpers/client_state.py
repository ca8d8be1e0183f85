"""A client's project with a few jobs, made by hand: for tests of what the daemon does without a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.helpers.daemon_in_test import make_client

from cobblestone.client.daemon.daemon import Client
from cobblestone.client.projects.task_specs import make_task_spec
from cobblestone.client.tasks.description import TaskSpec
from cobblestone.policy.client.core.events import HostOn
from cobblestone.policy.client.core.state import ClientJob
from cobblestone.wire.client.records import ClientJobState, JobRecord, ProjectContent
from cobblestone.wire.scheduler.job import AppBlock, AppVersionBlock, FileRef, ResultBlock, WorkunitBlock

URL = "https://project.example.org/"
APP_CONFIG = "projects/project.example.org/app_config.xml"
FAR = 4e9


def attach_with_jobs(client: Client, *versions: AppVersionBlock, jobs: int = 2) -> ProjectContent:
    """Attach a project; of each app version there are some jobs, whose files are here."""
    content = client.contacts.attach(URL, "a_key")
    for version in versions:
        content.versions.append(version)
        content.apps[version.app_name] = AppBlock(name=version.app_name)
        for number in range(jobs):
            add_job(content, version, f"{version.app_name}_{number}", client.clock())
    return content


def add_job(content: ProjectContent, version: AppVersionBlock, name: str, received: float) -> JobRecord:
    content.workunits[name] = WorkunitBlock(
        name=name,
        app_name=version.app_name,
        rsc_fpops_est=3.6e12,
        rsc_fpops_bound=1e18,
        rsc_memory_bound=1e6,
        rsc_disk_bound=1e6,
        command_line="--size 3",
    )
    result = ResultBlock(
        name=f"{name}_r",
        wu_name=name,
        platform=version.platform,
        version_num=version.version_num,
        plan_class=version.plan_class,
        report_deadline=FAR,
    )
    job = JobRecord(
        project=content.project.master_url,
        result=result,
        received_time=received,
        state=ClientJobState.DOWNLOADED,
    )
    content.jobs[job.name] = job
    return job


def version(app: str, plan_class: str = "", **more: object) -> AppVersionBlock:
    return AppVersionBlock(
        app_name=app,
        version_num=100,
        platform="x86_64-pc-linux-gnu",
        plan_class=plan_class,
        file_refs=(FileRef(file_name=f"{app}_program", main_program=True),),
        **more,  # type: ignore[arg-type]  # fields that exist
    )


class World:
    """A client with one project, driven by hand: nothing is started."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.client: Client = make_client(folder, clock, ncpus=8)
        self.client.conditions.read_files()
        self.content: ProjectContent = self.client.state.contents.get(URL) or attach_with_jobs(
            self.client,
            version("wide", "mt", avg_ncpus=8.0, cmdline="--threads 8"),
            version("gpu", "cuda", avg_ncpus=1.0, coproc_type="NVIDIA", coproc_count=1.0),
        )
        self.client.post(HostOn(self.client.clock()))
        self.client._tell_core_of_everything()
        self.look()

    def look(self) -> None:
        """Read what has changed, as the daemon does every ten seconds."""
        if self.client.conditions._looks() != self.client.conditions._stamp:
            self.client.conditions.read_files()
        self.client.apply_conditions()
        self.client.drain()

    def write(self, name: str, text: str) -> None:
        """Write a file of the data directory."""
        (self.client.folders.root / name).write_text(text)
        self.look()

    def remove(self, name: str) -> None:
        (self.client.folders.root / name).unlink()
        self.look()

    def known(self, name: str) -> ClientJob:
        return self.client.decisions.core.state.by_id[f"{URL}|{name}"]

    def spec(self, name: str) -> TaskSpec:
        client = self.client
        return make_task_spec(
            client.state,
            client.folders,
            client.facts(),
            self.content,
            self.content.jobs[name],
            config=client.conditions.config,
            checkpoint_seconds=60.0,
        )


def play(
    folder: Path, check: Callable[[World], Awaitable[None] | None], clock: Callable[[], float] = time.time
) -> None:
    """Have something checked in a world, inside of an event loop."""

    async def inside() -> None:
        world = World(folder / "own", clock)
        try:
            checking = check(world)
            if checking is not None:
                await checking
        finally:
            await world.client.transfers.close()
            await world.client.connections.close()
            world.client.state.close()

    asyncio.run(inside())
