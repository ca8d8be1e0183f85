"""Web RPCs for accounts: GET requests, the answers, and the names and hashes in them.

Names and hashes that the family derives from accounts, computers and files.  MD5 throughout, by its protocol.

None of these is a secret-keeping function: store passwords under a slow salted hash *of* the `passwd_hash`.

Web RPCs for accounts: what clients, managers and account managers ask for over GET, and the answers.

Source: BOINC's wire protocol as seen with client 7.20.5; ``html/user/*.php`` for what only account managers call
(facts only).  A failure is answered with HTTP status 200 and a number from `WebRpcError`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Annotated
from urllib.parse import parse_qsl, quote_plus

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.exports import ExportedUser
from cobblestone.domain.people import Team
from cobblestone.domain.values import value
from cobblestone.wire.text.table import Amount, Count, FieldTable, Flag, Inside, Marked, Number, Text, Whole
from cobblestone.wire.text.writer import decimal, one_line, printable, scalar, scalars, whole

#: Hashes that are kept: every reply to a client says two, and most people's computers ask again.
KEPT = 2048


def md5_hex(text: str | bytes) -> str:
    """Return the MD5 in lower-case hex; texts as UTF-8."""
    data = text.encode() if isinstance(text, str) else text
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def fanout_directory(file_name: str, fanout: int) -> str:
    """Return the directory of a file below the download or upload root; empty when ``fanout`` is 0 (a flat root).

    The digits 2 to 8 of the name's MD5 as a number, modulo ``fanout``, in hex (BOINC's ``filename_hash``).
    """
    if fanout <= 0:
        return ""
    return f"{int(md5_hex(file_name)[1:8], 16) % fanout:x}"


def passwd_hash(password: str, email_addr: str) -> str:
    """Return the hash that clients send instead of a password: MD5 of password and lower-case e-mail address."""
    return md5_hex(password + email_addr.lower())


def weak_authenticator(user_id: int, authenticator: str, secret: str) -> str:
    """Return a key that lets a computer work for an account, but not change it.

    BOINC takes the stored password hash as ``secret``.  A random secret for each account is better: it does not
    change when the hash is stored in another way.
    """
    return f"{user_id}_{md5_hex(authenticator + secret)}"


@lru_cache(KEPT)
def email_hash(email_addr: str) -> str:
    """Return the key by which clients match accounts of one person on several projects."""
    return md5_hex(email_addr.lower())


@lru_cache(KEPT)
def external_cpid(cross_project_id: str, email_addr: str) -> str:
    """Return the cross-project id that is shown and exported: MD5 of the internal one and the e-mail address."""
    return md5_hex(cross_project_id + email_addr)


MAX_QUERY = 8192
MAX_QUERY_FIELDS = 40
MAX_EMAIL = 254
MAX_USER_NAME = 254
#: In one answer, as in the family.
MAX_TEAMS = 100

_DECLARATION = '<?xml version="1.0" encoding="UTF-8" ?>\n'
_EMAIL = re.compile(r"[^\s@<>\",;:\\]{1,64}@[^\s@<>\"',;:\\.]+(?:\.[^\s@<>\"',;:\\.]+)+")
#: A character that leaves something to click on: Python counts fillers, blanks and selectors of variants as printable, too.
_VISIBLE = re.compile("[^\\s\u034f\u115f\u1160\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_HASH = re.compile(r"[0-9a-f]{32}")
_CONTROLS = dict.fromkeys((*range(0x20), 0x7F))
_CONTROLS_OF_TEXTS = {code: None for code in _CONTROLS if code != ord("\n")}


class WebRpcError(IntEnum):
    """Failures of web RPCs, with BOINC's numbers; clients show their own text for each."""

    GENERIC = -1
    XML = -112
    NOT_FOUND = -136
    NOT_UNIQUE = -137
    NO_DATABASE = -138
    PROJECT_DOWN = -183
    BAD_USER_NAME = -188
    BAD_EMAIL_ADDR = -205
    BAD_PASSWD = -206
    ACCOUNT_CREATION_DISABLED = -208
    CONSENT_REQUIRED = -242


ERROR_MESSAGES: Mapping[int, str] = {
    WebRpcError.GENERIC: "The request failed",
    WebRpcError.XML: "The request could not be read",
    WebRpcError.NOT_FOUND: "There is no such account",
    WebRpcError.NOT_UNIQUE: "There is already an account with that email address",
    WebRpcError.NO_DATABASE: "The database cannot be reached, try again later",
    WebRpcError.PROJECT_DOWN: "The project is down for maintenance, try again later",
    WebRpcError.BAD_USER_NAME: "That user name cannot be used",
    WebRpcError.BAD_EMAIL_ADDR: "That is not a valid email address",
    WebRpcError.BAD_PASSWD: "Wrong password",
    WebRpcError.ACCOUNT_CREATION_DISABLED: "This project does not accept new accounts this way",
    WebRpcError.CONSENT_REQUIRED: "The terms of use must be agreed to",
}


class WebRpcFailure(RemoteProtocolError):
    """A web RPC failed; answer with `write_web_rpc_error`."""

    def __init__(self, error: WebRpcError, message: str | None = None) -> None:
        text = message or ERROR_MESSAGES[error]
        super().__init__(text, reply_hint=text)
        self.error = error


# -- queries --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLookup:
    """A question for an account's authenticator."""

    email_addr: str  #: lower case
    passwd_hash: str | None  #: MD5 of password and lower-case e-mail address; None: does the account exist?


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCreation:
    """A request for a new account."""

    email_addr: str  #: lower case
    passwd_hash: str
    user_name: str
    team_name: str = ""
    invite_code: str = ""
    consent_flag: bool | None = None  #: whether the terms of use were agreed to; None: the caller did not say
    source: str = ""  #: name of the calling program


def parse_lookup_account(query: str) -> AccountLookup:
    """Read the query part of ``lookup_account.php``.  Raises WebRpcFailure."""
    fields = parse_web_query(query)
    if fields.get("ldap_auth") or fields.get("server_assigned_cookie"):
        raise WebRpcFailure(
            WebRpcError.GENERIC, "This project knows log-in by email address and password only"
        )
    email = _email(fields)
    passwd_hash = fields.get("passwd_hash", "").strip().lower()
    if passwd_hash and not _HASH.fullmatch(passwd_hash):
        raise WebRpcFailure(WebRpcError.BAD_PASSWD)
    return AccountLookup(email_addr=email, passwd_hash=passwd_hash or None)


def parse_create_account(query: str) -> AccountCreation:
    """Read the query part of ``create_account.php``.  Raises WebRpcFailure."""
    fields = parse_web_query(query)
    email = fields.get("email_addr", "").strip().lower()
    if not legal_email_addr(email):
        # Not the number for it: on that the Manager (7.20.5) waits for ever, while its memory grows.  It shows this text.
        raise WebRpcFailure(WebRpcError.GENERIC, ERROR_MESSAGES[WebRpcError.BAD_EMAIL_ADDR])
    passwd_hash = fields.get("passwd_hash", "").strip().lower()
    if not _HASH.fullmatch(passwd_hash):
        raise WebRpcFailure(WebRpcError.BAD_PASSWD, "passwd_hash must be an MD5 in 32 hexadecimal digits")
    # The Manager makes the name of what stands before the @, which may hold an apostrophe.
    user_name = fields.get("user_name", "").strip().replace("'", "’")
    problem = user_name_problem(user_name)
    if problem:
        raise WebRpcFailure(WebRpcError.BAD_USER_NAME, problem)
    consent = fields.get("consent_flag", "").strip()
    return AccountCreation(
        email_addr=email,
        passwd_hash=passwd_hash,
        user_name=user_name,
        team_name=one_line(fields.get("team_name", "")).strip()[:MAX_USER_NAME],
        invite_code=fields.get("invite_code", "").strip()[:MAX_USER_NAME],
        consent_flag=consent not in ("0", "false") if consent else None,
        source=one_line(fields.get("source", "")).strip()[:64],
    )


def parse_am_get_info(query: str) -> str:
    """Return the account's key in the query part of ``am_get_info.php``.  Raises WebRpcFailure."""
    key = parse_web_query(query).get("account_key", "").strip()
    if not re.fullmatch(r"[0-9A-Za-z_]{1,255}", key):
        raise WebRpcFailure(WebRpcError.NOT_FOUND)
    return key


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSetting:
    """The settings of an account by an account manager; None: unchanged.

    The family has the endpoint, and answers that it is not supported; what can be set here is this server's own.
    """

    account_key: str
    team_name: str | None = None
    cross_project_id: str | None = None  #: internal, 32 hexadecimal digits
    statistics: bool | None = None  #: whether statistics sites may get the account's name and credit


def parse_am_set_info(query: str) -> AccountSetting:
    """Read the query part of ``am_set_info.php``.  Raises WebRpcFailure, also for settings that are not allowed."""
    fields = parse_web_query(query)
    known = {"account_key", "team_name", "cross_project_id", "statistics"}
    if not fields.keys() <= known:
        raise WebRpcFailure(WebRpcError.GENERIC, "Only team_name, cross_project_id and statistics can be set")
    team, cpid, agreed = (fields.get(name) for name in ("team_name", "cross_project_id", "statistics"))
    if team is not None and len(team) > MAX_USER_NAME:
        raise WebRpcFailure(WebRpcError.GENERIC, "team_name is too long")
    if cpid is not None and not _HASH.fullmatch(cpid):
        raise WebRpcFailure(WebRpcError.GENERIC, "cross_project_id must have 32 hexadecimal digits")
    if agreed not in (None, "0", "1"):
        raise WebRpcFailure(WebRpcError.GENERIC, "statistics must be 0 or 1")
    return AccountSetting(
        account_key=parse_am_get_info(query),
        team_name=None if team is None else team.strip(),
        cross_project_id=cpid,
        statistics=None if agreed is None else agreed == "1",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginTokenQuery:
    """A request of a client that attaches automatically."""

    user_id: int
    token: str


def parse_login_token_lookup(query: str) -> LoginTokenQuery:
    """Read the query part of ``login_token_lookup.php``.  Raises WebRpcFailure."""
    fields = parse_web_query(query)
    user_id, token = fields.get("user_id", ""), fields.get("token", "")
    if not re.fullmatch(r"[0-9]{1,15}", user_id) or not re.fullmatch(r"[0-9A-Za-z]{1,64}", token):
        raise WebRpcFailure(WebRpcError.NOT_FOUND, "The token is wrong")
    return LoginTokenQuery(user_id=int(user_id), token=token)


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamLookup:
    """A question for teams: by number, or by a part of the name."""

    team_ids: tuple[int, ...] = ()
    name: str = ""
    single: bool = False  #: one team was asked for by its number, and stands alone in the answer


def parse_team_lookup(query: str) -> TeamLookup:
    """Read the query part of ``team_lookup.php``.  Raises WebRpcFailure."""
    fields = parse_web_query(query)
    text = fields.get("team_ids", "") or fields.get("team_id", "")
    if text.strip():
        found = [part.strip() for part in text.split(",")][:MAX_TEAMS]
        if not all(re.fullmatch(r"[0-9]{1,15}", part) for part in found):
            raise WebRpcFailure(WebRpcError.NOT_FOUND, "There is no team with that number")
        return TeamLookup(team_ids=tuple(map(int, found)), single="team_ids" not in fields)
    name = fields.get("team_name", "").strip()
    if not name or len(name) > MAX_USER_NAME:
        raise WebRpcFailure(WebRpcError.NOT_FOUND, "Give team_id, team_ids or team_name")
    return TeamLookup(name=name)


def parse_member_query(query: str) -> int:
    """Return the team of whose members ``team_email_list.php`` is asked.  Raises WebRpcFailure."""
    text = parse_web_query(query).get("teamid", "")
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise WebRpcFailure(WebRpcError.NOT_FOUND, "There is no team with that number")
    return int(text)


def parse_web_query(
    query: str,
    *,
    max_fields: int = MAX_QUERY_FIELDS,
    max_length: int = MAX_QUERY,
    long_fields: Collection[str] = (),
) -> dict[str, str]:
    """Return the fields of a URL's query part or of a form, the last of several; only ``long_fields`` may have several lines.

    Raises:
        WebRpcFailure: it is too long, or has too many fields.
    """
    if len(query) > max_length:
        raise WebRpcFailure(WebRpcError.GENERIC, "The request is too long")
    if 3 * query.count("%") > len(query):  # a character takes three; others cost ten times as much to read
        raise WebRpcFailure(WebRpcError.GENERIC, "The request is not encoded as an address")
    try:
        fields = parse_qsl(query, keep_blank_values=True, max_num_fields=max_fields)
    except ValueError:
        raise WebRpcFailure(WebRpcError.GENERIC, "The request has too many fields") from None
    return {
        name: value.translate(_CONTROLS_OF_TEXTS if name in long_fields else _CONTROLS)
        for name, value in fields
    }


def legal_email_addr(address: str) -> bool:
    """Return whether a text looks like an e-mail address; only a mail can verify it."""
    return len(address) <= MAX_EMAIL and _EMAIL.fullmatch(address) is not None


def user_name_problem(name: str) -> str:
    """Return the error in a user name, or the empty text."""
    if not name:
        return "The user name is empty"
    if len(name) > MAX_USER_NAME:
        return f"The user name has more than {MAX_USER_NAME} characters"
    if name != name.strip() or not name.isprintable() or not _VISIBLE.search(name):
        return "The user name has spaces at its ends, or characters that cannot be shown"
    if any(character in "<>&\"'" for character in name):
        return "The user name holds one of < > & \" '"
    if name.isdigit():
        return "The user name is a mere number"
    return ""


def _email(fields: Mapping[str, str]) -> str:
    email = fields.get("email_addr", "").strip().lower()
    if not email or len(email) > MAX_EMAIL:
        raise WebRpcFailure(WebRpcError.BAD_EMAIL_ADDR)
    return email


# -- replies --------------------------------------------------------------------------------------------


def write_account_out(authenticator: str) -> bytes:
    """Return the answer to a successful look-up or creation."""
    return f"{_DECLARATION}<account_out>\n{scalar('authenticator', authenticator)}</account_out>\n".encode()


def write_account_exists() -> bytes:
    """Return the answer to a look-up without password hash, for an existing account."""
    return f"{_DECLARATION}<account_out>\n<success/>\n</account_out>\n".encode()


def write_ownership_proof(master_url: str, message: str, signature: str) -> str:
    """Return the proof that a member brings to a third party; ``signature`` is in base 64."""
    inner = scalar("master_url", master_url) + scalar("msg", message) + scalar("signature", signature)
    return f"<account_ownership_verification>\n{inner}</account_ownership_verification>\n"


def write_login_token_reply(authenticator: str, *, user_name: str, team_name: str = "") -> bytes:
    """Return the answer to ``login_token_lookup.php``; the client shows both names until it has called the scheduler."""
    team = scalar("team_name", team_name, "    ") if team_name else ""
    return (
        f"{_DECLARATION}<login_token_reply>\n{scalar('authenticator', authenticator, '    ')}"
        f"{scalar('user_name', user_name, '    ')}{team}</login_token_reply>\n"
    ).encode()


def write_web_rpc_error(error: WebRpcError, message: str | None = None) -> bytes:
    """Return the answer to any web RPC that failed; to be sent with HTTP status 200."""
    return (
        f"{_DECLARATION}<error>\n    <error_num>{int(error)}</error_num>\n"
        f"{scalar('error_msg', message or ERROR_MESSAGES[error], '    ')}</error>\n"
    ).encode()


def _quoted(_: str, text: str) -> str:
    return quote_plus(printable(text))


Quoted = Annotated[str, Text(write=_quoted)]
Line = Annotated[str, Text()]
Id = Annotated[int, Whole(high=2**62)]
WholeTime = Annotated[float, Number(digits=0)]
Raw = Annotated[str, Inside()]
_IN = "    "


@value(kw_only=True)
class AccountInfo:
    """An account as ``am_get_info.php`` gives it to an account manager."""

    id: Annotated[int, Inside()]
    name: Quoted
    country: Quoted = ""
    weak_auth: Line = ""
    cpid: Line = ""  #: external
    has_profile: Flag = False
    create_time: WholeTime = 0.0
    global_prefs: Raw = ""  #: a whole ``<global_preferences>`` element, or empty
    project_prefs: Raw = ""  #: a whole ``<project_preferences>`` element, or empty
    url: Quoted = ""
    send_email: Flag = False
    show_hosts: Flag = False
    teamid: Id = 0
    venue: Line = ""
    teamfounder: Marked = False


_ACCOUNT_INFO = FieldTable(AccountInfo).layout(tag="am_get_info_reply", indent="")


def write_am_get_info_reply(account: AccountInfo) -> bytes:
    """Return the answer to ``am_get_info.php``; name, country and URL are percent-encoded, as callers expect."""
    reply = _ACCOUNT_INFO.write(
        account,
        id=f"{_IN}<success/>\n{scalar('id', account.id, _IN)}",
        global_prefs=f"<global_prefs>\n{account.global_prefs}\n</global_prefs>\n",
        project_prefs=f"<project_prefs>\n{account.project_prefs}\n</project_prefs>\n",
    )
    return f"{_DECLARATION}{reply}".encode()


def write_am_set_info_reply() -> bytes:
    """Return the answer to ``am_set_info.php`` when everything was set."""
    return f"{_DECLARATION}<am_set_info_reply>\n    <success/>\n</am_set_info_reply>\n".encode()


@value(kw_only=True)
class PublicHost:
    """A computer as ``show_user.php?format=xml`` shows it to its owner."""

    id: Id
    create_time: WholeTime = 0.0
    rpc_seqno: Count = 0
    host_cpid: Line = ""
    total_credit: Amount = 0.0
    expavg_credit: Amount = 0.0
    expavg_time: Amount = 0.0
    domain_name: Line = ""
    p_ncpus: Count = 1
    p_vendor: Line = ""
    p_model: Line = ""
    p_fpops: Amount = 0.0
    p_iops: Amount = 0.0
    os_name: Line = ""
    os_version: Line = ""
    venue: Line = ""


@value(kw_only=True)
class PublicUser:
    """An account as ``show_user.php?format=xml`` shows it to all."""

    id: Id
    cpid: Line  #: external
    create_time: WholeTime
    name: Line
    country: Line = ""
    total_credit: Amount = 0.0
    expavg_credit: Amount = 0.0
    expavg_time: Amount = 0.0
    teamid: Id = 0
    url: Line = ""
    has_profile: Flag = False
    venue: Raw = ""  #: written with the hosts only


_HOST = FieldTable(PublicHost).layout(tag="host", indent=" " * 8, outside=_IN)
_USER = FieldTable(PublicUser).layout(tag="user")


def write_user_xml(user: PublicUser, hosts: Iterable[PublicHost] | None = None) -> bytes:
    """Return the answer to ``show_user.php?format=xml``; hosts only for the account's owner."""
    own = ""
    if hosts is not None:
        own = scalar("venue", user.venue, _IN) + "".join(map(_HOST.write, hosts))
    return f"{_DECLARATION}{_USER.write(user, venue=own)}".encode()


def write_hosts_xml(hosts: Iterable[PublicHost]) -> bytes:
    """Return the answer to ``hosts_user.php?format=xml``."""
    return f"{_DECLARATION}<hosts>\n{''.join(map(_HOST.write, hosts))}</hosts>\n".encode()


def write_teams_xml(teams: Iterable[Team], *, single: bool = False) -> bytes:
    """Return the answer to ``team_lookup.php?format=xml``; ``single``: of one team, without the element around several."""
    items = "".join(map(_team_xml, teams))
    return f"{_DECLARATION}{items if single else f'<teams>{chr(10)}{items}</teams>{chr(10)}'}".encode()


def write_members_xml(members: Iterable[ExportedUser]) -> bytes:
    """Return the answer to ``team_email_list.php?xml=1``."""
    return f"{_DECLARATION}<users>\n{''.join(map(_member_xml, members))}</users>\n".encode()


def _member_xml(user: ExportedUser) -> str:
    credit, recent = user.credit, user.credit.recent
    return (
        f"<user>\n    <id>{user.id}</id>\n{scalar('cpid', user.cpid, '    ')}"
        f"    <total_credit>{decimal(credit.total)}</total_credit>\n"
        f"    <create_time>{whole(user.create_time)}</create_time>\n"
        f"{scalars(user, 'name country', '    ')}"
        f"    <expavg_credit>{decimal(recent.value)}</expavg_credit>\n"
        f"    <expavg_time>{decimal(recent.time)}</expavg_time>\n"
        f"{scalars(user, 'url has_profile', '    ')}</user>\n"
    )


def _team_xml(team: Team) -> str:
    credit = team.credit
    return (
        "<team>\n"
        f"    <id>{team.id}</id>\n"
        f"    <create_time>{whole(team.create_time)}</create_time>\n"
        f"    <userid>{team.founder_id}</userid>\n"
        f"{scalars(team, 'name url', '    ')}"
        f"    <type>{team.type:d}</type>\n"
        f"{scalar('country', team.country, '    ')}"
        f"    <total_credit>{decimal(credit.total)}</total_credit>\n"
        f"    <expavg_credit>{decimal(credit.recent.value)}</expavg_credit>\n"
        f"    <expavg_time>{decimal(credit.recent.time)}</expavg_time>\n"
        "</team>\n"
    )
