"""Rows of a database as values, and back."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import pytest

from cobblestone.domain.errors import UnreadableRow
from cobblestone.domain.values import HostId, value
from cobblestone.domain.work import JobLimits, Result, ServerState, WorkunitError
from cobblestone.store.engine.mapping import Column, RowMapper


@dataclass(frozen=True, kw_only=True)
class Point:
    x: float
    y: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Thing:
    id: int
    host_id: HostId | None
    on: bool
    state: ServerState
    last_state: ServerState | None
    errors: WorkunitError
    words: tuple[str, ...]
    limits: dict[str, float] | None
    place: Point


THINGS = RowMapper(
    Thing,
    {
        "host_id": "machine",
        "words": Column(sql="spoken", decode=lambda text: tuple(text.split()), encode=" ".join),
        "place": RowMapper(Point, {"x": "place_x", "y": "place_y"}),
    },
)
ROW = (7, 3, 1, 4, None, 5, "to be or", '{"a":1.5}', 1.0, 2.0)
THING = Thing(
    id=7,
    host_id=HostId(3),
    on=True,
    state=ServerState.IN_PROGRESS,
    last_state=None,
    errors=WorkunitError.COULDNT_SEND_RESULT | WorkunitError.TOO_MANY_SUCCESS_RESULTS,
    words=("to", "be", "or"),
    limits={"a": 1.5},
    place=Point(x=1.0, y=2.0),
)


def test_columns_are_named_after_the_fields_unless_said_otherwise() -> None:
    assert THINGS.columns == "id, machine, on, state, last_state, errors, spoken, limits, place_x, place_y"
    assert THINGS.of("t").startswith("t.id, t.machine, ")


def test_a_row_becomes_a_value_by_the_types_of_its_fields() -> None:
    thing = THINGS.load(ROW)
    assert thing == THING
    assert type(thing.on) is bool
    assert type(thing.state) is ServerState
    assert THINGS.load((*ROW, "more", "columns")) == THING


def test_what_is_stored_is_what_was_read() -> None:
    writer = THINGS.writer()
    assert writer.values(THING) == ROW
    assert writer.names == THINGS.names
    assert THINGS.load(writer.values(replace(THING, limits=None, on=False))).limits is None


def test_statements_name_each_column_once() -> None:
    writer = THINGS.writer(without=("id", "place", "limits", "errors"))
    assert writer.insert("thing", "made") == (
        "INSERT INTO thing (machine, on, state, last_state, spoken, made) VALUES (?, ?, ?, ?, ?, ?)"
    )
    assert writer.update("thing") == (
        "UPDATE thing SET machine = ?, on = ?, state = ?, last_state = ?, spoken = ? WHERE id = ?"
    )
    assert RowMapper(Point).writer().upsert("point", "x", "owner") == (
        "INSERT INTO point (x, y, owner) VALUES (?, ?, ?) ON CONFLICT (x, owner) DO UPDATE SET y = excluded.y"
    )


def test_values_that_are_shared_are_made_once() -> None:
    points = RowMapper(Point, shared=8)
    assert points.load((1.0, 2.0)) is points.load((1.0, 2.0))


def test_a_mapper_inside_of_a_join_names_the_table() -> None:
    joined = RowMapper(
        Thing,
        {"place": RowMapper(Point).embedded("p"), **dict.fromkeys(("words", "limits"), Column(sql="t.w"))},
    )
    assert joined.columns.endswith("t.w, t.w, p.x, p.y")


def test_a_number_that_is_no_state_is_not_read() -> None:
    with pytest.raises(UnreadableRow):
        THINGS.load((7, 3, 1, 77, *ROW[4:]))


def test_a_field_that_does_not_exist_is_named() -> None:
    with pytest.raises(TypeError, match="Point has no field z"):
        RowMapper(Point, {"z": "place_z"})


@value(kw_only=True)
class Spot:
    name: str
    place: Point
    limits: JobLimits


def test_values_are_made_with_all_that_they_hold_however_many_fields_they_have() -> None:
    spots = RowMapper(Spot, {"place": RowMapper(Point), "limits": RowMapper(JobLimits, shared=8)})
    limits = JobLimits(rsc_fpops_est=1.0, rsc_fpops_bound=2.0, delay_bound=6.0)
    row = ("here", 3.0, 4.0, *(getattr(limits, each.name) for each in fields(limits)))
    spot = spots.load(row)
    assert spot == Spot(name="here", place=Point(x=3.0, y=4.0), limits=limits)
    assert spots.load(row).limits is spot.limits
    with pytest.raises(UnreadableRow):
        RowMapper(Result).load((1, "r", 2, 3, 77, *range(21)))  # no state has this number
