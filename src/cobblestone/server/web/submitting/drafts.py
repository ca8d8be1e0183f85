"""What a submitter has given in the browser, turned into jobs: files with one job each, or a table with a row for each job."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from cobblestone.api_schema.apps import AppName
from cobblestone.api_schema.batches import InputBody, JobBody
from cobblestone.api_schema.values import Body, Line, find_fault
from cobblestone.domain.errors import JobError
from cobblestone.domain.job_form import JobForm, find_placeholders
from cobblestone.domain.job_table import OWN_COLUMNS, TableFault, TableRow, decode_table, read_table
from cobblestone.service.languages import gettext as _
from cobblestone.service.languages import translate_reason
from cobblestone.store.catalog.files import input_name

#: Jobs of a batch from the browser: they are stored in one transaction.
MAX_JOBS = 10_000
MAX_TABLE_BYTES = 8_000_000
MAX_FAULTS = 20
_MAX_NAME = 200


class GivenFile(Body, frozen=True):
    """A file that is stored on the server; ``name``: as its owner calls it, often with folders."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
    sha256: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class GivenFiles(Body, frozen=True):
    """What the script of the page has sent before the form."""

    files: list[GivenFile] = msgspec.field(default_factory=list[GivenFile])


class Draft(Body, frozen=True, kw_only=True):
    """A batch before it is submitted."""

    app: AppName
    name: Line = ""
    jobs: Annotated[list[JobBody], msgspec.Meta(min_length=1, max_length=MAX_JOBS)]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that must be changed, with its place."""

    text: str
    row: int = 0  #: of the table; 0: it is about the files
    column: str = ""


class BadDraft(JobError):
    """What was given makes no batch."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__()
        self.faults = list(faults)


def jobs_of(
    form: JobForm, files: Sequence[GivenFile], table: bytes | None, args: Mapping[str, str]
) -> list[JobBody]:
    """Return the jobs of files and a table; ``args`` are for all jobs, where the table has no column for them.

    Raises:
        BadDraft: with everything that is wrong, the first `MAX_FAULTS`.
    """
    by_name = _files_by_name(files)
    if table is None:
        return _job_each(form, by_name, args)
    jobs: list[JobBody] = []
    faults: list[Fault] = []
    names: set[str] = set()
    checked = False
    try:
        for row in read_table(decode_table(table), [slot.name for slot in form.inputs]):
            if not checked and isinstance(row, TableRow):
                _check_columns(form, row, args)
                checked = True
            made = _job_of(row, by_name, names, args)
            if isinstance(made, Fault):
                faults.append(made)
            else:
                jobs.append(made)
            if len(jobs) > MAX_JOBS:
                text = _("The table has more than %(most)d jobs. Divide it, or use the command line.")
                raise BadDraft([Fault(text % {"most": MAX_JOBS}, row.row)])
            if len(faults) >= MAX_FAULTS:
                break
    except TableFault as fault:
        faults.append(_said(fault))
    if not jobs and not faults:
        faults = [Fault(_("The table has no rows below the names of its columns."), 1)]
    if faults:
        raise BadDraft(faults)
    return jobs


def _said(fault: TableFault) -> Fault:
    return Fault(translate_reason(fault.why), fault.row, fault.column)


def _files_by_name(files: Sequence[GivenFile]) -> dict[str, GivenFile]:
    found: dict[str, GivenFile] = {}
    twice = [file.name for file in files if found.setdefault(file.name, file).sha256 != file.sha256]
    if twice:
        text = _("Two different files are called %(name)s.")
        raise BadDraft([Fault(text % {"name": repr(name[:100])}) for name in twice[:MAX_FAULTS]])
    return found


def printable(text: str) -> str:
    """Return a text without what a line may not hold."""
    return "".join(filter(str.isprintable, text))


def _base(name: str) -> str:
    return re.split(r"[/\\]", name)[-1]


def _stem(name: str) -> str:
    """Return a name for a job of a file: without folders and suffix, and without what a name may not have."""
    base = _base(name)
    return printable(base.rpartition(".")[0] or base)[:_MAX_NAME]


def _given(file: GivenFile, name: str = "") -> InputBody:
    return InputBody(file=input_name(file.sha256), name=name, file_name=printable(file.name)[-_MAX_NAME:])


def _job_each(form: JobForm, files: Mapping[str, GivenFile], args: Mapping[str, str]) -> list[JobBody]:
    if not files and not form.inputs:
        return [JobBody(args=dict(args))]
    if not files:
        raise BadDraft([Fault(_("Choose the files first: each becomes a job."))])
    if len(form.inputs) > 1:
        names = ", ".join(slot.name for slot in form.inputs)
        text = _(
            "A job of this app has several input files (%(names)s): give a table that has a column for each."
        )
        raise BadDraft([Fault(text % {"names": names})])
    if len(files) > MAX_JOBS:
        text = _("These are more than %(most)d files. Divide them, or use the command line.")
        raise BadDraft([Fault(text % {"most": MAX_JOBS})])
    return [JobBody(name=_stem(file.name), inputs=[_given(file)], args=dict(args)) for file in files.values()]


def arguments_of(form: JobForm) -> Collection[str]:
    """Return the names of the arguments of an app's jobs."""
    return find_placeholders(form.command).arguments if form.command else ()


def _check_columns(form: JobForm, row: TableRow, args: Mapping[str, str]) -> None:
    """Check that the columns of a table are those that the app's jobs need.  Raises BadDraft."""
    wanted = arguments_of(form)
    inputs = [slot.name for slot in form.inputs]
    faults = [
        Fault(_("The app has no input and no argument of this name."), 1, column)
        for column in row.args
        if column not in wanted
    ]
    faults += [
        Fault(_("This column is missing: every job needs it."), 1, name)
        for name in (*inputs, *wanted)
        if name not in (*row.columns, *row.args) and not args.get(name)
    ]
    if faults:
        known = ", ".join((*inputs, *wanted, *OWN_COLUMNS))
        raise BadDraft([*faults[:MAX_FAULTS], Fault(_("Possible columns: %(names)s") % {"names": known}, 1)])


def _job_of(
    row: TableRow | TableFault, files: Mapping[str, GivenFile], names: set[str], args: Mapping[str, str]
) -> JobBody | Fault:
    """Return the job of a row, or what is wrong with it; ``names``: those of the rows before."""
    if isinstance(row, TableFault):
        return _said(row)
    if row.empty:
        return Fault(_("The row is empty."), row.row)
    inputs: list[InputBody] = []
    for name, given in row.inputs.items():
        file = files.get(given) or files.get(_base(given))
        if file is None:
            text = _("There is no file %(name)s among those that you have chosen.")
            return Fault(text % {"name": repr(given[:100])}, row.row, row.columns[name])
        inputs.append(_given(file, name))
    if missing := [name for name in row.columns if name not in row.inputs]:
        return Fault(_("The name of the file is missing."), row.row, row.columns[missing[0]])
    if row.name and row.name in names:
        return Fault(_("Another row has this name, too."), row.row, "name")
    names.add(row.name)
    job = JobBody(
        name=row.name or (_stem(next(iter(row.inputs.values()))) if len(row.inputs) == 1 else ""),
        inputs=inputs,
        args={**args, **row.args},
        priority=row.priority,
        command_line=row.command_line,
    )
    plain = msgspec.to_builtins(job)
    try:
        return msgspec.convert(plain, JobBody)
    except msgspec.ValidationError as error:
        fault = find_fault(error, plain, JobBody)
        return Fault(fault.message, row.row, fault.member.rpartition(".")[2])
