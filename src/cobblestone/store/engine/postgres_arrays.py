"""Changes of many rows, and questions about many, in one statement of PostgreSQL, with the values as one list for each column.

A statement costs the server some ten microseconds to begin and end, and us as many to send and to hear of; of the changes of a
batch of jobs that is the larger part.  The statements of the verbs are written for one row, as every database understands them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeGuard

from cobblestone.store.engine.engine import Parameters, Refusal

#: Of a list of values it would be asked as a whole.
_OF_ALL = re.compile(r"\b(?:BY|COUNT|SUM|MIN|MAX|DISTINCT|LIMIT|NOT IN)\b")
#: Of parameters, of which one may be a list.
PLACES = re.compile(r"(NOT )?IN \(\?\?\)|\?")
_KEY_ONLY = re.compile(r"((?:UPDATE|DELETE FROM) [^?]* WHERE (?:\w+_)?id )= \?((?: AND [^?]*)?)")
_UPDATE = re.compile(r"(UPDATE \w+ SET .*)( WHERE id = \?.*)", re.DOTALL)
_INSERT = re.compile(
    r"(INSERT INTO \w+ \(([\w, ]+)\)) VALUES \(\?(?:, \?)*\)(?:( ON CONFLICT \(([\w, ]+)\))([^?]*))?"
)


def together(sql: str, rows: Sequence[Parameters]) -> tuple[str, Sequence[Parameters]]:
    """Return a statement for several rows with their parameters, or one for all of them if possible.

    A row that comes twice is changed twice, one after the other, so such rows stay apart.
    """
    if len(rows) < 2:
        return sql, rows
    found = _of_keys(sql) if len(rows[0]) == 1 else ""
    if found:
        keys = [row[0] for row in rows]
        return (found, [(keys,)]) if len(set(keys)) == len(keys) else (sql, rows)
    keys = _keys(sql)
    if keys is None or len({tuple(row[place] for place in keys) for row in rows}) < (
        len(rows) if keys else 1
    ):
        return sql, rows
    columns: list[list[object]] = []
    nothing: list[int] = []
    for place, values in enumerate(zip(*rows, strict=True)):
        kinds = set(map(type, values)) - {type(None)}
        if not kinds:
            nothing.append(place)
        elif len(kinds) == 1:
            columns.append(list(values))
        elif kinds == {int, float}:
            columns.append([None if value is None else float(value) for value in values])
        else:
            return sql, rows
    return _over_lists(sql, len(rows[0]), tuple(nothing)), [columns]


@lru_cache(maxsize=1024)
def _of_keys(sql: str) -> str:
    """Return the change of many rows whose only parameter is a row's key; empty if it is another kind."""
    match = _KEY_ONLY.fullmatch(sql)
    return f"{match[1]}IN (??){match[2]}" if match else ""


@lru_cache(maxsize=1024)
def _keys(sql: str) -> tuple[int, ...] | None:
    """Return the places of the parameters by which a statement finds its row: none for new rows, None if unknown."""
    update = _UPDATE.fullmatch(sql)
    if update and " WHERE " not in update[1]:
        return ("".join(update[1].split("'")[::2]).count("?"),)  # outside texts
    if insert := _INSERT.fullmatch(sql):
        columns = insert[2].split(", ")
        return tuple(columns.index(name) for name in insert[4].split(", ")) if insert[4] else ()
    return None


@lru_cache(maxsize=1024)
def _over_lists(sql: str, n_parameters: int, nothing: tuple[int, ...]) -> str:
    """Return the statement with a list for each parameter, except for places at which all rows have NULL."""
    names = ["NULL" if place in nothing else f"v.p{place}" for place in range(n_parameters)]
    filled = [name for name in names if name != "NULL"]
    lists = ", ".join("?" * len(filled))
    source = f"unnest({lists}) AS v({', '.join(name.removeprefix('v.') for name in filled)})"
    if insert := _INSERT.fullmatch(sql):
        return f"{insert[1]} SELECT {', '.join(names)} FROM {source}{insert[3] or ''}{insert[5] or ''}"
    left = iter(names)
    parts = sql.split("'")
    parts[::2] = [re.sub(r"\?", lambda _: next(left), part) for part in parts[::2]]
    before, where, after = "'".join(parts).partition(" WHERE id = ")
    return f"{before} FROM {source}{where}{after}"


@lru_cache(maxsize=1024)
def _row_named(sql: str) -> tuple[str, str, tuple[int, ...]] | None:
    """Return table, key and the key's places of a statement that changes the row of one key and looks at no other; else None."""
    places = None if "SELECT" in sql else _keys(sql)
    if not places:
        return None
    insert = _INSERT.fullmatch(sql)
    return sql.split()[2 if insert else 1], insert[4] if insert else "id", places


@dataclass(slots=True)
class Change:
    """A statement with the rows of parameters that it is to be run with."""

    sql: str
    rows: list[Parameters]
    error: Refusal | None  #: raised unless every row of parameters changes one row
    keys: set[tuple[object, ...]]


class Changes:
    """Changes that nobody waits for, those of one statement together.

    A change joins an earlier one of its statement if that alters no row that the changes in between alter, too.
    """

    def __init__(self) -> None:
        self._found: list[Change] = []

    def add(self, sql: str, rows: Sequence[Parameters], error: Refusal | None) -> bool:
        """Keep a change; return False if it is of a kind that cannot be moved."""
        named = _row_named(sql)
        if named is None:
            return False
        table, key, places = named
        keys = {tuple(row[place] for place in places) for row in rows}
        for change in reversed(self._found):
            if change.sql == sql and (change.error is None) == (error is None):
                change.rows += rows
                change.keys |= keys
                return True
            other_table, other_key, _ = _row_named(change.sql) or ("", "", ())
            if other_table == table and (other_key != key or not keys.isdisjoint(change.keys)):
                break
        self._found.append(Change(sql, list(rows), error, keys))
        return True

    def take(self) -> list[Change]:
        """Return what was kept, in its order, and forget it."""
        found, self._found = self._found, []
        return found


def for_each(sql: str, asked: Sequence[Parameters]) -> Iterator[tuple[str, Parameters, Sequence[Parameters]]]:
    """Yield queries, their parameters, and which of the ``asked`` parameters each answers.

    The last column of one that answers several is their place among these.
    """
    if len(asked) < 2 or not asked[0] or (is_list(asked[0][-1]) and _OF_ALL.search(sql)):
        yield from ((sql, parameters, [parameters]) for parameters in asked)
        return
    rows: list[tuple[object, ...]] = []
    for place, parameters in enumerate(asked):
        *first, last = parameters
        values = dict.fromkeys(last) if is_list(last) else (last,)
        rows += ((*first, value, place) for value in values)
    yield _lateral(sql, len(asked[0])), [list(column) for column in zip(*rows, strict=True)], asked


@lru_cache(maxsize=256)
def _lateral(sql: str, n: int) -> str:
    places = iter(range(n))

    def place(match: re.Match[str]) -> str:
        return f"{'= ' if len(match[0]) > 1 else ''}v.p{next(places)}"

    parts = sql.split("'")
    parts[::2] = [PLACES.sub(place, part) for part in parts[::2]]
    names = ", ".join(f"p{number}" for number in range(n))
    lists = ", ".join("?" * (n + 1))
    return (
        f"SELECT q.*, v.n FROM unnest({lists}) AS v({names}, n) CROSS JOIN LATERAL ({chr(39).join(parts)}) q"
    )


def is_list(value: object) -> TypeGuard[list[object]]:
    """Return whether a parameter stands for several values."""
    return isinstance(value, list)
