"""The family's remote job submission: the calls of scientists' programs, and the answers to them.

Source: ``html/user/submit_rpc_handler.php`` and ``job_file.php``; ``lib/boinc_submit.py``, ``lib/submit_api.py`` and
``lib/remote_submit.cpp``, which send and read these messages (facts only).  The callers escape nothing that they put in, so
calls are read tag by tag, as all messages of the family; but what is too long or no number is refused, not cut: a job must
not run with half of its command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from cobblestone.domain.apps import App
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.job_form import JobForm
from cobblestone.domain.values import value
from cobblestone.wire.project.account import WebRpcError
from cobblestone.wire.text.reader import (
    MAX_NAME,
    FieldReader,
    Lenience,
    LenienceKind,
    read_verbatim,
    unescape,
)
from cobblestone.wire.text.table import Amount, Count, FieldTable, Text, Whole
from cobblestone.wire.text.tree import Node, read_tree
from cobblestone.wire.text.writer import escape, scalar

MAX_BYTES = 16_000_000
#: Of one call (HTCondor sends a batch in one piece), and also names of jobs, batches or files.
MAX_JOBS = 10_000
#: Characters of a file that stands in the call itself.
MAX_INLINE = 64_000

_DECLARATION = '<?xml version="1.0" encoding="UTF-8" ?>\n'
_ACTION = re.compile(rb"\s{0,100}(?:<\?xml[^<>]{0,200}\?>\s{0,100})?<(\w{1,40})[\s/>]")
_AUTHENTICATOR = re.compile(rb"<authenticator>([^<]{1,200})</authenticator>")
#: What names a job, batch or file, with what stands before the name of a file that is called by its MD5 alone.
_NAMES = {"job_name": "", "batch_name": "", "phys_name": "", "md5": "jf_"}
#: What would make other jobs of a call than those that the app has.
_OF_THE_APP = re.compile(
    r"(input|output|wu|result|workunit)_template(_file(name)?)?|job_params|target_(host|team|user)"
)
Name = Annotated[str, Text(MAX_NAME, read=str.strip)]
Priority = Annotated[int, Whole(-1_000_000, 1_000_000)]


@value(kw_only=True)
class CalledFile:
    """An input file of a job, as the caller gives it."""

    mode: Name = "local_staged"
    source: Annotated[str, Text(MAX_INLINE, read=str.strip)] = ""  #: the caller's name for it
    content: str = ""  #: of an ``inline`` file, which stands in the place of the name


@value(kw_only=True)
class CalledJob:
    """A job of a call; a number that is 0 was not given."""

    name: Name = ""
    command_line: Annotated[str, Text(8000, read=str.strip)] = ""
    rsc_fpops_est: Amount = 0.0
    priority: Priority = 0
    files: tuple[CalledFile, ...] = ()


@value(kw_only=True)
class RemoteCall:
    """A call: all that any action may be told; a number that is 0 was not given."""

    action: str
    authenticator: Name = ""
    app_name: Name = ""
    app_version_num: Count = 0
    batch_id: Count = 0
    batch_name: Name = ""
    job_id: Annotated[int, Whole(high=2**53)] = 0
    min_mod_time: Amount = 0.0  #: Unix seconds
    priority: Priority = 0
    jobs: tuple[CalledJob, ...] = ()
    names: tuple[str, ...] = ()  #: of jobs, batches or files, in the order of the call


#: What is told of values that other messages may have.
_FAULTS = {LenienceKind.BAD_NUMBER: "no possible number", LenienceKind.CUT: "too long"}
_FILE = FieldTable(CalledFile)
_JOB = FieldTable(CalledJob)
_CALL = FieldTable(RemoteCall)


def action_of(body: bytes) -> str:
    """Return the action of a call; empty: it is none."""
    found = _ACTION.match(body)
    return "" if found is None else found[1].decode()


def authenticator_of(beginning: bytes) -> str:
    """Return the authenticator of a call of which only the beginning is there; empty: it has none."""
    found = _AUTHENTICATOR.search(beginning)
    return "" if found is None else found[1].decode("latin-1").strip()


def parse_call(body: bytes) -> RemoteCall:
    """Read a call.

    Raises:
        RemoteProtocolError: it is none, ends too early, or holds too much, too long texts or what should be a number.
    """
    action = action_of(body)
    if not action:
        raise RemoteProtocolError("the request is no XML")
    notes: list[Lenience] = []
    top = read_tree(body, action, ("input_template", "output_template"), max_bytes=MAX_BYTES)
    batch = top.inner("batch")
    jobs = list(batch.all("job"))
    named = [each for each in top.children if each.tag in _NAMES]
    if max(len(jobs), len(named)) > MAX_JOBS:
        raise RemoteProtocolError(f"a call has at most {MAX_JOBS} jobs, and as many names: divide it")
    for each in (batch, *jobs):
        if unknown := [child.tag for child in each.children if _OF_THE_APP.fullmatch(child.tag)]:
            raise RemoteProtocolError(f"<{unknown[0]}> is not taken: jobs have the limits of their app")
    call = _CALL.read(
        FieldReader({**top.fields(), **batch.fields()}, action, notes),
        action=action,
        jobs=tuple(_read_job(job, notes) for job in jobs),
        names=tuple(_NAMES[each.tag] + each.scalar(notes, MAX_NAME).strip() for each in named),
    )
    for found in notes:
        if found.kind is not LenienceKind.NOT_UTF8:
            fault = _FAULTS.get(found.kind, found.kind)
            raise RemoteProtocolError(f"<{found.where}> cannot be used ({fault}: {found.detail})")
    return call


def _read_job(job: Node, notes: list[Lenience]) -> CalledJob:
    files = tuple(
        _FILE.read(
            each.reader(notes), content=unescape(read_verbatim(each.inner("source").raw, "source", notes))
        )
        for each in job.all("input_file")
    )
    return _JOB.read(job.reader(notes), files=files)


def write_stderr(text: str) -> str:
    """Write what a program wrote; as the family does, escaped within CDATA."""
    return f"<stderr_out><![CDATA[\n{escape(text)}]]></stderr_out>\n"


def write_element(tag: str, *scalars: tuple[str, str | float], inside: str = "") -> str:
    """Write an element with scalars in it."""
    return f"<{tag}>\n{''.join(scalar(*each) for each in scalars)}{inside}</{tag}>\n"


def write_reply(action: str, content: str) -> bytes:
    """Write an answer."""
    return f"{_DECLARATION}{write_element(action, inside=content)}".encode()


def write_refusal(action: str, message: str) -> bytes:
    """Write why a call is refused, within the element of the action if it has one."""
    error = write_element(
        "error", ("error_num", int(WebRpcError.GENERIC)), ("error_msg", " ".join(message.split()))
    )
    return write_reply(action, error) if action else f"{_DECLARATION}{error}".encode()


def write_templates(app: App, form: JobForm) -> str:
    """Write the files of an app's jobs as templates, in which callers look for their names."""
    job = _file_refs(slot.open_name or slot.name for slot in form.inputs)
    result = _file_refs(spec.open_name for spec in app.output_specs)
    return write_element(
        "templates",
        inside=write_element("input_template", inside=write_element("workunit", inside=job))
        + write_element("output_template", inside=write_element("result", inside=result)),
    )


def _file_refs(open_names: Iterable[str]) -> str:
    return "".join(write_element("file_ref", ("open_name", name)) for name in open_names)
