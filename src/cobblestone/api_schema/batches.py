"""Batches and their jobs."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.api_schema.apps import AppName, CommandLine, LimitsBody, Word
from cobblestone.api_schema.values import Body, FileName, Limit, Line, Position, Query, Reply

MAX_JOBS_PER_REQUEST = 1000
MAX_WAIT_SECONDS = 60.0

TargetId = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
Priority = Annotated[int, msgspec.Meta(ge=-1_000_000, le=1_000_000)]


class InputBody(Body, frozen=True, kw_only=True):
    """An input file of a job; it must be stored already."""

    file: FileName  #: physical name
    name: Annotated[str, msgspec.Meta(max_length=60)] = ""
    #: which input; empty: the next one in the app's order
    file_name: Line = ""  #: what the submitter calls it; its suffix is kept


class TargetBody(Body, frozen=True):
    """Who alone shall get a job: a computer, the computers of a user, or those of a team's members."""

    host: TargetId | None = None
    user: TargetId | None = None
    team: TargetId | None = None


class JobBody(Body, frozen=True):
    """A job."""

    name: Annotated[str, msgspec.Meta(max_length=200, pattern=r"\A[^\x00-\x1f\x7f/\\]*\Z")] = ""
    #: the submitter's own
    inputs: Annotated[list[InputBody], msgspec.Meta(max_length=200)] = msgspec.field(
        default_factory=list[InputBody]
    )
    args: Annotated[dict[Annotated[str, msgspec.Meta(max_length=60)], Word], msgspec.Meta(max_length=200)] = (
        msgspec.field(default_factory=dict[str, str])
    )
    command_line: CommandLine = ""  #: of a native program, after the app's own
    priority: Priority = 0  #: added to that of the batch
    limits: LimitsBody | None = None
    credit: Annotated[float, msgspec.Meta(ge=0, le=1e12)] | None = None
    #: for credit fixed per job; else the app's
    target: TargetBody | None = None  #: else that of the batch
    size_class: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None  #: else by rsc_fpops_est


Jobs = Annotated[list[JobBody], msgspec.Meta(max_length=MAX_JOBS_PER_REQUEST)]


class NewBatch(Body, frozen=True, kw_only=True):
    """A batch with its first jobs."""

    app: AppName
    name: Line = ""
    priority: Priority = 0
    jobs: Jobs = msgspec.field(default_factory=list[JobBody])
    open: bool = False  #: True: more jobs follow; close it afterwards
    limits: LimitsBody = LimitsBody()  #: of all jobs; what is left out is the app's
    target: TargetBody | None = None  #: who alone shall get them; a job may name another one


class MoreJobs(Body, frozen=True, kw_only=True):
    """Further jobs of an open batch."""

    first: Annotated[int, msgspec.Meta(ge=0, le=10**9)]
    #: how many the batch has already: makes repeats harmless
    jobs: Jobs
    limits: LimitsBody = LimitsBody()
    target: TargetBody | None = None


class JobNames(Body, frozen=True, kw_only=True):
    """Jobs of a batch, by the names of their workunits."""

    workunits: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=1, max_length=200)]],
        msgspec.Meta(max_length=MAX_JOBS_PER_REQUEST),
    ]


class JobsQuery(Query, frozen=True):
    """A part of the list of jobs."""

    after: Position = 0  #: job id
    limit: Limit = 100


class ResultsQuery(Query, frozen=True):
    """Which finished jobs, and how long to wait for one."""

    after: Position = 0  #: `next` of the reply before
    wait: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_SECONDS)] = 0.0  #: seconds
    limit: Limit = 100


class BatchStatus(Reply, frozen=True):
    """How far a batch is.

    Attributes:
        id: Number of the batch.
        name: As it was submitted.
        app: The app that its jobs run.
        state: ``open``, ``running``, ``complete``, ``cancelled`` or ``retired``.
        created: Unix seconds.
        completed: Unix seconds; None while jobs are open.
        njobs: All jobs.
        n_success: Jobs with an answer (in JSON: ``done``).
        n_error: Jobs that failed or were cancelled (in JSON: ``failed``).
        running: Jobs that are on a computer now.
        finished: Whether no job is left to wait for.
        notes: Why nothing may come, in words.
    """

    id: int
    name: str
    app: str
    state: str
    created: float
    completed: float | None
    njobs: int
    n_success: int = msgspec.field(name="done")
    n_error: int = msgspec.field(name="failed")
    running: int
    finished: bool
    notes: list[str]

    @property
    def fraction_done(self) -> float:
        """Finished jobs, as a part of all; 1 for an empty batch."""
        return (self.n_success + self.n_error) / self.njobs if self.njobs else 1.0


class BatchList(Reply, frozen=True):
    """Batches, the newest first."""

    batches: list[BatchStatus]


class OutputFile(Reply, frozen=True):
    """An output of a finished job."""

    name: str
    nbytes: int  #: as stored; compressed if the client compressed it
    url: str


class GivenInput(Reply, frozen=True):
    """An input of a job."""

    name: str  #: under which the program finds it
    file_name: (
        str  #: what its submitter called it: often a path; empty: its content was given, or it is an old job
    )


class JobStatus(Reply, frozen=True):
    """A job."""

    id: int
    name: str  #: the submitter's own
    workunit: str
    status: str  #: ``waiting``, ``running``, ``done``, ``failed`` or ``cancelled``
    seq: int | None  #: position among the finished jobs, from 1
    error: str  #: why there is no answer, in words
    exit_status: int | None  #: of the last failed result
    stderr: str  #: its end
    outputs: list[OutputFile]
    inputs: list[GivenInput] = msgspec.field(default_factory=list[GivenInput])
    args: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    command_line: str = ""  #: of a native program
    result: str = ""  #: name of the result that is the answer, or of the last that failed
    host: int | None = None  #: computer that it comes from
    run_time: float | None = None  #: seconds that it took there
    credit: float | None = None  #: what was granted for it


class JobList(Reply, frozen=True):
    """Jobs in the order of their ids."""

    jobs: list[JobStatus]


class ResultsPage(Reply, frozen=True):
    """Jobs that finished."""

    results: list[JobStatus]
    next: int  #: give it as `after` in the next request
    finished: bool  #: nothing more will come
