"""Counts of instructions under credit that pays them: what a lie about the count of a module brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.helpers.browser import Browser, release
from tests.helpers.project_world import SimHost, World

from cobblestone.domain.apps import ANY_PLATFORM, App, AppDispatch
from cobblestone.domain.work import JobLimits, ReplicationRules
from cobblestone.server.daemons import verdicts as server_verdicts

TRUE_COUNT = 1e11


def modules(world: World, system: str = "counted:minimum", **options: object) -> App:
    """An app of one module, for computers and browsers, with one job."""
    app = world.add_app(credit_system=system, quorum=2, limits=JobLimits(rsc_fpops_est=1e11), **options)  # type: ignore[arg-type]
    release(world, app, platform=ANY_PLATFORM)
    release(world, app)
    return app


def compute(world: World, host: SimHost, count: float) -> None:
    host.rpc(ask=1)
    (name,) = host.new_results()
    host.rpc(reports=[replace(host.finish(name, b"same"), intops_cumulative=count)])
    world.settle()


def verdicts(world: World) -> Sequence[tuple[int, bool]]:
    return [
        (state, granted > 0)
        for state, granted in world.query("SELECT validate_state, granted_credit FROM result ORDER BY id")
    ]


@pytest.mark.both_databases
@pytest.mark.parametrize("system", ["counted", "counted:minimum"])
def test_a_lie_about_the_count_is_found_out_by_a_third_computer(world: World, system: str):
    world.add_jobs(modules(world, system))
    compute(world, world.host(world.user("liar")), 10 * TRUE_COUNT)
    compute(world, world.host(world.user("alice")), TRUE_COUNT)
    assert verdicts(world)[:2] == [(4, False), (4, False)]
    compute(world, world.host(world.user("bob")), TRUE_COUNT)
    assert verdicts(world) == [(2, False), (1, True), (1, True)]
    (report,) = world.query("SELECT report FROM result_text ORDER BY result_id LIMIT 1")
    assert "the outputs are equal, but one counted" in report[0]


def test_a_browser_and_a_computer_count_alike(world: World):
    world.add_jobs(modules(world))
    browser = Browser(world)
    (job,) = browser.ask()["jobs"]
    browser.upload(job, b"same")
    browser.report(job["name"], instructions=TRUE_COUNT)
    compute(world, world.host(world.user("alice")), TRUE_COUNT)
    assert verdicts(world) == [(1, True), (1, True)]


def test_a_spot_check_compares_counts(world: World):
    app = modules(world, dispatch=AppDispatch(adaptive=True))
    world.add_jobs(app, rules=ReplicationRules(min_quorum=1, target_nresults=1))
    compute(world, world.host(world.user("liar")), 10 * TRUE_COUNT)
    compute(world, world.host(world.user("alice")), TRUE_COUNT)
    compute(world, world.host(world.user("bob")), TRUE_COUNT)
    assert verdicts(world) == [(2, False), (1, True), (1, True)]


def test_where_counts_are_not_paid_they_are_not_compared(world: World):
    world.add_jobs(modules(world, "steady"))
    compute(world, world.host(world.user("liar")), 10 * TRUE_COUNT)
    compute(world, world.host(world.user("alice")), TRUE_COUNT)
    assert [state for state, _ in verdicts(world)] == [1, 1]


def test_among_many_people_two_unknown_liars_do_not_confirm_each_other(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server_verdicts, "MANY_PEOPLE", 0)
    app = modules(world)
    honest = [world.host(world.user(name)) for name in ("alice", "bob", "carol", "dave")]
    world.add_jobs(app)
    for host in honest:  # unknown as well: it takes all of them
        compute(world, host, TRUE_COUNT)
    assert verdicts(world) == [(1, True)] * 4
    world.add_jobs(app)
    for name in ("liar", "accomplice"):
        compute(world, world.host(world.user(name)), 10 * TRUE_COUNT)
    for host in honest[:2]:
        compute(world, host, TRUE_COUNT)
    assert verdicts(world)[4:] == [(2, False), (2, False), (1, True), (1, True)]


def test_accomplices_with_a_good_record_need_a_third_computer_for_an_unusual_count(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server_verdicts, "MANY_PEOPLE", 0)
    app = modules(world)
    hosts = {name: world.host(world.user(name)) for name in ("liar", "accomplice", "alice", "bob")}
    world.add_jobs(app)
    for host in hosts.values():  # of which nothing is known yet: it takes all of them
        compute(world, host, TRUE_COUNT)
    assert verdicts(world) == [(1, True)] * 4
    world.add_jobs(app)
    for name in ("liar", "accomplice"):
        compute(world, hosts[name], 1e6 * TRUE_COUNT)
    assert verdicts(world)[4:6] == [(4, False), (4, False)]
    for name in ("alice", "bob"):
        compute(world, hosts[name], TRUE_COUNT)
    assert verdicts(world)[4:] == [(2, False), (2, False), (1, True), (1, True)]
