"""Statements for one row become statements for many, where that changes nothing."""

from __future__ import annotations

import pytest

from cobblestone.store.engine.postgres_arrays import Changes, for_each, together

TABLE: dict[str, tuple[str, list[tuple[object, ...]], str, list[object]]] = {
    "keys alone": (
        "UPDATE result SET validate_state = 1 WHERE id = ? AND server_state = 5",
        [(1,), (2,)],
        "UPDATE result SET validate_state = 1 WHERE id IN (??) AND server_state = 5",
        [[1, 2]],
    ),
    "values by key": (
        "UPDATE host SET total_credit = ?, n = n + ? WHERE id = ?",
        [(1.5, 1, 7), (2.5, 2, 8)],
        "UPDATE host SET total_credit = v.p0, n = n + v.p1 FROM unnest(?, ?, ?) AS v(p0, p1, p2) WHERE id = v.p2",
        [[1.5, 2.5], [1, 2], [7, 8]],
    ),
    "a text with a question mark, nothing, and a condition": (
        "UPDATE workunit SET name = '?', due = ?, seen = ? WHERE id = ? AND (due IS NULL OR due > ?)",
        [(None, 5.0, 1, 3), (None, None, 2, 3.5)],
        (
            "UPDATE workunit SET name = '?', due = NULL, seen = v.p1 FROM unnest(?, ?, ?) AS v(p1, p2, p3)"
            " WHERE id = v.p2 AND (due IS NULL OR due > v.p3)"
        ),
        [[5.0, None], [1, 2], [3.0, 3.5]],
    ),
    "new rows": (
        "INSERT INTO credit_entry (time, team_id, text) VALUES (?, ?, ?)",
        [(1.0, None, "a"), (1.0, None, "a")],
        "INSERT INTO credit_entry (time, team_id, text) SELECT v.p0, NULL, v.p2 FROM unnest(?, ?) AS v(p0, p2)",
        [[1.0, 1.0], ["a", "a"]],
    ),
    "new or changed rows": (
        "INSERT INTO record (n, host, app) VALUES (?, ?, ?) ON CONFLICT (host, app) DO UPDATE SET n = excluded.n",
        [(1, 1, 1), (1, 1, 2)],
        (
            "INSERT INTO record (n, host, app) SELECT v.p0, v.p1, v.p2 FROM unnest(?, ?, ?) AS v(p0, p1, p2)"
            " ON CONFLICT (host, app) DO UPDATE SET n = excluded.n"
        ),
        [[1, 1], [1, 1], [1, 2]],
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_many_rows_travel_as_lists(name: str):
    sql, rows, expected, values = TABLE[name]
    text, parameters = together(sql, rows)
    assert text == expected
    assert [list(each) for each in parameters] == [values]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("UPDATE host SET n = ? WHERE id = ?", [(1, 1)]),
        ("UPDATE host SET n = n + ? WHERE id = ?", [(1, 1), (2, 1)]),
        ("UPDATE host SET n = ? WHERE id = ?", [(1, 1), ("one", 2)]),
        ("DELETE FROM host WHERE id = ?", [(1,), (1,)]),
        ("UPDATE host SET n = ? WHERE name = ?", [(1, "a"), (2, "b")]),
        ("UPDATE host SET n = (SELECT n FROM t WHERE k = ?) WHERE id = ?", [(1, 1), (2, 2)]),
        ("INSERT INTO t (n) SELECT ? WHERE true", [(1,), (2,)]),
        ("INSERT INTO t (n, k) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET n = excluded.n", [(1, 5), (2, 5)]),
        (
            "INSERT INTO t (n, k) VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET n = t.n + ?",
            [(1, 5, 1), (2, 6, 1)],
        ),
    ],
)
def test_one_row_the_same_row_twice_values_of_several_kinds_and_other_statements_go_one_by_one(
    sql: str, rows: list[tuple[object, ...]]
):
    assert together(sql, rows) == (sql, rows)


HOST = "UPDATE host SET n = ? WHERE id = ?"
DUE = "UPDATE workunit SET due = ? WHERE id = ?"
LATER = "UPDATE workunit SET due = ? WHERE id = ? AND due > ?"
RECORD = (
    "INSERT INTO record (n, host, app) VALUES (?, ?, ?) ON CONFLICT (host, app) DO UPDATE SET n = excluded.n"
)
OTHER_RECORD = RECORD.replace("excluded.n", "record.n + excluded.n")


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ([(HOST, (1, 1)), (DUE, (1, 5)), (HOST, (2, 2))], [(HOST, [(1, 1), (2, 2)]), (DUE, [(1, 5)])]),
        ([(DUE, (1, 5)), (LATER, (2, 6, 2)), (DUE, (3, 7))], [(DUE, [(1, 5), (3, 7)]), (LATER, [(2, 6, 2)])]),
        (
            [(DUE, (1, 5)), (LATER, (2, 6, 2)), (DUE, (3, 6))],
            [(DUE, [(1, 5)]), (LATER, [(2, 6, 2)]), (DUE, [(3, 6)])],
        ),
        (
            [(RECORD, (1, 1, 1)), (OTHER_RECORD, (1, 1, 2)), (RECORD, (2, 1, 2)), (RECORD, (1, 7, 7))],
            [(RECORD, [(1, 1, 1)]), (OTHER_RECORD, [(1, 1, 2)]), (RECORD, [(2, 1, 2), (1, 7, 7)])],
        ),
    ],
)
def test_changes_of_a_statement_come_together_unless_another_one_is_for_the_same_row(
    added: list[tuple[str, tuple[object, ...]]], expected: list[tuple[str, list[tuple[object, ...]]]]
):
    changes = Changes()
    assert all(changes.add(sql, [row], None) for sql, row in added)
    assert [(change.sql, change.rows) for change in changes.take()] == expected
    assert changes.take() == []


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t (n, k) VALUES (?, ?)",
        "DELETE FROM host WHERE id = ?",
        "UPDATE host SET n = ? WHERE name = ?",
        "UPDATE host SET n = ? WHERE id = ? AND NOT EXISTS (SELECT 1 FROM t)",
        "SELECT id FROM host WHERE id IN (??) FOR NO KEY UPDATE",
    ],
)
def test_what_looks_at_other_rows_or_makes_new_ones_is_not_moved(sql: str):
    assert not Changes().add(sql, [(1, 2)], None)


def test_a_question_about_several_is_asked_once():
    sql = "SELECT n, '?' FROM t WHERE a = ? AND b = ?"
    ((one, values, asked),) = for_each(sql, [("x", 1), ("y", 2)])
    assert one == (
        "SELECT q.*, v.n FROM unnest(?, ?, ?) AS v(p0, p1, n)"
        " CROSS JOIN LATERAL (SELECT n, '?' FROM t WHERE a = v.p0 AND b = v.p1) q"
    )
    assert values == [["x", "y"], [1, 2], [0, 1]]
    assert asked == [("x", 1), ("y", 2)]
    ((one, values, asked),) = for_each("SELECT n FROM t WHERE k IN (??)", [(["a", "b", "a"],), (["c"],)])
    assert one.endswith("WHERE k = v.p0) q")
    assert values == [["a", "b", "c"], [0, 0, 1]]


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        ("SELECT n FROM t WHERE k = ?", [(1,)]),
        ("SELECT n FROM t", [(), ()]),
        ("SELECT n FROM t WHERE k IN (??) ORDER BY n", [([1],), ([2],)]),
        ("SELECT SUM(n) FROM t WHERE k IN (??)", [([1],), ([2],)]),
        ("SELECT n FROM t WHERE k NOT IN (??)", [([1],), ([2],)]),
    ],
)
def test_other_questions_are_asked_one_by_one(sql: str, asked: list[tuple[object, ...]]):
    assert list(for_each(sql, asked)) == [(sql, each, [each]) for each in asked]
