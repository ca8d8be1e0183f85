"""Reading the export of any project at speed: only what statistics over many projects need, as rows for columns.

A record that looks as the family's servers write it is cut by one pattern; anything unusual about it (letters beyond ASCII,
another order, an odd number) and the strict reader of `statistics_import` takes it instead, to the same row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
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

_CREDIT = ("total_credit", "expavg_credit", "expavg_time")


def _pattern(*elements: str, end: str = "") -> re.Pattern[str]:
    """Return what matches elements in this order: ``name?`` may be missing, ``-name`` is not wanted."""
    return re.compile("".join(map(_element, elements)) + end)


def _element(words: str) -> str:
    name = words.strip("-?")
    text = "[^<]*" if words.startswith("-") else "([^<]*)"
    element = f"[^<]*<{name}>{text}</{name}>"
    return f"(?:{element})?" if words.endswith("?") else element


_USER = _pattern(
    *("id", "name", "create_time", *_CREDIT, "cpid", "country?", "-url?", "teamid?"),
    end="[^<]*(?:<has_profile/>[^<]*)?",
)
_TEAM = _pattern(
    *("id", "-type?", "name", "-userid?", *_CREDIT, "-founder_name?", "create_time", "-url?"),
    *("-name_html?", "-description?", "country?"),
    end="[^<]*",
)
_HOST = _pattern(
    *("id", "userid?", *_CREDIT, "-p_vendor", "p_model", "os_name", "-os_version"),
    end=r"(?:[^<]*<misc><!\[CDATA\[[^<>]*\]\]></misc>)?"
    + "".join(map(_element, ("create_time", "-rpc_time", "-timezone", "ncpus"))),
)
_HOST_CPID = "<host_cpid>"
_CPID = re.compile("[0-9a-f]{32}")
_often = lru_cache(10_000)(resolved)
"""Processors, systems and countries: many records have the same."""


class _Unusual(Exception):
    """Only the strict reader can tell."""


def _name(text: str) -> str:
    return text.strip() if text.isascii() and text.isprintable() and "&" not in text else resolved(text)


def _numbers(
    id_: str, created: str, total: str, recent: str, time: str
) -> tuple[int, float, float, float, float]:
    """Return these numbers.  Raises _Unusual or ValueError unless they can be."""
    numbers = int(id_), float(created), float(total), float(recent), float(time)
    if not (
        0 < numbers[0] <= LARGEST_ID
        and 0 <= numbers[1] <= LATEST
        and 0 <= numbers[2] <= LARGEST_CREDIT
        and 0 <= numbers[3] <= LARGEST_CREDIT
        and 0 <= numbers[4] <= LATEST
    ):
        raise _Unusual
    return numbers


@lru_cache(10_000)
def _whole(text: str, most: int) -> int:
    number = int(text)
    if not 0 <= number <= most:
        raise _Unusual
    return number


def _user(record: str) -> Row:
    try:
        if (usual := _USER.fullmatch(record)) is None:
            raise _Unusual
        id_, name, created, total, recent, time, cpid, country, team = usual.groups()
        if not _CPID.fullmatch(cpid):
            raise _Unusual
        team_id = _whole(team or "0", LARGEST_ID)
        return *_numbers(id_, created, total, recent, time), _name(name), cpid, _often(country or ""), team_id
    except (_Unusual, ValueError):
        fields = Fields(record)
        return (
            *_strict_numbers(fields),
            fields.text("name"),
            fields.cpid(),
            fields.text("country"),
            fields.whole("teamid"),
        )


def _host(record: str) -> Row:
    try:
        if (usual := _HOST.match(record)) is None:
            raise _Unusual
        id_, user, total, recent, time, processor, system, created, n_cpus = usual.groups("")
        place = record.find(_HOST_CPID, usual.end())
        # What is measured stands in between: not looked at, as long as no free text hides elements there.
        cpid = record[place + 11 : place + 43]
        if not (
            _CPID.fullmatch(cpid)
            and record.startswith("</host_cpid>", place + 43)
            and record.find("<!", usual.end(), place) < 0
            and (user or "<userid>" not in record)
        ):
            raise _Unusual
        return (
            *_numbers(id_, created, total, recent, time),
            _often(processor),
            cpid,
            _often(system),
            _whole(user or "0", LARGEST_ID),
            _whole(n_cpus, MOST_CPUS),
        )
    except (_Unusual, ValueError):
        fields = Fields(record)
        return (
            *_strict_numbers(fields),
            fields.text("p_model"),
            fields.cpid("host_cpid"),
            fields.text("os_name"),
            fields.whole("userid"),
            int(fields.number("ncpus", MOST_CPUS)),
        )


def _team(record: str) -> Row:
    try:
        if (usual := _TEAM.fullmatch(record)) is None:
            raise _Unusual
        id_, name, total, recent, time, created, country = usual.groups("")
        return *_numbers(id_, created, total, recent, time), _name(name), _often(country)
    except (_Unusual, ValueError):
        fields = Fields(record)
        return *_strict_numbers(fields), fields.text("name"), fields.text("country")


def _strict_numbers(fields: Fields) -> tuple[int, float, float, float, float]:
    credit = fields.credit()
    return (
        fields.id(),
        fields.number("create_time", LATEST),
        credit.total,
        credit.recent.value,
        credit.recent.time,
    )


_ROWS: Mapping[ExportedTable, Callable[[str], Row]] = {
    ExportedTable.USER: _user,
    ExportedTable.HOST: _host,
    ExportedTable.TEAM: _team,
    ExportedTable.USER_DELETED: lambda record: (Fields(record).id(),),
    ExportedTable.HOST_DELETED: lambda record: (Fields(record).id(),),
}


def row_reader(table: ExportedTable) -> ExportReader:
    """Return a reader of a file of an export that gives the rows of `COLUMNS`."""
    return ExportReader(table, _ROWS[table])
