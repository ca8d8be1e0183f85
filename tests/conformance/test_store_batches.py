from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.store_content import NOW, add_app, add_file, add_jobs, as_input, open_batch

from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.work import BatchState, JobLimits, OutputSpec, ReplicationRules, WorkunitError
from cobblestone.store.catalog import files
from cobblestone.store.engine.database import Store, Transaction
from cobblestone.store.work import archive, batches, job_results, lifecycle
from cobblestone.store.work import rows as work
from cobblestone.store.work.archive import Archive
from cobblestone.store.work.batches import NewJob


def wakes_of(store: Store) -> list[set[str]]:
    heard: list[set[str]] = []
    store.set_waker(heard.append)
    return heard


def close(store: Store, batch_id: int) -> batches.BatchRow:
    return store.write(lambda tx: batches.close_batch(tx, batch_id, now=NOW))


def look(store: Store, batch_id: int) -> batches.BatchRow:
    return store.read(lambda db: batches.batch_by_id(db, batch_id))


def finish_jobs(store: Store, *workunit_ids: int, error: WorkunitError = WorkunitError.NONE) -> None:
    """What transitioner, validator and assimilator do in the end."""

    def finish(tx: Transaction) -> None:
        for id_ in workunit_ids:
            tx.execute(
                "UPDATE workunit SET assimilate_state = 1, error_mask = error_mask | ? WHERE id = ?",
                (int(error), id_),
            )
        lifecycle.mark_assimilated(tx, lifecycle.views(tx, workunit_ids), now=NOW)

    store.write(finish)


def test_a_new_batch_is_open_and_empty(store: Store):
    batch = open_batch(store, add_app(store))
    assert (batch.state, batch.njobs, batch.finished) == (BatchState.INIT, 0, False)


def test_jobs_become_workunits_that_are_due_at_once(store: Store, tmp_path: Path):
    app, file = add_app(store), add_file(store, tmp_path, b"x")
    job = NewJob(
        label="low",
        command_line="--k 3",
        input_files=(as_input(file),),
        output_specs=(OutputSpec(open_name="out", max_nbytes=7),),
        limits=JobLimits(rsc_fpops_est=5e10, delay_bound=600),
        rules=ReplicationRules(min_quorum=2, target_nresults=3),
        priority=4,
    )
    heard = wakes_of(store)
    batch = add_jobs(store, open_batch(store, app), app, [job, NewJob()])
    assert heard[-1] == {"transitioner"}
    assert batch.njobs == 2
    due = store.read(lambda db: lifecycle.due_workunits(db, now=NOW, limit=10))
    workunit = due[0].workunit
    assert [view.workunit.name for view in due] == [f"demo_{batch.id}_0", f"demo_{batch.id}_1"]
    assert workunit.input_files == job.input_files
    assert workunit.output_specs == job.output_specs
    assert (workunit.limits, workunit.rules) == (job.limits, job.rules)
    assert (workunit.priority, workunit.command_line, workunit.batch_id) == (4, "--k 3", batch.id)


def test_each_job_holds_its_input_files(store: Store, tmp_path: Path):
    app, file = add_app(store), add_file(store, tmp_path, b"x")
    jobs = [NewJob(input_files=(as_input(file),))] * 3
    add_jobs(store, open_batch(store, app), app, jobs)
    assert store.read(lambda db: files.files_by_name(db, [file.name]))[file.name].refs == 3


def test_a_failing_submission_leaves_nothing(store: Store, tmp_path: Path):
    app, file = add_app(store), add_file(store, tmp_path, b"x")
    missing = as_input(file.__class__(name="jf_gone", nbytes=1, md5="0" * 32))
    jobs = [NewJob(input_files=(as_input(file),)), NewJob(input_files=(missing,))]

    def submit(tx: Transaction) -> None:
        batch = batches.create_batch(tx, name="b", app_id=app.id, now=NOW)
        batches.add_jobs(tx, batch, app.name, jobs, now=NOW)

    heard = wakes_of(store)
    with pytest.raises(NotFound, match="jf_gone"):
        store.write(submit)
    assert store.read(batches.list_batches) == []
    assert store.read(lambda db: db.value("SELECT COUNT(*) FROM workunit")) == 0
    assert store.read(lambda db: files.files_by_name(db, [file.name]))[file.name].refs == 0
    assert heard == []


def test_positions_go_on_in_later_calls(store: Store):
    app = add_app(store)
    batch = open_batch(store, app)
    for _ in range(3):
        batch = add_jobs(store, batch, app, [NewJob()] * 2)
    names = [job.name for job in store.read(lambda db: batches.list_jobs(db, batch.id))]
    assert names == [f"demo_{batch.id}_{n}" for n in range(6)]


def test_a_closed_batch_takes_no_jobs(store: Store):
    app = add_app(store)
    batch = add_jobs(store, open_batch(store, app), app, [NewJob()])
    close(store, batch.id)
    with pytest.raises(Conflict, match="closed"):
        add_jobs(store, batch, app, [NewJob()])


def test_a_request_key_makes_one_batch(store: Store):
    app = add_app(store)
    batch = open_batch(store, app, key="key")
    with pytest.raises(Conflict):
        open_batch(store, app, key="key")
    assert store.read(lambda db: batches.batch_by_key(db, "key")) == batch
    assert store.read(lambda db: batches.batch_by_key(db, "other")) is None


def test_a_batch_completes_with_its_last_job(store: Store):
    app = add_app(store)
    batch = add_jobs(store, open_batch(store, app), app, [NewJob()] * 3)
    assert close(store, batch.id).state is BatchState.IN_PROGRESS
    finish_jobs(store, 1, 3)
    assert look(store, batch.id).n_success == 2
    finish_jobs(store, 2, error=WorkunitError.TOO_MANY_ERROR_RESULTS)
    done = look(store, batch.id)
    assert (done.state, done.n_success, done.n_error, done.finished) == (BatchState.COMPLETE, 2, 1, True)


def test_closing_a_batch_whose_jobs_are_done_completes_it(store: Store):
    app = add_app(store)
    batch = add_jobs(store, open_batch(store, app), app, [NewJob()])
    finish_jobs(store, 1)
    assert look(store, batch.id).state is BatchState.INIT
    assert close(store, batch.id).state is BatchState.COMPLETE
    assert close(store, batch.id).complete_time == NOW


def test_finished_jobs_come_in_the_order_in_which_they_finished(store: Store):
    app = add_app(store)
    batch = add_jobs(store, open_batch(store, app), app, [NewJob(label=name) for name in "abcd"])
    finish_jobs(store, 3)
    finish_jobs(store, 1, 4)
    first = store.read(lambda db: batches.finished_jobs(db, batch.id, after=0, limit=2))
    assert [(job.label, job.completed_seq) for job in first] == [("c", 1), ("a", 2)]
    finish_jobs(store, 2)
    rest = store.read(lambda db: batches.finished_jobs(db, batch.id, after=2, limit=10))
    assert [(job.label, job.completed_seq) for job in rest] == [("d", 3), ("b", 4)]


def send(store: Store, workunit_id: int, name: str, *, server_state: int = 4, outcome: int = 0) -> None:
    store.write(
        lambda tx: tx.execute(
            "INSERT INTO result (name, workunit_id, app_id, server_state, outcome, exit_status, host_id)"
            " VALUES (?, ?, 1, ?, ?, 9, 1)",
            (name, workunit_id, server_state, outcome),
        )
    )


def test_the_status_of_each_job_is_told(store: Store):
    app = add_app(store)
    batch = add_jobs(store, open_batch(store, app), app, [NewJob()] * 4)
    send(store, 2, "running")
    finish_jobs(store, 3)
    finish_jobs(store, 4, error=WorkunitError.TOO_MANY_ERROR_RESULTS)
    jobs = store.read(lambda db: batches.list_jobs(db, batch.id))
    assert [job.status for job in jobs] == ["waiting", "running", "done", "failed"]
    assert store.read(lambda db: batches.count_running(db, batches.batch_by_id(db, batch.id))) == 1
    assert store.read(lambda db: batches.job_of_batch(db, batch.id, 2)).status == "running"


def test_running_jobs_are_counted_alike_by_the_shorter_of_two_ways(store: Store):
    app = add_app(store)
    large = add_jobs(store, open_batch(store, app), app, [NewJob()] * 6)
    small = add_jobs(store, open_batch(store, app), app, [NewJob()] * 3)
    for number, workunit in enumerate((1, 1, 2, 3, 8)):  # two results of one job
        send(store, workunit, f"running {number}")
    finish_jobs(store, 3)
    counted = store.read(
        lambda db: [batches.count_running(db, batches.batch_by_id(db, each.id)) for each in (large, small)]
    )
    assert counted == [2, 1]


def test_jobs_are_listed_in_pages(store: Store):
    app = add_app(store)
    batch = add_jobs(store, open_batch(store, app), app, [NewJob()] * 5)
    page = store.read(lambda db: batches.list_jobs(db, batch.id, after=2, limit=2))
    assert [job.workunit_id for job in page] == [3, 4]


def test_a_job_of_another_batch_is_not_found(store: Store):
    app = add_app(store)
    add_jobs(store, open_batch(store, app), app, [NewJob()])
    other = open_batch(store, app)
    with pytest.raises(NotFound, match="no job 1"):
        store.read(lambda db: batches.job_of_batch(db, other.id, 1))


def test_the_last_failure_of_a_job_is_found(store: Store):
    app = add_app(store)
    add_jobs(store, open_batch(store, app), app, [NewJob()] * 2)
    send(store, 1, "first", server_state=5, outcome=3)
    send(store, 1, "second", server_state=5, outcome=4)
    send(store, 2, "fine", server_state=5, outcome=1)
    failures = store.read(lambda db: job_results.last_failures(db, [1, 2]))
    assert {id_: failure.name for id_, failure in failures.items()} == {1: "second"}


def cancel(store: Store, batch_id: int, *, limit: int = 1000) -> int:
    """Cancel a batch as the API does; the number of transactions."""
    store.write(lambda tx: batches.abort_batch(tx, batch_id))
    after, calls = 0, 0
    while after is not None:
        after = store.write(
            lambda tx, after=after: batches.cancel_jobs(tx, batch_id, after=after, now=NOW + 1, limit=limit)
        )
        calls += 1
    return calls


def test_cancelling_stops_what_has_no_answer(store: Store):
    app = add_app(store)
    batch = add_jobs(store, open_batch(store, app), app, [NewJob()] * 3)
    close(store, batch.id)
    finish_jobs(store, 1)
    send(store, 2, "unsent", server_state=2)
    send(store, 2, "sent", server_state=4)
    cancel(store, batch.id)
    states = store.read(lambda db: dict(db.query("SELECT name, server_state FROM result")))
    assert states == {"unsent": 5, "sent": 4}
    found = store.read(lambda db: work.workunits(db, [1, 2, 3]))
    assert [workunit.error_mask for workunit in found.values()] == [
        WorkunitError.NONE,
        WorkunitError.CANCELLED,
        WorkunitError.CANCELLED,
    ]
    assert [found[id_].transition_time for id_ in found][1:] == [NOW + 1, NOW + 1]
    assert look(store, batch.id).state is BatchState.ABORTED
    assert [job.status for job in store.read(lambda db: batches.list_jobs(db, batch.id))] == [
        "done",
        "cancelled",
        "cancelled",
    ]


def test_a_large_batch_is_cancelled_in_several_transactions(store: Store):
    app = add_app(store)
    batch = add_jobs(store, open_batch(store, app), app, [NewJob()] * 5)
    assert cancel(store, batch.id, limit=2) == 3
    left = store.read(lambda db: db.value("SELECT COUNT(*) FROM workunit WHERE error_mask = 0"))
    assert left == 0


def test_cancelling_leaves_other_batches_alone(store: Store):
    app = add_app(store)
    batch = add_jobs(store, open_batch(store, app), app, [NewJob()])
    other = add_jobs(store, open_batch(store, app), app, [NewJob()])
    cancel(store, batch.id)
    assert [job.status for job in store.read(lambda db: batches.list_jobs(db, other.id))] == ["waiting"]


def test_cancelling_twice_changes_nothing(store: Store):
    app = add_app(store)
    batch = add_jobs(store, open_batch(store, app), app, [NewJob()])
    cancel(store, batch.id)
    before = look(store, batch.id)
    cancel(store, batch.id)
    assert look(store, batch.id) == before


def test_a_cancelled_batch_is_finished_when_its_jobs_are_closed(store: Store):
    app = add_app(store)
    batch = add_jobs(store, open_batch(store, app), app, [NewJob()])
    cancel(store, batch.id)
    finish_jobs(store, 1)
    done = look(store, batch.id)
    assert (done.state, done.n_error, done.finished) == (BatchState.ABORTED, 1, True)


def test_only_a_finished_batch_is_retired(store: Store):
    app = add_app(store)
    batch = add_jobs(store, open_batch(store, app), app, [NewJob()])
    close(store, batch.id)
    with pytest.raises(Conflict, match="not finished"):
        store.write(lambda tx: batches.retire_batch(tx, batch.id))
    finish_jobs(store, 1)
    heard = wakes_of(store)
    assert store.write(lambda tx: batches.retire_batch(tx, batch.id)).state is BatchState.RETIRED
    assert "file_deleter" in heard[0]
    with pytest.raises(Conflict, match="retired"):
        store.write(lambda tx: batches.abort_batch(tx, batch.id))


def test_batches_are_listed_newest_first_in_pages(store: Store):
    app = add_app(store)
    ids = [open_batch(store, app).id for _ in range(4)]
    assert [batch.id for batch in store.read(lambda db: batches.list_batches(db, limit=2))] == [
        ids[3],
        ids[2],
    ]
    older = store.read(lambda db: batches.list_batches(db, limit=9, before=ids[2]))
    assert [batch.id for batch in older] == [ids[1], ids[0]]


def test_an_unknown_batch_is_not_found(store: Store):
    for operation in (batches.batch_by_id, batches.retire_batch, batches.abort_batch):
        with pytest.raises(NotFound, match="no batch 9"):
            store.write(lambda tx, operation=operation: operation(tx, 9))


def test_answers_of_a_retired_batch_are_released_a_piece_at_a_time(store: Store):
    app, kept = add_app(store), 0
    for retire in (False, True):
        batch = open_batch(store, app)
        add_jobs(store, batch, app, [NewJob() for _ in range(5)])
        close(store, batch.id)
        ids = [row[0] for row in rows(store, "SELECT id FROM workunit WHERE batch_id = ?", batch.id)]
        finish_jobs(store, *ids)
        store.write(lambda tx: tx.execute("UPDATE workunit SET transition_time = NULL"))
        if retire:
            store.write(lambda tx, id_=batch.id: batches.retire_batch(tx, id_))
        else:
            kept = batch.id
    assert store.read(batches.answers_to_release)
    released = [store.write(lambda tx: batches.release_answers(tx, now=NOW + 1, limit=2)) for _ in range(4)]
    assert released == [2, 2, 1, 0]
    assert not store.read(batches.answers_to_release)
    due = rows(store, "SELECT batch_id, COUNT(*) FROM workunit WHERE transition_time = ? GROUP BY 1", NOW + 1)
    assert due == [(kept + 1, 5)], "those of the batch that nobody retired wait"


def test_only_retired_batches_are_searched_for_jobs_to_archive(store: Store, tmp_path: Path):
    app, path = add_app(store), tmp_path / "archive.db"
    for retire in (False, True):
        batch = open_batch(store, app)
        add_jobs(store, batch, app, [NewJob() for _ in range(3)])
        close(store, batch.id)
        ids = [row[0] for row in rows(store, "SELECT id FROM workunit WHERE batch_id = ?", batch.id)]
        finish_jobs(store, *ids)
        if retire:
            store.write(lambda tx, id_=batch.id: batches.retire_batch(tx, id_))
    store.write(lambda tx: tx.execute("UPDATE workunit SET file_delete_state = 2"))

    def purge(limit: int) -> int:
        return archive.purge(store, Archive(path), now=NOW + 100, min_age=50, limit=limit)

    assert purge(2) == 2
    assert rows(store, "SELECT archived FROM batch ORDER BY id") == [(0,), (0,)], "one job is left"
    assert purge(2) == 1
    assert purge(2) == 0
    assert rows(store, "SELECT archived FROM batch ORDER BY id") == [(0,), (1,)]
    assert rows(store, "SELECT DISTINCT batch_id FROM workunit") == [(1,)]


def rows(store: Store, sql: str, *parameters: object) -> list[tuple[int, ...]]:
    return store.read(lambda db: [tuple(row) for row in db.query(sql, parameters)])
