"""Processes that work on one database: who does which part, and how they wake each other.

With SQLite there is one process, and it does everything.  With PostgreSQL each part of the work that must not be done twice at a
time (handing an answer to the project, say) is cut into shards, and every shard is leased to one process until that process ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

SHARDS = 64
"""Number of parts of the workunits, by the remainder of their ids."""

Shards = tuple[int, ...] | None
"""Numbers of shards; None: all of them."""

OnNotify = Callable[[set[str]], None]
"""Receives the names that another process notified, in a thread of the group; :data:`ALL` after some may have been lost."""
ALL = "*"


class ProcessGroup(Protocol):
    """This process's membership among those that share a database."""

    def join(self, sharded: Sequence[str], single: Sequence[str], on_notify: OnNotify) -> None:
        """Take part: ``sharded`` roles are divided by workunits, of ``single`` ones only one process at a time acts."""
        ...

    def lease_shards(self, role: str) -> AbstractContextManager[Shards, bool | None]:
        """Return a context in which this process may work on its shards of a role; an empty tuple: on none at this moment."""
        ...

    def rank(self, role: str) -> tuple[int, int]:
        """Return this process's number among those with a role, and how many they are."""
        ...

    def notify(self, names: set[str]) -> None:
        """Wake the daemons of these names in the other processes."""
        ...

    def close(self) -> None:
        """Leave: others take over at once."""
        ...


class SingleProcess:
    """A group of one."""

    def join(self, sharded: Sequence[str], single: Sequence[str], on_notify: OnNotify) -> None:
        """Do nothing: no other process can notify."""

    @contextmanager
    def lease_shards(self, role: str) -> Generator[Shards]:
        """Lease everything."""
        yield None

    def rank(self, role: str) -> tuple[int, int]:
        """Return the first place of one."""
        return 0, 1

    def notify(self, names: set[str]) -> None:
        """Do nothing: no other process listens."""

    def close(self) -> None:
        """Do nothing: no lease is held."""
