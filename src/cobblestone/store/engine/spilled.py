"""Mappings with more entries than memory should hold."""

from __future__ import annotations

import pickle
import sqlite3
import weakref
from collections.abc import Hashable, Iterator, MutableMapping
from typing import Any, TypeVar

import msgspec

from cobblestone.domain.errors import StoreError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

#: Entries of one mapping in memory: some fifteen megabytes of statements.
MAX_NEAR = 50_000
_PAGE = 1000


class Spilled(MutableMapping[K, V]):
    """A mapping with a bounded part in memory, and the rest in a temporary file.  Values are not changed in place.

    Keys are integers, texts, or tuples of them.  New keys must not come while it is iterated over.
    """

    _columns = "value"  #: of the file, beside the key

    def __init__(self) -> None:
        self._near: dict[K, V] = {}
        self._n = 0
        # No one else sees the file; it is gone at the end.
        self._far = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._far.close)
        self._far.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            f"CREATE TABLE entry (key PRIMARY KEY, {self._columns}) WITHOUT ROWID;"
        )
        places = ", ".join("?" * (2 + self._columns.count(",")))
        self._write = f"INSERT OR REPLACE INTO entry VALUES ({places})"

    def _packed(self, value: V) -> tuple[object, ...]:
        """Return the columns of a value in the file."""
        return (pickle.dumps(value, 5),)

    def _unpacked(self, row: tuple[Any, ...]) -> V:
        return pickle.loads(row[0])  # noqa: S301  # what `_packed` wrote

    def __getitem__(self, key: K) -> V:
        if key not in self._near:
            find, some = f"SELECT {self._columns} FROM entry WHERE key = ?", self._n > len(self._near)
            row = self._far.execute(find, (_plain(key),)).fetchone() if some else None
            if row is None:
                raise KeyError(key)
            self._keep(key, self._unpacked(row))
        return self._near[key]

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self:
            self._n += 1
        self._keep(key, value)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._near.pop(key)
        self._far.execute("DELETE FROM entry WHERE key = ?", (_plain(key),))
        self._n -= 1

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[K]:
        self._spill()
        condition, after = "", tuple[object, ...]()
        while rows := self._far.execute(
            f"SELECT key FROM entry {condition} ORDER BY key LIMIT {_PAGE}", after
        ).fetchall():
            for (key,) in rows:
                whole: Any = tuple(msgspec.json.decode(key)) if isinstance(key, bytes) else key
                yield whole
            condition, after = "WHERE key > ?", rows[-1]

    def _keep(self, key: K, value: V) -> None:
        if len(self._near) >= MAX_NEAR:
            self._spill()
        self._near[key] = value

    def _spill(self) -> None:
        rows = [(_plain(key), *self._packed(value)) for key, value in self._near.items()]
        try:
            self._far.execute("BEGIN")
            self._far.executemany(self._write, rows)
            self._far.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"No room for temporary files: {error}. Set SQLITE_TMPDIR.") from error
        self._near.clear()


def _plain(key: Hashable) -> object:
    # As JSON: equal keys are equal bytes, which pickle does not promise.
    return key if isinstance(key, int | str) else msgspec.json.encode(key)
