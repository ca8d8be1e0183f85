"""How batches and their jobs are described in replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from cobblestone.api_schema import batches as schema
from cobblestone.domain.exit_statuses import exit_advice
from cobblestone.domain.states import BatchState, Outcome, WorkunitError
from cobblestone.launcher import job_arguments
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database
from cobblestone.store.work import batches, job_results
from cobblestone.store.work.batches import Batch, Job
from cobblestone.store.work.rows import result_text
from cobblestone.store.work.uploads import StoredOutput, outputs_of_results

STDERR_TAIL = 2000
_NONE: Mapping[int, str] = MappingProxyType({})

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


def batch_reply(batch: Batch, app: str, *, running: int, notes: Sequence[str]) -> schema.BatchStatus:
    """Describe a batch."""
    return schema.BatchStatus(
        id=batch.id,
        name=batch.name,
        app=app,
        state=BATCH_STATES[batch.state],
        created=batch.create_time,
        completed=batch.complete_time,
        njobs=batch.njobs,
        n_success=batch.n_success,
        n_error=batch.n_error,
        running=running,
        finished=batch.finished,
        notes=list(notes),
    )


def describe_jobs(
    db: Database, batch_id: int, jobs: Sequence[Job], base_url: str, *, stuck: Mapping[int, str] = _NONE
) -> list[schema.JobStatus]:
    """Describe jobs with their outputs, or with why they failed; ``stuck`` ones failed so far, and it says why they wait."""
    form = apps.job_form(db, batches.batch_by_id(db, batch_id).app_id)
    canonical = [job.canonical_result_id for job in jobs if job.canonical_result_id is not None]
    outputs = outputs_of_results(db, canonical, with_data=False)
    failed = [job.workunit_id for job in jobs if job.status == "failed" or job.workunit_id in stuck]
    failures = job_results.last_failures(db, failed)
    facts = job_results.result_facts(db, [*canonical, *(each.result_id for each in failures.values())])
    replies: list[schema.JobStatus] = []
    for job in jobs:
        failure = failures.get(job.workunit_id)
        error, stderr = stuck.get(job.workunit_id) or _error_text(job), ""
        if failure is not None:
            stderr = result_text(db, failure.result_id).stderr[-STDERR_TAIL:]
            error += f" The last one, {failure.name}, {_OUTCOMES[failure.outcome]}."
            if failure.exit_status:
                error += f" {exit_advice(failure.exit_status).text()}"
        of_interest = job.canonical_result_id if failure is None else failure.result_id
        fact = None if of_interest is None else facts.get(of_interest)
        arguments = job_arguments(job.command_line) if form.command else {}
        found = outputs.get(job.canonical_result_id, []) if job.canonical_result_id is not None else []
        replies.append(
            schema.JobStatus(
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
                inputs=[
                    schema.GivenInput(name=file.open_name, file_name=file.given_name)
                    for file in job.input_files
                ],
                args=arguments,
                command_line="" if form.command else job.command_line,
                result="" if fact is None else fact.name,
                host=None if fact is None else fact.host_id,
                run_time=None if fact is None else fact.elapsed_time,
                credit=None if fact is None else fact.granted_credit,
            )
        )
    return replies


def _error_text(job: Job) -> str:
    return " ".join(text for bit, text in _ERRORS.items() if job.error_mask & bit)


def output_name(job: Job, output: StoredOutput) -> str:
    """Return the name under which the program wrote an output."""
    specs = job.output_specs
    return specs[output.index].open_name if output.index < len(specs) else output.name


def _output(batch_id: int, job: Job, output: StoredOutput, base_url: str) -> schema.OutputFile:
    name = output_name(job, output)
    return schema.OutputFile(
        name=name,
        nbytes=output.nbytes,
        url=f"{base_url}/batches/{batch_id}/jobs/{job.workunit_id}/outputs/{name}",
    )
