"""Pages of a project for programs: configuration, status, feeds; and how a client requests them and its account.

Source: BOINC's wire protocol as seen with client 7.20.5; ``html/user/server_status.php`` and ``apps.php`` (facts only).

What a client asks of a project before it belongs to it: configuration, account, and where the scheduler is.

The other side of `account` and `project_pages`; the requests are plain GETs.

RSS 2.0 feeds, from which clients make notices.

Client 7.20.5 wants title, guid, pubDate and description of each item, and ignores items older than 30 days.  A feed may come from
anybody: what is read is bounded in size, number and length, and takes linear time.  A client keeps
titles without escapes, and after a ``<`` in one it forgets all notices of the feed at its next start.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate, parsedate_to_datetime
from enum import StrEnum
from typing import Annotated
from urllib.parse import quote_plus, urlencode, urlsplit

from cobblestone.domain.apps import App
from cobblestone.domain.errors import LocalProtocolError, RemoteProtocolError
from cobblestone.domain.values import changed, value
from cobblestone.wire.project.account import ERROR_MESSAGES, WebRpcError
from cobblestone.wire.text.reader import Lenience, decode, unescape, unescape_html
from cobblestone.wire.text.table import Contents, FieldTable, Given, Inside, Mark, Marked, Text, Whole
from cobblestone.wire.text.tree import Node, read_tree
from cobblestone.wire.text.writer import escape, html_text, printable, scalar, scalars, title, whole

_DECLARATION = '<?xml version="1.0" encoding="UTF-8" ?>\n'
MAX_URL = 255
#: The client reads the master page in lines of at most so many bytes; a tag on a longer line is not found.
MAX_LINE = 255


def scheduler_link_tags(url: str) -> str:
    """Return the two forms in which clients look for the scheduler's URL, each on its own line, for the page's head.

    Raises LocalProtocolError for a URL that is too long or not fit for HTML.
    """
    if any(character in url for character in " \t\r\n<>\"'") or "--" in url:
        raise LocalProtocolError(
            f"{url!r} cannot be the scheduler's URL: no spaces, quotes, brackets or '--'"
        )
    lines = (f'<link rel="boinc_scheduler" href="{escape(url)}">', f"<!-- <scheduler>{url}</scheduler> -->")
    for line in lines:
        if len(line.encode()) > MAX_LINE:
            raise LocalProtocolError(
                f"the scheduler's URL is too long: {line!r} has more than {MAX_LINE} bytes"
            )
    return "\n".join(lines) + "\n"


@value(kw_only=True)
class PlatformEntry:
    """A platform that the project has versions for."""

    platform_name: Annotated[str, Text(255)]
    user_friendly_name: Annotated[str, Text(255)] = ""
    plan_class: Annotated[str, Text(255, optional=True)] = ""


Url = Annotated[str, Text(MAX_URL, read=str.strip)]
Switch = Annotated[bool, Mark(content=None)]


@value(kw_only=True)
class ProjectConfig:
    """The description of a project that managers need before attaching."""

    name: Annotated[str, Text(255)]
    master_url: Url
    web_rpc_url_base: Url = ""  #: defaults to the master URL
    server_version: Annotated[str, Text(64, optional=True)] = ""
    account_manager: Annotated[bool, Given(Mark())] = False
    web_stopped: Switch = False
    account_creation_disabled: Marked = False
    client_account_creation_disabled: Marked = False
    invite_code_required: Marked = False
    uses_username: Marked = False
    min_passwd_length: Annotated[int, Whole(0, 255)] = 6
    sched_stopped: Switch = False
    min_client_version: Annotated[int, Whole(optional=True)] = 0  #: 100 * major + minor
    terms_of_use: Annotated[str, Inside()] = ""
    platforms: Contents[PlatformEntry] = ()
    #: PEM; empty: the project proves no ownership
    account_ownership_public_key: Annotated[bytes, Inside()] = b""


_PLATFORM, _CONFIG = FieldTable(PlatformEntry), FieldTable(ProjectConfig)
_WRITTEN_PLATFORM = _PLATFORM.layout(tag="platform", indent=" " * 12, outside=" " * 8)
_WRITTEN_CONFIG = _CONFIG.layout(tag="project_config")


def write_project_config(config: ProjectConfig) -> bytes:
    """Return the answer to ``get_project_config.php``."""
    terms = f"    <terms_of_use>\n{escape(config.terms_of_use)}\n    </terms_of_use>\n"
    key = b64encode(config.account_ownership_public_key).decode()
    written = _WRITTEN_CONFIG.write(
        changed(config, web_rpc_url_base=config.web_rpc_url_base or config.master_url),
        terms_of_use=terms if config.terms_of_use else "",
        platforms=f"    <platforms>\n{''.join(map(_platform, config.platforms))}    </platforms>\n",
        account_ownership_public_key=scalar("account_ownership_public_key", key, "    ") if key else "",
    )
    return f"{_DECLARATION}{written}".encode()


def _platform(entry: PlatformEntry) -> str:
    name = entry.user_friendly_name or entry.platform_name
    return _WRITTEN_PLATFORM.write(changed(entry, user_friendly_name=name))


# -- server status --------------------------------------------------------------------------------------


class FamilyDaemonState(StrEnum):
    """State of a daemon, in BOINC's words."""

    RUNNING = "running"
    NOT_RUNNING = "not running"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """A part of the server and whether it runs."""

    host: str
    command: str
    status: FamilyDaemonState


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
    """The numbers that status sites collect, in their order."""

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
        f"{_status_items(status)}"
        "<tasks_by_app>\n"
        f"{''.join(f'<app>{chr(10)}{_status_items(app)}</app>{chr(10)}' for app in apps)}"
        "</tasks_by_app>\n</database_file_states>\n</server_status>\n"
    ).encode()


_JOB_COUNTS = {
    "results_ready_to_send": "results_ready_to_send",
    "results_in_progress": "results_in_progress",
    "results_need_file_delete": "results_waiting_for_deletion",
    "wus_need_validate": "workunits_waiting_for_validation",
    "wus_need_assimilate": "workunits_waiting_for_assimilation",
    "wus_need_file_delete": "workunits_waiting_for_deletion",
}


def write_job_counts(status: ServerStatus) -> bytes:
    """Return the answer to ``server_status.php?counts=1``."""
    items = "".join(scalar(name, getattr(status, field), "   ") for name, field in _JOB_COUNTS.items())
    return f"{_DECLARATION}<job_counts>\n{items}</job_counts>\n".encode()


_BETA = "        <beta/>\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVersion:
    """An app version in the list of apps."""

    platform: str
    version_num: int
    plan_class: str
    create_time: float
    beta: bool = False


def write_apps(apps: Iterable[tuple[App, Iterable[ListedVersion]]]) -> bytes:
    """Return the answer to ``apps.php?xml=1``: apps, and their versions."""
    found = "".join(
        f"<application>\n{scalar('user_friendly_name', app.title, '    ')}{scalars(app, 'name id', '    ')}{_BETA * app.beta}"
        f"{''.join(map(_listed_version, versions))}    </application>\n"
        for app, versions in apps
    )
    return f"{_DECLARATION}<app_versions>\n{found}</app_versions>\n".encode()


def _listed_version(version: ListedVersion) -> str:
    indent = "        "
    made = datetime.fromtimestamp(version.create_time, UTC)
    return (
        "    <version>\n"
        f"{scalar('platform_short', version.platform, indent)}"
        f"{scalar('platform_long', version.platform, indent)}"
        f"{scalars(version, 'version_num plan_class', indent)}"
        f"{indent}<date>{made.day} {made:%b %Y}, {made.hour}:{made:%M:%S} UTC</date>\n"
        f"{indent}<date_unix>{whole(version.create_time)}</date_unix>\n"
        f"{_BETA * version.beta}"
        "    </version>\n"
    )


def _daemon(daemon: DaemonStatus) -> str:
    return f"  <daemon>\n{scalars(daemon, 'host command status', '    ')}  </daemon>\n"


def _status_items(values: ServerStatus | AppTasks) -> str:
    """Return the fields of a value by name: element names and field names are the same."""
    return scalars(values, " ".join(values.__slots__), "   ")


MAX_PAGE = 4 * 1024 * 1024
MAX_SCHEDULERS = 20
WEAK_KEY = re.compile(r"\d{1,18}_[0-9a-fA-F]{32}")
_SCHEDULER = re.compile(
    r"<scheduler>\s*([^<\s]{1,512})\s*</scheduler>"
    r"|<link\s+rel=[\"']boinc_scheduler[\"']\s+href=[\"']([^\"'\s]{1,512})[\"']",
    re.IGNORECASE,
)


class WebRpcRefused(RemoteProtocolError):
    """A project refused a web RPC; ``number`` is BOINC's."""

    def __init__(self, number: int, text: str) -> None:
        # Only the project knows what it has against a name.
        known = "" if text and number == WebRpcError.BAD_USER_NAME else ERROR_MESSAGES.get(number)
        super().__init__(known or text or f"The project answered with error {number}")
        self.number = number


def canonical_master_url(text: str) -> str:
    """Return a project's address as its identity: with a scheme, host in lower case, and a slash at the end.

    Raises:
        RemoteProtocolError: this is no address of a web page.
    """
    url = text.strip()
    if "://" not in url:
        url = f"https://{url}"
    try:
        parts = urlsplit(url)
        _ = parts.port  # it is looked at only here
    except ValueError:
        parts = urlsplit("")
    legal = len(url) <= MAX_URL and all("!" <= each <= "~" and each not in "<>\"'\\" for each in url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or not legal:
        raise RemoteProtocolError(f"{text[:80]!r} is not a project address: expected https://host/path/")
    path = parts.path if parts.path.endswith("/") else f"{parts.path}/"
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{path}"


def folder_of(master_url: str) -> str:
    """Return the name of a project's folder and files: the address without scheme, other characters as ``_``."""
    bare = re.sub(r"^https?://", "", master_url).strip("/")
    return re.sub(r"[^A-Za-z0-9._-]", "_", bare).lstrip(".")[:200] or "project"


def project_config_url(url: str) -> str:
    """Return the URL of a project's description of itself."""
    return f"{url}get_project_config.php"


def lookup_account_hash_url(base: str, email: str, hashed: str) -> str:
    """Return the URL of a look-up of an account's key, by the hash of password and address."""
    return f"{base}lookup_account.php?email_addr={quote_plus(email)}&passwd_hash={quote_plus(hashed)}"


def create_account_url(
    base: str, email: str, hashed: str, user_name: str, team_name: str = "", *, consent: bool
) -> str:
    """Return the URL of a request for a new account."""
    team = f"&team_name={quote_plus(team_name)}" if team_name else ""
    agreed = "&consent_flag=1&source=BOINC" if consent else ""
    return (
        f"{base}create_account.php?email_addr={quote_plus(email)}&passwd_hash={quote_plus(hashed)}"
        f"&user_name={quote_plus(user_name)}{team}{agreed}"
    )


def account_info_url(base: str, authenticator: str) -> str:
    """Return the URL of a request for a project's data about an account."""
    return f"{base}am_get_info.php?account_key={quote_plus(authenticator)}"


def set_account_url(base: str, authenticator: str, said: Mapping[str, str]) -> str:
    """Return the URL of a change of an account."""
    return f"{base}am_set_info.php?{urlencode({'account_key': authenticator, **said})}"


def parse_account_set(body: bytes) -> None:
    """Read the answer to a change of an account.

    Raises:
        WebRpcRefused: the project says no.
        RemoteProtocolError: the answer is of another kind, such as a page.
    """
    _raise_for_error(body)
    if not read_tree(body, "am_set_info_reply", max_bytes=MAX_PAGE).has("success"):
        raise RemoteProtocolError("the project's answer does not say that it was done")


def parse_weak_key(body: bytes) -> str:
    """Return the weak key in a project's data about an account.

    Raises:
        WebRpcRefused: the project says no.
        RemoteProtocolError: the answer holds none.
    """
    _raise_for_error(body)
    root = read_tree(body, "am_get_info_reply", ("global_prefs", "project_prefs"), max_bytes=MAX_PAGE)
    notes: list[Lenience] = []
    key = root.reader(notes).text("weak_auth", 255).strip()
    if not WEAK_KEY.fullmatch(key):
        raise RemoteProtocolError("the project's answer holds no weak account key")
    return key


def parse_account_out(body: bytes) -> str:
    """Return the authenticator in the answer to a look-up or creation.

    Raises:
        WebRpcRefused: the project says no.
        RemoteProtocolError: the answer is of another kind, such as a page.
    """
    _raise_for_error(body)
    notes: list[Lenience] = []
    key = read_tree(body, "account_out", max_bytes=MAX_PAGE).reader(notes).text("authenticator", 255).strip()
    if not re.fullmatch(r"[0-9A-Za-z_]{1,255}", key):
        raise RemoteProtocolError("the project's answer holds no account key")
    return key


def _raise_for_error(body: bytes) -> None:
    if b"<error>" not in body[:4096] and b"<error_num>" not in body[:4096]:
        return
    found = re.search(rb"<error_num>\s*(-?\d{1,6})", body)
    text = re.search(rb"<error_msg>([^<]{0,300})", body)
    number = int(found[1]) if found else int(WebRpcError.GENERIC)
    raise WebRpcRefused(number, unescape_html(text[1].decode("utf-8", "replace")).strip() if text else "")


def parse_project_config(body: bytes) -> ProjectConfig:
    """Read the answer to ``get_project_config.php``.  Raises RemoteProtocolError."""
    _raise_for_error(body)
    root = read_tree(body, "project_config", ("terms_of_use",), max_bytes=MAX_PAGE)
    notes: list[Lenience] = []
    readers = [node.reader(notes) for node in root.inner("platforms").all("platform")][:500]
    terms = root.inner("terms_of_use").text.encode("latin-1").decode("utf-8", "replace")
    return _CONFIG.read(
        root.reader(notes),
        account_manager=root.has("account_manager"),
        terms_of_use=unescape_html(terms)[:65536],
        platforms=tuple(_PLATFORM.read(each) for each in readers),
    )


def scheduler_urls(page: bytes) -> tuple[str, ...]:
    """Return the addresses of the scheduler on a project's front page, without repetitions."""
    text = page[:MAX_PAGE].decode("utf-8", "replace")
    found = (unescape_html(one or other) for one, other in _SCHEDULER.findall(text))
    urls = (url for url in found if url.lower().startswith(("http://", "https://")))
    return tuple(dict.fromkeys(urls))[:MAX_SCHEDULERS]


def is_cobblestone(page: bytes) -> bool:
    """Return whether a front page is of a project that runs on this program."""
    return b'<meta name="generator" content="cobblestone">' in page


MAX_FEED_BYTES = 1024 * 1024
MAX_ITEMS = 100
MAX_TITLE = 255
MAX_DESCRIPTION = 8192
MAX_LINK = 1024
MAX_DATE = 64
_VERBATIM = ("title", "description", "link", "guid", "pubDate")


@dataclass(frozen=True, slots=True, kw_only=True)
class RssItem:
    """One notice."""

    title: str
    guid: str  #: the same item keeps it for ever; clients show each once
    published: float  #: Unix seconds
    description: str  #: may hold HTML
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RssChannel:
    """A feed."""

    title: str
    link: str
    description: str
    items: tuple[RssItem, ...] = ()


def rfc822_date(seconds: float) -> str:
    """Return a date in the format of feeds, e.g. ``Fri, 20 Nov 2026 00:00:00 GMT``; ``seconds`` of Unix time."""
    return formatdate(seconds, usegmt=True)


def write_rss(channel: RssChannel, *, built: float) -> bytes:
    """Write a feed; ``built`` is its Unix time of creation."""
    return (
        '<?xml version="1.0" encoding="UTF-8" ?>\n<rss version="2.0">\n<channel>\n'
        f"{scalars(channel, 'title link description')}"
        f"{scalar('lastBuildDate', rfc822_date(built))}"
        f"{_feed_items(channel.items)}</channel>\n</rss>\n"
    ).encode()


def _feed_items(items: Iterable[RssItem]) -> str:
    return "".join(
        "<item>\n"
        f"{title('title', item.title)}"
        f"{scalar('link', item.link) if item.link else ''}"
        f'<guid isPermaLink="false">{scalar("guid", item.guid)[6:]}'
        f"{scalar('pubDate', rfc822_date(item.published))}"
        f"<description>{html_text(item.description)}</description>\n"
        "</item>\n"
        for item in items
    )


def read_rss(body: bytes) -> tuple[RssItem, ...]:
    """Read the items of a feed, those without title and text left out; an item without a date has the time 0.

    Raises RemoteProtocolError for what is no feed, or is too large to be one.
    """
    root = read_tree(body, "channel", _VERBATIM, max_bytes=MAX_FEED_BYTES)
    notes: list[Lenience] = []
    items = (_item(node, notes) for node in list(root.all("item"))[:MAX_ITEMS])
    return tuple(item for item in items if item.title or item.description)


def _item(node: Node, notes: list[Lenience]) -> RssItem:
    link = _text(node, "link", MAX_LINK, notes)
    return RssItem(
        title=_text(node, "title", MAX_TITLE, notes),
        guid=_text(node, "guid", MAX_LINK, notes),
        published=_date(_text(node, "pubDate", MAX_DATE, notes)),
        description=_text(node, "description", MAX_DESCRIPTION, notes),
        link=link if link.startswith(("http://", "https://")) else "",
    )


def _text(node: Node, tag: str, limit: int, notes: list[Lenience]) -> str:
    text = unescape(decode(node.inner(tag).text[: 8 * limit], tag, notes))
    return printable(text).strip()[:limit]


def _date(text: str) -> float:
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp())
    except (ValueError, TypeError, OverflowError, OSError):
        return 0.0
