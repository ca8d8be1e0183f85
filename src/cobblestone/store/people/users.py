"""Users, their profiles and ended sessions, teams and news.

Sessions that were logged out before their time.

A session itself is a signed cookie (`cobblestone.service.pages.sessions`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.people import Team, User
from cobblestone.domain.values import TeamId, UserId
from cobblestone.store.averages import CREDIT
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

USERS = RowMapper(
    User,
    {
        "credit": CREDIT,
        "second_factor": "totp_secret <> ''",
        "erased": "erased_time IS NOT NULL",
        "email_verified": "email_verified_time IS NOT NULL",
    },
)
_TEAMS = RowMapper(Team, {"credit": CREDIT, "founder_id": "COALESCE(founder_id, 0)"})
_VANISHED = "A row vanished inside its own transaction."


def user_by_id(db: Database, user_id: UserId) -> User | None:
    """Return a user, or None."""
    return db.first(USERS, "user_account WHERE id = ?", (user_id,))


def user_by_authenticator(db: Database, authenticator: str) -> tuple[User, bool] | None:
    """Return the user of a strong or weak authenticator, and whether it was the weak one."""
    if not authenticator:
        return None
    weak = "_" in authenticator
    column = "weak_authenticator" if weak else "authenticator"
    found = db.first(USERS, f"user_account WHERE {column} = ?", (authenticator,))
    return None if found is None else (found, weak)


def user_by_email(db: Database, email_addr: str) -> tuple[User, str] | None:
    """Return the user of an e-mail address (any case), with the stored password hash."""
    row = db.one(
        f"SELECT {USERS.columns}, passwd_hash FROM user_account WHERE email_addr = ?", (email_addr.lower(),)
    )
    return None if row is None else (USERS.load(row), str(row[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUserRow:
    """The stored data of a new account."""

    name: str
    email_addr: str
    passwd_hash: str  #: strong hash of the family's MD5 of password and address
    authenticator: str
    cross_project_id: str
    country: str = ""
    team_name: str = ""
    show_hosts: bool = True  #: whether others see its computers and tasks


_NEW_USER = RowMapper(NewUserRow).writer(without=("team_name",))


def create_user(
    tx: Transaction, new: NewUserRow, *, weak_authenticator_of: Callable[[int], str], now: float
) -> User:
    """Create an account.  ``weak_authenticator_of`` makes the weak authenticator, which contains the id.

    Raises:
        Conflict: the address is taken.
    """
    if tx.value("SELECT 1 FROM user_account WHERE email_addr = ?", (new.email_addr.lower(),)):
        raise Conflict(f"There is already an account for {new.email_addr}.")
    new = replace(new, email_addr=new.email_addr.lower())
    user_id = tx.insert(
        _NEW_USER.insert("user_account", "weak_authenticator", "create_time", "expavg_time"),
        # the weak one is unique until the next statement sets it right
        (*_NEW_USER.values(new), new.authenticator, now, now),
    )
    tx.change("user_account", user_id, weak_authenticator=weak_authenticator_of(user_id))
    team = team_by_name(tx, new.team_name) if new.team_name else None
    if team is not None:
        join_team(tx, UserId(user_id), team.id)
    return tx.needed(USERS, "user_account WHERE id = ?", (user_id,), _VANISHED)


def adopt_cross_project_id(tx: Transaction, user_id: UserId, cross_project_id: str) -> None:
    """Take over an older cross-project id."""
    tx.change("user_account", user_id, cross_project_id=cross_project_id)


def global_preferences_time(db: Database, user_id: UserId) -> float:
    """Return when the stored computing preferences were changed, Unix seconds."""
    return float(db.value("SELECT global_prefs_time FROM user_account WHERE id = ?", (user_id,)) or 0)


def set_global_preferences(tx: Transaction, user_id: UserId, text: str, mod_time: float) -> None:
    """Store computing preferences (BOINC's element, verbatim)."""
    tx.change("user_account", user_id, global_prefs=text, global_prefs_time=mod_time)


def team_by_id(db: Database, team_id: TeamId) -> Team | None:
    """Return a team, or None."""
    return db.first(_TEAMS, "team WHERE id = ?", (team_id,))


def team_by_name(db: Database, name: str) -> Team | None:
    """Return a team by its name (any case), or None."""
    return db.first(_TEAMS, "team WHERE name_lc = ?", (name.strip().lower(),))


def list_teams(db: Database, *, name: str | None, after: int) -> list[Team]:
    """Return at most 1000 teams with ids above ``after``, in their order; with a ``name``, the one that is called so."""
    where, values = ("id > ?", [after]) if name is None else ("name_lc = ?", [name.strip().lower()])
    return db.load(_TEAMS, f"team WHERE {where} ORDER BY id LIMIT 1000", values)


def create_team(tx: Transaction, name: str, founder_id: UserId, *, now: float) -> Team:
    """Create a team; its founder joins it.

    Raises:
        Conflict: the name is taken.
    """
    if team_by_name(tx, name) is not None:
        raise Conflict(f"There is already a team called {name}.")
    team_id = tx.insert(
        "INSERT INTO team (name, name_lc, founder_id, create_time, expavg_time) VALUES (?, ?, ?, ?, ?)",
        (name.strip(), name.strip().lower(), founder_id, now, now),
    )
    join_team(tx, founder_id, TeamId(team_id))
    return tx.needed(_TEAMS, "team WHERE id = ?", (team_id,), _VANISHED)


def join_team(tx: Transaction, user_id: UserId, team_id: TeamId | None) -> None:
    """Add a user to a team; None: leave.

    Raises:
        NotFound: there is no such user.
    """
    if not tx.change("user_account", user_id, team_id=team_id):
        raise NotFound(f"There is no user {user_id}.")


@dataclass(frozen=True, slots=True)
class NewsItem:
    """A news item; clients get it as a notice."""

    id: int
    title: str
    text: str
    time: float


_NEWS = RowMapper(NewsItem)
MAX_ID = 2**62


def add_news(tx: Transaction, title: str, text: str, *, now: float) -> int:
    """Publish a news item; return its id."""
    return tx.insert("INSERT INTO news (title, text, time) VALUES (?, ?, ?)", (title, text, now))


def set_news(tx: Transaction, news_id: int, title: str, text: str) -> NewsItem:
    """Change a news item; return what it was.  Raises NotFound."""
    before = news_item(tx, news_id)
    tx.change("news", news_id, title=title, text=text)
    return before


def withdraw_news(tx: Transaction, news_id: int) -> NewsItem:
    """Withdraw a news item; return what it was.  Its number is not reused.  Raises NotFound."""
    before = news_item(tx, news_id)
    tx.execute("DELETE FROM news WHERE id = ?", (news_id,))
    return before


def find_news(db: Database, news_id: int) -> NewsItem | None:
    """Return a news item, or None."""
    return db.first(_NEWS, "news WHERE id = ?", (news_id,))


def news_item(db: Database, news_id: int) -> NewsItem:
    """Return a news item.  Raises NotFound."""
    return db.needed(_NEWS, "news WHERE id = ?", (news_id,), f"There is no news {news_id}.")


def list_news(db: Database, *, limit: int = 20, before: int = MAX_ID) -> list[NewsItem]:
    """Return news with ids below ``before``, newest first."""
    return db.load(_NEWS, "news WHERE id < ? ORDER BY id DESC LIMIT ?", (before, limit))


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile."""

    text: str = ""  #: Markdown
    has_picture: bool = False
    searchable: bool = False  #: search engines may show the page
    time: float = 0.0  #: of the last change, Unix seconds


_PROFILES = RowMapper(Profile, {"has_picture": "picture IS NOT NULL"})


def profile_of(db: Database, user_id: int) -> Profile | None:
    """Return a user's profile, or None."""
    return db.first(_PROFILES, "profile WHERE user_id = ?", (user_id,))


def picture_of(db: Database, user_id: int) -> bytes | None:
    """Return a user's picture as re-encoded by us, or None."""
    found = db.value("SELECT picture FROM profile WHERE user_id = ?", (user_id,))
    return None if found is None else bytes(found)


def set_profile(tx: Transaction, user_id: UserId, *, text: str, searchable: bool, now: float) -> None:
    """Store a text; the picture is kept."""
    tx.execute(
        "INSERT INTO profile (user_id, text, searchable, time) VALUES (?, ?, ?, ?) ON CONFLICT (user_id)"
        " DO UPDATE SET text = excluded.text, searchable = excluded.searchable, time = excluded.time",
        (user_id, text, int(searchable), now),
    )


def set_picture(tx: Transaction, user_id: UserId, picture: bytes | None) -> None:
    """Store or remove the picture of an existing profile."""
    tx.execute("UPDATE profile SET picture = ? WHERE user_id = ?", (picture, user_id))


def remove_profile(tx: Transaction, user_id: UserId) -> None:
    """Forget text and picture."""
    tx.execute("DELETE FROM profile WHERE user_id = ?", (user_id,))


def user_of_session(db: Database, user_id: UserId, session_key: str) -> User | None:
    """Return the user of a session; None if there is none, or the session was logged out."""
    ended = db.one("SELECT 1 FROM ended_session WHERE session_hash = ?", (session_key,))
    return None if ended else user_by_id(db, user_id)


def end_session(tx: Transaction, session_key: str, *, expire_time: float) -> None:
    """Log one session out; ``expire_time`` (Unix seconds): when its cookie expires anyway."""
    tx.execute(
        "INSERT INTO ended_session (session_hash, expire_time) VALUES (?, ?) ON CONFLICT (session_hash) DO NOTHING",
        (session_key, expire_time),
    )
