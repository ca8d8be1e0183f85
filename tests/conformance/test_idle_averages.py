"""Averages that nobody touched for a day are brought up to date in small writes that disturb nobody."""

from __future__ import annotations

import pytest

from cobblestone.store.credit import app_credit
from cobblestone.store.credit.app_credit import AVERAGE_TABLES, AverageTable, IdleAverage, Key
from cobblestone.store.engine.database import Store

DAY = 86400.0
NOW = 20_000 * DAY


def table(name: str) -> AverageTable:
    return next(each for each in AVERAGE_TABLES if each.name == name)


def add_teams(store: Store, *averages: tuple[float, float]) -> None:
    """Teams with averages, each from so many days ago."""
    store.write(
        lambda tx: tx.execute_many(
            "INSERT INTO team (name, name_lc, expavg_credit, expavg_time) VALUES (?, ?, ?, ?)",
            [(str(i), str(i), value, NOW - ago * DAY) for i, (value, ago) in enumerate(averages)],
        )
    )


def look(store: Store, name: str, after: Key | None = None) -> tuple[list[IdleAverage], Key | None]:
    of_table = table(name)
    return store.read(
        lambda db: app_credit.find_idle(db, of_table, after=after or of_table.before_all, now=NOW)
    )


def averages(store: Store) -> list[float]:
    return [row[0] for row in store.read(lambda db: db.query("SELECT expavg_credit FROM team ORDER BY id"))]


def test_only_averages_that_count_and_were_not_touched_for_a_day_are_found(store: Store):
    add_teams(store, (10.0, 7), (10.0, 0.9), (0.05, 7), (20.0, 1))
    idle, last = look(store, "team")
    assert [each.key for each in idle] == [(1,), (4,)]
    assert last is None


def test_rows_are_looked_at_page_by_page(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(app_credit, "IDLE_PAGE", 2)
    add_teams(store, (10.0, 7), (0.0, 7), (10.0, 7), (10.0, 7), (10.0, 0))
    found: list[Key] = []
    after: Key | None = (0,)
    while after is not None:
        idle, after = look(store, "team", after)
        found += [each.key for each in idle]
    assert found == [(1,), (3,), (4,)]


def test_a_row_that_was_credited_since_the_look_is_left_alone(store: Store):
    add_teams(store, (10.0, 7), (10.0, 7))
    idle, _ = look(store, "team")
    store.write(
        lambda tx: tx.execute("UPDATE team SET expavg_credit = 99, expavg_time = ? WHERE id = 2", (NOW,))
    )
    store.write(lambda tx: app_credit.decay_idle(tx, table("team"), idle, now=NOW))
    assert averages(store) == [pytest.approx(5.0), 99]
    store.write(
        lambda tx: app_credit.decay_idle(tx, table("team"), idle, now=NOW)
    )  # once more changes nothing
    assert averages(store) == [pytest.approx(5.0), 99]


def test_a_pass_is_noted_beside_the_ledger_for_its_averages_alone(store: Store):
    add_teams(store, (10.0, 7), (10.0, 7))
    store.write(
        lambda tx: tx.execute(
            "INSERT INTO app_credit (owner, app_id, owner_id, expavg_credit, expavg_time) VALUES ('user', 3, 4, 8, ?)",
            (NOW - 14 * DAY,),
        )
    )
    for name in ("team", "app_credit"):
        idle, _ = look(store, name)
        store.write(lambda tx, name=name, idle=idle: app_credit.decay_idle(tx, table(name), idle, now=NOW))
    passes = store.read(lambda db: db.query("SELECT table_name, first_id, last_id, time FROM credit_decay"))
    assert passes == [("team", 1, 2, NOW)]
    assert store.read(lambda db: db.one("SELECT expavg_credit, expavg_time FROM app_credit")) == (
        pytest.approx(2.0),
        NOW,
    )
