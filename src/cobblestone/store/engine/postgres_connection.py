"""A connection to PostgreSQL as the store uses it: prepared statements, and as few round trips to the server as possible.

Statements go through libpq itself, of which psycopg hands out the functions; values are converted by psycopg's adapters.  Its
cursors would cost three times as much for the small statements of which a scheduler request has a dozen.  What need not be
answered at once waits, and travels with the next statement that must be: libpq calls this a pipeline.
"""

from __future__ import annotations

import contextlib
import re
import select
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import count
from typing import Any

import psycopg
import structlog
from psycopg import errors, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.array import ListBinaryDumper
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper, NumericBinaryLoader
from psycopg.types.string import StrBinaryDumper

from cobblestone.domain.errors import StoreError
from cobblestone.store.engine.engine import OutcomeUnknown, Parameters, Refusal, Row
from cobblestone.store.engine.postgres_arrays import PLACES, Changes, for_each, is_list, together

MAX_PREPARED = 1000
#: Statements that are sent together at most; the server must keep their answers for us meanwhile.
MAX_WAITING = 500

#: Of a length and a value, by PostgreSQL's number for the type: bigint, double precision.
_LETTERS = {20: "iq", 701: "id"}
log = structlog.get_logger(__name__)
_GOOD = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


class _TextDumper(StrBinaryDumper):
    """PostgreSQL has no NUL in texts; texts from outside may."""

    def dump(self, obj: str) -> Any:  # a buffer of the driver
        return super().dump(obj.replace("\0", "") if "\0" in obj else obj)


class _ListDumper(ListBinaryDumper):
    """Lists, of which those of numbers are long."""

    def dump(self, obj: list[Any]) -> Any:  # a buffer of the driver
        oid = 0 if self.sub_dumper is None else self.sub_dumper.oid
        if oid not in _LETTERS or None in obj:
            return super().dump(obj)
        n = len(obj)
        pairs = [word for value in obj for word in (8, value)]
        try:
            return struct.pack("!iiIii" + _LETTERS[oid] * n, 1, 0, oid, n, 1, *pairs)
        except struct.error as error:
            raise OverflowError(f"a number is too large for the database: {error}") from error


class _NumberLoader(NumericBinaryLoader):
    """Sums of integers come as `numeric`; SQLite gives numbers, so do we."""

    def load(self, data: Any) -> Any:  # buffer in, number out; the base class says Decimal
        number = super().load(data)
        whole = int(number)
        return whole if whole == number else float(number)


def adapt(connection: psycopg.Connection[Row]) -> None:
    """Set up a connection's conversions for the store."""
    adapters = connection.adapters
    # Integers are always bigint, alone and in lists: the driver would take the smallest type that holds a value, and keep
    # to it when the same statement comes again with a larger one.
    for kind in (int, bool):  # the schema has no booleans
        adapters.register_dumper(kind, Int8Dumper)
        adapters.register_dumper(kind, Int8BinaryDumper)
    adapters.register_dumper(list, _ListDumper)
    adapters.register_dumper(str, _TextDumper)
    adapters.register_loader("numeric", _NumberLoader)


@lru_cache(maxsize=4096)
def translated(sql: str) -> bytes:
    """Return a statement with PostgreSQL's own placeholders; question marks inside texts are unchanged."""
    count = 0

    def place(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        if match[0] == "?":
            return f"${count}"
        return f"<> ALL(${count})" if match[1] else f"= ANY(${count})"

    parts = sql.split("'")
    parts[::2] = [PLACES.sub(place, part) for part in parts[::2]]
    return "'".join(parts).encode()


class ServerAnswer:
    """The server's answer to a statement."""

    __slots__ = ("rowcount", "rows")

    def __init__(self, rows: list[Row], rowcount: int) -> None:
        self.rows = rows
        self.rowcount = rowcount  #: number of changed (or found) rows

    def fetchall(self) -> list[Row]:
        """Return all rows."""
        return self.rows

    def fetchone(self) -> Row | None:
        """Return the first row, or None."""
        return self.rows[0] if self.rows else None


# number of changed rows, and what is raised for another one
_Expectation = tuple[int, Callable[[int], Exception]]
_Bound = tuple[bytes, Sequence[Any], Sequence[pq.Format]]  # name of the statement, its parameters as bytes
_Question = tuple[str, tuple[object, ...]]  # a query and its parameters


class PostgresConnection:
    """A connection with explicit transactions that reconnects after the server went away."""

    row_locks = True
    savepoints = False
    asks_ahead = True

    def __init__(
        self, connect: Callable[[], tuple[psycopg.Connection[Row], float]], *, read_only: bool
    ) -> None:
        """Connect; a server silent for the number of seconds that ``connect`` also returns counts as gone."""
        self.unreadable: dict[str, None] = {}
        self._connect = connect
        self._begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if read_only else "BEGIN"
        self._open()

    def _open(self) -> None:
        self._connection, answer_seconds = self._connect()
        self._answer_ms = int(answer_seconds * 1000)
        self._pg = self._connection.pgconn
        self._values = Transformer(self._connection)
        self._prepared: dict[tuple[str, tuple[int, ...]], bytes] = {}
        # of those, what the server has not been told
        self._new: dict[bytes, tuple[str, tuple[int, ...]]] = {}
        self._numbers = count()
        self._waiting: list[_Bound] = []
        self._expected: dict[int, _Expectation] = {}  # by place among what waits
        self._changes = Changes()  # those that are still to be bound, in the order in which they will wait
        self._asked: dict[int, list[_Question]] = {}  # questions that wait, by place
        # to questions that were not asked in earnest yet
        self._answers: defaultdict[_Question, list[ServerAnswer]] = defaultdict(list)
        self._unheard = False  # whether the answer to a ROLLBACK is under way
        self._lost = ""  # why it cannot be reached, as the log says
        self._refused = False  # whether it takes no writes: a new connection may, to this server or another
        self._readable, self._ready = select.poll(), select.poll()
        self._readable.register(self._pg.socket, select.POLLIN)
        self._ready.register(self._pg.socket, select.POLLIN | select.POLLOUT)

    # ------------------------------------------------------------------ statements

    def execute(self, sql: str, parameters: Parameters = (), /) -> ServerAnswer:
        """Run a statement."""
        if self._asked:
            self._send_waiting()
        if self._answers and (known := self._answers.get(question := _question(sql, parameters))):
            newest = known.pop()
            if not known:
                del self._answers[question]
            return newest
        self._bind_changes()
        bound = self._bind(sql, parameters)
        name, values, formats = bound
        if self._waiting or name in self._new:
            self._waiting.append(bound)
            return self._answer(self._send_waiting()[-1])
        self._pg.send_query_prepared(name, values, formats, pq.Format.BINARY)
        return self._answer(self._result())

    def ask_ahead(self, questions: Iterable[tuple[str, Parameters]], /) -> None:
        """See `Connection.ask_ahead`."""
        self._bind_changes()
        alike: defaultdict[str, list[Parameters]] = defaultdict(list)
        for sql, parameters in questions:
            alike[sql].append(parameters)
        for sql, asked in alike.items():
            for one, values, group in for_each(sql, asked):
                bound = self._bind(one, values)
                self._asked[len(self._waiting)] = [_question(sql, parameters) for parameters in group]
                self._waiting.append(bound)

    def take_room(self) -> None:
        """Fill a table of half a megabyte that is dropped at the end of the transaction."""
        self.execute("CREATE TEMPORARY TABLE trial_of_room (filling TEXT) ON COMMIT DROP")
        self.execute("INSERT INTO trial_of_room SELECT repeat('x', 100) FROM generate_series(1, 4096)")

    def drop_answers(self) -> None:
        """See `Connection.drop_answers`."""
        self._asked.clear()
        self._answers.clear()

    def executemany(self, sql: str, rows: Iterable[Parameters], /) -> None:
        """Run a statement once per row of parameters, at the latest before the next statement with a result."""
        self.execute_expecting(sql, list(rows), None)

    def execute_expecting(self, sql: str, rows: Sequence[Parameters], error: Refusal | None, /) -> None:
        """See `Connection.execute_expecting`; without ``error``, any number of rows may change."""
        if not self._changes.add(sql, rows, error):
            self._bind_changes()
            self._wait(sql, rows, error)

    def _bind_changes(self) -> None:
        """Queue the changes that were kept back so that more of a kind may join them."""
        for change in self._changes.take():
            self._wait(change.sql, change.rows, change.error)

    def _wait(self, sql: str, rows: Sequence[Parameters], error: Refusal | None) -> None:
        one, todo = together(sql, rows)
        for row in todo:
            bound = self._bind(one, row)
            if error is not None:
                self._expected[len(self._waiting)] = (len(rows) // len(todo), partial(error, rows))
            self._waiting.append(bound)
            if len(self._waiting) >= MAX_WAITING:
                self._send_waiting()

    def execute_each(self, sql: str, rows: Iterable[Parameters], /) -> list[int]:
        """Run a statement once per row of parameters; return the number of changed rows of each."""
        counts: list[int] = []
        todo = list(rows)
        self._bind_changes()
        for start in range(0, len(todo), MAX_WAITING):
            part = todo[start : start + MAX_WAITING]
            self._waiting += [self._bind(sql, row) for row in part]
            counts += [result.command_tuples or 0 for result in self._send_waiting()[-len(part) :]]
        return counts

    def select_in(self, sql: str, values: Sequence[object], parameters: Parameters, /) -> list[Row]:
        """Return rows of a query with ``IN (??)``: the values are sent as one array."""
        return self.execute(sql, [*parameters, list(values)]).rows if values else []

    def column_names(self, table: str, /) -> list[str]:
        """Return names of a table's columns, in order."""
        if self._waiting:
            self._send_waiting()
        self._pg.send_query(f"SELECT * FROM {table} LIMIT 0".encode())
        result = self._result()
        return [(result.fname(place) or b"").decode() for place in range(result.nfields)]

    def about_rows(self, table: str, /) -> int:
        """Return about how many rows a table has: as many as its statistics say."""
        row = self.execute("SELECT reltuples FROM pg_class WHERE oid = to_regclass(?)", (table,)).fetchone()
        return 0 if row is None else max(0, int(row[0]))  # -1: never looked at

    # ------------------------------------------------------------------ transactions

    def begin(self) -> None:
        """Start a transaction, after reconnecting if the server has gone."""
        if self._unheard:
            self._unheard = False
            with contextlib.suppress(psycopg.Error):  # the connection was closed, which is seen below
                self._result()
        if self._refused or not self._alive():
            self.close()
            try:
                self._open()
            except StoreError as error:  # it names the database, for operators; clients need not know
                if str(error) != self._lost:  # requests try again all the time
                    log.error("database_lost", error=str(error))
                self._lost = str(error)
                raise psycopg.OperationalError("it cannot be reached") from error
            self._lost = ""
        if len(self._prepared) >= MAX_PREPARED:  # here no statement waits that was bound to a name
            self._forget_prepared()
        self.drop_answers()  # nobody may have asked in earnest, and since then others have changed the rows
        self.executemany(self._begin, [()])

    def commit(self) -> None:
        """Make the transaction durable.

        Raises:
            OutcomeUnknown: the connection was lost on the way.
        """
        self._bind_changes()
        if self._expected:  # a row that was not changed must be known before the commit
            self._send_waiting()
        self._waiting.append(self._bind("COMMIT", ()))
        try:
            result = self._send_waiting()[-1]
        except psycopg.Error as error:
            if self._connection.closed:
                raise OutcomeUnknown(str(error)) from error
            raise
        # in a transaction that has failed the server undoes it, without an error
        if result.command_status != b"COMMIT":
            raise psycopg.OperationalError("the server has rolled the transaction back")

    def rollback(self) -> None:
        """Undo the transaction; never raises.  The server's answer is read before the next one starts."""
        self._changes.take()
        self._waiting.clear()
        self._expected.clear()
        self.drop_answers()
        with contextlib.suppress(psycopg.Error):
            if self._pg.transaction_status != pq.TransactionStatus.IDLE:
                self._pg.send_query(b"ROLLBACK")
                self._unheard = True
                self._pg.flush()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _alive(self) -> bool:
        """Return, without a round trip, whether the server is still there: a pending FATAL or close message is readable."""
        try:
            while self._readable.poll(0):
                self._pg.consume_input()
        except psycopg.OperationalError:
            return False
        return not self._connection.closed

    # ------------------------------------------------------------------ below

    def _bind(self, sql: str, parameters: Parameters) -> _Bound:
        """Return a prepared statement with values; report values that make no sense."""
        converter = self._values
        values = converter.dump_sequence(parameters, _formats(len(parameters)))
        key = (sql, converter.types or ())
        return self._prepared.get(key) or self._prepare(key), values, converter.formats or ()

    def _forget_prepared(self) -> None:
        self._pg.send_query(b"DEALLOCATE ALL")
        self._result()
        self._prepared.clear()
        self._new.clear()

    def _prepare(self, key: tuple[str, tuple[int, ...]]) -> bytes:
        """Name a statement; the server learns it with the first use."""
        name = b"s%d" % next(self._numbers)
        self._new[name] = key
        self._prepared[key] = name
        return name

    def _result(self) -> pq.abc.PGresult:
        """Return the answer to the one statement that was sent outside a pipeline."""
        try:
            results = self._receive(pipeline=False)
        except psycopg.Error:
            self._connection.close()
            raise
        bad = next((result for result in results if result.status not in _GOOD), None)
        if bad is not None or not results:
            raise self._error(bad) if bad is not None else psycopg.OperationalError("the connection was lost")
        return results[-1]

    def _await(self, unsent: int) -> int:
        """Receive what comes next, and send what could not be sent; return whether something is still unsent.

        Raises:
            psycopg.OperationalError: nothing came for too long: the server hangs, or the network swallows what is sent.
        """
        if not (self._ready if unsent else self._readable).poll(self._answer_ms):
            raise psycopg.OperationalError(f"the database did not answer for {self._answer_ms / 1000:g} s")
        self._pg.consume_input()
        return self._pg.flush() if unsent else 0

    def _send_waiting(self) -> list[pq.abc.PGresult]:
        """Send what is queued, and return the answers; the first error among them is raised."""
        waiting, self._waiting = self._waiting, []
        expected, self._expected = self._expected, {}
        asked, self._asked = self._asked, {}
        unsaid = dict(self._new)
        told: dict[int, bytes] = {}  # names of statements that are new, by the place of the answer to that
        try:
            self._pg.enter_pipeline_mode()
            for place, (name, values, formats) in enumerate(waiting):
                if name in unsaid:
                    sql, types = unsaid.pop(name)
                    told[place + len(told)] = name
                    self._pg.send_prepare(name, translated(sql), types)
                self._pg.send_query_prepared(name, values, formats, pq.Format.BINARY)
            self._pg.pipeline_sync()
            results = self._receive(pipeline=True)
            self._pg.exit_pipeline_mode()
        except psycopg.Error:  # it is unknown which answers would come next
            self._connection.close()
            raise
        for place, name in told.items():
            if results[place].status in _GOOD:
                del self._new[name]
        for result in results:
            if result.status not in _GOOD:
                raise self._error(result)
        if told:
            results = [result for place, result in enumerate(results) if place not in told]
        for place, (n, error) in expected.items():
            if (changed := results[place].command_tuples or 0) != n:
                raise error(changed)
        for place, questions in asked.items():
            self._keep_answers(self._answer(results[place]), questions)
        return results

    def _keep_answers(self, answer: ServerAnswer, questions: Sequence[_Question]) -> None:
        if len(questions) == 1:
            self._answers[questions[0]].append(answer)
            return
        found: list[list[Row]] = [[] for _ in questions]
        for row in answer.rows:
            found[int(row[-1])].append(row[:-1])
        for question, rows in zip(questions, found, strict=True):
            self._answers[question].append(ServerAnswer(rows, len(rows)))

    def _receive(self, *, pipeline: bool) -> list[pq.abc.PGresult]:
        """Return answers to everything sent, of a pipeline up to the mark at its end.

        The server may block until its answers are read.
        """
        results: list[pq.abc.PGresult] = []
        unsent = self._pg.flush()
        while True:
            unsent = self._await(unsent)
            while not self._pg.is_busy():
                result = self._pg.get_result()
                if result is None:  # after each statement's answer
                    if not pipeline:
                        return results
                    if self._connection.closed:
                        raise psycopg.OperationalError("the connection was lost")
                elif result.status == pq.ExecStatus.PIPELINE_SYNC:
                    return results
                else:
                    results.append(result)

    def _answer(self, result: pq.abc.PGresult) -> ServerAnswer:
        n = result.ntuples
        if not n:
            return ServerAnswer([], result.command_tuples or 0)
        self._values.set_pgresult(result)
        return ServerAnswer(self._values.load_rows(0, n, tuple), n)

    def _error(self, result: pq.abc.PGresult) -> psycopg.Error:
        # not from the server: it cannot be reached
        if result.error_field(pq.DiagnosticField.SQLSTATE) is None:
            self._connection.close()
            return psycopg.OperationalError(result.get_error_message())
        error = errors.error_from_result(result)
        self._refused = self._refused or isinstance(error, errors.ReadOnlySqlTransaction)
        return error


def _question(sql: str, parameters: Parameters) -> _Question:
    return sql, tuple(tuple(each) if is_list(each) else each for each in parameters)


@lru_cache(maxsize=256)
def _formats(n: int) -> list[PyFormat]:
    return [PyFormat.BINARY] * n
