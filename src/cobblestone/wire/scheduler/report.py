"""What a client reports: finished jobs with their files, messages of running jobs, files that it keeps; read and written.

Source: BOINC's wire protocol as seen with client 7.20.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Annotated

from cobblestone.domain.errors import LocalProtocolError
from cobblestone.domain.values import changed, value
from cobblestone.wire.scheduler.host import MAX_OPERATIONS, MAX_TIME, Time
from cobblestone.wire.text.reader import (
    MAX_NAME,
    MAX_TEXT,
    FieldReader,
    Fields,
    Lenience,
    LenienceKind,
    Stderr,
    note,
    read_stderr,
    read_trickle,
    read_verbatim,
)
from cobblestone.wire.text.table import (
    Amount,
    Contents,
    Count,
    FieldTable,
    Given,
    Inside,
    Number,
    Text,
    Whole,
    usable_name,
)
from cobblestone.wire.text.writer import printable, scalar, whole

#: Hex digits of an answer to a question about a file.
MAX_ANSWER = 64
#: Stands for an absent or unreadable exit status within this module; no program ends with it.
NO_EXIT_STATUS = 2**31 - 1
_IN = "    "
GivenName = Annotated[str, Given(Text(MAX_NAME))]
Peak = Annotated[float, Number(digits=0, optional=True)]
Speed = Annotated[float, Number(optional=True)]
Operations = Annotated[float, Number(high=MAX_OPERATIONS, optional=True)]
_UNSAFE_IN_STDERR = re.compile(r"\]\]>|</?stderr_(?:out|txt)>")


@value(kw_only=True)
class ReportedFile:
    """An output file of a reported result."""

    name: Annotated[str, Text(read=usable_name)]
    nbytes: Amount = 0.0
    max_nbytes: Amount = 0.0
    md5_cksum: Annotated[str, Text(64, optional=True)] = ""
    upload_url: Annotated[str, Text(optional=True)] = ""
    #: not empty: the file never reached the server (client 7.20.5 then still says "success")
    error_msg: Annotated[str, Inside()] = ""


@value(kw_only=True)
class ReportedResult:
    """A finished job."""

    name: GivenName
    final_cpu_time: Time = 0.0
    final_elapsed_time: Time = 0.0
    exit_status: Annotated[int, Inside()] = 0
    exit_status_present: bool = False  #: False: the client did not say how the program ended; not a success
    #: the client's state: 1 downloading, 3 compute error, 5 uploaded, 6 aborted, 7 upload failed
    state: Annotated[int, Whole(0, 100)] = 0
    platform: Annotated[str, Text(MAX_NAME)] = ""
    version_num: Count = 0
    plan_class: Annotated[str, Text(MAX_NAME, optional=True)] = ""
    final_peak_working_set_size: Peak = 0.0  #: bytes
    final_peak_swap_size: Peak = 0.0  #: bytes
    final_peak_disk_usage: Peak = 0.0  #: bytes
    fpops_per_cpu_sec: Speed = 0.0
    fpops_cumulative: Operations = 0.0
    intops_per_cpu_sec: Speed = 0.0
    intops_cumulative: Operations = 0.0
    app_version_num: Count = 0  #: ``version_num`` again, legacy
    stderr: Annotated[str, Inside()] = ""  #: the program's stderr, its last part
    error_message: str = ""  #: the client's own text, e.g. ``process exited with code 7 (0x7, -249)``
    files: Contents[ReportedFile] = ()
    leniences: tuple[Lenience, ...] = field(
        default=(), compare=False
    )  #: departures from the format that were found in this report


@value(kw_only=True)
class MsgFromHost:
    """A trickle-up message of a job."""

    result_name: str
    time: float  #: Unix seconds
    variety: str
    text: str  #: what the program wrote, verbatim but for control characters


@value(kw_only=True)
class StickyFile:
    """A file that stays on the computer between jobs."""

    name: GivenName
    nbytes: Amount = 0.0
    status: Annotated[int, Whole(-(2**31))] = 0  #: 1 present, negative an error number
    #: of a question about the file that the client answers (an element of ours)
    nonce: Annotated[str, Text(MAX_ANSWER, element="challenge_nonce")] = ""
    answer: Annotated[str, Text(MAX_ANSWER, element="challenge_answer")] = ""  #: hex digits


_REPORT = FieldTable(ReportedResult)
_WRITTEN_REPORT = _REPORT.layout(tag="result")
_FILE = FieldTable(ReportedFile)
_WRITTEN_FILE = _FILE.layout(tag="file_info")
STICKY_FILE = FieldTable(StickyFile)
_KEPT = STICKY_FILE.layout("name", "nbytes", "status", tag="file_info", indent=_IN * 2, outside=_IN)
_ANSWERED = STICKY_FILE.layout(tag="file_info", indent=_IN * 2, outside=_IN)


def read_reports(
    found: Sequence[tuple[Fields, list[Fields]]], notes: list[Lenience]
) -> tuple[tuple[ReportedResult, ...], tuple[ReportedResult, ...]]:
    """Return the reports, first of each name only; reports of mere file transfers apart."""
    if not found:
        return (), ()
    results: dict[str, ReportedResult] = {}
    for fields, files in found:
        reader = FieldReader(fields, "result", notes)
        name = reader.name()
        if not name:
            note(notes, LenienceKind.NAMELESS, "result")
        elif name in results:
            note(notes, LenienceKind.DUPLICATE, "result", name)
        else:
            results[name] = _read_result(name, reader, files)
    transfers = [r for r in results.values() if r.name.startswith(("upload_", "download_"))]
    if not transfers:
        return tuple(results.values()), ()
    return tuple(r for r in results.values() if r not in transfers), tuple(transfers)


def _read_result(name: str, reader: FieldReader, files: list[Fields]) -> ReportedResult:
    noted = len(reader.notes)
    stderr_out = reader.fields.get("stderr_out")
    stderr = read_stderr(stderr_out, reader.notes) if stderr_out else Stderr()
    exit_status = reader.integer("exit_status", NO_EXIT_STATUS, -(2**31))
    if "exit_status" not in reader.fields:
        note(reader.notes, LenienceKind.MISSING, "result/exit_status", name)
    report = _REPORT.read(
        reader,
        name=name,
        exit_status=0 if exit_status == NO_EXIT_STATUS else exit_status,
        exit_status_present=exit_status != NO_EXIT_STATUS,
        stderr=stderr.program,
        error_message=stderr.message,
        files=tuple(_reported_files(files, reader.notes)) if files else (),
    )
    return changed(report, leniences=tuple(reader.notes[noted:])) if len(reader.notes) > noted else report


def _reported_files(files: list[Fields], notes: list[Lenience]) -> Iterator[ReportedFile]:
    for fields in files:
        reader = FieldReader(fields, "file_info", notes)
        error = fields.get("error_msg")
        # An empty element is an error too: the client writes it only after a failure.
        text = (
            ""
            if error is None
            else read_verbatim(error, "error_msg", notes)[:MAX_TEXT] or "error without text"
        )
        yield _FILE.read(reader, error_msg=text)


def read_trickles(found: Sequence[str], notes: list[Lenience]) -> tuple[MsgFromHost, ...]:
    """Read trickle-up messages."""
    trickles: list[MsgFromHost] = []
    for content in found:
        trickle = read_trickle(content, notes)
        reader = FieldReader({"time": trickle.time}, "msg_from_host", notes)
        trickles.append(
            MsgFromHost(
                result_name=trickle.result_name[:MAX_NAME],
                time=reader.number("time", high=MAX_TIME),
                variety=trickle.variety[:MAX_NAME],
                text=trickle.text,
            )
        )
    return tuple(trickles)


# -- writing --------------------------------------------------------------------------------------------


def write_report(result: ReportedResult, client: str) -> str:
    """Write a ``<result>``; ``client`` is the client's version as text."""
    return _WRITTEN_REPORT.write(
        result,
        exit_status=scalar("exit_status", result.exit_status, _IN) if result.exit_status_present else "",
        stderr=write_stderr(result.stderr, result.error_message, client),
        files="".join(map(_write_file, result.files)),
    )


def write_stderr(stderr: str, error_message: str, client: str) -> str:
    """Write what the program wrote, byte by byte as the family does; what would end it early is taken apart."""
    texts = ""
    if error_message:
        texts += f"<message>\n{_in_cdata(error_message)}</message>\n"
    if stderr:
        texts += f"<stderr_txt>\n{_in_cdata(stderr)}\n\n</stderr_txt>\n"
    if texts:
        texts = f"<![CDATA[\n{texts}]]>\n"
    return f"<stderr_out>\n{scalar('core_client_version', client)}{texts}</stderr_out>\n"


#: Bytes of both ends of a long stderr that `without_long_stderr` leaves.
KEPT_STDERR = 1000


def without_long_stderr(body: bytes) -> bytes:
    """Return a request without the middle of what programs wrote: a thousand reports may bring 64 kB each."""
    kept: list[bytes] = []
    at = 0
    while (begin := body.find(b"<stderr_out>", at)) >= 0 and (end := body.find(b"</stderr_out>", begin)) >= 0:
        head, tail = begin + KEPT_STDERR, end - KEPT_STDERR
        kept += [body[at:head], b"\n[...]\n", body[tail:end]] if head < tail else [body[at:end]]
        at = end
    return b"".join([*kept, body[at:]])


def _in_cdata(text: str) -> str:
    clean = _UNSAFE_IN_STDERR.sub(lambda found: found.group().replace(">", "&gt;"), printable(text))
    # One reference for each byte, and nothing but ASCII on the wire: servers that expect Latin-1 read it, too.
    return clean.encode().decode("latin-1").encode("ascii", "xmlcharrefreplace").decode()


def _write_file(file: ReportedFile) -> str:
    error = f"{_IN}<error_msg>\n{_in_cdata(file.error_msg)}</error_msg>\n" if file.error_msg else ""
    return _WRITTEN_FILE.write(file, error_msg=error)


def write_trickle(trickle: MsgFromHost) -> str:
    """Write a ``<msg_from_host>``.  Raises LocalProtocolError for a text that would end it early."""
    if "</msg_from_host>" in trickle.text:
        raise LocalProtocolError(f"the trickle of {trickle.result_name} holds </msg_from_host>")
    variety = scalar("variety", trickle.variety) if trickle.variety else ""
    return (
        "  <msg_from_host>\n"
        f"{scalar('result_name', trickle.result_name, '      ')}"
        f"      <time>{whole(trickle.time)}</time>\n"
        f"{variety}{printable(trickle.text)}\n  </msg_from_host>\n"
    )


def write_sticky_file(file: StickyFile) -> str:
    """Write the ``<file_info>`` of a file that stays on the computer."""
    return (_ANSWERED if file.nonce or file.answer else _KEPT).write(file)
