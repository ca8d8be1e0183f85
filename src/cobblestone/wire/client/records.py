"""A client's records of projects, files, jobs and running tasks: the vocabulary of its state file and of GUI RPC.

A client holds these records in memory and changes them; `client_objects` writes them in the form of the family.  Times are
Unix seconds, durations seconds, sizes bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

from cobblestone.domain.computing import AppConfig
from cobblestone.wire.project.pages import canonical_master_url
from cobblestone.wire.scheduler.host import MAX_TIME, Time
from cobblestone.wire.scheduler.job import (
    AppBlock,
    AppVersionBlock,
    FileInfo,
    FileRef,
    OutputFileInfo,
    ResultBlock,
    WorkunitBlock,
)
from cobblestone.wire.scheduler.reply import GuiUrl, HostBlock, RssFeed, UserBlock
from cobblestone.wire.text.table import Amount, Count, FlagField, Given, Inside, Number, Text, Whole

Flag = Annotated[bool, FlagField(content="")]
WrittenAmount = Annotated[float, Given(Number())]
WrittenCount = Annotated[int, Given(Whole())]
WrittenFlag = Annotated[bool, Given(FlagField(content=""))]
#: What a client says of itself, and does not read back.
WrittenText = Annotated[str, Given(Text(optional=True))]


class ClientJobState(IntEnum):
    """The stage of a job, with BOINC's numbers."""

    NEW = 0
    DOWNLOADING = 1
    DOWNLOADED = 2
    COMPUTE_ERROR = 3
    UPLOADING = 4
    UPLOADED = 5
    ABORTED = 6
    UPLOAD_FAILED = 7


class FileStatus(IntEnum):
    """The state of a file."""

    ABSENT = 0
    PRESENT = 1  #: complete and checked, or made by a job
    FAILED = -1  #: given up; ``error`` says why
    UPLOADED = 2


class RpcReason(IntEnum):
    """Why a scheduler is contacted, with BOINC's numbers."""

    NONE = 0
    USER = 1
    RESULTS_DUE = 2
    NEED_WORK = 3
    TRICKLE_UP = 4
    ACCOUNT_MANAGER = 5
    INIT = 6
    PROJECT = 7


@dataclass(slots=True, kw_only=True)
class EstimatedCredit:
    """Run time times peak speed of the devices used, in cobblestones; grows while jobs run."""

    cpu_ec: Amount = 0.0
    cpu_time: Amount = 0.0
    gpu_ec: Amount = 0.0
    gpu_time: Amount = 0.0


@dataclass(slots=True, kw_only=True)
class FileAnswer:
    """The answer to a project's question about a file, for the next contact."""

    file_name: str
    nonce: str
    answer: str


@dataclass(slots=True, kw_only=True)
class ProjectRecord:
    """A project that the client is attached to."""

    master_url: Annotated[str, Text(read=canonical_master_url)]
    authenticator: str
    project_name: Annotated[str, Text(255)] = ""
    scheduler_urls: tuple[str, ...] = ()
    code_sign_key: str = ""
    user: UserBlock = field(default_factory=lambda: UserBlock(id=0, name=""))
    host: HostBlock = field(default_factory=lambda: HostBlock(id=0))
    symstore: Annotated[str, Given(Text())] = ""
    rpc_seqno: Count = 0
    nrpc_failures: WrittenCount = 0
    master_fetch_failures: WrittenCount = 0
    min_rpc_time: WrittenAmount = 0.0  #: not asked before
    next_rpc_time: WrittenAmount = 0.0  #: asked at the latest; 0 = whenever
    rec: WrittenAmount = 0.0
    rec_time: WrittenAmount = 0.0
    resource_share: Annotated[float, Number(0.0, 1e9)] = 100.0
    share_from_manager: bool = False
    disk_usage: WrittenAmount = 0.0
    disk_share: WrittenAmount = 0.0
    desired_disk_usage: WrittenAmount = 0.0
    duration_correction_factor: Annotated[float, Number(0.0, 1e6)] = 1.0
    sched_priority: float = 0.0
    sched_rpc_pending: Annotated[RpcReason, Given(Whole())] = RpcReason.NONE
    scheduler_rpc_in_progress: bool = False
    backoff_time: dict[str, float] = field(default_factory=dict[str, float])  #: end, by device type
    backoff_interval: dict[str, float] = field(default_factory=dict[str, float])
    njobs_success: Count = 0
    njobs_error: Count = 0
    elapsed_time: Amount = 0.0
    last_rpc_time: Time = 0.0
    credit: EstimatedCredit = field(default_factory=EstimatedCredit)
    anonymous_platform: Flag = False
    master_url_fetch_pending: WrittenFlag = True
    trickle_up_pending: WrittenFlag = False
    trickle_up_urls: tuple[str, ...] = ()
    send_full_workload: WrittenFlag = False
    dont_use_dcf: Flag = False
    non_cpu_intensive: Flag = False
    strict_memory_bound: WrittenFlag = False
    suspended_via_gui: Flag = False
    dont_request_more_work: Flag = False
    detach_when_done: Flag = False
    ended: Flag = False
    asks_about_files: bool = True  #: its server may ask about stored files
    attached_via_acct_mgr: Flag = False
    no_rsc_ams: tuple[str, ...] = ()  #: device types that the account manager excludes
    no_rsc_apps: tuple[str, ...] = ()  #: device types for which the project has nothing
    no_rsc_pref: tuple[str, ...] = ()  #: device types that the project's preferences exclude
    project_preferences: str = ""  #: the whole element
    gui_urls: tuple[GuiUrl, ...] = ()
    rss_feeds: tuple[RssFeed, ...] = ()
    project_files: tuple[FileRef, ...] = ()
    project_files_downloaded_time: float = 0.0
    project_dir: str = ""
    email_addr: str = ""
    file_answer: FileAnswer | None = None


@dataclass(slots=True, kw_only=True)
class FileRecord:
    """A file of a project: to be downloaded, or made here and uploaded."""

    project: str
    name: str
    download: FileInfo | None = None
    upload: OutputFileInfo | None = None
    status: FileStatus = FileStatus.ABSENT
    nbytes: float = 0.0
    md5_cksum: str = ""
    wanted_upload: bool = False  #: its job has ended, or asked for the upload
    keep: bool = False  #: sticky
    own: bool = False  #: the volunteer's, of app_info.xml: never fetched, checked or removed
    error: str = ""
    num_retries: int = 0
    first_request_time: float = 0.0
    next_request_time: float = 0.0
    time_so_far: float = 0.0
    last_bytes_xferred: float = 0.0
    url_index: int = 0

    @property
    def urls(self) -> tuple[str, ...]:
        """Return the addresses to be tried in turn."""
        if self.upload is not None:
            return (self.upload.upload_url, *self.upload.other_upload_urls)
        return self.download.urls if self.download else ()

    @property
    def url(self) -> str:
        """Return the address to be tried now; empty if there is none."""
        return self.urls[self.url_index % len(self.urls)] if self.urls else ""


@dataclass(slots=True)
class TransferProgress:
    """The progress of a transfer, for display."""

    url: str
    offset: float = 0.0
    bytes: float = 0.0
    moved: int = 0  #: bytes over the network in this try
    started: float = 0.0


@dataclass(slots=True, kw_only=True)
class TaskFigures:
    """The figures of a job's process, or those at its last checkpoint."""

    #: the family's number: 0 none, 1 executing, 5 abort pending, 8 quit pending, 9 suspended
    state: Annotated[int, Given(Whole(element="active_task_state"))] = 0
    slot: Annotated[int, Whole(0, 100_000, default=0)] = -1
    pid: WrittenCount = 0
    scheduled: bool = False
    started: bool = False
    checkpoint_cpu_time: Time = 0.0
    checkpoint_elapsed_time: Time = 0.0
    checkpoint_fraction_done: Annotated[float, Number(0.0, 1.0)] = 0.0
    fraction_done: WrittenAmount = 0.0
    current_cpu_time: WrittenAmount = 0.0
    elapsed_time: WrittenAmount = 0.0
    swap_size: WrittenAmount = 0.0
    working_set_size: WrittenAmount = 0.0
    working_set_size_smoothed: WrittenAmount = 0.0
    progress_rate: float = 0.0
    too_large: WrittenFlag = False
    needs_network: bool = False
    web_graphics_url: WrittenText = ""
    remote_desktop_addr: WrittenText = ""


@dataclass(slots=True, kw_only=True)
class JobRecord:
    """A job, from its arrival to the project's acknowledgement."""

    project: Annotated[str, Given(Text(element="project_url"))]
    result: ResultBlock
    final_cpu_time: Time = 0.0
    final_elapsed_time: Time = 0.0
    final_peak_working_set_size: float = 0.0
    final_peak_swap_size: float = 0.0
    final_peak_disk_usage: float = 0.0
    intops_cumulative: float = 0.0
    exit_status: Annotated[int, Whole(-(2**31))] = 0
    state: Annotated[ClientJobState, Given(Whole())] = ClientJobState.NEW
    received_time: Time
    estimated_remaining: Annotated[float, Given(Number(element="estimated_cpu_time_remaining"))] = 0.0
    completed_time: Annotated[float, Number(high=MAX_TIME, optional=True)] = 0.0
    stderr: str = ""
    error_message: str = ""
    got_server_ack: WrittenFlag = False
    ready_to_report: Flag = False
    suspended_via_gui: Flag = False
    edf_scheduled: WrittenFlag = False
    waits_for: str = ""  #: why it does not run although it could, in words
    task: Annotated[TaskFigures, Inside()] = field(default_factory=TaskFigures)
    resources: WrittenText = ""  #: such as "1 CPU + 0.5 NVIDIA GPU (device 0)"
    devices: tuple[int, ...] = ()  #: GPU instances in use

    @property
    def name(self) -> str:
        """Return the result's name."""
        return self.result.name


@dataclass(slots=True, kw_only=True)
class DailyCredit:
    """A project's credit at the end of a day."""

    day: Time  #: Unix seconds of its beginning (UTC)
    user_total_credit: Amount
    user_expavg_credit: Amount
    host_total_credit: Amount
    host_expavg_credit: Amount


@dataclass(slots=True, kw_only=True)
class ProjectContent:
    """A project with all that belongs to it."""

    project: ProjectRecord
    apps: dict[str, AppBlock] = field(default_factory=dict[str, AppBlock])
    versions: list[AppVersionBlock] = field(default_factory=list[AppVersionBlock])
    workunits: dict[str, WorkunitBlock] = field(default_factory=dict[str, WorkunitBlock])
    files: dict[str, FileRecord] = field(default_factory=dict[str, FileRecord])
    jobs: dict[str, JobRecord] = field(default_factory=dict[str, JobRecord])
    app_config: AppConfig = field(default_factory=AppConfig)  #: what the volunteer's file says; not stored
    users: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Names of jobs by the files that they use or make; empty: to be worked out.  Not stored."""

    def version_of(self, job: JobRecord) -> AppVersionBlock | None:
        """Return the app version that a job runs with: number, platform and plan class decide."""
        workunit = self.workunits.get(job.result.wu_name)
        if workunit is None:
            return None
        key = (workunit.app_name, job.result.version_num, job.result.platform, job.result.plan_class)
        return next((version for version in self.versions if version.key == key), None)

    def users_of(self, file: str) -> list[JobRecord]:
        """Return the jobs that use a file or make it; whoever adds jobs or changes their files has to clear ``users``."""
        if not self.users:
            for job in self.jobs.values():
                unit, version = self.workunits.get(job.result.wu_name), self.version_of(job)
                for each in (job.result, unit, version):
                    for ref in each.file_refs if each else ():
                        self.users.setdefault(ref.file_name, []).append(job.name)
        return [self.jobs[name] for name in self.users.get(file, ()) if name in self.jobs]
