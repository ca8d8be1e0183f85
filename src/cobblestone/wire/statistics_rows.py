"""Reading the export of any project at speed: only what statistics over many projects need, as rows for columns.

One pattern finds all records of a piece of a file at once, if they look as the family's servers write them, and their values are
read column by column.  Where anything is unusual (another order, an unknown element, an odd number) the strict reader of
`statistics_import` takes all records of that piece instead, to the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from cobblestone.domain.exports import ExportedTable
from cobblestone.wire.statistics_import import (
    LARGEST_CREDIT,
    LARGEST_ID,
    LATEST,
    MOST_CPUS,
    ExportReader,
    Fields,
    resolved,
)

Row = tuple[Any, ...]
"""Values for `COLUMNS`: numbers and texts."""

_ALL = ("id", "create_time", "total", "recent", "recent_time", "name")
COLUMNS: Mapping[ExportedTable, tuple[str, ...]] = {
    ExportedTable.USER: (*_ALL, "cpid", "country", "team_id"),
    ExportedTable.HOST: (*_ALL, "cpid", "system", "user_id", "n_cpus"),
    ExportedTable.TEAM: (*_ALL, "country"),
    ExportedTable.USER_DELETED: ("id",),
    ExportedTable.HOST_DELETED: ("id",),
}
"""What a row holds.  Times are Unix seconds; no country, team or owner: empty or 0; the name of a host is its processor's."""

_WHOLE = "([0-9]{1,16})"
_NUMBER = "([0-9.]{1,24})"
_TEXT = "([^<]{0,4000})"
_CPID = "([0-9a-fA-F]{32})"
_ANY = "[^<]{0,4000}"
_GAP = "[^<]{0,100}"
_CREDIT = (("total_credit", _NUMBER), ("expavg_credit", _NUMBER), ("expavg_time", _NUMBER))
_MEASURED = (
    *(
        "p_fpops",
        "p_iops",
        "p_membw",
        "m_nbytes",
        "m_cache",
        "m_swap",
        "d_total",
        "d_free",
        "n_bwup",
        "n_bwdown",
    ),
    *("avg_turnaround", "credit_per_cpu_sec"),
)


def _pattern(root: str, *elements: tuple[str, str], end: str = "") -> re.Pattern[str]:
    """Return what matches a record with these elements in this order; ``name?`` may be missing."""
    inner = "".join(_element(name, value) for name, value in elements)
    return re.compile(f"<{root}>{inner}{end}{_GAP}</{root}>")


def _element(name: str, value: str) -> str:
    element = f"{_GAP}<{name.rstrip('?')}>{value}</{name.rstrip('?')}>"
    return f"(?:{element})?" if name.endswith("?") else element


_USER = _pattern(
    "user",
    *(("id", _WHOLE), ("name", _TEXT), ("create_time", _NUMBER), *_CREDIT, ("cpid", _CPID)),
    *(("country?", _TEXT), ("url?", _ANY), ("teamid?", _WHOLE)),
    end=f"(?:{_GAP}<has_profile/>)?",
)
_TEAM = _pattern(
    "team",
    *(("id", _WHOLE), ("type?", _ANY), ("name", _TEXT), ("userid?", _ANY), *_CREDIT, ("founder_name?", _ANY)),
    *(
        ("create_time", _NUMBER),
        ("url?", _ANY),
        ("name_html?", _ANY),
        ("description?", _ANY),
        ("country?", _TEXT),
    ),
)
_HOST = _pattern(
    "host",
    *(
        ("id", _WHOLE),
        ("userid?", _WHOLE),
        *_CREDIT,
        ("p_vendor", _ANY),
        ("p_model", _TEXT),
        ("os_name", _TEXT),
    ),
    *(
        ("os_version", _ANY),
        ("misc?", r"<!\[CDATA\[[^<>]{0,9000}\]\]>"),
        ("create_time", _NUMBER),
        ("rpc_time", _ANY),
    ),
    *(
        ("timezone", _ANY),
        ("ncpus", "([0-9]{1,7})"),
        *((name, _ANY) for name in _MEASURED),
        ("host_cpid", _CPID),
    ),
)
_often = lru_cache(10_000)(resolved)
"""Processors, systems and countries: many records have the same."""

Texts = Sequence[str]
Columns = tuple[Iterable[Any], ...]


class _Unusual(Exception):
    """Only the strict reader can tell."""


def _wholes(texts: Texts, most: int, *, least: int = 0) -> list[int]:
    """Return whole numbers; none is 0.  Raises _Unusual."""
    numbers = [int(text or 0) for text in texts]
    if min(numbers) < least or max(numbers) > most:
        raise _Unusual
    return numbers


def _numbers(texts: Texts, most: float) -> list[float]:
    """Return numbers.  Raises _Unusual, ValueError."""
    numbers = list(map(float, texts))
    if max(numbers) > most:
        raise _Unusual
    return numbers


def _usual(ids: Texts, created: Texts, total: Texts, recent: Texts, times: Texts) -> Columns:
    return (
        _wholes(ids, LARGEST_ID, least=1),
        _numbers(created, LATEST),
        _numbers(total, LARGEST_CREDIT),
        _numbers(recent, LARGEST_CREDIT),
        _numbers(times, LATEST),
    )


def _name(text: str) -> str:
    return text.strip()[:255] if text.isascii() and text.isprintable() and "&" not in text else resolved(text)


def _users(found: Sequence[Texts]) -> Columns:
    ids, names, created, *credit, cpids, countries, teams = found
    return (
        *_usual(ids, created, *credit),
        map(_name, names),
        map(str.lower, cpids),
        map(_often, countries),
        _wholes(teams, LARGEST_ID),
    )


def _hosts(found: Sequence[Texts]) -> Columns:
    ids, users, *credit, processors, systems, created, n_cpus, cpids = found
    return (
        *_usual(ids, created, *credit),
        map(_often, processors),
        map(str.lower, cpids),
        map(_often, systems),
        _wholes(users, LARGEST_ID),
        _wholes(n_cpus, MOST_CPUS),
    )


def _teams(found: Sequence[Texts]) -> Columns:
    ids, names, *credit, created, countries = found
    return *_usual(ids, created, *credit), map(_name, names), map(_often, countries)


def _strict_user(record: str) -> Row:
    fields = Fields(record)
    team_id = fields.whole("teamid")
    return *_strict(fields), fields.text("name"), fields.cpid(), fields.text("country"), team_id


def _strict_host(record: str) -> Row:
    fields = Fields(record)
    return (
        *_strict(fields),
        fields.text("p_model"),
        fields.cpid("host_cpid"),
        fields.text("os_name"),
        fields.whole("userid"),
        int(fields.number("ncpus", MOST_CPUS)),
    )


def _strict_team(record: str) -> Row:
    fields = Fields(record)
    return *_strict(fields), fields.text("name"), fields.text("country")


def _strict(fields: Fields) -> tuple[int, float, float, float, float]:
    credit = fields.credit()
    return (
        fields.id(),
        fields.number("create_time", LATEST),
        credit.total,
        credit.recent.value,
        credit.recent.time,
    )


_STRICT: Mapping[ExportedTable, Callable[[str], Row]] = {
    ExportedTable.USER: _strict_user,
    ExportedTable.HOST: _strict_host,
    ExportedTable.TEAM: _strict_team,
    ExportedTable.USER_DELETED: lambda record: (Fields(record).id(),),
    ExportedTable.HOST_DELETED: lambda record: (Fields(record).id(),),
}
_QUICK: Mapping[ExportedTable, tuple[re.Pattern[str], Callable[[Sequence[Texts]], Columns]]] = {
    ExportedTable.USER: (_USER, _users),
    ExportedTable.HOST: (_HOST, _hosts),
    ExportedTable.TEAM: (_TEAM, _teams),
}


class RowReader(ExportReader):
    """Takes the bytes of a file as they come, and gives rows of `COLUMNS`."""

    def __init__(self, table: ExportedTable) -> None:
        super().__init__(table, _STRICT[table])
        self._quick = _QUICK.get(table)

    def _records(self, text: str) -> list[Row]:
        if self._quick is not None:
            pattern, columns = self._quick
            found = pattern.findall(text)
            # Each record that begins is one that was found, so none was skipped and none holds another.
            if found and len(found) == text.count(self._begin):
                try:
                    return list(zip(*columns(list(zip(*found, strict=True))), strict=True))
                except (_Unusual, ValueError):
                    pass
        return super()._records(text)
