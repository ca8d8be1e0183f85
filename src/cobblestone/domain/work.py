"""Workunits, results, their files, limits and states, with BOINC's numbers.

States of workunits and results, with the numbers that the family uses.

Source: BOINC's ``boinc_db_types.h``, ``common_defs.h`` and ``error_numbers.h`` (facts only).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag, StrEnum

from cobblestone.domain.values import (
    DAY,
    AppId,
    AppVersionId,
    BatchId,
    HostId,
    ResultId,
    TeamId,
    UserId,
    WorkunitId,
    changed,
    value,
)


class ServerState(IntEnum):
    """The state of a result on the server."""

    INACTIVE = 1  #: exists, not released
    UNSENT = 2  #: may be sent to a host
    IN_PROGRESS = 4  #: sent to a host
    OVER = 5  #: reported, timed out or not needed


class Outcome(IntEnum):
    """How a result ended; meaningful when it is OVER."""

    INIT = 0
    SUCCESS = 1
    COULDNT_SEND = 2
    CLIENT_ERROR = 3
    NO_REPLY = 4
    DIDNT_NEED = 5
    VALIDATE_ERROR = 6
    CLIENT_DETACHED = 7


class ValidateState(IntEnum):
    """The verdict of validation on a result."""

    INIT = 0  #: not looked at
    VALID = 1
    INVALID = 2
    NO_CHECK = 3  #: the workunit failed; no one will look
    INCONCLUSIVE = 4  #: looked at, no quorum yet
    TOO_LATE = 5  #: cannot be compared: the canonical output is deleted, or the comparison fails


class ResultClientState(IntEnum):
    """The state of a result on the client (reported by it)."""

    NEW = 0
    FILES_DOWNLOADING = 1
    FILES_DOWNLOADED = 2
    COMPUTE_ERROR = 3
    FILES_UPLOADING = 4
    FILES_UPLOADED = 5
    ABORTED = 6
    UPLOAD_FAILED = 7


class AssimilateState(IntEnum):
    """Whether the answer was passed to the project."""

    INIT = 0
    READY = 1
    DONE = 2


class FileDeleteState(IntEnum):
    """Whether files can be deleted (READY) or are deleted (DONE)."""

    INIT = 0
    READY = 1
    DONE = 2
    ERROR = 3


class WorkunitError(IntFlag):
    """Why a workunit failed."""

    NONE = 0
    COULDNT_SEND_RESULT = 1
    TOO_MANY_ERROR_RESULTS = 2
    TOO_MANY_SUCCESS_RESULTS = 4
    TOO_MANY_TOTAL_RESULTS = 8
    CANCELLED = 16
    NO_CANONICAL_RESULT = 32


class BatchState(IntEnum):
    """The state of a batch."""

    INIT = 0  #: jobs are still being added
    IN_PROGRESS = 1
    COMPLETE = 2
    ABORTED = 3
    RETIRED = 4  #: outputs are gone, rows may be purged


class HomogeneousRedundancy(IntEnum):
    """How similar the hosts of one workunit must be (BOINC's numbers)."""

    NONE = 0
    FINE = 1  #: same operating system and processor family
    COARSE = 2  #: same operating system and kind of processor


class ExitStatus(IntEnum):
    """Exit statuses that rules use (the client's numbers)."""

    SUCCESS = 0
    ABORTED_BY_PROJECT = 202
    ABORTED_BY_USER = 203
    NO_PYTHON = 195  #: the launcher found no interpreter on the host


class JobState(StrEnum):
    """The state of a job, as its submitter sees it."""

    WAITING = "waiting"
    RUNNING = "running"  #: a result of it is on a host
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskState(StrEnum):
    """States by which volunteers' tasks are grouped."""

    IN_PROGRESS = "in_progress"
    WAITING = "waiting"  #: reported, not validated yet
    VALID = "valid"
    INVALID = "invalid"
    ERROR = "error"  #: failed, not returned, or not needed any more


GIGAFLOPS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """An input of a workunit: a stored file and the name under which the program opens it."""

    name: str  #: physical name in the file store; content never changes
    open_name: str  #: name in the program's working directory
    nbytes: int
    md5: str
    gzipped_nbytes: int | None = None  #: size of the stored ``.gz`` variant, when there is one
    sticky: bool = False
    copy_file: bool = True
    given_name: str = ""  #: what the submitter calls it, often a path on his machine; volunteers never see it


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSpec:
    """An output that a result must (or, if optional, may) produce."""

    open_name: str
    max_nbytes: int = 50_000_000
    gzip: bool = False  #: the client compresses it before the upload
    optional: bool = False
    copy_file: bool = True


@value(kw_only=True)
class JobLimits:
    """Estimates and hard limits of one job."""

    rsc_fpops_est: float = 3600 * GIGAFLOPS  #: floating-point operations, estimate
    rsc_fpops_bound: float = 10 * DAY * GIGAFLOPS  #: hard limit: beyond it the client aborts
    rsc_memory_bound: float = 500e6  #: bytes
    rsc_disk_bound: float = 1e9  #: bytes
    rsc_bandwidth_bound: float = 0.0  #: bytes per second of download that a host must have; 0 = any
    delay_bound: float = 7 * DAY  #: seconds from sending to deadline


@value(kw_only=True)
class ReplicationRules:
    """How many results of a workunit are created, needed and allowed."""

    min_quorum: int = 1
    target_nresults: int = 1
    max_error_results: int = 3
    max_total_results: int = 10
    max_success_results: int = 6

    def with_quorum(self, quorum: int) -> ReplicationRules:
        """Return the rules under which so many results must agree, with as many failures allowed as before."""
        more = max(0, quorum - self.target_nresults)
        return changed(
            self,
            min_quorum=quorum,
            target_nresults=quorum,
            max_total_results=self.max_total_results + more,
            max_success_results=self.max_success_results + more,
        )


@value(kw_only=True)
class Recipients:
    """Restriction of a job to a host, a user's hosts, or the hosts of a team's members.  All given ones must match."""

    host_id: HostId | None = None
    user_id: UserId | None = None
    team_id: TeamId | None = None

    @property
    def one_person(self) -> bool:
        """Return whether all recipients belong to one user, so that no other person could check the answer."""
        return self.host_id is not None or self.user_id is not None


@value(kw_only=True)
class Workunit:
    """One job: what to compute, how often, and its state.

    A workunit has no single state; canonical result, errors, assimilation and file deletion together are its state.
    """

    id: WorkunitId
    name: str
    app_id: AppId
    batch_id: BatchId | None = None
    create_time: float = 0.0
    priority: int = 0
    command_line: str = ""
    input_files: tuple[InputFile, ...] = ()
    output_specs: tuple[OutputSpec, ...] = ()
    limits: JobLimits = JobLimits()
    rules: ReplicationRules = ReplicationRules()
    need_validate: bool = False
    canonical_result_id: ResultId | None = None
    canonical_credit: float = 0.0
    fixed_credit: float = 0.0  #: what the job is worth, for apps with credit fixed per job
    transition_time: float | None = None  #: when to look again; None = never
    error_mask: WorkunitError = WorkunitError.NONE
    assimilate_state: AssimilateState = AssimilateState.INIT
    file_delete_state: FileDeleteState = FileDeleteState.INIT
    hr_class: int = 0
    app_version_id: AppVersionId | None = None  #: version the job is committed to
    target: Recipients = Recipients()
    size_class: int = -1  #: of an app with size classes; -1 = none
    #: place in the queue among jobs of its priority; see `cobblestone.policy.dispatch.catalogue`
    turn: float = 0.0


@value(kw_only=True)
class Result:
    """One instance of a workunit, sent to one host."""

    id: ResultId
    name: str
    workunit_id: WorkunitId
    app_id: AppId
    server_state: ServerState = ServerState.UNSENT
    outcome: Outcome = Outcome.INIT
    client_state: ResultClientState = ResultClientState.NEW
    validate_state: ValidateState = ValidateState.INIT
    file_delete_state: FileDeleteState = FileDeleteState.INIT
    host_id: HostId | None = None
    user_id: UserId | None = None
    app_version_id: AppVersionId | None = None
    priority: int = 0
    create_time: float = 0.0
    sent_time: float | None = None
    report_deadline: float | None = None  #: Unix seconds, grace period included
    received_time: float | None = None
    cpu_time: float = 0.0
    elapsed_time: float = 0.0
    exit_status: int = 0
    claimed_credit: float = 0.0
    granted_credit: float = 0.0
    peak_flops: float = 0.0  #: peak FLOPS of the devices used
    fpops_counted: float = 0.0  #: floating-point operations as counted by the program
    intops_counted: float = 0.0
    outlier: bool = False  #: its run time is kept out of statistics
    avg_ncpus: float = 0.0  #: processors that it was sent for; 0: not known
    checks: int = 0  #: further results that check it, by the rules of its app's credit system


@value(kw_only=True)
class CreditOfRows:
    """The credit that rows should show according to the ledger."""

    results: Mapping[ResultId, tuple[float, float]]  #: what each claimed, and what it is granted in addition
    workunits: Mapping[WorkunitId, float]  #: what later results of each will get


NO_CREDIT = CreditOfRows(results={}, workunits={})


def output_file_name(result_name: str, index: int) -> str:
    """Return the physical name of the ``index``-th output of a result; unique, since result names are."""
    return f"{result_name}_{index}"


def result_name(workunit_name: str, number: int) -> str:
    """Return the name of the ``number``-th result of a workunit, as BOINC builds it."""
    return f"{workunit_name}_{number}"
