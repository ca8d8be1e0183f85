"""What founders tell the members of their teams."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.ids import TeamId, UserId
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

PAUSE_SECONDS = 86400.0
"""A team gets at most one message in this time."""
KEPT = 50
"""Of each team the newest so many are kept."""


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
    """Return the newest messages of a team, the newest first."""
    rows = db.query(
        f"SELECT {_MESSAGES.columns} FROM team_message WHERE team_id = ? AND time >= ? AND title <> '' ORDER BY id DESC LIMIT ?",
        (team_id, since, limit),
    )
    return [_MESSAGES.load(row) for row in rows]


def next_time(db: Database, team_id: int) -> float:
    """Return from when on the team can be written to (Unix seconds)."""
    last = db.value("SELECT max(time) FROM team_message WHERE team_id = ?", (team_id,))
    return 0.0 if last is None else float(last) + PAUSE_SECONDS


def send(tx: Transaction, team_id: TeamId, founder: UserId, *, title: str, text: str, now: float) -> bool:
    """Write to the members of a team; False: the last message is too young.

    Raises:
        Conflict: somebody else is the founder by now.
    """
    tx.lock("team", [team_id])
    if tx.value("SELECT founder_id FROM team WHERE id = ?", (team_id,)) != founder:
        raise Conflict("Only the founder writes to a team.")
    if now < next_time(tx, team_id):
        return False
    tx.insert(
        "INSERT INTO team_message (team_id, user_id, title, text, time) VALUES (?, ?, ?, ?, ?)",
        (team_id, founder, title, text, now),
    )
    tx.execute(
        "DELETE FROM team_message WHERE team_id = ? AND id NOT IN"
        " (SELECT id FROM team_message WHERE team_id = ? ORDER BY id DESC LIMIT ?)",
        (team_id, team_id, KEPT),
    )
    return True


def withdraw(tx: Transaction, team_id: TeamId, message_id: int) -> TeamMessage:
    """Take a message away; its place still counts for the pause.  Return what it was.

    Raises:
        NotFound: the team has no such message.
    """
    row = tx.one(
        f"SELECT {_MESSAGES.columns} FROM team_message WHERE id = ? AND team_id = ?", (message_id, team_id)
    )
    if row is None or not row[3]:
        raise NotFound(f"Team {team_id} has no message {message_id}.")
    tx.execute("UPDATE team_message SET title = '', text = '' WHERE id = ?", (message_id,))
    return _MESSAGES.load(row)


def wants_messages(db: Database, user_id: int) -> bool:
    """Return whether a member wants to be shown them."""
    return bool(db.value("SELECT team_messages FROM user_account WHERE id = ?", (user_id,)))


def set_wants_messages(tx: Transaction, user_id: UserId, wish: bool) -> None:
    """Note whether a member wants to be shown messages."""
    tx.execute("UPDATE user_account SET team_messages = ? WHERE id = ?", (int(wish), user_id))
