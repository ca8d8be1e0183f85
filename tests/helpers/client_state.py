"""A client's project with a few jobs, made by hand: for tests of what the daemon does without a server."""

from __future__ import annotations

from cobblestone.client.daemon import Client
from cobblestone.wire.client_records import JobRecord, JobState, ProjectContent
from cobblestone.wire.job_description import AppBlock, AppVersionBlock, FileRef, ResultBlock, WorkunitBlock

URL = "https://project.example.org/"
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
        project=content.project.master_url, result=result, received_time=received, state=JobState.DOWNLOADED
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
        **more,  # type: ignore[arg-type]
    )
