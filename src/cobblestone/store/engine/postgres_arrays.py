"""Changes of many rows in one statement of PostgreSQL, with the values as one list for each column.

A statement costs the server some ten microseconds to begin and end, and us as many to send and to hear of; of the changes of a
batch of jobs that is the larger part.  The statements of the verbs are written for one row, as every database understands them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from cobblestone.store.engine.engine import Parameters

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
        return (_outside_texts(update[1]).count("?"),)
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


def _outside_texts(sql: str) -> str:
    return "".join(sql.split("'")[::2])
