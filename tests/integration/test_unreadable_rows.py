"""Rows that cannot be read, as after a change by hand or a backup restored in part, cost nothing but themselves."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import SimHost, World

from cobblestone.server.credit.trickle_daemon import TrickleCredit
from cobblestone.server.daemons.file_deleter import purge
from cobblestone.server.daemons.transitioner import RETRY_SECONDS, Transitioner
from cobblestone.server.operation.alerts import row_warnings
from cobblestone.store.credit import history
from cobblestone.wire.scheduler.report import MsgFromHost

pytestmark = pytest.mark.both_databases

RUN_TIME = "<runtime>100</runtime>"


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A project that archives finished jobs at once."""
    return make_world(files={"purge_after": 1.0})


def change(world: World, sql: str, *values: object) -> None:
    """Change rows behind the server's back."""
    world.write(lambda tx: tx.execute(sql, values))
    world.ctx.offers.invalidate()
    world.ctx.candidates.invalidate()


def compute(world: World, host: SimHost) -> None:
    """Let a computer fetch and report what there is for it."""
    for _ in range(5):
        world.now += 1000
        host.rpc(ask=1e6, reports=[host.finish(name, b"answer") for name in host.held])
        world.settle()
    assert not host.held


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("output_specs", "[{", "Candidate with r.id 1"),
        ("input_files", "7", "Candidate with r.id 1"),
        ("delay_bound", inf, "inf is no limit of a job"),
        ("assimilate_state", 9, "Workunit 1 is left as it is"),
        ("app_id", 99, "Workunit 1 is left as it is"),
    ],
)
@pytest.mark.parametrize("finishes", [False, True])
def test_a_job_that_cannot_be_read_is_named_and_the_others_are_done(
    world: World, column: str, value: object, said: str, finishes: bool
):
    world.transitioner = Transitioner(world.ctx, finishes=finishes)
    world.add_jobs(world.add_app(), n=3)
    host = world.host(world.user("ada"))
    change(world, f"UPDATE workunit SET {column} = ? WHERE id = 1", value)
    change(world, "UPDATE workunit SET transition_time = 0 WHERE id = 1")
    compute(world, host)
    assert world.query("SELECT id FROM workunit WHERE assimilate_state = 2 ORDER BY id") == [(2,), (3,)]
    (warning,) = row_warnings(world.ctx.store.left_out())
    assert warning.code == "rows_left_out"
    assert said in "\n".join(world.ctx.store.left_out())


@pytest.mark.parametrize("state", ["server_state", "validate_state", "file_delete_state"])
def test_a_reported_result_that_cannot_be_read_holds_up_its_own_job_alone(world: World, state: str):
    world.add_jobs(world.add_app(), n=3)
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6)
    change(world, f"UPDATE result SET {state} = 77 WHERE id = 1")
    host.rpc(reports=[host.finish(name, b"answer") for name in host.held])
    world.now += 20 * 86400  # the deadline of the first has passed
    world.settle()
    assert world.query("SELECT id FROM workunit WHERE assimilate_state = 2 ORDER BY id") == [(2,), (3,)]
    assert "Result with id 1 (KeyError: 77)" in world.ctx.store.left_out()[0]


def test_a_job_that_was_mended_goes_on_by_itself(world: World):
    world.add_jobs(world.add_app(), n=1)
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6)
    host.rpc(reports=[host.finish(name, b"answer") for name in host.held])
    inputs = world.value("SELECT input_files FROM workunit")
    change(world, "UPDATE workunit SET input_files = '{'")
    world.settle()
    change(world, "UPDATE workunit SET input_files = ?", inputs)
    world.settle()
    assert world.value("SELECT assimilate_state FROM workunit") == 0
    world.now += RETRY_SECONDS
    world.settle()
    assert world.value("SELECT assimilate_state FROM workunit") == 2


@pytest.mark.parametrize("handler", ["", "folder:answers"])
@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE app SET limits = '{' WHERE id = 1",
        "UPDATE app_version SET files = '{' WHERE id = 1",
        "DELETE FROM app WHERE id = 1",
    ],
)
def test_an_app_that_cannot_be_read_holds_up_its_own_jobs_alone(world: World, handler: str, harm: str):
    for name in ("damaged", "well"):
        world.add_jobs(world.add_app(name, assimilator=handler), n=2)
    ada, bob = (world.host(world.user(name)) for name in ("ada", "bob"))
    ada.rpc(ask=1e6)
    ada.rpc(reports=[ada.finish(name, b"answer") for name in ada.held])
    world.add_jobs(world.add_app("later", assimilator=handler), n=2)
    change(world, harm)
    world.settle()
    compute(world, bob)
    done = world.query(
        "SELECT COUNT(*) FROM workunit w JOIN app a ON a.id = w.app_id WHERE a.id > 1 AND w.assimilate_state = 2"
    )
    assert done == [(4,)]


def test_an_app_that_cannot_be_read_does_not_keep_answers_of_others_from_their_handlers(world: World):
    for name in ("damaged", "well"):
        world.add_jobs(world.add_app(name), n=2)
    change(world, "UPDATE workunit SET assimilate_state = 1, transition_time = NULL")
    change(world, "UPDATE app SET limits = '{' WHERE id = 1")
    world.settle()
    assert world.query("SELECT id FROM workunit WHERE assimilate_state = 2 ORDER BY id") == [(3,), (4,)]
    assert "cannot be read" in world.value("SELECT handler_problem FROM workunit WHERE id = 1")


def test_a_batch_that_cannot_be_counted_holds_up_its_own_jobs_alone(world: World):
    app = world.add_app()
    world.add_jobs(app, n=1)
    world.add_jobs(app, n=2)
    change(world, "UPDATE batch SET n_success = ? WHERE id = 1", 2**63 - 1)
    compute(world, world.host(world.user("ada")))
    assert world.query("SELECT id FROM workunit WHERE assimilate_state = 2 ORDER BY id") == [(2,), (3,)]


def test_a_batch_without_weight_stops_no_requests(world: World):
    world.add_jobs(world.add_app(), n=3)
    change(world, "UPDATE batch SET fair_weight = 0")
    compute(world, world.host(world.user("ada")))
    assert world.value("SELECT COUNT(*) FROM workunit WHERE assimilate_state = 2") == 3


def test_old_jobs_are_archived_beside_one_that_cannot_be_read(world: World):
    batch = world.add_jobs(world.add_app(), n=3)
    compute(world, world.host(world.user("ada")))
    change(world, "UPDATE workunit SET batch_id = NULL WHERE batch_id = ?", batch.id)
    change(world, "UPDATE result SET file_delete_state = 1")
    change(world, "UPDATE workunit SET input_files = '{' WHERE id = 1")
    world.settle()
    world.now += 86400
    world.run(purge(world.ctx))
    assert world.query("SELECT id FROM workunit") == [(1,)]


def test_a_computer_that_cannot_be_read_keeps_neither_work_nor_credit_nor_lists_from_others(world: World):
    app = world.add_app()
    change(world, "UPDATE app SET partial_credit = 1")
    world.add_jobs(app, n=4)
    ada, bob = (world.host(world.user(name)) for name in ("ada", "bob"))
    ada.rpc(ask=1.0, instances=1)
    ada.rpc(reports=[ada.finish(name, b"answer") for name in ada.held])
    world.settle()  # its speed counts among those that are known
    for host in (ada, bob):
        world.now += 1000
        host.rpc(ask=1.0, instances=1)
    world.now += 5000
    running = [sorted(host.held)[-1] for host in (ada, bob)]
    for host, name in zip((ada, bob), running, strict=True):
        host.rpc(trickles=[MsgFromHost(result_name=name, time=1.0, variety="trickle_credit", text=RUN_TIME)])
    change(world, "UPDATE host SET description = '{' WHERE id = ?", ada.id)
    assert world.run(TrickleCredit(world.ctx).step()) == 2
    assert world.query("SELECT DISTINCT host_id FROM credit_entry WHERE kind = 'trickle'") == [(bob.id,)]
    compute(world, bob)
    assert f"hostid={bob.id}" in world.get("/top_hosts.php").text
    api = ApiClient(world)
    assert [each["id"] for each in api.get("/hosts")["hosts"]] == [bob.id]


def test_an_entry_of_the_ledger_from_no_time_does_not_stop_the_history_of_others(world: World):
    world.add_jobs(world.add_app(), n=2)
    compute(world, world.host(world.user("ada")))
    change(world, "UPDATE credit_entry SET time = 1e300 WHERE id = 1")
    world.write(lambda tx: history.follow_ledger(tx, now=world.now))
    assert world.value("SELECT SUM(n_results) FROM credit_day WHERE owner = 'user'") == 1


def test_a_report_of_a_result_that_cannot_be_read_is_taken_when_it_can_be(world: World):
    world.add_jobs(world.add_app(), n=2)
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6)
    first, second = host.held
    state = world.value("SELECT server_state FROM result WHERE name = ?", first)
    change(world, "UPDATE result SET server_state = 77 WHERE name = ?", first)
    reports = [host.finish(name, b"answer") for name in (first, second)]
    reply = host.rpc(reports=reports)
    assert [ack.get("name") for ack in reply.all("result_ack")] == [second]
    change(world, "UPDATE result SET server_state = ? WHERE name = ?", state, first)
    reply = host.rpc(reports=reports[:1])
    assert [ack.get("name") for ack in reply.all("result_ack")] == [first]
    world.settle()
    assert world.value("SELECT COUNT(*) FROM workunit WHERE assimilate_state = 2") == 2
