"""From the jobs of a request to rows: which file lies where, and the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cobblestone.api_schema.batches import InputBody, JobBody, TargetBody
from cobblestone.domain.apps import App
from cobblestone.domain.errors import JobError, NotFound
from cobblestone.domain.file_names import name_problem, same_file
from cobblestone.domain.ids import HostId, TeamId, UserId
from cobblestone.domain.job_form import (
    DEFAULT_INPUT,
    InputSlot,
    JobForm,
    find_placeholders,
    legal_name,
    open_name_for,
)
from cobblestone.domain.work import InputFile, JobLimits, Target
from cobblestone.launcher import RESERVED_OPEN_NAMES, job_command_line
from cobblestone.policy.dispatch.suitability import size_class_of
from cobblestone.server.api.app_rules import check_command_line, limits_with
from cobblestone.store.engine.database import Database
from cobblestone.store.people import hosts, users
from cobblestone.store.work.batches import NewJob
from cobblestone.store.work.files import StoredFile

MAX_COMMAND_LINE = 8000  # bytes; clients keep it in the job's description, which is bounded


def target_from(body: TargetBody | None) -> Target:
    """Who alone shall get a job."""
    if body is None or body == TargetBody():
        return Target()
    return Target(
        host_id=None if body.host is None else HostId(body.host),
        user_id=None if body.user is None else UserId(body.user),
        team_id=None if body.team is None else TeamId(body.team),
    )


def check_targets(db: Database, bodies: Iterable[TargetBody | None]) -> None:
    """Check that those exist who alone shall get jobs; nobody would ever get these otherwise.

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


def size_class_of_job(app: App, limits: JobLimits) -> int:
    """Return the size class of a job that names none: the app's usual job is one for hosts in the middle; -1: no classes."""
    bounds = app.dispatch.size_classes
    if not bounds:
        return -1
    usual = max(app.limits.rsc_fpops_est, 1.0)
    return size_class_of(limits.rsc_fpops_est / usual * bounds[len(bounds) // 2], bounds)


@dataclass(frozen=True, slots=True)
class JobMaker:
    """Makes the jobs of one app; what is the same for all is computed once."""

    app: App
    form: JobForm
    limits: JobLimits  #: of the batch
    app_files: frozenset[str]  #: open names of files of the app's versions
    target: Target = Target()  #: of jobs that do not name their own

    def make(
        self, bodies: Sequence[JobBody], stored: Mapping[str, StoredFile], *, first: int
    ) -> list[NewJob]:
        """Jobs for the store.

        Raises:
            JobError: a job lacks an input or argument, or has one too many; the text says which job.
        """
        found = find_placeholders(self.form.command) if self.form.command else None
        arguments = () if found is None else found.arguments
        outputs = {spec.open_name: spec.open_name for spec in self.app.output_specs}
        taken = {same_file(name) for name in (*RESERVED_OPEN_NAMES, *self.app_files, *outputs)}
        jobs: list[NewJob] = []
        for index, body in enumerate(bodies, start=first):
            try:
                jobs.append(self._job(body, stored, arguments, outputs, taken))
            except JobError as error:
                name = f" ({body.name})" if body.name else ""
                raise JobError(f"Job {index}{name}: {error}") from None
        return jobs

    def _job(
        self,
        body: JobBody,
        stored: Mapping[str, StoredFile],
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
                    f"the input {slots[place].name!r} would be called {inputs[place].open_name!r} in the program's folder, and so"
                    " is another file. Give the input another name."
                )
        if self.form.command:
            missing = [name for name in arguments if name not in body.args]
            if missing:
                raise JobError(
                    f"the command uses {{arg:{missing[0]}}}, but the job has no such argument."
                    f" Give it: --arg {missing[0]}=VALUE"
                )
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
            raise JobError(
                f"its command line has {len(command_line.encode())} bytes; {MAX_COMMAND_LINE} are possible."
                " Put long values into an input file."
            )
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

    def _slots(self, body: JobBody) -> list[InputSlot]:
        """Return the slot of each given input.  All slots of the form must be filled."""
        named = {given.name for given in body.inputs if given.name}
        free = [slot for slot in self.form.inputs if slot.name not in named]
        known = {slot.name: slot for slot in self.form.inputs}
        slots: list[InputSlot] = []
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
            raise JobError(f"it lacks the input {missing[0]!r}. Every job of {self.app.name} needs it.")
        return slots

    def _extra_slot(self, given: InputBody, place: int) -> InputSlot:
        if self.form.command:
            name = given.name or f"{DEFAULT_INPUT}_{place}"
        else:  # a native program opens its files by fixed names
            name = given.name or (f"{DEFAULT_INPUT}_{place}" if place else DEFAULT_INPUT)
        if not legal_name(name):
            raise JobError(f"the input name {name!r} must be letters, digits, _ - and . only.")
        if problem := name_problem(name):
            raise JobError(f"the input name {name!r} {problem}. Choose another.")
        return InputSlot(name=name, open_name="" if self.form.command else name)

    def _too_many(self, given: InputBody, count: int) -> str:
        names = ", ".join(slot.name for slot in self.form.inputs) or "none"
        if given.name:
            return f"the app has no input {given.name!r}; it has: {names}."
        return f"it has {count} inputs; the app takes {len(self.form.inputs)} ({names})."

    def _input(self, slot: InputSlot, given: InputBody, stored: Mapping[str, StoredFile]) -> InputFile:
        file = stored.get(given.file)
        if file is None:
            raise JobError(f"the file {given.file} is not stored. Upload it first: PUT /api/v1/files/SHA256")
        return InputFile(
            name=file.name,
            open_name=open_name_for(slot, re.split(r"[/\\]", given.file_name)[-1]),
            given_name=given.file_name,
            nbytes=file.nbytes,
            md5=file.md5,
            gzipped_nbytes=file.gzipped_nbytes,
            sticky=slot.sticky or self.app.dispatch.locality,
            copy_file=slot.copy_file,
        )
