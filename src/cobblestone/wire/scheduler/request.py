"""The scheduler request of a client, as frozen values.

Source: BOINC's wire protocol as seen with client 7.20.5, ``sched/sched_types.cpp`` for the older elements.
Everything is bounded and finite; what was forgiven on the way is in ``leniences``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import lru_cache

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.values import changed, value
from cobblestone.wire.project.preferences import GlobalPreferences, read_global_preferences
from cobblestone.wire.scheduler.host import (
    MAX_COUNT,
    MAX_TIME,
    CoprocRequest,
    DiskUsage,
    HostInfo,
    NetStats,
    TimeStats,
    read_coproc,
    read_disk_usage,
    read_host_info,
    read_net_stats,
    read_time_stats,
)
from cobblestone.wire.scheduler.request_layout import COPROC_TYPES, PLAIN_BLOCKS, RequestParts, take_apart
from cobblestone.wire.text.reader import (
    MAX_NAME,
    MAX_REQUEST_BYTES,
    MAX_TEXT,
    WHITE_SPACE,
    FieldReader,
    Fields,
    FlagField,
    Lenience,
    LenienceKind,
    Number,
    Stderr,
    Text,
    Whole,
    block_reader,
    client_version,
    note,
    read_stderr,
    read_trickle,
    read_verbatim,
)

MAX_ID = 2**62
MAX_KEY_CHARS = 4096
_KEY_CHARACTERS = frozenset("0123456789abcdefABCDEF.\n")
MAX_OPERATIONS = 1e30
"""Floating-point operations of one job: 1e18 a second for many years."""
MAX_ANSWER = 64
"""Hex digits of an answer to a question about a file."""
NO_EXIT_STATUS = 2**31 - 1
"""Stands for an absent or unreadable exit status within this module; no program ends with it."""


@value(kw_only=True)
class ReportedFile:
    """An output file of a reported result."""

    name: str
    nbytes: float = 0.0
    max_nbytes: float = 0.0
    md5_cksum: str = ""
    upload_url: str = ""
    error_msg: str = (
        ""  #: not empty: the file never reached the server (client 7.20.5 then still says "success")
    )


@value(kw_only=True)
class ReportedResult:
    """A finished job."""

    name: str
    final_cpu_time: float = 0.0  #: seconds
    final_elapsed_time: float = 0.0  #: seconds
    exit_status: int = 0
    exit_status_present: bool = False  #: False: the client did not say how the program ended; not a success
    state: int = (
        0  #: the client's state: 1 downloading, 3 compute error, 5 uploaded, 6 aborted, 7 upload failed
    )
    platform: str = ""
    version_num: int = 0
    app_version_num: int = 0  #: the same again, legacy
    plan_class: str = ""
    final_peak_working_set_size: float = 0.0  #: bytes
    final_peak_swap_size: float = 0.0  #: bytes
    final_peak_disk_usage: float = 0.0  #: bytes
    fpops_per_cpu_sec: float = 0.0
    fpops_cumulative: float = 0.0
    intops_per_cpu_sec: float = 0.0
    intops_cumulative: float = 0.0
    stderr: str = ""  #: the program's stderr, its last part
    error_message: str = ""  #: the client's own text, e.g. ``process exited with code 7 (0x7, -249)``
    files: tuple[ReportedFile, ...] = ()
    leniences: tuple[Lenience, ...] = field(
        default=(), compare=False
    )  #: departures from the format that were found in this report

    @property
    def successful(self) -> bool:
        """Return whether the client says that the program ended well and all outputs are on the server.

        Neither exit status 0 alone nor exit status 0 with state 5 is enough (seen with client 7.20.5).
        """
        return (
            self.exit_status_present
            and self.exit_status == 0
            and self.state == 5
            and not any(file.error_msg for file in self.files)
        )


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

    name: str
    nbytes: float = 0.0
    status: int = 0  #: 1 present, negative an error number
    nonce: str = ""  #: of a question about the file that the client answers (an element of ours)
    answer: str = ""  #: hex digits


@value(kw_only=True)
class ClientAppVersion:
    """An app version that the client holds; other results refer to it by its place in the list."""

    app_name: str
    version_num: int = 0
    platform: str = ""
    plan_class: str = ""
    avg_ncpus: float = 1.0
    flops: float = 0.0
    api_version: str = ""
    coproc_type: str = ""
    coproc_count: float = 0.0


@value(kw_only=True)
class OtherResult:
    """A job that is in progress on the client."""

    name: str
    app_version: int = -1  #: index into ``SchedulerRequest.app_versions``, -1 unknown
    plan_class: str = ""


@value(kw_only=True)
class InProgressResult:
    """A job of any project in the client's queue, for the deadline check on the server."""

    name: str
    report_deadline: float = 0.0  #: Unix seconds
    time_remaining: float = 0.0  #: seconds
    avg_ncpus: float = 1.0


@value(kw_only=True)
class SchedulerRequest:
    """One scheduler RPC, as the client sent it."""

    authenticator: str
    hostid: int = 0  #: 0 until the server assigned one
    rpc_seqno: int = 0
    client_version: int = 0  #: 10000 * major + 100 * minor + release
    client_version_text: str = ""  #: e.g. ``7.20.5``
    resource_share_fraction: float = 1.0
    rrs_fraction: float = 1.0
    prrs_fraction: float = 1.0
    duration_correction_factor: float = 1.0
    allow_multiple_clients: bool = False
    sandbox: bool = False
    dont_send_work: bool = False
    work_req_seconds: float = 0.0
    cpu_req_secs: float = 0.0
    cpu_req_instances: float = 0.0
    cpu_estimated_delay: float = 0.0  #: seconds until a CPU would be idle
    client_cap_plan_class: bool = False
    client_cap_file_challenge: bool = False  #: it answers questions about files (an element of ours)
    platforms: tuple[str, ...] = ()  #: primary first
    code_sign_key: str = ""  #: text without white space at its ends; empty: the client holds none
    working_global_preferences: GlobalPreferences | None = None  #: in force on the client
    global_preferences: GlobalPreferences | None = None  #: the network copy
    cross_project_id: str = ""
    time_stats: TimeStats = TimeStats()
    net_stats: NetStats = NetStats()
    host_info: HostInfo = HostInfo()
    disk_usage: DiskUsage = DiskUsage()
    coprocs: tuple[CoprocRequest, ...] = ()
    results: tuple[ReportedResult, ...] = ()
    results_truncated: bool = False  #: more were reported than we read; do not conclude that jobs are lost
    file_transfer_results: tuple[
        ReportedResult, ...
    ] = ()  #: named ``upload_`` or ``download_``; only acknowledged
    trickles: tuple[MsgFromHost, ...] = ()
    trickles_truncated: bool = (
        False  #: some were not read: do not acknowledge, the client sends them all again
    )
    sticky_files: tuple[StickyFile, ...] = ()
    app_versions: tuple[ClientAppVersion, ...] = ()
    other_results: tuple[OtherResult, ...] = ()
    other_results_listed: bool = False  #: whether the list was sent, and read to its end
    in_progress_results: tuple[InProgressResult, ...] = ()
    client_opaque: str = ""
    client_brand: str = ""
    leniences: tuple[Lenience, ...] = ()

    @property
    def wants_work(self) -> bool:
        """Return whether the client asks for jobs for any of its processors."""
        if self.dont_send_work:
            return False
        return (
            self.work_req_seconds > 0
            or self.cpu_req_secs > 0
            or any(gpu.req_secs > 0 for gpu in self.coprocs)
        )


_COUNT, _SECONDS, _SHARE = Number(high=MAX_COUNT), Number(high=MAX_TIME), Number(1.0, 0.0, 1.0)
_NAME = Text(MAX_NAME)

_read_request = block_reader(
    SchedulerRequest,
    {
        "hostid": Whole(high=MAX_ID),
        "rpc_seqno": Whole(),
        "resource_share_fraction": _SHARE,
        "rrs_fraction": _SHARE,
        "prrs_fraction": _SHARE,
        "duration_correction_factor": Number(1.0, 0.0, 1e6),
        "allow_multiple_clients": FlagField(),
        "sandbox": FlagField(),
        "dont_send_work": FlagField(),
        "work_req_seconds": _SECONDS,
        "cpu_req_secs": _SECONDS,
        "cpu_req_instances": _COUNT,
        "cpu_estimated_delay": Number(high=MAX_TIME, element="estimated_delay"),
        "client_cap_plan_class": FlagField(),
        "client_cap_file_challenge": FlagField(),
        "cross_project_id": Text(64),
        "client_brand": Text(255),
    },
)
_read_report = block_reader(
    ReportedResult,
    {
        "final_cpu_time": _SECONDS,
        "final_elapsed_time": _SECONDS,
        "state": Whole(0, 0, 100),
        "platform": _NAME,
        "version_num": Whole(),
        "app_version_num": Whole(),
        "plan_class": _NAME,
        "final_peak_working_set_size": Number(),
        "final_peak_swap_size": Number(),
        "final_peak_disk_usage": Number(),
        "fpops_per_cpu_sec": Number(),
        "fpops_cumulative": Number(high=MAX_OPERATIONS),
        "intops_per_cpu_sec": Number(),
        "intops_cumulative": Number(high=MAX_OPERATIONS),
    },
)
_read_app_version = block_reader(
    ClientAppVersion,
    {
        "version_num": Whole(),
        "platform": _NAME,
        "plan_class": _NAME,
        "avg_ncpus": Number(1.0, 0.0, MAX_COUNT),
        "flops": Number(),
        "api_version": Text(64),
    },
)
_read_other_result = block_reader(OtherResult, {"app_version": Whole(-1, -1, MAX_COUNT), "plan_class": _NAME})
_read_in_progress = block_reader(
    InProgressResult,
    {
        "report_deadline": _SECONDS,
        "time_remaining": _SECONDS,
        "avg_ncpus": Number(1.0, 0.0, MAX_COUNT),
    },
)


def parse_scheduler_request(body: bytes, *, max_bytes: int = MAX_REQUEST_BYTES) -> SchedulerRequest:
    """Read a scheduler request.

    Raises RemoteProtocolError, and nothing else, when the body is longer than ``max_bytes``, is no request,
    or ends before its closing tag: half a list of jobs would look like lost jobs.
    """
    if len(body) > max_bytes:
        raise RemoteProtocolError(
            f"{len(body)} bytes, at most {max_bytes} are read", reply_hint="The request is too long."
        )
    notes: list[Lenience] = []
    parts = take_apart(body, notes)
    top = FieldReader(parts.top, "scheduler_request", notes)
    version = client_version(top)
    if len(parts.blocks) < len(PLAIN_BLOCKS):
        for name in PLAIN_BLOCKS:
            if name not in parts.blocks:
                note(notes, LenienceKind.MISSING, name)
    results, transfers = _results(parts, notes)
    trickles = _trickles(parts, notes)
    request = _read_request(
        top,
        authenticator=top.text("authenticator", MAX_NAME).strip(),
        client_version=version,
        client_version_text=f"{version // 10000}.{version // 100 % 100}.{version % 100}",
        platforms=_platforms(top, parts, notes),
        code_sign_key=_key_text(parts.top.get("code_sign_key", "")[:MAX_KEY_CHARS]),
        working_global_preferences=_preferences(parts, "working_global_preferences", notes),
        global_preferences=_preferences(parts, "global_preferences", notes),
        time_stats=read_time_stats(top),
        net_stats=read_net_stats(top),
        host_info=read_host_info(top),
        disk_usage=read_disk_usage(top),
        coprocs=_coprocs(parts, notes) if parts.coprocs else (),
        results=results,
        results_truncated=parts.results_truncated,
        file_transfer_results=transfers,
        trickles=trickles,
        trickles_truncated=parts.trickles_truncated,
        sticky_files=_sticky_files(parts, notes) if parts.files else (),
        app_versions=_app_versions(parts, notes),
        other_results=_other_results(parts, notes),
        other_results_listed=parts.other_results is not None and not parts.others_truncated,
        in_progress_results=_in_progress_results(parts, notes) if parts.in_progress else (),
        client_opaque=_client_opaque(parts, notes),
    )
    return changed(request, leniences=tuple(notes)) if notes else request


# -- from parts to values -------------------------------------------------------------------------------


@lru_cache(maxsize=256)  # hardly ever more than one key is in use
def _key_text(text: str) -> str:
    """Return a key as the client holds it; with anything but hex digits in it, it equals none of ours."""
    characters = (c if c in _KEY_CHARACTERS else "?" for c in text.strip(WHITE_SPACE) if c != "\r")
    return "".join(characters)


def _client_opaque(parts: RequestParts, notes: list[Lenience]) -> str:
    content = parts.free_texts.get("client_opaque")
    return read_verbatim(content, "client_opaque", notes) if content else ""


def _platforms(top: FieldReader, parts: RequestParts, notes: list[Lenience]) -> tuple[str, ...]:
    names = [top.name("platform_name")]
    if parts.platforms:
        names += [FieldReader(fields, "alt_platform", notes).name() for fields in parts.platforms]
    return tuple(dict.fromkeys(name for name in names if name))


def _preferences(parts: RequestParts, name: str, notes: list[Lenience]) -> GlobalPreferences | None:
    content = parts.free_texts.get(name)
    return read_global_preferences(content, notes) if content is not None else None


def _coprocs(parts: RequestParts, notes: list[Lenience]) -> tuple[CoprocRequest, ...]:
    read = (read_coproc(COPROC_TYPES[tag], FieldReader(fields, tag, notes)) for tag, fields in parts.coprocs)
    return tuple(coproc for coproc in read if coproc.type and coproc.count)


def _results(
    parts: RequestParts, notes: list[Lenience]
) -> tuple[tuple[ReportedResult, ...], tuple[ReportedResult, ...]]:
    """Return the reports, first of each name only; reports of mere file transfers apart."""
    if not parts.results:
        return (), ()
    results: dict[str, ReportedResult] = {}
    for fields, files in parts.results:
        reader = FieldReader(fields, "result", notes)
        name = reader.name()
        if not name:
            note(notes, LenienceKind.NAMELESS, "result")
        elif name in results:
            note(notes, LenienceKind.DUPLICATE, "result", name)
        else:
            results[name] = _result(name, reader, files)
    transfers = [r for r in results.values() if r.name.startswith(("upload_", "download_"))]
    if not transfers:
        return tuple(results.values()), ()
    return tuple(r for r in results.values() if r not in transfers), tuple(transfers)


def _result(name: str, reader: FieldReader, files: list[Fields]) -> ReportedResult:
    noted = len(reader.notes)
    stderr_out = reader.fields.get("stderr_out")
    stderr = read_stderr(stderr_out, reader.notes) if stderr_out else Stderr()
    exit_status = reader.integer("exit_status", NO_EXIT_STATUS, -(2**31))
    if "exit_status" not in reader.fields:
        note(reader.notes, LenienceKind.MISSING, "result/exit_status", name)
    report = _read_report(
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
        yield ReportedFile(
            name=reader.name(),
            nbytes=reader.number("nbytes"),
            max_nbytes=reader.number("max_nbytes"),
            md5_cksum=reader.text("md5_cksum", 64),
            upload_url=reader.text("upload_url"),
            # An empty element is an error too: the client writes it only after a failure.
            error_msg=""
            if error is None
            else read_verbatim(error, "error_msg", notes)[:MAX_TEXT] or "error without text",
        )


def _trickles(parts: RequestParts, notes: list[Lenience]) -> tuple[MsgFromHost, ...]:
    trickles: list[MsgFromHost] = []
    for content in parts.trickles:
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


def _sticky_files(parts: RequestParts, notes: list[Lenience]) -> tuple[StickyFile, ...]:
    readers = (FieldReader(fields, "file_info", notes) for fields in parts.files)
    return tuple(
        StickyFile(
            name=name,
            nbytes=reader.number("nbytes"),
            status=reader.integer("status", 0, -(2**31)),
            nonce=reader.text("challenge_nonce", MAX_ANSWER),
            answer=reader.text("challenge_answer", MAX_ANSWER),
        )
        for reader in readers
        if (name := reader.name())
    )


def _app_versions(parts: RequestParts, notes: list[Lenience]) -> tuple[ClientAppVersion, ...]:
    """All versions, nameless ones too: other elements refer to them by their place."""
    versions: list[ClientAppVersion] = []
    for fields, coproc_fields in parts.app_versions:
        reader = FieldReader(fields, "app_version", notes)
        coproc = FieldReader(coproc_fields, "app_version/coproc", notes)
        versions.append(
            _read_app_version(
                reader,
                app_name=reader.name("app_name"),
                coproc_type=coproc.text("type", 64),
                coproc_count=coproc.number("count", 0.0, 0.0, MAX_COUNT),
            )
        )
    return tuple(versions)


def _other_results(parts: RequestParts, notes: list[Lenience]) -> tuple[OtherResult, ...]:
    readers = (FieldReader(fields, "other_result", notes) for fields in parts.other_results or ())
    return tuple(_read_other_result(reader, name=name) for reader in readers if (name := reader.name()))


def _in_progress_results(parts: RequestParts, notes: list[Lenience]) -> tuple[InProgressResult, ...]:
    readers = (FieldReader(fields, "ip_result", notes) for fields in parts.in_progress)
    return tuple(_read_in_progress(reader, name=name) for reader in readers if (name := reader.name()))
