"""PostgreSQL finds what it is asked for by an index, in the order of the index."""

from __future__ import annotations

import pytest
from tests.helpers.postgres_server import PostgresServer

from cobblestone.store.engine.database import Database, Store
from cobblestone.store.work import archive, batches, dispatch


def test_no_process_is_started_for_a_statement_however_large_the_tables_are(postgres: PostgresServer):
    store = Store(postgres.project_database(), readers=1)
    store.write(
        lambda tx: tx.execute(
            "INSERT INTO workunit (name) SELECT 'w' || i FROM generate_series(1, 20000) AS i"
        )
    )
    store.write(lambda tx: tx.execute("ANALYZE workunit"))

    def plan(db: Database) -> str:
        for free in ("setup_cost", "tuple_cost"):
            db.query(f"SET LOCAL parallel_{free} = 0")
        db.query("SET LOCAL min_parallel_table_scan_size = 0")
        return str(db.query("EXPLAIN SELECT count(*) FROM workunit WHERE priority > 0"))

    found = store.read(plan)
    assert "workunit" in found
    assert "Gather" not in found
    store.close()


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (dispatch._CLAIM, "result_pkey"),
        (batches._NOT_NEEDED.update("result", key="workunit_id"), "result_by_workunit"),
        (dispatch._DETACHED.update("result", key="host_id", few=False), "result_in_progress"),
    ],
)
def test_results_are_found_by_their_key_though_none_was_waiting_when_the_plan_was_made(
    postgres: PostgresServer, statement: str, index: str
):
    store = Store(postgres.project_database(), readers=1)
    store.write(
        lambda tx: tx.execute(
            "INSERT INTO result (name, workunit_id, host_id, server_state, outcome)"
            " SELECT 'r' || i, i, i % 100, 5, 1 FROM generate_series(1, 20000) AS i"
        )
    )
    store.write(lambda tx: tx.execute("ANALYZE result"))
    places = [1] * statement.count("?")
    plan = store.write(lambda tx: tx.query(f"EXPLAIN {statement}", places))
    assert f"Index Scan using {index} on result" in str(plan)
    store.close()


def test_what_can_be_purged_is_found_without_sorting_all_of_it(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    store = Store(postgres.project_database(), readers=1)
    store.write(
        lambda tx: tx.execute(
            "INSERT INTO workunit (name, app_id, batch_id, file_delete_state, completed_time)"
            " SELECT 'w' || i, 1, CASE WHEN i % 4 > 0 THEN i % 4 END, 2 - i % 2 * 2, i FROM generate_series(1, 20000) AS i"
        )
    )
    store.write(lambda tx: tx.execute("ANALYZE workunit"))
    asked: list[tuple[str, tuple[object, ...]]] = []

    def note(db: Database) -> None:
        query = db.query

        def noting(sql: str, parameters: tuple[object, ...] = ()) -> object:
            asked.append((sql, parameters))
            return query(sql, parameters)

        monkeypatch.setattr(db, "query", noting)
        archive._ready(db, now=1e9, min_age=0, limit=50)
        monkeypatch.undo()

    store.read(note)
    batches, jobs = (
        str(store.read(lambda db, each=each: db.query(f"EXPLAIN {each[0]}", each[1])))
        for each in asked
        if "completed_time" in each[0]
    )
    assert "wu_archive" in batches
    assert "wu_archive" in jobs
    assert "Sort" not in jobs
    store.close()
