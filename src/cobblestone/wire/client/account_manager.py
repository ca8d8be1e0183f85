"""Account manager RPC: a client's report on its computer and projects, and the manager's orders; both sides.

Everything read is bounded and finite.  Source: BOINC's wire protocol as recorded from client 7.20.5; ``client/acct_mgr.cpp``
(facts only).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.values import value
from cobblestone.wire.client.objects import CREDIT, write_gui_result
from cobblestone.wire.client.records import EstimatedCredit, ProjectContent, ProjectRecord
from cobblestone.wire.project.preferences import UserKeywords, read_user_keywords, write_user_keywords
from cobblestone.wire.scheduler.host import (
    ALWAYS_SENT,
    MAX_TIME,
    CoprocRequest,
    HostInfo,
    NetStats,
    TimeStats,
    read_coprocs,
    read_host_info,
    write_host_info,
    write_net_stats,
    write_time_stats,
)
from cobblestone.wire.scheduler.reply import read_feeds, whole_element
from cobblestone.wire.text.reader import MAX_NAME, Lenience, decode
from cobblestone.wire.text.table import Contents, FieldTable, Inside, Mark, Number, Text, Whole
from cobblestone.wire.text.tree import Node, read_tree
from cobblestone.wire.text.writer import html_text, number, numbers, scalar, scalars

MAX_ACCOUNTS = 200
MAX_MESSAGES = 50
MAX_REPLY_OPAQUE = 64 * 1024
REPEAT_DEFAULT = 86400.0
REPEAT_MIN, REPEAT_MAX = 60.0, 30 * 86400.0
#: An ordinary request has 6 kB; preferences and lists of jobs in it are jumped over.
MAX_REQUEST = 2_000_000
MAX_PROJECTS = 200
MAX_PLATFORMS = 20
MAX_DEVICES = 10
MAX_REQUEST_OPAQUE = 1000  #: ours is much shorter
#: More estimated credit than all computers of the family have earned together.
MAX_CREDIT = 1e15
#: What is not looked into, or otherwise than as a tree.
_VERBATIM_IN_REQUEST = (
    "global_preferences",
    "working_global_preferences",
    "time_stats",
    "net_stats",
    "opaque",
    "results",
)
#: Of one contact; a client with more lists the others the next time.
MAX_JOBS = 2000
MAX_JOB_TEXT = 20_000
_JOB_NAME = re.compile(r"<name>\s*([\x21-\x3b\x3d-\x7e]{1,255})\s*</name>")
_JOB_PROJECT = re.compile(r"<project_url>\s*([^\s<]{1,255})\s*</project_url>")
_NUMBERED = re.compile(r"<(\w{1,64})>([^<]*)</\1>", re.ASCII)
_DECLARATION = '<?xml version="1.0" encoding="UTF-8" ?>\n'
_ACCOUNTING = ("cpu_ec", "cpu_time", "gpu_ec", "gpu_time")
_IN3, _IN6 = "   ", "      "
Key = Annotated[str, Text(255, read=str.strip, optional=True)]
OptionalName = Annotated[str, Text(255, optional=True)]
Switch = Annotated[bool, Mark(content="1")]
OptionalAmount = Annotated[float, Number(optional=True)]
OptionalCount = Annotated[int, Whole(optional=True)]
Element = Annotated[str, Inside()]
_VERBATIM_IN_REPLY = ("global_preferences", "opaque", "user_keywords")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectReport:
    """The report on one project to an account manager."""

    project: ProjectRecord
    not_started_duration: float = 0.0  #: seconds of work
    in_progress_duration: float = 0.0
    dynamic: bool = False  #: with estimated credit and the rest that a dynamic manager wants
    no_work: Sequence[str] = ()  #: devices for which the project had nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerRequest:
    """One request."""

    host_cpid: str
    domain_name: str
    client_version: str
    platforms: tuple[str, ...]
    host: HostInfo
    authenticator: str = ""
    name: str = ""
    password_hash: str = ""
    run_mode: str = "auto"
    previous_host_cpid: str = ""
    projects: tuple[ProjectReport, ...] = ()
    working_preferences: str = ""
    stored_preferences: str = ""
    coprocs: tuple[CoprocRequest, ...] = ()
    opaque: str = ""
    time_stats: TimeStats = TimeStats()
    net_stats: NetStats = NetStats()
    with_results: bool = False
    contents: tuple[ProjectContent, ...] = ()


@value(kw_only=True)
class ManagedAccount:
    """A project that the client must attach to, or detach from."""

    url: Annotated[str, Text(255, read=str.strip)]
    url_signature: Element = ""
    authenticator: Key = ""
    update: Switch = False
    detach: Switch = False
    detach_when_done: Switch = False
    dont_request_more_work: Switch = False
    abort_not_started: Switch = False
    suspend: bool | None = None
    resource_share: float | None = None  #: None: the project's own
    no_resources: tuple[str, ...] = ()
    # Clients before 8 do not know the following and note each of them in their log.
    #: estimated credit of all of the person's computers there, a day and in total
    user_avg_ec: OptionalAmount = 0.0
    user_total_ec: OptionalAmount = 0.0
    credit: Annotated[EstimatedCredit, Inside()] = field(default_factory=EstimatedCredit)
    njobs_success: OptionalCount = 0
    njobs_error: OptionalCount = 0


@value(kw_only=True)
class ManagerReply:
    """One answer."""

    error_num: int = 0
    error_msg: str = ""
    name: Annotated[str, Text(255)] = ""
    signing_key: Element = ""
    repeat_sec: Annotated[float, Number(least=REPEAT_MIN, most=REPEAT_MAX)] = REPEAT_DEFAULT
    authenticator: Key = ""
    user_name: OptionalName = ""
    team_name: OptionalName = ""
    host_venue: Annotated[str, Text(64, optional=True)] = ""
    dynamic: Switch = False
    messages: Contents[str] = ()
    send_tasks: Element = ""
    no_project_notices: Switch = False
    keywords: UserKeywords = UserKeywords()
    global_preferences: Element = ""
    feeds: Contents[str] = ()  #: addresses of RSS feeds with notices
    opaque: Element = ""
    accounts: Contents[ManagedAccount] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedProject:
    """A project that a client belongs to."""

    url: str
    host_id: int = 0  #: the computer's number there; 0: it was not there yet
    attached_by_manager: bool = False
    rpc_failures: int = 0
    not_started_seconds: float = 0.0  #: work that waits
    in_progress_seconds: float = 0.0
    #: cpu_ec, cpu_time, gpu_ec, gpu_time, jobs that succeeded and failed; None: not all of them were stated
    totals: tuple[float, ...] | None = None
    no_work: tuple[str, ...] = ()  #: devices that it had nothing for


@value(kw_only=True)
class ReceivedRequest:
    """One contact of a client."""

    authenticator: Key = ""
    name: Annotated[str, Text(MAX_NAME, read=str.strip)] = ""
    password_hash: Annotated[str, Text(64, read=str.strip)] = ""
    host_cpid: Annotated[str, Text(64)] = ""
    domain_name: Annotated[str, Text(MAX_NAME)] = ""
    client_version: int = 0  #: 10000 * major + 100 * minor + release
    platforms: tuple[str, ...] = ()  #: primary first
    projects: tuple[ReportedProject, ...] = ()
    host: HostInfo = HostInfo()
    coprocs: tuple[CoprocRequest, ...] = ()
    opaque: Mapping[str, str] = field(default_factory=dict[str, str])  #: what we had given the client to keep
    jobs: tuple[tuple[str, str], ...] = ()  #: address of the project and name, if they were asked for
    unsaid: frozenset[str] = frozenset()  #: elements about the computer that are absent or no usable numbers


# -- tables ---------------------------------------------------------------------------------------------

_REQUEST = FieldTable(ReceivedRequest)
_REPLY = FieldTable(ManagerReply, {"keywords": "global_preferences"})
_ACCOUNT = FieldTable(ManagedAccount, {"orders": "user_avg_ec"})
_BY_KEY = _REQUEST.layout("authenticator", "host_cpid", "domain_name", indent=_IN3)
_BY_PASSWORD = _REQUEST.layout("name", "password_hash", "host_cpid", "domain_name", indent=_IN3)
_WRITTEN_REPLY = _REPLY.layout(tag="acct_mgr_reply", indent="")
_WRITTEN_ACCOUNT = _ACCOUNT.layout(tag="account", indent=_IN3)
_CREDIT = CREDIT.layout(indent=_IN3, optional=_ACCOUNTING)
_DYNAMIC_CREDIT = CREDIT.layout(indent=_IN6)


# -- the request --------------------------------------------------------------------------------------


def write_manager_request(request: ManagerRequest) -> bytes:
    """Write a request."""
    out = [f"{_DECLARATION}<acct_mgr_request>\n"]
    out.append((_BY_KEY if request.authenticator else _BY_PASSWORD).write(request))
    primary, *others = request.platforms
    out.append(scalars(request, "client_version run_mode", _IN3))
    out.append(scalar("platform_name", primary, "    "))
    out += (f"    <alt_platform>\n{scalar('name', name, '        ')}    </alt_platform>\n" for name in others)
    if request.previous_host_cpid:
        out.append(scalar("previous_host_cpid", request.previous_host_cpid, _IN3))
    out += map(_project, request.projects)
    if request.working_preferences:
        text = request.working_preferences.strip()
        out.append(f"<working_global_preferences>\n{text}\n</working_global_preferences>\n")
    if request.stored_preferences:
        out.append(request.stored_preferences.strip() + "\n")
    out.append(write_host_info(request.host, request.coprocs, with_coprocs=True))
    if request.opaque:
        out.append(f"   <opaque>\n{request.opaque.strip()}\n   </opaque>\n")
    out += (write_time_stats(request.time_stats), write_net_stats(request.net_stats))
    if request.with_results:
        jobs = "".join(write_gui_result(job) for content in request.contents for job in content.jobs.values())
        out.append(f"<results>\n{jobs}</results>\n")
    out.append("</acct_mgr_request>\n")
    return "".join(out).encode()


def _project(report: ProjectReport) -> str:
    project = report.project
    out = [
        scalar("url", project.master_url, _IN6),
        scalars(project, "project_name suspended_via_gui", _IN6),
        scalar("hostid", project.host.id, _IN6),
        number("not_started_dur", report.not_started_duration, _IN6),
        number("in_progress_dur", report.in_progress_duration, _IN6),
        scalars(project, "attached_via_acct_mgr dont_request_more_work detach_when_done ended", _IN6),
        numbers(project, "resource_share disk_usage disk_share", _IN6),
    ]
    if report.dynamic:
        out.append(scalar("nrpc_failures", project.nrpc_failures, _IN6))
        out.append(_DYNAMIC_CREDIT.write(project.credit))
        out.append(scalars(project, "njobs_success njobs_error", _IN6))
        out += (scalar("sched_req_no_work", device, "    ") for device in report.no_work)
    if project.attached_via_acct_mgr:
        out.append(scalar("account_key", project.authenticator, _IN6))
    return f"   <project>\n{''.join(out)}   </project>\n"


def parse_manager_request(body: bytes) -> ReceivedRequest:
    """Read a request.

    Raises:
        RemoteProtocolError: it is none, too long, too deep, or ends too early.
    """
    root = read_tree(body, "acct_mgr_request", _VERBATIM_IN_REQUEST, max_bytes=MAX_REQUEST)
    notes: list[Lenience] = []
    top = root.reader(notes)
    host = root.inner("host_info")
    about = host.reader(notes)
    described = read_host_info(about)
    return _REQUEST.read(
        top,
        client_version=_version(top.text("client_version", 32)),
        platforms=_platforms(root, top.text("platform_name", MAX_NAME)),
        projects=tuple(_projects(root, notes)),
        host=described,
        coprocs=read_coprocs(host, notes),
        unsaid=about.unsaid(ALWAYS_SENT) | (frozenset() if host.has("coprocs") else {"coprocs"}),
        opaque=dict(_NUMBERED.findall(root.inner("opaque").raw[:MAX_REQUEST_OPAQUE])),
        jobs=tuple(_jobs(root)),
    )


def _version(text: str) -> int:
    parts = re.fullmatch(r"(\d{1,4})\.(\d{1,2})\.(\d{1,2})", text.strip())
    return 10000 * int(parts[1]) + 100 * int(parts[2]) + int(parts[3]) if parts else 0


def _platforms(root: Node, primary: str) -> tuple[str, ...]:
    others = list(root.all("alt_platform"))[:MAX_PLATFORMS]
    names = [primary, *(node.inner("name").text[:MAX_NAME] for node in others)]
    return tuple(dict.fromkeys(name for name in names if name))


def _projects(root: Node, notes: list[Lenience]) -> Iterable[ReportedProject]:
    for node in list(root.all("project"))[:MAX_PROJECTS]:
        given = node.reader(notes)
        url = given.text("url", MAX_NAME).strip()
        if not url:
            continue
        number = given.number
        totals = (
            *(number(name, -1.0, high=MAX_CREDIT) for name in _ACCOUNTING),
            *(float(given.integer(name, -1)) for name in ("njobs_success", "njobs_error")),
        )
        yield ReportedProject(
            url=url,
            host_id=given.integer("hostid"),
            attached_by_manager=given.flag("attached_via_acct_mgr"),
            rpc_failures=given.integer("nrpc_failures"),
            not_started_seconds=number("not_started_dur", high=MAX_TIME),
            in_progress_seconds=number("in_progress_dur", high=MAX_TIME),
            totals=totals if min(totals) >= 0 else None,
            no_work=tuple(each.text[:64] for each in list(node.all("sched_req_no_work"))[:MAX_DEVICES]),
        )


def _jobs(root: Node) -> Iterable[tuple[str, str]]:
    for part in root.inner("results").raw.split("<result>", MAX_JOBS + 1)[1 : MAX_JOBS + 1]:
        text = part.partition("</result>")[0][:MAX_JOB_TEXT]
        name, project = _JOB_NAME.search(text), _JOB_PROJECT.search(text)
        if name and project:
            yield project[1], name[1]


# -- the reply ----------------------------------------------------------------------------------------


def write_manager_reply(reply: ManagerReply) -> bytes:
    """Write an answer; one with an error contains nothing else."""
    if reply.error_num:
        error = scalar("error_num", reply.error_num) + scalar("error_msg", reply.error_msg)
        return f"{_DECLARATION}<acct_mgr_reply>\n{error}</acct_mgr_reply>\n".encode()
    feeds = ""
    if reply.feeds:
        each = (
            f"<rss_feed>\n{scalar('url', url)}{scalar('poll_interval', 86400)}</rss_feed>\n"
            for url in reply.feeds
        )
        feeds = f"<rss_feeds>\n{''.join(each)}</rss_feeds>\n"
    tasks = f"send_tasks_{reply.send_tasks}"
    written = _WRITTEN_REPLY.write(
        reply,
        signing_key=f"<signing_key>\n{reply.signing_key.strip()}\n</signing_key>\n",
        messages="".join(f"<message>{html_text(text)}</message>\n" for text in reply.messages),
        send_tasks=f"<{tasks}>1</{tasks}>\n" if reply.send_tasks else "",
        keywords=write_user_keywords(reply.keywords),
        global_preferences=reply.global_preferences.strip() + "\n" if reply.global_preferences else "",
        feeds=feeds,
        opaque=f"<opaque>\n{reply.opaque.strip()}\n</opaque>\n" if reply.opaque else "",
        accounts="".join(map(_write_account, reply.accounts)),
    )
    return f"{_DECLARATION}{written}".encode()


def _write_account(account: ManagedAccount) -> str:
    orders: list[str] = []
    if account.suspend is not None:
        orders.append(scalar("suspend", account.suspend, _IN3))
    if account.resource_share is not None:
        orders.append(scalar("resource_share", float(account.resource_share), _IN3))
    orders += (scalar("no_rsc", device, _IN3) for device in account.no_resources)
    return _WRITTEN_ACCOUNT.write(
        account,
        url_signature=f"{_IN3}<url_signature>\n{account.url_signature}{_IN3}</url_signature>\n",
        orders="".join(orders),
        credit=_CREDIT.write(account.credit),
    )


def parse_manager_reply(body: bytes) -> ManagerReply:
    """Read an answer.  Raises RemoteProtocolError for what is none."""
    root = read_tree(body, "acct_mgr_reply", _VERBATIM_IN_REPLY)
    notes: list[Lenience] = []
    top = root.reader(notes)
    tasks = "all" if root.has("send_tasks_all") else "active" if root.has("send_tasks_active") else ""
    return _REPLY.read(
        top,
        error_num=top.integer("error_num", top.integer("error", 0, -10000, 10000), -10000, 10000),
        error_msg=top.text("error_msg"),
        messages=tuple(node.scalar(notes) for node in root.all("message"))[:MAX_MESSAGES],
        signing_key=root.inner("signing_key").text,
        send_tasks=tasks,
        keywords=read_user_keywords(root.inner("user_keywords").raw),
        global_preferences=whole_element(root, "global_preferences", notes),
        feeds=tuple(feed.url for feed in read_feeds(root, notes)),
        opaque=decode(root.inner("opaque").raw, "opaque", notes).strip()[:MAX_REPLY_OPAQUE],
        accounts=tuple(_read_account(node, notes) for node in list(root.all("account"))[:MAX_ACCOUNTS]),
    )


def _read_account(node: Node, notes: list[Lenience]) -> ManagedAccount:
    given = node.reader(notes)
    none = tuple(each.scalar(notes) for each in node.all("no_rsc"))
    return _ACCOUNT.read(
        given,
        url_signature=node.inner("url_signature").text,
        suspend=node.is_set("suspend") if node.has("suspend") else None,
        resource_share=given.number("resource_share", 100.0, 0.0, 1e9)
        if node.has("resource_share")
        else None,
        no_resources=(("CPU",) if node.is_set("no_cpu") else ()) + none,
        credit=CREDIT.read(given),
    )


@lru_cache(maxsize=10_000)
def key_of_address(url: str) -> str:
    """Return the common form of a project's addresses: no scheme, no default port, lower-case host, no trailing slash.

    Raises:
        RemoteProtocolError: this is no address.
    """
    found = re.fullmatch(
        r"(?:https?://)?([^/\s]{1,200}?)(?::(?:80|443))?(/[^\s?#]{0,200})?", url.strip(), re.IGNORECASE
    )
    if found is None:
        raise RemoteProtocolError(f"{url[:80]!r} is not a project address")
    return found[1].lower() + (found[2] or "").rstrip("/")
