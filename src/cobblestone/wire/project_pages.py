"""Pages of a project that programs read: configuration, server status, scheduler tags in the master page.

Source: BOINC's wire protocol as seen with client 7.20.5; ``html/user/server_status.php`` (facts only).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cobblestone.domain.errors import LocalProtocolError
from cobblestone.wire.xml_writer import escape, scalar

_DECLARATION = '<?xml version="1.0" encoding="UTF-8" ?>\n'
MAX_LINE = 255
"""The client reads the master page in lines of at most so many bytes; a tag on a longer line is not found."""


def scheduler_link_tags(url: str) -> str:
    """Return the two forms in which clients look for the scheduler's URL, each on its own line, for the page's head.

    Raises LocalProtocolError for a URL that is too long or not fit for HTML.
    """
    if any(character in url for character in " \t\r\n<>\"'") or "--" in url:
        raise LocalProtocolError(
            f"{url!r} cannot be the scheduler's URL: no spaces, quotes, brackets or '--'"
        )
    lines = (
        f'<link rel="boinc_scheduler" href="{escape(url)}">',
        f"<!-- <scheduler>{url}</scheduler> -->",
    )
    for line in lines:
        if len(line.encode()) > MAX_LINE:
            raise LocalProtocolError(
                f"the scheduler's URL is too long: {line!r} has more than {MAX_LINE} bytes"
            )
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformEntry:
    """A platform that the project has versions for."""

    platform_name: str
    user_friendly_name: str = ""
    plan_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectConfig:
    """What managers must know of a project before they attach to it."""

    name: str
    master_url: str
    web_rpc_url_base: str = ""  #: defaults to the master URL
    server_version: str = ""
    account_manager: bool = False
    web_stopped: bool = False
    sched_stopped: bool = False
    min_passwd_length: int = 6
    uses_username: bool = False
    account_creation_disabled: bool = False
    client_account_creation_disabled: bool = False
    invite_code_required: bool = False
    min_client_version: int = 0  #: 100 * major + minor
    terms_of_use: str = ""
    platforms: tuple[PlatformEntry, ...] = ()


def write_project_config(config: ProjectConfig) -> bytes:
    """Return the answer to ``get_project_config.php``."""
    indent = "    "
    out = [
        scalar("name", config.name, indent),
        scalar("master_url", config.master_url, indent),
        scalar("web_rpc_url_base", config.web_rpc_url_base or config.master_url, indent),
    ]
    if config.server_version:
        out.append(scalar("server_version", config.server_version, indent))
    if config.account_manager:
        out.append("    <account_manager/>\n")
    out.append(scalar("web_stopped", config.web_stopped, indent))
    flags = (
        "account_creation_disabled",
        "client_account_creation_disabled",
        "invite_code_required",
        "uses_username",
    )
    out += (f"    <{flag}/>\n" for flag in flags if getattr(config, flag))
    out.append(scalar("min_passwd_length", config.min_passwd_length, indent))
    out.append(scalar("sched_stopped", config.sched_stopped, indent))
    if config.min_client_version:
        out.append(scalar("min_client_version", config.min_client_version, indent))
    if config.terms_of_use:
        out.append(f"    <terms_of_use>\n{escape(config.terms_of_use)}\n    </terms_of_use>\n")
    out.append("    <platforms>\n")
    out += (_platform(entry) for entry in config.platforms)
    out.append("    </platforms>\n")
    return f"{_DECLARATION}<project_config>\n{''.join(out)}</project_config>\n".encode()


def _platform(entry: PlatformEntry) -> str:
    plan_class = scalar("plan_class", entry.plan_class, " " * 12) if entry.plan_class else ""
    return (
        "        <platform>\n"
        f"{scalar('platform_name', entry.platform_name, ' ' * 12)}"
        f"{scalar('user_friendly_name', entry.user_friendly_name or entry.platform_name, ' ' * 12)}"
        f"{plan_class}        </platform>\n"
    )


# -- server status --------------------------------------------------------------------------------------


class DaemonState(StrEnum):
    """State of a daemon, in the words of the family."""

    RUNNING = "running"
    NOT_RUNNING = "not running"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """A part of the server and whether it runs."""

    host: str
    command: str
    status: DaemonState


@dataclass(frozen=True, slots=True, kw_only=True)
class AppTasks:
    """Tasks of one app; run times in hours, of the results validated in the last day."""

    id: int
    name: str
    unsent: int = 0
    in_progress: int = 0
    avg_runtime: float = 0.0
    min_runtime: float = 0.0
    max_runtime: float = 0.0
    users: int = 0  #: who returned a valid result in the last day


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The numbers that status sites collect, in the order in which they are written."""

    results_ready_to_send: int = 0
    results_in_progress: int = 0
    workunits_waiting_for_validation: int = 0
    workunits_waiting_for_assimilation: int = 0
    workunits_waiting_for_deletion: int = 0
    results_waiting_for_deletion: int = 0
    transitioner_backlog_hours: float = 0.0
    users_with_recent_credit: int = 0
    users_with_credit: int = 0
    users_registered_in_past_24_hours: int = 0
    hosts_with_recent_credit: int = 0
    hosts_with_credit: int = 0
    hosts_registered_in_past_24_hours: int = 0
    current_floating_point_speed: float = 0.0  #: GFLOPS, from recent average credit


def write_server_status(
    status: ServerStatus, daemons: Iterable[DaemonStatus], apps: Iterable[AppTasks]
) -> bytes:
    """Return the answer to ``server_status.php?xml=1``."""
    return (
        f"{_DECLARATION}<server_status>\n<daemon_status>\n"
        f"{''.join(_daemon(daemon) for daemon in daemons)}"
        "</daemon_status>\n<database_file_states>\n"
        f"{_items(status)}"
        "<tasks_by_app>\n"
        f"{''.join(f'<app>{chr(10)}{_items(app)}</app>{chr(10)}' for app in apps)}"
        "</tasks_by_app>\n</database_file_states>\n</server_status>\n"
    ).encode()


def _daemon(daemon: DaemonStatus) -> str:
    return (
        "  <daemon>\n"
        f"{scalar('host', daemon.host, '    ')}"
        f"{scalar('command', daemon.command, '    ')}"
        f"{scalar('status', daemon.status.value, '    ')}"
        "  </daemon>\n"
    )


def _items(values: ServerStatus | AppTasks) -> str:
    """Return the fields of a value by name: element names and field names are the same."""
    return "".join(scalar(name, getattr(values, name), "   ") for name in values.__slots__)
