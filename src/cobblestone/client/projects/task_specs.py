"""Describe a job to the task runner: its files, command line, limits, and what it may know."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

from cobblestone.client.conditions.host import ReportedHost
from cobblestone.client.records.app_versions import version_in_force
from cobblestone.client.records.decisions import job_id
from cobblestone.client.records.folders import DataFolder
from cobblestone.client.records.identity import VERSION
from cobblestone.client.records.state import ClientDatabase
from cobblestone.client.sandbox.sandbox import LOWEST
from cobblestone.client.tasks.description import TaskInput, TaskLimits, TaskOutput, TaskSpec
from cobblestone.domain.apps import CONTAINER_CLASS
from cobblestone.domain.computing import ClientConfig
from cobblestone.domain.errors import JobError
from cobblestone.domain.values import form_of
from cobblestone.wire.client.records import JobRecord, ProjectContent
from cobblestone.wire.client.task_messages import InitData
from cobblestone.wire.scheduler.job import AppVersionBlock, FileRef, WorkunitBlock

#: Processes and threads of one job: far more than any needs, and few enough that the computer stays usable.
MAX_PROCESSES = 2000
MAX_ELAPSED_MIN = 120.0
MEMORY_SLACK, MEMORY_SLACK_BYTES = 2.0, 2.0**28


def make_task_spec(
    state: ClientDatabase,
    folders: DataFolder,
    facts: ReportedHost,
    content: ProjectContent,
    job: JobRecord,
    *,
    config: ClientConfig,
    checkpoint_seconds: float,
) -> TaskSpec:
    """Describe a job to the runner.  Raises JobError if its app version is gone."""
    version, workunit = version_in_force(content, job), content.workunits[job.result.wu_name]
    if version is None:
        raise JobError(f"{job.name} has no app version")
    folder = folders.project(job.project)
    main = next((ref for ref in version.file_refs if ref.main_program), version.file_refs[0])
    flops = version.flops or 1e9
    seconds = max(MAX_ELAPSED_MIN, workunit.rsc_fpops_bound / flops) if workunit.rsc_fpops_bound else 0.0
    return form_of(
        TaskSpec,
        job,
        version,
        config,
        name=job_id(job.project, job.name),
        result_name=job.name,
        project_url=job.project,
        project_dir=folder,
        main_program=main.file_name,
        arguments=(
            *shlex.split(workunit.command_line),
            *shlex.split(version.cmdline),
            *_device_words(version, job),
        ),
        inputs=_inputs(content, version, workunit, main, folder),
        outputs=_outputs(content, job),
        init=_init_data(state, facts, content, job, version, checkpoint_seconds),
        mapped=_api(version.api_version) >= (6, 0),
        uses_gpu=bool(version.coproc_type),
        in_container=CONTAINER_CLASS in version.plan_class and bool(facts.host.docker_version),
        niceness=_niceness(version, config),
        limits=TaskLimits(
            memory_bytes=_memory_limit(
                workunit.rsc_memory_bound, facts.host.m_nbytes, strict=content.project.strict_memory_bound
            ),
            disk_bytes=workunit.rsc_disk_bound,
            elapsed_seconds=seconds,
            processes=MAX_PROCESSES,
        ),
    )


def _inputs(
    content: ProjectContent, version: AppVersionBlock, workunit: WorkunitBlock, main: FileRef, folder: Path
) -> tuple[TaskInput, ...]:
    """Return the files that a job finds in its folder, without those that may be absent and are."""
    return tuple(
        TaskInput(
            open_name=ref.open_name or ref.file_name,
            physical_name=ref.file_name,
            copy=ref.copy_file,
            executable=_is_executable(content, ref.file_name),
        )
        for ref in (*version.file_refs, *workunit.file_refs)
        if (ref is not main or ref.open_name) and (not ref.optional or (folder / ref.file_name).exists())
    )


def _outputs(content: ProjectContent, job: JobRecord) -> tuple[TaskOutput, ...]:
    return tuple(
        TaskOutput(
            open_name=ref.open_name or ref.file_name,
            physical_name=ref.file_name,
            copy=ref.copy_file,
            max_nbytes=_bound(content, ref.file_name),
            optional=ref.optional,
            packed=_to_be_packed(content, ref.file_name),
        )
        for ref in job.result.file_refs
    )


def guessed_fraction(content: ProjectContent, job: JobRecord, elapsed: float) -> float:
    """Return how far a program that does not say so may be: 63 % at its estimated run time, and never all, as in the family."""
    workunit, version = content.workunits.get(job.result.wu_name), content.version_of(job)
    if workunit is None or version is None or min(workunit.rsc_fpops_est, version.flops) <= 0:
        return 0.0
    return -math.expm1(-max(0.0, elapsed) * version.flops / workunit.rsc_fpops_est)


def _memory_limit(bound: float, machine: float, *, strict: bool) -> float:
    """Return the bytes at which a job is ended: its bound with some slack, since most projects only estimate it."""
    if bound <= 0:
        return machine
    limit = bound if strict else max(MEMORY_SLACK * bound, bound + MEMORY_SLACK_BYTES)
    return min(machine or limit, limit)


def _init_data(
    state: ClientDatabase,
    facts: ReportedHost,
    content: ProjectContent,
    job: JobRecord,
    version: AppVersionBlock,
    checkpoint_seconds: float,
) -> InitData:
    project = content.project
    workunit = content.workunits[job.result.wu_name]
    manager = state.notes.manager
    total = sum(each.project.resource_share for each in state.contents.values())
    return form_of(
        InitData,
        workunit,
        job.result,
        facts,
        project.user,
        project,
        client_version=VERSION,
        app_version=job.result.version_num,
        user_id=project.user.id,
        host_id=project.host.id,
        user_name=project.user.name,
        acct_mgr_url=manager.url if manager else "",
        global_preferences=facts.preferences,
        user_total_credit=project.user.total_credit,
        user_expavg_credit=project.user.expavg_credit,
        host_total_credit=project.host.total_credit,
        host_expavg_credit=project.host.expavg_credit,
        resource_share_fraction=project.resource_share / total if total else 1.0,
        checkpoint_period=checkpoint_seconds,
        ncpus=version.avg_ncpus,
        gpu_type=version.coproc_type,
        gpu_device_num=job.devices[0] if job.devices else -1,
        gpu_usage=version.coproc_count,
        computation_deadline=job.result.report_deadline,
        app_files=tuple(ref.file_name for ref in version.file_refs),
    )


def _device_words(version: AppVersionBlock, job: JobRecord) -> list[str]:
    """Return the words that tell a program which GPUs it has; from API 7.5 on it reads that in ``init_data.xml``."""
    if not version.coproc_type or _api(version.api_version) >= (7, 5):
        return []
    return [word for number in job.devices for word in ("--device", str(number))]


def _niceness(version: AppVersionBlock, config: ClientConfig) -> int | None:
    """Return a job's niceness: the lowest priority, except for those that feed a device, wrappers, or less than a CPU."""
    if config.no_priority_change:
        return None
    special = bool(version.coproc_type) or version.is_wrapper or version.avg_ncpus < 1
    chosen = config.process_priority_special if special else config.process_priority
    return {0: LOWEST, 1: 10, 2: 0}.get(chosen, 10 if special else LOWEST)


def _bound(content: ProjectContent, name: str) -> float:
    file = content.files.get(name)
    return float(file.upload.max_nbytes) if file and file.upload else 0.0


def _to_be_packed(content: ProjectContent, name: str) -> bool:
    file = content.files.get(name)
    return bool(file and file.upload and file.upload.gzip_when_done)


def _is_executable(content: ProjectContent, name: str) -> bool:
    file = content.files.get(name)
    return bool(file and file.download and file.download.executable)


def _api(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) if part.isdecimal() else 0 for part in parts) if version else (0,)
