"""Our export beside one that the family's own server wrote: the same elements, order, indentation and forms of numbers."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path

from lxml import etree

from cobblestone.domain.exports import (
    BadgeHolder,
    Deletion,
    Enumeration,
    ExportedBadge,
    ExportedHost,
    ExportedTable,
    ExportedTeam,
    ExportedUser,
    ExportFormat,
    ExportSummary,
    enumerations,
)
from cobblestone.domain.hosts import Coprocessor, ExportedHardware
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.domain.values import HostId, TeamId, UserId
from cobblestone.wire.project.statistics_export import (
    write_badge_holder,
    write_head,
    write_host,
    write_host_deletion,
    write_specification,
    write_tables,
    write_tail,
    write_team,
    write_user,
    write_user_deletion,
)

FOLDER = Path(__file__).parent / "statistics_export"


def recorded(name: str) -> str:
    """A recorded file, without what is deliberately different here.

    There letters beyond ASCII in names are one reference for each *byte*; ``credit_per_cpu_sec`` is of a credit system of
    the past.
    """
    text = (FOLDER / f"{name}.xml").read_text()
    text = re.sub(r"(?:&#\d+;)+", lambda found: bytes(map(int, re.findall(r"\d+", found[0]))).decode(), text)
    return text.replace("<credit_per_cpu_sec>0.001000<", "<credit_per_cpu_sec>0.000000<")


def document(table: ExportedTable, written: list[str]) -> str:
    """A whole file of ours; there ``>`` and quotation marks are not escaped."""
    text = write_head(table) + "".join(written) + write_tail(table)
    return text.replace("&gt;", ">").replace("&quot;", '"')


def records(text: str, element: str) -> list[str]:
    return re.findall(rf"<{element}>\n.*?</{element}>\n", text, re.DOTALL)


def field(record: str, name: str) -> str:
    found = re.search(rf"<{name}>(.*?)</{name}>", record)
    return html.unescape(found[1]) if found else ""


def number(record: str, name: str) -> float:
    return float(field(record, name) or 0)


def credit(record: str) -> CreditStatement:
    return CreditStatement(
        number(record, "total_credit"),
        RecentAverage(number(record, "expavg_credit"), number(record, "expavg_time")),
    )


def test_users_are_written_as_the_family_writes_them():
    text = recorded("user")
    users = [
        ExportedUser(
            id=UserId(int(field(each, "id"))),
            name=field(each, "name"),
            create_time=number(each, "create_time"),
            credit=credit(each),
            cpid=field(each, "cpid"),
            country=field(each, "country"),
            url=field(each, "url"),
            team_id=TeamId(int(field(each, "teamid"))) if "<teamid>" in each else None,
            has_profile="<has_profile/>" in each,
        )
        for each in records(text, "user")
    ]
    assert len(users) == 6
    assert users[4].name == "Jožko Mrkvička"
    assert document(ExportedTable.USER, [write_user(user) for user in users]) == text


def test_hosts_are_written_as_the_family_writes_them():
    text = recorded("host")
    # numbers and texts that stand there under our own names
    numbers = (
        "p_fpops", "p_iops", "p_membw", "m_nbytes", "m_cache", "m_swap", "d_total", "d_free", "n_bwup", "n_bwdown",
    )  # fmt: skip
    texts = ("p_vendor", "p_model", "os_name", "os_version")
    written: list[str] = []
    # Computers that are hidden stand there without owner, and here not at all.
    shown = [each for each in records(text, "host") if "<userid>" in each]
    for each in shown:
        host = ExportedHost(
            id=HostId(int(field(each, "id"))),
            user_id=UserId(int(field(each, "userid"))),
            credit=credit(each),
            create_time=number(each, "create_time"),
            rpc_time=number(each, "rpc_time"),
            host_cpid=field(each, "host_cpid"),
            avg_turnaround=number(each, "avg_turnaround"),
            hardware=replace(
                ExportedHardware(timezone=int(field(each, "timezone")), p_ncpus=int(field(each, "ncpus"))),
                **{name: number(each, name) for name in numbers},
                **{name: field(each, name) for name in texts},
            ),
        )
        # Of what the other server keeps in `misc` ours knows nothing.
        misc = re.search(r"<!\[CDATA\[.*?\]\]>", each)
        written.append(write_host(host).replace("<![CDATA[]]>", misc[0] if misc else ""))
    assert len(written) == 7
    assert document(ExportedTable.HOST, written) == document(ExportedTable.HOST, shown)


def test_teams_are_written_as_the_family_writes_them():
    text = recorded("team")
    teams = [
        ExportedTeam(
            id=TeamId(int(field(each, "id"))),
            name=field(each, "name"),
            credit=credit(each),
            create_time=number(each, "create_time"),
            founder_id=UserId(int(field(each, "userid"))),
            founder_name=field(each, "founder_name"),
            type=int(field(each, "type")),
            name_html=field(each, "name_html"),
            url=field(each, "url"),
            description=field(each, "description"),
            country=field(each, "country"),
        )
        for each in records(text, "team")
    ]
    assert [(team.type, team.name_html) for team in teams] == [(1, "<b>Bold</b> & <i>html</i>"), (2, "")]
    assert document(ExportedTable.TEAM, [write_team(team) for team in teams]) == text


def test_deletions_are_written_as_the_family_writes_them():
    for name, table, element, write, cpid in (
        ("user_deleted", ExportedTable.USER_DELETED, "user", write_user_deletion, "cpid"),
        ("host_deleted", ExportedTable.HOST_DELETED, "host", write_host_deletion, "host_cpid"),
    ):
        text = recorded(name)
        written = [
            write(Deletion(int(field(each, "id")), field(each, cpid))) for each in records(text, element)
        ]
        assert document(table, written).rstrip("\n") == text.rstrip("\n")


def test_who_has_a_badge_is_written_as_the_family_writes_it():
    for table in (ExportedTable.BADGE_USER, ExportedTable.BADGE_TEAM):
        text = recorded(table)
        holders = [
            BadgeHolder(
                int(number(each, f"{table[6:]}_id")),
                int(number(each, "badge_id")),
                number(each, "create_time"),
            )
            for each in re.findall(rf"<{table}>.*?</{table}>", text, re.DOTALL)
        ]
        assert len(holders) == {ExportedTable.BADGE_USER: 2, ExportedTable.BADGE_TEAM: 1}[table]
        assert document(table, [write_badge_holder(table, each) for each in holders]) == text


def test_tables_have_the_same_elements_and_are_well_formed():
    summary = ExportSummary(
        update_time=1795341929.0,
        n_users=6,
        n_teams=2,
        n_hosts=9,
        n_users_deleted=2,
        n_hosts_deleted=1,
        total_credit=6027.740736,
        applications=("Friendly & bench", "Friendly & bench2"),
        badges=(
            ExportedBadge(id=1, name="pct_1", title="Top 1% in average credit", image_url="img/pct_1.png"),
            ExportedBadge(id=2, name="t & x", title="Team <best>", image_url="img/x.png"),
        ),
    )
    text = write_tables(summary)
    recorded_text = (FOLDER / "tables.xml").read_text()
    wanted = recorded_text.replace("& ", "&amp; ").replace("<best>", "&lt;best&gt;")
    assert text == wanted
    etree.fromstring(text.encode())


def test_the_specification_names_the_same_files():
    ours = etree.fromstring(
        write_specification(
            enumerations(formats=(ExportFormat.GZIP,), split=None, records_per_file=0)
        ).encode()
    )
    theirs = etree.parse(FOLDER / "db_dump.xml").getroot()
    wanted = {etree.tostring(each, method="c14n") for each in theirs.findall("enumeration")}
    assert {etree.tostring(each, method="c14n") for each in ours.findall("enumeration")} == wanted


def test_hostile_texts_and_numbers_stay_within_their_elements():
    name = "</name><id>1</id>]]>&\x00\x1b\u2028\ud800\ufffe\n 'x' \"y\""
    user = ExportedUser(
        id=UserId(1),
        name=name,
        create_time=float("nan"),
        credit=CreditStatement(float("inf"), RecentAverage(1e300, -1.0)),
        cpid=name,
        country=name,
        url=name,
    )
    element = etree.fromstring(write_user(user).encode())
    assert [each.tag for each in element] == [
        "id", "name", "create_time", "total_credit", "expavg_credit", "expavg_time", "cpid", "country", "url",
    ]  # fmt: skip
    assert (element.findtext("name") or "").split() == ["</name><id>1</id>]]>&", "'x'", '"y"']
    assert [element.findtext(tag) for tag in ("total_credit", "expavg_credit")] == ["0.000000", "0.000000"]
    team = ExportedTeam(
        id=TeamId(1),
        name=name,
        credit=CreditStatement(),
        create_time=0.0,
        founder_name=name,
        name_html=name,
        description=name * 1000,
    )
    assert len(etree.fromstring(write_team(team).encode())) == 12


def test_what_a_host_says_of_its_devices_ends_no_section():
    gpu = Coprocessor(type="]]><x/>", count=2, name="\x00\x7f]]>\ud800é")
    host = ExportedHost(
        id=HostId(1),
        user_id=UserId(1),
        credit=CreditStatement(),
        create_time=0.0,
        rpc_time=0.0,
        host_cpid="",
        hardware=ExportedHardware(coprocessors=(gpu,), p_model="<b>"),
    )
    element = etree.fromstring(write_host(host).encode())
    (found,) = json.loads(element.findtext("misc") or "")["coprocs"]
    assert found["type"] == "]]><x/>"
    assert element.findtext("p_model") == "<b>"


def test_files_in_parts_carry_their_order_and_number():
    one = Enumeration(table=ExportedTable.USER, records_per_file=100)
    assert [one.part_name(part) for part in (0, 1)] == ["user_id_0", "user_id_1"]
    assert "<sort>id</sort>" in write_specification([one])
    assert "<recs_per_file>100</recs_per_file>" in write_specification([one])
