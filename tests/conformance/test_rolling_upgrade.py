"""A database is upgraded only as far as the programs that work on it can bear."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.helpers.newer_version import CONTRACTED, EXPANDED, newer_schema
from tests.helpers.postgres_server import PostgresServer

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.store.engine.database import Store
from cobblestone.store.engine.postgres import connect
from cobblestone.store.engine.postgres_process_group import forget_program
from cobblestone.store.engine.process_group import Program
from cobblestone.store.maintenance.steps import Schema
from cobblestone.store.maintenance.upgrade import check_revision, current_revision, upgrade, upgrade_plan
from cobblestone.store.schema.project import PROJECT

OLD = Program("old", "alpha", 4711, "1.0", PROJECT.head)


@pytest.fixture
def newer(tmp_path: Path) -> Schema:
    return newer_schema(tmp_path)


@pytest.fixture
def address(postgres: PostgresServer) -> str:
    """A database that an old program works on."""
    where = postgres.empty_database()
    upgrade(where, PROJECT)
    assert upgrade(where, PROJECT, program=OLD) is None
    return where


def process_columns(address: str) -> list[str]:
    store = Store(address, readers=1)
    try:
        return list(store.read(lambda db: db.columns("server_process")))
    finally:
        store.close()


def end(address: str, program: Program) -> None:
    with closing(connect(address)) as connection:
        forget_program(connection, program.member)


def test_beside_an_old_program_a_new_one_adds_and_takes_nothing_away(address: str, newer: Schema):
    new = Program("new", "beta", 1, "2.0", newer.head)
    upgrade(address, newer, program=new)
    assert current_revision(address, newer) == EXPANDED
    assert {"version", "program"} <= set(process_columns(address))
    plan, programs = upgrade_plan(address, newer)
    assert [step.revision for step in plan.waiting] == [CONTRACTED]
    assert [program.member for program in plan.in_the_way] == ["old"]
    assert {program.member for program in programs} == {"old", "new"}
    check_revision(address, PROJECT)  # the old one may start again
    upgrade(address, PROJECT, program=OLD)
    assert current_revision(address, newer) == EXPANDED

    end(address, OLD)
    upgrade(address, newer)
    assert current_revision(address, newer) == CONTRACTED
    assert "version" not in process_columns(address)
    with pytest.raises(StoreError, match="newer cobblestone"):
        upgrade(address, PROJECT, program=OLD)
    with pytest.raises(StoreError, match="newer cobblestone"):
        check_revision(address, PROJECT)


def test_who_needs_what_must_wait_is_refused_and_told_for_whom(address: str, newer: Schema):
    third = newer.migrations / "versions" / "8003_more_expand.py"
    third.write_text(
        f'revision = "8003"\ndown_revision = "{CONTRACTED}"\n\n\ndef upgrade() -> None:\n    pass\n'
    )
    with pytest.raises(Busy, match=rf"process 4711 on alpha \(cobblestone 1.0, schema {PROJECT.head}\)"):
        upgrade(address, newer)
    with pytest.raises(Busy, match="process 4711 on alpha"):
        check_revision(address, newer)
    check_revision(address, newer, replaces=("alpha", 4711))
    assert current_revision(address, PROJECT) == PROJECT.head, "nothing was changed"
    end(address, OLD)
    upgrade(address, newer)
    assert current_revision(address, newer) == "8003"


GROUP = """
import sys, time
from cobblestone.store.engine.database import Store
from cobblestone.store.engine.process_group import Program
from cobblestone.store.schema.project import PROJECT
program = Program("slow", "alpha", 1, "1.0", PROJECT.head)
group = Store(sys.argv[1], readers=1, program=program).process_group(("validator", "purger"))
group.join(["validator"], [], lambda names: None)
print("joined", flush=True)
time.sleep(600)
"""


def test_a_program_that_beats_is_waited_for_and_one_that_comes_back_too_late_ends_itself(
    postgres: PostgresServer, newer: Schema
):
    address = postgres.empty_database()
    upgrade(address, PROJECT, program=OLD)
    end(address, OLD)
    process = subprocess.Popen([sys.executable, "-c", GROUP, address], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "joined\n"
        upgrade(address, newer)
        assert current_revision(address, newer) == EXPANDED
        (in_the_way,) = upgrade_plan(address, newer)[0].in_the_way
        assert in_the_way.schema == PROJECT.head
        process.send_signal(signal.SIGSTOP)
        with closing(connect(address)) as connection:  # as if it had been silent for longer than its lease
            connection.execute("UPDATE process_member SET until = 0")
            connection.execute("UPDATE process_program SET until = 0")
        upgrade(address, newer)
        assert current_revision(address, newer) == CONTRACTED
        process.send_signal(signal.SIGCONT)
        assert process.wait(30) == -signal.SIGTERM
    finally:
        process.kill()
        process.communicate()


UPGRADE = """
import sys
from pathlib import Path
from cobblestone.store.maintenance import postgres
from cobblestone.store.maintenance.steps import Schema
from cobblestone.store.maintenance.upgrade import upgrade
postgres.HANGS_SECONDS = 2
upgrade(sys.argv[1], Schema(what="project database", migrations=Path(sys.argv[2])))
"""


def test_a_step_waits_for_a_table_without_holding_up_its_users(address: str, newer: Schema):
    end(address, OLD)
    store = Store(address, readers=1)
    with closing(connect(address)) as user, closing(connect(address)) as other:
        user.execute("BEGIN")
        user.execute("SELECT count(*) FROM server_process")
        process = subprocess.Popen([sys.executable, "-c", UPGRADE, address, str(newer.migrations)])
        waiting = (
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        while not other.execute(waiting).fetchone():
            assert process.poll() is None
        store.write(lambda tx: tx.execute("UPDATE server_process SET pid = 1"))
        user.execute("COMMIT")
        assert process.wait(60) == 0
    store.close()
    assert current_revision(address, newer) == CONTRACTED


ADDS_A_COLUMN = "ALTER TABLE server_process ADD COLUMN program"


@pytest.mark.parametrize(("how", "seconds"), [(signal.SIGKILL, 300), (signal.SIGSTOP, 2)])
def test_an_upgrade_that_is_killed_or_hangs_in_a_step_holds_up_nobody_for_long(
    address: str, newer: Schema, tmp_path: Path, how: signal.Signals, seconds: int
):
    end(address, OLD)
    (step,) = (newer.migrations / "versions").glob(f"{EXPANDED}*")
    text = step.read_text()
    step.write_text(
        text.replace(
            ADDS_A_COLUMN, f"LOCK TABLE server_process;\nSELECT pg_sleep({seconds});\n{ADDS_A_COLUMN}"
        )
    )
    (left := tmp_path / ".project-before-upgrade-1-2.dump").touch()
    process = subprocess.Popen([sys.executable, "-c", UPGRADE, address, str(newer.migrations)])
    try:
        with closing(connect(address)) as other:
            asleep = (
                "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
            )
            while not other.execute(asleep).fetchone():
                assert process.poll() is None
            process.send_signal(how)
            other.execute("SET lock_timeout = '20s'")
            other.execute("UPDATE server_process SET pid = 1")
        process.kill()
        step.write_text(text)
        upgrade(address, newer, keep=tmp_path)
        assert current_revision(address, newer) == CONTRACTED
        assert not left.exists()
    finally:
        process.kill()
        process.wait()


def test_on_sqlite_all_steps_are_taken_for_there_is_no_other_program(tmp_path: Path, newer: Schema):
    path = tmp_path / "project.sqlite"
    upgrade(path, PROJECT, program=OLD)
    assert [step.revision for step in upgrade_plan(path, newer)[0].steps] == [EXPANDED, CONTRACTED]
    upgrade(path, newer)
    assert current_revision(path, newer) == CONTRACTED
    with pytest.raises(StoreError, match="newer cobblestone"):
        upgrade(path, PROJECT)
