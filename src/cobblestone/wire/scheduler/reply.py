"""The scheduler reply: values, the client's reader, and the writer in the layout and order of BOINC's scheduler.

Clients have read that layout for decades.  The order is that of ``sched/sched_types.cpp`` (facts only),
with each ``file_info`` before the blocks that refer to it.  Only elements that client 7.20.5 knows are
written: it looks into unknown ones as if they were not there.

Replies of our own server and of the family's are read alike; what was forgiven on the way is reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Annotated

from cobblestone.domain.errors import LocalProtocolError, RemoteProtocolError
from cobblestone.domain.values import changed, value
from cobblestone.wire.scheduler.host import MAX_ID, MAX_TIME
from cobblestone.wire.scheduler.job import (
    MAX_URLS,
    AppBlock,
    AppVersionBlock,
    FileInfo,
    FileRef,
    OutputFileInfo,
    ResultBlock,
    WorkunitBlock,
    checked_file_name,
    is_output,
    read_app,
    read_app_version,
    read_file,
    read_file_name,
    read_file_refs,
    read_hex_text,
    read_output,
    read_result,
    read_workunit,
    safe_file_name,
    write_app,
    write_app_version,
    write_file_info,
    write_file_refs,
    write_hex_element,
    write_output_file_info,
    write_result,
    write_workunit,
)
from cobblestone.wire.scheduler.report import MAX_ANSWER
from cobblestone.wire.text.reader import (
    MAX_NAME,
    MAX_VERBATIM,
    FieldReader,
    Lenience,
    LenienceKind,
    decode,
    note,
)
from cobblestone.wire.text.table import Contents, FieldTable, Inside, Mark, Marked, Number, Text, Whole
from cobblestone.wire.text.tree import Node, read_tree
from cobblestone.wire.text.writer import (
    cut,
    escape,
    html_text,
    line_text,
    one_line,
    scalar,
    title_text,
    verbatim,
    verbatim_text,
)

#: The client's buffer for a message has 1024 bytes, the end mark included.
MAX_MESSAGE_BYTES = 1000
MAX_JOBS = 10_000
#: A server may put the client off for so long at most, in seconds: the family's own bound for its back-offs is a day.
MAX_DELAY = 28 * 86400.0
HUGE_DELAY = 1e11
#: A client reads so much of a file for an answer at most, in bytes.
MAX_RANGE = 1 << 20
_NONCE = re.compile(r"(?:[0-9a-f]{2}){1,32}")
_VERBATIM = ("message", "project_preferences", "global_preferences", "text", "opaque", "client_opaque")
_IN = "    "

_NAME = Text(MAX_NAME, write=lambda _, text: line_text(cut(text)))
Title = Annotated[str, Text(write=title_text)]
Exact = Annotated[str, Text(write=verbatim_text)]
Hash = Annotated[str, Text(64, write=verbatim_text)]


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

    name: Title
    description: Title
    url: Exact


@value(kw_only=True)
class RssFeed:
    """A feed of notices."""

    url: Exact
    poll_interval: Annotated[float, Number(digits=0)] = 86400.0  #: seconds


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

    id: Annotated[int, Whole(high=MAX_ID, element="userid")]
    name: Annotated[str, replace(_NAME, element="user_name")]
    total_credit: Annotated[float, Number(element="user_total_credit")] = 0.0
    expavg_credit: Annotated[float, Number(element="user_expavg_credit")] = 0.0
    create_time: Annotated[float, Number(high=MAX_TIME, digits=0, element="user_create_time")] = 0.0
    email_hash: Hash = ""
    cross_project_id: Hash = ""
    external_cpid: Hash = ""
    cpid_time: Annotated[float, Number(high=MAX_TIME, digits=0)] = 0.0
    team_id: Annotated[int, Whole(high=MAX_ID, element="teamid")] = 0
    team_name: Annotated[str, _NAME] = ""


@value(kw_only=True)
class HostBlock:
    """The computer, as clients show it."""

    id: Annotated[int, Whole(high=MAX_ID, element="hostid")]
    total_credit: Annotated[float, Number(element="host_total_credit")] = 0.0
    expavg_credit: Annotated[float, Number(element="host_expavg_credit")] = 0.0
    venue: Annotated[str, Text(64, element="host_venue", write=title_text)] = ""
    create_time: Annotated[float, Number(high=MAX_TIME, digits=0, element="host_create_time")] = 0.0
    #: send the id: only when it is new or changed, for the client then restarts its rpc_seqno
    announce_id: bool = False


@dataclass(slots=True, kw_only=True)
class SchedulerReply:
    """One answer to a scheduler RPC, filled in step by step.  Empty fields are left out."""

    scheduler_version: Annotated[int, Whole(default=0)] = (
        820  #: 100 * major + minor of the server family that we behave like
    )
    dont_use_dcf: Marked = False
    master_url: Exact
    ended: Annotated[bool, Mark(content="1")] = False
    #: seconds before which the client shall not ask again
    request_delay: Annotated[float, Number(high=HUGE_DELAY, most=MAX_DELAY)] = 0.0
    messages: Contents[Message] = ()
    project_name: Annotated[str, Text(MAX_NAME, write=title_text, optional=True)] = ""
    project_is_down: Marked = False  #: with it nothing that follows is sent
    send_time_stats_log: Annotated[float, Number(digits=0, optional=True)] = 0.0
    send_full_workload: Marked = False
    symstore: Annotated[str, Text(write=verbatim_text, optional=True)] = ""
    #: seconds after which the client shall ask in any case; 0 = no wish
    next_rpc_delay: Annotated[float, Number(high=HUGE_DELAY, most=MAX_DELAY, optional=True)] = 0.0
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
    #: signature of the new key's stripped text, made with the client's old key
    code_sign_key_signature: str = ""
    message_ack: Marked = False
    trickle_downs: Contents[TrickleDown] = ()
    non_cpu_intensive: Marked = False
    strict_memory_bound: Marked = False
    delete_files: Contents[str] = ()
    file_challenge: Annotated[FileChallenge | None, Inside()] = None
    no_cpu_apps: Annotated[bool | None, Inside()] = None
    no_rsc_apps: Contents[str] = ()  #: GPU types for which the project has nothing
    desired_disk_usage: Annotated[float, Number(optional=True)] = 0.0  #: bytes
    rss_feeds: Contents[RssFeed] = ()
    gui_urls: Contents[GuiUrl] = ()
    project_files: Contents[FileRef] = ()  #: repeat in every reply, else the client drops them


USER = FieldTable(UserBlock)
HOST = FieldTable(HostBlock)
#: Elements of every reply; without a team there are none about one.
_ABOUT_PEOPLE = (USER.elements | HOST.elements) - {"teamid", "team_name"}
GUI_URL = FieldTable(GuiUrl)
_FEED = FieldTable(RssFeed)
_REPLY = FieldTable(SchedulerReply, {"people": "message_ack", "work": "message_ack"})

_WRITTEN_USER = USER.layout(without=("team_id", "team_name"), indent="")
_TEAM = USER.layout("team_id", "team_name", indent="")
_HOST_ID = HOST.layout("id", indent="")
_WRITTEN_HOST = HOST.layout(without=("id",), indent="")
_WRITTEN_GUI_URL = GUI_URL.layout(tag="gui_url", indent=_IN * 2, outside=_IN)
_WRITTEN_FEED = _FEED.layout(tag="rss_feed", indent="")
_WRITTEN_DOWN = _REPLY.layout(
    "scheduler_version", "dont_use_dcf", "master_url", "ended", "request_delay", "messages", "project_name", "project_is_down",
    tag="scheduler_reply", indent="",
)  # fmt: skip
_WRITTEN_REPLY = _REPLY.layout(tag="scheduler_reply", indent="")


# -- reading --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadReply:
    """A reply, and what was forgiven in it."""

    reply: SchedulerReply
    trickle_up_urls: tuple[str, ...]
    leniences: tuple[Lenience, ...]
    unsaid: frozenset[str] = (
        frozenset()
    )  #: elements about account and computer that are absent or no usable numbers


def parse_scheduler_reply(body: bytes) -> ReadReply:
    """Read a reply.  Raises RemoteProtocolError, and nothing else, for what is no reply or only a part of one."""
    root = read_tree(body, "scheduler_reply", _VERBATIM)
    notes: list[Lenience] = []
    top = root.reader(notes)
    jobs = [read_result(node, notes) for node in _bounded(root, "result")]
    infos = _bounded(root, "file_info")
    links = root.inner("gui_urls").all("gui_url")
    reply = _REPLY.read(
        top,
        messages=tuple(_message(node, notes) for node in root.all("message")),
        user=_user(top),
        host=_host(top),
        global_preferences=whole_element(root, "global_preferences", notes),
        project_preferences=whole_element(root, "project_preferences", notes),
        result_acks=_names(root, "result_ack", notes),
        result_aborts=_names(root, "result_abort", notes),
        result_aborts_if_not_started=_names(root, "result_abort_if_not_started", notes),
        files=tuple(read_file(node, notes) for node in infos if not is_output(node)),
        output_files=tuple(read_output(node, notes) for node in infos if is_output(node)),
        apps=tuple(read_app(node, notes) for node in _bounded(root, "app")),
        app_versions=tuple(read_app_version(node, notes) for node in _bounded(root, "app_version")),
        workunits=tuple(read_workunit(node, notes) for node in _bounded(root, "workunit")),
        results=tuple(jobs),
        code_sign_key=read_hex_text(root, "code_sign_key"),
        code_sign_key_signature=read_hex_text(root, "code_sign_key_signature"),
        trickle_downs=tuple(_trickle_down(node, notes) for node in _bounded(root, "trickle_down")),
        delete_files=tuple(read_file_name(node.text) for node in root.all("delete_file_info")),
        file_challenge=_file_challenge(root, notes),
        no_cpu_apps=root.is_set("no_cpu_apps") if root.has("no_cpu_apps") else None,
        no_rsc_apps=tuple(node.scalar(notes) for node in root.all("no_rsc_apps"))[:MAX_URLS],
        rss_feeds=read_feeds(root, notes),
        gui_urls=tuple(GUI_URL.read(node.reader(notes)) for node in links)[:MAX_URLS],
        project_files=read_file_refs(root.inner("project_files"), notes),
    )
    urls = tuple(node.scalar(notes) for node in root.inner("trickle_up_urls").all("url"))
    return ReadReply(reply, urls[:MAX_URLS], tuple(notes), top.unsaid(_ABOUT_PEOPLE))


def _bounded(root: Node, tag: str) -> list[Node]:
    found = list(root.all(tag))
    if len(found) > MAX_JOBS:
        raise RemoteProtocolError(f"the reply holds {len(found)} <{tag}>; at most {MAX_JOBS} are read")
    return found


def _names(root: Node, tag: str, notes: list[Lenience]) -> tuple[str, ...]:
    names = (node.reader(notes).name() for node in _bounded(root, tag))
    return tuple(name for name in names if name)


def whole_element(root: Node, tag: str, notes: list[Lenience]) -> str:
    """Return an element as it stands, tags included; empty if there is none, or too long."""
    found = root.find(tag)
    if found is None:
        return ""
    raw = decode(found.raw, tag, notes)
    if len(raw) > MAX_VERBATIM:
        note(notes, LenienceKind.CUT, tag, f"{len(raw)} characters")
        return ""
    return f"<{tag}>{raw}</{tag}>"


def _message(node: Node, notes: list[Lenience]) -> Message:
    """Priorities are ``low``, ``high`` and ``notice``; anything else is taken for low."""
    priority = MessagePriority.LOW
    for each in MessagePriority:
        if f'"{each}"' in node.attributes:
            priority = each
    return Message(text=" ".join(node.scalar(notes, 8192).split()), priority=priority)


def _user(top: FieldReader) -> UserBlock | None:
    return USER.read(top) if {"userid", "user_name"} & top.fields.keys() else None


def _host(top: FieldReader) -> HostBlock | None:
    if not {"hostid", "host_total_credit", "host_venue"} & top.fields.keys():
        return None
    return HOST.read(top, announce_id="hostid" in top.fields)


def _file_challenge(root: Node, notes: list[Lenience]) -> FileChallenge | None:
    """Read a question about a file; one that cannot be answered as it stands is none."""
    node = root.find("file_challenge")
    if node is None:
        return None
    reader = node.reader(notes)
    nonce, length = reader.text("nonce", MAX_ANSWER), reader.integer("length", high=MAX_RANGE)
    if not _NONCE.fullmatch(nonce) or not length or not safe_file_name(reader.name()):
        return None
    return FileChallenge(
        file_name=reader.name(), nonce=nonce, offset=reader.integer("offset", high=2**53), length=length
    )


def _trickle_down(node: Node, notes: list[Lenience]) -> TrickleDown:
    reader = node.reader(notes)
    return TrickleDown(
        result_name=reader.name("result_name"),
        time=reader.integer("time", high=int(MAX_TIME)),
        text=decode(node.inner("text").raw, "trickle_down", notes).strip("\r\n"),
    )


def read_feeds(root: Node, notes: list[Lenience]) -> tuple[RssFeed, ...]:
    """Read ``<rss_feeds>``."""
    return tuple(_FEED.read(node.reader(notes)) for node in root.inner("rss_feeds").all("rss_feed"))[
        :MAX_URLS
    ]


# -- writing --------------------------------------------------------------------------------------------


def write_scheduler_reply(reply: SchedulerReply) -> bytes:
    """Write a reply.  Raises LocalProtocolError for what the format cannot carry."""
    messages = "".join(map(_write_message, reply.messages))
    if reply.project_is_down:
        return _WRITTEN_DOWN.write(reply, messages=messages).encode()
    files = ""
    if reply.project_files:
        files = f"<project_files>\n{write_file_refs(reply.project_files)}</project_files>\n"
    return _WRITTEN_REPLY.write(
        reply,
        messages=messages,
        people=_write_people(reply),
        work=_write_work(reply),
        trickle_downs="".join(map(_write_trickle_down, reply.trickle_downs)),
        delete_files="".join(scalar("delete_file_info", checked_file_name(n)) for n in reply.delete_files),
        file_challenge=_write_challenge(reply.file_challenge) if reply.file_challenge else "",
        no_cpu_apps="" if reply.no_cpu_apps is None else scalar("no_cpu_apps", reply.no_cpu_apps),
        no_rsc_apps="".join(verbatim("no_rsc_apps", name) for name in reply.no_rsc_apps),
        rss_feeds=_write_feeds(reply.rss_feeds),
        gui_urls=_write_gui_urls(reply.gui_urls),
        project_files=files,
    ).encode()


def _write_people(reply: SchedulerReply) -> str:
    user, host = reply.user, reply.host
    out: list[str] = []
    if user:
        out.append(_WRITTEN_USER.write(user if user.cpid_time else changed(user, cpid_time=user.create_time)))
    if reply.global_preferences:
        out.append(_raw_element("global_preferences", reply.global_preferences))
    if reply.project_preferences:
        out.append(_raw_element("project_preferences", reply.project_preferences))
    if host:
        out += (_HOST_ID.write(host) if host.announce_id else "", _WRITTEN_HOST.write(host))
    if user and user.team_id:
        out.append(_TEAM.write(user))
    return "".join(out)


def _write_work(reply: SchedulerReply) -> str:
    out = [_named("result_ack", name) for name in reply.result_acks]
    out += (_named("result_abort", name) for name in reply.result_aborts)
    out += (_named("result_abort_if_not_started", name) for name in reply.result_aborts_if_not_started)
    out += map(write_app, reply.apps)
    out += map(write_file_info, reply.files)
    out += map(write_app_version, reply.app_versions)
    out += map(write_workunit, reply.workunits)
    out += map(write_output_file_info, reply.output_files)
    out += map(write_result, reply.results)
    if reply.code_sign_key:
        out.append(write_hex_element("code_sign_key", reply.code_sign_key))
    if reply.code_sign_key_signature:
        out.append(write_hex_element("code_sign_key_signature", reply.code_sign_key_signature))
    return "".join(out)


def _write_challenge(challenge: FileChallenge) -> str:
    return (
        f"<file_challenge>\n{scalar('name', checked_file_name(challenge.file_name))}{scalar('nonce', challenge.nonce)}"
        f"<offset>{challenge.offset:d}</offset>\n<length>{challenge.length:d}</length>\n</file_challenge>\n"
    )


@lru_cache(maxsize=16)  # hardly ever more than one set is in use
def _write_gui_urls(gui_urls: tuple[GuiUrl, ...]) -> str:
    return f"<gui_urls>\n{''.join(map(_WRITTEN_GUI_URL.write, gui_urls))}</gui_urls>\n" if gui_urls else ""


@lru_cache(maxsize=2048)  # the second one is the user's own
def _write_feeds(feeds: tuple[RssFeed, ...]) -> str:
    return f"<rss_feeds>\n{''.join(map(_WRITTEN_FEED.write, feeds))}</rss_feeds>\n" if feeds else ""


def _write_message(message: Message) -> str:
    """Client 7.20.5 drops a message with a raw ``<`` in it."""
    text = one_line(message.text).strip()
    while len(written := html_text(text).encode()) > MAX_MESSAGE_BYTES:
        # Characters take one to six bytes, so this ends after a few rounds, and never within a character.
        text = text[: min(len(text) - 1, len(text) * MAX_MESSAGE_BYTES // len(written) + 1)]
    return f'<message priority="{message.priority}">{written.decode()}</message>\n'


def _write_trickle_down(trickle: TrickleDown) -> str:
    """Write the text as it is: the program reads it from a file that way."""
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
