"""Changes that PostgreSQL's connection holds back and puts together leave the rows that SQLite has, where each runs at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import empty_database

from cobblestone.store.engine.database import Database, Store, Transaction

Statement = tuple[str, Sequence[object]]
#: Each with the kinds of its parameters: a row's number, another key, a text.
CHANGES = (
    ("UPDATE news SET title = ? WHERE id = ?", "ti"),
    ("UPDATE news SET title = title || ? WHERE id = ?", "ti"),
    ("UPDATE news SET text = text || ? WHERE id = ? AND title <> ?", "tit"),
    ("UPDATE news SET text = title WHERE id = ?", "i"),
    ("UPDATE news SET text = COALESCE((SELECT value FROM meta WHERE key = ?), '') WHERE id = ?", "ki"),
    ("UPDATE meta SET value = value || ? WHERE key = ?", "tk"),
    ("DELETE FROM news WHERE id = ?", "i"),
    (
        "INSERT INTO news (id, title, text) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET title = news.title || excluded.title",
        "itt",
    ),
    ("INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING", "kt"),
    (
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = meta.value || excluded.value",
        "kt",
    ),
)
QUESTIONS = (
    ("SELECT title, text FROM news WHERE id = ?", "i"),
    ("SELECT value FROM meta WHERE key = ?", "k"),
    ("SELECT id, title, text FROM news ORDER BY id", ""),
    ("SELECT key, value FROM meta WHERE key LIKE 'k_' ORDER BY key", ""),
)


def a_step(rng: random.Random) -> Callable[[Transaction], object]:
    """Something that a write does; it returns what it was told."""

    def some(kinds: str) -> tuple[object, ...]:
        drawn = {"i": rng.randrange(1, 6), "k": rng.choice(("k1", "k2", "k3"))}
        return tuple(drawn[kind] if kind in drawn else rng.choice("abc") for kind in kinds)

    sql, kinds = rng.choice(CHANGES)
    rows = [some(kinds) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    asked: list[Statement] = [(question, some(wanted)) for question, wanted in rng.choices(QUESTIONS, k=3)]

    def ask(tx: Transaction, *, ahead: bool) -> list[list[Any]]:
        def ask_one(db: Database, each: Statement) -> list[Any]:
            return db.query(*each)

        if ahead:
            tx.ask_ahead(*(partial(ask_one, each=each) for each in asked))
        return [tx.query(*each) for each in asked]

    return rng.choice(
        (
            *(lambda tx: tx.execute_many(sql, rows) for _ in range(12)),
            lambda tx: tx.execute_each(sql, rows),
            lambda tx: tx.execute(sql, rows[0]),
            partial(ask, ahead=True),
            partial(ask, ahead=False),
        )
    )


def all_told(tx: Transaction, steps: Sequence[Callable[[Transaction], object]]) -> list[object]:
    return [step(tx) for step in steps]


def test_changes_and_questions_in_any_order_see_and_leave_the_same(postgres: PostgresServer, tmp_path: Path):
    path, address = tmp_path / "project.sqlite", postgres.project_database()
    path.write_bytes(empty_database())
    stores = [Store(path, readers=1), Store(address, readers=1)]
    rng = random.Random(7)
    look = [partial(Transaction.query, sql=sql) for sql, kinds in QUESTIONS if not kinds]
    for _ in range(300):
        steps = [*(a_step(rng) for _ in range(rng.randrange(3, 30))), *look]
        one, other = (store.write(partial(all_told, steps=steps)) for store in stores)
        assert one == other
    for store in stores:
        store.close()
    postgres.release(address)
