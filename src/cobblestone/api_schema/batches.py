"""Batches and their jobs, single workunits for operators, and jobs that browsers compute."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.api_schema.apps import AppName, CommandLine, Few, LimitsBody, Some, Word
from cobblestone.api_schema.people import OwnTask
from cobblestone.api_schema.values import Body, FileName, Id, Limit, Line, PageQuery, Position, Query, Reply
from cobblestone.domain.work import JobState

MAX_JOBS_PER_REQUEST = 1000
MAX_WAIT_SECONDS = 60.0

TargetId = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
Priority = Annotated[int, msgspec.Meta(ge=-1_000_000, le=1_000_000)]


class InputBody(Body, frozen=True, kw_only=True):
    """An input file of a job; it must already be stored."""

    file: FileName  #: physical name
    name: Annotated[str, msgspec.Meta(max_length=60)] = ""
    #: which input; empty: the next one in the app's order
    file_name: Line = ""  #: what the submitter calls it; its suffix is kept


class TargetBody(Body, frozen=True):
    """Restricts a job to a computer, the computers of a user, or those of a team's members."""

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
    """More jobs for an open batch."""

    first: Annotated[int, msgspec.Meta(ge=0, le=10**9)]
    #: how many the batch has already: makes repeats harmless
    jobs: Jobs
    limits: LimitsBody = LimitsBody()
    target: TargetBody | None = None


class JobNames(Body, frozen=True, kw_only=True):
    """Jobs of a batch, by workunit name."""

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


class EventsQuery(Query, frozen=True):
    """From where on finished jobs are streamed."""

    after: Position = 0  #: the id of the last event, or `next` of a page of results


class NewWebhook(Body, frozen=True, kw_only=True):
    """Where to tell finished jobs of a batch."""

    url: Annotated[str, msgspec.Meta(max_length=500, pattern=r"\Ahttps?://[^\s@/?#\\]+(?:[/?][^\s#\\]*)?\Z")]


class WebhookStatus(Reply, frozen=True):
    """How a webhook fares: ``state`` is ``waiting``, ``failing``, ``given up``, ``done`` or ``removed``."""

    url: str
    state: str
    told: int  #: jobs that have arrived there
    attempts: int  #: that failed since the last message arrived
    error: str
    next_time: float | None  #: Unix seconds; None: no further message


class WebhookSecret(Reply, frozen=True):
    """A new webhook's secret, which signs its messages and is shown once."""

    url: str
    secret: str


class BatchStatus(Reply, frozen=True):
    """The progress of a batch.

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
        """Return the finished jobs as a part of all; 1 for an empty batch."""
        return (self.n_success + self.n_error) / self.njobs if self.njobs else 1.0


class BatchList(Reply, frozen=True):
    """Batches, newest first."""

    batches: list[BatchStatus]


class OutputFile(Reply, frozen=True):
    """An output of a finished job."""

    name: str
    nbytes: int  #: as stored; compressed if the client compressed it
    url: str


class GivenInput(Reply, frozen=True):
    """An input of a job."""

    name: str  #: under which the program finds it
    #: what its submitter called it: often a path; empty: its content was given, or it is an old job
    file_name: str


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


class WorkunitsQuery(PageQuery, frozen=True):
    """Which workunits; filters by app and status search the newest 20,000 before the place."""

    app: AppName | None = None
    batch: Id | None = None
    status: JobState | None = None


class Workunit(Reply, frozen=True):
    """A workunit."""

    id: int
    name: str
    label: str  #: the submitter's own name of the job
    app: str
    batch: int | None
    status: str  #: ``waiting``, ``running``, ``done``, ``failed`` or ``cancelled``
    created: float
    priority: int


class WorkunitList(Reply, frozen=True):
    """Workunits, newest first."""

    workunits: list[Workunit]


class Task(OwnTask, frozen=True):
    """A result of a workunit."""

    user: int | None


class WorkunitDetails(Workunit, frozen=True):
    """A workunit with its limits, rules and results."""

    command_line: str
    inputs: list[str]  #: physical names
    min_quorum: int
    target_nresults: int
    max_error_results: int
    max_total_results: int
    max_success_results: int
    rsc_fpops_est: float
    rsc_fpops_bound: float
    rsc_memory_bound: float  #: bytes
    rsc_disk_bound: float  #: bytes
    delay_bound: float  #: seconds
    canonical_result: int | None
    tasks: list[Task]  #: the first 200


class WorkunitChanges(Body, frozen=True):
    """Changes to a workunit, for results not sent yet; omitted members keep their value."""

    priority: Priority | None = None
    limits: LimitsBody = LimitsBody()
    max_error_results: Some | None = None
    max_total_results: Few | None = None
    max_success_results: Few | None = None


MAX_THREADS = 64
MAX_HELD = 2 * MAX_THREADS
MAX_STDERR = 60_000

JobName = Annotated[str, msgspec.Meta(min_length=1, max_length=250)]
Threads = Annotated[int, msgspec.Meta(ge=1, le=MAX_THREADS)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e7)]


class NewBrowser(Body, frozen=True, kw_only=True):
    """A browser that wants to compute."""

    name: Annotated[str, msgspec.Meta(max_length=100, pattern=r"\A[^\x00-\x1f\x7f]*\Z")] = ""  #: for people
    account: Annotated[str, msgspec.Meta(max_length=500)] = ""
    """Whose credit it shall be: what the page /compute holds for who is logged in.  Empty: a visitor's."""


class BrowserToken(Reply, frozen=True):
    """The credentials that a browser keeps."""

    token: str  #: shown once
    computer: int  #: its number among the computers of the project


class BrowserWork(Body, frozen=True, kw_only=True):
    """A request for jobs."""

    wanted: Annotated[int, msgspec.Meta(ge=0, le=MAX_THREADS)] = 0
    #: all jobs that it has, each kept for five more minutes; others of it count as lost, and come again
    held: Annotated[list[JobName], msgspec.Meta(max_length=MAX_HELD)] = msgspec.field(
        default_factory=list[str]
    )
    threads: Threads = 1
    memory: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 4e9  #: bytes that jobs may use together


class BrowserFile(Reply, frozen=True):
    """A file that a job needs."""

    open_name: str  #: by which the program knows it
    url: str
    nbytes: int


class BrowserOutput(Reply, frozen=True):
    """A file that a job must write."""

    open_name: str
    max_nbytes: int
    optional: bool
    upload_header: str
    """What stands before its bytes in the body of its upload, with their number in the place of ``{nbytes}``."""


class BrowserJob(Reply, frozen=True, kw_only=True):
    """A job, with everything needed to compute it."""

    name: str
    workunit: str  #: seed of the random numbers
    app: str
    title: str  #: of the app, for people
    deadline: float  #: Unix seconds; sooner if the browser does not list the job for five minutes
    instructions_est: float
    instructions_bound: float
    memory_bound: float  #: bytes
    disk_bound: float  #: bytes
    command_line: str  #: which inputs and outputs the placeholders of the description mean
    module: BrowserFile  #: WebAssembly, which counts its instructions; or the packages of a program that Pyodide runs
    pyodide: str  #: version of Pyodide that runs the program; empty: it is WebAssembly itself
    files: list[BrowserFile]  #: of the app (its description among them) and of the job
    outputs: list[BrowserOutput]
    upload_url: str


class BrowserJobs(Reply, frozen=True):
    """New jobs and further information."""

    jobs: list[BrowserJob]
    drop: list[str]  #: jobs that are no longer needed, or that another browser has
    wait: float  #: seconds until it makes sense to ask again
    messages: list[str]  #: why there are no jobs, or why some are dropped, for people


class BrowserReport(Body, frozen=True, kw_only=True):
    """How a job ended; its outputs are uploaded first."""

    name: JobName
    exit_status: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
    given_up: bool = False  #: by the visitor
    cpu_time: Seconds = 0.0
    elapsed_time: Seconds = 0.0
    instructions: Annotated[float, msgspec.Meta(ge=0, le=1e18)] = 0.0
    stderr: Annotated[str, msgspec.Meta(max_length=MAX_STDERR)] = ""


class BrowserStanding(Reply, frozen=True):
    """A browser's contribution to the project."""

    computer: int
    total_credit: float
    recent_average_credit: float
    account: str  #: whose credit it is; empty: a visitor's
