"""The processes that work on one database: who does which part, and how they wake each other.

With SQLite there is one process, and it does everything.  With PostgreSQL each part of the work that must not be done twice at a
time (handing an answer to the project, say) is cut into shards, and every shard belongs to one process until that process ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

SHARDS = 64
"""Parts of the workunits, by the remainder of their ids."""

Shards = tuple[int, ...] | None
"""Numbers of shards; None: all of them, without looking."""

OnCall = Callable[[set[str]], None]
"""Receives the names that another process called, in a thread of the crew; :data:`EVERYBODY` after calls may have been lost."""
EVERYBODY = "*"


class Crew(Protocol):
    """What a process knows of those that work beside it."""

    def join(self, sharded: Sequence[str], single: Sequence[str], on_call: OnCall) -> None:
        """Take part: ``sharded`` roles are divided by workunits, of ``single`` ones only one process at a time acts."""
        ...

    def working(self, role: str) -> AbstractContextManager[Shards, bool | None]:
        """A context in which this process may work on its shards of a role; an empty tuple: on none at this moment."""
        ...

    def place(self, role: str) -> tuple[int, int]:
        """This process's number among those with a role, and how many they are."""
        ...

    def call(self, names: set[str]) -> None:
        """Wake the daemons of these names in the other processes."""
        ...

    def close(self) -> None:
        """Leave: others take over at once."""
        ...


class Alone:
    """A crew of one."""

    def join(self, sharded: Sequence[str], single: Sequence[str], on_call: OnCall) -> None:
        """Nobody is there to be joined."""

    @contextmanager
    def working(self, role: str) -> Generator[Shards]:
        """Everything is ours."""
        yield None

    def place(self, role: str) -> tuple[int, int]:
        """The only one."""
        return 0, 1

    def call(self, names: set[str]) -> None:
        """Nobody hears."""

    def close(self) -> None:
        """Nothing to leave."""
