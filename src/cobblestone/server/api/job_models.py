"""Bodies and replies about batches and their jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from cobblestone.domain.states import BatchState, Outcome, WorkunitError
from cobblestone.server.api.app_models import AppName, LimitsBody
from cobblestone.server.api.job_rules import Jobs, Priority, TargetBody
from cobblestone.server.api.routing import Line, Model, Reply
from cobblestone.store.engine.database import Database
from cobblestone.store.work import batches
from cobblestone.store.work.batches import Batch, Job
from cobblestone.store.work.rows import result_text
from cobblestone.store.work.uploads import StoredOutput, outputs_of_results

MAX_PAGE = 1000
MAX_WAIT_SECONDS = 60.0
STDERR_TAIL = 2000

BATCH_STATES = {
    BatchState.INIT: "open",
    BatchState.IN_PROGRESS: "running",
    BatchState.COMPLETE: "complete",
    BatchState.ABORTED: "cancelled",
    BatchState.RETIRED: "retired",
}

_ERRORS = {
    WorkunitError.CANCELLED: "The job was cancelled.",
    WorkunitError.COULDNT_SEND_RESULT: "No computer could be found for the job.",
    WorkunitError.TOO_MANY_ERROR_RESULTS: "The job failed on too many computers.",
    WorkunitError.TOO_MANY_SUCCESS_RESULTS: "Too many results came that do not agree with each other.",
    WorkunitError.TOO_MANY_TOTAL_RESULTS: "Too many computers were tried without an agreed answer.",
    WorkunitError.NO_CANONICAL_RESULT: "The agreed result is missing.",
}
_OUTCOMES = {
    Outcome.COULDNT_SEND: "could not be sent",
    Outcome.CLIENT_ERROR: "failed",
    Outcome.NO_REPLY: "did not come back in time",
    Outcome.VALIDATE_ERROR: "came back with outputs that could not be used",
}


class NewBatch(Model, kw_only=True):
    """A batch with its first jobs."""

    app: AppName
    name: Line = ""
    priority: Priority = 0
    jobs: Jobs = msgspec.field(default_factory=list)  # pyright: ignore[reportUnknownVariableType]  # typed by the annotation
    open: bool = False  # True: more jobs follow; close it afterwards
    limits: LimitsBody = msgspec.field(
        default_factory=LimitsBody
    )  # of all jobs; what is left out is the app's
    target: TargetBody | None = None  # who alone shall get them; a job may name another one


class MoreJobs(Model, kw_only=True):
    """Further jobs of an open batch."""

    first: Annotated[
        int, msgspec.Meta(ge=0, le=10**9)
    ]  # how many the batch has already: makes repeats harmless
    jobs: Jobs
    limits: LimitsBody = msgspec.field(default_factory=LimitsBody)
    target: TargetBody | None = None


class PageQuery(Model):
    """A part of a long list."""

    before: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)] = 100


class JobsQuery(Model):
    """A part of the list of jobs."""

    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0  # job id
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)] = 100


class ResultsQuery(Model):
    """Which finished jobs, and how long to wait for one."""

    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0  # `next` of the reply before
    wait: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_SECONDS)] = 0.0  # seconds
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)] = 100


class BatchReply(Reply):
    """A batch."""

    id: int
    name: str
    app: str
    state: str  # open, running, complete, cancelled, retired
    created: float
    completed: float | None
    njobs: int
    done: int
    failed: int  # or cancelled
    running: int  # on a computer now
    finished: bool  # no job is left to wait for
    notes: list[str]  # why nothing may come, in words


class BatchList(Reply):
    """Batches, the newest first."""

    batches: list[BatchReply]


class OutputFileReply(Reply):
    """An output of a finished job."""

    name: str
    nbytes: int  # as stored; compressed if the client compressed it
    url: str


class JobReply(Reply):
    """A job."""

    id: int
    name: str  # the submitter's own
    workunit: str
    status: str  # waiting, running, done, failed, cancelled
    seq: int | None  # position among the finished jobs, from 1
    error: str  # why there is no answer, in words
    exit_status: int | None  # of the last failed result
    stderr: str  # its end
    outputs: list[OutputFileReply]


class JobList(Reply):
    """Jobs in the order of their ids."""

    jobs: list[JobReply]


class ResultsReply(Reply):
    """Jobs that finished."""

    results: list[JobReply]
    next: int  # give it as `after` in the next request
    finished: bool  # nothing more will come


def batch_reply(batch: Batch, app: str, *, running: int, notes: Sequence[str]) -> BatchReply:
    """Describe a batch."""
    return BatchReply(
        id=batch.id,
        name=batch.name,
        app=app,
        state=BATCH_STATES[batch.state],
        created=batch.create_time,
        completed=batch.complete_time,
        njobs=batch.njobs,
        done=batch.n_success,
        failed=batch.n_error,
        running=running,
        finished=batch.finished,
        notes=list(notes),
    )


def describe_jobs(db: Database, batch_id: int, jobs: Sequence[Job], base_url: str) -> list[JobReply]:
    """Describe jobs with their outputs, or with why they failed."""
    canonical = [job.canonical_result_id for job in jobs if job.canonical_result_id is not None]
    outputs = outputs_of_results(db, canonical, with_data=False)
    failed = [job.workunit_id for job in jobs if job.status == "failed"]
    failures = batches.last_failures(db, failed)
    replies: list[JobReply] = []
    for job in jobs:
        failure = failures.get(job.workunit_id)
        error, stderr = _error_text(job), ""
        if failure is not None:
            stderr = result_text(db, failure.result_id).stderr[-STDERR_TAIL:]
            error += f" The last one, {failure.name}, {_OUTCOMES[failure.outcome]}"
            error += f" with exit status {failure.exit_status}." if failure.exit_status else "."
        found = outputs.get(job.canonical_result_id, []) if job.canonical_result_id is not None else []
        replies.append(
            JobReply(
                id=job.workunit_id,
                name=job.label,
                workunit=job.name,
                status=job.status,
                seq=job.completed_seq,
                error=error,
                exit_status=None if failure is None else failure.exit_status,
                stderr=stderr,
                outputs=[
                    _output(batch_id, job, output, base_url) for output in found if job.status == "done"
                ],
            )
        )
    return replies


def _error_text(job: Job) -> str:
    return " ".join(text for bit, text in _ERRORS.items() if job.error_mask & bit)


def output_name(job: Job, output: StoredOutput) -> str:
    """The name under which the program wrote an output."""
    specs = job.output_specs
    return specs[output.index].open_name if output.index < len(specs) else output.name


def _output(batch_id: int, job: Job, output: StoredOutput, base_url: str) -> OutputFileReply:
    name = output_name(job, output)
    return OutputFileReply(
        name=name,
        nbytes=output.nbytes,
        url=f"{base_url}/batches/{batch_id}/jobs/{job.workunit_id}/outputs/{name}",
    )
