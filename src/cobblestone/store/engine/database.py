"""The thin layer over a driver that the verbs use, and the group-committing writer.

One thread owns the writing connection.  It takes whatever writes have arrived (waiting a moment for more while there are many),
commits them together, and answers after the commit: the price of a flush is shared, and nothing is acknowledged before it is
durable.  When one of them fails, all are undone and made again, each with a savepoint, so that only the failing one is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import structlog

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.store.engine.engine import (
    Connection,
    DatabaseFault,
    Engine,
    OutcomeUnknown,
    Parameters,
    Refusal,
)
from cobblestone.store.engine.process_group import OnNotify, ProcessGroup, Program
from cobblestone.store.engine.reading import Database, engine_for

T = TypeVar("T")

MAX_BATCH = 200
#: How long the writer waits for company while several write at once.  Each commit costs a flush and changes of threads: with six
#: callers this saves a third of them, and a sixth of all CPU time.  For one caller alone nothing is waited for.
GROUP_COMMIT_DELAY = 0.0005
#: Times that a write is tried when other processes are in its way.
MAX_ATTEMPTS = 6
ATTEMPT_SECONDS = 0.01
#: A transaction that has lasted so long takes no further write: others wait for the rows that it has locked.
LONGEST_SECONDS = 1.0
#: The same where daemons write while others wait; their writes should take no longer either: requests wait for the writer.
BACKGROUND_SECONDS = 0.003

#: So long after a write failed each has a savepoint from the first attempt on: who makes them fail costs others little time.
CAREFUL_SECONDS = 1.0

#: Set where daemons run: requests that wait do not wait for their writes, and those that come meanwhile share their commit.
in_background: ContextVar[bool] = ContextVar("in_background", default=False)


def background_seconds(waiting: int) -> float:
    """Return for how long writes of daemons should hold the writer while so many other writes wait."""
    # Half of what requests take: else many connections would leave the daemons further and further behind.
    return max(BACKGROUND_SECONDS, 0.0005 * waiting)


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RowsOf:
    """Rows of a table found by one value each."""

    table: str
    where: str = "id IN (??)"
    #: locks of several writes that are known ahead are taken in this order
    rank: int = field(default=0, compare=False)


#: Rows that a write will change, by the values that find them, as far as is known before it begins.
Locks = Mapping[RowsOf, Collection[object]]


@dataclass(frozen=True, slots=True)
class Asks:
    """What a write asks first, so that the writes of a transaction can ask it together.

    Nothing but the write itself changes the answers, or another one that is ``about`` the same; if it does after all, it calls
    `Transaction.drop_answers`.
    """

    ask: Callable[[Database], object]
    about: frozenset[object]


class Transaction(Database):
    """A database inside a write.  ``wake`` names the daemons to be woken after the commit.

    Where several processes write, a transaction locks a row before it reads it in order to change it.  All take locks in the
    same order, which prevents deadlocks: tables in the order that the schema states, within a table by id.  Where that cannot be
    kept, the loser is tried again (see `Writer`).
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._locked: set[tuple[RowsOf, object]] = set()
        #: Writes that follow and have asked what they ask first; None: they ask when it is their turn.
        self.to_come: int | None = None
        #: What its writes share, for as long as what was asked ahead is true.
        self.kept: dict[str, Any] = {}
        self.wakeups: set[str] = set()
        self.after_commit: list[Callable[[], None]] = []

    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Run a statement; return the number of changed rows."""
        return self._connection.execute(sql, parameters).rowcount

    def execute_many(self, sql: str, rows: Iterable[Parameters]) -> None:
        """Run a statement once per row of parameters, if the number of changed rows does not matter.

        It may wait until something is asked (which sees it), or until the commit, to share the round trip to the database.
        """
        self._connection.executemany(sql, rows)

    def execute_expecting(self, sql: str, rows: Sequence[Parameters], error: Refusal) -> None:
        """Run a statement as `execute_many` does, where every run must change one row.

        Raises:
            Exception: made by ``error``, perhaps for rows of other writes as well; at the latest before the commit.
        """
        self._connection.execute_expecting(sql, rows, error)

    def execute_each(self, sql: str, rows: Iterable[Parameters]) -> list[int]:
        """Run a statement once per row of parameters; return the number of changed rows of each."""
        return self._connection.execute_each(sql, rows)

    def insert(self, sql: str, parameters: Parameters = ()) -> int:
        """Run an INSERT and return the new row's id."""
        row = self._connection.execute(f"{sql} RETURNING id", parameters).fetchone()
        if row is None:
            raise StoreError("The database gave no id to a new row.")
        return int(row[0])

    def change(self, table: str, row_id: int, /, **columns: object) -> bool:
        """Set columns of the row with an id; return whether there is one."""
        values = ", ".join(f"{name} = ?" for name in columns)
        return self.execute(f"UPDATE {table} SET {values} WHERE id = ?", (*columns.values(), row_id)) > 0

    @property
    def claiming(self) -> str:
        """See `Database.claiming`."""
        return " FOR NO KEY UPDATE SKIP LOCKED" if self._connection.row_locks else ""

    def lock(self, table: str, ids: Iterable[int]) -> None:
        """See `Database.lock`.  Waits for other holders."""
        if self._connection.row_locks:
            self.lock_rows(RowsOf(table), sorted(ids))

    def lock_rows(self, rows: RowsOf, values: Iterable[object]) -> None:
        """Lock the rows with these values; wait for other holders."""
        if self._connection.row_locks:
            wanted = [value for value in dict.fromkeys(values) if (rows, value) not in self._locked]
            if wanted:
                sql = f"SELECT id FROM {rows.table} WHERE {rows.where} ORDER BY id FOR NO KEY UPDATE"
                self.execute_many(sql, [[wanted]])
                self._locked.update((rows, value) for value in wanted)

    def lock_free(self, table: str, ids: Sequence[int], *then: Callable[[Database], object]) -> set[int]:
        """Lock those of the rows that are not locked, without waiting; return their ids.

        ``then``: as for `ask_ahead`, what will be asked next.
        """
        if not self._connection.row_locks:
            return set(ids)
        sql = f"SELECT id FROM {table} WHERE id IN (??) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED"
        wanted = sorted(set(ids))
        self.ask_ahead(lambda db: db.query_in(sql, wanted), *then)
        found = {int(row[0]) for row in self.query_in(sql, wanted)}
        self._locked.update((RowsOf(table), id_) for id_ in found)
        return found

    def lock_ahead(self, locks: Iterable[Locks]) -> None:
        """Take the locks that several writes will need, in the right order."""
        if self._connection.row_locks:
            wanted: dict[RowsOf, list[object]] = defaultdict(list)
            for each in locks:
                for rows, values in each.items():
                    wanted[rows].extend(values)
            for rows in sorted(wanted, key=lambda rows: rows.rank):
                self.lock_rows(rows, wanted[rows])

    def drop_answers(self) -> None:
        """Forget what was asked ahead, and what is kept: the rows have changed."""
        self._connection.drop_answers()
        self.to_come = None
        self.kept.clear()

    def take_room(self) -> None:
        """Test whether the database can grow."""
        self._connection.take_room()

    def wake(self, *names: str) -> None:
        """Wake these daemons once this write is durable."""
        self.wakeups.update(names)


Operation = Callable[[Transaction], T]


@dataclass(slots=True, eq=False)
class _Job:
    """A queued write and the future for its result."""

    operation: Operation[Any]
    future: Future[Any] | asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop | None = None
    locks: Locks | None = None
    asks: Asks | None = None
    background: bool = field(default_factory=in_background.get)
    answer: Any = None
    error: BaseException | None = None

    def settle(self) -> None:
        if self.future.done():  # the caller went away
            return
        if isinstance(self.error, StopIteration):  # which a future refuses: the next ones would wait for ever
            self.error = RuntimeError("A write ended with StopIteration.")
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.answer)


def _settle_all(jobs: list[_Job]) -> None:
    for job in jobs:
        job.settle()


class WriterThread:
    """The one thread of this process that writes."""

    def __init__(
        self,
        connection: Connection,
        fault: Callable[[BaseException], DatabaseFault],
        *,
        on_rollback: Callable[[], None] | None = None,
    ) -> None:
        self._connection = connection
        self._fault = fault
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._waker: OnNotify | None = None
        self._on_rollback = on_rollback
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._door = threading.Lock()  # nothing comes in behind the last one, whom nobody would answer
        self._closed = False
        self._careful_until = 0.0  # monotonic clock
        self.failed = False  #: a write could not be stored, and none was tried since by `Store.atry_again`
        self._thread.start()

    def set_waker(self, waker: OnNotify | None) -> None:
        """Set the receiver of the names of daemons to wake."""
        self._waker = waker

    def submit(self, operation: Operation[T]) -> Future[T]:
        """Queue a write from any thread.  The future is set after the commit."""
        future: Future[T] = Future()
        self._put(_Job(operation, future))
        return future

    async def run(self, operation: Operation[T], locks: Locks | None = None, asks: Asks | None = None) -> T:
        """Queue a write from the event loop and wait until it is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(_Job(operation, future, loop, locks, asks))
        return await future

    def backlog(self) -> int:
        """Return how many writes wait."""
        return self._queue.qsize()

    def close(self) -> None:
        """Finish queued writes and stop the thread."""
        with self._door:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _put(self, job: _Job) -> None:
        with self._door:
            if self._closed:
                text = "The server is shutting down; nothing more is written. Try again when it is running."
                raise StoreError(text)
            self._queue.put(job)

    def _run(self) -> None:
        later: list[_Job] = []  # of daemons
        n_before, stop = 0, False
        while later or not stop:
            taken = self._take(wait=not (later or stop), for_company=n_before > 1)
            n_before, stop = len(taken), stop or None in taken
            jobs = [job for job in taken if job is not None]
            jobs.sort(key=lambda job: job.asks is None)  # what others do may change the answers
            requests = [job for job in jobs if not job.background]
            later += (job for job in jobs if job.background)
            while requests:
                self._write_some(requests)
            if later:
                self._write_some(later)

    def _take(self, *, wait: bool, for_company: bool) -> list[_Job | None]:
        """Return what has arrived; None: the end."""
        taken = [self._queue.get()] if wait else []
        if for_company:
            time.sleep(GROUP_COMMIT_DELAY)
        with contextlib.suppress(queue.Empty):
            while len(taken) < MAX_BATCH:
                taken.append(self._queue.get_nowait())
        return taken

    def _write_some(self, batch: list[_Job]) -> None:
        """Make writes in one transaction, answer them, and remove them from ``batch``."""
        try:
            n_done = self._commit(batch)
        except BaseException as error:  # noqa: BLE001  # whatever it was, this thread must go on: no other writes
            self._give_up(error, batch)
            n_done = len(batch)
        self._answer(batch[:n_done])
        del batch[:n_done]

    def _commit(self, batch: list[_Job]) -> int:
        """Make writes in one transaction, or separately if one blocked the others; return how many."""
        n_done = self._attempt(batch, joins=True)
        if not n_done and self._connection.savepoints:
            self._careful_until = time.monotonic() + CAREFUL_SECONDS
            n_done = self._attempt(batch, joins=True)
        if not n_done:
            for job in batch:
                self._retry(job)
        return n_done or len(batch)

    def _retry(self, job: _Job) -> None:
        """Make one write, repeatedly while other processes interfere."""
        for attempt in range(MAX_ATTEMPTS):
            if self._attempt([job], last=attempt == MAX_ATTEMPTS - 1):
                return
            time.sleep(ATTEMPT_SECONDS * 2**attempt * random.random())

    def _attempt(self, batch: list[_Job], *, last: bool = False, joins: bool = False) -> int:
        """Make as many writes in one transaction as there is time for.

        Return how many are done with; 0: nothing was changed, and each shall be tried alone.  With ``joins``, requests that came
        while a daemon wrote are added to ``batch``, so that they need not wait for its commit.
        """
        connection = self._connection
        transaction = Transaction(connection)
        longest = background_seconds(self.backlog()) if batch[0].background else LONGEST_SECONDS
        n_done, end = 0, time.monotonic() + longest
        try:
            connection.begin()
        except Exception as error:  # noqa: BLE001  # the callers get it
            self._give_up(error, batch)
            return len(batch)
        try:
            transaction.lock_ahead(job.locks for job in batch if job.locks is not None)
            self._ask_for_all(transaction, [job.asks for job in batch if job.asks is not None])
            while n_done < len(batch) and (
                not n_done or time.monotonic() < end or self._nobody_waits(batch[0])
            ):
                self._apply(transaction, batch[n_done])
                n_done += 1
            if joins and batch[0].background and not connection.row_locks:
                arrived = self._arrived(batch)
                batch[n_done:n_done] = arrived
                n_done += len(arrived)
                for job in arrived:
                    self._apply(transaction, job)
            connection.commit()
        except BaseException as error:  # noqa: BLE001  # the callers get it
            connection.rollback()
            self._rolled_back()
            return len(batch) if self._explain(error, batch, last=last) else 0
        self._announce(transaction)
        return n_done

    def _arrived(self, later: list[_Job]) -> list[_Job]:
        """Return requests that have arrived; writes of daemons are added to ``later``."""
        taken = self._take(wait=False, for_company=False)
        if None in taken:
            self._queue.put(None)
        later += (job for job in taken if job is not None and job.background)
        return [job for job in taken if job is not None and not job.background]

    def _nobody_waits(self, job: _Job) -> bool:
        """Return whether a transaction of daemons' writes may go on: a commit costs as much as some of them."""
        return job.background and not self._connection.row_locks and self._queue.empty()

    def _announce(self, transaction: Transaction) -> None:
        """Report a commit; an error now changes nothing about it."""
        transaction.kept.clear()  # it may know the transaction: both would be garbage that only a search for cycles finds
        for action in transaction.after_commit:
            try:
                action()
            except Exception:
                log.exception("after_commit_failed")
        if transaction.wakeups and self._waker is not None:
            try:
                self._waker(transaction.wakeups)
            except Exception:
                log.exception("wake_up_failed", names=sorted(transaction.wakeups))

    def _explain(self, error: BaseException, batch: list[_Job], *, last: bool) -> bool:
        """Tell the callers why their writes were undone; return False if they must be retried."""
        # sys.exit or the like, which would end the caller that waits for the answer
        if not isinstance(error, Exception):
            error = StoreError(f"The write was stopped by {type(error).__name__}. Nothing was changed.")
        fault = self._fault(error)
        if fault is DatabaseFault.TRANSACTION:
            self._give_up(error, batch)
            return True
        if len(batch) > 1 or (fault is DatabaseFault.COLLISION and not last):
            return False
        in_the_way = fault in (DatabaseFault.COLLISION, DatabaseFault.BLOCKED)
        batch[0].error = Busy(f"Other writes interfered: {error}. Try again.") if in_the_way else error
        return True

    def _give_up(self, error: BaseException, batch: list[_Job]) -> None:
        log.error("commit_failed", error=str(error), writes=len(batch))
        self.failed = True
        if isinstance(error, OutcomeUnknown):
            text = f"The database did not confirm this: {error}. It may be stored or not. Look before you repeat it."
        else:
            text = f"The database could not store this: {error}. Nothing was changed."
        failure = StoreError(text)
        for job in batch:
            job.error = failure

    def _ask_for_all(self, transaction: Transaction, asks: Sequence[Asks]) -> None:
        """Ask what several writes ask first, unless two of them are about the same."""
        about = [each for one in asks for each in one.about]
        if self._connection.asks_ahead and asks and len(set(about)) == len(about):
            transaction.ask_ahead(*(one.ask for one in asks))
            transaction.to_come = len(asks)

    def _apply(self, transaction: Transaction, job: _Job) -> None:
        """Run one write.  With a savepoint, only it is undone if it fails."""
        connection = self._connection
        if job.asks is None or transaction.to_come is None:
            transaction.drop_answers()
        else:
            transaction.to_come -= 1
        if not connection.savepoints or time.monotonic() >= self._careful_until:
            job.answer = job.operation(transaction)
            return
        n_actions = len(transaction.after_commit)
        connection.execute("SAVEPOINT job")
        try:
            job.answer = job.operation(transaction)
        except Exception as error:
            if self._fault(error) is not DatabaseFault.JOB:
                raise
            job.error = error
            connection.execute("ROLLBACK TO job")
            del transaction.after_commit[n_actions:]
            self._rolled_back()
        connection.execute("RELEASE job")

    def _rolled_back(self) -> None:
        if self._on_rollback is not None:
            self._on_rollback()

    def _answer(self, batch: list[_Job]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        for job in batch:
            if job.loop is None:
                job.settle()
            else:
                by_loop.setdefault(job.loop, []).append(job)
        for loop, jobs in by_loop.items():
            with contextlib.suppress(RuntimeError):  # the loop was closed: no caller waits
                loop.call_soon_threadsafe(_settle_all, jobs)


class Store:
    """A database, a SQLite file or a ``postgresql://`` address: one writer, a few readers."""

    def __init__(self, location: Path | str, *, readers: int = 4, program: Program | None = None) -> None:
        """Open the database.  ``program``: describes this process to the others that use it."""
        self._engine: Engine = engine_for(location)
        self._program = program
        self._write_connection = self._engine.connect()
        self._rollback_hooks: list[Callable[[], None]] = []
        self._writer = WriterThread(self._write_connection, self._engine.fault, on_rollback=self._rolled_back)
        self._readers: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._all_readers = [self._engine.connect(read_only=True) for _ in range(readers)]
        for connection in self._all_readers:
            self._readers.put(connection)
        self._limiter = asyncio.Semaphore(readers)

    def process_group(self, roles: Sequence[str]) -> ProcessGroup:
        """Return the processes that work on this database; ``roles``: all that they divide among them."""
        return self._engine.process_group(roles, self._program)

    def on_rollback(self, hook: Callable[[], None]) -> None:
        """Call ``hook`` (in the writer's thread) whenever a write was undone, so that caches can follow."""
        self._rollback_hooks.append(hook)

    def set_waker(self, waker: OnNotify | None) -> None:
        """Set the receiver of the names of daemons to wake after a commit."""
        self._writer.set_waker(waker)

    def write(self, operation: Operation[T]) -> T:
        """Run a write and wait until it is durable (not from the event loop)."""
        return self._writer.submit(operation).result()

    async def awrite(
        self, operation: Operation[T], *, locks: Locks | None = None, asks: Asks | None = None
    ) -> T:
        """Run a write from the event loop; returns when it is durable.

        ``locks``: the rows it will change, ``asks``: what it asks first, if known.
        """
        return await self._writer.run(operation, locks, asks)

    async def atry_again(self) -> None:
        """After a write that could not be stored, test whether the database can grow again.

        It may take writes that need no room while it refuses those that do.

        Raises:
            StoreError: it cannot.
        """
        if self._writer.failed:
            await self.awrite(Transaction.take_room)
            self._writer.failed = False

    def read(self, operation: Callable[[Database], T]) -> T:
        """Run a read on a snapshot (not from the event loop)."""
        connection = self._readers.get()
        try:
            connection.begin()
            return operation(Database(connection))
        except Exception as error:
            if self._engine.fault(error) is DatabaseFault.JOB:
                raise
            raise StoreError(f"The database cannot be read: {error}. Try again.") from error
        finally:
            connection.rollback()
            self._readers.put(connection)

    async def aread(self, operation: Callable[[Database], T]) -> T:
        """Run a read from the event loop, in a thread."""
        async with self._limiter:
            return await asyncio.to_thread(self.read, operation)

    def backlog(self) -> int:
        """Return how many writes wait."""
        return self._writer.backlog()

    def left_out(self) -> list[str]:
        """Return what is said of the rows that could not be read, so far."""
        connections = (self._write_connection, *self._all_readers)
        return sorted({what for each in connections for what in tuple(each.unreadable)})

    def close(self) -> None:
        """Finish the queued writes and close."""
        self._writer.close()
        for connection in self._all_readers:
            connection.close()
        self._write_connection.close()

    def _rolled_back(self) -> None:
        for hook in self._rollback_hooks:
            hook()
