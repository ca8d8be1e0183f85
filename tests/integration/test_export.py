"""Exports for statistics sites: who is in them, how they replace each other, and how they are served."""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from tests.helpers.eventually import eventually
from tests.helpers.project_world import URL, World

from cobblestone.cli import run_command
from cobblestone.domain.errors import Busy, ConfigError, StoreError
from cobblestone.domain.exports import ExportOrder
from cobblestone.domain.values import UserId
from cobblestone.policy.credit.history import FIRST_SECONDS, KEEP_DELETIONS, LATE_SECONDS
from cobblestone.server.daemons.housekeeping import BadgeKeeper, export_if_due, keep_accounts
from cobblestone.server.files.exports import ExportReport, last_export
from cobblestone.server.operation import export as exporting
from cobblestone.server.operation import export_files
from cobblestone.server.operation.alerts import export_warnings
from cobblestone.server.operation.export import make_export
from cobblestone.store.engine import reading
from cobblestone.store.operation import exports
from cobblestone.store.people import account_changes, users
from cobblestone.wire.project.account import external_cpid

pytestmark = pytest.mark.both_databases

DESCRIPTION = '{"p_ncpus": 8, "p_vendor": "V & Co", "p_model": "M<1>", "os_name": "Linux", "p_fpops": 4e9}'


def add_user(
    world: World, name: str, *, credit: float = 100.0, agreed: bool | None = True, **columns: Any
) -> int:
    values = {
        "name": name,
        "email_addr": f"{name}@example.org",
        "authenticator": f"a{name}",
        "weak_authenticator": f"w{name}",
        "cross_project_id": "c" * 32,
        "total_credit": credit,
        "expavg_credit": credit / 10,
        "expavg_time": world.now - 5,
        "create_time": world.now - 1000,
        **columns,
    }
    user_id = insert(world, "user_account", values)
    if agreed is not None:
        say(world, user_id, agreed)
    return user_id


def say(world: World, user_id: int, agreed: bool) -> None:
    insert(
        world,
        "consent",
        {
            "user_id": user_id,
            "kind": "statistics",
            "agreed": int(agreed),
            "time": world.now,
            "source": "test",
        },
    )


def add_host(world: World, user_id: int, *, credit: float = 50.0, **columns: Any) -> int:
    values = {
        "user_id": user_id,
        "host_cpid": os.urandom(16).hex(),
        "total_credit": credit,
        "expavg_credit": credit / 10,
        "expavg_time": world.now,
        "description": DESCRIPTION,
        "create_time": world.now - 500,
        "rpc_time": world.now - 50,
        **columns,
    }
    return insert(world, "host", values)


def insert(world: World, table: str, values: dict[str, Any]) -> int:
    names = ", ".join(values)
    sql = f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(values))})"
    return world.write(lambda tx: tx.insert(sql, tuple(values.values())))


def export(world: World, **options: Any) -> ExportReport:
    world.now += 1
    return make_export(world.ctx.folder, now=world.now, **options)


def read(world: World, name: str) -> etree._Element:
    path = world.ctx.folder.exports / "current" / name
    data = path.read_bytes()
    return etree.fromstring(gzip.decompress(data) if path.suffix == ".gz" else data)


def ids(world: World, name: str) -> list[int]:
    return [int(each.findtext("id") or "") for each in read(world, name)]


def erase(world: World, user_id: int) -> None:
    world.write(
        lambda tx: account_changes.erase(tx, user_id, key=os.urandom(16).hex(), now=world.now)  # type: ignore[arg-type]  # a plain number
    )


def test_only_people_who_agreed_are_exported_and_of_their_computers_those_that_they_show(world: World):
    ana = add_user(world, "ana", url="https://ana.example/", country="Slovakia")
    add_user(world, "never_asked", agreed=None)
    no = add_user(world, "no", agreed=False)
    add_user(world, "no_credit", credit=0.0)
    add_user(world, "going", erase_time=world.now + 1000)
    hiding = add_user(world, "hiding", show_hosts=0, url="javascript:alert(1)")
    changed = add_user(world, "changed")
    say(world, changed, False)
    say(world, changed, True)
    shown = add_host(world, ana)
    add_host(world, ana, hidden=1)
    add_host(world, hiding)
    add_host(world, no)
    add_host(world, ana, credit=0.0)
    add_host(world, ana, merged_into=shown)
    made = export(world)
    assert ids(world, "user.gz") == [ana, hiding, changed]
    first, second, _ = read(world, "user.gz")
    assert first.findtext("cpid") == external_cpid("c" * 32, "ana@example.org")
    assert (first.findtext("url"), second.findtext("url")) == ("https://ana.example/", None)
    assert ids(world, "host.gz") == [shown]
    assert [each.findtext("userid") for each in read(world, "host.gz")] == [str(ana)]
    assert read(world, "host.gz")[0].findtext("p_model") == "M<1>"
    tables = read(world, "tables.xml")
    assert tables.findtext("nusers_total") == "3"
    assert tables.findtext("nhosts_total") == "1"
    assert float(tables.findtext("total_credit") or "") == made.total_credit == 300.0
    assert b"never_asked" not in b"".join(
        path.read_bytes() if path.suffix != ".gz" else gzip.decompress(path.read_bytes())
        for path in (world.ctx.folder.exports / "current").iterdir()
    )


def test_a_team_names_its_founder_only_if_the_founder_agreed(world: World):
    ana, no = add_user(world, "ana"), add_user(world, "no", agreed=False)
    team = {"total_credit": 5.0, "expavg_credit": 1.0, "expavg_time": 1.0, "description": "<b>\nlines</b>"}
    one = {"founder_id": ana, "type": 6, "name_html": "<b>One</b> & all"}
    insert(world, "team", {**team, **one, "name": "One", "name_lc": "one"})
    insert(world, "team", {**team, "name": "Two", "name_lc": "two", "founder_id": no})
    insert(world, "team", {**team, "name": "Three", "name_lc": "three", "total_credit": 0.0})
    export(world)
    found = [
        tuple(map(each.findtext, ("name", "userid", "founder_name", "type", "name_html")))
        for each in read(world, "team.gz")
    ]
    assert found == [("One", str(ana), "ana", "6", "<b>One</b> & all"), ("Two", "0", "", "1", None)]


def test_who_leaves_is_announced_for_sixty_days_and_then_forgotten(world: World):
    erased, took_back, never = (
        add_user(world, "erased"),
        add_user(world, "took_back"),
        add_user(world, "never", agreed=False),
    )
    stays = add_user(world, "stays")
    computers = [add_host(world, user_id) for user_id in (erased, took_back, never)]
    removed = add_host(world, stays, removed_time=world.now)
    cpid = world.value("SELECT host_cpid FROM host WHERE id = ?", computers[0])
    erase(world, erased)
    erase(world, never)
    say(world, took_back, False)
    export(world)
    gone = {each.findtext("id"): each.findtext("cpid") for each in read(world, "user_deleted.gz")}
    assert gone == {
        str(user): external_cpid("c" * 32, f"{name}@example.org")
        for user, name in ((erased, "erased"), (took_back, "took_back"))
    }
    assert ids(world, "host_deleted.gz") == [computers[0], computers[1], removed]
    assert read(world, "host_deleted.gz")[0].findtext("host_cpid") == cpid
    assert (ids(world, "user.gz"), ids(world, "host.gz")) == ([stays], [])
    say(world, took_back, True)
    export(world)
    assert ids(world, "user_deleted.gz") == [erased]
    assert ids(world, "host.gz") == [computers[1]]
    world.now += KEEP_DELETIONS + 10
    world.run(keep_accounts(world.ctx))
    export(world)
    assert ids(world, "user_deleted.gz") == []
    assert ids(world, "host_deleted.gz") == []
    assert world.value("SELECT COUNT(*) FROM deletion") == 0


def test_a_removed_computer_that_calls_again_is_back(world: World):
    host = add_host(world, add_user(world, "ana"), removed_time=world.now)
    world.write(lambda tx: tx.execute("UPDATE host SET rpc_time = ? WHERE id = ?", (world.now + 1, host)))
    world.run(keep_accounts(world.ctx))
    export(world)
    assert (ids(world, "host.gz"), ids(world, "host_deleted.gz")) == ([host], [])


@pytest.mark.parametrize("order", ["id", "total_credit", "expavg_credit"])
def test_parts_hold_all_rows_in_order_each_file_a_document_of_its_own(
    make_world: Callable[..., World], order: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading, "PAGE", 7)
    monkeypatch.setattr(export_files, "CHUNK", 30)
    world = make_world(export={"split": order, "records_per_file": 100, "formats": "both"})
    owner = add_user(world, "ana")
    # Many with the same credit: pages must neither lose nor repeat any.
    hosts = {add_host(world, owner, credit=1.0 + n % 3): 1.0 + n % 3 for n in range(200)}
    export(world)
    wanted = sorted(hosts) if order == "id" else sorted(hosts, key=lambda id_: (-hosts[id_], -id_))
    for ending in ("gz", "xml"):
        assert ids(world, f"host_{order}_0.{ending}") + ids(world, f"host_{order}_1.{ending}") == wanted
        assert not (world.ctx.folder.exports / "current" / f"host_{order}_2.{ending}").exists()
    assert ids(world, "host.gz") == sorted(hosts)
    assert ids(world, f"team_{order}_0.gz") == []
    tables = read(world, "tables.xml")
    assert (tables.findtext("total_credit"), tables.findtext("nhosts_total")) == ("100.000000", "200")


def test_rows_are_of_one_moment_though_the_project_goes_on(world: World, monkeypatch: pytest.MonkeyPatch):
    ana = add_user(world, "ana")
    add_host(world, ana)
    real = exports.users

    def users(db: Any, order: ExportOrder) -> Any:
        yield from real(db, order)
        erase(world, ana)
        add_host(world, add_user(world, "new"))

    monkeypatch.setattr(exports, "users", users)
    export(world)
    assert ids(world, "user.gz") == [ana]
    assert len(ids(world, "host.gz")) == 1
    assert ids(world, "user_deleted.gz") == []


def test_columns_for_researchers_hold_the_same_rows(world: World):
    import pyarrow.parquet

    add_host(world, add_user(world, "ana"))
    export(world, parquet=True)
    folder = world.ctx.folder.exports / "current"
    (host,) = pyarrow.parquet.read_table(folder / "host.parquet").to_pylist()
    element = read(world, "host.gz")[0]
    assert host["p_model"] == element.findtext("p_model")
    assert (host["ncpus"], host["userid"]) == (8, int(element.findtext("userid") or ""))
    assert set(host) == {str(each.tag) for each in element} - {"misc", "credit_per_cpu_sec"}
    (user,) = pyarrow.parquet.read_table(folder / "user.parquet").to_pylist()
    assert user["expavg_time"] == float(read(world, "user.gz")[0].findtext("expavg_time") or "")
    assert pyarrow.parquet.read_table(folder / "team.parquet").num_rows == 0


def test_without_pyarrow_parquet_is_refused_with_what_to_install(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    def nothing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(export_files, "import_module", nothing)
    with pytest.raises(ConfigError, match=r"pip install .*lab"):
        export(world, parquet=True)
    export(world)


def test_badges_and_profiles_are_exported_with_names_and_pictures_of_those_who_agreed(world: World):
    ana, no = add_user(world, "ana", credit=1500.0), add_user(world, "no", credit=1500.0, agreed=False)
    shown, hidden = add_host(world, ana, credit=2000.0), add_host(world, ana, credit=2000.0, hidden=1)
    for user_id in (ana, no):
        world.write(lambda tx, id_=user_id: tx.execute("INSERT INTO profile (user_id) VALUES (?)", (id_,)))
    keeper = BadgeKeeper(world.ctx)
    while world.run(keeper.step()):
        pass
    assert {row[0] for row in world.query("SELECT owner_id FROM badge_owner WHERE owner = 'host'")} == {
        shown,
        hidden,
    }
    export(world, parquet=True)
    assert read(world, "user.gz")[0].find("has_profile") is not None
    given = {each.findtext("id"): each for each in read(world, "tables.xml").iterfind("badges/badge")}
    titles = [given[each.findtext("badge_id")].findtext("title") for each in read(world, "badge_user.gz")]
    assert "1,000 credit in total" in titles
    assert {each.findtext("user_id") for each in read(world, "badge_user.gz")} == {str(ana)}
    assert {each.findtext("host_id") for each in read(world, "badge_host.gz")} == {str(shown)}
    for badge in given.values():
        assert world.get((badge.findtext("image_url") or "").removeprefix(URL)).status_code == 200


# -- replacing ------------------------------------------------------------------------------------------------


def folders(world: World) -> list[str]:
    return sorted(
        each.name for each in world.ctx.folder.exports.iterdir() if each.is_dir() and not each.is_symlink()
    )


def test_a_new_export_replaces_the_last_one_which_stays_for_its_readers(world: World):
    add_user(world, "ana")
    export(world)
    before = (world.ctx.folder.exports / "current" / "user.gz").resolve()
    with before.open("rb") as reading:
        add_user(world, "ben")
        export(world)
        assert len(ids(world, "user.gz")) == 2
        assert before.exists()
        export(world)
        assert not before.exists()
        assert b"ana" in gzip.decompress(reading.read())
    assert len(folders(world)) == 2


def test_an_export_tells_how_far_it_is_and_from_the_second_on_of_how_many(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(exporting, "PAGE", 2)
    for number in range(5):
        add_user(world, f"u{number}")
    told: list[str] = []
    export(world, report=told.append)
    assert [each for each in told if each.startswith("user:")] == ["user: 2", "user: 4"]
    told.clear()
    add_user(world, "one more")
    add_user(world, "another")
    export(world, report=told.append)
    assert [each for each in told if each.startswith("user:")] == [
        "user: 2 of about 5",
        "user: 4 of about 5",
        "user: 6",
    ]


def test_an_export_that_fails_leaves_the_last_one(world: World, monkeypatch: pytest.MonkeyPatch):
    ana = add_user(world, "ana")
    export(world)

    def full(db: Any, order: ExportOrder) -> Any:
        raise OSError(28, "No space left on device")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(exports, "hosts", full)
        with pytest.raises(StoreError, match="No space left"):
            export(world)
    assert ids(world, "user.gz") == [ana]
    assert not list(world.ctx.folder.exports.glob(".making-*"))


def test_without_room_on_the_disk_nothing_is_exported(make_world: Callable[..., World]):
    world = make_world(server={"min_free_disk_bytes": 10**15})
    with pytest.raises(StoreError, match=r"MB are free on the disk.*The last export is kept"):
        export(world)
    assert not (world.ctx.folder.exports / "current").exists()


def test_the_command_leaves_the_process_as_it_was(world: World):
    assert run_command(["export", "--project", str(world.ctx.folder.root)]) == 0
    assert gc.isenabled()


def test_an_export_that_is_killed_at_any_moment_leaves_a_whole_one(world: World):
    owner = add_user(world, "ana")
    host = "INSERT INTO host (user_id, total_credit, host_cpid) VALUES (?, 1.0, ?)"
    world.write(lambda tx: tx.execute_many(host, [(owner, f"{n:032x}") for n in range(5000)]))
    export(world)
    command = [
        sys.executable,
        "-m",
        "cobblestone",
        "export",
        "--project",
        str(world.ctx.folder.root),
        "--quiet",
    ]
    root = world.ctx.folder.exports
    for name in ("", "user.gz", "host.gz", "team.gz", "tables.xml", "export.json"):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        # It may be faster than we look: then there is a new one, which is whole, too.
        eventually(lambda n=name, p=process: any(root.glob(f".making-*/{n}")) or p.poll() is not None)
        process.kill()
        process.wait()
        assert len(ids(world, "host.gz")) == 5000
        made = last_export(world.ctx.folder)
        assert made is not None
        for file_name, nbytes in made.nbytes.items():
            assert (world.ctx.folder.exports / "current" / file_name).stat().st_size == nbytes
    subprocess.run(command, check=True, capture_output=True)
    assert len(folders(world)) <= 2
    assert not list(world.ctx.folder.exports.glob(".making-*"))


def test_a_server_that_stops_ends_its_export(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    program, pid = tmp_path / "endless", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    world.ctx.started = world.now
    world.now += FIRST_SECONDS

    async def stop_in_the_middle() -> None:
        step = asyncio.create_task(export_if_due(world.ctx))
        await asyncio.to_thread(eventually, lambda: pid.exists() and pid.read_text().endswith("\n"))
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step

    world.run(stop_in_the_middle())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_database_that_goes_away_is_told_as_such(world: World, monkeypatch: pytest.MonkeyPatch):
    export(world)

    def damaged(db: Any, order: ExportOrder) -> Any:
        postgres = world.ctx.settings.database.url
        db.query(
            "SELECT pg_terminate_backend(pg_backend_pid())" if postgres else "SELECT * FROM no_such_table"
        )
        yield from db.query("SELECT 1")

    monkeypatch.setattr(exports, "teams", damaged)
    with pytest.raises(StoreError, match="The database cannot be read"):
        export(world)
    assert ids(world, "user.gz") == []


def test_what_a_killed_export_left_is_removed_by_the_next(world: World):
    left = world.ctx.folder.exports / ".making-0123"
    left.mkdir(parents=True)
    (left / "user.gz").write_bytes(b"half")
    (world.ctx.folder.exports / ".making-link").symlink_to("nowhere")
    export(world)
    assert not list(world.ctx.folder.exports.glob(".making-*"))
    assert ids(world, "user.gz") == []


def test_two_do_not_export_at_once(world: World, monkeypatch: pytest.MonkeyPatch):
    entered, leave = threading.Event(), threading.Event()
    real = exports.users

    def slow(db: Any, order: ExportOrder) -> Any:
        entered.set()
        leave.wait(10)
        yield from real(db, order)

    monkeypatch.setattr(exports, "users", slow)
    first = threading.Thread(target=lambda: make_export(world.ctx.folder, now=world.now))
    first.start()
    assert entered.wait(10)
    with pytest.raises(Busy, match="Another process is exporting"):
        export(world)
    leave.set()
    first.join()
    assert last_export(world.ctx.folder) is not None


# -- serving --------------------------------------------------------------------------------------------------


def test_files_are_served_whole_in_parts_and_only_when_they_changed(world: World):
    assert world.get("/stats/user.gz").status_code == 404
    add_user(world, "ana")
    export(world)
    whole = world.get("/stats/user.gz")
    assert whole.status_code == 200
    assert "content-encoding" not in whole.headers  # or clients would unpack it on the way
    assert b"<name>ana</name>" in gzip.decompress(whole.content)
    assert "sandbox" in whole.headers["content-security-policy"]
    etag, modified = whole.headers["etag"], whole.headers["last-modified"]
    assert world.get("/stats/user.gz", headers={"If-None-Match": etag}).status_code == 304
    assert world.get("/stats/user.gz", headers={"If-Modified-Since": modified}).status_code == 304
    part = world.get("/stats/user.gz", headers={"Range": "bytes=10-", "If-Range": etag})
    assert (part.status_code, part.content) == (206, whole.content[10:])
    add_user(world, "ben")
    export(world)
    changed = world.get(
        "/stats/user.gz", headers={"Range": "bytes=10-", "If-Range": etag, "If-None-Match": etag}
    )
    assert changed.status_code == 200
    assert gzip.decompress(changed.content).count(b"<user>") == 2
    assert world.get("/stats/tables.xml").headers["content-type"].startswith(("text/xml", "application/xml"))
    for path in ("/stats/export.json", "/stats/"):
        assert world.get(path).json()["records"]["user"] == 2


ODD_PATHS = ( "lock", "current", "current/user.gz", "../cobblestone.toml", "..%2fcobblestone.toml", ".making-1/user.gz",
    "a" * 5000 + ".gz", "%00.gz", "notes.txt", "old/user.gz",
)  # fmt: skip


@pytest.mark.parametrize("path", ODD_PATHS, ids=range(len(ODD_PATHS)))
def test_nothing_but_files_of_the_current_export_has_an_address(world: World, path: str):
    export(world)
    current = world.ctx.folder.exports / "current"
    (current / "old").mkdir()
    for name in ("notes.txt", "old/user.gz"):  # what somebody left there
        (current / name).write_bytes(b"x")
    assert world.get(f"/stats/{path}").status_code in (404, 307)
    assert world.post("/stats/user.gz").status_code == 405


# -- single teams and accounts ----------------------------------------------------------------------------------


def test_teams_are_looked_up_by_number_and_by_a_part_of_their_name(world: World):
    team = {
        "total_credit": 5.5,
        "expavg_time": 1.0,
        "country": "France",
        "create_time": 1.7e9,
        "founder_id": 7,
        "type": 3,
    }
    one = insert(world, "team", {**team, "name": "Alpha & Co", "name_lc": "alpha & co", "expavg_credit": 1.0})
    two = insert(world, "team", {**team, "name": "Alphabet", "name_lc": "alphabet", "expavg_credit": 2.0})

    def looked_up(query: str) -> etree._Element:
        return etree.fromstring(world.get(f"/team_lookup.php?format=xml&{query}").content)

    found = looked_up(f"team_id={one}")
    assert {each.tag: each.text for each in found} == {
        "id": str(one),
        "create_time": "1700000000",
        "userid": "7",
        "name": "Alpha & Co",
        "url": None,
        "type": "3",
        "country": "France",
        "total_credit": "5.500000",
        "expavg_credit": "1.000000",
        "expavg_time": "1.000000",
    }
    assert [each.findtext("id") for each in looked_up("team_name=ALPHA")] == [str(two), str(one)]
    assert [each.findtext("id") for each in looked_up(f"team_ids={two},999,{one}")] == [str(two), str(one)]
    assert len(looked_up("team_name=%25")) == 0
    assert len(looked_up("team_ids=" + ",".join(map(str, range(1, 500))))) == 2
    for bad in ("team_id=999", "team_id=x", "team_id=-1", "team_id=" + "9" * 400, "", "team_name="):
        assert looked_up(bad).findtext("error_num") == "-136"


def test_of_a_team_s_members_those_who_agreed_are_told_without_their_addresses(world: World):
    team = insert(world, "team", {"name": "One", "name_lc": "one", "total_credit": 1.0})
    members: tuple[tuple[str, dict[str, Any]], ...] = (
        ("ana", {"url": "javascript:x"}),
        ("bo", {"credit": 500.5, "country": "France"}),
        ("none", {"credit": 0.0}),
    )
    for name, more in members:
        add_user(world, name, team_id=team, **more)
    add_user(world, "secret", agreed=False, team_id=team)
    add_user(world, "elsewhere")

    def told(query: str) -> etree._Element:
        return etree.fromstring(world.get(f"/team_email_list.php?xml=1&{query}").content)

    assert b"@" not in world.get(f"/team_email_list.php?xml=1&teamid={team}").content
    first, second = told(f"teamid={team}")
    assert {each.tag: each.text for each in first} == {
        "id": "2",
        "cpid": external_cpid("c" * 32, "bo@example.org"),
        "total_credit": "500.500000",
        "create_time": f"{world.now - 1000:.0f}",
        "name": "bo",
        "country": "France",
        "expavg_credit": "50.050000",
        "expavg_time": f"{world.now - 5:.6f}",
        "url": None,
        "has_profile": "0",
    }
    assert (second.findtext("name"), second.findtext("url")) == ("ana", "")
    for bad in ("teamid=999", "teamid=x", "", "teamid=" + "9" * 400):
        assert told(bad).findtext("error_num") == "-136"


def test_account_managers_hear_of_a_founder_and_everybody_of_a_profile(world: World):
    ana = add_user(world, "ana")
    about = "/am_get_info.php?account_key=aana"
    assert "<teamfounder/>" not in world.get(about).text
    world.write(lambda tx: users.create_team(tx, "One", UserId(ana), now=world.now))
    world.write(lambda tx: tx.execute("INSERT INTO profile (user_id) VALUES (?)", (ana,)))
    reply = etree.fromstring(world.get(about).content)
    assert reply.find("teamfounder") is not None
    assert reply.findtext("has_profile") == "1"
    shown = etree.fromstring(world.get(f"/show_user.php?format=xml&userid={ana}").content)
    assert shown.findtext("has_profile") == "1"


# -- the daemon -----------------------------------------------------------------------------------------------


def test_the_server_exports_when_it_is_due_in_a_process_that_gives_way(world: World):
    add_user(world, "ana")
    world.ctx.started = world.now
    world.run(export_if_due(world.ctx))
    assert last_export(world.ctx.folder) is None
    world.now += FIRST_SECONDS
    assert list(export_warnings(world.ctx)) == []
    world.run(export_if_due(world.ctx))
    made = last_export(world.ctx.folder)
    assert made is not None
    assert made.records["user"] == 1
    figures = world.get("/metrics").text
    assert re.search(r'cobblestone_export_records\{table="user"\} 1\.0', figures)


def test_an_export_of_a_clock_that_was_years_ahead_is_soon_replaced(world: World):
    world.now += 10 * 365 * 86400
    export(world)
    world.now -= 10 * 365 * 86400
    world.ctx.started = world.now
    world.run(export_if_due(world.ctx))
    made = last_export(world.ctx.folder)
    assert made is not None
    assert made.time <= world.now


def test_an_export_that_fails_is_an_error_of_the_daemon_and_a_late_one_a_warning(world: World):
    (world.ctx.folder.exports / "lock").touch()
    (world.ctx.folder.root / "cobblestone.toml").write_text("nonsense = 1")
    world.ctx.started = world.now
    world.now += FIRST_SECONDS
    with pytest.raises(StoreError, match="unknown setting 'nonsense'"):
        world.run(export_if_due(world.ctx))
    world.now += LATE_SECONDS + 1
    (warning,) = export_warnings(world.ctx)
    assert warning.code == "export_old"


def test_a_project_that_does_not_want_exports_makes_none_and_is_not_warned(make_world: Callable[..., World]):
    world = make_world(export={"every_seconds": 0})
    world.now += 10 * 86400
    world.run(export_if_due(world.ctx))
    assert last_export(world.ctx.folder) is None
    assert list(export_warnings(world.ctx)) == []


def test_a_damaged_report_counts_as_none(world: World):
    export(world)
    Path(world.ctx.folder.exports / "current" / "export.json").write_bytes(b"{")
    assert last_export(world.ctx.folder) is None
