"""What volunteers say of themselves: a text and a picture."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.ids import UserId
from cobblestone.store.engine.database import Database, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile."""

    text: str = ""  #: Markdown
    has_picture: bool = False
    searchable: bool = False  #: search engines may show the page
    time: float = 0.0  #: of the last change, Unix seconds


def profile_of(db: Database, user_id: int) -> Profile | None:
    """Return somebody's profile, or None."""
    row = db.one(
        "SELECT text, CASE WHEN picture IS NULL THEN 0 ELSE 1 END, searchable, time FROM profile WHERE user_id = ?",
        (user_id,),
    )
    if row is None:
        return None
    return Profile(text=row[0], has_picture=bool(row[1]), searchable=bool(row[2]), time=row[3])


def picture_of(db: Database, user_id: int) -> bytes | None:
    """Return somebody's picture as it was made by us, or None."""
    found = db.value("SELECT picture FROM profile WHERE user_id = ?", (user_id,))
    return None if found is None else bytes(found)


def set_profile(tx: Transaction, user_id: UserId, *, text: str, searchable: bool, now: float) -> None:
    """Store a text; a picture stays."""
    tx.execute(
        "INSERT INTO profile (user_id, text, searchable, time) VALUES (?, ?, ?, ?) ON CONFLICT (user_id)"
        " DO UPDATE SET text = excluded.text, searchable = excluded.searchable, time = excluded.time",
        (user_id, text, int(searchable), now),
    )


def set_picture(tx: Transaction, user_id: UserId, picture: bytes | None) -> None:
    """Store a picture, or take it away; there is a profile already."""
    tx.execute("UPDATE profile SET picture = ? WHERE user_id = ?", (picture, user_id))


def remove_profile(tx: Transaction, user_id: UserId) -> None:
    """Forget text and picture."""
    tx.execute("DELETE FROM profile WHERE user_id = ?", (user_id,))
