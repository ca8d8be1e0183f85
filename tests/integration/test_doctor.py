"""The doctor finds what offends a promise, says where, and mends what is safe to mend."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click
import pytest
from tests.helpers.api_client import API, ApiClient
from tests.helpers.project_world import World

from cobblestone.cli.output import Output
from cobblestone.cli.project.upkeep import examine
from cobblestone.domain.apps import AppDispatch, ComparisonRule
from cobblestone.domain.reasons import Finding
from cobblestone.domain.work import InputFile, ReplicationRules
from cobblestone.server.core.context import ServerContext
from cobblestone.server.daemons.housekeeping import HistoryKeeper
from cobblestone.server.operation import doctor
from cobblestone.server.operation.doctor import CHECKS
from cobblestone.store.catalog import apps
from cobblestone.store.catalog.files import place_of
from cobblestone.store.engine import reading
from cobblestone.store.engine.database import Database
from cobblestone.store.operation.audit import Actor
from cobblestone.wire.project.signatures import encode_private_key, generate_key
from cobblestone.wire.scheduler.host import CoprocRequest

ACTOR = Actor(name="token:1 tester", origin="test")


@pytest.fixture
def lived_in(world: World) -> World:
    """A project with finished, running and waiting jobs, large and small outputs, and credit."""
    stored = world.store_file("low.json", b"input " * 1000)
    app = world.add_app()
    inputs = [InputFile(name=stored.name, open_name="in", nbytes=stored.nbytes, md5=stored.md5)]
    world.add_jobs(app, n=4, inputs=inputs)
    world.settle()
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6)
    held = sorted(host.held)
    assert len(held) == 4
    host.rpc(reports=[host.finish(held[0], b"x" * 100_000), host.finish(held[1], b"small")])
    host.finish(held[2], b"y" * 100_000)  # uploaded, not reported
    world.settle()
    world.ctx.folder.keys.chmod(0o700)
    return world


def found(world: World, name: str) -> list[str]:
    result = world.run(doctor.diagnose(world.ctx, CHECKS[name]))
    return [f"{item.target}: {item.text}" for item in result.findings]


def repaired(world: World, name: str) -> int:
    return world.run(doctor.repair(world.ctx, CHECKS[name], ACTOR))


@pytest.mark.parametrize("name", CHECKS)
def test_a_healthy_project_is_found_healthy(lived_in: World, name: str):
    healthy: list[str] = []
    if (
        name == "durable" and lived_in.ctx.settings.database.url
    ):  # the server of the tests does not flush, to save time
        healthy = [
            f"database: {setting} is off: a power loss could lose acknowledged writes"
            for setting in ("fsync", "full_page_writes")
        ]
    if name == "liars":  # says what could be gained, of every app
        healthy = found(lived_in, name)
        assert len(healthy) == 1
    assert found(lived_in, name) == healthy


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"credit_system": "steady"},
            ("app demo: Reports (steady)", "1.28 times", "no one checks them", "--quorum 2", "--adaptive"),
        ),
        ({"credit_system": "creditnew-deployed"}, ("failed benchmark", "--credit steady")),
        (
            {"credit_system": "counted:minimum", "rules": ReplicationRules(min_quorum=3)},
            ("needs 3 computers",),
        ),
        ({"dispatch": AppDispatch(adaptive=True), "rules": ReplicationRules(min_quorum=2)}, ("4.1 %",)),
        ({"comparison": ComparisonRule(kind="trivial")}, ("any output is taken for right",)),
        ({"credit_system": "fixed"}, ("the project itself says",)),
        ({"credit_system": "joules"}, ("a system of the project's own",)),
        ({"credit_system": "trickle"}, ("Messages of running jobs", "--flops-bound")),
    ],
)
def test_what_a_liar_could_gain_is_told_of_each_app_with_what_would_bound_it(
    lived_in: World, changes: dict[str, Any], said: tuple[str, ...]
):
    app = lived_in.ctx.store.read(apps.list_apps)[0]
    lived_in.write(lambda tx: apps.update_app(tx, replace(app, **changes)))
    (text,) = found(lived_in, "liars")
    assert all(each in text for each in said), text


def test_what_an_app_would_gain_by_a_version_for_other_cards_is_told(lived_in: World):
    world, key = lived_in, lived_in.user("carla")

    def card(kind: str, peak: float) -> None:
        host = world.host(key, domain_name=kind)
        host.request = replace(host.request, coprocs=(CoprocRequest(type=kind, name=kind, peak_flops=peak),))
        host.rpc()

    for kind, peak in (("NVIDIA", 6e12), ("ATI", 3.9e12), ("intel_gpu", 1e11)):
        card(kind, peak)
    assert found(world, "gpus") == []  # the app computes on processors
    world.write(lambda tx: tx.execute("UPDATE app_version SET plan_class = 'gpu-nvidia'"))
    (text,) = found(world, "gpus")
    assert text.startswith(
        "app demo: it has no version for AMD, whose cards have 39% of the peak speed of all (computers: 1)"
    )
    world.now += 31 * 86400
    assert found(world, "gpus") == []


def sql(*statements: str) -> Callable[[World], None]:
    def harm(world: World) -> None:
        for statement in statements:
            world.write(lambda tx, statement=statement: tx.execute(statement))

    return harm


def keep_history(world: World) -> None:
    world.now += 61
    keeper = HistoryKeeper(world.ctx)
    while world.run(keeper.step()):
        pass


def let_a_day_be_wrong(world: World) -> None:
    keep_history(world)
    assert found(world, "history") == []
    world.write(lambda tx: tx.execute("UPDATE credit_day SET granted = granted + 5 WHERE owner = 'user'"))


def forget_a_day(world: World) -> None:
    keep_history(world)
    world.write(lambda tx: tx.execute("DELETE FROM credit_day WHERE owner = 'host'"))


def let_it_be_infinite(world: World) -> None:
    world.write(lambda tx: tx.execute("UPDATE host_app_version SET pfc_avg = ?", (math.inf,)))


def lose(table: str, root: str) -> Callable[[World], None]:
    def harm(world: World) -> None:
        condition = "data IS NULL" if table == "upload" else "refs > 0 AND name LIKE 'low%'"
        name = world.value(f"SELECT name FROM {table} WHERE {condition} LIMIT 1")
        place_of(world.ctx.folder.root / root, name).unlink()

    return harm


def overwrite(world: World) -> None:
    name = world.value("SELECT name FROM file WHERE refs > 0 AND name LIKE 'low%'")
    path = place_of(world.ctx.folder.download, name)
    path.write_bytes(b"x" * path.stat().st_size)


def damage_entry(column: str, value: object) -> Callable[[World], None]:
    return lambda world: world.write(
        lambda tx: tx.execute(f"UPDATE credit_entry SET {column} = ? WHERE id = 1", (value,))
    )


def cut(world: World) -> None:
    name = world.value("SELECT name FROM upload WHERE data IS NULL LIMIT 1")
    place_of(world.ctx.folder.upload, name).write_bytes(b"short")


def stray(world: World) -> None:
    old = world.now - 2 * 86400
    for path in (
        place_of(world.ctx.folder.upload, "demo_9_9_0_0"),
        place_of(world.ctx.folder.download, "jf_nobody"),
        world.ctx.folder.staging / "half",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left over")
        os.utime(path, (old, old))


def open_keys(world: World) -> None:
    world.ctx.folder.secret_file.chmod(0o644)


def other_key(world: World) -> None:
    world.ctx.folder.code_sign_private.write_text(encode_private_key(generate_key()))
    world.ctx.folder.code_sign_private.chmod(0o600)


def wrong_signature(world: World) -> None:
    files = world.value("SELECT files FROM app_version")
    world.write(
        lambda tx: tx.execute("UPDATE app_version SET files = ?", (files.replace('"md5":"', '"md5":"0'),))
    )


#: Check, harm, what must be said, and whether a repair heals it.
HARMS: list[tuple[str, Callable[[World], None], str, bool]] = [
    (
        "one_host",
        sql("UPDATE result SET host_id = NULL WHERE server_state = 4"),
        "is in progress, but on no host",
        False,
    ),
    ("one_host", sql("UPDATE result SET host_id = 99 WHERE server_state = 4"), "does not exist", False),
    ("credited_once", sql("DELETE FROM credit_entry WHERE id = 1"), "its grant is not in the ledger", False),
    ("credited_once", sql("UPDATE result SET validate_state = 2 WHERE id = 1"), "but is not valid", False),
    (
        "contributions",
        sql(
            "INSERT INTO contribution (owner, owner_id, kind, total_credit) VALUES ('user', 1, 'storage', 5)"
        ),
        "but the entries of the ledger are 0",
        False,
    ),
    ("totals", sql("UPDATE host SET total_credit = total_credit + 5"), "total is", True),
    ("totals", sql("UPDATE user_account SET expavg_credit = 1e9"), "average is", True),
    ("totals", sql("UPDATE result SET granted_credit = 7 WHERE validate_state = 1"), "granted is 7", True),
    ("totals", damage_entry("facts", '{"cut'), "credit_entry 1: its reasons or facts are damaged", False),
    ("totals", damage_entry("facts", "[1]"), "credit_entry 1: its reasons or facts are damaged", False),
    ("totals", damage_entry("facts", "{}"), "credit_entry 1: cannot be recomputed", False),
    ("totals", damage_entry("reasons", "[[1]]"), "credit_entry 1: its reasons or facts are damaged", False),
    ("totals", damage_entry("granted", math.inf), "credit_entry 1: its granted is 'inf'", False),
    ("totals", damage_entry("kind", "merge"), "credit_entry 1: its facts do not fit it", False),
    ("file_contents", overwrite, "has changed", False),
    ("history", let_a_day_be_wrong, "its days have", True),
    ("history", forget_a_day, "its days have 0 credit", True),
    (
        "next_step",
        sql("UPDATE workunit SET transition_time = NULL WHERE assimilate_state = 0"),
        "will not be checked again",
        True,
    ),
    (
        "next_step",
        sql("UPDATE workunit SET canonical_result_id = NULL WHERE id = 1"),
        "no canonical result",
        False,
    ),
    (
        "assimilated_once",
        sql("UPDATE batch SET n_success = 0"),
        "says 0 jobs are done or failed, and 2",
        True,
    ),
    (
        "assimilated_once",
        sql("UPDATE workunit SET completed_seq = 1 WHERE completed_seq = 2"),
        "to 2 jobs",
        False,
    ),
    ("input_files", sql("UPDATE file SET refs = refs + 3"), "counts users: ", True),
    ("input_files", lose("file", "download"), "is missing", False),
    ("input_files", sql("DELETE FROM file WHERE name LIKE 'low%'"), "it is not stored", False),
    ("output_files", lose("upload", "upload"), "is missing", False),
    ("output_files", cut, "has 5 bytes instead of 100000", False),
    ("stray_files", stray, "no row refers to it", True),
    ("finite", let_it_be_infinite, "pfc_avg is inf", True),
    ("finite", sql("UPDATE team SET total_credit = 1"), "", True),
    ("orphans", sql("INSERT INTO result_text (result_id) VALUES (999)"), "its result does not exist", True),
    ("keys", open_keys, "other users can read it", True),
    ("keys", other_key, "does not match the current public key", False),
    ("signatures", wrong_signature, "was not made with the current key", False),
    ("versions", sql("UPDATE app_version SET deprecated = 1"), "has no version in use", False),
    ("versions", sql("UPDATE app_version SET plan_class = 'nowhere'"), "is not defined", False),
]
HARMS = [each for each in HARMS if each[2]]


@pytest.mark.parametrize(("name", "harm", "text", "heals"), HARMS, ids=[f"{h[0]}: {h[2]}" for h in HARMS])
def test_harm_is_found_and_healed_where_that_is_safe(
    lived_in: World, name: str, harm: Callable[[World], None], text: str, heals: bool
):
    harm(lived_in)
    before = found(lived_in, name)
    assert any(text in item for item in before), before
    if CHECKS[name].repair is not None:
        assert (repaired(lived_in, name) > 0) is heals
    after = found(lived_in, name)
    assert (after == []) is heals
    if CHECKS[name].repair is not None:
        assert lived_in.query("SELECT actor, action, target FROM audit_entry") == [
            (ACTOR.name, "repair", f"check {name}")
        ]


def test_every_check_is_tried_by_harm():
    untried = set(CHECKS) - {each[0] for each in HARMS}
    assert untried == {"durable", "schema", "disk", "daemons", "export", "liars", "gpus"}  # tried below


def test_young_files_and_compressed_twins_are_no_strays(lived_in: World):
    world = lived_in
    world.store_file("big.json", b"0123456789" * 1000, compress=True)
    name = world.value("SELECT name FROM file WHERE gzipped_nbytes IS NOT NULL")
    for path in Path(world.ctx.folder.download).rglob("*.gz"):
        os.utime(path, (1, 1))
        assert path.name == f"{name}.gz"
    young = place_of(world.ctx.folder.upload, "demo_8_8_0_0")
    young.parent.mkdir(parents=True, exist_ok=True)
    young.write_bytes(b"its row comes soon")
    os.utime(young, (world.now, world.now))
    assert found(world, "stray_files") == []


@pytest.mark.parametrize(
    ("settings", "secret"),
    [
        ('[mail]\npassword = "x"', True),
        ('[storage]\nsecret_key = "x"', True),
        ('[database]\nurl = "postgresql://u:p@127.0.0.1/c"', True),
        ('[[peers]]\ntoken = "x"', True),
        ('[mail]\npassword = ""', False),
        ("[accounts]\nmin_password_length = 8", False),
        ("[broken", False),
    ],
)
def test_settings_with_a_secret_are_for_their_owner_alone(world: World, settings: str, secret: bool):
    path = world.ctx.folder.root / "other.toml"
    path.write_text(settings)
    path.chmod(0o644)
    assert ("other.toml" in str(found(world, "keys"))) is secret
    repaired(world, "keys")
    assert (path.stat().st_mode & 0o077 == 0) is secret


def test_a_stuck_workunit_is_finished_after_the_repair(lived_in: World):
    world = lived_in
    world.write(
        lambda tx: tx.execute("UPDATE workunit SET transition_time = NULL WHERE assimilate_state = 0")
    )
    assert repaired(world, "next_step") == 2
    world.now += 30 * 86400
    world.settle()
    assert found(world, "next_step") == []
    assert world.value("SELECT COUNT(*) FROM result WHERE outcome = 4") == 2


def test_state_of_daemons_disk_and_schema_is_told(lived_in: World, tmp_path_factory: pytest.TempPathFactory):
    beat = lived_in.ctx.health.daemon("validator")
    beat.failed(lived_in.now, "ValueError: no")
    assert found(lived_in, "daemons") == ["daemon validator: is failing: ValueError: no"]
    lived_in.write(lambda tx: tx.execute("UPDATE alembic_version SET version_num = '0000'"))
    assert "schema 0000" in found(lived_in, "schema")[0]
    lived_in.ctx.started = lived_in.now
    assert found(lived_in, "export") == []
    lived_in.now += 7 * 3600
    assert found(lived_in, "export")[0].startswith("export: There is no export")
    full = World(tmp_path_factory.mktemp("full") / "project", server={"min_free_disk_bytes": 10**15})
    try:
        assert "uploads and submissions are deferred" in found(full, "disk")[0]
    finally:
        full.close()


def test_a_database_that_does_not_flush_is_told(lived_in: World):
    on_postgres = bool(lived_in.ctx.settings.database.url)
    for connection in lived_in.ctx.store._all_readers:
        connection.execute("SET synchronous_commit = off" if on_postgres else "PRAGMA synchronous=NORMAL")
    setting = "synchronous_commit is off" if on_postgres else "synchronous is 1"
    assert f"database: {setting}: a power loss could lose acknowledged writes" in found(lived_in, "durable")


def test_the_api_lists_checks_and_findings(lived_in: World):
    api = ApiClient(lived_in)
    checks = api.get("/doctor")["checks"]
    assert [each["name"] for each in checks] == list(CHECKS)
    lived_in.write(lambda tx: tx.execute("UPDATE batch SET n_success = 0"))
    finding = api.get("/doctor/assimilated_once")["findings"][0]
    assert [finding[name] for name in ("code", "kind", "id", "target")] == [
        "miscounted",
        "batch",
        "1",
        "batch 1",
    ]
    assert api.post("/doctor/assimilated_once/repair")["repaired"] == 1
    assert api.get("/doctor/assimilated_once")["findings"] == []
    assert "Known: one_host" in api.problem(404, "GET", "/doctor/nonsense")["message"]


@pytest.mark.parametrize(
    ("harm", "check", "said"),
    [
        ("UPDATE result SET outcome = 77 WHERE id = 1", "next_step", "Result with id 1 (KeyError: 77)"),
        ("UPDATE host SET description = '{'", "gpus", "Host with id 1 (DecodeError: "),
        ("UPDATE app SET limits = '{' WHERE id = 1", "versions", "App with id 1 (DecodeError: "),
        ("UPDATE workunit SET input_files = '[1]'", "input_files", "ValidationError: Expected `object`"),
    ],
)
def test_a_row_that_cannot_be_read_is_a_fault_and_the_other_checks_go_on(
    lived_in: World, harm: str, check: str, said: str, capsys: pytest.CaptureFixture[str]
):
    lived_in.write(lambda tx: tx.execute(harm))
    (text,) = found(lived_in, check)
    assert text.startswith("database: ")
    assert said in text
    with pytest.raises(click.exceptions.Exit):
        examine(
            lambda: [each.described() for each in CHECKS.values()],
            [check, "finite"],
            lambda name: lived_in.run(doctor.diagnose(lived_in.ctx, CHECKS[name])),
            lambda name: repaired(lived_in, name),
            Output(),
            what="project",
        )
    told = capsys.readouterr().out
    assert f"WRONG   {check}" in told
    assert "ok      finite" in told


def test_how_far_a_check_is_can_be_asked_while_it_goes_on(lived_in: World, monkeypatch: pytest.MonkeyPatch):
    world, api, go_on = lived_in, ApiClient(lived_in), threading.Event()
    monkeypatch.setattr(reading, "PART", 1)
    results = "SELECT id FROM result WHERE id > ? AND id <= ?"

    def find(ctx: ServerContext, db: Database) -> Iterator[Finding]:
        for (id_,) in db.in_parts(results, "result"):
            if id_ == 3:
                assert go_on.wait(30)
            yield Finding("seen", "result", id_, "is there")

    monkeypatch.setitem(
        cast("dict[str, doctor.Check]", CHECKS), "slow", doctor.Check(name="slow", promise="", find=find)
    )

    async def ask_until(rows: int) -> dict[str, int]:
        while True:
            answer = await world.http.get(API + "/doctor", headers=api.headers)
            told = {each["name"]: each["rows"] for each in answer.json()["checks"]}
            if told["slow"] == rows:
                return told

    async def both() -> int:
        run = asyncio.create_task(doctor.diagnose(world.ctx, CHECKS["slow"]))
        told = await asyncio.wait_for(ask_until(2), 30)
        assert set(told.values()) == {0, 2}  # no other check goes on
        go_on.set()
        found = len((await run).findings)
        await asyncio.wait_for(ask_until(0), 30)
        return found

    assert world.run(both()) == 4


def test_repairs_do_not_read_their_own_sentences(lived_in: World, monkeypatch: pytest.MonkeyPatch):
    """The words of a finding may change or be translated; the code stays, and so does what is repaired."""

    def reworded(self: Finding, code: str, kind: str, key: object, text: str) -> None:
        for name, value in (("code", code), ("kind", kind), ("id", key), ("text", "etwas stimmt nicht")):
            object.__setattr__(self, name, value)

    monkeypatch.setattr(Finding, "__init__", reworded)
    for name, harm in (
        ("next_step", "UPDATE workunit SET transition_time = NULL WHERE assimilate_state = 0"),
        ("assimilated_once", "UPDATE batch SET n_success = 0"),
    ):
        lived_in.write(lambda tx, harm=harm: tx.execute(harm))
        assert all("etwas stimmt nicht" in each for each in found(lived_in, name))
        assert repaired(lived_in, name) > 0
        assert found(lived_in, name) == []


def test_the_database_is_for_its_owner_alone_from_the_start(world: World) -> None:
    database = world.ctx.folder.database
    assert database.stat().st_mode & 0o077 == 0
    for log in database.parent.glob("project.sqlite-*"):
        assert log.stat().st_mode & 0o077 == 0
