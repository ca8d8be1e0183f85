"""Exports are read again: our own, one that the family's server wrote, and hostile ones."""

from __future__ import annotations

import gzip
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.project_world import World
from tests.integration.test_export import add_host, add_user, export

from cobblestone.cli import run_command
from cobblestone.domain.errors import ConfigError, RemoteProtocolError
from cobblestone.domain.exports import ExportedTable, ExportedUser
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.domain.values import TeamId, UserId
from cobblestone.server.operation.export import check_export
from cobblestone.statistics.ingest import ColumnReader
from cobblestone.wire.project.statistics_export import write_head, write_tail, write_user
from cobblestone.wire.project.statistics_import import ELEMENTS, MAX_RECORD_BYTES, ExportReader, row_maker

CREDIT = "<total_credit>0</total_credit><expavg_credit>0</expavg_credit>"
RECORDED = Path(__file__).parents[1] / "golden" / "statistics_export"


def read(table: ExportedTable, data: bytes, *, at_once: int = 10**9) -> list[dict[str, Any]]:
    """Return the records, by column."""
    reader = ExportReader(table, row_maker(table))
    columns = [each.column for each in ELEMENTS[table]]
    found = [
        dict(zip(columns, each, strict=True))
        for place in range(0, len(data), at_once)
        for each in reader.receive(data[place : place + at_once])
    ]
    reader.close()
    return found


def of_family(name: str) -> bytes:
    return (RECORDED / f"{name}.xml").read_bytes()


def test_an_export_of_the_familys_own_server_is_read_whole(tmp_path: Path):
    for table in ("user", "host", "team", "user_deleted", "host_deleted", "badge_user", "badge_team"):
        (tmp_path / f"{table}.gz").write_bytes(gzip.compress(of_family(table)))
    shutil.copyfile(RECORDED / "tables.xml", tmp_path / "tables.xml")
    found = {each.name: each for each in check_export(tmp_path)}
    assert {each.problem for each in found.values()} == {""}
    assert [found[f"{name}.gz"].records for name in ("user", "host", "team")] == [6, 9, 2]
    users = read(ExportedTable.USER, of_family("user"))
    assert (users[4]["name"], users[4]["country"]) == ("Jožko Mrkvička", "Côte d'Ivoire")


def test_files_in_parts_are_looked_at_and_missing_ones_are_said(tmp_path: Path):
    for table in ("user", "host", "team"):
        (tmp_path / f"{table}.gz").write_bytes(gzip.compress(of_family(table)))
    shutil.copyfile(RECORDED / "tables.xml", tmp_path / "tables.xml")
    text = of_family("user")
    for order in ("id", "total_credit"):
        for part in (0, 1):
            (tmp_path / f"user_{order}_{part}.gz").write_bytes(gzip.compress(text))
    problems = {each.name: each.problem for each in check_export(tmp_path)}
    assert "it counts 6 of user, the files user_id have 12" in problems["tables.xml"]
    (tmp_path / "user_id_1.gz").write_bytes(gzip.compress(text)[:-30])
    (tmp_path / "user_total_credit_0.gz").unlink()
    (tmp_path / "team.gz").unlink()
    problems = {each.name: each.problem for each in check_export(tmp_path)}
    assert "cut off" in problems["user_id_1.gz"]
    assert problems["user_total_credit_1.gz"] == ""
    assert "it counts 2 of team, and there is no file of them" in problems["tables.xml"]


def test_a_count_that_tables_xml_does_not_state_is_not_wrong(tmp_path: Path):
    (tmp_path / "user.gz").write_bytes(gzip.compress(of_family("user")))
    (tmp_path / "tables.xml").write_text("<tables><update_time>1</update_time></tables>")
    assert {each.problem for each in check_export(tmp_path)} == {""}


def test_parts_under_names_of_the_project_s_own_are_looked_at(tmp_path: Path):
    for part in (0, 1):
        (tmp_path / f"people_by_rac_{part}.gz").write_bytes(gzip.compress(of_family("user")))
    (tmp_path / "tables.xml").write_text("<tables><nusers_total>12</nusers_total></tables>")
    (tmp_path / "db_dump.xml").write_text(
        "<boinc_db_dump_spec><enumeration><table>user</table><filename>people_by_rac</filename><sort>expavg_credit</sort>"
        "<output><recs_per_file>6</recs_per_file></output></enumeration></boinc_db_dump_spec>"
    )
    assert {each.problem for each in check_export(tmp_path)} == {""}
    assert sum(each.records for each in check_export(tmp_path)) == 12
    (tmp_path / "people_by_rac_1.gz").unlink()
    assert "the file has 6" in check_export(tmp_path)[0].problem


def with_members(n: int) -> bytes:
    """The family's teams in its detail form: each with its members inside."""
    members = of_family("user").partition(b"<users>\n")[2].rpartition(b"</users>")[0] * n
    return of_family("team").replace(b"</team>\n", members + b"</team>\n")


def test_a_team_s_type_is_read_and_none_is_no_type():
    data = of_family("team").replace(b" <type>1</type>\n", b"")
    assert [each["type"] for each in read(ExportedTable.TEAM, data)] == [0, 2]


@pytest.mark.parametrize("at_once", [7, 1000, 10**9])
def test_members_inside_teams_are_left_out_however_many(at_once: int):
    data, plain = with_members(1 if at_once == 7 else 1000), read(ExportedTable.TEAM, of_family("team"))
    assert len(data) > MAX_RECORD_BYTES or at_once == 7
    assert read(ExportedTable.TEAM, data, at_once=at_once) == plain
    reader = ColumnReader(ExportedTable.TEAM)
    batches = [
        each for at in range(0, len(data), at_once) for each in reader.receive(data[at : at + at_once])
    ]
    reader.close()
    assert [row for each in batches for row in each.to_pylist()] == plain


@pytest.mark.parametrize("at_once", [1, 7, 64, 1000])
def test_it_does_not_matter_how_the_bytes_come(at_once: int):
    for table in ("user", "host", "team", "host_deleted"):
        data = of_family(table)
        assert read(ExportedTable(table), data, at_once=at_once) == read(ExportedTable(table), data)


def test_what_was_written_is_read_back(rng: random.Random):
    letters = "aé<>&\"';#1 ]]ж日"
    users = [
        ExportedUser(
            id=UserId(n),
            name="x" + "".join(rng.choices(letters, k=20)) + "x",
            create_time=float(rng.randrange(10**9)),
            credit=CreditStatement(
                rng.randrange(10**9) / 64, RecentAverage(rng.randrange(10**6) / 64, 1.5e9)
            ),
            cpid=f"{rng.getrandbits(128):032x}",
            team_id=TeamId(n) if n % 2 else None,
            has_profile=n % 3 == 0,
        )
        for n in range(1, 200)
    ]
    text = write_head(ExportedTable.USER) + "".join(map(write_user, users)) + write_tail(ExportedTable.USER)
    assert read(ExportedTable.USER, text.encode()) == [
        {
            "id": each.id,
            "create_time": each.create_time,
            "total": each.credit.total,
            "recent": each.credit.recent.value,
            "recent_time": each.credit.recent.time,
            "name": each.name,
            "cpid": each.cpid,
            "country": each.country,
            "team_id": each.team_id or 0,
        }
        for each in users
    ]


def test_our_own_export_is_found_good_and_a_cut_one_is_not(world: World, capsys: pytest.CaptureFixture[str]):
    add_host(world, add_user(world, "ana"))
    export(world)
    folder = world.ctx.folder.exports / "current"
    assert run_command(["export", "--check", str(folder)]) == 0
    assert "good" in capsys.readouterr().out
    copy = world.ctx.folder.root / "copy"
    shutil.copytree(folder, copy)
    (copy / "user.gz").write_bytes((copy / "user.gz").read_bytes()[:-30])
    (copy / "host.gz").write_bytes(gzip.compress(b"<hosts>\n<host><id>1</id></host>"))
    (copy / "team.gz").write_bytes(b"no gzip")
    assert run_command(["export", "--check", str(copy)]) == 1
    found = {each.name: each.problem for each in check_export(copy)}
    assert "cut" in found["user.gz"]
    assert "</hosts>" in found["host.gz"]
    assert "header" in found["team.gz"]
    with pytest.raises(ConfigError, match=r"no tables\.xml"):
        check_export(world.ctx.folder.root)


@pytest.mark.parametrize(
    "record",
    [
        "<id>-1</id>",
        "<id>x</id>",
        "",
        "<id>1e300</id>",
        "<id>1</id><total_credit>1e300</total_credit>",
        "<id>1</id><total_credit>-5</total_credit>",
        "<id>1</id><expavg_credit>nan</expavg_credit>",
        "<id>1</id><expavg_time>99999999999</expavg_time>",
        "<id>1</id><name>" + "x" * (MAX_RECORD_BYTES + 1) + "</name>",
        "<id>" + "9" * 5000 + "</id>",
    ],
)
def test_a_record_that_cannot_be_is_refused_and_the_others_are_read(record: str):
    reader = ExportReader(ExportedTable.USER, row_maker(ExportedTable.USER))
    good = f"<user><id>7</id><unknown>x</unknown>{CREDIT}</user>"
    found = reader.receive(f"<users>{good}<user>{record}{CREDIT}</user>{good}</users>".encode())
    reader.close()
    assert [each[0] for each in found] == [7, 7]
    assert reader.n_refused == 1
    assert reader.first_refusal


def test_a_record_without_end_is_not_kept_in_memory():
    reader = ExportReader(ExportedTable.USER, row_maker(ExportedTable.USER))
    reader.receive(b"<users><user>" + b"x" * (MAX_RECORD_BYTES - 100))
    with pytest.raises(RemoteProtocolError, match="longer than"):
        reader.receive(b"x" * 200)


def test_what_looks_like_an_element_in_free_text_is_none():
    host = '<id>1</id><misc><![CDATA[{"a":"<ncpus>99</ncpus><userid>5</userid>"}]]></misc><ncpus>2</ncpus>'
    (found,) = read(ExportedTable.HOST, f"<hosts><host>{host}{CREDIT}</host></hosts>".encode())
    assert (found["n_cpus"], found["user_id"]) == (2, 0)


def test_entities_of_a_document_type_mean_nothing():
    entities = '<!DOCTYPE users [<!ENTITY a "&b;&b;"><!ENTITY b "x">]>'
    bomb = f"{entities}<users><user><id>1</id><name>&a;</name>{CREDIT}</user></users>"
    (found,) = read(ExportedTable.USER, bomb.encode())
    assert found["name"] == "&a;"


def test_a_packed_bomb_is_refused_before_it_fills_anything(tmp_path: Path):
    shutil.copyfile(RECORDED / "tables.xml", tmp_path / "tables.xml")
    (tmp_path / "user.gz").write_bytes(gzip.compress(b"<users>" + b" " * 50_000_000))
    found = {each.name: each.problem for each in check_export(tmp_path)}
    assert "times its size" in found["user.gz"]


def test_any_bytes_give_records_or_an_error_of_the_protocol(rng: random.Random):
    data = of_family("host") + of_family("team")
    for _ in range(300):
        mutated = bytearray(data)
        for _ in range(rng.randrange(1, 40)):
            place = rng.randrange(len(mutated))
            mutated[place : place + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        for table in (ExportedTable.HOST, ExportedTable.TEAM):
            reader = ExportReader(table, row_maker(table))
            try:
                for place in range(0, len(mutated), 999):
                    reader.receive(bytes(mutated[place : place + 999]))
                reader.close()
            except RemoteProtocolError:
                pass
