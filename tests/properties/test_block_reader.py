"""Readers that are written out say the same as one call for each field, whatever the texts are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.values import value
from cobblestone.wire.text.reader import (
    FieldReader,
    FlagField,
    Kind,
    Lenience,
    Number,
    Text,
    Whole,
    block_reader,
)


@value(kw_only=True)
class Block:
    number: float = 0.0
    share: float = 1.0
    whole: int = 0
    large: int = 0
    flag: bool = False
    text: str = ""
    given: int
    kept: str = "default"


TABLE: dict[str, Kind] = {
    "number": Number(),
    "share": Number(1.0, -1.0, 1.0, element="fraction"),
    "whole": Whole(-1, -1, 100_000),
    "large": Whole(high=2**62),
    "flag": FlagField(),
    "text": Text(8),
}
read = block_reader(Block, TABLE)

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
    assert [type(getattr(found, name)) for name in TABLE] == [type(getattr(expected, name)) for name in TABLE]
    assert notes == expected_notes


def test_fields_that_no_table_has_are_given_or_have_their_defaults() -> None:
    assert read(FieldReader({}, "block", []), given=1, kept="own").kept == "own"
    with pytest.raises(TypeError, match="given"):
        read(FieldReader({}, "block", []))


def test_a_table_names_fields_of_its_class_only() -> None:
    with pytest.raises(TypeError, match="no plain value with speed"):
        block_reader(Block, {"speed": Number()})
