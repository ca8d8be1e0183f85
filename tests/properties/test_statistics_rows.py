"""The quick reader of exports gives what the strict one gives, whatever a record looks like."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.statistics_exports import population

from cobblestone.domain.exports import ExportedTable
from cobblestone.statistics.ingest import ColumnReader
from cobblestone.wire.project.statistics_export import write_head, write_tail
from cobblestone.wire.project.statistics_import import ExportReader, Row, row_maker

RECORDED = Path(__file__).parents[1] / "golden" / "statistics_export"
TABLES = (ExportedTable.USER, ExportedTable.HOST, ExportedTable.TEAM)

ODD_NUMBERS = st.sampled_from(
    ["", "0", "-1", "1e5", "nan", "inf", "1e400", "0x10", "٣", " 7 ", "1_0", "3999999999", "4000000001"]
)
NUMBERS = st.one_of(
    st.integers(0, 2**54).map(str),
    st.floats(0, 1e12).map("{:f}".format),
    st.floats(0, 1e31).map(repr),
    ODD_NUMBERS,
)
TEXTS = st.one_of(
    st.text(st.characters(codec="ascii", exclude_characters="<"), max_size=20),
    st.text(max_size=300),
    st.sampled_from(
        [
            "a&amp;b",
            "Jo&#197;&#190;ko",
            "&#0;",
            "]]>",
            "  x  ",
            "<b>",
            "<![CDATA[x]]>",
            "x\ty\nz",
            "\x85 \x7f",
        ]
    ),
)
CPIDS = st.one_of(
    st.from_regex("[0-9a-f]{32}", fullmatch=True), st.just("A" * 32), st.just("none"), st.just("")
)
LAYOUTS = {
    ExportedTable.USER: [
        "id",
        "name",
        "create_time",
        "total_credit",
        "expavg_credit",
        "expavg_time",
        "cpid",
        "country",
        "url",
        "teamid",
    ],
    ExportedTable.HOST: [
        "id",
        "userid",
        "total_credit",
        "expavg_credit",
        "expavg_time",
        "p_vendor",
        "p_model",
        "os_name",
        "os_version",
        "misc",
        "create_time",
        "rpc_time",
        "timezone",
        "ncpus",
        "p_fpops",
        "credit_per_cpu_sec",
        "host_cpid",
    ],
    ExportedTable.TEAM: [
        "id",
        "type",
        "name",
        "userid",
        "total_credit",
        "expavg_credit",
        "expavg_time",
        "founder_name",
        "create_time",
        "url",
        "description",
        "country",
    ],
}
OF_TEXT = {
    "name",
    "country",
    "url",
    "p_vendor",
    "p_model",
    "os_name",
    "os_version",
    "founder_name",
    "description",
}


def values(name: str) -> st.SearchStrategy[str]:
    if name in OF_TEXT:
        return TEXTS
    if name == "misc":
        return st.sampled_from(
            [
                "<![CDATA[]]>",
                '<![CDATA[{"coprocs":[{"name":"RTX \u00b5","count":2},{"name":"Arc","count":1e999}]}]]>',
                '<![CDATA[{"gpus":[{"name":" Arc "},{"name":"RTX","count":3}]}]]>',
                '{"gpus":[{"name":"bare"}]}',
                '<![CDATA[{"gpus":[{"name":[1],"count":NaN}]}]]>',
                '<![CDATA[{"gpus":7,"coprocs":[1]}]]>',
                '<![CDATA[{"gpus":[{"name":"a]]>b"}]}]]>',
                '<![CDATA[{"gpus":[{"name":"x"}]}]]',
                "<![CDATA[" + "[" * 3000 + "]]>",
                '<![CDATA[{"a":[1]}]]>',
                "<![CDATA[<ncpus>99</ncpus>]]>",
                "<![CDATA[a>b<ncpus>99</ncpus>]]>",
                "<![CDATA[",
            ]
        )
    return CPIDS if name.endswith("cpid") else NUMBERS


@st.composite
def records(draw: st.DrawFn, table: ExportedTable) -> str:
    """A record as it is usual, then with something about it that is not."""
    usual = {name: "1" if name not in OF_TEXT | {"misc"} else "x" for name in LAYOUTS[table]}
    usual |= {name: "0123456789abcdef" * 2 for name in usual if name.endswith("cpid")}
    usual |= {"misc": "<![CDATA[]]>"} if "misc" in usual else {}
    for name in draw(st.lists(st.sampled_from(sorted(usual)), max_size=3)):
        usual[name] = draw(values(name))
    elements = list(usual.items())
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(elements)))
        match draw(st.sampled_from(["double", "lose", "unknown", "swap"])):
            case "double":
                name = draw(st.sampled_from(sorted(usual)))
                elements.insert(place, (name, draw(values(name))))
            case "lose":
                del elements[place : place + 1]
            case "unknown":
                elements.insert(place, ("new_thing", draw(TEXTS)))
            case _:
                elements.insert(0, elements.pop())
    gap = draw(st.sampled_from(["\n ", "", "\r\n\t", "\n    "]))
    tail = draw(st.sampled_from(["", f"{gap}<has_profile/>", "junk", "<!-- -->"]))
    root = table.value
    return (
        f"<{root}>"
        + "".join(f"{gap}<{name}>{text}</{name}>" for name, text in elements)
        + f"{tail}\n</{root}>\n"
    )


def rows_of(batches: Iterable[Any]) -> list[Row]:
    return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch), strict=True)]


def strict_rows(table: ExportedTable, data: bytes) -> tuple[list[Row], int]:
    reader = ExportReader(table, row_maker(table))
    return reader.receive(data), reader.n_refused


@given(st.data())
def test_both_readers_take_the_same_records_to_the_same_rows(data: st.DataObject):
    table = data.draw(st.sampled_from(TABLES))
    text = "".join(data.draw(st.lists(records(table), min_size=1, max_size=4)))
    document = (write_head(table) + text + write_tail(table)).encode("utf-8", "surrogatepass")
    reader = ColumnReader(table)
    rows = rows_of(reader.receive(document))
    assert (rows, reader.n_refused) == strict_rows(table, document)


@given(st.integers(1, 400))
def test_rows_of_a_real_export_are_those_of_the_strict_reader_however_the_bytes_come(at_once: int):
    for table in TABLES:
        document = (RECORDED / f"{table}.xml").read_bytes()
        reader = ColumnReader(table)
        pieces = [
            reader.receive(document[place : place + at_once]) for place in range(0, len(document), at_once)
        ]
        reader.close()
        assert [row for batches in pieces for row in rows_of(batches)] == strict_rows(table, document)[0]


def test_usual_exports_do_not_need_the_strict_reader(monkeypatch: pytest.MonkeyPatch):
    """Else reading is several times slower."""
    export = population(1, n_users=50, time=1.7e9)
    documents = {
        name: gzip.decompress(data) for name, data in export.documents().items() if name.endswith(".gz")
    }
    expected = {table: rows_of(ColumnReader(table).receive(documents[f"{table}.gz"])) for table in TABLES}
    monkeypatch.setattr(ExportReader, "records", None)
    for table in TABLES:
        assert rows_of(ColumnReader(table).receive(documents[f"{table}.gz"])) == expected[table]
        assert expected[table]
