"""Jobs that go all the way in one write end as those that pass from daemon to daemon."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.helpers.dispatch_world import CountedVersions, counted
from tests.helpers.project_world import World, failed, succeeded

from cobblestone.domain.work import InputFile, Outcome, ValidateState
from cobblestone.server.daemons import transitioner
from cobblestone.server.daemons.transitioner import Transitioner
from cobblestone.store.operation.invariants import assimilated_once, credited_once, workunit_states

pytestmark = pytest.mark.both_databases

TABLES = {
    "workunit": "SELECT w.name, r.name, w.need_validate, w.canonical_credit, w.transition_time, w.error_mask, w.assimilate_state,"
    " w.file_delete_state, w.target_nresults, w.completed_time, w.completed_seq IS NULL, w.handler_failures FROM workunit w"
    " LEFT JOIN result r ON r.id = w.canonical_result_id ORDER BY w.name",
    "result": "SELECT name, server_state, outcome, validate_state, file_delete_state, host_id, claimed_credit, granted_credit"
    " FROM result ORDER BY name",
    "places": "SELECT batch_id, completed_seq FROM workunit WHERE completed_seq IS NOT NULL ORDER BY 1, 2",
    "batch": "SELECT id, state, n_success, n_error, complete_time FROM batch ORDER BY id",
    "ledger": "SELECT r.name, e.time, e.granted, e.reasons FROM credit_entry e JOIN result r ON r.id = e.result_id ORDER BY 1",
    "host": "SELECT id, total_credit, expavg_credit FROM host ORDER BY id",
    "record": "SELECT host_id, app_version_id, max_jobs_per_day, consecutive_valid, bad_results, et_n, et_avg, error_rate"
    " FROM host_app_version ORDER BY 1, 2",
    "upload": "SELECT name FROM upload ORDER BY name",
    "file": "SELECT name, refs FROM file ORDER BY name",
    "app_day": "SELECT app_id, day, n_success, n_error FROM app_day ORDER BY 1, 2",
}


def story(world: World) -> dict[str, list[Any]]:
    """Let everything happen that can happen to jobs; return what the tables hold in the end."""
    stored = world.store_file("input", b"input")
    inputs = (InputFile(name=stored.name, open_name="in", nbytes=5, md5=stored.md5),)
    alone = world.add_app("alone")
    world.add_jobs(alone, n=12, inputs=inputs)
    world.add_jobs(world.add_app("pair", quorum=2), n=12)
    world.add_jobs(world.add_app("handled", assimilator="folder:answers"), n=4)
    loose = world.add_jobs(alone, n=8, inputs=inputs)  # in no batch: their outputs go
    world.write(lambda tx: tx.execute("UPDATE workunit SET batch_id = NULL WHERE batch_id = ?", (loose.id,)))
    hosts = [world.host(world.user(name), cpid=name * 16) for name in ("ab", "cd", "ef")]
    for _ in range(4):
        for number, host in enumerate(hosts):
            world.now += 1000
            host.rpc(ask=1e6)
            reports: list[Any] = []
            for name in sorted(host.held):
                fate = zlib.crc32(name.encode()) % 10
                if fate == 0:
                    reports.append(failed(name))
                elif fate == 1:
                    reports.append(succeeded(name))  # its output never came
                elif fate == 2:
                    continue  # nothing is heard of it any more
                else:
                    answer = f"disagrees {number}" if fate == 3 else "x" * 50
                    reports.append(host.finish(name, answer.encode()))
            world.now += 500
            host.rpc(reports=reports)
            world.settle()
    world.now += 20 * 86400  # what was not reported is late
    world.settle()
    for check in (workunit_states, credited_once, assimilated_once):
        assert world.ctx.store.read(lambda db, check=check: list(check(db))) == []
    return {name: world.query(query) for name, query in TABLES.items()}


@pytest.mark.parametrize("small_upload_bytes", [0, 64])
def test_the_same_comes_of_every_job_as_from_daemon_to_daemon(
    make_world: Callable[..., World], small_upload_bytes: int
):
    apart = make_world(server={"small_upload_bytes": small_upload_bytes})
    at_once = make_world(server={"small_upload_bytes": small_upload_bytes})
    at_once.transitioner = Transitioner(at_once.ctx, finishes=True)
    expected, found = story(apart), story(at_once)
    assert {row[3] for row in expected["result"]} >= {ValidateState.VALID, ValidateState.INVALID}
    assert {row[2] for row in expected["result"]} >= {Outcome.SUCCESS, Outcome.CLIENT_ERROR, Outcome.NO_REPLY}
    for name, rows in expected.items():
        assert rows, name
        assert found[name] == rows, name


def test_a_job_that_needs_nobody_is_done_after_one_write(world: World):
    world.add_jobs(world.add_app(), n=1)
    world.write(lambda tx: tx.execute("UPDATE workunit SET batch_id = NULL"))
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6)
    host.rpc(reports=[host.finish(name, b"answer") for name in host.held])
    assert world.run(Transitioner(world.ctx, finishes=True).step()) == 1
    assert world.query("SELECT need_validate, assimilate_state, file_delete_state FROM workunit") == [
        (0, 2, 2)
    ]
    assert world.query("SELECT validate_state, file_delete_state FROM result") == [(1, 2)]
    assert world.value("SELECT COUNT(*) FROM upload") == 0
    assert world.value("SELECT granted FROM credit_entry") > 0


def test_many_jobs_are_finished_in_one_step_of_several_writes(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transitioner, "FINISHED_AT_ONCE", 2)
    world.add_jobs(world.add_app(), n=5)
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6, instances=5)
    host.rpc(reports=[host.finish(name, b"answer") for name in host.held])
    n = len(host.reply.all("result_ack"))
    assert n > 2
    assert world.run(Transitioner(world.ctx, finishes=True).step()) == n
    assert world.value("SELECT COUNT(*) FROM workunit WHERE assimilate_state = 2") == n


def test_what_cannot_be_finished_is_left_to_the_daemons(world: World, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise ValueError("a damaged row")

    world.add_jobs(world.add_app(), n=1)
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6)
    host.rpc(reports=[host.finish(name, b"answer") for name in host.held])
    monkeypatch.setattr(transitioner, "judge_and_grant", fail)
    assert world.run(Transitioner(world.ctx, finishes=True).step()) == 1
    assert world.query("SELECT need_validate, assimilate_state FROM workunit") == [(1, 0)]
    world.settle()
    assert world.value("SELECT assimilate_state FROM workunit") == 2


def test_neither_a_request_nor_the_end_of_a_job_goes_through_all_versions(world: World):
    app = world.add_app()
    world.add_jobs(app, n=20)
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6, instances=4)
    offer = world.write(world.ctx.offers.get)
    setattr(offer.catalogue, "versions", counted(offer.catalogue).versions)  # noqa: B010  # of a value
    CountedVersions.looks = 0
    assert len(host.held) > 2
    host.rpc(reports=[host.finish(name, b"answer") for name in list(host.held)[:-2]], ask=1.0)
    assert world.run(Transitioner(world.ctx, finishes=True).step())
    assert world.write(world.ctx.offers.get) is offer
    assert CountedVersions.looks <= 1  # for the choice of the app's version
