"""Queries whose results must be empty, and repairs: the database part of ``cobblestone doctor``.

Each question goes over whole tables and is meant for a read of its own, outside of the writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from cobblestone.domain.reasons import Finding
from cobblestone.domain.work import BatchState, FileDeleteState, ValidateState
from cobblestone.policy.credit.rac import OWNERS
from cobblestone.policy.lifecycle.states import INACTIVE, UNSENT, check_invariants
from cobblestone.store.credit.ledger import IS_GRANT
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.spilled import Spilled
from cobblestone.store.work import lifecycle
from cobblestone.store.work.steps import IS_IN_PROGRESS, matching

CHUNK = 500


@dataclass(frozen=True, slots=True)
class _Query:
    """Rows that must not exist: (id of the row, further values for the text); with ``?`` as for `Database.in_parts`."""

    code: str
    kind: str
    text: str
    sql: str
    key: str = "id"  #: by which ``kind`` is divided into parts


def _question(*queries: _Query) -> Callable[[Database], Iterator[Finding]]:
    """Return a function that looks for such rows."""

    def ask(db: Database) -> Iterator[Finding]:
        db.will_look_at(*(query.kind for query in queries if "?" in query.sql))
        for query in queries:
            whole, key = "?" not in query.sql, query.key
            for row in db.query(query.sql) if whole else db.in_parts(query.sql, query.kind, key):
                yield Finding(query.code, query.kind, row[0], query.text.format(*row[1:]))

    return ask


# -- results and workunits -----------------------------------------------------

_IS_VALID = matching(ValidateState.VALID)
#: Asks for results on no host or on a wrong one.
handed_to_one_host = _question(
    _Query(
        "on_no_host",
        "result",
        "is in progress, but on no host",
        f"SELECT id FROM result WHERE {IS_IN_PROGRESS} AND host_id IS NULL",
    ),
    _Query(
        "unsent_with_host",
        "result",
        "is not sent, but has host {0}",
        f"SELECT id, host_id FROM result WHERE {matching(INACTIVE, UNSENT)} AND host_id IS NOT NULL",
    ),
    _Query(
        "on_unknown_host",
        "result",
        "was sent to host {0}, which does not exist",
        "SELECT r.id, r.host_id FROM result r LEFT JOIN host h ON h.id = r.host_id"
        " WHERE r.id > ? AND r.id <= ? AND r.host_id IS NOT NULL AND h.id IS NULL",
    ),
)


def workunit_states(db: Database) -> Iterator[Finding]:
    """Return workunits and results in states that the rules do not allow."""
    last = 0
    db.will_look_at("workunit")
    while rows := db.query("SELECT id FROM workunit WHERE id > ? ORDER BY id LIMIT ?", (last, CHUNK)):
        ids = [row[0] for row in rows]
        for view in lifecycle.views(db, ids):
            for violation in check_invariants(view):
                yield Finding(violation.code, "workunit", view.workunit.id, violation.text)
        last = ids[-1]
        db.n_looked_at += len(ids)


def look_again(tx: Transaction, workunit_ids: Sequence[int], *, now: float) -> int:
    """Have the transitioner check workunits; return how many."""
    changed = tx.execute_each(
        "UPDATE workunit SET transition_time = ? WHERE id = ? AND (transition_time IS NULL OR transition_time > ?)",
        [(now, id_, now) for id_ in workunit_ids],
    )
    tx.wake("transitioner")
    return sum(changed)


# -- credit --------------------------------------------------------------------

#: Asks for valid results without their credit, credit without a valid result, credit granted twice.
credited_once = _question(
    _Query(
        "not_credited",
        "result",
        "is valid, but its grant is not in the ledger",
        f"SELECT r.id FROM result r WHERE r.id > ? AND r.id <= ? AND r.{_IS_VALID} AND NOT EXISTS"
        f" (SELECT 1 FROM credit_entry c WHERE c.result_id = r.id AND c.{IS_GRANT})",
    ),
    _Query(
        "credited_but_not_valid",
        "result",
        "was granted credit by entry {0}, but is not valid",
        "SELECT r.id, c.id FROM credit_entry c JOIN result r ON r.id = c.result_id"
        f" WHERE r.id > ? AND r.id <= ? AND c.{IS_GRANT} AND NOT r.{_IS_VALID}",
    ),
    _Query(
        "credited_again",
        "result",
        "was granted credit {0} times",
        f"SELECT result_id, COUNT(*) FROM credit_entry WHERE result_id > ? AND result_id <= ? AND {IS_GRANT}"
        " GROUP BY result_id HAVING COUNT(*) > 1",
    ),
)


#: Asks for volunteers whose storage or network contributions differ from the ledger.
contributed_as_listed = _question(
    _Query(
        "contribution_differs",
        "user",
        "has {1} of {0} in total, but the entries of the ledger are {2}",
        "SELECT c.owner_id, c.kind, c.total_credit, coalesce(sum(e.amount), 0) FROM contribution c"
        " LEFT JOIN contribution_entry e ON e.user_id = c.owner_id AND e.kind = c.kind WHERE c.owner = 'user'"
        " GROUP BY c.owner_id, c.kind, c.total_credit"
        " HAVING abs(c.total_credit - coalesce(sum(e.amount), 0)) > 1e-6 * (1 + abs(c.total_credit))",
    )
)


_STATEMENT_COLUMNS = {"total": "total_credit", "average": "expavg_credit", "average_time": "expavg_time"}


def set_statement_figure(tx: Transaction, table: str, row_id: int, figure: str, value: float) -> None:
    """Set a total or average of a host, user, team or app version from the ledger."""
    if table in OWNERS and figure in _STATEMENT_COLUMNS:
        tx.execute(f"UPDATE {table} SET {_STATEMENT_COLUMNS[figure]} = ? WHERE id = ?", (value, row_id))
    elif table == "result" and figure == "granted":
        tx.change("result", row_id, granted_credit=value)


# -- batches -------------------------------------------------------------------

#: Asks for batches whose counts differ from those of their jobs, and jobs that share a place in the list.
assimilated_once = _question(
    _Query(
        "miscounted",
        "batch",
        "says {0} jobs are done or failed, and {1} of its workunits are",
        "SELECT b.id, b.n_success + b.n_error, COUNT(w.completed_seq) FROM batch b"
        f" LEFT JOIN workunit w ON w.batch_id = b.id WHERE b.state <> {BatchState.RETIRED}"
        " GROUP BY b.id, b.n_success, b.n_error HAVING b.n_success + b.n_error <> COUNT(w.completed_seq)",
    ),
    _Query(
        "place_shared",
        "batch",
        "handed place {0} of its list of finished jobs to {1} jobs",
        "SELECT batch_id, completed_seq, COUNT(*) FROM workunit WHERE batch_id IS NOT NULL AND completed_seq IS NOT NULL"
        " GROUP BY batch_id, completed_seq HAVING COUNT(*) > 1",
    ),
)


def recount_batch(tx: Transaction, batch_id: int) -> None:
    """Set a batch's counts from its workunits."""
    tx.execute(
        "UPDATE batch SET"
        " n_success = (SELECT COUNT(*) FROM workunit w WHERE w.batch_id = batch.id AND w.completed_seq IS NOT NULL"
        " AND w.error_mask = 0),"
        " n_error = (SELECT COUNT(*) FROM workunit w WHERE w.batch_id = batch.id AND w.completed_seq IS NOT NULL"
        " AND w.error_mask <> 0) WHERE id = ?",
        (batch_id,),
    )


# -- files ---------------------------------------------------------------------


class _Named(msgspec.Struct):
    name: str


_names = msgspec.json.Decoder(list[_Named])


def needed_files(db: Database) -> Spilled[str, int]:
    """Return how many workunits and app versions need each file."""
    needed: Spilled[str, int] = Spilled()
    of_workunits = db.stream(
        f"SELECT input_files, id FROM workunit WHERE file_delete_state <> {FileDeleteState.DONE}"
        " AND input_files <> '[]' AND id > ? ORDER BY id"
    )
    names = (file.name for text, _ in of_workunits for file in _names.decode(text))
    of_versions = db.query("SELECT files FROM app_version")
    once = (name for (text,) in of_versions for name in {file.name for file in _names.decode(text)})
    for name in chain(names, once):
        needed[name] = needed.get(name, 0) + 1
    return needed


def file_rows(db: Database) -> Spilled[str, tuple[int, int, str, bool]]:
    """Return size, references, MD5, and whether there is a compressed copy, of files by name; not those being deleted."""
    columns = "nbytes, refs, md5, gzipped_nbytes IS NOT NULL, name"
    return _by_name(db, f"SELECT {columns} FROM file WHERE refs >= 0 AND name > ? ORDER BY name")


def output_rows(db: Database) -> Spilled[str, tuple[int]]:
    """Return the size of each output on disk, by name."""
    return _by_name(db, "SELECT nbytes, name FROM upload WHERE data IS NULL AND name > ? ORDER BY name")


def _by_name(db: Database, sql: str) -> Spilled[str, Any]:
    """Return rows by their last column.  All are read before the first file is looked at: no query waits for the disk."""
    found: Spilled[str, Any] = Spilled()
    for *values, name in db.stream(sql, after=("",)):
        found[name] = tuple(values)
    return found


def recount_references(tx: Transaction) -> int:
    """Set the references of all files from workunits and app versions; return how many were wrong."""
    needed = needed_files(tx)
    wrong = [
        (needed.get(name, 0), name)
        for name, (_, refs, *_) in file_rows(tx).items()
        if refs != needed.get(name, 0)
    ]
    tx.execute_many("UPDATE file SET refs = ? WHERE name = ? AND refs >= 0", wrong)
    return len(wrong)


def unknown_names(db: Database, names: Sequence[str], *, outputs: bool) -> list[str]:
    """Return those of the names without a row."""
    table = "upload" if outputs else "file"
    known = {row[0] for row in db.query_in(f"SELECT name FROM {table} WHERE name IN (??)", names)}
    return [name for name in names if name not in known]


# -- numbers, and rows without their owner -------------------------------------

_RECORD = ("pfc_avg", "pfc_var", "et_avg", "et_var", "turnaround_avg", "turnaround_var", "error_rate")
_NUMBERS = {
    "host": ("total_credit", "expavg_credit", "expavg_time"),
    "user_account": ("total_credit", "expavg_credit", "expavg_time"),
    "team": ("total_credit", "expavg_credit", "expavg_time"),
    "app_version": ("total_credit", "expavg_credit", "pfc_avg", "pfc_var", "pfc_scale"),
    "app": ("min_avg_pfc", "flops_scale"),
    "result": ("cpu_time", "elapsed_time", "claimed_credit", "granted_credit", "peak_flops"),
    "credit_entry": ("claimed",),
    "host_app_version": _RECORD,
}
_MAY_BE_NEGATIVE = ("host", "user_account", "team")  # their totals, after corrections
_HUGE = 1e300


def _impossible(table: str) -> str:
    """Return the condition that a row holds an impossible number."""
    least = {"total_credit": -_HUGE} if table in _MAY_BE_NEGATIVE else {}
    return " OR ".join(f"{each} < {least.get(each, 0)} OR {each} > {_HUGE}" for each in _NUMBERS[table])


def _of_numbers(table: str) -> _Query:
    columns = _NUMBERS[table]
    key, row = ("host_id", "host_id || '/' || app_version_id") if columns is _RECORD else ("id", "id")
    return _Query(
        "bad_number",
        table,
        "one of these is impossible: " + ", ".join(f"{column} is {{}}" for column in columns),
        f"SELECT {row}, {', '.join(columns)} FROM {table} WHERE {key} > ? AND {key} <= ? AND ({_impossible(table)})",
        key,
    )


#: Asks for averages and amounts that are infinite or negative.
finite_numbers = _question(*map(_of_numbers, _NUMBERS))


def forget_wrong_records(tx: Transaction) -> int:
    """Reset hosts' records of app versions that contain impossible numbers; return how many."""
    return tx.execute(f"DELETE FROM host_app_version WHERE {_impossible('host_app_version')}")


#: By table: its key, the column with the id of a row's owner, and the owner's table.
_OWNERS = {
    "result": ("id", "workunit_id", "workunit"),
    "result_text": ("result_id", "result_id", "result"),
    "upload": ("name", "result_id", "result"),
    "host": ("id", "user_id", "user_account"),
    "workunit": ("id", "app_id", "app"),
    "host_app_version": ("host_id", "host_id", "host"),
}
_USELESS_ALONE = ("result_text", "upload", "host_app_version")


def _without_owner(table: str) -> _Query:
    row, column, owner = _OWNERS[table]
    key = column if table in _USELESS_ALONE else row
    return _Query(
        "no_owner",
        table,
        f"its {owner.removesuffix('_account')} does not exist",
        f"SELECT DISTINCT t.{row} FROM {table} t LEFT JOIN {owner} o ON o.id = t.{column}"
        f" WHERE t.{key} > ? AND t.{key} <= ? AND o.id IS NULL",
        key,
    )


#: Asks for rows whose owner is gone.
orphans = _question(*map(_without_owner, _OWNERS))


def remove_orphans(tx: Transaction) -> int:
    """Remove rows that are useless without their owner: texts, outputs and records; return how many."""
    removed = 0
    for table in _USELESS_ALONE:
        statement = f"DELETE FROM {table} WHERE {_OWNERS[table][0]} = ?"
        alone = [(each.id,) for each in _question(_without_owner(table))(tx)]
        removed += sum(tx.execute_each(statement, alone))
    return removed


def durability_of_server(db: Database) -> Iterator[Finding]:
    """Return settings of PostgreSQL with which an acknowledged write could be lost."""
    for name, wanted in (("fsync", "on"), ("full_page_writes", "on"), ("synchronous_commit", "on")):
        value = str(db.value(f"SELECT current_setting('{name}')"))
        if value != wanted and not (name == "synchronous_commit" and value.startswith(("remote", "local"))):
            text = f"{name} is {value}: a power loss could lose acknowledged writes"
            yield Finding("not_durable", "database", None, text)


def durability(db: Database) -> Iterator[Finding]:
    """Return settings of SQLite with which an acknowledged write could be lost, and damage."""
    for text in (row[0] for row in db.query("PRAGMA integrity_check(20)")):
        if text != "ok":
            yield Finding("damaged", "database", None, text)
    journal = db.value("PRAGMA journal_mode")
    if journal != "wal":
        yield Finding("not_durable", "database", None, f"its journal mode is {journal}, not wal")
    synchronous = db.value("PRAGMA synchronous")
    if synchronous < 2:
        text = f"synchronous is {synchronous}: a power loss could lose acknowledged writes"
        yield Finding("not_durable", "database", None, text)
