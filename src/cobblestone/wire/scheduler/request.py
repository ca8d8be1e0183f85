"""The scheduler request of a client: frozen values, their reader and their writer.

Source: BOINC's wire protocol as seen with client 7.20.5, ``sched/sched_types.cpp`` for the older elements.
What is read is bounded and finite; what was forgiven on the way is in ``leniences``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from cobblestone.domain.errors import LocalProtocolError, RemoteProtocolError
from cobblestone.domain.values import changed, value
from cobblestone.wire.project.preferences import (
    GlobalPreferences,
    UserKeywords,
    read_global_preferences,
    read_user_keywords,
    write_user_keywords,
)
from cobblestone.wire.scheduler.host import (
    ALWAYS_SENT,
    COPROC_TYPES,
    MAX_COUNT,
    MAX_ID,
    MAX_TIME,
    CoprocRequest,
    DiskUsage,
    HostInfo,
    NetStats,
    Time,
    TimeStats,
    read_coproc,
    read_disk_usage,
    read_host_info,
    read_net_stats,
    read_time_stats,
    write_coprocs,
    write_disk_usage,
    write_host_info,
    write_net_stats,
    write_time_stats,
)
from cobblestone.wire.scheduler.job import write_coproc_use
from cobblestone.wire.scheduler.report import (
    STICKY_FILE,
    MsgFromHost,
    ReportedResult,
    StickyFile,
    read_reports,
    read_trickles,
    write_report,
    write_sticky_file,
    write_trickle,
)
from cobblestone.wire.scheduler.request_layout import RequestParts, take_apart
from cobblestone.wire.text.reader import (
    MAX_NAME,
    MAX_REQUEST_BYTES,
    WHITE_SPACE,
    FieldReader,
    Lenience,
    client_version,
    read_verbatim,
)
from cobblestone.wire.text.table import (
    Amount,
    Contents,
    Count,
    FieldTable,
    Flag,
    FlagField,
    Given,
    Number,
    Text,
    Whole,
    usable_name,
)
from cobblestone.wire.text.writer import scalar

MAX_KEY_CHARS = 4096
Share = Annotated[float, Number(0.0, 1.0)]
Instances = Annotated[float, Number(high=MAX_COUNT)]
GivenName = Annotated[str, Given(Text(MAX_NAME))]
OptionalName = Annotated[str, Text(MAX_NAME, optional=True)]
_KEY_CHARACTERS = frozenset("0123456789abcdefABCDEF.\n")


@value(kw_only=True)
class ClientAppVersion:
    """An app version on the client; other results refer to it by its place in the list."""

    app_name: Annotated[str, Text(read=usable_name)]
    version_num: Count = 0
    platform: Annotated[str, Text(MAX_NAME)] = ""
    avg_ncpus: Instances = 1.0
    flops: Amount = 0.0
    plan_class: OptionalName = ""
    api_version: Annotated[str, Text(64)] = ""
    coproc_type: str = ""
    coproc_count: float = 0.0


@value(kw_only=True)
class OtherResult:
    """A job that is in progress on the client."""

    name: GivenName
    app_version: Annotated[
        int, Whole(-1, MAX_COUNT)
    ] = -1  #: index into ``SchedulerRequest.app_versions``, -1 unknown
    plan_class: OptionalName = ""


@value(kw_only=True)
class InProgressResult:
    """A job of any project in the client's queue, for the deadline check on the server."""

    name: GivenName
    report_deadline: Time = 0.0  #: Unix seconds
    time_remaining: Time = 0.0  #: seconds
    avg_ncpus: Instances = 1.0


@value(kw_only=True)
class SchedulerRequest:
    """One scheduler RPC, as the client sent it."""

    authenticator: Annotated[str, Text(MAX_NAME, read=str.strip)]
    hostid: Annotated[int, Whole(high=MAX_ID)] = 0  #: 0 until the server assigned one
    rpc_seqno: Count = 0
    client_version: int = 0  #: 10000 * major + 100 * minor + release
    client_version_text: str = ""  #: e.g. ``7.20.5``
    resource_share_fraction: Share = 1.0
    rrs_fraction: Share = 1.0
    prrs_fraction: Share = 1.0
    duration_correction_factor: Annotated[float, Number(high=1e6)] = 1.0
    allow_multiple_clients: Flag = False
    sandbox: Flag = False
    dont_send_work: Flag = False
    work_req_seconds: Time = 0.0
    cpu_req_secs: Time = 0.0
    cpu_req_instances: Instances = 0.0
    #: seconds until a CPU would be idle
    cpu_estimated_delay: Annotated[float, Number(high=MAX_TIME, element="estimated_delay")] = 0.0
    client_cap_plan_class: Flag = False
    #: it answers questions about files (an element of ours)
    client_cap_file_challenge: Annotated[bool, FlagField(content="1")] = False
    platforms: Contents[str] = ()  #: primary first
    code_sign_key: str = ""  #: text without white space at its ends; empty: the client holds none
    working_global_preferences: GlobalPreferences | None = None  #: in force on the client
    global_preferences: GlobalPreferences | None = None  #: the network copy
    cross_project_id: Annotated[str, Text(64)] = ""
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
    #: some were not read: do not acknowledge, the client sends them all again
    trickles_truncated: bool = False
    sticky_files: tuple[StickyFile, ...] = ()
    app_versions: tuple[ClientAppVersion, ...] = ()
    other_results: tuple[OtherResult, ...] = ()
    other_results_listed: bool = False  #: whether the list was sent, and read to its end
    in_progress_results: tuple[InProgressResult, ...] = ()
    client_opaque: str = ""
    client_brand: Annotated[str, Text(255)] = ""
    user_keywords: UserKeywords = UserKeywords()  #: of an account manager
    unsaid: frozenset[str] = frozenset()  #: elements about the computer that are absent or no usable numbers
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


_IN = "    "

_REQUEST = FieldTable(SchedulerRequest, {"version": "resource_share_fraction"})
_TOP = _REQUEST.layout(without=("cross_project_id", "client_brand"))
_APP_VERSION = FieldTable(ClientAppVersion, {"coproc": ""})
_WRITTEN_VERSION = _APP_VERSION.layout(tag="app_version")
_OTHER_RESULT = FieldTable(OtherResult)
_WRITTEN_OTHER = _OTHER_RESULT.layout(tag="other_result", indent=_IN * 2, outside=_IN)
_IN_PROGRESS = FieldTable(InProgressResult)
_WRITTEN_IN_PROGRESS = _IN_PROGRESS.layout(tag="ip_result", indent=_IN * 2, outside=_IN)


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
    results, transfers = read_reports(parts.results, notes)
    trickles = read_trickles(parts.trickles, notes)
    request = _REQUEST.read(
        top,
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
        unsaid=top.unsaid(ALWAYS_SENT) if notes or not parts.top.keys() >= ALWAYS_SENT else frozenset(),
        coprocs=_coprocs(parts, notes) if parts.coprocs else (),
        results=results,
        results_truncated=parts.results_truncated,
        file_transfer_results=transfers,
        trickles=trickles,
        trickles_truncated=parts.trickles_truncated,
        sticky_files=STICKY_FILE.read_named(parts.files, "file_info", notes),
        app_versions=_app_versions(parts, notes),
        other_results=_OTHER_RESULT.read_named(parts.other_results or (), "other_result", notes),
        other_results_listed=parts.other_results is not None and not parts.others_truncated,
        in_progress_results=_IN_PROGRESS.read_named(parts.in_progress, "ip_result", notes),
        client_opaque=_client_opaque(parts, notes),
        user_keywords=read_user_keywords(parts.free_texts.get("user_keywords", "")),
    )
    return changed(request, leniences=tuple(notes)) if notes else request


# -- from parts to values -------------------------------------------------------------------------------


@lru_cache(maxsize=256)  # hardly ever more than one key is in use
def _key_text(text: str) -> str:
    """Return a key as the client has it; with anything but hex digits in it, it equals none of ours."""
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


def _app_versions(parts: RequestParts, notes: list[Lenience]) -> tuple[ClientAppVersion, ...]:
    """Return all versions, including nameless ones: other elements refer to them by their place."""
    versions: list[ClientAppVersion] = []
    for fields, coproc_fields in parts.app_versions:
        reader = FieldReader(fields, "app_version", notes)
        coproc = FieldReader(coproc_fields, "app_version/coproc", notes)
        versions.append(
            _APP_VERSION.read(
                reader,
                coproc_type=coproc.text("type", 64),
                coproc_count=coproc.number("count", 0.0, 0.0, MAX_COUNT),
            )
        )
    return tuple(versions)


# -- writing --------------------------------------------------------------------------------------------


def write_scheduler_request(request: SchedulerRequest) -> bytes:
    """Write a request in the order and form of client 7.20.5: servers of the family read tag by tag, some of them in that order.

    Raises LocalProtocolError for what the format cannot carry.
    """
    out = ["<scheduler_request>\n", _write_top(request)]
    if request.code_sign_key:
        out.append(f"{_IN}<code_sign_key>\n{request.code_sign_key.strip()}\n</code_sign_key>\n")
    if request.working_global_preferences:
        text = _write_preferences(request.working_global_preferences)
        out.append(f"<working_global_preferences>\n{text}\n</working_global_preferences>\n")
    if request.global_preferences:
        out.append(_write_preferences(request.global_preferences) + "\n")
    out.append(scalar("cross_project_id", request.cross_project_id))
    out.append(write_time_stats(request.time_stats))
    out.append(write_net_stats(request.net_stats))
    out.append(write_host_info(request.host_info))
    out.append(write_disk_usage(request.disk_usage))
    if request.coprocs:
        out.append(write_coprocs(request.coprocs))
    reports = (*request.results, *request.file_transfer_results)
    out += (write_report(each, request.client_version_text) for each in reports)
    out += (write_trickle(each) for each in request.trickles)
    out += (write_sticky_file(each) for each in request.sticky_files)
    out.append(f"<app_versions>\n{''.join(map(_write_app_version, request.app_versions))}</app_versions>\n")
    if request.other_results_listed:
        out.append(
            f"<other_results>\n{''.join(map(_WRITTEN_OTHER.write, request.other_results))}</other_results>\n"
        )
    if request.in_progress_results:
        queue = "".join(map(_WRITTEN_IN_PROGRESS.write, request.in_progress_results))
        out.append(f"<in_progress_results>\n{queue}</in_progress_results>\n")
    if request.client_opaque:
        out.append(f"<client_opaque>\n<![CDATA[\n{request.client_opaque}\n]]>\n</client_opaque>\n")
    if request.client_brand:
        out.append(scalar("client_brand", request.client_brand, _IN))
    out.append(write_user_keywords(request.user_keywords))
    out.append("</scheduler_request>\n")
    return "".join(out).encode()


def _write_top(request: SchedulerRequest) -> str:
    version = request.client_version
    parts = {
        "major_version": version // 10000,
        "minor_version": version // 100 % 100,
        "release": version % 100,
    }
    primary, *others = request.platforms or ("",)
    alternatives = "".join(
        f"{_IN}<alt_platform>\n{scalar('name', name, _IN * 2)}{_IN}</alt_platform>\n" for name in others
    )
    return _TOP.write(
        request,
        version="".join(scalar(f"core_client_{name}", number, _IN) for name, number in parts.items()),
        platforms=scalar("platform_name", primary, _IN) + alternatives,
    )


def _write_preferences(preferences: GlobalPreferences) -> str:
    text = preferences.text.strip()
    if not (text.startswith("<global_preferences>") and text.endswith("</global_preferences>")):
        raise LocalProtocolError("preferences must be one <global_preferences> element")
    return text


def _write_app_version(version: ClientAppVersion) -> str:
    coproc = write_coproc_use(version.coproc_type, version.coproc_count) if version.coproc_type else ""
    return _WRITTEN_VERSION.write(version, coproc=coproc)
