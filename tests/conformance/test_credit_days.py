"""History since the first day: kept in step with the ledger, whatever is killed or purged, and thinned with age."""

from __future__ import annotations

import itertools
import math

import pytest

from cobblestone.domain.values import AppId
from cobblestone.policy.credit import history
from cobblestone.policy.credit.history import day_of
from cobblestone.store.credit import history as credit_days
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.credit.history import CreditOwner
from cobblestone.store.engine.database import Store
from cobblestone.store.work import job_results

DAY = 86400.0
NOW = 20_000 * DAY


def enter(store: Store, *entries: tuple[float, int, float], kind: str = "grant", user: int = 1) -> None:
    """Entries of the ledger: days ago, computer, credit."""
    store.write(
        lambda tx: tx.execute_many(
            "INSERT INTO credit_entry (time, result_id, workunit_id, host_id, user_id, team_id, app_version_id, kind,"
            " granted, work_start) VALUES (?, ?, 1, ?, ?, 7, 1, ?, ?, ?)",
            [
                (
                    NOW - ago * DAY,
                    int(ago * 1000) * 10 + host,
                    host,
                    user,
                    kind,
                    granted,
                    NOW - ago * DAY - 100,
                )
                for ago, host, granted in entries
            ],
        )
    )


def follow(store: Store, *, limit: int = 2000) -> None:
    while store.write(lambda tx: credit_days.follow_ledger(tx, now=NOW + 3600, limit=limit)):
        pass


def rows(store: Store, kind: str, id_: int) -> list[tuple[int, float, int]]:
    found = store.read(lambda db: credit_days.credit_periods(db, CreditOwner(kind, id_)))  # type: ignore[arg-type]  # a plain number
    return [(row.day - day_of(NOW), row.granted, row.n_results) for row in found]


@pytest.fixture
def catalogue(store: Store) -> Store:
    store.write(
        lambda tx: tx.execute(
            "INSERT INTO app_version (id, app_id, platform, version_num, plan_class) VALUES (1, 5, 'any', 1, '')"
        )
    )
    store.write(lambda tx: tx.execute("INSERT INTO app (id, name) VALUES (5, 'demo')"))
    return store


@pytest.mark.parametrize("limit", [1, 3, 2000])
def test_days_are_summed_from_the_ledger_in_portions_of_any_size(catalogue: Store, limit: int) -> None:
    enter(catalogue, (3, 1, 10.0), (2.9, 1, 5.0), (2, 2, 7.0), (2, 1, 1.0))
    follow(catalogue, limit=limit)
    assert rows(catalogue, "user", 1) == [(-3, 15.0, 2), (-2, 8.0, 2)]
    assert rows(catalogue, "host", 1) == [(-3, 15.0, 2), (-2, 1.0, 1)]
    assert rows(catalogue, "team", 7) == [(-3, 15.0, 2), (-2, 8.0, 2)]
    enter(catalogue, (0, 1, 2.0))
    follow(catalogue, limit=limit)
    assert rows(catalogue, "user", 1)[-1] == (0, 2.0, 1)


def test_an_entry_with_a_smaller_number_and_a_later_time_is_not_left_out(catalogue: Store) -> None:
    """Two validators: one reads the clock, the other reads it later and gets its number earlier."""
    now = NOW + 3600  # when `follow` looks
    enter(catalogue, ((NOW - now + 59.5) / DAY, 1, 3.0), ((NOW - now + 60.5) / DAY, 2, 4.0))
    follow(catalogue)
    assert rows(catalogue, "user", 1) == []
    catalogue.write(lambda tx: credit_days.follow_ledger(tx, now=now + 2, limit=10))
    assert rows(catalogue, "user", 1) == [(0, 7.0, 2)]


def test_an_entry_of_a_clock_that_was_set_back_holds_up_nothing(catalogue: Store) -> None:
    enter(catalogue, (-0.5, 1, 3.0), (1, 2, 4.0))
    follow(catalogue)
    assert rows(catalogue, "user", 1) == [(0, 7.0, 2)]


def test_a_damaged_amount_spoils_no_history(catalogue: Store) -> None:
    enter(catalogue, (3, 1, 10.0), (2.9, 1, math.inf), (2, 1, 5.0))
    follow(catalogue)
    assert rows(catalogue, "user", 1) == [(-3, 10.0, 1), (-2, 5.0, 1)]


def test_computers_of_an_app_are_counted_once_a_day(catalogue: Store) -> None:
    enter(catalogue, (3, 1, 10.0), (2.9, 1, 5.0), (2.8, 2, 1.0), (1, 1, 7.0))
    follow(catalogue, limit=1)
    days = catalogue.read(lambda db: job_results.app_days(db, AppId(5)))
    assert [(day.day - day_of(NOW), day.n_hosts, day.n_results, day.granted) for day in days] == [
        (-3, 2, 3, 16.0),
        (-1, 1, 1, 7.0),
    ]


def test_jobs_that_end_and_tasks_that_wait_stand_beside_the_credit_of_the_day(catalogue: Store) -> None:
    enter(catalogue, (0, 1, 10.0))
    follow(catalogue)
    today = day_of(NOW)
    for counts in ((3, 1), (2, 0)):
        catalogue.write(lambda tx, counts=counts: job_results.count_jobs(tx, {AppId(5): counts}, day=today))
    catalogue.write(
        lambda tx: tx.execute_many(
            "INSERT INTO result (id, name, app_id, server_state) VALUES (?, ?, 5, ?)",
            [(1, "a", 2), (2, "b", 2), (3, "c", 4)],
        )
    )
    counts = catalogue.read(job_results.count_tasks)
    catalogue.write(lambda tx: job_results.note_tasks(tx, counts, day=today))
    (day,) = catalogue.read(lambda db: job_results.app_days(db, AppId(5)))
    assert (day.n_success, day.n_error, day.n_unsent, day.n_in_progress, day.granted) == (5, 1, 2, 1, 10.0)


def test_a_computer_has_what_its_earlier_records_earned(catalogue: Store) -> None:
    catalogue.write(
        lambda tx: tx.execute_many(
            "INSERT INTO host (id, user_id, merged_into) VALUES (?, 1, ?)", [(1, 2), (2, None)]
        )
    )
    enter(catalogue, (3, 1, 10.0), (2, 1, 5.0), (2, 2, 1.0))
    enter(catalogue, (1, 2, 0.0), kind="merge")
    follow(catalogue)
    assert rows(catalogue, "host", 2) == [(-3, 10.0, 1), (-2, 6.0, 2)]


def test_milestones_have_the_date_of_the_entry_that_reached_them_and_stay(catalogue: Store) -> None:
    enter(catalogue, (5, 1, 600.0), (4, 1, 600.0), (3, 2, 20_000.0))
    enter(catalogue, (2, 2, -21_000.0), kind="correction")
    enter(catalogue, (1, 2, 5_000.0))
    follow(catalogue)
    found = catalogue.read(lambda db: credit_days.milestones_of(db, Owner.USER, 1))
    assert [(item.credit, (NOW - item.time) / DAY) for item in found] == [(0, 5), (1000, 4), (10_000, 3)]
    assert catalogue.read(lambda db: credit_days.milestones_of(db, Owner.TEAM, 7)) == found


def test_old_days_become_weeks_and_then_spans_of_four_with_all_their_credit(catalogue: Store) -> None:
    enter(catalogue, *((ago, 1, 1.0) for ago in range(3000, -1, -1)))
    follow(catalogue)
    while catalogue.write(lambda tx: credit_days.thin(tx, now=NOW, limit=50)):
        pass
    found = catalogue.read(lambda db: credit_days.credit_periods(db, CreditOwner("user", 1)))
    lengths = [row.n_days for row in found]
    assert lengths == sorted(lengths, reverse=True)
    assert 400 <= lengths.count(1) < 407
    assert len(found) < 700
    assert sum(row.granted for row in found) == 3001.0
    assert sum(row.n_results for row in found) == 3001
    assert all(earlier.day + earlier.n_days == later.day for earlier, later in itertools.pairwise(found))
    assert found[-1].total == 3001.0
    assert catalogue.write(lambda tx: credit_days.thin(tx, now=NOW)) == 0


def test_days_that_come_late_to_a_week_that_is_thinned_already_are_added_to_it(catalogue: Store) -> None:
    monday = 20_000 - history.first_day(20_000 - 500, history.WEEK)
    enter(catalogue, (monday, 1, 1.0), (monday - 1, 1, 1.0))
    follow(catalogue)
    while catalogue.write(lambda tx: credit_days.thin(tx, now=NOW)):
        pass
    enter(catalogue, (monday - 2, 1, 4.0))
    follow(catalogue)
    while catalogue.write(lambda tx: credit_days.thin(tx, now=NOW)):
        pass
    (row,) = catalogue.read(lambda db: credit_days.credit_periods(db, CreditOwner("user", 1)))
    assert (row.granted, row.n_results, row.n_days, row.total) == (6.0, 3, 7, 6.0)
