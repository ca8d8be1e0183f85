"""The scheduler reply: values, and the writer that turns them into the exact layout that clients expect."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MessagePriority(StrEnum):
    """What the client does with a message."""

    LOW = "low"  #: a line in its event log
    HIGH = "high"  #: the same, for old clients marked as important
    NOTICE = "notice"  #: also shown to the user; for things that the user must mend


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A text for the volunteer; may hold HTML."""

    text: str
    priority: MessagePriority = MessagePriority.LOW


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRef:
    """A file as an app version, a workunit or a result uses it."""

    file_name: str
    open_name: str = ""
    main_program: bool = False
    copy_file: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A file that the client downloads; ``nbytes`` and ``md5_cksum`` are of the unpacked file."""

    name: str
    urls: tuple[str, ...]
    nbytes: int
    md5_cksum: str
    executable: bool = False
    file_signature: str = ""  #: signature text; not empty: the client must check it
    sticky: bool = False
    gzipped_url: str = ""
    gzipped_nbytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFileInfo:
    """A file that the client uploads.

    ``upload_url`` must contain ``file_upload_handler``: that is how clients tell uploads from downloads.
    """

    name: str
    max_nbytes: int
    upload_url: str
    xml_signature: str
    gzip_when_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppBlock:
    """An app."""

    name: str
    user_friendly_name: str = ""
    non_cpu_intensive: bool = False
    fraction_done_exact: bool = False
    report_results_immediately: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppVersionBlock:
    """An app version, as this host shall run it."""

    app_name: str
    version_num: int
    platform: str
    file_refs: tuple[FileRef, ...]
    plan_class: str = ""
    avg_ncpus: float = 1.0
    flops: float = 1e9  #: projected speed; the client's estimates are rsc_fpops_est / flops
    api_version: str = "7.20.5"  #: >= 6.0 selects the shared segment in a mapped file
    cmdline: str = ""
    coproc_type: str = ""
    coproc_count: float = 0.0
    gpu_ram: float = 0.0  #: bytes
    dont_throttle: bool = False
    is_wrapper: bool = False
    needs_network: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkunitBlock:
    """A job's inputs and limits."""

    name: str
    app_name: str
    rsc_fpops_est: float
    rsc_fpops_bound: float
    rsc_memory_bound: float
    rsc_disk_bound: float
    command_line: str = ""
    file_refs: tuple[FileRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBlock:
    """A job's name, version, deadline and outputs."""

    name: str
    wu_name: str
    platform: str
    version_num: int
    report_deadline: float  #: Unix seconds; written as a whole number
    plan_class: str = ""
    file_refs: tuple[FileRef, ...] = ()
    report_immediately: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GuiUrl:
    """A link that managers show for the project."""

    name: str
    description: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RssFeed:
    """A feed of notices."""

    url: str
    poll_interval: float = 86400.0  #: seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleDown:
    """A message to a running job."""

    result_name: str
    time: int  #: Unix seconds; names the file in the job's folder
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerReply:
    """One answer to a scheduler RPC.  Empty fields are left out."""

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
    no_cpu_apps: bool | None = None
    no_rsc_apps: tuple[str, ...] = ()  #: GPU types for which the project has nothing
    rss_feeds: tuple[RssFeed, ...] = ()
    gui_urls: tuple[GuiUrl, ...] = ()
    project_files: tuple[FileRef, ...] = ()  #: repeat in every reply, else the client drops them
    desired_disk_usage: float = 0.0  #: bytes


def write_scheduler_reply(reply: SchedulerReply) -> bytes:
    """Write a reply.  Raises LocalProtocolError for what the format cannot carry."""
    raise NotImplementedError
