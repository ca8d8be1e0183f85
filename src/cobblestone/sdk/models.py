"""What the API answers, as values.  Members that are not named here are ignored."""
# length: one short value after the other, the whole vocabulary of the API.

from __future__ import annotations

from typing import Any

import msgspec


class StoredFile(msgspec.Struct, frozen=True):
    """A stored file."""

    name: str
    nbytes: int
    md5: str


class FileQueryReply(msgspec.Struct, frozen=True):
    """Which files are there."""

    present: list[StoredFile]
    missing: list[str]


class Slot(msgspec.Struct, frozen=True):
    """An input of every job."""

    name: str
    open_name: str = ""


class OutputSpec(msgspec.Struct, frozen=True):
    """An output of every job."""

    name: str
    max_nbytes: int
    gzip: bool
    optional: bool


class Comparison(msgspec.Struct, frozen=True):
    """How outputs of two computers are compared."""

    kind: str
    options: dict[str, float | str]


class Rules(msgspec.Struct, frozen=True):
    """How many results of a job are made, needed and allowed."""

    min_quorum: int
    target_nresults: int
    max_error_results: int
    max_total_results: int
    max_success_results: int


class Limits(msgspec.Struct, frozen=True):
    """Estimates and hard limits: FLOPs, bytes, seconds."""

    rsc_fpops_est: float
    rsc_fpops_bound: float
    rsc_memory_bound: float
    rsc_disk_bound: float
    delay_bound: float
    rsc_bandwidth_bound: float = 0.0


class VersionFile(msgspec.Struct, frozen=True):
    """A file of an app version."""

    file: str
    open_name: str
    nbytes: int
    md5: str
    main_program: bool
    executable: bool
    copy_file: bool
    signed: bool


class Version(msgspec.Struct, frozen=True):
    """An app version."""

    id: int
    app: str
    platform: str
    version_num: int
    plan_class: str
    deprecated: bool
    signed: bool
    files: list[VersionFile]
    command_line: str = ""

    @property
    def number(self) -> str:
        """The number as the family shows it, e.g. ``1.02``."""
        return f"{self.version_num / 100:.2f}"


class AppCredit(msgspec.Struct, frozen=True):
    """How an app's results are credited."""

    system: str
    per_job: float = 0.0
    host_scale_check: bool = False
    partial: bool = False
    per_cpu_second: float = 0.0
    function: str = ""


class App(msgspec.Struct, frozen=True):
    """An app and its versions in use."""

    id: int
    name: str
    title: str
    deprecated: bool
    command: list[str]
    stdout: str
    command_line: str
    inputs: list[Slot]
    outputs: list[OutputSpec]
    comparison: Comparison
    assimilator: str
    limits: Limits
    rules: Rules
    created: float
    versions: list[Version]
    credit: AppCredit = AppCredit(system="benchmark")
    beta: bool = False
    dispatch: dict[str, Any] = msgspec.field(
        default_factory=dict[str, Any]
    )  #: who gets its jobs; see the API


class AppList(msgspec.Struct, frozen=True):
    """All apps."""

    apps: list[App]


class VersionList(msgspec.Struct, frozen=True):
    """Versions of an app."""

    versions: list[Version]


class BatchStatus(msgspec.Struct, frozen=True):
    """How far a batch is."""

    id: int
    name: str
    app: str
    state: str  #: ``open``, ``running``, ``complete``, ``cancelled`` or ``retired``
    created: float  #: Unix seconds
    completed: float | None
    njobs: int
    n_success: int = msgspec.field(name="done")
    n_error: int = msgspec.field(name="failed")  #: failed or cancelled
    running: int  #: on a computer now
    finished: bool  #: no job is left to wait for
    notes: list[str]  #: why nothing may come, in words

    @property
    def fraction_done(self) -> float:
        """Finished jobs, as a part of all; 1 for an empty batch."""
        return (self.n_success + self.n_error) / self.njobs if self.njobs else 1.0


class BatchList(msgspec.Struct, frozen=True):
    """Batches, the newest first."""

    batches: list[BatchStatus]


class OutputFile(msgspec.Struct, frozen=True):
    """An output of a finished job."""

    name: str
    nbytes: int
    url: str


class JobStatus(msgspec.Struct, frozen=True):
    """A job."""

    id: int
    name: str
    workunit: str
    status: str  #: ``waiting``, ``running``, ``done``, ``failed`` or ``cancelled``
    seq: int | None
    error: str
    exit_status: int | None
    stderr: str
    outputs: list[OutputFile]


class JobList(msgspec.Struct, frozen=True):
    """A part of the jobs of a batch."""

    jobs: list[JobStatus]


class ResultsPage(msgspec.Struct, frozen=True):
    """Jobs that finished."""

    results: list[JobStatus]
    next: int
    finished: bool


class Token(msgspec.Struct, frozen=True):
    """A token; its text only when it was just made."""

    id: int
    name: str
    scopes: list[str]
    created: float
    expires: float | None
    revoked: float | None
    usable: bool
    token: str = ""
    share: float = 1.0


class TokenList(msgspec.Struct, frozen=True):
    """All tokens."""

    tokens: list[Token]


class User(msgspec.Struct, frozen=True):
    """An account; its authenticator only when it was just made."""

    id: int
    name: str
    email: str
    team_id: int | None
    created: float
    total_credit: float
    authenticator: str = ""


class UserList(msgspec.Struct, frozen=True):
    """A part of the accounts."""

    users: list[User]


class Team(msgspec.Struct, frozen=True):
    """A team."""

    id: int
    name: str
    founder: int
    created: float
    total_credit: float


class TeamList(msgspec.Struct, frozen=True):
    """All teams."""

    teams: list[Team]


class News(msgspec.Struct, frozen=True):
    """A piece of news."""

    id: int


class Trickle(msgspec.Struct, frozen=True):
    """A message that a running job sent."""

    id: int
    host_id: int
    result: str  #: name
    variety: str
    time: int  #: Unix seconds, by the host's clock
    received: float  #: Unix seconds
    text: str


class TrickleList(msgspec.Struct, frozen=True):
    """Messages of running jobs."""

    trickles: list[Trickle]


class SentTrickle(msgspec.Struct, frozen=True):
    """A message that is queued for a running job."""

    id: int


class FileToSign(msgspec.Struct, frozen=True):
    """A file of an app version in use."""

    file: str
    open_name: str
    app: str
    nbytes: int
    md5: str
    signed: bool
    url: str


class Manifest(msgspec.Struct, frozen=True):
    """What the current key must sign."""

    public_key: str
    files: list[FileToSign]


class SigningReply(msgspec.Struct, frozen=True):
    """What an import of signatures changed."""

    versions_changed: int
    still_unsigned: list[str]


class Key(msgspec.Struct, frozen=True):
    """A public key."""

    id: int
    public_key: str
    created: float
    current: bool
    has_successor_signature: bool


class KeyList(msgspec.Struct, frozen=True):
    """Public keys, the newest first."""

    keys: list[Key]


class Counts(msgspec.Struct, frozen=True):
    """Numbers of what somebody waits for."""

    users: int
    hosts: int
    active_hosts: int
    apps: int
    unsigned_versions: int
    open_batches: int
    results_unsent: int
    results_in_progress: int
    workunits_unfinished: int
    workunits_to_validate: int
    workunits_to_assimilate: int
    workunits_to_delete: int


class DaemonState(msgspec.Struct, frozen=True):
    """A part of the server."""

    name: str
    state: str  #: running, failing, stuck, not running
    last_beat: float | None  #: Unix seconds
    last_error: str


class ProjectWarning(msgspec.Struct, frozen=True):
    """Something that an operator should look at."""

    code: str
    text: str
    severe: bool
    since: float  #: Unix seconds


class ServerProcess(msgspec.Struct, frozen=True):
    """A process of the server that was heard of within a day.  Times are Unix seconds."""

    host: str
    pid: int
    roles: list[str]
    version: str
    started: float
    last_beat: float
    alive: bool  #: heard of lately, and not told to stop
    ended: bool = False  #: told to stop
    daemons: list[DaemonState] = []


class ProjectStatus(msgspec.Struct, frozen=True):
    """The project and what is going on."""

    name: str
    url: str
    version: str
    counts: Counts
    started: float | None = None  #: Unix seconds; None: nobody runs it
    disk_free: int = 0
    database_bytes: int = 0
    write_backlog: int = 0
    backlog_seconds: float = 0.0  #: for how long the workunit that is due first has waited
    oldest_unsent_seconds: float = 0.0
    error_rate: float = 0.0  #: of the results that ended within a day
    results_last_day: int = 0
    daemons: list[DaemonState] = []  #: of all processes that are there
    processes: list[ServerProcess] = []
    warnings: list[ProjectWarning] = []


class PlanClass(msgspec.Struct, frozen=True):
    """A plan class and which of the known hosts it fits."""

    name: str
    gpu_type: str
    max_threads: int
    hosts_matched: int
    hosts_known: int
    refusals: dict[str, int]


class PlanClassList(msgspec.Struct, frozen=True):
    """All plan classes."""

    plan_classes: list[PlanClass]


class VersionScaleChange(msgspec.Struct, frozen=True):
    """What applying published scales meant for a version of an app that has GPU versions only."""

    app: str
    credit_system: str
    version_num: int
    platform: str
    plan_class: str
    old_scale: float | None  #: None: it had none
    new_scale: float | None  #: None: nothing is published for its plan class
    changed: bool


class AppliedScales(msgspec.Struct, frozen=True):
    """What was done, or would be."""

    versions: list[VersionScaleChange]
    n_other_versions: int  #: of apps with CPU versions
    dry_run: bool


class LedgerEntry(msgspec.Struct, frozen=True):
    """A ledger entry with what it was computed from."""

    id: int
    time: float
    kind: str
    provisional: bool
    result_id: int
    workunit_id: int
    host_id: int
    user_id: int
    team_id: int | None
    app_version_id: int | None
    system: str
    claimed: float
    granted: float
    unit: float
    work_start: float
    reasons: list[dict[str, Any]]
    facts: dict[str, Any]


class CreditExplanation(msgspec.Struct, frozen=True):
    """All that is known of the credit of a result."""

    result_id: int
    name: str
    state: str
    granted: float
    claimed: float
    report: list[dict[str, Any]]
    entries: list[LedgerEntry]


class CreditDifference(msgspec.Struct, frozen=True):
    """A figure that is not what the ledger makes of it."""

    table: str
    id: int
    figure: str
    stored: float | None
    computed: float | None
    note: str


class CreditProof(msgspec.Struct, frozen=True):
    """What a recomputation of the whole ledger found."""

    agrees: bool
    entries: int
    grants: int
    corrections: int
    rows: dict[str, int]
    differences: list[CreditDifference]
    more: int


class CreditSystemSummary(msgspec.Struct, frozen=True):
    """A credit system."""

    name: str
    summary: str


class CreditSystemList(msgspec.Struct, frozen=True):
    """All credit systems."""

    systems: list[CreditSystemSummary]


class Done(msgspec.Struct, frozen=True):
    """Something was done."""

    target: str
    text: str = ""


class RetriedWorkunit(msgspec.Struct, frozen=True):
    """What became of a workunit that is tried again."""

    target: str
    new_batch: int | None  #: None: it goes on itself


class NewPassword(msgspec.Struct, frozen=True):
    """A new password; it is shown only now."""

    target: str
    password: str


class Rollout(msgspec.Struct, frozen=True):
    """How a version reaches hosts."""

    version: int
    fraction: float  #: part of the hosts that may get it now
    state: str  #: running, held, done
    stages: list[float]
    stage: int  #: position in stages, from 0
    max_error_rate: float
    min_results: int
    min_hours: float


class RolledBack(msgspec.Struct, frozen=True):
    """What withdrawing a version did."""

    target: str
    version_in_its_place: int | None
    results_given_up: int


class AuditEntry(msgspec.Struct, frozen=True):
    """One action."""

    id: int
    time: float  #: Unix seconds
    actor: str
    origin: str
    action: str
    target: str
    before: Any  # whatever the action was about
    after: Any


class AuditList(msgspec.Struct, frozen=True):
    """Actions, the newest first."""

    entries: list[AuditEntry]


class Found(msgspec.Struct, frozen=True):
    """Something that fits a search."""

    kind: str
    id: int
    name: str


class FoundList(msgspec.Struct, frozen=True):
    """All that fits."""

    found: list[Found]


class Check(msgspec.Struct, frozen=True):
    """A promise that can be checked."""

    name: str
    promise: str
    advice: str
    repair: str  #: what a repair does; empty: there is none
    only_warns: bool


class CheckList(msgspec.Struct, frozen=True):
    """All checks."""

    checks: list[Check]


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it must be."""

    code: str  #: what is wrong, for programs
    kind: str  #: of the row or thing: result, file, database
    id: str  #: of the row or file; empty: there is only one
    target: str  #: kind and id, for people
    text: str


class Diagnosis(msgspec.Struct, frozen=True):
    """What a check found."""

    name: str
    findings: list[Finding]
    more: int  #: beyond those listed
    seconds: float


class Repair(msgspec.Struct, frozen=True):
    """What a repair did."""

    name: str
    repaired: int
