"""Credit in a running project: statistics, ledger, explanations, audit, corrections, hostile reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.helpers.api_client import ApiClient
from tests.helpers.effort import times
from tests.helpers.project_world import SimHost, World, failed, succeeded

from cobblestone.domain.apps import App
from cobblestone.domain.errors import Conflict
from cobblestone.domain.people import Scope
from cobblestone.domain.reasons import reason
from cobblestone.domain.values import HostId, UserId, float_sum
from cobblestone.domain.work import JobLimits, OutputSpec
from cobblestone.policy.credit.steady import PRIOR_VOTES
from cobblestone.server.credit.ledger_audit import LedgerAudit, recompute
from cobblestone.server.credit.scales import update_scales
from cobblestone.server.credit.trickle_daemon import TrickleCredit
from cobblestone.server.daemons.housekeeping import StatisticsUpdater
from cobblestone.store.catalog import apps
from cobblestone.store.credit import app_credit
from cobblestone.store.credit import ledger as credit
from cobblestone.store.credit.app_credit import IDLE_PORTION
from cobblestone.store.credit.ledger import LedgerLine
from cobblestone.store.operation.interventions import merge_computers
from cobblestone.store.people import users
from cobblestone.store.people.credentials import create_token, new_secret
from cobblestone.store.people.hosts import proven_speeds
from cobblestone.store.work.batches import cancel_workunits
from cobblestone.wire.scheduler.report import MsgFromHost

pytestmark = pytest.mark.both_databases

DEPLOYED = "creditnew-deployed"
NO_OUTPUT = (OutputSpec(open_name="out", optional=True),)


def an_app(world: World, system: str, *, quorum: int = 1, **options: Any) -> App:
    app = world.add_app(
        quorum=quorum, outputs=NO_OUTPUT, limits=JobLimits(rsc_fpops_est=1e12, rsc_fpops_bound=1e14)
    )
    app = replace(app, credit_system=system, **options)
    return world.write(lambda tx: apps.update_app(tx, app))


def report(world: World, host: SimHost, *, elapsed: float = 400.0, cpu: float = 390.0, **more: Any) -> str:
    """Report the oldest result that a host holds, ``elapsed`` seconds after it was sent."""
    name = next(iter(host.held))
    host.rpc(reports=[replace(succeeded(name), final_elapsed_time=elapsed, final_cpu_time=cpu, **more)])
    world.settle()
    return name


def ledger(world: World) -> list[LedgerLine]:
    return world.ctx.store.read(lambda db: list(credit.ledger(db)))


def audit(world: World) -> LedgerAudit:
    return world.ctx.store.read(recompute)


def a_host(world: World, name: str = "alice", **info: Any) -> SimHost:
    return world.host(world.user(name), p_fpops=3e9, **info)


def run_jobs(world: World, host: SimHost, n: int, **report_options: Any) -> list[str]:
    names: list[str] = []
    for _ in range(n):
        if not host.held:
            host.rpc(ask=1e6)
        world.now += 1000
        names.append(report(world, host, **report_options))
    return names


def test_statistics_of_host_and_version_are_kept_and_used(world: World):
    app = an_app(world, DEPLOYED)
    world.add_jobs(app, n=12)
    host = a_host(world)
    run_jobs(world, host, 12)
    record = world.query(
        "SELECT pfc_n, pfc_avg, et_n, et_avg, et_var, turnaround_n, turnaround_avg, consecutive_valid FROM host_app_version"
    )[0]
    # 400 s x 3 GFLOPS / 1e12
    assert record == (
        12,
        pytest.approx(1.2),
        12,
        pytest.approx(4e-10),
        pytest.approx(0, abs=1e-24),
        12,
        record[6],
        12,
    )
    assert world.query("SELECT pfc_n, pfc_avg FROM app_version") == [(12, pytest.approx(1.2))]
    assert audit(world).agrees


def test_the_speed_that_a_client_is_told_follows_what_its_host_measured(world: World):
    app = an_app(world, DEPLOYED)
    world.add_jobs(app, n=20)
    host = a_host(world)
    run_jobs(world, host, 12)
    host.held.clear()
    world.add_jobs(app, n=1)
    reply = host.rpc(ask=1e6)
    assert float(reply.all("app_version")[-1].get("flops")) == pytest.approx(1e12 / 400)


def test_two_hosts_that_agree_are_paid_alike_and_the_ledger_keeps_why(world: World):
    app = an_app(world, DEPLOYED, quorum=2)
    world.add_jobs(app)
    alice, bob = a_host(world), a_host(world, "bob")
    for host in (alice, bob):
        host.rpc(ask=1)
    world.now += 500
    for host, elapsed in ((alice, 400.0), (bob, 200.0)):
        report(world, host, elapsed=elapsed, cpu=elapsed)
    first, second = ledger(world)
    assert first.granted == second.granted > 0
    assert [line.claimed for line in (first, second)] == pytest.approx([1.2e12 / 432e9, 0.6e12 / 432e9])
    assert "pegged_average" in [each["code"] for each in first.reasons]
    found = audit(world)
    assert (found.agrees, found.grants, found.rows["host"]) == (True, 2, 2)


def test_a_straggler_gets_what_the_canonical_result_got(world: World):
    app = an_app(world, DEPLOYED, quorum=1)
    app = world.write(
        lambda tx: apps.update_app(tx, replace(app, rules=replace(app.rules, target_nresults=2)))
    )
    world.add_jobs(app)
    alice, bob = a_host(world), a_host(world, "bob")
    for host in (alice, bob):
        host.rpc(ask=1)
    world.now += 500
    report(world, alice)
    report(world, bob, elapsed=100.0, cpu=100.0)
    first, second = ledger(world)
    assert second.granted == first.granted
    assert second.facts["straggler"] is True
    assert audit(world).agrees


@pytest.mark.parametrize(
    "system",
    [
        "benchmark:minimum",
        "creditnew-designed",
        DEPLOYED,
        "steady",
        "steady-measured",
        "runtime",
        "counted",
        "fixed",
    ],
)
def test_every_system_leaves_books_that_can_be_proven(world: World, system: str):
    app = an_app(world, system, quorum=2, fixed_credit=7.5)
    world.add_jobs(app, n=6)
    alice, bob = a_host(world), a_host(world, "bob", p_ncpus=2)
    world.write(lambda tx: users.create_team(tx, "Rats", 1, now=world.now))  # type: ignore[arg-type]  # a plain number
    for round_ in range(6):
        for host in (alice, bob):
            if not host.held:
                host.rpc(ask=1e6)
        world.now += 700
        for host in (alice, bob):
            report(world, host, elapsed=100.0 + 37 * round_, fpops_cumulative=2e11)
    found = audit(world)
    assert found.differences == []
    assert found.grants == 12
    assert sum(line.granted for line in ledger(world)) == pytest.approx(
        world.value("SELECT SUM(total_credit) FROM host")
    )
    if system == "fixed":
        assert {line.granted for line in ledger(world)} == {7.5}


def test_a_wrong_total_and_a_changed_entry_are_listed(world: World):
    app = an_app(world, "benchmark")
    world.add_jobs(app, n=2)
    run_jobs(world, a_host(world), 2)
    assert audit(world).agrees
    world.write(lambda tx: tx.execute("UPDATE host SET total_credit = total_credit + 0.001"))
    world.write(lambda tx: tx.execute("UPDATE credit_entry SET claimed = claimed * 2 WHERE id = 1"))
    found = {(each.table, each.id, each.figure) for each in audit(world).differences}
    assert found == {("host", 1, "total"), ("credit_entry", 1, "claimed")}


@pytest.mark.parametrize("table", ["host_app_version", "app_version"])
@pytest.mark.parametrize(("figure", "change"), [("pfc_avg", 3e-16), ("pfc_n", 1), ("pfc_q", 1e-300)])
def test_a_mean_that_the_ledger_did_not_teach_is_listed(world: World, table: str, figure: str, change: float):
    app = an_app(world, DEPLOYED)
    world.add_jobs(app, n=4)
    host = a_host(world)
    run_jobs(world, host, 2)
    assert audit(world).differences == []
    world.write(lambda tx: tx.execute(f"UPDATE {table} SET {figure} = {figure} + ?", (change,)))
    name = f"pfc {figure.removeprefix('pfc_').replace('avg', 'mean')}"
    assert [(each.table, each.figure) for each in audit(world).differences] == [(table, name)]
    # what follows starts from the wrong figure: that entry is listed, and the rows agree with the last one again
    run_jobs(world, host, 1)
    prefix = "version " if table == "app_version" else ""
    found = {(each.table, each.id, each.figure) for each in audit(world).differences}
    assert found == {("credit_entry", 3, prefix + name)}


def test_the_audit_follows_a_record_that_a_new_version_took_over(world: World):
    app = an_app(world, DEPLOYED)
    world.add_jobs(app, n=3)
    host = a_host(world)
    run_jobs(world, host, 3)
    first = world.ctx.store.read(lambda db: apps.list_versions(db, app.id))[0]
    world.write(lambda tx: apps.add_version(tx, replace(first, version_num=first.version_num + 1), now=1))
    world.add_jobs(app, n=3)
    run_jobs(world, host, 3)
    assert world.query("SELECT app_version_id, pfc_n FROM host_app_version") == [(2, 6)]
    assert audit(world).differences == []
    world.write(lambda tx: tx.execute("DELETE FROM credit_inheritance"))
    assert {each.table for each in audit(world).differences} == {"credit_entry", "host_app_version"}


def test_idle_averages_decay_daily_and_the_audit_follows(world: World):
    app = an_app(world, "benchmark")
    world.add_jobs(app, n=3)
    host = a_host(world)
    run_jobs(world, host, 2, elapsed=900.0, cpu=900.0)
    before = world.value("SELECT expavg_credit FROM host")
    updater = StatisticsUpdater(world.ctx)

    async def daily() -> None:
        while await updater.step():
            pass

    for _ in range(7):
        world.now += 86400
        world.run(daily())
    assert world.value("SELECT expavg_credit FROM host") == pytest.approx(before / 2, rel=1e-3)
    assert world.value("SELECT COUNT(*) FROM credit_decay") > 4
    host.rpc(ask=1)
    world.now += 1000
    report(world, host)
    assert audit(world).differences == []


def test_no_write_of_the_daily_decay_changes_more_than_a_portion(world: World):
    long_ago = world.now - 10 * 86400
    world.write(
        lambda tx: tx.execute_many(
            "INSERT INTO team (name, name_lc, expavg_credit, expavg_time) VALUES (?, ?, 10, ?)",
            [(str(i), str(i), long_ago) for i in range(2 * IDLE_PORTION + 50)],
        )
    )
    updater = StatisticsUpdater(world.ctx)
    done = [0]
    while world.run(updater.step()):
        done.append(world.value("SELECT COUNT(*) FROM team WHERE expavg_time = ?", world.now))
    assert max(after - before for before, after in pairwise(done)) == IDLE_PORTION
    assert done[-1] == 2 * IDLE_PORTION + 50


def test_a_correction_is_a_further_entry_and_takes_no_more_than_was_granted(world: World):
    app = an_app(world, "benchmark")
    world.add_jobs(app, n=2)
    run_jobs(world, a_host(world), 2)
    world.now += 86400
    line = ledger(world)[0]
    why = reason("correction", "The benchmark was forged.")
    world.write(lambda tx: credit.correct(tx, line, -line.granted / 2, why, now=world.now))
    with pytest.raises(Conflict, match="cannot be taken back"):
        world.write(lambda tx: credit.correct(tx, line, -line.granted, why, now=world.now))
    assert [entry.kind for entry in ledger(world)] == ["grant", "grant", "correction"]
    assert world.value("SELECT total_credit FROM user_account") == pytest.approx(1.5 * line.granted)
    assert world.value("SELECT granted_credit FROM result WHERE id = ?", line.result_id) == line.granted / 2
    assert audit(world).differences == []


def test_failures_raise_the_error_rate_and_aborts_by_the_project_do_not(world: World):
    app = an_app(world, DEPLOYED)
    world.add_jobs(app, n=3)
    host = a_host(world)
    host.rpc(ask=1e6)
    names = list(host.held)
    host.rpc(reports=[failed(names[0])])
    rate, row = world.query("SELECT error_rate, consecutive_valid FROM host_app_version")[0]
    assert (rate, row) == (pytest.approx(0.1 * 0.95 + 0.05), 0)
    host.rpc(reports=[failed(names[1], exit_status=202, state=6)])
    assert world.value("SELECT error_rate FROM host_app_version") == rate


def test_scales_of_versions_are_set_from_their_means(world: World):
    app = an_app(world, DEPLOYED)
    first = world.ctx.store.read(lambda db: apps.list_versions(db, app.id))[0]
    world.write(
        lambda tx: apps.add_version(tx, replace(first, platform="windows_x86_64", version_num=0), now=1)
    )
    world.write(lambda tx: tx.execute("UPDATE app_version SET pfc_n = 300, pfc_avg = id"))
    assert world.write(lambda tx: update_scales(tx, offers=world.ctx.offers, now=world.now)) == 2
    assert world.query("SELECT pfc_scale FROM app_version ORDER BY id") == [(1.5,), (0.75,)]
    assert world.value("SELECT min_avg_pfc FROM app") == 1.5


def test_the_steady_system_learns_its_factor_from_results_and_pays_by_it(world: World):
    app = an_app(world, "steady")
    world.add_jobs(app, n=9)
    host = a_host(world)
    run_jobs(world, host, 7)  # 400 s at 3 GFLOPS are 1.2 times the estimate
    assert world.value("SELECT pfc_n FROM app_version") == 0
    world.now += 86400
    run_jobs(world, host, 1)  # known for a day, and the eighth: a vote
    taught = world.query("SELECT pfc_n, pfc_avg FROM app_version")[0]
    assert taught == (PRIOR_VOTES + 1, pytest.approx(1.0365, abs=0.0001))
    world.write(lambda tx: update_scales(tx, offers=world.ctx.offers, now=world.now))
    assert world.value("SELECT min_avg_pfc FROM app") == pytest.approx(taught[1])
    run_jobs(world, host, 1, elapsed=900.0)
    before, after = ledger(world)[-2:]
    assert before.granted == pytest.approx(1e12 * 200 / 86400e9)
    assert after.granted == pytest.approx(before.granted * taught[1])
    assert audit(world).agrees


def test_a_new_version_inherits_what_a_host_taught_under_the_deployed_system(world: World):
    app = an_app(world, DEPLOYED)
    world.add_jobs(app, n=3)
    host = a_host(world)
    run_jobs(world, host, 3)
    first = world.ctx.store.read(lambda db: apps.list_versions(db, app.id))[0]
    world.write(lambda tx: apps.add_version(tx, replace(first, version_num=first.version_num + 1), now=1))
    world.add_jobs(app)
    host.rpc(ask=1)
    assert world.query("SELECT app_version_id, pfc_n FROM host_app_version") == [(2, 3)]


def test_the_record_of_an_earlier_version_stays_inherited_when_its_last_job_is_reported_with_the_request(
    world: World,
):
    app = an_app(world, DEPLOYED)
    world.add_jobs(app, n=3)
    host = a_host(world)
    run_jobs(world, host, 2)
    host.rpc(ask=1)
    first = world.ctx.store.read(lambda db: apps.list_versions(db, app.id))[0]
    world.write(lambda tx: apps.add_version(tx, replace(first, version_num=first.version_num + 1), now=1))
    world.add_jobs(app)
    before = world.value("SELECT error_rate FROM host_app_version")
    host.rpc(reports=[failed(next(iter(host.held)))], ask=1)
    [(version, n, today, rate)] = world.query(
        "SELECT app_version_id, pfc_n, n_jobs_today, error_rate FROM host_app_version"
    )
    assert (version, n, today) == (2, 2, 1)
    assert rate > before


# ------------------------------------------------------------------------------------- hostile reports


def hostile(world: World, host: SimHost, **figures: str) -> str:
    """A report whose figures are replaced by texts on the wire."""
    name = next(iter(host.held))

    class Forger:
        def post(self, path: str, **options: Any) -> Any:
            content = options["content"].decode()
            for figure, text in figures.items():
                start = content.index(f"<{figure}>") + len(figure) + 2
                content = content[:start] + text + content[content.index("<", start) :]
            return world.post(path, content=content.encode())

    host.world = Forger()
    sample = replace(succeeded(name), final_elapsed_time=55.0, final_cpu_time=44.0, fpops_cumulative=33.0)
    host.rpc(reports=[sample])
    host.world = world
    world.settle()
    return name


BAD = ["nan", "inf", "-inf", "-5", "1e304", "many", "", "0x1p1023", "1e9999"]


@pytest.mark.parametrize("text", BAD)
def test_a_hostile_figure_is_refused_with_a_reason_and_the_rest_of_the_report_counts(world: World, text: str):
    app = an_app(world, DEPLOYED)
    world.add_jobs(app)
    host = a_host(world)
    host.rpc(ask=1)
    world.now += 600
    name = hostile(world, host, final_elapsed_time=text)
    result = world.query("SELECT outcome, cpu_time, granted_credit FROM result WHERE name = ?", name)[0]
    assert result[:2] == (1, 44.0)
    assert 0 < result[2] < 100
    answer = world.get(f"/api/v1/credit/results/{name}", headers=token(world)).json()
    assert answer["report"] or answer["entries"][0]["reasons"]
    assert any("elapsed" in each["text"] for each in answer["report"]), answer["report"]
    assert audit(world).differences == []


def token(world: World) -> dict[str, str]:
    """Headers of an operator."""
    secret = new_secret()
    world.write(
        lambda tx: create_token(tx, secret, name="test", scopes=[Scope.READ, Scope.MANAGE], now=world.now)
    )
    return {"Authorization": f"Bearer {secret}"}


FIGURES = ["final_cpu_time", "final_elapsed_time", "fpops_cumulative", "p_fpops", "p_iops", "p_ncpus"]


@settings(max_examples=times(16), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    reports=st.lists(
        st.tuples(
            st.sampled_from(FIGURES), st.sampled_from([*BAD, "1e12", "1e-300", "7"]), st.integers(0, 10**6)
        ),
        min_size=1,
        max_size=4,
    ),
    system=st.sampled_from([DEPLOYED, "creditnew-designed", "benchmark-both", "counted", "runtime"]),
)
def test_no_report_poisons_an_average(
    make_world: Callable[..., World], reports: list[tuple[str, str, int]], system: str
):
    world = make_world()
    try:
        app = an_app(world, system)
        world.add_jobs(app, n=len(reports))
        host = a_host(world)
        for figure, text, seconds in reports:
            if not host.held:
                host.rpc(ask=1e6)
            if not host.held:
                break
            world.now += seconds
            hostile(world, host, **{figure: text})
        for table in ("host", "user_account", "app_version"):
            for row in world.query(f"SELECT total_credit, expavg_credit FROM {table}"):
                assert all(value is not None and 0 <= value < 1e9 for value in row), (table, row)
        for row in world.query(
            "SELECT pfc_avg, pfc_var, et_avg, et_var, turnaround_avg, turnaround_var, error_rate FROM host_app_version"
        ):
            assert all(value is not None and 0 <= value < 1e30 for value in row), row
        assert audit(world).differences == []
    finally:
        asyncio.set_event_loop(None)


# ------------------------------------------------------------- partial credit, credit after assimilation


def trickle(name: str, seconds: str, time: float) -> MsgFromHost:
    return MsgFromHost(
        result_name=name, time=time, variety="trickle_credit", text=f"<runtime>{seconds}</runtime>"
    )


def handle_trickles(world: World) -> None:
    daemon = TrickleCredit(world.ctx)

    async def all_of_them() -> None:
        while await daemon.step():
            pass

    world.run(all_of_them())


def test_trickle_messages_bring_provisional_credit_that_the_final_grant_counts_in(world: World):
    app = an_app(world, "benchmark", partial_credit=True)
    world.add_jobs(app)
    host = a_host(world)
    host.rpc(ask=1)
    name = next(iter(host.held))
    world.now += 1000
    for seconds in ("300", "nan", "1e9", "300"):  # the third is bounded by the time since it was sent
        host.rpc(trickles=[trickle(name, seconds, world.now)])
        world.now += 1
    handle_trickles(world)
    handle_trickles(world)
    provisional = [line.granted for line in ledger(world)]
    assert [line.kind for line in ledger(world)] == ["trickle", "trickle"]
    assert sum(provisional) == pytest.approx(1004 * 3e9 * 200 / 86400e9)
    world.now += 1000
    report(world, host, elapsed=1900.0, cpu=1900.0)
    assert sum(line.granted for line in ledger(world)) == pytest.approx(1900 * 3e9 * 200 / 86400e9)
    assert "granted_before" in {each["code"] for each in ledger(world)[-1].reasons}
    assert audit(world).differences == []


def test_every_message_is_handled_however_many_there_were_before(world: World):
    app = an_app(world, "benchmark", partial_credit=True)
    world.add_jobs(app)
    host = a_host(world)
    host.rpc(ask=1)
    name = next(iter(host.held))
    world.write(
        lambda tx: tx.execute_many(
            "INSERT INTO msg_from_host (host_id, result_name, variety, digest, time, handled) VALUES (1, ?, ?, ?, ?, 1)",
            [(name, variety, variety, time) for time in range(500) for variety in ("trickle_credit", "own")],
        )
    )
    daemon = TrickleCredit(world.ctx)
    while world.run(daemon.step()):
        pass
    for number in range(60):  # more wait than are handled in one step, and others between them
        world.now += 100
        own = MsgFromHost(result_name=name, time=world.now, variety="own", text="")
        host.rpc(trickles=[trickle(name, str(50 * number), world.now), own])
    while world.run(daemon.step()):
        pass
    assert world.value("SELECT COUNT(*) FROM msg_from_host WHERE handled = 0 AND variety <> 'own'") == 0
    assert ledger(world)


def test_what_messages_brought_to_a_wrong_result_is_taken_back_once_and_explained(world: World):
    app = an_app(world, "benchmark", quorum=2, partial_credit=True)
    app = world.write(
        lambda tx: apps.update_app(tx, replace(app, output_specs=(OutputSpec(open_name="out"),)))
    )
    world.add_jobs(app)
    hosts = [a_host(world, name) for name in ("alice", "bob", "carol")]
    world.write(lambda tx: users.create_team(tx, "Rats", 1, now=world.now))  # type: ignore[arg-type]  # a plain number
    for host in hosts[:2]:
        host.rpc(ask=1)
    liar = next(iter(hosts[0].held))
    for _ in range(3):
        world.now += 40_000
        hosts[0].rpc(trickles=[trickle(liar, "3000", world.now)])
        handle_trickles(world)
    assert world.value("SELECT total_credit FROM host WHERE id = 1") > 0
    for host, answer in ((hosts[0], b"wrong"), (hosts[1], b"right")):
        host.rpc(reports=[host.finish(next(iter(host.held)), answer)])
    world.settle()
    hosts[2].rpc(ask=1)
    world.now += 1000
    hosts[2].rpc(reports=[hosts[2].finish(next(iter(hosts[2].held)), b"right")])
    world.settle()
    entries = [line for line in ledger(world) if line.host_id == 1]
    assert [line.kind for line in entries] == ["trickle", "trickle", "trickle", "correction"]
    assert float_sum(line.granted for line in entries) == 0
    for table in ("host", "user_account", "team"):
        total, average = world.query(f"SELECT total_credit, expavg_credit FROM {table} WHERE id = 1")[0]
        assert (total, average) == (pytest.approx(0, abs=1e-9), pytest.approx(0, abs=1e-6))
    world.write(lambda tx: credit.take_back_provisional(tx, [entries[0].result_id], now=world.now))  # type: ignore[list-item]  # never None here
    assert len(ledger(world)) == 3 + 1 + 2
    assert audit(world).differences == []
    answer = world.get(f"/api/v1/credit/results/{liar}", headers=token(world)).json()
    assert answer["granted"] == 0
    assert "3 trickle messages" in answer["entries"][-1]["reasons"][0]["text"]


@pytest.mark.parametrize("end", ["failed", "late", "given up", "cancelled"])
def test_what_messages_brought_is_taken_back_from_a_result_that_will_not_be_valid(world: World, end: str):
    app = an_app(world, "trickle", quorum=2 if end == "given up" else 1)
    world.add_jobs(app)
    host = a_host(world)
    host.rpc(ask=1)
    name = next(iter(host.held))
    world.now += 1000
    host.rpc(trickles=[trickle(name, "500", world.now)])
    handle_trickles(world)
    assert world.value("SELECT total_credit FROM user_account ORDER BY id LIMIT 1") > 0
    if end == "failed":
        host.rpc(reports=[failed(name)])
    elif end == "late":
        world.now += 30 * 86400
    elif end == "given up":
        report(world, host)  # a success that no one will confirm
        for number in range(9):
            other = a_host(world, f"other{number}")
            other.rpc(ask=1)
            if other.held:
                other.rpc(reports=[failed(next(iter(other.held)))])
            world.settle()
        assert world.value("SELECT error_mask FROM workunit") != 0
    else:  # not the volunteer's doing
        world.write(lambda tx: cancel_workunits(tx, [1], now=world.now))
    world.settle()
    kept = end == "cancelled"
    assert [line.kind for line in ledger(world)] == ["trickle"] + ["correction"] * (not kept)
    for table in ("host", "user_account"):
        assert (world.value(f"SELECT MAX(total_credit) FROM {table}") > 1e-9) is kept
    assert audit(world).differences == []


def test_a_message_for_somebody_elses_job_brings_nothing(world: World):
    app = an_app(world, "trickle")
    world.add_jobs(app)
    alice, bob = a_host(world), a_host(world, "bob")
    alice.rpc(ask=1)
    bob.rpc(ask=1)
    world.now += 1000
    bob.rpc(trickles=[trickle(next(iter(alice.held)), "100", world.now)])
    handle_trickles(world)
    assert ledger(world) == []


def test_apps_without_partial_credit_take_no_messages_for_credit(world: World):
    app = an_app(world, "benchmark")
    world.add_jobs(app)
    host = a_host(world)
    host.rpc(ask=1)
    world.now += 1000
    host.rpc(trickles=[trickle(next(iter(host.held)), "100", world.now)])
    handle_trickles(world)
    assert ledger(world) == []


def assigning_app(world: World, code: str, **options: Any) -> App:
    """An app whose credit a function of the project decides, from the answer."""
    (world.ctx.folder.root / "worth.py").write_text(code)
    app = world.add_app(quorum=2, **options)
    app = replace(app, credit_system="assigned", credit_function="worth.py:credit")
    return world.write(lambda tx: apps.update_app(tx, app))


def answer(world: World, host: SimHost, content: bytes) -> None:
    host.rpc(reports=[host.finish(next(iter(host.held)), content)])
    world.settle()


def test_credit_is_what_the_projects_function_says_of_the_canonical_result(world: World):
    code = (
        "def credit(result):\n"
        "    assert result.elapsed_time > 0 and result.peak_flops > 0 and result.name.endswith(('_0', '_1', '_2'))\n"
        "    return float(result.outputs['out'].read_text())\n"
    )
    app = assigning_app(world, code)
    app = world.write(
        lambda tx: apps.update_app(tx, replace(app, rules=replace(app.rules, target_nresults=3)))
    )
    world.add_jobs(app)
    hosts = [a_host(world, name) for name in ("alice", "bob", "carol")]
    for host in hosts:
        host.rpc(ask=1)
    world.now += 500
    for host in hosts:
        answer(world, host, b"21.5")
    assert [line.granted for line in ledger(world)] == [21.5, 21.5, 21.5]
    assert ledger(world)[2].facts["straggler"] is True
    assert "assigned" in [each["code"] for each in ledger(world)[0].reasons]
    assert audit(world).differences == []


@pytest.mark.parametrize("amount", ["-5", "nan", "inf", "1e304"])
def test_an_impossible_amount_of_the_projects_function_is_bounded_with_a_reason(world: World, amount: str):
    world.add_jobs(assigning_app(world, f"def credit(result):\n    return float('{amount}')\n"))
    hosts = [a_host(world, name) for name in ("alice", "bob")]
    for host in hosts:
        host.rpc(ask=1)
    world.now += 500
    for host in hosts:
        answer(world, host, b"x")
    limit = 73_000_000.0 if amount == "1e304" else 0.0
    assert [line.granted for line in ledger(world)] == [limit, limit]
    codes = {each["code"] for each in ledger(world)[0].reasons}
    assert codes & {"number_refused", "number_bounded"}
    assert audit(world).differences == []


@pytest.mark.parametrize(
    "code", ["def credit(result):\n    return 'much'\n", "def credit(result):\n    1 / 0\n"]
)
def test_a_broken_credit_function_delays_its_jobs_until_it_is_mended(world: World, code: str):
    world.add_jobs(assigning_app(world, code))
    hosts = [a_host(world, name) for name in ("alice", "bob")]
    for host in hosts:
        host.rpc(ask=1)
    world.now += 500
    for host in hosts:
        answer(world, host, b"x")
    assert ledger(world) == []
    assert world.value("SELECT need_validate FROM workunit") == 1
    (world.ctx.folder.root / "worth.py").write_text("def credit(result):\n    return 3\n")
    world.now += 61
    world.settle()
    assert [line.granted for line in ledger(world)] == [3.0, 3.0]


def test_an_app_with_assigned_credit_needs_a_function(world: World):
    headers = token(world)
    body = {"name": "a", "command": ["true", "{output}"], "outputs": [{"name": "output"}]}
    reply = world.post("/api/v1/apps", json={**body, "credit": {"system": "assigned"}}, headers=headers)
    assert reply.status_code in (400, 422)
    assert "credit.function" in reply.text
    for wrong in ("worth", "../worth.py:credit", "worth.py:"):
        credit_body = {"system": "assigned", "function": wrong}
        reply = world.post("/api/v1/apps", json={**body, "credit": credit_body}, headers=headers)
        assert reply.status_code in (400, 422)
        assert "FILE.py:function" in reply.text


def test_credit_after_assimilation_is_what_the_projects_function_returns(world: World):
    app = world.add_app(quorum=2, outputs=NO_OUTPUT, assimilator="merge.py:assimilate")
    world.write(lambda tx: apps.update_app(tx, replace(app, credit_system="after-assimilation")))
    (world.ctx.folder.root / "merge.py").write_text("def assimilate(workunit):\n    return 12.5\n")
    world.add_jobs(app)
    alice, bob = a_host(world), a_host(world, "bob")
    for host in (alice, bob):
        host.rpc(ask=1)
    world.now += 500
    for host in (alice, bob):
        report(world, host)
    assert [line.granted for line in ledger(world)] == [12.5, 12.5]
    assert world.value("SELECT et_n FROM host_app_version") == 1
    assert audit(world).differences == []


# -------------------------------------------------------------------------------------- merged computers


def test_merging_computers_leaves_the_ledger_as_it_is_and_everything_can_be_computed_again(world: World):
    app = an_app(world, "creditnew-deployed", partial_credit=True)
    world.add_jobs(app, n=5)
    old, new = a_host(world), a_host(world, domain_name="the same, set up anew")
    run_jobs(world, old, 5)
    world.now += 3 * 86400
    world.add_jobs(app, n=4)
    run_jobs(world, new, 4)
    owner = world.value("SELECT MIN(user_id) FROM host")
    before = world.query("SELECT * FROM credit_entry ORDER BY id")
    totals = world.query("SELECT id, total_credit FROM host ORDER BY id")
    world.write(
        lambda tx: merge_computers(tx, owner, HostId(totals[0][0]), HostId(totals[1][0]), now=world.now)
    )
    assert world.query("SELECT * FROM credit_entry ORDER BY id")[: len(before)] == before
    assert [line.kind for line in ledger(world)[len(before) :]] == ["merge"]
    assert audit(world).differences == []
    assert world.query("SELECT total_credit FROM host ORDER BY id") == [
        (0.0,),
        (pytest.approx(totals[0][1] + totals[1][1]),),
    ]
    world.now += 86400
    world.add_jobs(app, n=3)
    run_jobs(world, new, 3)
    assert audit(world).differences == []
    # What the earlier record was granted is taken from whoever has it now.
    first = ledger(world)[0]
    world.write(
        lambda tx: credit.correct(tx, first, -first.granted, reason("tried", "Tried."), now=world.now)
    )
    found = audit(world)
    assert found.differences == []
    assert found.corrections == 1
    assert world.value("SELECT total_credit FROM host ORDER BY id LIMIT 1") == 0.0
    shares = world.write(lambda tx: app_credit.follow_ledger(tx, now=world.now + 3600))
    assert shares
    own = world.ctx.store.read(lambda db: app_credit.credit_by_app(db, app_credit.Owner.HOST, totals[1][0]))
    assert own[0].credit.total == pytest.approx(world.value("SELECT MAX(total_credit) FROM host"))


def test_messages_of_a_small_job_bring_no_more_than_its_bound_is_worth(world: World):
    app = an_app(world, "trickle")
    world.write(
        lambda tx: apps.update_app(
            tx, replace(app, limits=JobLimits(rsc_fpops_est=1e12, rsc_fpops_bound=1e13))
        )
    )
    world.add_jobs(app, n=3, limits=JobLimits(rsc_fpops_est=1e12, rsc_fpops_bound=1e13))
    host = a_host(world)
    host.rpc(ask=1e6)
    names = sorted(host.held)
    for _ in range(20):
        world.now += 86400
        for name in names:
            host.rpc(trickles=[trickle(name, "86400", world.now)])
        handle_trickles(world)
    worth = 1e13 * 200 / 86400e9
    assert [world.value("SELECT granted_credit FROM result WHERE name = ?", name) for name in names] == [
        pytest.approx(worth)
    ] * 3
    assert audit(world).differences == []


HUGE = JobLimits(rsc_fpops_est=1e15, rsc_fpops_bound=1e20, delay_bound=1e8)
CPU_DAY = 86400 * 3e9 * 200 / 86400e9


def tell(world: World, *hosts: SimHost, days: int) -> float:
    """Each day each job that a host holds claims a day of run time; all credit that is there afterwards."""
    for _ in range(days):
        world.now += 86400
        for host in hosts:
            host.rpc(trickles=[trickle(name, "86400", world.now) for name in sorted(host.held)])
        handle_trickles(world)
    return float(world.value("SELECT COALESCE(SUM(total_credit), 0) FROM user_account"))


def test_a_person_who_returned_nothing_has_a_week_of_one_processor_open_at_most(world: World):
    app = an_app(world, "trickle")
    world.add_jobs(app, n=64, limits=HUGE)
    host = a_host(world, p_ncpus=64)
    host.rpc(ask=1e9)
    assert len(host.held) > 10
    assert tell(world, host, days=1) <= CPU_DAY * 1.01
    assert tell(world, host, days=20) <= 7 * CPU_DAY * 1.01
    host.rpc(reports=[failed(name) for name in sorted(host.held)])
    world.settle()
    assert world.value("SELECT total_credit FROM user_account") == pytest.approx(0, abs=1e-9)
    assert audit(world).differences == []


def test_merging_a_new_record_each_day_renews_nothing(world: World):
    app = an_app(world, "trickle", quorum=2)
    world.add_jobs(app, n=60, limits=HUGE)
    owner = world.user("alice")
    earned = [0.0]
    hosts: list[SimHost] = []
    for day in range(12):
        host = world.host(owner, p_fpops=3e9, p_ncpus=8, domain_name=f"d{day}")
        host.rpc(ask=1e6)
        assert host.held
        earned.append(tell(world, host, days=1))
        host.rpc(reports=[succeeded(name) for name in sorted(host.held)])  # no one confirms it
        world.settle()
        if hosts:
            before, now = HostId(hosts[-1].id), HostId(host.id)
            world.write(lambda tx, a=before, b=now: merge_computers(tx, UserId(1), a, b, now=world.now))
        hosts.append(host)
    assert earned[-1] <= 7 * CPU_DAY * 1.01
    assert all(later - before <= CPU_DAY * 1.01 for before, later in pairwise(earned))
    assert audit(world).differences == []


def test_a_person_who_returned_valid_work_may_have_as_much_open(world: World):
    app = an_app(world, "fixed", fixed_credit=40 * CPU_DAY, partial_credit=True)
    world.add_jobs(app, n=1)
    host = a_host(world, p_ncpus=4)
    run_jobs(world, host, 1)
    world.add_jobs(app, n=40, limits=HUGE)
    host.rpc(ask=1e9)
    assert len(host.held) > 4
    total = tell(world, host, days=30)
    assert (40 + 20) * CPU_DAY < total <= (40 + 7 + 40) * CPU_DAY * 1.01
    assert audit(world).differences == []


def test_an_app_that_changes_to_the_steady_system_pays_on_as_before(world: World):
    app = an_app(world, "fixed", fixed_credit=7.5)
    host = a_host(world)
    world.add_jobs(app, n=25)
    run_jobs(world, host, 25)
    factor = 7.5 * 86400e9 / 200 / 1e12
    changed = ApiClient(world).patch(f"/apps/{app.name}", {"credit": {"system": "steady"}})
    assert changed["credit"]["system"] == "steady"
    assert world.value("SELECT min_avg_pfc FROM app") == pytest.approx(factor)
    world.add_jobs(app, n=3)
    run_jobs(world, host, 3)
    assert [line.granted for line in ledger(world)] == [pytest.approx(7.5)] * 28
    assert audit(world).differences == []
    ApiClient(world).patch(f"/apps/{app.name}", {"credit": {"system": "steady"}})  # no change
    assert world.value("SELECT min_avg_pfc FROM app") == pytest.approx(factor)


def test_only_computers_that_returned_valid_work_say_how_fast_computers_are(world: World):
    app = an_app(world, "fixed", fixed_credit=1.0)
    world.add_jobs(app, n=30)
    alice = world.user("alice")
    first, second = (world.host(alice, p_fpops=speed, domain_name=f"at {speed:g}") for speed in (3e9, 4e9))
    bob = a_host(world, "bob")
    for host in (first, second, bob):
        host.rpc(ask=1)
    for name in ("carol", "dave", "erin"):  # records that return nothing
        world.host(world.user(name), p_fpops=1e12).rpc()
    for host in (first, second, bob):
        world.now += 1000
        report(world, host)
    assert sorted(world.ctx.store.read(proven_speeds)) == [3e9, 4e9]


def test_a_new_app_is_not_the_one_that_a_child_can_cheat(world: World):
    api = ApiClient(world)
    made = api.post("/apps", {"name": "fresh", "outputs": [{"name": "out"}], "version": api.version()})
    assert made["credit"]["system"] == "steady"
