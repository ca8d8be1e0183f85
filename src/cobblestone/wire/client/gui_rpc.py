"""GUI RPC, the server's side: framing, authentication, the needs of each operation, and the contents of the answers.

No sockets here.

A request is a document ended by byte 3, and so is the answer; a connection stays open.  Who knows the password proves it with a
hash over a nonce.  Programs on the same computer may look at everything without it; others may not even do that.

Source: BOINC's wire protocol as seen with client 7.20.5 and its tools (facts only).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cobblestone.domain.computing import ClientConfig
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.client.config import FLAGS
from cobblestone.wire.client.objects import (
    write_gui_project,
    write_gui_result,
    write_project_content,
    write_statistics,
)
from cobblestone.wire.client.records import (
    DailyCredit,
    FileRecord,
    FileStatus,
    ProjectContent,
    ProjectRecord,
    TransferProgress,
)
from cobblestone.wire.project.account import md5_hex
from cobblestone.wire.scheduler.host import (
    CoprocRequest,
    HostInfo,
    NetStats,
    TimeStats,
    write_host_info,
    write_net_stats,
    write_time_stats,
)
from cobblestone.wire.text.reader import FieldReader, Lenience
from cobblestone.wire.text.tree import Node, read_tree
from cobblestone.wire.text.writer import escape, number, numbers, printable, scalar, scalars

END = b"\x03"
#: Bytes; the family's buffer.
MAX_REQUEST = 100_000

#: What a program on the same computer may ask without the password.
OPEN_OPERATIONS = frozenset(
    (
        "exchange_versions", "get_state", "get_results", "get_simple_gui_info", "get_project_status", "get_cc_status",
        "get_host_info", "get_disk_usage", "get_file_transfers", "get_messages", "get_message_count", "get_notices_public",
        "get_statistics", "get_daily_xfer_history", "get_old_results", "get_all_projects_list", "get_newer_version",
        "get_screensaver_tasks",
    )
)  # fmt: skip

_OPERATION = re.compile(rb"<boinc_gui_rpc_request>\s*<\s*([A-Za-z_0-9]{1,64})\s*(/?)", re.ASCII)
_BARE_OPERATION = re.compile(rb"\s*<[^<>]{0,80}>\s*<\s*([^<>\s]{1,64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class GuiRpcCall:
    """An operation that the peer may carry out."""

    operation: str
    arguments: FieldReader
    node: Node  #: for arguments that are documents themselves

    def has(self, name: str) -> bool:
        """Return whether there is such an argument, possibly empty."""
        return self.node.has(name)


@dataclass(frozen=True, slots=True)
class GuiRpcReply:
    """An answer that the protocol itself gives."""

    data: bytes
    close: bool = False


class GuiRpcConnection:
    """One peer.  Give it received bytes; it returns calls to carry out, and answers to send unchanged."""

    def __init__(self, *, password: str, local: bool, nonce: str) -> None:
        self._password = password
        self._nonce = nonce
        self._local = local
        self._asked = self._warned = False
        self._authorized = not password
        self._buffer = bytearray()

    def receive_data(self, data: bytes) -> list[GuiRpcCall | GuiRpcReply]:
        """Take bytes.  Raises RemoteProtocolError if the peer does not follow the protocol, or sends endlessly."""
        searched = len(self._buffer)
        self._buffer += data
        found: list[GuiRpcCall | GuiRpcReply] = []
        while (end := self._buffer.find(END, searched)) >= 0:
            searched, request = 0, bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            found.append(self._request(request))
            if isinstance(found[-1], GuiRpcReply) and found[-1].close:
                break
        if len(self._buffer) > MAX_REQUEST:
            raise RemoteProtocolError(f"no end of a request within {MAX_REQUEST} bytes")
        return found

    def _request(self, request: bytes) -> GuiRpcCall | GuiRpcReply:
        match = _OPERATION.search(request)
        if match is None:
            strange = _BARE_OPERATION.match(request)
            name = strange[1].decode("ascii", "replace") if strange else ""
            return GuiRpcReply(
                write_reply(f"<error>unrecognized op: {escape(name)}</error>\n"), close=not strange
            )
        operation = match[1].decode("ascii")
        if operation == "auth1":
            return self._first_step()
        if operation == "auth2":
            return self._second_step(request)
        if not self._authorized and not (self._local and operation in OPEN_OPERATIONS):
            close, self._warned = self._warned, True
            return GuiRpcReply(write_reply("<unauthorized/>\n"), close=close)
        node = _operation_node(request, operation, bare=bool(match[2]))
        notes: list[Lenience] = []
        return GuiRpcCall(operation, node.reader(notes), node)

    def _first_step(self) -> GuiRpcReply:
        repeated, self._asked = self._asked, True
        return GuiRpcReply(write_reply(scalar("nonce", self._nonce)), close=repeated and not self._authorized)

    def _second_step(self, request: bytes) -> GuiRpcReply:
        found = re.search(rb"<nonce_hash>\s*([0-9a-fA-F]{32})\s*</nonce_hash>", request)
        expected = md5_hex(self._nonce + self._password)
        right = found is not None and hmac.compare_digest(found[1].lower(), expected.encode())
        if not (self._asked and right):
            return GuiRpcReply(write_reply("<unauthorized/>\n"), close=True)
        self._authorized = True
        return GuiRpcReply(write_reply("<authorized/>\n"))


_VERBATIM = ("cc_config", "global_preferences", "app_config")


def _operation_node(request: bytes, operation: str, *, bare: bool) -> Node:
    if bare:
        return Node("", operation, 0, 0)
    try:
        return read_tree(request, operation, _VERBATIM, max_bytes=MAX_REQUEST)
    except RemoteProtocolError:
        return Node("", operation, 0, 0)


def write_reply(content: str) -> bytes:
    """Return an answer in its frame."""
    return (
        f"<boinc_gui_rpc_reply>\n{content}</boinc_gui_rpc_reply>\n".encode("ascii", "xmlcharrefreplace") + END
    )


SUCCESS = "<success/>\n"


def write_error(text: str) -> str:
    """Return the content of an answer that reports an error."""
    return f"<error>{escape(text)}</error>\n"


_I3, _I8 = "   ", "        "


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeStatus:
    """A mode of computing, GPU use or network: the one in force, the permanent one, and the seconds until it returns."""

    mode: int
    permanent: int
    delay: float = 0.0
    suspend_reason: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientIdentity:
    """The identity of the client."""

    version: tuple[int, int, int]
    platforms: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedMessage:
    """A line of the event log."""

    seqno: int
    time: float
    project: str  #: its name; empty for the client's own
    priority: int  #: 1 information, 2 for the user, 3 internal error
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeEntry:
    """A notice of the client, of a scheduler or of a feed."""

    seqno: int
    title: str
    description: str
    create_time: float
    arrival_time: float
    project_name: str = ""
    category: str = ""
    link: str = ""
    is_private: bool = False


def client_version(identity: ClientIdentity) -> str:
    """Answer to ``exchange_versions``."""
    major, minor, release = identity.version
    inner = scalar("major", major, _I3) + scalar("minor", minor, _I3) + scalar("release", release, _I3)
    return f"<server_version>\n{inner}</server_version>\n"


def state(
    *,
    host: HostInfo,
    coprocs: Sequence[CoprocRequest],
    net: NetStats,
    times: TimeStats,
    contents: Iterable[ProjectContent],
    identity: ClientIdentity,
    preferences: str,
    venue: str,
) -> str:
    """Answer to ``get_state``."""
    kinds = {coproc.type for coproc in coprocs}
    major, minor, release = identity.version
    return "".join(
        (
            "<client_state>\n",
            write_host_info(host, coprocs, with_coprocs=True),
            "<have_cuda/>\n" if "NVIDIA" in kinds else "",
            "<have_ati/>\n" if "ATI" in kinds else "",
            write_net_stats(net),
            write_time_stats(times),
            *(write_project_content(content) for content in contents),
            scalar("platform_name", identity.platforms[0]),
            scalar("core_client_major_version", major),
            scalar("core_client_minor_version", minor),
            scalar("core_client_release", release),
            scalar("executing_as_daemon", False),
            *(scalar("platform", name) for name in identity.platforms),
            preferences,
            scalar("host_venue", venue) if venue else "",
            "</client_state>\n",
        )
    )


def results(contents: Iterable[ProjectContent], *, active_only: bool) -> str:
    """Answer to ``get_results``."""
    return f"<results>\n{_results(contents, active_only=active_only)}</results>\n"


def _results(contents: Iterable[ProjectContent], *, active_only: bool) -> str:
    return "".join(
        write_gui_result(job, project_suspended=content.project.suspended_via_gui)
        for content in contents
        for job in content.jobs.values()
        if job.task.started or not active_only
    )


def simple_gui_info(contents: Sequence[ProjectContent]) -> str:
    """Answer to ``get_simple_gui_info``."""
    projects = "".join(write_gui_project(content.project) for content in contents)
    return f"<simple_gui_info>\n{projects}{_results(contents, active_only=True)}</simple_gui_info>\n"


def screensaver_tasks(contents: Sequence[ProjectContent], suspend_reason: int) -> str:
    """Answer to ``get_screensaver_tasks``."""
    running = _results(contents, active_only=True)
    tag = "handle_get_screensaver_tasks"
    return f"<{tag}>\n{scalar('suspend_reason', suspend_reason, '    ')}{running}</{tag}>\n"


def project_status(projects: Iterable[ProjectRecord]) -> str:
    """Answer to ``get_project_status``."""
    return f"<projects>\n{''.join(write_gui_project(project) for project in projects)}</projects>\n"


def cc_status(
    modes: Mapping[str, ModeStatus], *, network_status: int, bad_manager_password: bool, config: ClientConfig
) -> str:
    """Answer to ``get_cc_status``; modes by ``task``, ``gpu`` and ``network``."""
    out = f"{scalar('network_status', network_status, _I3)}{scalar('ams_password_error', bad_manager_password, _I3)}"
    for name in ("task", "gpu", "network"):
        mode = modes[name]
        out += scalar(f"{name}_suspend_reason", mode.suspend_reason, _I3)
        out += scalar(f"{name}_mode", mode.mode, _I3)
        out += scalar(f"{name}_mode_perm", mode.permanent, _I3)
        out += number(f"{name}_mode_delay", mode.delay, _I3)
    out += scalar("disallow_attach", config.disallow_attach, _I3)
    out += scalar("simple_gui_only", config.simple_gui_only, _I3)
    out += scalar("max_event_log_lines", config.max_event_log_lines, _I3)
    return f"<cc_status>\n{out}</cc_status>\n"


def disk_usage(
    projects: Iterable[ProjectRecord], *, total: float, free: float, used: float, allowed: float
) -> str:
    """Answer to ``get_disk_usage``."""
    each = "".join(
        f"<project>\n{scalar('master_url', p.master_url, '  ')}{number('disk_usage', p.disk_usage, '  ')}</project>\n"
        for p in projects
    )
    sizes = number("d_total", total, "") + number("d_free", free, "")
    sizes += number("d_boinc", used, "") + number("d_allowed", allowed, "")
    return f"<disk_usage_summary>\n{each}{sizes}</disk_usage_summary>\n"


def file_transfers(
    transfers: Iterable[tuple[FileRecord, str, TransferProgress | None, float]], now: float
) -> str:
    """Answer to ``get_file_transfers``: file, project name, what runs, and the end of the project's back-off."""
    return f"<file_transfers>\n{''.join(_transfer(*each, now) for each in transfers)}</file_transfers>\n"


def _transfer(
    file: FileRecord, project_name: str, running: TransferProgress | None, backoff: float, now: float
) -> str:
    upload = file.upload is not None
    size = file.nbytes or (file.download.nbytes if file.download else 0.0)
    episode = (
        scalar("num_retries", file.num_retries, _I8)
        + numbers(file, "first_request_time next_request_time time_so_far last_bytes_xferred", _I8)
        + scalar("is_upload", upload, _I8)
    )
    active = ""
    if running:
        speed = running.moved / max(now - running.started, 0.001)
        left = (size - running.bytes) / speed if speed > 0 else 0.0
        active = (
            f"    <file_xfer>\n{number('estimated_xfer_time_remaining', max(0.0, left), _I8)}"
            f"{number('bytes_xferred', running.bytes, _I8)}{number('file_offset', running.offset, _I8)}"
            f"{number('xfer_speed', speed, _I8)}{scalar('url', running.url, _I8)}    </file_xfer>\n"
        )
    status = 1 if upload and file.status is not FileStatus.FAILED else int(file.status)
    return (
        f"<file_transfer>\n{scalar('project_url', file.project, '    ')}{scalar('project_name', project_name, '    ')}"
        f"{scalar('name', file.name, '    ')}{number('nbytes', size)}"
        f"{number('max_nbytes', file.upload.max_nbytes if file.upload else 0.0)}{scalar('status', status, '    ')}"
        f"    <persistent_file_xfer>\n{episode}    </persistent_file_xfer>\n{active}"
        f"{number('project_backoff', max(0.0, backoff - now)) if backoff > now else ''}</file_transfer>\n"
    )


def messages(found: Iterable[LoggedMessage]) -> str:
    """Answer to ``get_messages``."""
    return f"<msgs>\n{''.join(map(_message, found))}</msgs>\n"


def _message(message: LoggedMessage) -> str:
    body = printable(message.body).replace("]]>", "]] >")
    return (
        f"<msg>\n <project>{escape(message.project)}</project>\n <pri>{message.priority}</pri>\n"
        f" <seqno>{message.seqno}</seqno>\n <body><![CDATA[\n{body}\n]]></body>\n <time>{message.time:.0f}</time>\n</msg>\n"
    )


def notices(found: Iterable[NoticeEntry]) -> str:
    """Answer to ``get_notices``."""
    return f"<notices>\n{''.join(map(_notice, found))}</notices>\n"


def _notice(notice: NoticeEntry) -> str:
    def cdata(text: str) -> str:
        return f"<![CDATA[{printable(text).replace(']]>', ']] >')}]]>"

    return (
        f"<notice>\n   <title>{cdata(notice.title)}</title>\n"
        f"   <description>\n{cdata(notice.description)}\n   </description>\n"
        f"{numbers(notice, 'create_time arrival_time', _I3)}"
        f"{scalars(notice, 'is_private project_name category', _I3)}   <link>{cdata(notice.link)}</link>\n"
        f"{scalar('seqno', notice.seqno, _I3)}</notice>\n"
    )


def statistics(days: Mapping[str, Sequence[DailyCredit]]) -> str:
    """Answer to ``get_statistics``: days by project."""
    each = "".join(write_statistics(url, of_project) for url, of_project in days.items())
    return f"<statistics>\n{each}</statistics>\n"


def daily_transfers(days: Iterable[tuple[int, float, float]]) -> str:
    """Answer to ``get_daily_xfer_history``, and the file of that name: day number, bytes up, bytes down."""
    inner = "".join(
        f"<dx>\n{scalar('when', day, _I3)}{number('up', up, _I3)}{number('down', down, _I3)}</dx>\n"
        for day, up, down in days
    )
    return f"<daily_xfers>\n{inner}</daily_xfers>\n"


def old_results(rows: Iterable[Mapping[str, Any]]) -> str:
    """Answer to ``get_old_results``: jobs that were reported within the last hour; the keys are those of the client's history."""
    return f"<old_results>\n{''.join(map(_old_result, rows))}</old_results>\n"


def _old_result(row: Mapping[str, Any]) -> str:
    elements = "".join(scalar(name, row[key], _I8) for name, key in _OLD_RESULT.items())
    return f"    <old_result>\n{elements}    </old_result>\n"


_OLD_RESULT = {
    "project_url": "project",
    "result_name": "job",
    "app_name": "app",
    "exit_status": "exit_status",
    "elapsed_time": "elapsed",
    "cpu_time": "cpu_time",
    "completed_time": "completed",
    "create_time": "reported",
}


def newer_version() -> str:
    """Answer to ``get_newer_version``: only the place where the package came from can be asked."""
    return scalar("newer_version", "") + scalar("download_url", "")


def project_init_status() -> str:
    """Answer to ``get_project_init_status``."""
    inner = f"{scalar('url', '', '    ')}{scalar('name', '', '    ')}"
    return f"<get_project_init_status>\n{inner}</get_project_init_status>\n"


def manager_info(*, url: str, name: str, has_credentials: bool) -> str:
    """Answer to ``acct_mgr_info``."""
    credentials = "   <have_credentials/>\n" if has_credentials else ""
    inner = f"{scalar('acct_mgr_url', url, _I3)}{scalar('acct_mgr_name', name, _I3)}"
    return f"<acct_mgr_info>\n{inner}{credentials}</acct_mgr_info>\n"


def poll(element: str, error_num: int, texts: Iterable[str] = ()) -> str:
    """Answer to a ``..._poll``: -204 while there is no result yet."""
    inner = "".join(scalar("message", text, "    ") for text in texts)
    return f"<{element}>\n{inner}{scalar('error_num', error_num, '    ')}</{element}>\n"


def proxy_settings(settings: Mapping[str, str | int]) -> str:
    """Answer to ``get_proxy_settings``."""
    names = (
        "socks_server_name", "socks_server_port", "http_server_name", "http_server_port", "socks5_user_name",
        "socks5_user_passwd", "socks5_remote_dns", "http_user_name", "http_user_passwd", "no_proxy", "no_autodetect",
    )  # fmt: skip
    out = [f"    <{name}/>\n" for name in FLAGS if settings.get(name)]
    numbers = {"socks_server_port": 80, "http_server_port": 80, "socks5_remote_dns": 0, "no_autodetect": 0}
    out += (scalar(name, settings.get(name, numbers.get(name, "")), "    ") for name in names)
    return f"<proxy_info>\n{''.join(out)}</proxy_info>\n"
