"""Read a scheduler reply, the client's side of `reply`; and ``app_info.xml``, which has the same elements.

Read a scheduler reply: the client's side of `scheduler_reply`.

Replies of our own server and of the family's are read alike; what was forgiven on the way is reported.  File names that
could leave a project's folder are refused here, once and for all.

``app_info.xml``: programs of the volunteer's own for a project (the anonymous platform).

Source: BOINC's ``client/cs_apps.cpp`` and its page on the anonymous platform (names and defaults: facts).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.values import changed
from cobblestone.wire.project.upload import MAX_FILE_BYTES
from cobblestone.wire.scheduler.host import MAX_COUNT, MAX_TIME
from cobblestone.wire.scheduler.job import (
    AppBlock,
    AppVersionBlock,
    FileInfo,
    FileRef,
    OutputFileInfo,
    ResultBlock,
    WorkunitBlock,
)
from cobblestone.wire.scheduler.reply import (
    FileChallenge,
    GuiUrl,
    HostBlock,
    Message,
    MessagePriority,
    RssFeed,
    SchedulerReply,
    TrickleDown,
    UserBlock,
)
from cobblestone.wire.scheduler.request import MAX_ANSWER, MAX_ID, MAX_OPERATIONS
from cobblestone.wire.text.reader import (
    MAX_NAME,
    MAX_VERBATIM,
    FieldReader,
    Lenience,
    LenienceKind,
    decode,
    note,
)
from cobblestone.wire.text.tree import Node, read_tree

MAX_JOBS = 10_000
MAX_URLS = 100
MAX_DELAY = 28 * 86400.0
"""A server may put the client off for so long at most, in seconds: the family's own bound for its back-offs is a day."""
HUGE_DELAY = 1e11
MAX_RANGE = 1 << 20
"""A client reads so much of a file for an answer at most, in bytes."""
_NONCE = re.compile(r"(?:[0-9a-f]{2}){1,32}")
_SAFE_NAME = re.compile(r"[!-\-0-\[\]-~][!-.0-\[\]-~]{0,254}")
_VERBATIM = ("message", "project_preferences", "global_preferences", "text", "opaque", "client_opaque")


@dataclass(frozen=True, slots=True)
class ReadReply:
    """A reply, and what was forgiven in it."""

    reply: SchedulerReply
    trickle_up_urls: tuple[str, ...]
    leniences: tuple[Lenience, ...]


def parse_scheduler_reply(body: bytes) -> ReadReply:
    """Read a reply.  Raises RemoteProtocolError, and nothing else, for what is no reply or only a part of one."""
    root = read_tree(body, "scheduler_reply", _VERBATIM)
    notes: list[Lenience] = []
    top = root.reader(notes)
    jobs = [read_result(node, notes) for node in _bounded(root, "result")]
    delay = top.number("request_delay", high=HUGE_DELAY)
    reply = SchedulerReply(
        master_url=top.text("master_url"),
        scheduler_version=top.integer("scheduler_version"),
        request_delay=min(delay, MAX_DELAY),
        next_rpc_delay=min(top.number("next_rpc_delay", high=HUGE_DELAY), MAX_DELAY),
        messages=tuple(_message(node, notes) for node in root.all("message")),
        project_is_down=_flag(root, "project_is_down"),
        project_name=top.text("project_name", MAX_NAME),
        dont_use_dcf=_flag(root, "dont_use_dcf"),
        ended=_flag(root, "ended"),
        send_full_workload=_flag(root, "send_full_workload"),
        send_time_stats_log=top.number("send_time_stats_log"),
        symstore=top.text("symstore"),
        user=_user(top),
        host=_host(top),
        global_preferences=whole_element(root, "global_preferences", notes),
        project_preferences=whole_element(root, "project_preferences", notes),
        result_acks=_names(root, "result_ack", notes),
        result_aborts=_names(root, "result_abort", notes),
        result_aborts_if_not_started=_names(root, "result_abort_if_not_started", notes),
        files=tuple(read_file(node, notes) for node in _bounded(root, "file_info") if not is_output(node)),
        output_files=tuple(
            read_output(node, notes) for node in _bounded(root, "file_info") if is_output(node)
        ),
        apps=tuple(read_app(node, notes) for node in _bounded(root, "app")),
        app_versions=tuple(read_app_version(node, notes) for node in _bounded(root, "app_version")),
        workunits=tuple(read_workunit(node, notes) for node in _bounded(root, "workunit")),
        results=tuple(jobs),
        code_sign_key=_hex_text(root, "code_sign_key"),
        code_sign_key_signature=_hex_text(root, "code_sign_key_signature"),
        message_ack=_flag(root, "message_ack"),
        trickle_downs=tuple(_trickle_down(node, notes) for node in _bounded(root, "trickle_down")),
        non_cpu_intensive=_flag(root, "non_cpu_intensive"),
        strict_memory_bound=_flag(root, "strict_memory_bound"),
        delete_files=tuple(_file_name(node.text) for node in root.all("delete_file_info")),
        file_challenge=_file_challenge(root, notes),
        no_cpu_apps=_flag(root, "no_cpu_apps") if root.has("no_cpu_apps") else None,
        no_rsc_apps=tuple(_scalar(node, notes) for node in root.all("no_rsc_apps"))[:MAX_URLS],
        rss_feeds=read_feeds(root, notes),
        gui_urls=_gui_urls(root, notes),
        project_files=_file_refs(root.find("project_files"), notes),
        desired_disk_usage=top.number("desired_disk_usage"),
    )
    trickle_urls = root.find("trickle_up_urls")
    urls = tuple(_scalar(node, notes) for node in trickle_urls.all("url")) if trickle_urls else ()
    return ReadReply(reply, urls[:MAX_URLS], tuple(notes))


def _bounded(root: Node, tag: str) -> list[Node]:
    found = list(root.all(tag))
    if len(found) > MAX_JOBS:
        raise RemoteProtocolError(f"the reply holds {len(found)} <{tag}>; at most {MAX_JOBS} are read")
    return found


def _flag(node: Node, tag: str) -> bool:
    found = node.find(tag)
    return found is not None and (found.attributes == "/" or found.text not in ("", "0"))


def _scalar(node: Node, notes: list[Lenience], limit: int = 1024) -> str:
    return FieldReader({node.tag: node.text}, node.tag, notes).text(node.tag, limit)


def safe_file_name(name: str) -> bool:
    """Return whether a name stays within its folder; projects use more characters than our own server does."""
    return _SAFE_NAME.fullmatch(name) is not None and ".." not in name


def _file_name(text: str) -> str:
    if not safe_file_name(text):
        raise RemoteProtocolError(
            f"{text[:80]!r} cannot be a file's name: no '/', no '..', no dot at its begin, at most {MAX_NAME} characters"
        )
    return text


def _names(root: Node, tag: str, notes: list[Lenience]) -> tuple[str, ...]:
    names = (node.reader(notes).name() for node in _bounded(root, tag))
    return tuple(name for name in names if name)


def _hex_text(root: Node, tag: str) -> str:
    found = root.find(tag)
    return found.text.replace("\r", "") if found is not None else ""


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
    return Message(text=" ".join(_scalar(node, notes, 8192).split()), priority=priority)


def _user(top: FieldReader) -> UserBlock | None:
    if not {"userid", "user_name"} & top.fields.keys():
        return None
    return UserBlock(
        id=top.integer("userid", high=MAX_ID),
        name=top.text("user_name", MAX_NAME),
        total_credit=top.number("user_total_credit"),
        expavg_credit=top.number("user_expavg_credit"),
        create_time=top.number("user_create_time", high=MAX_TIME),
        email_hash=top.text("email_hash", 64),
        cross_project_id=top.text("cross_project_id", 64),
        external_cpid=top.text("external_cpid", 64),
        cpid_time=top.number("cpid_time", high=MAX_TIME),
        team_id=top.integer("teamid", high=MAX_ID),
        team_name=top.text("team_name", MAX_NAME),
    )


def _host(top: FieldReader) -> HostBlock | None:
    if not {"hostid", "host_total_credit", "host_venue"} & top.fields.keys():
        return None
    return HostBlock(
        id=top.integer("hostid", high=MAX_ID),
        total_credit=top.number("host_total_credit"),
        expavg_credit=top.number("host_expavg_credit"),
        venue=top.text("host_venue", 64),
        create_time=top.number("host_create_time", high=MAX_TIME),
        announce_id="hostid" in top.fields,
    )


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
    text = node.find("text")
    return TrickleDown(
        result_name=reader.name("result_name"),
        time=reader.integer("time", high=int(MAX_TIME)),
        text=decode(text.raw, "trickle_down", notes).strip("\r\n") if text else "",
    )


def read_feeds(root: Node, notes: list[Lenience]) -> tuple[RssFeed, ...]:
    """Read ``<rss_feeds>``."""
    found = root.find("rss_feeds")
    readers = [node.reader(notes) for node in found.all("rss_feed")] if found else []
    return tuple(
        RssFeed(url=r.text("url"), poll_interval=r.number("poll_interval", 86400.0)) for r in readers
    )[:MAX_URLS]


def _gui_urls(root: Node, notes: list[Lenience]) -> tuple[GuiUrl, ...]:
    found = root.find("gui_urls")
    readers = [node.reader(notes) for node in found.all("gui_url")] if found else []
    return tuple(
        GuiUrl(name=r.text("name"), description=r.text("description"), url=r.text("url")) for r in readers
    )[:MAX_URLS]


# -- jobs -----------------------------------------------------------------------------------------------


def is_output(node: Node) -> bool:
    """Return whether a ``<file_info>`` is of a file to upload; the family tells by the address too."""
    if node.has("generated_locally") or node.has("upload_when_present") or node.has("upload_url"):
        return True
    return any("file_upload_handler" in url.text for url in node.all("url"))


def _urls(node: Node, tag: str, notes: list[Lenience]) -> tuple[str, ...]:
    return tuple(_scalar(url, notes) for url in node.all(tag))[:MAX_URLS]


def read_file(node: Node, notes: list[Lenience]) -> FileInfo:
    """Read the ``<file_info>`` of a download."""
    reader = node.reader(notes)
    zipped = _urls(node, "gzipped_url", notes)
    return FileInfo(
        name=_file_name(reader.text("name").strip()),
        urls=_urls(node, "url", notes) or _urls(node, "download_url", notes),
        nbytes=reader.integer("nbytes", high=MAX_FILE_BYTES),
        md5_cksum=reader.text("md5_cksum", 64).strip().lower(),
        executable=_flag(node, "executable"),
        file_signature=_hex_text(node, "file_signature"),
        sticky=_flag(node, "sticky"),
        gzipped_url=zipped[0] if zipped else "",
        gzipped_nbytes=reader.integer("gzipped_nbytes", high=MAX_FILE_BYTES),
    )


def read_output(node: Node, notes: list[Lenience]) -> OutputFileInfo:
    """Read the ``<file_info>`` of an output."""
    reader = node.reader(notes)
    urls = _urls(node, "url", notes) or _urls(node, "upload_url", notes)
    return OutputFileInfo(
        name=_file_name(reader.text("name").strip()),
        max_nbytes=reader.integer("max_nbytes", high=MAX_FILE_BYTES),
        upload_url=urls[0] if urls else "",
        other_upload_urls=urls[1:],
        xml_signature=_hex_text(node, "xml_signature"),
        gzip_when_done=_flag(node, "gzip_when_done"),
        sticky=_flag(node, "sticky"),
    )


def _file_refs(node: Node | None, notes: list[Lenience]) -> tuple[FileRef, ...]:
    if node is None:
        return ()
    refs: list[FileRef] = []
    for ref in node.all("file_ref"):
        reader = ref.reader(notes)
        refs.append(
            FileRef(
                file_name=_file_name(reader.text("file_name").strip()),
                open_name=reader.text("open_name", MAX_NAME),
                main_program=_flag(ref, "main_program"),
                copy_file=_flag(ref, "copy_file"),
                optional=_flag(ref, "optional"),
            )
        )
    return tuple(refs)


def read_app(node: Node, notes: list[Lenience]) -> AppBlock:
    """Read an ``<app>``."""
    reader = node.reader(notes)
    return AppBlock(
        name=_file_name(reader.text("name").strip()),
        user_friendly_name=reader.text("user_friendly_name", MAX_NAME),
        non_cpu_intensive=_flag(node, "non_cpu_intensive"),
        fraction_done_exact=_flag(node, "fraction_done_exact"),
        report_results_immediately=_flag(node, "report_results_immediately"),
    )


def read_app_version(node: Node, notes: list[Lenience]) -> AppVersionBlock:
    """Read an ``<app_version>``."""
    reader = node.reader(notes)
    coproc = node.find("coproc")
    gpu = coproc.reader(notes) if coproc else FieldReader({}, "coproc", notes)
    return AppVersionBlock(
        app_name=reader.name("app_name"),
        version_num=reader.integer("version_num"),
        platform=reader.text("platform", MAX_NAME),
        file_refs=_file_refs(node, notes),
        plan_class=reader.text("plan_class", MAX_NAME),
        avg_ncpus=reader.number("avg_ncpus", 1.0, 0.0, MAX_COUNT),
        flops=reader.number("flops", 1e9),
        api_version=reader.text("api_version", 64),
        cmdline=reader.text("cmdline"),
        coproc_type=gpu.text("type", 64),
        coproc_count=gpu.number("count", 0.0, 0.0, MAX_COUNT),
        gpu_ram=reader.number("gpu_ram"),
        dont_throttle=_flag(node, "dont_throttle"),
        is_wrapper=_flag(node, "is_wrapper"),
        needs_network=_flag(node, "needs_network"),
    )


def read_workunit(node: Node, notes: list[Lenience]) -> WorkunitBlock:
    """Read a ``<workunit>``."""
    reader = node.reader(notes)
    return WorkunitBlock(
        name=reader.name("name"),
        app_name=reader.name("app_name"),
        rsc_fpops_est=reader.number("rsc_fpops_est", high=MAX_OPERATIONS),
        rsc_fpops_bound=reader.number("rsc_fpops_bound", high=MAX_OPERATIONS),
        rsc_memory_bound=reader.number("rsc_memory_bound"),
        rsc_disk_bound=reader.number("rsc_disk_bound"),
        command_line=reader.text("command_line", 4096).strip(),
        file_refs=_file_refs(node, notes),
    )


def read_result(node: Node, notes: list[Lenience]) -> ResultBlock:
    """Read a ``<result>`` as it was sent."""
    reader = node.reader(notes)
    return ResultBlock(
        name=_file_name(reader.text("name").strip()),
        wu_name=reader.name("wu_name"),
        platform=reader.text("platform", MAX_NAME),
        version_num=reader.integer("version_num"),
        report_deadline=reader.number("report_deadline", high=MAX_TIME),
        plan_class=reader.text("plan_class", MAX_NAME),
        file_refs=_file_refs(node, notes),
        report_immediately=_flag(node, "report_immediately"),
    )


MAX_APP_INFO_BYTES = 1024 * 1024
MAX_ENTRIES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnApps:
    """What the file says."""

    apps: tuple[AppBlock, ...] = ()
    versions: tuple[AppVersionBlock, ...] = ()
    executables: frozenset[str] = frozenset()  #: names of files that are programs
    problems: tuple[str, ...] = ()  #: sentences about versions that cannot be used


def read_app_info(body: bytes, *, platform: str, cpu_flops: float) -> OwnApps:
    """Read the file; ``platform`` and ``cpu_flops`` (operations per second of a CPU) are for versions that do not say theirs.

    Raises RemoteProtocolError for what is no such file.
    """
    root = read_tree(body, "app_info", max_bytes=MAX_APP_INFO_BYTES)
    notes: list[Lenience] = []
    apps = tuple(read_app(node, notes) for node in _some(root, "app"))
    files = [read_file(node, notes) for tag in ("file_info", "file") for node in _some(root, tag)]
    versions: list[AppVersionBlock] = []
    problems: list[str] = []
    for node in _some(root, "app_version"):
        version = read_app_version(node, notes)
        problem = _problem(version, {app.name for app in apps}, {file.name for file in files})
        if problem:
            problems.append(f"the version {version.version_num} of the app {version.app_name!r} {problem}")
            continue
        flops = version.flops if node.has("flops") else max(version.avg_ncpus, 1.0) * cpu_flops
        versions.append(changed(version, platform=version.platform or platform, flops=flops))
    return OwnApps(
        apps=apps,
        versions=tuple(versions),
        executables=frozenset(file.name for file in files if file.executable),
        problems=tuple(problems),
    )


def _some(root: Node, tag: str) -> list[Node]:
    return list(root.all(tag))[:MAX_ENTRIES]


def _problem(version: AppVersionBlock, apps: set[str], files: set[str]) -> str:
    if version.app_name not in apps:
        return "belongs to no <app> of the file"
    if not version.file_refs:
        return "has no <file_ref>"
    strangers = [ref.file_name for ref in version.file_refs if ref.file_name not in files]
    return f"uses files without a <file_info>: {', '.join(strangers)}" if strangers else ""
