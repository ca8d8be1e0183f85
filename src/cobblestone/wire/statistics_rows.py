"""What is read of an export: elements, and the columns that they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from cobblestone.domain.exports import ExportedTable
from cobblestone.wire.statistics_import import (
    LARGEST_CREDIT,
    LARGEST_ID,
    LATEST,
    MOST_CPUS,
    Fields,
    gpu_models,
)


class Form(Enum):
    """What an element holds."""

    ID = auto()  #: a number that must be there
    WHOLE = auto()
    NUMBER = auto()
    TEXT = auto()
    FEW = auto()  #: a text that many records share
    CPID = auto()
    GPUS = auto()  #: models of GPUs, from JSON


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a record, and the column that it becomes."""

    column: str
    name: str
    form: Form
    most: float = 0.0  #: the largest number that can be


_NUMBERS = (
    Element("id", "id", Form.ID, LARGEST_ID),
    Element("create_time", "create_time", Form.NUMBER, LATEST),
    Element("total", "total_credit", Form.NUMBER, LARGEST_CREDIT),
    Element("recent", "expavg_credit", Form.NUMBER, LARGEST_CREDIT),
    Element("recent_time", "expavg_time", Form.NUMBER, LATEST),
)


def _badge_of(kind: str) -> tuple[Element, ...]:
    return (
        Element("id", f"{kind}_id", Form.ID, LARGEST_ID),
        Element("badge_id", "badge_id", Form.ID, LARGEST_ID),
        Element("since", "create_time", Form.NUMBER, LATEST),
    )


ELEMENTS: Mapping[ExportedTable, tuple[Element, ...]] = {
    ExportedTable.USER: (
        *_NUMBERS,
        Element("name", "name", Form.TEXT),
        Element("cpid", "cpid", Form.CPID),
        Element("country", "country", Form.FEW),
        Element("team_id", "teamid", Form.WHOLE, LARGEST_ID),
    ),
    ExportedTable.HOST: (
        *_NUMBERS,
        Element("name", "p_model", Form.FEW),
        Element("cpid", "host_cpid", Form.CPID),
        Element("system", "os_name", Form.FEW),
        Element("user_id", "userid", Form.WHOLE, LARGEST_ID),
        Element("n_cpus", "ncpus", Form.WHOLE, MOST_CPUS),
        Element("gpus", "misc", Form.GPUS),
    ),
    ExportedTable.TEAM: (
        *_NUMBERS,
        Element("name", "name", Form.TEXT),
        Element("country", "country", Form.FEW),
    ),
    ExportedTable.USER_DELETED: (Element("id", "id", Form.ID, LARGEST_ID),),
    ExportedTable.HOST_DELETED: (Element("id", "id", Form.ID, LARGEST_ID),),
    ExportedTable.BADGE_USER: _badge_of("user"),
    ExportedTable.BADGE_TEAM: _badge_of("team"),
    ExportedTable.BADGE_HOST: _badge_of("host"),
}
"""By table.  Times are Unix seconds; what is missing is 0 or empty; the name of a computer is its processor's."""
COLLECTED = tuple(table for table in ELEMENTS if table is not ExportedTable.BADGE_HOST)
"""The tables that statistics over many projects show."""

Row = tuple[Any, ...]
"""Values of the columns."""


def row_maker(table: ExportedTable) -> Callable[[str], Row]:
    """Return what makes a row of the text of a record; it raises RecordRefused."""
    elements = ELEMENTS[table]

    def row(record: str) -> Row:
        fields = Fields(record)
        return tuple(_value(fields, element) for element in elements)

    return row


def _value(fields: Fields, element: Element) -> Any:
    match element.form:
        case Form.ID:
            return fields.id(element.name)
        case Form.WHOLE:
            return int(fields.number(element.name, element.most))
        case Form.NUMBER:
            return fields.number(element.name, element.most)
        case Form.TEXT | Form.FEW:
            return fields.text(element.name)
        case Form.CPID:
            return fields.cpid(element.name)
        case Form.GPUS:
            return gpu_models(fields.misc)
