"""Jobs between their arrival and their report: files, slots, processes, outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from cobblestone.client.conditions.host import ReportedHost
from cobblestone.client.projects.http import check_file, partial_path
from cobblestone.client.projects.scheduler_reply import missing_files, needed_files
from cobblestone.client.projects.task_specs import guessed_fraction, make_task_spec
from cobblestone.client.projects.transfers import Transfers
from cobblestone.client.records.decisions import job_id, job_place
from cobblestone.client.records.folders import DataFolder
from cobblestone.client.records.journal import Journal
from cobblestone.client.records.state import ClientDatabase
from cobblestone.client.tasks.description import (
    Checkpointed,
    Ended,
    Notice,
    Started,
    TaskEvent,
    TrickleUp,
    UploadWanted,
)
from cobblestone.client.tasks.runner import Runner
from cobblestone.domain.computing import ClientConfig
from cobblestone.domain.errors import JobError
from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.values import Reading
from cobblestone.policy.client.host.tasks import Ending
from cobblestone.wire.client.records import ClientJobState, FileRecord, FileStatus, JobRecord, ProjectContent

DOWNLOAD_FAILED = -186
MAX_TRICKLE = 64 * 1024


@dataclass(eq=False, kw_only=True)
class Jobs:
    """Carries out the core's instructions about jobs, and reports what happens to them."""

    state: ClientDatabase
    folders: DataFolder
    journal: Journal
    transfers: Transfers
    clock: Callable[[], float]
    post: Callable[[ev.Event], None]
    facts: Callable[[], ReportedHost]

    def __post_init__(self) -> None:
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._checked: set[tuple[str, str]] = set()
        self._wanted: set[str] = set()  # identities of jobs that ought to run now
        self._gone: dict[str, asyncio.Event] = {}  # of tasks whose end is waited for
        self.checkpoint_seconds = 60.0
        self.config = ClientConfig()
        #: files to be removed once the state that knows them no more is on disk
        self.unneeded: list[Path] = []
        self.runner: Runner | None = None  #: set by the daemon when it has found out how to run jobs

    def _runner(self) -> Runner:
        if self.runner is None:
            raise JobError("no jobs can be run yet")
        return self.runner

    def find(self, identity: str) -> tuple[ProjectContent, JobRecord] | None:
        """Return the records of a job, unless it has been removed."""
        project, name = job_place(identity)
        content = self.state.contents.get(project)
        job = content.jobs.get(name) if content else None
        return (content, job) if content is not None and job is not None else None

    # -- orders of the core -----------------------------------------------------------------------------

    def start(self, identity: str, instances: tuple[int, ...]) -> None:
        """Start or resume a job."""
        self._wanted.add(identity)
        found = self.find(identity)
        if found is None or identity in self._starting:
            return
        content, job = found
        job.task.scheduled = True
        if job.task.pid and job.devices == instances:
            self._runner().resume(identity)
            return
        job.devices = instances
        if job.task.slot < 0:
            job.task.slot = self._free_slot()
        self.state.put_job(job)
        self._starting[identity] = asyncio.create_task(self._start(identity, content, job))

    async def _start(self, identity: str, content: ProjectContent, job: JobRecord) -> None:
        try:
            self.state.flush()  # the slot is known before anything is in it
            problem = await asyncio.to_thread(self._check_inputs, content, job)
            if problem:
                self._failed_before_start(content, job, problem)
                return
            if identity in self._wanted:
                spec = make_task_spec(
                    self.state,
                    self.folders,
                    self.facts(),
                    content,
                    job,
                    config=self.config,
                    checkpoint_seconds=self.checkpoint_seconds,
                )
                await self._runner().start(spec, job.task.slot)
        finally:
            self._starting.pop(identity, None)
        if identity not in self._wanted and job.task.pid:
            self._runner().quit(identity)
        elif identity not in self._wanted and not job.ready_to_report:
            self.post(ev.TaskStopped(self.clock(), identity))

    def suspend(self, identity: str) -> None:
        """Suspend a job and leave it in memory."""
        self._wanted.discard(identity)
        if found := self.find(identity):
            found[1].task.scheduled = False
            self._runner().suspend(identity)

    def quit(self, identity: str, patience: float = 0.0) -> None:
        """Remove a job from memory."""
        self._wanted.discard(identity)
        found = self.find(identity)
        if found:
            found[1].task.scheduled = False
        if found and found[1].task.pid:
            self._runner().quit(identity, patience)
        elif identity not in self._starting:
            self.post(ev.TaskStopped(self.clock(), identity))

    def abort(self, identity: str, exit_status: int, words: str) -> None:
        """Abort a job."""
        self._wanted.discard(identity)
        found = self.find(identity)
        if found is None:
            return
        content, job = found
        if job.task.pid:
            self._runner().abort(identity, exit_status, words)
            return
        job.state, job.exit_status, job.error_message = ClientJobState.ABORTED, exit_status, words
        self._close(content, job, uploading=False, failed=True)

    def no_processes(self) -> None:
        """Record that no job is in memory: those of an earlier client, which may have been killed, were ended."""
        for content in self.state.contents.values():
            for job in content.jobs.values():
                job.task.pid, job.task.state, job.task.scheduled = 0, 0, False

    def computing(self) -> list[tuple[ProjectContent, JobRecord]]:
        """Return the jobs running at this moment."""
        found = ((content, job) for content in self.state.contents.values() for job in content.jobs.values())
        return [each for each in found if each[1].task.pid and each[1].task.scheduled]

    async def end_all(self, content: ProjectContent, exit_status: int, words: str) -> None:
        """Abort all jobs of a project that are in memory, and wait until their processes are gone."""
        names = [job_id(job.project, job.name) for job in content.jobs.values() if job.task.pid]
        self._gone |= {name: asyncio.Event() for name in names}
        for name in names:
            self._runner().abort(name, exit_status, words)
        await asyncio.gather(*(self._gone[name].wait() for name in names))
        for name in names:
            del self._gone[name]

    def readings(self) -> tuple[Reading, ...]:
        """Return the last reports of running tasks, and update the records."""
        if self.runner is None:
            return ()
        readings: list[Reading] = []
        for identity, seen in self.runner.tasks.items():
            found = self.find(identity)
            if found is None:
                continue
            task = found[1].task
            task.pid, task.state = seen.process.pid, int(seen.state)
            task.current_cpu_time, task.elapsed_time = seen.cpu_time, seen.elapsed
            task.fraction_done = seen.fraction_done or guessed_fraction(*found, seen.elapsed)
            task.checkpoint_cpu_time = seen.checkpoint_cpu_time
            task.checkpoint_elapsed_time = seen.checkpoint_elapsed
            task.checkpoint_fraction_done = seen.checkpoint_fraction
            task.working_set_size, task.swap_size = seen.usage.resident, seen.usage.virtual
            task.working_set_size_smoothed = seen.working_set_smoothed
            task.progress_rate = seen.fraction_done / seen.elapsed if seen.elapsed > 0 else 0.0
            task.web_graphics_url, task.remote_desktop_addr = seen.graphics
            found[1].final_peak_disk_usage = max(found[1].final_peak_disk_usage, seen.disk_usage)
            found[1].final_peak_swap_size = max(found[1].final_peak_swap_size, seen.usage.virtual)
            readings.append(
                Reading(
                    job=identity,
                    elapsed=seen.elapsed,
                    fraction_done=seen.fraction_done or None,
                    checkpointed_at=seen.checkpoint_at or None,
                    working_set=seen.working_set_smoothed,
                    swap=seen.usage.virtual,
                    cpu_time=seen.cpu_time,
                )
            )
        return tuple(readings)

    # -- what is told to a job --------------------------------------------------------------------------

    def _free_slot(self) -> int:
        taken = {job.task.slot for content in self.state.contents.values() for job in content.jobs.values()}
        return next(number for number in range(len(taken) + 1) if number not in taken)

    def _check_inputs(self, content: ProjectContent, job: JobRecord) -> str:
        """Return the error in a job's files; programs and inputs are checked again before first use."""
        folder = self.folders.project(job.project)
        for name in needed_files(content, job):
            file = content.files.get(name)
            if file is None or file.download is None or file.own:
                continue  # made on this computer, or the volunteer's
            program = bool(file.download.executable or file.download.file_signature)
            if not program and (job.project, name) in self._checked:
                continue
            problem = check_file(folder / name, file.download, content.project.code_sign_key)
            if problem:
                return problem
            self._checked.add((job.project, name))
        return ""

    # -- what jobs tell ---------------------------------------------------------------------------------

    def told(self, event: TaskEvent) -> None:
        """Handle an event from the runner."""
        found, identity = self.find(event.name), event.name
        if found is None:
            return
        content, job = found
        match event:
            case Started():
                job.task.started, job.task.pid, job.task.slot = True, event.pid, event.slot
                job.waits_for = ""
                verb = "Restarting" if event.resumed else "Starting"
                self.journal.say(f"{verb} task {job.name}", job.project, flag="task")
                self.state.put_job(job)
            case Checkpointed():
                task = job.task
                task.checkpoint_cpu_time, task.checkpoint_elapsed_time = event.cpu_time, event.elapsed
                task.checkpoint_fraction_done = event.fraction_done
                self.state.put_job(job)
                self.post(ev.JobCheckpointed(self.clock(), identity, event.elapsed))
            case TrickleUp():
                self._trickle(job, event)
            case UploadWanted():
                file = content.files.get(event.file.physical_name)
                if file is not None and file.status is FileStatus.UPLOADED:  # before the client was killed
                    self._uploaded(content, file)
                elif file is not None and file.upload is not None:
                    self._want_upload(file, event.file.nbytes, event.file.md5)
            case Notice():
                self.journal.say(event.text, job.project, 2 if event.important else 1)
            case Ended():
                if identity in self._gone:
                    self._gone[identity].set()
                self._ended(identity, content, job, event)

    def _trickle(self, job: JobRecord, event: TrickleUp) -> None:
        try:
            text = event.path.read_bytes()[:MAX_TRICKLE].decode("utf-8", "replace")
        except OSError as error:
            self.journal.say(f"A message of {job.name} cannot be read: {error.strerror}", job.project)
            return
        self.state.add_trickle(job.project, job.name, self.clock(), event.variety, text)
        self.state.flush()
        event.path.unlink(missing_ok=True)
        self.post(ev.ContactAsked(self.clock(), job.project, "trickle"))

    def _ended(self, identity: str, content: ProjectContent, job: JobRecord, event: Ended) -> None:
        task = job.task
        task.pid, task.state = 0, 0
        task.elapsed_time, task.current_cpu_time = event.elapsed, event.cpu_time
        job.final_elapsed_time, job.final_cpu_time = event.elapsed, event.cpu_time
        job.final_peak_working_set_size = max(job.final_peak_working_set_size, event.peak_working_set)
        job.intops_cumulative = event.intops_cumulative
        now = self.clock()
        match event.ending:
            case Ending.STOPPED | Ending.RESTART:
                if event.ending is Ending.RESTART:
                    self.journal.say(
                        f"Task {job.name} ended too early: {event.text}. It will be restarted", job.project
                    )
                self.state.put_job(job)
                self.post(ev.TaskStopped(now, identity))
                if event.ending is Ending.RESTART and event.delay_seconds:
                    self.post(ev.JobDeferred(now, identity, now + event.delay_seconds))
            case Ending.POSTPONED:
                job.waits_for = event.text
                self.journal.say(
                    f"Task {job.name} asks for a pause of {event.delay_seconds:.0f} s: {event.text}",
                    job.project,
                    2 if event.as_notice else 1,
                )
                self.state.put_job(job)
                self.post(ev.JobDeferred(now, identity, now + event.delay_seconds))
            case Ending.FINISHED:
                self._finished(content, job, event)
            case Ending.FAILED | Ending.ABORTED:
                aborted = event.ending is Ending.ABORTED
                job.state = ClientJobState.ABORTED if aborted else ClientJobState.COMPUTE_ERROR
                job.exit_status, job.error_message = event.exit_status, event.text
                job.stderr = event.stderr.decode("utf-8", "replace")
                self._close(content, job, uploading=False, failed=True)

    def _finished(self, content: ProjectContent, job: JobRecord, event: Ended) -> None:
        job.exit_status, job.stderr = 0, event.stderr.decode("utf-8", "replace")
        job.task.fraction_done = 1.0
        produced = {output.physical_name: output for output in event.outputs}
        for ref in job.result.file_refs:
            file, output = content.files.get(ref.file_name), produced.get(ref.file_name)
            if file is not None and output is not None and file.status is not FileStatus.UPLOADED:
                self._want_upload(file, output.nbytes, output.md5)
        uploading = self._uploads_left(content, job)
        job.state = ClientJobState.UPLOADING if uploading else ClientJobState.UPLOADED
        self.journal.say(f"Computation for task {job.name} finished", job.project, flag="task")
        self._close(content, job, uploading=uploading, failed=False)

    def _want_upload(self, file: FileRecord, nbytes: int, md5: str) -> None:
        file.nbytes, file.md5_cksum, file.wanted_upload = float(nbytes), md5, True
        file.status = FileStatus.PRESENT
        self.state.put_file(file)
        self.transfers.want(file)

    def _uploads_left(self, content: ProjectContent, job: JobRecord) -> bool:
        files = (content.files.get(ref.file_name) for ref in job.result.file_refs)
        return any(f is not None and f.wanted_upload and f.status is FileStatus.PRESENT for f in files)

    def _close(self, content: ProjectContent, job: JobRecord, *, uploading: bool, failed: bool) -> None:
        """Record that the job's computing is over."""
        identity = job_id(job.project, job.name)
        self._wanted.discard(identity)
        job.completed_time = self.clock()
        job.ready_to_report = not uploading
        slot, job.task.slot = job.task.slot, -1
        job.task.started = job.task.scheduled = False
        project = content.project
        if failed:
            project.njobs_error += 1
            self.journal.say(f"Task {job.name} failed: {job.error_message}", job.project)
        else:
            project.njobs_success += 1
        project.elapsed_time += job.final_elapsed_time
        self.state.put_project(project)
        self.state.put_job(job)
        kind = ev.JobFailed if failed else ev.JobFinished
        self.post(kind(self.clock(), identity, job.final_elapsed_time, uploading))
        if slot >= 0:
            asyncio.create_task(self._runner().discard(slot))  # noqa: RUF006  # emptying may be left to the next start

    def _failed_before_start(
        self,
        content: ProjectContent,
        job: JobRecord,
        problem: str,
        state: ClientJobState = ClientJobState.COMPUTE_ERROR,
    ) -> None:
        job.state, job.exit_status, job.error_message = state, DOWNLOAD_FAILED, problem
        self._close(content, job, uploading=False, failed=True)

    # -- files ------------------------------------------------------------------------------------------

    def fetch_missing(self, content: ProjectContent) -> None:
        """Start all transfers that jobs and the project wait for, in both directions."""
        for job in content.jobs.values():
            if _waits_for_files(job):
                for file in missing_files(content, job):
                    if file.status is FileStatus.ABSENT:
                        self.transfers.want(file)
        for ref in content.project.project_files:
            file = content.files.get(ref.file_name)
            if file is not None and file.status is FileStatus.ABSENT and file.download is not None:
                self.transfers.want(file)
        for file in content.files.values():
            if file.upload is not None and file.wanted_upload and file.status is FileStatus.PRESENT:
                self.transfers.want(file)

    def transferred(self, file: FileRecord) -> None:
        """Record the end of a transfer, successful or not."""
        content = self.state.contents.get(file.project)
        if content is None:
            return
        if file.upload is not None:
            self._uploaded(content, file)
            return
        for job in content.users_of(file.name):
            if not _waits_for_files(job) or file.name not in needed_files(content, job):
                continue
            if file.status is FileStatus.FAILED:
                words = (
                    "WU download error: couldn't get input files:\n<file_xfer_error>\n"
                    f"  <file_name>{file.name}</file_name>\n  <error_code>{file.error}</error_code>\n</file_xfer_error>\n"
                )
                self._failed_before_start(content, job, words, ClientJobState.DOWNLOADING)
            elif not missing_files(content, job):
                job.state = ClientJobState.DOWNLOADED
                self.state.put_job(job)
                self.post(ev.JobReady(self.clock(), job_id(job.project, job.name)))

    def _uploaded(self, content: ProjectContent, file: FileRecord) -> None:
        for job in content.users_of(file.name):
            for ref in job.result.file_refs:
                if ref.file_name == file.name and job.task.pid:
                    status = 0 if file.status is FileStatus.UPLOADED else -1
                    self._runner().upload_done(
                        job_id(job.project, job.name), ref.open_name or ref.file_name, status
                    )
            if job.state is ClientJobState.UPLOADING and not self._uploads_left(content, job):
                job.state, job.ready_to_report = ClientJobState.UPLOADED, True
                self.state.put_job(job)
                self.post(ev.JobUploaded(self.clock(), job_id(job.project, job.name)))

    def forget(self, content: ProjectContent, jobs: Iterable[JobRecord]) -> None:
        """Remove reported jobs, and files that are no longer needed."""
        for job in jobs:
            content.jobs.pop(job.name, None)
            self.state.drop("job", job.project, job.name)
        self.collect_garbage(content)

    def collect_garbage(self, content: ProjectContent) -> None:
        """Remove workunits, old versions and files that are no longer needed."""
        url = content.project.master_url
        units = {job.result.wu_name for job in content.jobs.values()}
        for name in [name for name in content.workunits if name not in units]:
            del content.workunits[name]
            self.state.drop("workunit", url, name)
        used = {version for job in content.jobs.values() if (version := content.version_of(job))}
        latest: dict[tuple[str, str, str], int] = {}
        for version in content.versions:
            place = (version.app_name, version.platform, version.plan_class)
            latest[place] = max(latest.get(place, 0), version.version_num)
        for version in list(content.versions):
            place = (version.app_name, version.platform, version.plan_class)
            outdated = version.version_num < latest[place] and not content.project.anonymous_platform
            if outdated and version not in used:
                content.versions.remove(version)
                self.state.drop_version(url, version)
        needed = {ref.file_name for version in content.versions for ref in version.file_refs}
        needed |= {ref.file_name for unit in content.workunits.values() for ref in unit.file_refs}
        needed |= {ref.file_name for job in content.jobs.values() for ref in job.result.file_refs}
        needed |= {ref.file_name for ref in content.project.project_files}
        gone = [
            file for name, file in content.files.items() if name not in needed and not (file.keep or file.own)
        ]
        for file in gone:
            del content.files[file.name]
            self._checked.discard((url, file.name))
            self.state.drop("file", url, file.name)
            self.transfers.forget(url, file.name)
            path = self.folders.project(url) / file.name
            self.unneeded += [path, partial_path(path), partial_path(path, compressed=True)]


def _waits_for_files(job: JobRecord) -> bool:
    return job.state in (ClientJobState.NEW, ClientJobState.DOWNLOADING) and not job.ready_to_report
