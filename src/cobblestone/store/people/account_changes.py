"""Changes of an account by its owner: settings, password, address, second factor, and deletion."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.errors import Conflict
from cobblestone.domain.people import User
from cobblestone.domain.values import TeamId, UserId
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.people import consents, credentials
from cobblestone.store.people.credentials import Purpose
from cobblestone.store.people.users import USERS

ERASED_NAME = "deleted"


@dataclass(frozen=True, slots=True)
class Secrets:
    """The credentials of an account."""

    passwd_hash: str
    totp_secret: str  #: sealed; empty: no second factor
    totp_step: int  #: the last one-time password that was used


_SECRETS = RowMapper(Secrets)


def secrets_of(db: Database, user_id: UserId) -> Secrets | None:
    """Return the credentials of an account, or None."""
    return db.first(_SECRETS, "user_account WHERE id = ? AND erased_time IS NULL", (user_id,))


#: What the owner of an account says of himself.
PROFILE = ("name", "country", "url", "language", "show_hosts", "send_email")
_PROFILE = USERS.writer(only=PROFILE)


def set_profile(tx: Transaction, user: User) -> None:
    """Store an account's profile."""
    tx.execute(_PROFILE.update("user_account"), (*_PROFILE.values(user), user.id))


def end_sessions(tx: Transaction, user_id: UserId) -> None:
    """Log the user out everywhere; log-in links become invalid, too."""
    tx.execute("UPDATE user_account SET session_epoch = session_epoch + 1 WHERE id = ?", (user_id,))
    credentials.drop_codes(tx, user_id, Purpose.LOG_IN)


def set_password(tx: Transaction, user_id: UserId, passwd_hash: str) -> None:
    """Store a new password hash; all sessions end, and earlier links for a new password or address become invalid."""
    tx.change("user_account", user_id, passwd_hash=passwd_hash)
    end_sessions(tx, user_id)
    credentials.drop_codes(tx, user_id, Purpose.RESET_PASSWORD, Purpose.CHANGE_EMAIL)


def set_keys(tx: Transaction, user_id: UserId, *, authenticator: str, weak_authenticator: str) -> None:
    """Store new account keys: computers must be attached again.  All sessions end."""
    tx.change("user_account", user_id, authenticator=authenticator, weak_authenticator=weak_authenticator)
    credentials.drop_codes(tx, user_id, Purpose.ATTACH)
    end_sessions(tx, user_id)


def set_email_verified(tx: Transaction, user_id: UserId, *, now: float) -> None:
    """Record that a link sent to the account's address was opened."""
    tx.execute(
        "UPDATE user_account SET email_verified_time = ? WHERE id = ? AND email_verified_time IS NULL",
        (now, user_id),
    )


def set_email(tx: Transaction, user_id: UserId, *, email_addr: str, passwd_hash: str, now: float) -> None:
    """Store a new, confirmed address with its password hash; all sessions end.

    Raises:
        Conflict: another account has the address.
    """
    other = tx.value("SELECT id FROM user_account WHERE email_addr = ?", (email_addr,))
    if other is not None and other != user_id:
        raise Conflict(f"There is already an account for {email_addr}.")
    tx.change(
        "user_account", user_id, email_addr=email_addr, passwd_hash=passwd_hash, email_verified_time=now
    )
    end_sessions(tx, user_id)
    credentials.drop_codes(tx, user_id, Purpose.RESET_PASSWORD, Purpose.CHANGE_EMAIL, Purpose.CONFIRM_EMAIL)


def set_second_factor(tx: Transaction, user_id: UserId, sealed: str, *, step: int) -> None:
    """Store the sealed secret of one-time passwords (empty: none), and the last one used."""
    tx.change("user_account", user_id, totp_secret=sealed, totp_step=step)


def use_step(tx: Transaction, user_id: UserId, step: int) -> bool:
    """Record the use of a one-time password; return False if it, or a later one, was used before."""
    changed = tx.execute(
        "UPDATE user_account SET totp_step = ? WHERE id = ? AND totp_step < ?", (step, user_id, step)
    )
    return changed == 1


def set_project_preferences(tx: Transaction, user_id: UserId, text: str) -> None:
    """Store project preferences (BOINC's element)."""
    tx.change("user_account", user_id, project_prefs=text)


# -- the end of an account -------------------------------------------------------------------------------


def ask_to_erase(tx: Transaction, user_id: UserId, erase_time: float | None) -> None:
    """Set (None: cancel) the time when an account will be erased; sessions end when it is set."""
    tx.execute(
        "UPDATE user_account SET erase_time = ? WHERE id = ? AND erased_time IS NULL", (erase_time, user_id)
    )
    if erase_time is not None:
        end_sessions(tx, user_id)


def due_to_erase(db: Database, *, now: float, limit: int = 20) -> list[UserId]:
    """Return accounts due to be erased."""
    rows = db.query(
        "SELECT id FROM user_account WHERE erase_time IS NOT NULL AND erased_time IS NULL AND erase_time <= ?"
        " ORDER BY erase_time LIMIT ?",
        (now, limit),
    )
    return [UserId(row[0]) for row in rows]


def erase(tx: Transaction, user_id: UserId, *, key: str, now: float) -> None:
    """Remove all personal data of an account and its computers.

    Credit stays: in the totals of teams and apps, and in the ledger under the account's number.  ``key`` is a fresh random text:
    the account's keys become unknown values.  Statistics sites that got the account are told to forget it.
    """
    consents.announce_user(tx, user_id, now=now)
    team_id = tx.value("SELECT team_id FROM user_account WHERE id = ?", (user_id,))
    if team_id is not None:
        leave_team(tx, user_id, TeamId(team_id))
    whose = "recipient = (SELECT email_addr FROM user_account WHERE id = ?)"
    # The others are on their way.
    tx.execute(f"DELETE FROM mail WHERE sent_time IS NOT NULL AND {whose}", (user_id,))
    tx.execute(
        "UPDATE user_account SET name = ?, email_addr = ?, authenticator = ?, weak_authenticator = ?, passwd_hash = '',"
        " cross_project_id = '', country = '', url = '', venue = '', global_prefs = '', project_prefs = '', language = '',"
        " show_hosts = 0, send_email = 0, totp_secret = '', email_verified_time = NULL, erased_time = ? WHERE id = ?",
        (ERASED_NAME, f"erased-{user_id}", key, f"{user_id}_{key}", now, user_id),
    )
    end_sessions(tx, user_id)
    tx.execute(
        "UPDATE host SET domain_name = '', label = '', external_ip_addr = '', host_cpid = '', description = '{}', hidden = 1,"
        " removed_time = ? WHERE user_id = ?",
        (now, user_id),
    )
    # Programs write names of folders, and so of people, to their standard error output.
    tx.execute(
        "UPDATE result_text SET stderr = NULL, report = '{}' WHERE result_id IN (SELECT id FROM result WHERE user_id = ?)",
        (user_id,),
    )
    for table in ("one_time_code", "api_token", "profile", "team_message"):
        tx.execute(f"DELETE FROM {table} WHERE user_id = ?", (user_id,))
    tx.execute("UPDATE kept_file SET network = '' WHERE user_id = ?", (user_id,))
    for table in ("badge_owner", "milestone"):
        tx.execute(f"DELETE FROM {table} WHERE owner = 'user' AND owner_id = ?", (user_id,))


def leave_team(tx: Transaction, user_id: UserId, team_id: TeamId) -> None:
    """Remove a user from a team.  A leaving founder hands the team to the member with the most credit, if there is one."""
    tx.execute("UPDATE user_account SET team_id = NULL WHERE id = ? AND team_id = ?", (user_id, team_id))
    heir = tx.value(
        "SELECT id FROM user_account WHERE team_id = (SELECT id FROM team WHERE id = ? AND founder_id = ?)"
        " AND erased_time IS NULL ORDER BY total_credit DESC, id LIMIT 1",
        (team_id, user_id),
    )
    tx.execute("UPDATE team SET founder_id = ? WHERE id = ? AND founder_id = ?", (heir, team_id, user_id))
