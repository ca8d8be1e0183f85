"""Tables of fields: a compiled reader says the same as one call for each field, and reads what the writer wrote as it was."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone import wire
from cobblestone.domain.errors import LocalProtocolError
from cobblestone.domain.values import value
from cobblestone.wire.project.pages import canonical_master_url
from cobblestone.wire.text.reader import FieldReader, Lenience, scan_fields
from cobblestone.wire.text.table import FieldTable, FlagField, Given, Inside, Kind, Mark, Number, Text, Whole
from cobblestone.wire.text.tree import read_tree


@value(kw_only=True)
class Block:
    number: Annotated[float, Number()]
    share: Annotated[float, Number(-1.0, 1.0, element="fraction")] = 1.0
    whole: Annotated[int, Whole(-1, 100_000, default=-1)] = 0
    large: Annotated[int, Whole(high=2**62)]
    flag: Annotated[bool, FlagField()] = False
    text: Annotated[str, Text(8)] = ""
    given: int
    kept: str = "default"


TABLE = FieldTable(Block)
read = TABLE.read

# Bytes in a str, as the scan of a request gives them.
NUMBERS = [
    "0",
    "1",
    "2",
    "-1",
    "1.5",
    "1_0",
    "nan",
    "-inf",
    "1e400",
    "1e18",
    "1e19",
    "100001",
    "4611686018427387904",
    "0x10",
    "true",
]
ODD = [
    "",
    " ",
    " 7 ",
    "a&amp;b",
    "&#0;",
    "&lt;&lt;&lt;",
    "long enough",
    "a\nb",
    "\x01",
    "\x85",
    "\xc3\xa9",
    "\xff",
    "\xa0",
]
texts = st.sampled_from(NUMBERS + ODD) | st.text(st.characters(max_codepoint=255), max_size=12)


@given(
    st.dictionaries(st.sampled_from(["number", "fraction", "whole", "large", "flag", "text", "share"]), texts)
)
def test_a_written_out_reader_gives_what_calls_give_and_notes_the_same(fields: dict[str, str]) -> None:
    expected_notes: list[Lenience] = []
    calls = FieldReader(fields, "block", expected_notes)
    expected = Block(
        number=calls.number("number"),
        share=calls.number("fraction", 1.0, -1.0, 1.0),
        whole=calls.integer("whole", -1, -1, 100_000),
        large=calls.integer("large", high=2**62),
        flag=calls.flag("flag"),
        text=calls.text("text", 8),
        given=3,
    )
    notes: list[Lenience] = []
    found = read(FieldReader(fields, "block", notes), given=3)
    assert found == expected
    assert [type(getattr(found, name)) for name in TABLE.kinds] == [
        type(getattr(expected, name)) for name in TABLE.kinds
    ]
    assert notes == expected_notes


def test_fields_that_no_table_has_are_given_or_have_their_defaults() -> None:
    assert read(FieldReader({}, "block", []), given=1, kept="own").kept == "own"
    with pytest.raises(TypeError, match="given"):
        read(FieldReader({}, "block", []))


def test_a_table_is_of_a_class_that_is_no_more_than_its_fields() -> None:
    @dataclasses.dataclass(frozen=True)
    class Frozen:
        speed: Annotated[float, Number()] = 0.0

    with pytest.raises(TypeError, match="no plain value"):
        FieldTable(Frozen)


# -- writing --------------------------------------------------------------------------------------------


@value(kw_only=True)
class Job:
    name: Annotated[str, Given(Text())]
    speed: Annotated[float, Number(digits=0)] = 0.0
    files: Annotated[tuple[str, ...], Inside()] = ()
    urgent: Annotated[bool, Mark()] = False
    note: Annotated[
        str, Text(element="remark", optional=True, write=lambda element, text: f"{element}:{text}")
    ] = ""


JOB = FieldTable(Job, {"parts": "urgent", "rest": ""})


def test_a_layout_has_the_order_the_places_and_the_lines_of_its_table() -> None:
    job = Job(name="a<b", speed=2.6, urgent=True, note="x")
    whole = JOB.layout(tag="job", outside=" ").write(
        job, files="    <file/>\n", parts="<part/>\n", rest="end\n"
    )
    assert whole == (
        " <job>\n    <name>a&lt;b</name>\n    <speed>3</speed>\n    <file/>\n<part/>\n    <urgent/>\n"
        "    <remark>remark:x</remark>\nend\n </job>\n"
    )
    left = JOB.layout(without=("name", "files", "parts", "note"), indent="").write(job, rest="end\n")
    assert left == "<speed>3</speed>\n<urgent/>\nend\n"
    assert JOB.layout("speed", "urgent", "note", indent="").write(Job(name="a")) == "<speed>0</speed>\n"


def test_clients_write_what_they_know_plainly_and_by_names_of_their_own() -> None:
    layout = JOB.layout(
        "note", "speed", indent="", plain=True, renamed={"speed": "rate"}, optional=("speed",)
    )
    assert layout.write(Job(name="a", speed=2.5, note="x")) == "<remark>x</remark>\n<rate>2.500000</rate>\n"
    assert layout.write(Job(name="a")) == ""


@pytest.mark.parametrize("speed", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused(speed: float) -> None:
    with pytest.raises(LocalProtocolError, match="only finite numbers"):
        JOB.layout("name", "speed").write(Job(name="a", speed=speed))


def test_huge_numbers_whose_sum_is_not_finite_are_written() -> None:
    huge = Block(number=1e308, share=1e308, large=0, given=0)
    written = TABLE.layout("number", "share").write(huge)
    assert [float(text) for text in scan_fields(written, "block").values()] == [1e308, 1e308]


# -- the tables of the protocol -------------------------------------------------------------------------


def all_tables() -> dict[str, FieldTable[Any]]:
    """Every table of the package, by module and name."""
    modules = [
        importlib.import_module(each.name)
        for each in pkgutil.walk_packages(wire.__path__, "cobblestone.wire.")
        if not each.ispkg
    ]
    return {
        f"{module.__name__.removeprefix('cobblestone.wire.')}:{name}": table
        for module in modules
        for name, table in vars(module).items()
        if isinstance(table, FieldTable) and module.__name__ != "cobblestone.wire.text.table"
    }


TABLES = all_tables()
LINE = st.text(st.characters(categories=("L", "N", "P", "S"), include_characters=" "), max_size=30).map(
    str.strip
)
NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789_", min_size=1, max_size=30)


def written_exactly(kind: Kind) -> st.SearchStrategy[Any]:
    """Values that the kind's reader takes as they are, and that its digits can carry."""
    match kind:
        case Number():
            low = kind.low if kind.least is None else kind.least
            high = min(kind.high if kind.most is None else kind.most, 1e9)
            parts = 1 if kind.digits == 0 else 64
            return st.integers(int(low * parts), int(high * parts)).map(lambda number: number / parts)
        case Whole():
            return st.integers(kind.low, min(kind.high, 2**53))  # read by way of C's double
        case FlagField() | Mark():
            return st.booleans()
        case Text(read=read) if read is canonical_master_url:
            return NAMES.map("https://example.org/{}/".format)
        case Text():
            plain = kind.read is None and kind.write is None
            return LINE if plain and kind.limit >= 30 else NAMES


@pytest.mark.parametrize("name", TABLES)
@given(data=st.data())
def test_every_table_reads_what_it_wrote(name: str, data: st.DataObject) -> None:
    table = TABLES[name]
    kinds = {field: kind for field, kind in table.kinds.items() if not isinstance(kind, Inside)}
    values = {field: data.draw(written_exactly(kind), label=field) for field, kind in kinds.items()}
    others = {
        field.name: None
        for field in dataclasses.fields(table.cls)
        if field.name not in values and field.default is field.default_factory is dataclasses.MISSING
    }
    whole = table.cls(**values, **others)
    text = table.layout(*kinds).write(whole)
    given_by_caller = {field: each for field, each in values.items() if field not in table.scalars}
    notes: list[Lenience] = []
    reader = read_tree(f"<block>{text}</block>".encode(), "block").reader(notes)
    found = table.read(reader, **given_by_caller, **others)
    assert {field: getattr(found, field) for field in kinds} == values
    assert notes == []
