"""Apps, their versions, and stored files: inputs of jobs and files of app versions."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from cobblestone.api_schema.values import Body, FileName, Line, Part, Query, Reply
from cobblestone.domain.job_form import MAX_WORDS
from cobblestone.domain.work import JobLimits, ReplicationRules


class StoredFile(Reply, frozen=True):
    """A stored file."""

    name: str  #: physical name: what jobs and app versions refer to
    nbytes: int
    md5: str


class PutQuery(Query, frozen=True):
    """The name of the file."""

    name: Line = ""  #: empty: jf_<sha256>; else a readable name is made of it and the hash


class FileQuery(Body, frozen=True):
    """Physical names to look up."""

    names: Annotated[list[FileName], msgspec.Meta(max_length=10_000)]


class FileQueryReply(Reply, frozen=True):
    """Which of the files exist.  They are kept for the grace period."""

    present: list[StoredFile]
    missing: list[str]


AppName = Annotated[str, msgspec.Meta(min_length=1, max_length=60, pattern=r"\A[A-Za-z0-9][A-Za-z0-9_\-]*\Z")]
Platform = Annotated[str, msgspec.Meta(min_length=1, max_length=80, pattern=r"\A[A-Za-z0-9_.\-]+\Z")]
Word = Annotated[str, msgspec.Meta(max_length=4000, pattern=r"\A[^\x00]*\Z")]
CommandLine = Annotated[str, msgspec.Meta(max_length=4000, pattern=r"\A[^\x00-\x1f\x7f]*\Z")]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e24)]
Seconds = Annotated[float, msgspec.Meta(ge=60, le=10 * 365 * 86400)]
Nbytes = Annotated[int, msgspec.Meta(gt=0, le=10**13)]
Few = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Some = Annotated[int, msgspec.Meta(ge=0, le=1000)]
ClientVersion = Annotated[int, msgspec.Meta(ge=0, le=10**7)]


Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
MaxJobs = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class LimitsBody(Body, frozen=True):
    """Estimates and hard limits of a job; omitted ones keep their default."""

    rsc_fpops_est: Positive | None = None
    rsc_fpops_bound: Positive | None = None
    rsc_memory_bound: Positive | None = None
    rsc_disk_bound: Positive | None = None
    delay_bound: Seconds | None = None
    rsc_bandwidth_bound: Amount | None = None  #: bytes per second that a computer must download with; 0: any


class RulesBody(Body, frozen=True):
    """How many results of a job are created, needed and allowed; omitted ones follow from ``min_quorum``."""

    min_quorum: Few = 1
    target_nresults: Few | None = None
    max_error_results: Some | None = None
    max_total_results: Few | None = None
    max_success_results: Few | None = None


class ComparisonBody(Body, frozen=True):
    """How outputs of two computers are compared."""

    kind: str = "bitwise"  # bitwise, numeric, trivial, python, or one of an installed package
    options: dict[Annotated[str, msgspec.Meta(max_length=40)], float | Line] = msgspec.field(
        default_factory=dict[str, float | str]
    )


class OutputBody(Body, frozen=True):
    """An output file of every job."""

    name: FileName
    max_nbytes: Nbytes = 50_000_000
    gzip: bool = False
    optional: bool = False
    copy_file: bool = True


class InputSlotBody(Body, frozen=True):
    """An input file of every job of a native program."""

    name: FileName
    open_name: Annotated[str, msgspec.Meta(max_length=200, pattern=r"\A[A-Za-z0-9_\-.~]*\Z")] = ""
    copy_file: bool = True
    sticky: bool = False


class VersionFileBody(Body, frozen=True):
    """A file of an app version; it must already be stored."""

    file: FileName  #: physical name
    open_name: FileName
    executable: bool = False
    main_program: bool = False
    copy_file: bool = False
    signature: Annotated[str, msgspec.Meta(max_length=2000)] = ""


class DispatchBody(Body, frozen=True, kw_only=True):
    """Who gets the jobs of an app, and how many; omitted members keep their value.  0: no rule of its own."""

    #: version numbers below are not used
    min_version: Annotated[int, msgspec.Meta(ge=0, le=10**6)] | None = None
    non_cpu_intensive: bool | None = None  #: one job on each computer at all times, beside all others
    #: results of a job go to like computers
    homogeneous_redundancy: Literal["none", "fine", "coarse"] | None = None
    homogeneous_app_version: bool | None = None  #: … and use one app version
    adaptive: bool | None = None  #: trusted computers compute jobs alone, with spot checks; needs a quorum
    max_jobs_on_host: MaxJobs | None = None
    max_jobs_in_progress: MaxJobs | None = None  #: per CPU
    max_gpu_jobs_in_progress: MaxJobs | None = None  #: per GPU
    max_jobs_per_rpc: MaxJobs | None = None
    max_jobs_per_day_init: MaxJobs | None = None
    locality: bool | None = None  #: jobs go first to computers that have one of their sticky files
    #: speeds (FLOPS, ascending) that separate classes of computers; [] for none
    size_classes: Annotated[list[Positive], msgspec.Meta(max_length=20)] | None = None
    #: instead: so many classes of equally many of the known computers
    size_class_count: Annotated[int, msgspec.Meta(ge=1, le=21)] | None = None
    #: what its jobs are about and where they come from, as numbers of the family's list; [] for nothing
    keywords: Annotated[list[int], msgspec.Meta(max_length=60)] | None = None


class CreditBody(Body, frozen=True, kw_only=True):
    """How an app's results are credited; omitted members keep their value."""

    #: see /credit/systems; of a new app steady
    system: Annotated[str, msgspec.Meta(max_length=60)] | None = None
    per_job: Amount | None = None  #: system "fixed": of a job that names no amount
    host_scale_check: bool | None = None  #: credit scales of hosts only when proven
    partial: bool | None = None  #: trickle messages of running jobs bring provisional credit
    per_cpu_second: Amount | None = None  #: system "counted": for what cannot count
    #: system "assigned": FILE.py:function
    function: Annotated[str, msgspec.Meta(max_length=300)] | None = None


class AppChanges(Body, frozen=True):
    """Changes to an app; omitted members keep their value.  Existing jobs keep theirs."""

    title: Line | None = None
    deprecated: bool | None = None
    beta: bool | None = None
    show_outputs: bool | None = None  #: volunteers may have the answers that their computers found
    command: Annotated[list[Word], msgspec.Meta(min_length=1, max_length=MAX_WORDS)] | None = None
    stdout: Annotated[str, msgspec.Meta(max_length=60)] | None = None
    outputs: Annotated[list[OutputBody], msgspec.Meta(min_length=1, max_length=200)] | None = None
    comparison: ComparisonBody | None = None
    assimilator: Line | None = None
    limits: LimitsBody | None = None
    rules: RulesBody | None = None
    credit: CreditBody | None = None
    dispatch: DispatchBody | None = None


class NewVersion(Body, frozen=True, kw_only=True):
    """An app version."""

    platform: Platform
    files: Annotated[list[VersionFileBody], msgspec.Meta(min_length=1, max_length=500)]
    #: further platforms, which get the same version with it or not at all
    also_for: Annotated[list[Platform], msgspec.Meta(max_length=20)] = msgspec.field(
        default_factory=list[str]
    )
    #: files of one platform alone, beside those of all
    platform_files: dict[Platform, Annotated[list[VersionFileBody], msgspec.Meta(max_length=100)]] = (
        msgspec.field(default_factory=dict[str, list[VersionFileBody]])
    )
    plan_class: Annotated[str, msgspec.Meta(max_length=60)] = ""
    version_num: Annotated[int, msgspec.Meta(ge=0, le=10**6)] = 0  #: 0: the next one
    command_line: CommandLine = ""
    api_version: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]+\.[0-9]+(\.[0-9]+)?\Z", max_length=20)] = (
        "7.20.5"
    )
    beta: bool = False
    min_client_version: ClientVersion = 0
    max_client_version: ClientVersion = 0
    app_changes: AppChanges | None = None  #: made together with the version, or not at all
    #: growing parts of the hosts that it reaches step by step (POST /versions/ID/rollout); empty: all at once
    rollout: Annotated[list[Part], msgspec.Meta(max_length=20)] = msgspec.field(default_factory=list[float])


class VersionChanges(Body, frozen=True):
    """Changes to an app version."""

    deprecated: bool


class VersionQuery(Query, frozen=True):
    """Which versions to list."""

    deprecated: bool = False  #: those too


class NewApp(Body, frozen=True, kw_only=True):
    """A new app, optionally with its first version."""

    name: AppName
    title: Line = ""
    #: empty: a native program
    command: Annotated[list[Word], msgspec.Meta(max_length=MAX_WORDS)] = msgspec.field(
        default_factory=list[str]
    )
    stdout: Annotated[str, msgspec.Meta(max_length=60)] = ""  #: output that receives what the command prints
    command_line: CommandLine = ""  #: of a native program
    #: of a native program
    inputs: Annotated[list[InputSlotBody], msgspec.Meta(max_length=200)] = msgspec.field(
        default_factory=list[InputSlotBody]
    )
    outputs: Annotated[list[OutputBody], msgspec.Meta(min_length=1, max_length=200)]
    comparison: ComparisonBody = ComparisonBody()
    assimilator: Line = ""
    credit: CreditBody = CreditBody()
    limits: LimitsBody = LimitsBody()
    rules: RulesBody = RulesBody()
    dispatch: DispatchBody = DispatchBody()
    beta: bool = False
    version: NewVersion | None = None


class Slot(Reply, frozen=True):
    """An input of every job."""

    name: str
    open_name: str


class OutputSpec(Reply, frozen=True):
    """An output of every job."""

    name: str
    max_nbytes: int
    gzip: bool
    optional: bool


class Comparison(Reply, frozen=True):
    """How outputs of two computers are compared."""

    kind: str
    options: dict[str, float | str]


class SignedFile(Reply, frozen=True):
    """A file, which is sent only with a signature."""

    file: str
    open_name: str
    nbytes: int
    md5: str
    signed: bool


class VersionFile(SignedFile, frozen=True):
    """A file of an app version."""

    executable: bool
    main_program: bool
    copy_file: bool
    path: str = ""  #: where it is downloaded, below the project's address


class Version(Reply, frozen=True):
    """An app version."""

    id: int
    app: str
    platform: str
    version_num: int
    plan_class: str
    deprecated: bool
    beta: bool
    signed: bool  #: unsigned versions are not sent
    command_line: str
    files: list[VersionFile]

    @property
    def number(self) -> str:
        """Return the number as BOINC shows it, e.g. ``1.02``."""
        return f"{self.version_num / 100:.2f}"


class AppCredit(Reply, frozen=True):
    """How an app's results are credited."""

    system: str
    per_job: float
    host_scale_check: bool
    partial: bool
    per_cpu_second: float
    function: str


class Dispatch(Reply, frozen=True):
    """Who gets the jobs of an app, and how many; 0: no rule of its own."""

    min_version: int
    non_cpu_intensive: bool
    homogeneous_redundancy: str
    homogeneous_app_version: bool
    adaptive: bool
    max_jobs_on_host: int
    max_jobs_in_progress: int
    max_gpu_jobs_in_progress: int
    max_jobs_per_rpc: int
    max_jobs_per_day_init: int
    locality: bool
    size_classes: list[float]
    keywords: list[int]


class App(Reply, frozen=True):
    """An app and its versions in use."""

    id: int
    name: str
    title: str
    deprecated: bool
    beta: bool
    show_outputs: bool
    command: list[str]
    stdout: str
    command_line: str
    inputs: list[Slot]
    outputs: list[OutputSpec]
    comparison: Comparison
    assimilator: str
    credit: AppCredit
    limits: JobLimits
    rules: ReplicationRules
    dispatch: Dispatch
    created: float
    versions: list[Version]


class DeadlineProposal(Reply, frozen=True, kw_only=True):
    """A deadline for the jobs of an app, based on how long its good results took; seconds."""

    app: str
    n: int  #: results that it follows from, the newest ones
    delay_bound: float  #: as it is
    run_time: float | None = None  #: of 95 % of them at most; None: too few results
    turnaround: float | None = None  #: from sending to receipt, of 95 % of them at most
    proposed: float | None = None  #: delay bound


class AppList(Reply, frozen=True):
    """Apps in the order of their creation."""

    apps: list[App]


class VersionList(Reply, frozen=True):
    """Versions, oldest first."""

    versions: list[Version]
