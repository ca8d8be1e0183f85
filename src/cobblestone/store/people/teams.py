"""Teams: search, editing by founders, and their messages to members."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.errors import Conflict, NotAllowed, NotFound
from cobblestone.domain.people import Team, TeamType
from cobblestone.domain.values import TeamId, UserId
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.people import account_changes, users

MAX_FOUND = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamRow:
    """A team with the number of its members."""

    team: Team
    n_members: int


def count_members(db: Database, team_id: int) -> int:
    """Return how many users a team has."""
    return int(db.value("SELECT count(*) FROM user_account WHERE team_id = ?", (team_id,)))


def find_teams(db: Database, words: str) -> list[TeamRow]:
    """Return teams whose name contains ``words`` (any case), most recent credit first."""
    pattern = words.strip().lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    rows = db.query(
        "SELECT id FROM team WHERE name_lc LIKE ? ESCAPE '\\' ORDER BY expavg_credit DESC LIMIT ?",
        (f"%{pattern}%", MAX_FOUND),
    )
    return rows_of(db, [row[0] for row in rows])


def rows_of(db: Database, team_ids: list[int]) -> list[TeamRow]:
    """Return several teams with the number of their members."""
    found = (users.team_by_id(db, TeamId(team_id)) for team_id in team_ids)
    return [TeamRow(team=team, n_members=count_members(db, team.id)) for team in found if team is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamProfile:
    """How a founder describes a team."""

    name: str
    type: TeamType = TeamType.CLUB
    name_html: str = ""
    description: str = ""
    url: str = ""
    country: str = ""


_PROFILE = RowMapper(TeamProfile).writer()


def update_team(tx: Transaction, team_id: TeamId, profile: TeamProfile, *, joinable: bool) -> None:
    """Store a founder's description of a team.

    Raises:
        Conflict: another team has the name.
    """
    other = users.team_by_name(tx, profile.name)
    if other is not None and other.id != team_id:
        raise Conflict(f"There is already a team called {profile.name}.")
    tx.execute(_PROFILE.update("team"), (*_PROFILE.values(profile), team_id))
    tx.change("team", team_id, name_lc=profile.name.lower(), joinable=int(joinable))


def join(tx: Transaction, user_id: UserId, team_id: TeamId) -> None:
    """Add a user to an open team; the user leaves another one first.

    Raises:
        NotFound: there is no such team or user.
        Conflict: the team takes no members.
    """
    team, user = users.team_by_id(tx, team_id), users.user_by_id(tx, user_id)
    if team is None or user is None:
        raise NotFound(f"There is no team {team_id}.")
    if user.team_id == team_id:
        return
    if not team.joinable:
        raise Conflict(f"{team.name} does not accept new members.")
    if user.team_id is not None:
        account_changes.leave_team(tx, user_id, user.team_id)
    users.join_team(tx, user_id, team_id)
    if not team.founder_id:  # all had left
        tx.execute("UPDATE team SET founder_id = ? WHERE id = ? AND founder_id IS NULL", (user_id, team_id))


def hand_over(tx: Transaction, team_id: TeamId, founder_id: UserId, heir_id: UserId) -> None:
    """Make another member the founder.

    Raises:
        NotFound: the heir is no member.
        Conflict: who hands over is not the founder (any more).
    """
    heir = users.user_by_id(tx, heir_id)
    if heir is None or heir.team_id != team_id:
        raise NotFound(f"User {heir_id} is not in the team.")
    changed = tx.execute(
        "UPDATE team SET founder_id = ? WHERE id = ? AND founder_id = ?", (heir_id, team_id, founder_id)
    )
    if changed == 0:
        raise Conflict("Only the founder can hand over a team.")


def found_team(tx: Transaction, founder_id: UserId, profile: TeamProfile, *, now: float) -> Team:
    """Create a team; its founder leaves another team first.

    Raises:
        Conflict: the name is taken.
        NotAllowed: the last team of this founder is less than a day old.
    """
    last = tx.value("SELECT max(create_time) FROM team WHERE founder_id = ?", (founder_id,))
    if last is not None and now < last + PAUSE_SECONDS:
        raise NotAllowed("A person founds one team a day.")
    founder = users.user_by_id(tx, founder_id)
    if founder is not None and founder.team_id is not None:
        account_changes.leave_team(tx, founder_id, founder.team_id)
    team = users.create_team(tx, profile.name, founder_id, now=now)
    update_team(tx, team.id, profile, joinable=True)
    return team


#: A team gets at most one message in this time, and a person founds at most one team.
PAUSE_SECONDS = 86400.0
#: Of each team the newest so many are kept.
KEPT_MESSAGES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamMessage:
    """A message; its text is Markdown."""

    id: int
    team_id: TeamId
    user_id: UserId  #: who wrote it
    title: str
    text: str
    time: float  #: Unix seconds


_MESSAGES = RowMapper(TeamMessage)


def messages_of(db: Database, team_id: int, *, since: float = 0.0, limit: int = 5) -> list[TeamMessage]:
    """Return the newest messages of a team, newest first."""
    return db.load(
        _MESSAGES,
        "team_message WHERE team_id = ? AND time >= ? AND title <> '' ORDER BY id DESC LIMIT ?",
        (team_id, since, limit),
    )


def next_message_time(db: Database, team_id: int) -> float:
    """Return the time from which the next message can be sent (Unix seconds)."""
    last = db.value("SELECT max(time) FROM team_message WHERE team_id = ?", (team_id,))
    return 0.0 if last is None else float(last) + PAUSE_SECONDS


def send_message(
    tx: Transaction, team_id: TeamId, founder: UserId, *, title: str, text: str, now: float
) -> bool:
    """Send a message to the members of a team; return False if the last message is too recent.

    Raises:
        Conflict: another user is the founder by now.
    """
    tx.lock("team", [team_id])
    if tx.value("SELECT founder_id FROM team WHERE id = ?", (team_id,)) != founder:
        raise Conflict("Only the founder can write to a team.")
    if now < next_message_time(tx, team_id):
        return False
    tx.insert(
        "INSERT INTO team_message (team_id, user_id, title, text, time) VALUES (?, ?, ?, ?, ?)",
        (team_id, founder, title, text, now),
    )
    tx.execute(
        "DELETE FROM team_message WHERE team_id = ? AND id NOT IN"
        " (SELECT id FROM team_message WHERE team_id = ? ORDER BY id DESC LIMIT ?)",
        (team_id, team_id, KEPT_MESSAGES),
    )
    return True


def withdraw_message(tx: Transaction, team_id: TeamId, message_id: int) -> TeamMessage:
    """Withdraw a message; it still counts for the waiting time.  Return what it was.

    Raises:
        NotFound: the team has no such message.
    """
    found = tx.first(_MESSAGES, "team_message WHERE id = ? AND team_id = ?", (message_id, team_id))
    if found is None or not found.title:
        raise NotFound(f"Team {team_id} has no message {message_id}.")
    tx.execute("UPDATE team_message SET title = '', text = '' WHERE id = ?", (message_id,))
    return found


def wants_messages(db: Database, user_id: int) -> bool:
    """Return whether a member wants to see them."""
    return bool(db.value("SELECT team_messages FROM user_account WHERE id = ?", (user_id,)))


def set_wants_messages(tx: Transaction, user_id: UserId, wish: bool) -> None:
    """Store whether a member wants to see messages."""
    tx.change("user_account", user_id, team_messages=int(wish))
