"""The kept project of a released schema; made by `tests.helpers.released`.

A small project with rows in every table, and results in every state but two (inactive, given up by its computer), as text that
any later version can be tried on: ``sqlite.sql`` and ``postgresql.sql`` in ``tests/golden/released/VERSION``.
"""

from __future__ import annotations

import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from tests.helpers.postgres_server import PostgresServer, programs
from tests.helpers.project_world import SimHost, World, failed

from cobblestone import __version__
from cobblestone.domain.apps import App, ComparisonRule
from cobblestone.domain.people import Scope, SubmitRights, TeamType
from cobblestone.domain.reasons import reason
from cobblestone.domain.values import AppVersionId, HostId
from cobblestone.domain.work import InputFile, JobLimits, ReplicationRules
from cobblestone.policy.storage import answer_of
from cobblestone.server.credit.trickle_daemon import TrickleCredit
from cobblestone.server.daemons.housekeeping import (
    BadgeKeeper,
    HistoryKeeper,
    StatisticsUpdater,
    count_transfers,
    follow_app_credit,
)
from cobblestone.server.daemons.storage_proofs import check_storage
from cobblestone.server.operation import interventions
from cobblestone.store.catalog import apps
from cobblestone.store.credit import ledger
from cobblestone.store.engine.database import Transaction
from cobblestone.store.engine.postgres import connect
from cobblestone.store.engine.postgres_process_group import forget_program
from cobblestone.store.engine.process_group import Program
from cobblestone.store.maintenance.copy_to_postgres import move
from cobblestone.store.maintenance.upgrade import upgrade
from cobblestone.store.operation import audit, figures, processes, told_credit
from cobblestone.store.people import account_changes, consents, credentials, mails, teams, users
from cobblestone.store.people.hosts import remove_computer
from cobblestone.store.schema.project import PROJECT
from cobblestone.store.work import batches, messages, submitters, webhooks
from cobblestone.wire.scheduler.request import MsgFromHost, StickyFile

RELEASED = Path(__file__).parents[1] / "golden" / "released"
DAY = 86400.0
ACTOR = audit.Actor(name="operator", origin="test")
TEAM = teams.TeamProfile(name="Team", type=TeamType.UNIVERSITY, name_html="<b>Team</b>", description="We.")
LIMITS = JobLimits(rsc_fpops_est=1e12, rsc_fpops_bound=1e14, delay_bound=5 * DAY)


def live(world: World) -> None:
    """Let a project have a past: people, computers, jobs that ended in all ways, and some that did not end yet."""
    hosts = _join(world)
    _until_idle(world, partial(count_transfers, world.ctx))  # it counts what is granted from now on
    _compute(world, hosts)
    _hold_credit(world, hosts)
    _keep_files(world, hosts[0])
    _speak(world, hosts)
    _follow(world)
    _wait(world, hosts)


def _join(world: World) -> list[SimHost]:
    hosts = [
        world.host(world.user(name), f"{n:032x}", domain_name=f"{name}-pc", p_fpops=2e9 + n * 1e9)
        for n, name in enumerate(("ada", "bob", "carol"), 1)
    ]
    for host in hosts:
        host.rpc()
    old = world.host(hosts[0].request.authenticator, "f" * 32, domain_name="old-pc")
    old.rpc()
    world.write(lambda tx: remove_computer(tx, HostId(old.id), now=world.now))
    return hosts


def _app(world: World, name: str, **options: Any) -> App:
    app = world.add_app(
        name, limits=LIMITS, rules=ReplicationRules(min_quorum=2, target_nresults=2, max_error_results=2)
    )
    return world.write(lambda tx: apps.update_app(tx, replace(app, **options)))


def _compute(world: World, hosts: list[SimHost]) -> None:
    """Jobs that ended: right, wrong, failed, late, cancelled and retired."""
    app = _app(world, "search", credit_system="creditnew-deployed", partial_credit=True)
    ada, bob, carol = hosts
    world.add_jobs(app, 3)
    for host in (ada, bob):
        host.rpc(ask=1e6)
    world.now += 3600
    said = [
        MsgFromHost(
            result_name=name, time=int(world.now), variety="trickle_credit", text="<runtime>60</runtime>"
        )
        for name in list(ada.held)[:1]
    ]
    ada.rpc(trickles=said)
    _until_idle(world, TrickleCredit(world.ctx).step)
    world.now += 3600
    for host, liar in ((ada, False), (bob, True)):
        names = sorted(host.held)
        lies = names[:1] if liar else []
        host.rpc(reports=[host.finish(name, b"lie" if name in lies else b"x" * 70_000) for name in names])
        world.settle()
    carol.rpc(ask=1e6)  # decides between the two
    world.now += 3600
    carol.rpc(reports=[carol.finish(name, b"x" * 70_000) for name in sorted(carol.held)])
    world.settle()
    line = world.ctx.store.read(lambda db: next(each for each in ledger.ledger(db) if each.kind == "grant"))
    world.write(
        lambda tx: ledger.correct(tx, line, -line.granted / 2, reason("kept", "Half of it."), now=world.now)
    )

    failing = _app(world, "fragile", credit_system="benchmark", comparison=ComparisonRule(kind="numeric"))
    world.add_jobs(failing, 1)
    for host in hosts:
        host.rpc(ask=1e6)
        host.rpc(reports=[failed(name) for name in sorted(host.held)])
        world.settle()
    world.add_jobs(failing, 1)
    ada.rpc(ask=1e6)
    bob.rpc(ask=1e6)
    ada.rpc(reports=[ada.finish(name, b"\x1f\x8b broken") for name in sorted(ada.held)])
    world.now += 6 * DAY  # and bob's never comes
    world.settle()
    bob.held.clear()
    carol.rpc(ask=1e6)
    carol.rpc(reports=[carol.finish(name, b"1.5 2.5") for name in sorted(carol.held)])
    world.settle()
    cancelled = world.add_jobs(failing, 2)
    world.run(interventions.cancel_batch(world.ctx, cancelled.id, ACTOR))

    (version,) = world.ctx.store.read(lambda db: apps.list_versions(db, app.id))
    newer = replace(version, id=AppVersionId(0), version_num=version.version_num + 1)
    world.write(lambda tx: apps.add_version(tx, newer, now=world.now))
    retired = world.add_jobs(app, 1)
    bob.rpc(ask=1e6)
    world.now += 6 * DAY
    world.settle()
    for host in (ada, carol):
        host.rpc(ask=1e6)
        host.rpc(reports=[host.finish(name, b"answer") for name in sorted(host.held)])
        world.settle()
    late = [bob.finish(name, b"answer") for name in sorted(bob.held)]
    world.write(lambda tx: batches.retire_batch(tx, retired.id))
    world.settle()
    bob.rpc(reports=late)  # the answer that it could be compared with is gone
    world.settle()


def _hold_credit(world: World, hosts: list[SimHost]) -> None:
    """Jobs whose credit is provisional, but for those that a third computer checks: one in fifty."""
    world.add_jobs(_app(world, "survey", credit_system="ledger"), 3)
    for host in hosts[:2]:
        host.rpc(ask=1e6)
        world.now += 900
        host.rpc(reports=[host.finish(name, b"x" * 70_000) for name in sorted(host.held)])
        world.settle()


def _keep_files(world: World, host: SimHost) -> None:
    content = b"kept " * 1000
    stored = world.store_file("kept", content)
    app = world.add_app("keeper")
    file = InputFile(name=stored.name, open_name="in", nbytes=stored.nbytes, md5=stored.md5, sticky=True)
    world.add_jobs(app, inputs=[file])
    host.rpc(ask=1e6)
    world.add_jobs(app, inputs=[file])  # needs the file further on
    host.rpc(reports=[host.finish(name, b"answer") for name in sorted(host.held)])
    world.settle()
    answer: dict[str, str] = {}
    for _ in range(40):  # it lists the file, and answers what it is asked about it
        listed = StickyFile(name=stored.name, nbytes=stored.nbytes, status=1, **answer)
        host.rpc(sticky_files=(listed,), client_cap_file_challenge=True)
        answer = {}
        if host.reply.has("file_challenge"):
            asked = host.reply.all("file_challenge")[0]
            offset, length = int(asked.get("offset")), int(asked.get("length"))
            nonce = asked.get("nonce")
            answer = {"nonce": nonce, "answer": answer_of(nonce, content[offset : offset + length])}
        _until_idle(world, partial(check_storage, world.ctx))
        world.now += DAY / 4
    _until_idle(world, partial(check_storage, world.ctx))


def _speak(world: World, hosts: list[SimHost]) -> None:
    """What people said and did on pages."""
    now, secret = world.now, credentials.new_secret()

    def said(tx: Transaction) -> None:
        ada, bob, carol = (row[0] for row in tx.query("SELECT id FROM user_account ORDER BY id"))
        team = teams.found_team(tx, ada, TEAM, now=now)
        teams.join(tx, bob, team.id)
        teams.send_message(tx, team.id, ada, title="Welcome", text="All of you.", now=now)
        users.add_news(tx, "It began", "With a *small* job.", now=now)
        users.set_profile(tx, ada, text="I compute.", searchable=True, now=now)
        users.set_picture(tx, ada, b"\x89PNG")
        users.end_session(tx, "a session", expire_time=now + DAY)
        consents.record(tx, ada, consents.ConsentKind.STATISTICS, True, source="page", now=now)
        account_changes.set_email_verified(tx, ada, now=now)
        account_changes.ask_to_erase(tx, carol, now + DAY)
        credentials.add_codes(tx, bob, credentials.Purpose.RECOVERY, ["a code"], now=now)
        token = credentials.create_token(tx, secret, name="manager", scopes=[Scope.ACCOUNTING], now=now)
        some = SubmitRights(apps=(apps.list_apps(tx)[0].name,), max_jobs=10, share=2.0)
        submitters.allow(tx, ada, some, now=now)
        hooked = batches.list_batches(tx)[0].id
        webhooks.put_webhook(tx, hooked, url="https://lab.example/hook", secret="whsec_", now=now)
        told_credit.enrol(
            tx,
            token.id,
            [tx.value("SELECT weak_authenticator FROM user_account WHERE id = ?", (ada,))],
            now=now,
        )
        consents.announce_user(tx, ada, now=now)
        process = processes.ProcessRow(
            key="1", host="alpha", pid=1, roles=("web",), version="0.1.0", started=now, beat_time=now
        )
        processes.note_process(tx, process, forget_before=0.0)
        mails.post(tx, recipient="ada@example.org", subject="Hello", body="It works.", now=now)
        audit.remember_reply(tx, "key", "digest", "{}", now=now)
        audit.record(tx, ACTOR, "changed", "app search", now=now)
        messages.send_trickle_down(tx, HostId(hosts[0].id), result_name="", text="<x/>", now=now)
        figures.add_sample(tx, {"users": 3.0}, now=now, keep_since=0.0)

    world.write(said)


def _follow(world: World) -> None:
    """The daemons that keep sums and lists."""
    world.now += DAY
    for step in (
        StatisticsUpdater(world.ctx).step,
        partial(follow_app_credit, world.ctx),
        partial(count_transfers, world.ctx),
        HistoryKeeper(world.ctx).step,
        BadgeKeeper(world.ctx).step,
    ):
        _until_idle(world, step)


def _wait(world: World, hosts: list[SimHost]) -> None:
    """Jobs that have not ended: one answer of two, two answers that differ, on a computer, waiting."""
    app = _app(world, "open", credit_system="benchmark")
    world.add_jobs(app, 2)
    for host, content in zip(hosts, (b"one", b"other"), strict=False):
        host.rpc(ask=1e6)
        names = sorted(host.held)
        host.rpc(reports=[host.finish(name, content) for name in names[: 2 if content == b"one" else 1]])
        world.settle()
    world.add_jobs(app, 2)


def _until_idle(world: World, step: Callable[[], Coroutine[Any, Any, int]]) -> None:
    for _ in range(50):
        if not world.run(step()):
            return
    raise AssertionError(f"{step} is never idle")


# -- as text ---------------------------------------------------------------------------


def sqlite_text(path: Path) -> str:
    """Return a SQLite database as statements."""
    with closing(sqlite3.connect(path)) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def postgres_text(address: str) -> str:
    """Return a PostgreSQL database as statements that any client can carry out, on any version."""
    options = ["--no-owner", "--no-privileges", "--rows-per-insert=100"]
    done = subprocess.run(
        [programs() / "pg_dump", *options, address], check=True, capture_output=True, text=True
    )
    return "\n".join(_portable(done.stdout.splitlines())) + "\n"


def _portable(lines: Iterable[str]) -> Iterable[str]:
    """Leave out what belongs to one version or client: settings, psql's own commands, comments."""
    return (line for line in lines if line and not line.startswith(("SET ", "\\", "--")))


def load_sqlite(text: str, path: Path) -> None:
    """Make a SQLite database from its text."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(text)


def load_postgres(text: str, address: str) -> None:
    """Fill an empty PostgreSQL database from its text."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(text.encode())


def write_texts(target: Path) -> None:
    """Make such a project, and write its databases as text."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        world = World(root, contributions={"storage": True, "network": True}, badges={"total": [0.01, 1e6]})
        path = world.ctx.folder.database
        try:
            live(world)
        finally:
            world.close()
        (target / "sqlite.sql").write_text(sqlite_text(path))
        with closing(PostgresServer()) as server:
            address = server.empty_database()
            move(path, address, PROJECT, progress=lambda *_: None)
            program = Program("released", "alpha", 1, __version__, PROJECT.head)
            upgrade(address, PROJECT, program=program)  # it makes the tables of running programs
            with closing(connect(address)) as connection:
                forget_program(connection, program.member)
            (target / "postgresql.sql").write_text(postgres_text(address))
