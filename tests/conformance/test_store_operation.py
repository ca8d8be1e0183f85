"""What operators ask and change, on each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cobblestone.domain.apps import App, AppVersion
from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.job_form import JobForm
from cobblestone.domain.reasons import Finding
from cobblestone.domain.values import AppId, AppVersionId
from cobblestone.policy.dispatch.rollout import RolloutPlan, RolloutState, begin_rollout
from cobblestone.server.operation.doctor import CHECKS
from cobblestone.store.catalog import apps
from cobblestone.store.engine import reading
from cobblestone.store.engine.database import Database, Store, Transaction
from cobblestone.store.operation import audit, interventions, invariants
from cobblestone.store.operation import figures as operation
from cobblestone.store.operation.audit import Actor
from cobblestone.store.work import batches

ANN = Actor(name="user:1 Ann", origin="web 127.0.0.1")


@pytest.fixture
def filled(store: Store) -> Store:
    """An app with a version, a user with a host, and a batch of three jobs with results in each state."""

    def fill(tx: Transaction) -> None:
        app = apps.create_app(tx, App(id=AppId(0), name="demo"), form=JobForm(), now=1.0)
        apps.add_version(
            tx, AppVersion(id=AppVersionId(0), app_id=app.id, platform="any", version_num=0), now=1.0
        )
        batch = batches.create_batch(tx, name="first", app_id=app.id, now=1.0)
        batches.add_jobs(tx, batch, "demo", [batches.NewJob(label=f"job{n}") for n in range(3)], now=1.0)
        batches.close_batch(tx, batch.id, now=1.0)
        tx.execute(
            "INSERT INTO user_account (name, email_addr, authenticator, weak_authenticator) VALUES (?, ?, ?, ?)",
            ("Ann", "ann@example.org", "a", "1_a"),
        )
        tx.execute("INSERT INTO host (user_id, domain_name) VALUES (?, ?)", (1, "basalt"))
        tx.execute_many(
            "INSERT INTO result (name, workunit_id, app_id, server_state, outcome, validate_state, host_id, user_id,"
            " app_version_id, create_time, received_time) VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, 1, ?)",
            [
                ("demo_1_0_0", 1, 5, 1, 1, 1, 1, 1, 50.0),
                ("demo_1_1_0", 2, 5, 3, 0, 1, 1, 1, 60.0),
                ("demo_1_2_0", 3, 2, 0, 0, None, None, None, None),
                ("demo_1_2_1", 3, 4, 0, 0, 1, 1, 1, None),
            ],
        )

    store.write(fill)
    return store


def test_figures_and_endings_are_counted(filled: Store):
    figures = filled.read(lambda db: operation.project_figures(db, now=100.0))
    assert (figures.unsent, figures.in_progress, figures.transition, figures.results_created) == (1, 1, 3, 4)
    assert (figures.oldest_unsent_seconds, figures.backlog_seconds) == (99.0, 99.0)
    (row,) = filled.read(lambda db: operation.endings(db, since=0.0))
    assert (row.host_id, row.version_id, row.endings) == (1, 1, operation.Endings(good=1, error=1))
    assert row.endings.error_rate == 0.5
    assert filled.read(lambda db: operation.endings(db, since=55.0, version_id=1))[0].endings.total == 1
    assert filled.read(lambda db: operation.systems_of_hosts(db, [1])) == {1: "unknown"}


def test_samples_are_kept_for_a_time(store: Store):
    for time in (10.0, 20.0, 30.0):
        store.write(lambda tx, time=time: operation.add_sample(tx, {"n": time}, now=time, keep_since=15.0))
    assert [each.time for each in store.read(lambda db: operation.samples(db, since=0.0))] == [20.0, 30.0]
    assert store.read(operation.last_sample_time) == 30.0


def test_a_rollout_is_stored_and_found(filled: Store):
    step = begin_rollout(RolloutPlan(stages=(0.1, 1.0)), now=5.0)
    version = AppVersionId(1)
    filled.write(lambda tx: operation.set_rollout(tx, version, step.fraction, step.plan))
    (found,) = filled.read(operation.rollouts_running)
    assert (found.fraction, found.plan) == (0.1, step.plan)
    assert filled.read(lambda db: operation.stage_record(db, found)).n_results == 2
    held = replace(step.plan, state=RolloutState.HELD)
    filled.write(lambda tx: operation.set_rollout(tx, version, 0.0, held))
    assert filled.read(operation.rollouts_running) == []
    assert filled.read(apps.list_versions)[0].rollout_fraction == 0.0
    assert filled.write(lambda tx: operation.give_up_results_of_version(tx, version, now=9.0)) == 1
    with pytest.raises(NotFound):
        filled.read(lambda db: operation.rollout_of(db, AppVersionId(9)))


def test_the_audit_log_is_read_by_target_and_actor_and_hides_secrets(store: Store):
    def act(tx: Transaction) -> None:
        audit.record(
            tx, ANN, "block host", "host 1", now=1.0, before={"blocked": ""}, after={"blocked": "why"}
        )
        audit.record(tx, audit.SYSTEM, "hold roll-out", "version 1", now=2.0)
        audit.record(
            tx, ANN, "make an account", "user 2", now=3.0, after={"password": "x", "in": [{"token": "y"}]}
        )

    store.write(act)
    everything = store.read(lambda db: audit.entries(db, limit=10))
    assert [entry.target for entry in everything] == ["user 2", "version 1", "host 1"]
    assert everything[0].after == '{"password":"…","in":[{"token":"…"}]}'
    assert [e.id for e in store.read(lambda db: audit.entries(db, limit=10, actor="user:1"))] == [3, 1]
    assert len(store.read(lambda db: audit.entries(db, limit=10, target="host 1", before=2))) == 1


def test_replies_are_kept_until_they_expire(store: Store):
    store.write(lambda tx: audit.remember_reply(tx, "key", "digest", "reply", now=0.0))
    assert store.read(lambda db: audit.recall_reply(db, "key", "digest")) == "reply"
    with pytest.raises(Conflict, match="another body"):
        store.read(lambda db: audit.recall_reply(db, "key", "other"))
    store.write(lambda tx: audit.remember_reply(tx, "new", "digest", "r", now=audit.KEEP_REPLIES_SECONDS + 1))
    assert store.read(lambda db: audit.recall_reply(db, "key", "digest")) is None


def test_things_are_found_blocked_and_tried_again(filled: Store):
    found = filled.read(lambda db: interventions.search(db, "demo_1_0"))
    assert [(each.kind, each.id) for each in found] == [("workunit", 1), ("result", 1)]
    assert filled.read(lambda db: interventions.search(db, "ANN@example.org"))[0].kind == "user"
    assert filled.write(lambda tx: interventions.block(tx, "host", 1, "why")) == ""
    assert filled.write(lambda tx: interventions.block(tx, "user", 1, "why")) == ""
    assert filled.write(lambda tx: interventions.set_role(tx, 1, "operator")) == ""
    assert filled.write(lambda tx: interventions.give_another_chance(tx, 2, now=9.0)) == 1
    filled.write(lambda tx: interventions.cancel_workunit(tx, 3, now=9.0))
    assert filled.read(lambda db: interventions.count_cancelled_open(db, 1)) == 1
    with pytest.raises(Conflict):
        filled.write(lambda tx: interventions.cancel_workunit(tx, 3, now=9.0))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_every_row_is_in_one_part_of_a_table(filled: Store, monkeypatch: pytest.MonkeyPatch, size: int):
    monkeypatch.setattr(reading, "PART", size)
    filled.write(lambda tx: tx.execute("UPDATE result SET host_id = ?", (77,)))
    find = invariants.handed_to_one_host
    found = [each for each in filled.read(lambda db: list(find(db))) if each.code == "on_unknown_host"]
    assert [each.target for each in found] == [f"result {id_}" for id_ in range(1, 5)]
    alike = "SELECT workunit_id, id FROM result WHERE workunit_id > ? AND workunit_id <= ? ORDER BY id"
    rows = filled.read(lambda db: list(db.in_parts(alike, "result", "workunit_id")))
    assert rows == [
        (1, 1),
        (2, 2),
        (3, 3),
        (3, 4),
    ]  # also where more rows share a key than a part should have
    assert filled.read(lambda db: list(db.in_parts("SELECT 1 WHERE ? < ?", "team"))) == [(1,)]


def test_how_many_rows_a_check_will_look_at_is_known_when_it_begins(filled: Store):
    filled.write(lambda tx: tx.execute("ANALYZE"))

    def begun(find: Callable[[Database], Iterator[Finding]]) -> tuple[int, int]:
        def look(db: Database) -> tuple[int, int]:
            found = find(db)
            next(found)
            expected, _ = db.n_to_look_at, list(found)
            return expected, db.n_looked_at

        return filled.read(look)

    assert begun(invariants.credited_once)[0] == 3 * 4  # three times over all results
    filled.write(lambda tx: tx.execute("UPDATE workunit SET transition_time = NULL"))
    assert begun(invariants.workunit_states) == (3, 3)


def test_a_check_of_empty_tables_expects_no_rows(store: Store):
    def look(db: Database) -> int:
        list(invariants.orphans(db))
        return db.n_to_look_at

    store.write(lambda tx: tx.execute("ANALYZE"))
    assert store.read(look) == 0


def test_every_question_of_the_doctor_is_understood(filled: Store):
    for find in (
        invariants.handed_to_one_host,
        invariants.workunit_states,
        invariants.credited_once,
        invariants.assimilated_once,
        invariants.finite_numbers,
        invariants.orphans,
    ):
        list(filled.read(lambda db, find=find: list(find(db))))
    assert [item.target for item in filled.read(lambda db: list(invariants.credited_once(db)))] == [
        "result 1"
    ]
    assert filled.read(invariants.needed_files) == {}
    assert filled.write(invariants.recount_references) == 0
    assert filled.write(invariants.remove_orphans) == filled.write(invariants.forget_wrong_records) == 0
    filled.write(lambda tx: invariants.recount_batch(tx, 1))
    filled.write(lambda tx: invariants.set_statement_figure(tx, "host", 1, "total", 7.0))
    assert filled.read(lambda db: db.value("SELECT total_credit FROM host")) == 7.0
    assert filled.write(lambda tx: invariants.look_again(tx, [1, 2], now=0.5)) == 2
    assert len(CHECKS) > 12


def test_a_database_that_flushes_is_found_durable(store: Store, location: Path | str):
    if isinstance(location, str):  # the server of these tests does not flush, to be quick
        found = store.read(lambda db: [each.text for each in invariants.durability_of_server(db)])
        assert all("a power loss could lose" in text for text in found)
    else:
        assert store.read(lambda db: list(invariants.durability(db))) == []
