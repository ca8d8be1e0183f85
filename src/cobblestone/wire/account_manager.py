"""Account manager RPC, the client's side: what it tells of its computer and projects, and what it is to do.

Source: BOINC's wire protocol as recorded from client 7.20.5; ``client/acct_mgr.cpp`` (facts only).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cobblestone.wire.client_objects import write_gui_result
from cobblestone.wire.client_records import EstimatedCredit, ProjectContent, ProjectRecord
from cobblestone.wire.host_report import CoprocRequest, HostInfo, NetStats, TimeStats
from cobblestone.wire.host_writer import write_host_info
from cobblestone.wire.lenience import Lenience
from cobblestone.wire.reply_reader import read_feeds
from cobblestone.wire.request_writer import write_net_stats, write_time_stats
from cobblestone.wire.tag_tree import Node, read_tree
from cobblestone.wire.xml_reader import FieldReader, decode
from cobblestone.wire.xml_writer import scalar

MAX_ACCOUNTS = 200
MAX_MESSAGES = 50
MAX_OPAQUE = 64 * 1024
REPEAT_DEFAULT = 86400.0
REPEAT_MIN, REPEAT_MAX = 60.0, 30 * 86400.0
_IN3, _IN6 = "   ", "      "
_VERBATIM = ("global_preferences", "opaque", "user_keywords")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectReport:
    """What an account manager is told of one project."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedAccount:
    """A project that the client shall belong to, or leave."""

    url: str
    url_signature: str = ""
    authenticator: str = ""
    update: bool = False
    detach: bool = False
    detach_when_done: bool = False
    dont_request_more_work: bool = False
    abort_not_started: bool = False
    suspend: bool | None = None
    resource_share: float | None = None  #: None: the project's own
    no_resources: tuple[str, ...] = ()
    credit: EstimatedCredit = field(default_factory=EstimatedCredit)
    njobs_success: int = 0
    njobs_error: int = 0
    user_avg_ec: float = 0.0  #: estimated credit of all of the person's computers there, a day and in total
    user_total_ec: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerReply:
    """One answer."""

    name: str = ""
    authenticator: str = ""
    error_num: int = 0
    error_msg: str = ""
    messages: tuple[str, ...] = ()
    signing_key: str = ""
    repeat_sec: float = REPEAT_DEFAULT
    dynamic: bool = False
    user_name: str = ""
    team_name: str = ""
    send_tasks: str = ""
    no_project_notices: bool = False
    global_preferences: str = ""
    host_venue: str = ""
    opaque: str = ""
    keywords_yes: tuple[int, ...] = ()
    keywords_no: tuple[int, ...] = ()
    feeds: tuple[str, ...] = ()  #: addresses of RSS feeds with notices
    accounts: tuple[ManagedAccount, ...] = ()


def write_manager_request(request: ManagerRequest) -> bytes:
    """Write a request."""
    out = ['<?xml version="1.0" encoding="UTF-8" ?>\n<acct_mgr_request>\n']
    if request.authenticator:
        out.append(scalar("authenticator", request.authenticator, _IN3))
    else:
        out += (scalar("name", request.name, _IN3), scalar("password_hash", request.password_hash, _IN3))
    primary, *others = request.platforms
    out += (
        scalar(n, getattr(request, n), _IN3)
        for n in ("host_cpid", "domain_name", "client_version", "run_mode")
    )
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
        scalar("project_name", project.project_name, _IN6),
        scalar("suspended_via_gui", project.suspended_via_gui, _IN6),
        scalar("hostid", project.host.id, _IN6),
        scalar("not_started_dur", float(report.not_started_duration), _IN6),
        scalar("in_progress_dur", float(report.in_progress_duration), _IN6),
    ]
    flags = ("attached_via_acct_mgr", "dont_request_more_work", "detach_when_done", "ended")
    out += (scalar(name, getattr(project, name), _IN6) for name in flags)
    out += (
        scalar(name, float(getattr(project, name)), _IN6)
        for name in ("resource_share", "disk_usage", "disk_share")
    )
    if report.dynamic:
        out.append(scalar("nrpc_failures", project.nrpc_failures, _IN6))
        names = ("cpu_ec", "cpu_time", "gpu_ec", "gpu_time")
        out += (scalar(name, float(getattr(project.credit, name)), _IN6) for name in names)
        out += (scalar(name, getattr(project, name), _IN6) for name in ("njobs_success", "njobs_error"))
        out += (scalar("sched_req_no_work", device, "    ") for device in report.no_work)
    if project.attached_via_acct_mgr:
        out.append(scalar("account_key", project.authenticator, _IN6))
    return f"   <project>\n{''.join(out)}   </project>\n"


def parse_manager_reply(body: bytes) -> ManagerReply:
    """Read an answer.  Raises RemoteProtocolError for what is none."""
    root = read_tree(body, "acct_mgr_reply", _VERBATIM)
    notes: list[Lenience] = []
    top = root.reader(notes)
    preferences, opaque, key = root.find("global_preferences"), root.find("opaque"), root.find("signing_key")
    tasks = "all" if root.has("send_tasks_all") else "active" if root.has("send_tasks_active") else ""
    return ManagerReply(
        name=top.text("name", 255),
        authenticator=top.text("authenticator", 255).strip(),
        error_num=top.integer("error_num", top.integer("error", 0, -10000, 10000), -10000, 10000),
        error_msg=top.text("error_msg"),
        messages=tuple(_text(node, notes) for node in root.all("message"))[:MAX_MESSAGES],
        signing_key=key.text if key else "",
        repeat_sec=min(max(top.number("repeat_sec", REPEAT_DEFAULT), REPEAT_MIN), REPEAT_MAX),
        dynamic=_flag(root, "dynamic"),
        user_name=top.text("user_name", 255),
        team_name=top.text("team_name", 255),
        send_tasks=tasks,
        no_project_notices=_flag(root, "no_project_notices"),
        global_preferences=_element(preferences, notes),
        host_venue=top.text("host_venue", 64),
        feeds=tuple(feed.url for feed in read_feeds(root, notes)),
        opaque=decode(opaque.raw, "opaque", notes).strip()[:MAX_OPAQUE] if opaque else "",
        accounts=tuple(_account(node, notes) for node in list(root.all("account"))[:MAX_ACCOUNTS]),
    )


def _account(node: Node, notes: list[Lenience]) -> ManagedAccount:
    given = node.reader(notes)
    signature = node.find("url_signature")
    none = tuple(_text(each, notes) for each in node.all("no_rsc"))
    return ManagedAccount(
        url=given.text("url", 255).strip(),
        url_signature=signature.text if signature else "",
        authenticator=given.text("authenticator", 255).strip(),
        update=_flag(node, "update"),
        detach=_flag(node, "detach"),
        detach_when_done=_flag(node, "detach_when_done"),
        dont_request_more_work=_flag(node, "dont_request_more_work"),
        abort_not_started=_flag(node, "abort_not_started"),
        suspend=_flag(node, "suspend") if node.has("suspend") else None,
        resource_share=given.number("resource_share", 100.0, 0.0, 1e9)
        if node.has("resource_share")
        else None,
        no_resources=(("CPU",) if _flag(node, "no_cpu") else ()) + none,
        credit=EstimatedCredit(
            cpu_ec=given.number("cpu_ec"),
            cpu_time=given.number("cpu_time"),
            gpu_ec=given.number("gpu_ec"),
            gpu_time=given.number("gpu_time"),
        ),
        njobs_success=given.integer("njobs_success"),
        njobs_error=given.integer("njobs_error"),
        user_avg_ec=given.number("user_avg_ec"),
        user_total_ec=given.number("user_total_ec"),
    )


def _flag(node: Node, tag: str) -> bool:
    found = node.find(tag)
    return found is not None and (found.attributes == "/" or found.text not in ("", "0"))


def _text(node: Node, notes: list[Lenience]) -> str:
    return FieldReader({node.tag: node.text}, node.tag, notes).text(node.tag)


def _element(node: Node | None, notes: list[Lenience]) -> str:
    return f"<{node.tag}>{decode(node.raw, node.tag, notes)}</{node.tag}>" if node else ""
