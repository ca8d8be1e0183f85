"""The scheduler reply: values, and the writer that turns them into the layout and order of BOINC's scheduler.

Clients have read that layout for decades.  The order is that of ``sched/sched_types.cpp`` (facts only),
with each ``file_info`` before the blocks that refer to it.  Only elements that client 7.20.5 knows are
written: it looks into unknown ones as if they were not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from cobblestone.domain.errors import LocalProtocolError
from cobblestone.domain.values import value
from cobblestone.wire.scheduler.job import (
    AppBlock,
    AppVersionBlock,
    FileInfo,
    FileRef,
    OutputFileInfo,
    ResultBlock,
    WorkunitBlock,
    checked_file_name,
    write_app,
    write_app_version,
    write_file_info,
    write_file_refs,
    write_hex_element,
    write_output_file_info,
    write_result,
    write_workunit,
)
from cobblestone.wire.text.writer import (
    cut,
    decimal,
    escape,
    html_text,
    one_line,
    scalar,
    title,
    verbatim,
    whole,
)

MAX_MESSAGE_BYTES = 1000
"""The client's buffer for a message has 1024 bytes, the end mark included."""
_INDENT = "    "


class MessagePriority(StrEnum):
    """How the client treats a message."""

    LOW = "low"  #: a line in its event log
    HIGH = "high"  #: the same, for old clients marked as important
    NOTICE = "notice"  #: also shown to the user; for things that the user must mend


@value(kw_only=True)
class Message:
    """A text for the volunteer; may contain HTML."""

    text: str
    priority: MessagePriority = MessagePriority.LOW


@value(kw_only=True)
class GuiUrl:
    """A link that graphical managers show for the project."""

    name: str
    description: str
    url: str


@value(kw_only=True)
class RssFeed:
    """A feed of notices."""

    url: str
    poll_interval: float = 86400.0  #: seconds


@value(kw_only=True)
class TrickleDown:
    """A message to a running job."""

    result_name: str
    time: int  #: Unix seconds; names the file in the job's folder
    text: str


@value(kw_only=True)
class FileChallenge:
    """A question about a range of a file that the client keeps (an element of ours); the answer comes with a later request."""

    file_name: str
    nonce: str  #: hex digits
    offset: int  #: bytes
    length: int  #: bytes


@value(kw_only=True)
class UserBlock:
    """The account, as clients show it."""

    id: int
    name: str
    total_credit: float = 0.0
    expavg_credit: float = 0.0
    create_time: float = 0.0
    email_hash: str = ""
    cross_project_id: str = ""
    external_cpid: str = ""
    cpid_time: float = 0.0
    team_id: int = 0
    team_name: str = ""


@value(kw_only=True)
class HostBlock:
    """The computer, as clients show it."""

    id: int
    total_credit: float = 0.0
    expavg_credit: float = 0.0
    venue: str = ""
    create_time: float = 0.0
    announce_id: bool = (
        False  #: send the id: only when it is new or changed, for the client then restarts its rpc_seqno
    )


@dataclass(slots=True, kw_only=True)
class SchedulerReply:
    """One answer to a scheduler RPC, filled in step by step.  Empty fields are left out."""

    master_url: str
    scheduler_version: int = 820  #: 100 * major + minor of the server family that we behave like
    request_delay: float = 0.0  #: seconds before which the client shall not ask again
    next_rpc_delay: float = 0.0  #: seconds after which the client shall ask in any case; 0 = no wish
    messages: tuple[Message, ...] = ()
    project_is_down: bool = False  #: with it only version, URL, delay, messages and project name are sent
    project_name: str = ""
    dont_use_dcf: bool = False
    ended: bool = False
    send_full_workload: bool = False
    send_time_stats_log: float = 0.0
    symstore: str = ""
    user: UserBlock | None = None
    host: HostBlock | None = None
    global_preferences: str = ""  #: a whole ``<global_preferences>`` element
    project_preferences: str = ""  #: a whole ``<project_preferences>`` element
    result_acks: tuple[str, ...] = ()
    result_aborts: tuple[str, ...] = ()
    result_aborts_if_not_started: tuple[str, ...] = ()
    files: tuple[FileInfo, ...] = ()
    output_files: tuple[OutputFileInfo, ...] = ()
    apps: tuple[AppBlock, ...] = ()
    app_versions: tuple[AppVersionBlock, ...] = ()
    workunits: tuple[WorkunitBlock, ...] = ()
    results: tuple[ResultBlock, ...] = ()
    code_sign_key: str = ""  #: key text; leave empty when the client holds it already
    code_sign_key_signature: str = (
        ""  #: signature of the new key's stripped text, made with the client's old key
    )
    message_ack: bool = False
    trickle_downs: tuple[TrickleDown, ...] = ()
    non_cpu_intensive: bool = False
    strict_memory_bound: bool = False
    delete_files: tuple[str, ...] = ()
    file_challenge: FileChallenge | None = None
    no_cpu_apps: bool | None = None
    no_rsc_apps: tuple[str, ...] = ()  #: GPU types for which the project has nothing
    rss_feeds: tuple[RssFeed, ...] = ()
    gui_urls: tuple[GuiUrl, ...] = ()
    project_files: tuple[FileRef, ...] = ()  #: repeat in every reply, else the client drops them
    desired_disk_usage: float = 0.0  #: bytes


def write_scheduler_reply(reply: SchedulerReply) -> bytes:
    """Write a reply.  Raises LocalProtocolError for values that the format cannot represent."""
    out = ["<scheduler_reply>\n"]
    _head(out, reply)
    if not reply.project_is_down:
        _people(out, reply)
        _work(out, reply)
        _tail(out, reply)
    out.append("</scheduler_reply>\n")
    return "".join(out).encode()


# -- parts of the reply ---------------------------------------------------------------------------------


def _head(out: list[str], reply: SchedulerReply) -> None:
    out.append(f"<scheduler_version>{reply.scheduler_version:d}</scheduler_version>\n")
    if reply.dont_use_dcf:
        out.append("<dont_use_dcf/>\n")
    out.append(verbatim("master_url", reply.master_url))
    if reply.ended:
        out.append("<ended>1</ended>\n")
    out.append(f"<request_delay>{decimal(reply.request_delay)}</request_delay>\n")
    out += (_message(message) for message in reply.messages)
    if reply.project_name:
        out.append(title("project_name", reply.project_name))
    if reply.project_is_down:
        out.append("<project_is_down/>\n")


def _people(out: list[str], reply: SchedulerReply) -> None:
    if reply.send_time_stats_log:
        out.append(f"<send_time_stats_log>{whole(reply.send_time_stats_log)}</send_time_stats_log>\n")
    if reply.send_full_workload:
        out.append("<send_full_workload/>\n")
    if reply.symstore:
        out.append(verbatim("symstore", reply.symstore))
    if reply.next_rpc_delay:
        out.append(f"<next_rpc_delay>{decimal(reply.next_rpc_delay)}</next_rpc_delay>\n")
    user = reply.user
    if user:
        out.append(_user(user))
    if reply.global_preferences:
        out.append(_raw_element("global_preferences", reply.global_preferences))
    if reply.project_preferences:
        out.append(_raw_element("project_preferences", reply.project_preferences))
    if reply.host:
        out.append(_host(reply.host))
    if user and user.team_id:
        out.append(f"<teamid>{user.team_id:d}</teamid>\n{scalar('team_name', cut(user.team_name))}")


def _work(out: list[str], reply: SchedulerReply) -> None:
    out += (_named("result_ack", name) for name in reply.result_acks)
    out += (_named("result_abort", name) for name in reply.result_aborts)
    out += (_named("result_abort_if_not_started", name) for name in reply.result_aborts_if_not_started)
    out += (write_app(app) for app in reply.apps)
    out += (write_file_info(file) for file in reply.files)
    out += (write_app_version(version) for version in reply.app_versions)
    out += (write_workunit(workunit) for workunit in reply.workunits)
    out += (write_output_file_info(file) for file in reply.output_files)
    out += (write_result(result) for result in reply.results)
    if reply.code_sign_key:
        out.append(write_hex_element("code_sign_key", reply.code_sign_key))
    if reply.code_sign_key_signature:
        out.append(write_hex_element("code_sign_key_signature", reply.code_sign_key_signature))
    if reply.message_ack:
        out.append("<message_ack/>\n")
    out += (_trickle_down(trickle) for trickle in reply.trickle_downs)


def _tail(out: list[str], reply: SchedulerReply) -> None:
    if reply.non_cpu_intensive:
        out.append("<non_cpu_intensive/>\n")
    if reply.strict_memory_bound:
        out.append("<strict_memory_bound/>\n")
    out += (scalar("delete_file_info", checked_file_name(name)) for name in reply.delete_files)
    if reply.file_challenge:
        out.append(_file_challenge(reply.file_challenge))
    if reply.no_cpu_apps is not None:
        out.append(scalar("no_cpu_apps", reply.no_cpu_apps))
    out += (verbatim("no_rsc_apps", name) for name in reply.no_rsc_apps)
    if reply.desired_disk_usage:
        out.append(f"<desired_disk_usage>{decimal(reply.desired_disk_usage)}</desired_disk_usage>\n")
    if reply.rss_feeds:  # the second one is the user's own
        out.append("<rss_feeds>\n")
        out += (_rss_feed(feed) for feed in reply.rss_feeds)
        out.append("</rss_feeds>\n")
    out.append(_gui_urls(reply.gui_urls))
    if reply.project_files:
        out.append(f"<project_files>\n{write_file_refs(reply.project_files)}</project_files>\n")


def _file_challenge(challenge: FileChallenge) -> str:
    return (
        f"<file_challenge>\n{scalar('name', checked_file_name(challenge.file_name))}{scalar('nonce', challenge.nonce)}"
        f"<offset>{challenge.offset:d}</offset>\n<length>{challenge.length:d}</length>\n</file_challenge>\n"
    )


@lru_cache(maxsize=16)  # hardly ever more than one set is in use
def _gui_urls(gui_urls: tuple[GuiUrl, ...]) -> str:
    out: list[str] = []
    if gui_urls:
        out.append("<gui_urls>\n")
        out += (_gui_url(url) for url in gui_urls)
        out.append("</gui_urls>\n")
    return "".join(out)


def _rss_feed(feed: RssFeed) -> str:
    interval = whole(feed.poll_interval)
    return f"<rss_feed>\n{verbatim('url', feed.url)}<poll_interval>{interval}</poll_interval>\n</rss_feed>\n"


def _gui_url(url: GuiUrl) -> str:
    return (
        "    <gui_url>\n"
        f"{title('name', url.name, _INDENT * 2)}"
        f"{title('description', url.description, _INDENT * 2)}"
        f"{verbatim('url', url.url, _INDENT * 2)}"
        "    </gui_url>\n"
    )


# -- people and messages --------------------------------------------------------------------------------


def _message(message: Message) -> str:
    """Write a message; client 7.20.5 drops a message with a raw ``<`` in it."""
    text = one_line(message.text).strip()
    while len(written := html_text(text).encode()) > MAX_MESSAGE_BYTES:
        # Characters take one to six bytes, so this ends after a few rounds, and never within a character.
        text = text[: min(len(text) - 1, len(text) * MAX_MESSAGE_BYTES // len(written) + 1)]
    return f'<message priority="{message.priority}">{written.decode()}</message>\n'


def _user(user: UserBlock) -> str:
    return (
        f"<userid>{user.id:d}</userid>\n"
        f"{scalar('user_name', cut(user.name))}"
        f"<user_total_credit>{decimal(user.total_credit)}</user_total_credit>\n"
        f"<user_expavg_credit>{decimal(user.expavg_credit)}</user_expavg_credit>\n"
        f"<user_create_time>{whole(user.create_time)}</user_create_time>\n"
        f"{verbatim('email_hash', user.email_hash)}"
        f"{verbatim('cross_project_id', user.cross_project_id)}"
        f"{verbatim('external_cpid', user.external_cpid)}"
        f"<cpid_time>{whole(user.cpid_time or user.create_time)}</cpid_time>\n"
    )


def _host(host: HostBlock) -> str:
    announced = f"<hostid>{host.id:d}</hostid>\n" if host.announce_id else ""
    return (
        f"{announced}"
        f"<host_total_credit>{decimal(host.total_credit)}</host_total_credit>\n"
        f"<host_expavg_credit>{decimal(host.expavg_credit)}</host_expavg_credit>\n"
        f"{title('host_venue', host.venue)}"
        f"<host_create_time>{whole(host.create_time)}</host_create_time>\n"
    )


def _trickle_down(trickle: TrickleDown) -> str:
    """Write the text unchanged: the program reads it from a file like that."""
    if "</text>" in trickle.text or "</trickle_down>" in trickle.text:
        raise LocalProtocolError(
            f"the trickle-down message for {trickle.result_name} holds </text> or </trickle_down>: "
            "the client would stop reading there"
        )
    return (
        f"<trickle_down>\n{verbatim('result_name', trickle.result_name)}<time>{trickle.time:d}</time>\n"
        f"<text>\n{trickle.text}\n</text>\n</trickle_down>\n"
    )


def _named(element: str, name: str) -> str:
    return f"<{element}>\n    <name>{escape(name)}</name>\n</{element}>\n"


def _raw_element(element: str, text: str) -> str:
    text = text.strip()
    closing = f"</{element}>"
    if not (text.startswith(f"<{element}>") and text.endswith(closing) and text.count(closing) == 1):
        raise LocalProtocolError(f"stored preferences are not exactly one <{element}> element")
    return f"{text}\n"
