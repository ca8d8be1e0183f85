"""What browsers hold: one job for an unknown visitor, a share for a network, and none for a tab that is silent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.helpers.browser import API, Browser, release
from tests.helpers.project_world import World, succeeded

from cobblestone.domain.apps import BROWSER_DELAY_BOUND, BROWSER_SILENCE, App
from cobblestone.domain.work import JobLimits, Outcome
from cobblestone.ops.settings import LimitsSection
from cobblestone.service.rate_limits import RateLimits

MINUTES = BROWSER_SILENCE + 1
ELSEWHERE = "203.0.113.9"
OUT = "SELECT COUNT(*) FROM result WHERE server_state = 4"


def demo(world: World) -> App:
    app = world.add_app(quorum=2, limits=JobLimits(rsc_fpops_est=1e11))
    release(world, app)
    return app


@pytest.fixture
def crowded(make_world: Callable[..., World]) -> World:
    """A project that lets many browsers of one address register, and whose daily quotas do not get in the way."""
    return make_world(limits={"browsers_per_address": 0}, scheduler={"max_jobs_per_day_init": 20})


def outcome(world: World, name: str) -> Outcome:
    return Outcome(world.value("SELECT outcome FROM result WHERE name = ?", name))


def confirm(world: World, browser: Browser, native: str) -> None:
    """Let a browser finish a job, and another computer confirm it."""
    job = next(iter(browser.held.values()))
    browser.finish(job, b"right")
    host = world.host(world.user(native))
    for _ in range(40):
        host.rpc(ask=1)
        new = host.new_results()
        host.rpc(reports=[host.finish(name, b"right") for name in new])
        if any(name.rpartition("_")[0] == job["workunit"] for name in new):
            break
    world.settle()


def test_an_unknown_visitor_has_one_job_and_more_with_each_right_result(crowded: World):
    world = crowded
    app = demo(world)
    browser, held = Browser(world), list[int]()
    for round_ in range(4):
        world.add_jobs(app, 16)
        while browser.ask(64, threads=3)["jobs"]:
            pass
        held.append(len(browser.held))
        confirm(world, browser, f"native{round_}")
    assert held == [1, 2, 3, 4]  # one for each thread, and one to come
    world.now += MINUTES
    world.settle()
    browser.held.clear()
    while browser.ask(64, threads=64)["jobs"]:
        pass
    assert len(browser.held) == 1


@pytest.mark.parametrize("threads", ["1e9", "NaN", "-1", "65", "0", '"64"', "1e999", "null"])
def test_claimed_threads_bring_nothing(crowded: World, threads: str):
    world = crowded
    world.add_jobs(demo(world), 3)
    liar, honest = Browser(world), Browser(world, address=ELSEWHERE)
    body = f'{{"wanted": 64, "threads": {threads}}}'.encode()
    for _ in range(3):
        answer = world.post(
            f"{API}/work", content=body, headers={**liar.headers, "Content-Type": "application/json"}
        )
        assert answer.status_code in (400, 422)
    for _ in range(5):
        liar.ask(64, threads=64)
    assert len(liar.held) == 1
    assert len(honest.ask()["jobs"]) == 1


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("network", "honest"),
    [
        ("198.51.100.{}", ELSEWHERE),
        ("2001:db8:1:{:x}::7", "2001:db8:2::7"),
        ("::ffff:198.51.100.{}", ELSEWHERE),
    ],
)
def test_many_tokens_of_one_network_hold_half_of_the_jobs(
    make_world: Callable[..., World], network: str, honest: str
):
    world = make_world(limits={"browsers_per_address": 0})
    world.add_jobs(demo(world), 5)  # ten results; of each job one is for a browser
    tabs = [Browser(world, address=network.format(number)) for number in range(1, 21)]
    replies = [tab.ask(64, threads=64) for tab in tabs]
    assert world.value(OUT) <= 3
    assert any("hold as many" in text for text in replies[-1]["messages"])
    assert len(Browser(world, address=honest).ask()["jobs"]) == 1


@pytest.mark.both_databases
def test_silent_tabs_give_their_jobs_back_within_minutes_and_end_none(make_world: Callable[..., World]):
    world = make_world(limits={"browsers_per_address": 0})
    world.add_jobs(demo(world), 1)
    for number in range(15):
        silent = Browser(world, address=f"198.51.{number}.1")
        (job,) = silent.ask()["jobs"]
        assert Browser(world, address=ELSEWHERE).ask()["jobs"] == []
        world.now += MINUTES
        world.settle()
        assert outcome(world, job["name"]) is Outcome.NO_REPLY
    honest, host = Browser(world, address=ELSEWHERE), world.host(world.user("alice"))
    (job,) = honest.ask()["jobs"]
    honest.finish(job, b"right")
    host.rpc(ask=1)
    host.rpc(reports=[host.finish(host.new_results()[0], b"right")])
    world.settle()
    assert world.value("SELECT COUNT(*) FROM result WHERE validate_state = 1") == 2


def test_a_tab_that_speaks_keeps_its_job_for_hours_and_no_longer(world: World):
    world.add_jobs(demo(world), 3)
    tab, began = Browser(world), world.now
    (job,) = tab.ask()["jobs"]
    while world.now < began + BROWSER_DELAY_BOUND - 60:
        world.now += 60
        assert tab.ask(0)["drop"] == []
        if world.now % 600 < 60:
            world.settle()
    assert outcome(world, job["name"]) is Outcome.INIT
    assert len(Browser(world, address=ELSEWHERE).ask()["jobs"]) == 1
    world.now += 61
    tab.ask(0)
    world.settle()
    assert outcome(world, job["name"]) is Outcome.NO_REPLY
    assert job["name"] in {each["name"] for each in tab.held.values()}  # which it may finish still


def test_a_job_whose_tab_lost_it_goes_back_as_soon(world: World):
    world.add_jobs(demo(world))
    tab = Browser(world)
    (job,) = tab.ask()["jobs"]
    world.now += 60
    tab.held.clear()
    assert [each["name"] for each in tab.ask()["jobs"]] == [job["name"]]
    world.now += MINUTES
    world.settle()
    assert outcome(world, job["name"]) is Outcome.NO_REPLY


@pytest.mark.both_databases
def test_the_late_answer_of_a_tab_that_returns_counts(world: World):
    world.add_jobs(demo(world))
    tab, host = Browser(world), world.host(world.user("alice"))
    (job,) = tab.ask()["jobs"]
    world.now += 10 * MINUTES
    world.settle()
    reply = tab.ask()
    assert (reply["drop"], reply["jobs"]) == ([], [])  # nor does it get its own job a second time
    tab.finish(job, b"right")
    host.rpc(ask=1)
    host.rpc(reports=[host.finish(host.new_results()[0], b"right")])
    world.settle()
    assert world.value("SELECT granted_credit FROM result WHERE name = ?", job["name"]) > 0


@pytest.mark.both_databases
def test_a_tab_whose_job_went_to_another_browser_is_told_and_the_two_confirm_nothing(world: World):
    world.add_jobs(demo(world))
    first, second, third = (Browser(world, address=f"198.51.{number}.1") for number in range(3))
    (job,) = first.ask()["jobs"]
    world.now += MINUTES
    world.settle()
    (other,) = second.ask()["jobs"]
    assert other["workunit"] == job["workunit"]
    reply = first.ask(0)
    assert reply["drop"] == [job["name"]]
    assert "went to another browser" in reply["messages"][-1]
    reply = first.finish(job, b"mine")
    assert reply["drop"] == [job["name"]]
    assert "went to another browser" in reply["messages"][-1]
    world.settle()
    assert outcome(world, job["name"]) is Outcome.NO_REPLY
    # Now the second one is silent as well: whichever answers first has answered, and a third gets nothing any more.
    world.now += MINUTES
    world.settle()
    first.finish(job, b"mine")
    assert outcome(world, job["name"]) is Outcome.SUCCESS
    assert third.ask()["jobs"] == []
    assert second.finish(other, b"mine")["drop"] == [other["name"]]
    world.settle()
    assert world.value("SELECT COUNT(*) FROM result WHERE validate_state = 1") == 0


def test_a_browser_that_failed_at_a_job_leaves_it_to_computers(world: World):
    world.add_jobs(demo(world))
    first, second = Browser(world), Browser(world, address=ELSEWHERE)
    first.report(first.ask()["jobs"][0]["name"], exit_status=1)
    world.settle()
    assert second.ask()["jobs"] == []
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    assert len(host.new_results()) == 1
    host.rpc(reports=[succeeded(host.new_results()[0])] if host.new_results() else [])


def test_processes_tell_each_other_what_networks_hold_and_no_address():
    told: list[set[str]] = []
    settings = LimitsSection()
    one, other = RateLimits(settings, share=told.append), RateLimits(settings)
    one.held.note("198.51.100.1", 7, 2, now=0.0)
    one.held.note("198.51.100.2", 8, 1, now=1.0)
    for names in told:
        other.hear(names, now=1.0)
        assert "198.51" not in str(names)
    for limits in (one, other):
        assert limits.held.held("198.51.100.200", now=2.0) == 3
        assert limits.held.held("198.51.101.1", now=2.0) == 0
    one.held.note("198.51.100.1", 7, 0, now=3.0)
    assert one.held.held("198.51.100.1", now=4.0) == 1
    assert one.held.held("198.51.100.1", now=1.0 + MINUTES) == 0
