"""Jobs of a batch: conversion from request to rows, and from rows to replies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from cobblestone.api_schema import batches as schema
from cobblestone.api_schema.batches import InputBody, JobBody, TargetBody
from cobblestone.domain import job_form
from cobblestone.domain.apps import App
from cobblestone.domain.errors import JobError, NotAllowed, NotFound
from cobblestone.domain.reasons import exit_advice, phrase
from cobblestone.domain.texts import name_problem, same_file, several
from cobblestone.domain.values import HostId, TeamId, UserId, WorkunitId, form_of
from cobblestone.domain.work import BatchState, InputFile, JobLimits, Outcome, Recipients, WorkunitError
from cobblestone.launcher import RESERVED_OPEN_NAMES, job_arguments, job_command_line
from cobblestone.policy.dispatch.match import size_class_of
from cobblestone.server.api.submission.app_rules import check_command_line, limits_with
from cobblestone.server.core.context import ServerContext
from cobblestone.store.catalog import apps
from cobblestone.store.catalog.files import FileRow
from cobblestone.store.engine.database import Database
from cobblestone.store.people import hosts, users
from cobblestone.store.work import batches, job_results
from cobblestone.store.work.batches import BatchRow, JobRow, NewJob
from cobblestone.store.work.rows import result_text
from cobblestone.store.work.uploads import StoredOutput, first_uploads, outputs_of_results

MAX_COMMAND_LINE = 8000  # bytes; clients keep it in the job's description, which is bounded


def target_from(body: TargetBody | None) -> Recipients:
    """Return the restriction of who may get a job."""
    if body is None or body == TargetBody():
        return Recipients()
    return Recipients(
        host_id=None if body.host is None else HostId(body.host),
        user_id=None if body.user is None else UserId(body.user),
        team_id=None if body.team is None else TeamId(body.team),
    )


def check_targets(db: Database, bodies: Iterable[TargetBody | None]) -> None:
    """Check that the targets of jobs exist; otherwise the jobs would never be sent.

    Raises:
        NotFound: there is no such host, user or team.
    """
    given = [body for body in bodies if body is not None]
    for host in {body.host for body in given if body.host is not None}:
        if hosts.host_by_id(db, HostId(host)) is None:
            raise NotFound(f"target: there is no host {host}.")
    for user in {body.user for body in given if body.user is not None}:
        if users.user_by_id(db, UserId(user)) is None:
            raise NotFound(f"target: there is no user {user}.")
    for team in {body.team for body in given if body.team is not None}:
        if users.team_by_id(db, TeamId(team)) is None:
            raise NotFound(f"target: there is no team {team}.")


def check_privileges(priority: int, bodies: Iterable[JobBody]) -> None:
    """Check that jobs of an account ask for nothing that only operators give: to be sent before others, or fixed credit.

    Raises:
        NotAllowed: they do.
    """
    for body in bodies:
        if body.credit is not None or priority + body.priority > 0:
            what = "the credit of a job" if body.credit is not None else "a priority above 0"
            raise NotAllowed(f"Only the project's operators set {what}. Submit the jobs without it.")


def size_class_of_job(app: App, limits: JobLimits) -> int:
    """Return the size class of a job that names none: the app's usual job suits hosts in the middle; -1: no classes."""
    bounds = app.dispatch.size_classes
    if not bounds:
        return -1
    usual = max(app.limits.rsc_fpops_est, 1.0)
    return size_class_of(limits.rsc_fpops_est / usual * bounds[len(bounds) // 2], bounds)


@dataclass(frozen=True, slots=True)
class JobMaker:
    """Creates the jobs of one app; values common to all are computed once."""

    app: App
    form: job_form.JobForm
    limits: JobLimits  #: of the batch
    app_files: frozenset[str]  #: open names of files of the app's versions
    target: Recipients = Recipients()  #: of jobs that do not name their own

    def make(self, bodies: Sequence[JobBody], stored: Mapping[str, FileRow], *, first: int) -> list[NewJob]:
        """Return jobs for the store.

        Raises:
            JobError: a job lacks an input or argument, or has one too many; the text says which job.
        """
        found = job_form.find_placeholders(self.form.command) if self.form.command else None
        arguments = () if found is None else found.arguments
        outputs = {spec.open_name: spec.open_name for spec in self.app.output_specs}
        taken = {same_file(name) for name in (*RESERVED_OPEN_NAMES, *self.app_files, *outputs)}
        jobs: list[NewJob] = []
        for index, body in enumerate(bodies, start=first):
            try:
                jobs.append(self._job(body, stored, arguments, outputs, taken))
            except JobError as error:
                name = f" ({body.name})" if body.name else ""
                problem = error.sentence or str(error)
                why = phrase("Job {n}{name}: {problem}", n=index, name=name, problem=problem)
                raise JobError(why) from None
        return jobs

    def _job(
        self,
        body: JobBody,
        stored: Mapping[str, FileRow],
        arguments: Sequence[str],
        outputs: Mapping[str, str],
        taken: set[str],
    ) -> NewJob:
        slots = self._slots(body)
        inputs = tuple(
            self._input(slot, given, stored) for slot, given in zip(slots, body.inputs, strict=True)
        )
        open_names = [same_file(file.open_name) for file in inputs]
        for place, open_name in enumerate(open_names):
            if open_name in taken or open_name in open_names[:place]:
                raise JobError(
                    f"the input {slots[place].name!r} would be called {inputs[place].open_name!r} in the program's folder, like"
                    " another file. Give the input another name."
                )
        command_line = self._command_line(body, slots, inputs, outputs, arguments)
        limits = self.limits if body.limits is None else limits_with(body.limits, self.limits)
        target = self.target if body.target is None else target_from(body.target)
        rules = self.app.rules_of_jobs
        if target.one_person:
            rules = replace(rules, min_quorum=1, target_nresults=1)
        return NewJob(
            label=body.name,
            command_line=command_line,
            input_files=inputs,
            output_specs=self.app.output_specs,
            target=target,
            size_class=size_class_of_job(self.app, limits) if body.size_class is None else body.size_class,
            limits=limits,
            rules=rules,
            priority=body.priority,
            fixed_credit=self.app.fixed_credit if body.credit is None else body.credit,
        )

    def _command_line(
        self,
        body: JobBody,
        slots: Sequence[job_form.InputSlot],
        inputs: Sequence[InputFile],
        outputs: Mapping[str, str],
        arguments: Sequence[str],
    ) -> str:
        """Return the job's command line.  Raises JobError: arguments that it misses, does not know, or are too long."""
        if self.form.command:
            missing = [name for name in arguments if name not in body.args]
            if missing:
                why = phrase("the command uses {{arg:{name}}}, which the job does not have.", name=missing[0])
                raise JobError(why)
            unknown = [name for name in body.args if name not in arguments]
            if unknown:
                known = ", ".join(f"{{arg:{name}}}" for name in arguments)
                raise JobError(
                    f"the job gives the argument {unknown[0]!r}, but the command does not use {{arg:{unknown[0]}}}."
                    + (f" It uses {known}." if known else " It uses no arguments.")
                )
            if body.command_line:
                raise JobError("command_line is for native programs; this app takes inputs and args.")
            given = {slot.name: file.open_name for slot, file in zip(slots, inputs, strict=True)}
            command_line = job_command_line(inputs=given, outputs=outputs, arguments=body.args)
        else:
            if body.args:
                raise JobError("args are for apps with a command; give a native program its command_line.")
            command_line = f"{self.form.command_line} {body.command_line}".strip()
            check_command_line(command_line)
        if len(command_line.encode()) > MAX_COMMAND_LINE:
            why = phrase("its command line exceeds {n} bytes: put values into a file.", n=MAX_COMMAND_LINE)
            raise JobError(why)
        return command_line

    def _slots(self, body: JobBody) -> list[job_form.InputSlot]:
        """Return the slot of each given input.  All slots of the form must be filled."""
        named = {given.name for given in body.inputs if given.name}
        free = [slot for slot in self.form.inputs if slot.name not in named]
        known = {slot.name: slot for slot in self.form.inputs}
        slots: list[job_form.InputSlot] = []
        for place, given in enumerate(body.inputs):
            if given.name in known:
                slot = known[given.name]
            elif not given.name and free:
                slot = free.pop(0)
            elif self.form.takes_any_inputs:
                slot = self._extra_slot(given, place)
            else:
                raise JobError(self._too_many(given, len(body.inputs)))
            if slot.name in [earlier.name for earlier in slots]:
                raise JobError(f"the input {slot.name!r} is given twice.")
            slots.append(slot)
        missing = [slot.name for slot in self.form.inputs if slot.name not in {slot.name for slot in slots}]
        if missing:
            raise JobError(phrase("it is missing the input {name}, which every job needs.", name=missing[0]))
        return slots

    def _extra_slot(self, given: InputBody, place: int) -> job_form.InputSlot:
        if self.form.command:
            name = given.name or f"{job_form.DEFAULT_INPUT}_{place}"
        else:  # a native program opens its files by fixed names
            name = given.name or (f"{job_form.DEFAULT_INPUT}_{place}" if place else job_form.DEFAULT_INPUT)
        if not job_form.legal_name(name):
            raise JobError(f"the input name {name!r} must be letters, digits, _ - and . only.")
        if problem := name_problem(name):
            raise JobError(f"the input name {name!r} {problem}. Choose another.")
        return job_form.InputSlot(name=name, open_name="" if self.form.command else name)

    def _too_many(self, given: InputBody, count: int) -> str:
        names = ", ".join(slot.name for slot in self.form.inputs) or "none"
        if given.name:
            return f"the app has no input {given.name!r}; it has: {names}."
        return f"it has {several(count, 'input')}; the app needs {len(self.form.inputs)} ({names})."

    def _input(self, slot: job_form.InputSlot, given: InputBody, stored: Mapping[str, FileRow]) -> InputFile:
        file, named = stored.get(given.file), given.file_name or given.file
        if file is None:
            raise JobError(f"the file {named} is not stored. Upload it first: PUT /api/v1/files/SHA256")
        return form_of(
            InputFile,
            file,
            slot,
            open_name=job_form.open_name_for(slot, re.split(r"[/\\]", given.file_name)[-1]),
            given_name=given.file_name,
            sticky=slot.sticky or self.app.dispatch.locality,
        )


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
    WorkunitError.TOO_MANY_SUCCESS_RESULTS: "Too many results came in that do not agree with each other.",
    WorkunitError.TOO_MANY_TOTAL_RESULTS: "Too many computers were tried without an agreed answer.",
    WorkunitError.NO_CANONICAL_RESULT: "The agreed result is missing.",
}
_OUTCOMES = {
    Outcome.COULDNT_SEND: "could not be sent",
    Outcome.CLIENT_ERROR: "failed",
    Outcome.NO_REPLY: "did not come back in time",
    Outcome.VALIDATE_ERROR: "came back with outputs that could not be used",
}


def running_jobs(ctx: ServerContext, db: Database, batch: BatchRow) -> int:
    """Return how many unfinished jobs of a batch are on a host, as lately counted where that takes long."""
    if batch.finished:
        return 0
    counted = ctx.costly.get(("running", batch.id), lambda: batches.count_running(db, batch))
    return min(counted, batch.njobs - batch.n_success - batch.n_error)


def batch_reply(batch: BatchRow, app: str, *, running: int, notes: Sequence[str]) -> schema.BatchStatus:
    """Describe a batch."""
    return form_of(
        schema.BatchStatus,
        batch,
        app=app,
        state=BATCH_STATES[batch.state],
        created=batch.create_time,
        completed=batch.complete_time,
        running=running,
        notes=list(notes),
    )


def describe_jobs(
    db: Database, batch_id: int, jobs: Sequence[JobRow], base_url: str, *, stuck: Mapping[int, str] = _NONE
) -> list[schema.JobStatus]:
    """Describe jobs with their outputs, or why they failed; for ``stuck`` ones, which failed so far, why they wait."""
    form = apps.job_form(db, batches.batch_by_id(db, batch_id).app_id)
    canonical = [job.canonical_result_id for job in jobs if job.canonical_result_id is not None]
    outputs = outputs_of_jobs(db, jobs, with_data=False)
    failed = [
        job.workunit_id for job in jobs if job.status in ("failed", "cancelled") or job.workunit_id in stuck
    ]
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
            if last := stderr.rstrip().rpartition("\n")[2].strip():
                error += f" Its last line: {last[:300]}"
        of_interest = job.canonical_result_id if failure is None else failure.result_id
        fact = None if of_interest is None else facts.get(of_interest)
        arguments = job_arguments(job.command_line) if form.command else {}
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
                    _output(batch_id, job, output, base_url) for output in outputs.get(job.workunit_id, [])
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


def _error_text(job: JobRow) -> str:
    return " ".join(text for bit, text in _ERRORS.items() if job.error_mask & bit)


def outputs_of_jobs(
    db: Database, jobs: Sequence[JobRow], *, with_data: bool = True
) -> dict[WorkunitId, list[StoredOutput]]:
    """Return the outputs of jobs that are done, and those that others have uploaded while they run: no one has checked these."""
    found = first_uploads(db, [job.workunit_id for job in jobs if job.status == "running"])
    for job in jobs:
        if job.status == "done" and job.canonical_result_id is not None:
            found[job.workunit_id] = job.canonical_result_id
    outputs = outputs_of_results(db, list(found.values()), with_data=with_data)
    return {workunit_id: outputs[result_id] for workunit_id, result_id in found.items()}


def output_name(job: JobRow, output: StoredOutput) -> str:
    """Return the name under which the program wrote an output."""
    specs = job.output_specs
    return specs[output.index].open_name if output.index < len(specs) else output.name


def _output(batch_id: int, job: JobRow, output: StoredOutput, base_url: str) -> schema.OutputFile:
    name = output_name(job, output)
    return schema.OutputFile(
        name=name,
        nbytes=output.nbytes,
        url=f"{base_url}/batches/{batch_id}/jobs/{job.workunit_id}/outputs/{name}",
    )
