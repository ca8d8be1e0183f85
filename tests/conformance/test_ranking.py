"""Ranks, neighbours and badges of volunteers, computers and teams, on both databases."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from cobblestone.policy.credit.history import Badge, BadgeKind
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.engine.database import Store
from cobblestone.store.operation import ranking
from cobblestone.store.operation.ranking import Order


def at_once(_key: object, find: Callable[[], ranking.Outline]) -> ranking.Outline:
    """Keep nothing."""
    return find()


def people(store: Store, credits_: list[tuple[float, float]]) -> None:
    """Volunteers, computers and teams with total and recent credit, by number from 1."""
    numbered = [(number, *amounts) for number, amounts in enumerate(credits_, start=1)]
    store.write(
        lambda tx: tx.execute_many(
            "INSERT INTO user_account (id, email_addr, authenticator, weak_authenticator, total_credit, expavg_credit)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            [(row[0], f"a{row[0]}", f"b{row[0]}", f"c{row[0]}", *row[1:]) for row in numbered],
        )
    )
    store.write(
        lambda tx: tx.execute_many(
            "INSERT INTO host (id, user_id, total_credit, expavg_credit) VALUES (?, 1, ?, ?)", numbered
        )
    )
    store.write(
        lambda tx: tx.execute_many(
            "INSERT INTO team (id, name_lc, total_credit, expavg_credit) VALUES (?, ?, ?, ?)",
            [(row[0], str(row[0]), *row[1:]) for row in numbered],
        )
    )


@pytest.mark.parametrize("owner", Owner)
@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("step", [0, 1, 7])
def test_a_place_is_where_the_list_has_it_with_its_neighbours_also_among_equals(
    store: Store, rng: random.Random, owner: Owner, order: Order, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``step``: a long list, of which every such place is kept."""
    if step:
        monkeypatch.setattr(ranking, "LONG", 1)
        monkeypatch.setattr(ranking, "STEP", step)
    people(store, [(rng.randrange(5), rng.randrange(5)) for _ in range(40)])
    listed = [
        row
        for page in (0, 1)
        for row in store.read(lambda db, page=page: ranking.top(db, owner, order, page=page))[:25]
    ]
    have = [
        row for row in listed if (row.credit.total if order is Order.TOTAL else row.credit.recent.value) > 0
    ]
    for rank, row in enumerate(have, start=1):
        place = store.read(lambda db, row=row: ranking.place(db, owner, order, row.id, at_once))
        assert place is not None
        assert (place.rank, place.of, place.itself) == (rank, len(have), row)
        assert place.rows == list(enumerate(have, start=1))[max(0, rank - 4) : rank + 3]
    for row in listed[len(have) :]:
        assert store.read(lambda db, row=row: ranking.place(db, owner, order, row.id, at_once)) is None


def test_who_is_gone_has_no_place_and_takes_none(store: Store) -> None:
    people(store, [(3, 3), (2, 2), (1, 1)])
    store.write(lambda tx: tx.execute("UPDATE user_account SET erased_time = 1 WHERE id = 1"))
    store.write(lambda tx: tx.execute("UPDATE host SET merged_into = 3 WHERE id = 1"))
    for owner in (Owner.USER, Owner.HOST):
        assert store.read(lambda db, owner=owner: ranking.place(db, owner, Order.TOTAL, 1, at_once)) is None
        place = store.read(lambda db, owner=owner: ranking.place(db, owner, Order.TOTAL, 3, at_once))
        assert place is not None
        assert (place.rank, place.of) == (2, 2)
    assert store.read(lambda db: ranking.place(db, Owner.TEAM, Order.TOTAL, 99, at_once)) is None


def test_the_cutoff_is_the_credit_of_the_last_one_of_the_best(store: Store) -> None:
    people(store, [(0, float(recent)) for recent in range(201)])  # 200 of them have 1 or more
    assert store.read(lambda db: ranking.rank_cutoff(db, Owner.USER, 1)) == 199.0
    assert store.read(lambda db: ranking.rank_cutoff(db, Owner.USER, 25)) == 151.0
    assert store.read(lambda db: ranking.rank_cutoff(db, Owner.USER, 100)) == 1.0
    store.write(lambda tx: tx.execute("UPDATE user_account SET erased_time = 1"))
    assert store.read(lambda db: ranking.rank_cutoff(db, Owner.USER, 1)) is None


def test_badges_keep_their_numbers_and_dates_and_go_when_the_project_gives_them_no_more(store: Store) -> None:
    small, large = Badge(BadgeKind.TOTAL, 100), Badge(BadgeKind.TOTAL, 0.5)
    ids = store.write(lambda tx: ranking.badge_ids(tx, [small, large]))
    store.write(
        lambda tx: ranking.give_badges(tx, Owner.USER, {7: (frozenset({small}), frozenset())}, ids, now=5.0)
    )
    store.write(
        lambda tx: ranking.give_badges(tx, Owner.USER, {7: (frozenset({small}), frozenset())}, ids, now=9.0)
    )
    found = store.read(lambda db: ranking.badges_of(db, Owner.USER, [7, 8]))
    assert {id_: [(item.badge, item.since) for item in items] for id_, items in found.items()} == {
        7: [(small, 5.0)]
    }
    assert store.read(lambda db: ranking.badges_of(db, Owner.TEAM, [7])) == {}
    assert store.write(lambda tx: ranking.badge_ids(tx, [small, large])) == ids
    again = store.write(lambda tx: ranking.badge_ids(tx, [large]))
    assert again == {large: ids[large]}
    assert store.read(lambda db: ranking.badges_of(db, Owner.USER, [7])) == {}
    assert store.write(lambda tx: ranking.badge_ids(tx, [small]))[small] not in ids.values()
