"""What operators ask means the same on every database."""

from __future__ import annotations

import zlib
from typing import Any

from cobblestone.domain.values import AppVersionId, BatchId
from cobblestone.domain.work import JobState, WorkunitError
from cobblestone.store.engine.database import Store, Transaction
from cobblestone.store.operation import figures, interventions
from cobblestone.store.work import batches


def fill(tx: Transaction) -> None:
    """Three jobs of a batch on two hosts: one failed twice, one failed once and waits, one was cancelled."""
    tx.execute_many(
        "INSERT INTO workunit (id, name, batch_id, label, error_mask, completed_seq) VALUES (?, ?, 7, ?, ?, ?)",
        [(1, "w_1", "Été-1", 2, 1), (2, "w_2", "Hiver", 0, None), (3, "w_3", "", 16, 2)],
    )
    tx.execute_many(
        "INSERT INTO result (id, name, workunit_id, server_state, outcome, app_version_id, host_id, exit_status)"
        " VALUES (?, ?, ?, 5, 3, 4, ?, 9)",
        [(1, "w_1_0", 1, 11), (2, "w_1_1", 1, 12), (3, "w_2_0", 2, 11)],
    )
    tx.execute_many(
        "INSERT INTO result_text (result_id, stderr) VALUES (?, ?)",
        [(number, zlib.compress(f"lost frame {number}\n".encode())) for number in (1, 2, 3)],
    )


def test_failures_are_grouped_by_what_was_said(store: Store):
    store.write(fill)
    for found in (
        store.read(lambda db: figures.version_failures(db, AppVersionId(4))),
        store.read(lambda db: figures.batch_failures(db, BatchId(7))),
    ):
        (group,) = found.groups
        assert (group.said, group.n_results, group.n_jobs, group.host_ids) == ("lost frame 3", 3, 2, (11, 12))
        assert [result.id for result in group.newest] == [3, 2, 1]
        assert not found.cut
    reasons = store.read(lambda db: figures.job_errors(db, BatchId(7)))
    assert reasons == {WorkunitError(2): 1, WorkunitError.CANCELLED: 1}


def test_failures_of_other_versions_and_systems_are_other_groups(store: Store):
    def fill_more(tx: Transaction) -> None:
        fill(tx)
        tx.execute("UPDATE result SET app_version_id = 5 WHERE id = 3")
        tx.execute(
            "INSERT INTO host (id, user_id, description) VALUES (11, 1, ?), (12, 1, ?)",
            ('{"os_name": "Linux"}', '{"os_name": "Darwin"}'),
        )

    store.write(fill_more)
    found = store.read(lambda db: figures.batch_failures(db, BatchId(7))).groups
    assert [(group.version_id, group.system, group.n_jobs) for group in found] == [
        (5, "Linux", 1),
        (4, "Darwin", 1),
        (4, "Linux", 1),
    ]


def test_jobs_are_listed_by_state_and_by_a_part_of_their_name(store: Store):
    store.write(fill)

    def labels(**wanted: Any) -> list[str]:
        return [job.label for job in store.read(lambda db: batches.list_jobs(db, 7, **wanted))]

    assert labels() == ["Été-1", "Hiver", ""]
    assert labels(status=JobState.FAILED) == ["Été-1"]
    assert labels(status=JobState.WAITING) == ["Hiver"]
    assert labels(status=JobState.CANCELLED, text="w_3") == [""]
    assert labels(text="té-") == ["Été-1"]
    assert labels(text="HIVE") == ["Hiver"]
    assert labels(text="w%3") == []
    assert labels(after=1, limit=1) == ["Hiver"]


def test_names_are_found_in_any_case(store: Store):
    store.write(fill)
    for text in ("été", "ÉTÉ", "Été-1"):
        assert [hit.id for hit in store.read(lambda db, text=text: interventions.search(db, text))] == [1]
