"""Numbers and texts of every size go into statements and come out again, in whatever order they come."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise

import pytest

from cobblestone.domain.errors import StoreError
from cobblestone.store.engine.database import Asks, Database, RowsOf, Store, Transaction
from cobblestone.store.engine.engine import Row

SIZES = (1, 2**15 - 1, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1)
IDS = "SELECT id FROM news WHERE id IN (??) ORDER BY id"


@pytest.fixture
def filled(store: Store) -> Store:
    """News with ids of all sizes; the time of each is its id, as a real number."""
    store.write(
        lambda tx: tx.execute_many(
            "INSERT INTO news (id, title, text, time) VALUES (?, ?, '', ?)",
            [(size, f"n{size}", float(size)) for size in SIZES],
        )
    )
    return store


@pytest.mark.parametrize("order", [1, -1], ids=["growing", "shrinking"])
def test_a_statement_meets_ids_of_every_size_in_turn(filled: Store, order: int):
    def look(db: Database) -> None:
        sizes = SIZES[::order]
        for size in sizes:
            assert db.query_in(IDS, [size]) == [(size,)]
        for size in sizes:
            assert db.value("SELECT title FROM news WHERE id = ?", (size,)) == f"n{size}"
        for pair in pairwise(sizes):
            assert db.query_in(IDS, list(pair)) == [(size,) for size in sorted(pair)]

    filled.write(look)
    filled.read(look)


def test_small_and_large_ids_in_one_statement(filled: Store):
    def look(tx: Transaction) -> None:
        for sizes in (SIZES[:1], SIZES, SIZES[:2], SIZES[3:]):
            assert tx.query_in(IDS, sizes) == [(size,) for size in sizes]
            tx.lock("news", sizes)
            assert tx.lock_free("news", sizes) == set(sizes)
        both = "SELECT id FROM news WHERE id > ? AND id IN (??) ORDER BY id"
        for after in SIZES:
            assert tx.query_in(both, SIZES, (after,)) == [(size,) for size in SIZES if size > after]

    filled.write(look)


def test_rows_that_writes_name_ahead_are_locked_once_and_in_the_order_of_their_rank(filled: Store):
    by_text, by_id = RowsOf("news", "text IN (??)", rank=1), RowsOf("news", rank=2)
    asked: list[str] = []

    def look(tx: Transaction) -> None:
        tx.execute_many = lambda sql, rows: asked.append(f"{sql} {next(iter(rows))[0]}")
        tx.lock_ahead([{by_id: (1, 2)}, {by_id: (2, 3), by_text: ["a", "a"]}])
        tx.lock("news", (3, 1))

    filled.write(look)
    locked = "SELECT id FROM news WHERE {} IN (??) ORDER BY id FOR NO KEY UPDATE {}"
    assert asked in ([], [locked.format("text", ["a"]), locked.format("id", [1, 2, 3])])
    assert bool(asked) == filled.read(lambda db: db._connection.row_locks)


def test_rows_of_every_size_change_together(filled: Store):
    def change(tx: Transaction) -> None:
        tx.execute_many("UPDATE news SET text = ? WHERE id = ?", [(str(n), n) for n in SIZES])
        changed = tx.execute_each(
            "UPDATE news SET text = text || '' WHERE id = ?", [(n,) for n in (*SIZES, 3)]
        )
        assert changed == [1] * len(SIZES) + [0]
        for size in SIZES:
            assert tx.execute("UPDATE news SET title = ? WHERE id = ?", (f"m{size}", size)) == 1

    filled.write(change)
    rows = filled.read(lambda db: db.query("SELECT id, text, title FROM news ORDER BY id"))
    assert rows == [(n, str(n), f"m{n}") for n in SIZES]


def test_whole_numbers_serve_as_real_ones_and_yes_and_no_as_whole_ones(filled: Store):
    def change(tx: Transaction) -> None:
        for value in (1, 2.5, 2**31, 0.5, True):
            tx.execute("UPDATE news SET time = ? WHERE id = 1", (value,))
            assert tx.value("SELECT time FROM news WHERE id = 1") == float(value)
        by_time = "SELECT id FROM news WHERE time IN (??) ORDER BY id"
        for times in ([2.0**15], [2**15], [2.0**15, 2.0**16], [2**31, 2**15]):
            assert tx.query_in(by_time, times) == [(int(time),) for time in sorted(times)]
        assert tx.query_in(IDS, [True, 2**31]) == [(1,), (2**31,)]

    filled.write(change)


def test_texts_in_lists_may_hold_anything(filled: Store):
    names = ["n1", "\"}{,\\'", "null", "", "n32768"]

    def look(tx: Transaction) -> None:
        query = "SELECT title FROM news WHERE title IN (??) ORDER BY id"
        assert tx.query_in(query, names) == [("n1",), ("n32768",)]
        assert tx.query_in(query, ["n1\0x"]) in ([], [("n1x",)])
        assert tx.query_in(query, []) == []

    filled.write(look)


def test_a_number_that_no_column_holds_fails_alone(filled: Store):
    for value in (2**63, -(2**63) - 1, 10**300):
        with pytest.raises(OverflowError):
            filled.write(lambda tx, value=value: tx.execute("UPDATE news SET id = ? WHERE id = 1", (value,)))
        with pytest.raises(OverflowError):
            filled.write(lambda tx, value=value: tx.query_in(IDS, [1, value]))
    assert filled.read(lambda db: db.query_in(IDS, SIZES)) == [(size,) for size in SIZES]


def test_more_than_the_network_holds_at_once(store: Store):
    text = "x" * 20_000
    n = 1500

    def fill(tx: Transaction) -> None:
        tx.execute_many("INSERT INTO news (title, text) VALUES (?, ?)", [(str(k), text) for k in range(n)])
        answers = tx.execute_each(
            "UPDATE news SET text = text || ? WHERE title = ?", [("y", "7"), ("z", "no")]
        )
        assert answers == [1, 0]

    store.write(fill)
    for _ in range(2):
        store.write(lambda tx: tx.execute_many("UPDATE news SET time = time + ? WHERE id > ?", [(1, 0)] * 3))
    rows = store.read(lambda db: db.query("SELECT title, text, time FROM news ORDER BY id"))
    assert [row[0] for row in rows] == [str(k) for k in range(n)]
    assert {row[2] for row in rows} == {6.0}
    assert [row[1] for row in rows] == [text + ("y" if k == 7 else "") for k in range(n)]


def test_what_fails_later_fails_the_write_that_asked_for_it(store: Store):
    def later(tx: Transaction) -> None:
        tx.execute_many("INSERT INTO news (id, title) VALUES (?, ?)", [(1, "a"), (1, "again")])

    with pytest.raises(Exception, match=r"(?i)unique"):
        store.write(later)
    assert store.read(lambda db: db.query("SELECT id FROM news")) == []


def test_rows_that_only_a_key_is_filled_in_for_change_each_for_itself(filled: Store):
    def change(tx: Transaction) -> None:
        tx.execute_many("UPDATE news SET time = 7 WHERE id = ?", [(size,) for size in SIZES[:3]])
        tx.execute_many("UPDATE news SET text = text || '+' WHERE id = ?", [(1,), (1,), (32767,)])
        tx.execute_many("UPDATE news SET text = text || '-' WHERE id = ? AND time = 7", [(1,), (2**31,)])
        tx.execute_many("DELETE FROM news WHERE id = ?", [(size,) for size in SIZES[3:]])

    filled.write(change)
    rows = filled.read(lambda db: db.query("SELECT id, text, time FROM news ORDER BY id"))
    assert rows == [(1, "++-", 7.0), (32767, "+", 7.0), (32768, "", 7.0)]


def test_statements_beyond_what_a_connection_keeps_prepared_lose_nothing(
    filled: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("cobblestone.store.engine.postgres_connection.MAX_PREPARED", 3)

    def change(tx: Transaction, turn: int) -> None:
        # Different statements that nobody waits for, then some that are counted.
        for number, n in enumerate(SIZES):
            tx.execute_many(f"UPDATE news SET text = ? || '{number}' WHERE id = ?", [(f"{turn}-", n)])
        for number, n in enumerate(SIZES):
            sql = f"UPDATE news SET title = title || '{number}' WHERE id = ?"
            assert tx.execute_each(sql, [(n,), (3,)]) == [1, 0]

    for turn in range(3):
        filled.write(partial(change, turn=turn))
        assert filled.read(
            lambda db: [text for (text,) in db.query("SELECT text FROM news ORDER BY id")]
        ) == [f"{turn}-{number}" for number in range(len(SIZES))]
    titles = filled.read(lambda db: [title for (title,) in db.query("SELECT title FROM news ORDER BY id")])
    assert titles == [f"n{size}{3 * str(number)}" for number, size in enumerate(SIZES)]


def test_a_transaction_that_the_server_undid_is_no_success(store: Store):
    def write(tx: Transaction) -> None:
        tx.execute("INSERT INTO news (title, text, time) VALUES ('a', '', 1)")
        with suppress(Exception):  # on PostgreSQL the whole transaction has failed now
            tx.execute("SELECT 1 / 0")

    kept = True
    try:
        store.write(write)
    except StoreError:
        kept = False
    assert store.read(lambda db: db.value("SELECT COUNT(*) FROM news")) == kept


NEWS = "SELECT id, title, text, time FROM news ORDER BY id"
SAVE = "INSERT INTO news (id, title, text, time) VALUES (?, ?, ?, ?)"
CHANGES: dict[str, tuple[str, Callable[[random.Random, int], tuple[object, ...]]]] = {
    "new rows": (SAVE, lambda rng, n: (100 + n, _text(rng), _text(rng), rng.choice([n, n / 4]))),
    "new and changed rows": (
        f"{SAVE} ON CONFLICT (id) DO UPDATE SET title = news.title || excluded.title, time = excluded.time",
        lambda rng, n: (rng.choice([n, rng.randrange(20)]), _text(rng), "", float(n)),
    ),
    "values by key": (
        "UPDATE news SET title = title || ?, text = '?''', time = time + ? WHERE id = ?",
        lambda rng, n: (_text(rng), rng.random(), rng.randrange(15 + 5 * n)),
    ),
    "values by key and a condition": (
        "UPDATE news SET time = ? WHERE id = ? AND (title = ? OR time > ?)",
        lambda rng, n: (rng.random(), n, _text(rng), rng.choice([0, 0.5])),
    ),
}


def _text(rng: random.Random) -> str:
    return rng.choice(["", "plain", "it's", "?", "$1", "{a,b}", "NULL", "\\N", "ž\n", '"'])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("n", [2, 10])
def test_many_rows_at_once_change_as_they_do_one_by_one(store: Store, change: str, n: int):
    sql, row = CHANGES[change]
    rng = random.Random(n)
    first = [(id_, "t", "", id_ / 8) for id_ in range(20)]

    def news_after(
        tx: Transaction, run: Callable[[Transaction, list[tuple[object, ...]]], object]
    ) -> list[Row]:
        tx.execute("DELETE FROM news")
        tx.execute_each(SAVE, first)
        run(tx, rows)
        return tx.query(NEWS)

    for _ in range(20):
        rows = [row(rng, place) for place in range(n)]
        at_once = store.write(partial(news_after, run=lambda tx, rows: tx.execute_many(sql, rows)))
        assert at_once == store.write(partial(news_after, run=lambda tx, rows: tx.execute_each(sql, rows)))


@pytest.mark.parametrize("seed", range(10))
def test_changes_that_wait_for_each_other_change_as_they_do_one_by_one(store: Store, seed: int):
    rng = random.Random(seed)
    first = [(id_, "t", "", id_ / 8) for id_ in range(20)]
    # With a key each: others are never moved.
    statements = [change for name, change in CHANGES.items() if name != "new rows"]
    steps = [(sql, [row(rng, rng.randrange(4))]) for sql, row in rng.choices(statements, k=40)]

    def news_after(tx: Transaction, *, one_by_one: bool) -> list[Row]:
        tx.execute("DELETE FROM news")
        tx.execute_each(SAVE, first)
        for sql, rows in steps:
            tx.execute_each(sql, rows) if one_by_one else tx.execute_many(sql, rows)
        return tx.query(NEWS)

    together = store.write(partial(news_after, one_by_one=False))
    assert together == store.write(partial(news_after, one_by_one=True))


def test_what_several_ask_ahead_is_answered_to_each(filled: Store):
    by_id, by_title = (
        "SELECT title, id FROM news WHERE id = ?",
        "SELECT id, title FROM news WHERE title IN (??)",
    )
    titles = [["n1", "n32767"], ["no such"], ["n1"]]

    def ask(tx: Transaction) -> None:
        askers = [lambda db, id_=id_: db.query(by_id, (id_,)) for id_ in (*SIZES, 1, -1)]
        askers += [lambda db, some=some: db.query_in(by_title, some) for some in titles]
        tx.ask_ahead(*askers)
        for id_ in (1, -1, *SIZES, 1):
            assert tx.query(by_id, (id_,)) == ([(f"n{id_}", id_)] if id_ in SIZES else [])
        for some in titles:
            found = sorted(tx.query_in(by_title, some))
            assert found == sorted((int(title[1:]), title) for title in some if title != "no such")
        assert not getattr(tx._connection, "_answers", {})  # what was answered is not kept

    filled.write(ask)


def test_what_was_asked_ahead_for_nothing_is_no_answer_to_a_later_write(filled: Store):
    titles = "SELECT title FROM news WHERE id = ?"
    asks = Asks(lambda db: db.query(titles, (SIZES[0],)), frozenset({SIZES[0]}))
    renamed = "UPDATE news SET title = 'later' WHERE id = ?"

    async def write_in_turn() -> list[Row]:
        await filled.awrite(lambda tx: None, asks=asks)
        await filled.awrite(
            lambda tx: tx.execute(renamed, (SIZES[0],)), asks=Asks(lambda db: None, frozenset())
        )
        return await filled.awrite(lambda tx: tx.query(titles, (SIZES[0],)), asks=asks)

    assert asyncio.run(write_in_turn()) == [("later",)]
