"""Mapping of rows to values: the columns of a query, and both conversions, made once from the fields of a dataclass.

A field is a column of the same name.  Its type says how it is stored: numbers and texts as they are, flags and states as
integers, everything else as JSON.  What differs is said by field, see `RowMapper`.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, fields
from enum import Enum, EnumType, Flag, IntEnum
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from cobblestone.domain.errors import UnreadableRow
from cobblestone.domain.values import made_of_fields
from cobblestone.store.engine.engine import Row

T = TypeVar("T")

_PLAIN = (int, float, str, bytes, object)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """How a field is stored, if its name and type do not determine it."""

    sql: str = ""  #: column or expression; empty: the field's name
    decode: Callable[[Any], Any] | None = None  #: from what the driver gives
    encode: Callable[[Any], object] | None = None


class _Stored(NamedTuple):
    """The value stored in one place of a row."""

    field: str
    path: str  #: of attributes, from the value that is stored
    encode: Callable[[Any], object] | None


class RowMapper(Generic[T]):
    """The mapping between rows and values of one dataclass.

    ``columns`` says by field what differs: the name of a column or an expression, a `Column`, or the mapper of a value whose
    fields are columns of the same row.  With ``shared``, so many different values are kept and given out again.
    """

    def __init__(
        self,
        cls: type[T],
        columns: Mapping[str, str | Column | RowMapper[Any]] | None = None,
        *,
        shared: int = 0,
    ) -> None:
        special = columns or {}
        unknown = special.keys() - {each.name for each in fields(cast("Any", cls))}
        if unknown:
            raise TypeError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
        self.names: tuple[str, ...] = ()  #: column or expression of each place in a row
        self._stored: list[_Stored] = []  # by place
        self._cls = cls
        self._parts: list[tuple[str, int, Callable[[Any], Any] | RowMapper[Any] | None]] = []
        self._shared = shared > 0
        for name, kind in get_type_hints(cls).items():
            if name in cls.__dataclass_fields__:  # type: ignore[attr-defined]  # a dataclass
                how = special.get(name, name)
                first = len(self.names)
                if isinstance(how, RowMapper):
                    self._add_nested(name, how)
                    self._parts.append((name, first, how))
                else:
                    self._parts.append((name, first, self._add(name, kind, how)))
        self.columns = ", ".join(self.names)  #: for a query
        load = self._loader()
        self.load: Callable[[Row], T] = lru_cache(shared)(load) if shared else load
        """Make a value of a row that begins with these columns."""

    def _loader(self) -> Callable[[Row], T]:
        """Write the function that makes a value: field by field, since a call with many keywords takes five times as long."""
        scope: dict[str, Any] = {"new": object.__new__, "damaged": self._damaged}
        lines = ["def load(row):", "try:", *(f"    {line}" for line in self._making("made", 0, scope))]
        lines += ["    return made", "except Exception as error:", "    raise damaged(row, error) from error"]
        exec("\n    ".join(lines), scope)  # noqa: S102  # names of our own classes' fields, nothing else
        return scope["load"]

    def _damaged(self, row: Row, error: Exception) -> UnreadableRow:
        which = f"{self._cls.__name__} with {self.names[0]} {row[0]}"
        return UnreadableRow(
            f"A row of the database cannot be read: {which} ({type(error).__name__}: {error})."
        )

    def _making(self, target: str, first: int, scope: dict[str, Any]) -> list[str]:
        """Return lines that make ``target`` from a row's places from ``first`` on."""
        scope[f"cls_{target}"] = self._cls
        fill = made_of_fields(self._cls)
        before: list[str] = []
        parts: dict[str, str] = {}
        for name, place, how in self._parts:
            own = f"{target}_{name}"
            source = f"row[{first + place}]"
            if isinstance(how, RowMapper) and not how._shared:
                before += how._making(own, first + place, scope)
                source = own
            elif isinstance(how, RowMapper):
                scope[f"get_{own}"] = how.load
                source = f"get_{own}(row[{first + place}:{first + place + len(how.names)}])"
            elif how is not None:
                scope[f"get_{own}"] = how
                source = f"get_{own}({source})"
            parts[name] = source
        if fill:
            return [
                *before,
                f"{target} = new(cls_{target})",
                *(f"{target}.{name} = {source}" for name, source in parts.items()),
            ]
        arguments = ", ".join(f"{name}={source}" for name, source in parts.items())
        return [*before, f"{target} = cls_{target}({arguments})"]

    def _add(self, name: str, kind: Any, how: str | Column) -> Callable[[Any], Any] | None:
        """Add the column of a field; return the conversion of the stored value."""
        column = Column(sql=how) if isinstance(how, str) else how
        decode, encode = _codec(kind)
        self.names += (column.sql or name,)
        self._stored.append(_Stored(name, name, column.encode or encode))
        return column.decode or decode

    def _add_nested(self, name: str, inner: RowMapper[Any]) -> None:
        self.names += inner.names
        self._stored += [_Stored(name, f"{name}.{each.path}", each.encode) for each in inner._stored]

    def of(self, table: str) -> str:
        """Return the columns for a query, each of which is one of ``table`` (name or alias)."""
        return ", ".join(f"{table}.{name}" for name in self.names)

    def embedded(self, table: str) -> RowMapper[T]:
        """Return this mapper for use inside another one whose query has the table under this name."""
        mapper = copy(self)
        mapper.names = tuple(f"{table}.{name}" for name in self.names)
        mapper.columns = ", ".join(mapper.names)
        return mapper

    def writer(self, *, only: Iterable[str] = (), without: Iterable[str] = ()) -> RowWriter[T]:
        """Return a writer of values, for ``only`` some fields, or for all ``without`` some."""
        wanted = set(only) or {each.field for each in self._stored} - set(without)
        places = [place for place, each in enumerate(self._stored) if each.field in wanted]
        scope: dict[str, Any] = {}
        parts: list[str] = []
        for place in places:
            stored = self._stored[place]
            scope[f"encode_{place}"] = stored.encode
            parts.append(
                f"of.{stored.path}" if stored.encode is None else f"encode_{place}(of.{stored.path})"
            )
        values = eval(f"lambda of: ({', '.join(parts)},)", scope)  # noqa: S307  # the same
        return RowWriter(tuple(self.names[place] for place in places), values)


@dataclass(frozen=True, slots=True)
class RowWriter(Generic[T]):
    """Columns to be written, and their values."""

    names: tuple[str, ...]
    values: Callable[[T], tuple[object, ...]]

    def insert(self, table: str, *also: str) -> str:
        """Return an INSERT whose parameters are `values` and those of columns ``also``."""
        names = (*self.names, *also)
        return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"

    def upsert(self, table: str, *key: str) -> str:
        """Return an INSERT that changes the row of the same key if there is one; columns of ``key`` need not be of `names`."""
        also = [name for name in key if name not in self.names]
        changed = ", ".join(f"{name} = excluded.{name}" for name in self.names if name not in key)
        return f"{self.insert(table, *also)} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changed}"

    def update(self, table: str, key: str = "id") -> str:
        """Return an UPDATE whose parameters are `values` and the key."""
        return f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in self.names)} WHERE {key} = ?"


def to_json(value: object) -> str:
    """Return a value as it is stored where there is no column of its type."""
    return _encode(value).decode()


def _codec(kind: Any) -> tuple[Callable[[Any], Any] | None, Callable[[Any], object] | None]:
    """Return functions from and to stored values; None: a value is stored unchanged."""
    if get_origin(kind) in (Union, types.UnionType):
        some = [each for each in get_args(kind) if each is not type(None)]
        if len(some) == 1 and len(get_args(kind)) == 2:
            return tuple(map(_unless_none, _codec(some[0])))  # type: ignore[return-value]  # two, as they were
    kind = getattr(kind, "__supertype__", kind)  # of a NewType
    if kind in _PLAIN:
        return None, None
    if kind is bool:
        return bool, int
    if isinstance(kind, EnumType):
        if issubclass(kind, Flag):
            return lru_cache(64)(kind), int
        # The constructors of enums are slow in a hot loop; a look-up is not.
        by_value = {each.value: each for each in cast("type[Enum]", kind)}
        return by_value.__getitem__, int if issubclass(kind, IntEnum) else str
    return msgspec.json.Decoder(kind).decode, to_json


def _unless_none(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)
