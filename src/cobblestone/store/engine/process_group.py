"""Processes that work on one database: division of work, and wake-ups between them.

With SQLite there is one process, and it does everything.  With PostgreSQL each part of the work that must not be done twice at a
time (handing an answer to the project, say) is cut into shards, and every shard is leased to one process for some seconds, which
it makes longer for as long as it lives.  A lease has a fencing number: a write that rests on one that was lost is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from cobblestone.domain.errors import Busy

#: Number of parts of the workunits, by the remainder of their ids.
SHARDS = 64

#: Numbers of shards; None: all of them.
Shards = tuple[int, ...] | None

#: Receives the names that another process notified, in a thread of the group; :data:`ALL` after some may have been lost.
OnNotify = Callable[[set[str]], None]
ALL = "*"


@dataclass(frozen=True, slots=True)
class Program:
    """The program of a process, as described to the others that share its database."""

    member: str  #: a number that no other process has
    host: str  #: name of the machine
    pid: int
    version: str
    schema: str  #: the newest revision that it knows


class Write(Protocol):
    """The part of a transaction that a lease needs."""

    def query_in(self, sql: str, values: Sequence[object], parameters: Sequence[object] = ()) -> list[Any]:
        """See `Database.query_in`."""
        ...


class LeaseLost(Busy):
    """Another process has taken over because this one did not report in time; nothing was written."""


class Lease:
    """The permission of one process to work on some shards, for as long as it does."""

    def __init__(
        self,
        role: str,
        owner: str,
        fences: Mapping[int, int] | None,
        *,
        holds: Callable[[int, int | None], bool] = lambda shard, fence: True,
    ) -> None:
        """Store what was leased.

        ``fences``: fencing numbers by shard; None: everything, for there is no other process.  ``holds``: whether a shard's
        lease of a fencing number is good for some seconds more, as far as this process knows.
        """
        self._role = role
        self._owner = owner
        self._fences = fences
        self._holds = holds

    @property
    def shards(self) -> Shards:
        """Return the shards; an empty tuple: none at this moment."""
        return None if self._fences is None else tuple(sorted(self._fences))

    def ensure(self, id_: int) -> None:
        """Allow an irreversible action only if the shard of this workunit is ours for some more seconds.

        Raises:
            LeaseLost: it is not, or was not for a while.
        """
        shard = id_ % SHARDS
        if self._fences is not None and not self._holds(shard, self._fences.get(shard)):
            raise self._lost()

    def _lost(self) -> LeaseLost:
        return LeaseLost(f"Another process does this work of the {self._role} now; nothing was changed.")

    def check(self, tx: Write, ids: Iterable[int]) -> None:
        """Allow a write only if the shards of these workunits are still ours, and keep them until it ends.

        Raises:
            LeaseLost: some are not.
        """
        if self._fences is None:
            return
        wanted = {id_ % SHARDS for id_ in ids}
        rows = tx.query_in(
            "SELECT shard, fence FROM process_lease WHERE role = ? AND owner = ? AND shard IN (??) FOR SHARE",
            sorted(wanted),
            (self._role, self._owner),
        )
        if {shard: self._fences.get(shard) for shard in wanted} != dict(rows):
            raise self._lost()


class ProcessGroup:
    """This process's membership among those that share a database; here it is the only one, and does everything."""

    def join(self, sharded: Sequence[str], single: Sequence[str], on_notify: OnNotify) -> None:
        """Join: ``sharded`` roles are divided by workunits; a ``single`` role is active in only one process at a time."""

    @contextmanager
    def lease_shards(self, role: str) -> Generator[Lease]:
        """Enter a context in which this process may work on its shards of a role."""
        yield Lease(role, "", None)

    def fault(self) -> str:
        """Return why this process has no leases, so that its daemons do nothing; empty if it has."""
        return ""

    def rank(self, role: str) -> tuple[int, int]:
        """Return this process's number among those with a role, and their count."""
        return 0, 1

    def notify(self, names: set[str]) -> None:
        """Wake the daemons of these names in the other processes."""

    def close(self) -> None:
        """Leave: others take over at once."""
