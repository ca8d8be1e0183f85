"""Jobs that browsers compute on a page of the project."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.api_schema.values import Body, Reply

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
    """What a browser keeps."""

    token: str  #: shown once
    computer: int  #: its number among the computers of the project


class BrowserWork(Body, frozen=True, kw_only=True):
    """A request for jobs."""

    wanted: Annotated[int, msgspec.Meta(ge=0, le=MAX_THREADS)] = 0
    held: Annotated[list[JobName], msgspec.Meta(max_length=MAX_HELD)] = msgspec.field(
        default_factory=list[str]
    )  #: all jobs that it has; others of it count as lost, and come again
    threads: Threads = 1
    memory: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 4e9  #: bytes that jobs may use together


class BrowserFile(Reply, frozen=True):
    """A file that a job needs."""

    open_name: str  #: by which the program knows it
    url: str
    nbytes: int


class BrowserOutput(Reply, frozen=True):
    """A file that a job shall write."""

    open_name: str
    max_nbytes: int
    optional: bool
    upload_header: str
    """What stands before its bytes in the body of its upload, with their number in the place of ``{nbytes}``."""


class BrowserJob(Reply, frozen=True, kw_only=True):
    """A job, with all that is needed to compute it."""

    name: str
    workunit: str  #: seed of the random numbers
    app: str
    title: str  #: of the app, for people
    deadline: float  #: Unix seconds
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
    """New jobs, and what else there is to know."""

    jobs: list[BrowserJob]
    drop: list[str]  #: jobs that nobody needs any more
    wait: float  #: seconds until it makes sense to ask again
    messages: list[str]  #: why there are no jobs, for people


class BrowserReport(Body, frozen=True, kw_only=True):
    """How a job ended; its outputs are uploaded before."""

    name: JobName
    exit_status: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
    given_up: bool = False  #: by the visitor
    cpu_time: Seconds = 0.0
    elapsed_time: Seconds = 0.0
    instructions: Annotated[float, msgspec.Meta(ge=0, le=1e18)] = 0.0
    stderr: Annotated[str, msgspec.Meta(max_length=MAX_STDERR)] = ""


class BrowserStanding(Reply, frozen=True):
    """What a browser has done for the project."""

    computer: int
    total_credit: float
    recent_average_credit: float
    account: str  #: whose credit it is; empty: a visitor's
