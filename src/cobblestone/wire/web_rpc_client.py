"""What a client asks of a project before it belongs to it: configuration, account, and where the scheduler is.

The other side of `account` and `project_pages`; the requests are plain GETs.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from urllib.parse import quote_plus, urlencode, urlsplit

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.account import ERROR_MESSAGES, WebRpcError
from cobblestone.wire.lenience import Lenience
from cobblestone.wire.project_pages import PlatformEntry, ProjectConfig
from cobblestone.wire.tag_tree import read_tree

MAX_PAGE = 4 * 1024 * 1024
MAX_SCHEDULERS = 20
MAX_URL = 255
WEAK_KEY = re.compile(r"\d{1,18}_[0-9a-fA-F]{32}")
_SCHEDULER = re.compile(
    r"<scheduler>\s*([^<\s]{1,512})\s*</scheduler>"
    r"|<link\s+rel=[\"']boinc_scheduler[\"']\s+href=[\"']([^\"'\s]{1,512})[\"']",
    re.IGNORECASE,
)


class WebRpcRefused(RemoteProtocolError):
    """A project refused a web RPC; ``number`` is the family's."""

    def __init__(self, number: int, text: str) -> None:
        known = {int(error): message for error, message in ERROR_MESSAGES.items()}
        super().__init__(known.get(number) or text or f"The project answered with error {number}")
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
    except ValueError:
        parts = urlsplit("")
    legal = all("!" <= character <= "~" and character not in "<>\"'\\" for character in url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or not legal or len(url) > MAX_URL:
        raise RemoteProtocolError(f"{text[:80]!r} is no address of a project: expected https://host/path/")
    path = parts.path if parts.path.endswith("/") else f"{parts.path}/"
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{path}"


def folder_of(master_url: str) -> str:
    """Return the name of a project's folder and files: the address without scheme, other characters as ``_``."""
    bare = re.sub(r"^https?://", "", master_url).strip("/")
    return re.sub(r"[^A-Za-z0-9._-]", "_", bare).lstrip(".")[:200] or "project"


def project_config_url(url: str) -> str:
    """Where a project describes itself."""
    return f"{url}get_project_config.php"


def lookup_account_hash_url(base: str, email: str, hashed: str) -> str:
    """Ask for the key of an account, by the hash of password and address."""
    return f"{base}lookup_account.php?email_addr={quote_plus(email)}&passwd_hash={quote_plus(hashed)}"


def create_account_url(
    base: str, email: str, hashed: str, user_name: str, team_name: str = "", *, consent: bool
) -> str:
    """Ask for a new account."""
    team = f"&team_name={quote_plus(team_name)}" if team_name else ""
    agreed = "&consent_flag=1&source=BOINC" if consent else ""
    return (
        f"{base}create_account.php?email_addr={quote_plus(email)}&passwd_hash={quote_plus(hashed)}"
        f"&user_name={quote_plus(user_name)}{team}{agreed}"
    )


def account_info_url(base: str, authenticator: str) -> str:
    """Ask for what a project keeps of an account."""
    return f"{base}am_get_info.php?account_key={quote_plus(authenticator)}"


def set_account_url(base: str, authenticator: str, said: Mapping[str, str]) -> str:
    """Say something of an account."""
    return f"{base}am_set_info.php?{urlencode({'account_key': authenticator, **said})}"


def parse_account_set(body: bytes) -> None:
    """Read the answer to what was said of an account.

    Raises:
        WebRpcRefused: the project says no.
        RemoteProtocolError: the answer is of another kind, such as a page.
    """
    _raise_for_error(body)
    if not read_tree(body, "am_set_info_reply", max_bytes=MAX_PAGE).has("success"):
        raise RemoteProtocolError("the project's answer does not say that it was done")


def parse_weak_key(body: bytes) -> str:
    """Return the weak key in what a project keeps of an account.

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
    raise WebRpcRefused(number, html.unescape(text[1].decode("utf-8", "replace")).strip() if text else "")


def parse_project_config(body: bytes) -> ProjectConfig:
    """Read the answer to ``get_project_config.php``.  Raises RemoteProtocolError."""
    _raise_for_error(body)
    root = read_tree(body, "project_config", ("terms_of_use",), max_bytes=MAX_PAGE)
    notes: list[Lenience] = []
    top = root.reader(notes)
    platforms = root.find("platforms")
    readers = [node.reader(notes) for node in platforms.all("platform")][:500] if platforms else []
    terms = root.find("terms_of_use")
    return ProjectConfig(
        name=top.text("name", 255),
        master_url=top.text("master_url", MAX_URL).strip(),
        web_rpc_url_base=top.text("web_rpc_url_base", MAX_URL).strip(),
        server_version=top.text("server_version", 64),
        account_manager=root.has("account_manager"),
        web_stopped=_set(top.fields, "web_stopped"),
        sched_stopped=_set(top.fields, "sched_stopped"),
        min_passwd_length=top.integer("min_passwd_length", 6, 0, 255),
        uses_username=_set(top.fields, "uses_username"),
        account_creation_disabled=_set(top.fields, "account_creation_disabled"),
        client_account_creation_disabled=_set(top.fields, "client_account_creation_disabled"),
        min_client_version=top.integer("min_client_version"),
        terms_of_use=html.unescape(terms.text.encode("latin-1").decode("utf-8", "replace"))[:65536]
        if terms
        else "",
        platforms=tuple(
            PlatformEntry(
                platform_name=each.text("platform_name", 255),
                user_friendly_name=each.text("user_friendly_name", 255),
                plan_class=each.text("plan_class", 255),
            )
            for each in readers
        ),
    )


def _set(fields: dict[str, str], name: str) -> bool:
    return fields.get(name, "0") not in ("0", "")


def scheduler_urls(page: bytes) -> tuple[str, ...]:
    """Addresses of the scheduler that a project's front page states, without repetitions."""
    text = page[:MAX_PAGE].decode("utf-8", "replace")
    found = (html.unescape(one or other) for one, other in _SCHEDULER.findall(text))
    urls = (url for url in found if url.lower().startswith(("http://", "https://")))
    return tuple(dict.fromkeys(urls))[:MAX_SCHEDULERS]
