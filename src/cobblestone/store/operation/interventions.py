"""Changes by hand: cancel, retry, block, roles, merging of computers; and the search for objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from string import ascii_lowercase, ascii_uppercase
from typing import Literal

from cobblestone.api_schema.operation import Found
from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.people import OPERATOR, User
from cobblestone.domain.values import HostId, UserId, WorkunitId, form_of
from cobblestone.domain.work import ReplicationRules, Workunit, WorkunitError
from cobblestone.policy.lifecycle import states
from cobblestone.store.catalog import apps, kept_files
from cobblestone.store.credit import app_credit, contributions, ledger
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.operation.figures import RATE_WINDOW
from cobblestone.store.people import hosts, users
from cobblestone.store.people.hosts import has_work
from cobblestone.store.work import batches
from cobblestone.store.work import rows as work
from cobblestone.store.work.batches import BatchRow, NewJob
from cobblestone.store.work.steps import FOUND, IS_UNSENT, matching

MAX_FOUND = 20
_LIMITS = work.LIMITS.writer()
_RULES = RowMapper(ReplicationRules).writer()
_FAILED = matching(
    states.COULDNT_SEND, states.CLIENT_ERROR, states.NO_REPLY, states.VALIDATE_ERROR, states.CLIENT_DETACHED
)


# -- workunits and batches -----------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkunitState:
    """A workunit as an intervention sees it."""

    workunit: Workunit
    finished: bool
    n_failed: int  #: results that did not end well


def workunit_state(db: Database, workunit_id: int) -> WorkunitState:
    """Return a workunit.  Raises NotFound."""
    db.lock("workunit", [workunit_id])
    found = work.workunits(db, [workunit_id]).get(WorkunitId(workunit_id))
    if found is None:
        text = f"There is no workunit {workunit_id} here. Is it purged? See: cobblestone archive query"
        raise NotFound(text)
    finished = db.value("SELECT completed_seq IS NOT NULL FROM workunit WHERE id = ?", (workunit_id,))
    failed = db.value(f"SELECT COUNT(*) FROM result WHERE workunit_id = ? AND {_FAILED}", (workunit_id,))
    return WorkunitState(workunit=found, finished=bool(finished), n_failed=int(failed))


def cancel_workunit(tx: Transaction, workunit_id: int, *, now: float) -> None:
    """Cancel a workunit that has no answer yet.

    Raises:
        NotFound: there is none.
        Conflict: it is finished.
    """
    state = workunit_state(tx, workunit_id)
    if state.finished or state.workunit.canonical_result_id is not None or state.workunit.error_mask:
        raise Conflict(f"Workunit {workunit_id} is already finished; there is nothing to cancel.")
    batches.cancel_workunits(tx, [workunit_id], now=now)


def give_another_chance(tx: Transaction, workunit_id: int, *, now: float) -> int:
    """Allow an unfinished workunit as many more failures as it has had, and schedule the transitioner; return how many.

    Raises:
        NotFound: there is none.
        Conflict: it is finished.
    """
    state = workunit_state(tx, workunit_id)
    if state.finished:
        raise Conflict(f"Workunit {workunit_id} is finished.")
    tx.execute(
        "UPDATE workunit SET max_error_results = max_error_results + ?, max_total_results = max_total_results + ?,"
        " transition_time = ? WHERE id = ?",
        (state.n_failed, state.n_failed, now, workunit_id),
    )
    tx.wake("transitioner")
    return state.n_failed


def change_workunit(tx: Transaction, before: Workunit, after: Workunit, *, now: float) -> None:
    """Store priority, limits and rules of a workunit, and have transitioner and scheduler check them."""
    tx.execute(_LIMITS.update("workunit"), (*_LIMITS.values(after.limits), after.id))
    tx.execute(_RULES.update("workunit"), (*_RULES.values(after.rules), after.id))
    tx.change("workunit", after.id, priority=after.priority, transition_time=now)
    tx.execute(  # retries may stand above their workunit
        f"UPDATE result SET priority = priority + ? WHERE workunit_id = ? AND {FOUND}{IS_UNSENT}",
        (after.priority - before.priority, after.id),
    )
    tx.wake("transitioner", "candidates")


def failed_workunits(db: Database, batch_id: int, *, after: int, limit: int) -> list[int]:
    """Return ids of a batch's finished workunits without an answer, greater than ``after``."""
    rows = db.query(
        "SELECT id FROM workunit WHERE batch_id = ? AND id > ? AND completed_seq IS NOT NULL AND error_mask <> 0"
        " ORDER BY id LIMIT ?",
        (batch_id, after, limit),
    )
    return [row[0] for row in rows]


def copy_jobs(tx: Transaction, batch: BatchRow, workunit_ids: Sequence[int], *, now: float) -> BatchRow:
    """Add the jobs of finished workunits to an open batch, to be computed again.

    Raises:
        NotFound: an input file is gone; the text names it.
    """
    found = work.workunits(tx, workunit_ids)
    labels = dict(tx.query_in("SELECT id, label FROM workunit WHERE id IN (??)", workunit_ids))
    jobs = [
        form_of(NewJob, workunit, label=labels[workunit.id], priority=workunit.priority - batch.priority)
        for workunit in found.values()
    ]
    return batches.add_jobs(tx, batch, apps.app_by_id(tx, batch.app_id).name, jobs, now=now)


def count_cancelled_open(db: Database, batch_id: int) -> int:
    """Return jobs of a batch that were cancelled but not yet closed by the transitioner."""
    return db.number(
        "SELECT COUNT(*) FROM workunit WHERE batch_id = ? AND completed_seq IS NULL AND error_mask & ? <> 0",
        (batch_id, int(WorkunitError.CANCELLED)),
    )


# -- people and hosts ----------------------------------------------------------


def user_or_missing(db: Database, user_id: int) -> User:
    """Return a user.  Raises NotFound."""
    missing = f"There is no user {user_id}. See: cobblestone user list"
    return db.needed(users.USERS, "user_account WHERE id = ?", (user_id,), missing)


#: What can be blocked.
Blockable = Literal["host", "user"]
_BLOCKABLE: Mapping[Blockable, str] = {"host": "host", "user": "user_account"}  #: tables


def block(tx: Transaction, noun: Blockable, number: int, reason: str) -> str:
    """Stop or (empty reason) resume sending work to a host, or to a user's hosts; return the previous reason.

    Raises:
        NotFound: there is no such host or user.
    """
    found = user_or_missing(tx, number) if noun == "user" else hosts.host_by_id(tx, HostId(number))
    if found is None:
        raise NotFound(f"There is no host {number}.")
    tx.change(_BLOCKABLE[noun], found.id, blocked_reason=reason)
    return found.blocked_reason


def set_role(tx: Transaction, user_id: int, role: str) -> str:
    """Make a user an operator, or (empty) a plain volunteer again; return the previous role.

    Raises:
        NotFound: there is no such user.
        Conflict: there is no such role.
    """
    if role not in ("", OPERATOR):
        raise Conflict(f"There is no role {role[:40]!r}. Known: {OPERATOR}, or empty for a volunteer.")
    user = user_or_missing(tx, user_id)
    tx.change("user_account", user_id, role=role)
    return user.role


# -- search --------------------------------------------------------------------


def search(db: Database, text: str) -> list[Found]:
    """Return users, hosts, batches, workunits and results by id, or by the start of a name; users also by address.

    Upper and lower case are the same in names of people, computers and batches, and in those of the newest :data:`RATE_WINDOW`
    workunits, for which the submitter's name of the job counts too.
    """
    wanted = text.strip()
    if not wanted:
        return []
    found: list[Found] = []
    number = int(wanted) if wanted.isascii() and wanted.isdecimal() and len(wanted) < 16 else None
    for kind, looks in _SEARCHES.items():
        names: dict[int, str] = {}
        for look in looks:
            for id_, name in look(db, "user_account" if kind == "user" else kind, wanted, number):
                names.setdefault(id_, name)
        found += [Found(kind, id_, name) for id_, name in list(names.items())[:MAX_FOUND]]
    return found


def _by_id(db: Database, table: str, text: str, number: int | None, *, shown: str = "name") -> list[Row]:
    return [] if number is None else db.query(f"SELECT id, {shown} FROM {table} WHERE id = ?", (number,))


def _by_name(db: Database, table: str, text: str, number: int | None) -> list[Row]:
    # A range rather than LIKE: it uses the index, and means the characters as they are.
    return db.query(
        f"SELECT id, name FROM {table} WHERE name >= ? AND name < ? ORDER BY name LIMIT ?",
        (text, text + "\U0010ffff", MAX_FOUND),
    )


def _in_any_case(
    db: Database,
    table: str,
    text: str,
    number: int | None,
    *,
    column: str = "name",
    newest: int | None = None,
) -> list[Row]:
    casings = _casings(text)
    fits = " OR ".join([f"substr(lower({column}), 1, CAST(? AS INTEGER)) = ?"] * len(casings))
    since = 0 if newest is None else int(db.value(f"SELECT COALESCE(MAX(id), 0) FROM {table}")) - newest
    return db.query(
        f"SELECT id, {column} FROM {table} WHERE id > ? AND ({fits}) ORDER BY {column} LIMIT ?",
        (since, *(value for casing in casings for value in (len(casing), casing)), MAX_FOUND),
    )


def _casings(text: str) -> list[str]:
    """Return the possible starts, after SQL's ``lower``, of names starting with a text in any case; SQLite lowers only ASCII."""
    forms = (text, text.lower(), text.upper(), text.title())
    return sorted({form.translate(_ASCII_LOWER) for form in forms})


def _by_address(db: Database, table: str, text: str, number: int | None) -> list[Row]:
    return db.query(f"SELECT id, name FROM {table} WHERE email_addr = ?", (text.lower(),))


#: Given the table, the text, and the number that it may be.
Look = Callable[[Database, str, str, int | None], list[Row]]
_ASCII_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_SEARCHES: Mapping[str, Sequence[Look]] = {
    "user": (_by_id, _in_any_case, _by_address),
    "host": (
        partial(_by_id, shown="domain_name"),
        partial(_in_any_case, column="domain_name"),
        partial(_in_any_case, column="label"),
    ),
    "batch": (_by_id, _in_any_case),
    "workunit": (
        _by_id,
        _by_name,
        partial(_in_any_case, column="label", newest=RATE_WINDOW),
        partial(_in_any_case, newest=RATE_WINDOW),
    ),
    "result": (_by_id, _by_name),
}


def merge_computers(tx: Transaction, user_id: UserId, old: HostId, new: HostId, *, now: float) -> None:
    """Merge an older record of a computer into a newer one: tasks and credit move over.

    The ledger stays as it is, with a further entry that says so: what both were credited is the survivor's from now on.

    Raises:
        NotFound: the user does not have both.
        Conflict: they are the same, or the older one still has tasks.
    """
    tx.lock("host", [old, new])
    source, target = hosts.host_by_id(tx, old), hosts.host_by_id(tx, new)
    if source is None or target is None or source.user_id != user_id or target.user_id != user_id:
        raise NotFound("There are no two such computers of this account.")
    if source.id == target.id:
        raise Conflict("These are already the same computer.")
    if has_work(tx, source.id):
        raise Conflict(f"Computer {source.id} has tasks in progress.")
    tx.execute("UPDATE result SET host_id = ? WHERE host_id = ?", (target.id, source.id))
    ledger.merge_hosts(tx, user_id, source.id, target.id, created=target.create_time, now=now)
    app_credit.merge_hosts(tx, source.id, target.id, now=now)
    contributions.merge_hosts(tx, source.id, target.id, now=now)
    # its files count for the survivor as soon as that one lists them
    kept_files.forget_hosts(tx, [source.id])
    tx.change("host", target.id, create_time=min(source.create_time, target.create_time))
    tx.execute(
        "UPDATE host SET merged_into = ?, domain_name = '', label = '', external_ip_addr = '', description = '{}' WHERE id = ?",
        (target.id, source.id),
    )
    tx.execute("UPDATE host SET merged_into = ? WHERE merged_into = ?", (target.id, source.id))
