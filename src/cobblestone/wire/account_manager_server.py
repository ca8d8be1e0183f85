"""Account manager RPC, the manager's side: what clients tell, bounded, and the answer that tells them what to do.

The other side is `account_manager`, whose answer is the same value.  Everything read is bounded and finite.

Source: BOINC's wire protocol as recorded from client 7.20.5; ``client/acct_mgr.cpp`` (facts only).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.account_manager import ManagedAccount, ManagerReply
from cobblestone.wire.host_report import (
    MAX_TIME,
    CoprocRequest,
    HostInfo,
    read_coproc,
    read_host_info,
)
from cobblestone.wire.lenience import Lenience
from cobblestone.wire.request_layout import COPROC_TYPES
from cobblestone.wire.tag_tree import Node, read_tree
from cobblestone.wire.xml_reader import MAX_NAME
from cobblestone.wire.xml_writer import html, scalar

MAX_REQUEST = 2_000_000
"""An ordinary request has 6 kB; preferences and lists of jobs in it are jumped over."""
MAX_PROJECTS = 200
MAX_PLATFORMS = 20
MAX_COPROCS = 16
MAX_DEVICES = 10
MAX_OPAQUE = 1000  #: ours is much shorter
MAX_CREDIT = 1e15
"""More estimated credit than all computers of the family have earned together."""
_VERBATIM = (
    "global_preferences",
    "working_global_preferences",
    "time_stats",
    "net_stats",
    "opaque",
    "results",
)
"""What is not looked into, or otherwise than as a tree."""
MAX_JOBS = 2000
"""Of one contact; a client with more lists the others the next time."""
MAX_JOB_TEXT = 20_000
_JOB_NAME = re.compile(r"<name>\s*([\x21-\x3b\x3d-\x7e]{1,255})\s*</name>")
_JOB_PROJECT = re.compile(r"<project_url>\s*([^\s<]{1,255})\s*</project_url>")
_NUMBERED = re.compile(r"<(\w{1,64})>([^<]*)</\1>", re.ASCII)
_DECLARATION = '<?xml version="1.0" encoding="UTF-8" ?>\n'
_ACCOUNTING = ("cpu_ec", "cpu_time", "gpu_ec", "gpu_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedProject:
    """A project that a client belongs to."""

    url: str
    host_id: int = 0  #: the computer's number there; 0: it was not there yet
    attached_by_manager: bool = False
    rpc_failures: int = 0
    not_started_seconds: float = 0.0  #: work that waits
    in_progress_seconds: float = 0.0
    totals: tuple[float, ...] = (
        0.0,
    ) * 6  #: cpu_ec, cpu_time, gpu_ec, gpu_time, jobs that succeeded and failed
    no_work: tuple[str, ...] = ()  #: devices that it had nothing for


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """One contact of a client."""

    authenticator: str = ""
    name: str = ""
    password_hash: str = ""
    host_cpid: str = ""
    domain_name: str = ""
    client_version: int = 0  #: 10000 * major + 100 * minor + release
    platforms: tuple[str, ...] = ()  #: primary first
    projects: tuple[ReportedProject, ...] = ()
    host: HostInfo = HostInfo()
    coprocs: tuple[CoprocRequest, ...] = ()
    opaque: Mapping[str, str] = field(default_factory=dict[str, str])  #: what we had given the client to keep
    jobs: tuple[tuple[str, str], ...] = ()  #: address of the project and name, if they were asked for


def parse_manager_request(body: bytes) -> ReceivedRequest:
    """Read a request.

    Raises:
        RemoteProtocolError: it is none, too long, too deep, or ends too early.
    """
    root = read_tree(body, "acct_mgr_request", _VERBATIM, max_bytes=MAX_REQUEST)
    notes: list[Lenience] = []
    top = root.reader(notes)
    host, opaque = root.find("host_info"), root.find("opaque")
    return ReceivedRequest(
        authenticator=top.text("authenticator", MAX_NAME).strip(),
        name=top.text("name", MAX_NAME).strip(),
        password_hash=top.text("password_hash", 64).strip(),
        host_cpid=top.text("host_cpid", 64),
        domain_name=top.text("domain_name", MAX_NAME),
        client_version=_version(top.text("client_version", 32)),
        platforms=_platforms(root, top.text("platform_name", MAX_NAME)),
        projects=tuple(_projects(root, notes)),
        host=read_host_info(host.reader(notes)) if host else HostInfo(),
        coprocs=_coprocs(host, notes) if host else (),
        opaque=dict(_NUMBERED.findall(opaque.raw[:MAX_OPAQUE])) if opaque else {},
        jobs=tuple(_jobs(root)),
    )


def _version(text: str) -> int:
    parts = re.fullmatch(r"(\d{1,4})\.(\d{1,2})\.(\d{1,2})", text.strip())
    return 10000 * int(parts[1]) + 100 * int(parts[2]) + int(parts[3]) if parts else 0


def _platforms(root: Node, primary: str) -> tuple[str, ...]:
    others = [node.find("name") for node in list(root.all("alt_platform"))[:MAX_PLATFORMS]]
    names = [primary, *(node.text[:MAX_NAME] for node in others if node)]
    return tuple(dict.fromkeys(name for name in names if name))


def _projects(root: Node, notes: list[Lenience]) -> Iterable[ReportedProject]:
    for node in list(root.all("project"))[:MAX_PROJECTS]:
        given = node.reader(notes)
        url = given.text("url", MAX_NAME).strip()
        if not url:
            continue
        number = given.number
        yield ReportedProject(
            url=url,
            host_id=given.integer("hostid"),
            attached_by_manager=given.flag("attached_via_acct_mgr"),
            rpc_failures=given.integer("nrpc_failures"),
            not_started_seconds=number("not_started_dur", high=MAX_TIME),
            in_progress_seconds=number("in_progress_dur", high=MAX_TIME),
            totals=(
                *(number(name, high=MAX_CREDIT) for name in _ACCOUNTING),
                float(given.integer("njobs_success")),
                float(given.integer("njobs_error")),
            ),
            no_work=tuple(each.text[:64] for each in list(node.all("sched_req_no_work"))[:MAX_DEVICES]),
        )


def _jobs(root: Node) -> Iterable[tuple[str, str]]:
    results = root.find("results")
    for part in results.raw.split("<result>", MAX_JOBS + 1)[1 : MAX_JOBS + 1] if results else ():
        text = part.partition("</result>")[0][:MAX_JOB_TEXT]
        name, project = _JOB_NAME.search(text), _JOB_PROJECT.search(text)
        if name and project:
            yield project[1], name[1]


def _coprocs(host: Node, notes: list[Lenience]) -> tuple[CoprocRequest, ...]:
    inside = host.find("coprocs")
    found = [node for node in (inside.children if inside else ()) if node.tag in COPROC_TYPES][:MAX_COPROCS]
    read = (read_coproc(COPROC_TYPES[node.tag], node.reader(notes)) for node in found)
    return tuple(coproc for coproc in read if coproc.type and coproc.count)


# -- the answer -----------------------------------------------------------------------------------------


def write_manager_reply(reply: ManagerReply) -> bytes:
    """Write an answer; one with an error holds nothing else."""
    if reply.error_num:
        error = scalar("error_num", reply.error_num) + scalar("error_msg", reply.error_msg)
        return f"{_DECLARATION}<acct_mgr_reply>\n{error}</acct_mgr_reply>\n".encode()
    out = [
        scalar("name", reply.name),
        f"<signing_key>\n{reply.signing_key.strip()}\n</signing_key>\n",
        scalar("repeat_sec", reply.repeat_sec),
    ]
    texts = ("authenticator", "user_name", "team_name", "host_venue")
    out += (scalar(name, getattr(reply, name)) for name in texts if getattr(reply, name))
    out += ("<dynamic>1</dynamic>\n",) if reply.dynamic else ()
    out += (f"<message>{html(text)}</message>\n" for text in reply.messages)
    if reply.send_tasks:
        out.append(f"<send_tasks_{reply.send_tasks}>1</send_tasks_{reply.send_tasks}>\n")
    out += ("<no_project_notices>1</no_project_notices>\n",) if reply.no_project_notices else ()
    if reply.keywords_yes or reply.keywords_no:
        yes = "".join(scalar("yes", number, "   ") for number in reply.keywords_yes)
        no = "".join(scalar("no", number, "   ") for number in reply.keywords_no)
        out.append(f"<user_keywords>\n{yes}{no}</user_keywords>\n")
    if reply.global_preferences:
        out.append(reply.global_preferences.strip() + "\n")
    if reply.feeds:
        feeds = "".join(
            f"<rss_feed>\n{scalar('url', url)}{scalar('poll_interval', 86400)}</rss_feed>\n"
            for url in reply.feeds
        )
        out.append(f"<rss_feeds>\n{feeds}</rss_feeds>\n")
    if reply.opaque:
        out.append(f"<opaque>\n{reply.opaque.strip()}\n</opaque>\n")
    out += map(_account, reply.accounts)
    return f"{_DECLARATION}<acct_mgr_reply>\n{''.join(out)}</acct_mgr_reply>\n".encode()


def _account(account: ManagedAccount) -> str:
    pad = "   "
    out = [
        scalar("url", account.url, pad),
        f"{pad}<url_signature>\n{account.url_signature}{pad}</url_signature>\n",
    ]
    if account.authenticator:
        out.append(scalar("authenticator", account.authenticator, pad))
    flags = ("update", "detach", "detach_when_done", "dont_request_more_work", "abort_not_started")
    out += (f"{pad}<{name}>1</{name}>\n" for name in flags if getattr(account, name))
    if account.suspend is not None:
        out.append(scalar("suspend", account.suspend, pad))
    if account.resource_share is not None:
        out.append(scalar("resource_share", float(account.resource_share), pad))
    out += (scalar("no_rsc", device, pad) for device in account.no_resources)
    # Clients before 8 do not know these and note each of them in their log.
    sums = {
        "user_avg_ec": account.user_avg_ec,
        "user_total_ec": account.user_total_ec,
        **{name: getattr(account.credit, name) for name in _ACCOUNTING},
    }
    out += (scalar(name, float(value), pad) for name, value in sums.items() if value)
    counts = {"njobs_success": account.njobs_success, "njobs_error": account.njobs_error}
    out += (scalar(name, value, pad) for name, value in counts.items() if value)
    return f"<account>\n{''.join(out)}</account>\n"


@lru_cache(maxsize=10_000)
def key_of_address(url: str) -> str:
    """Return what addresses of one project have in common: no scheme, no usual port, small letters in the host, no last slash.

    Raises:
        RemoteProtocolError: this is no address.
    """
    found = re.fullmatch(
        r"(?:https?://)?([^/\s]{1,200}?)(?::(?:80|443))?(/[^\s?#]{0,200})?", url.strip(), re.IGNORECASE
    )
    if found is None:
        raise RemoteProtocolError(f"{url[:80]!r} is no address of a project")
    return found[1].lower() + (found[2] or "").rstrip("/")
