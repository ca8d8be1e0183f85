"""What the client measures over weeks: kept over restarts, told to projects and managers, taken over from another client."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.helpers.client_state import URL, World, play

from cobblestone.client.conditions.host import HostWatch
from cobblestone.client.projects.scheduler_request import make_request
from cobblestone.client.records.decisions import CoreDriver
from cobblestone.client.records.measurements import known_times
from cobblestone.policy.client.core.events import ContactProject
from cobblestone.policy.client.host.transfers import TransferRate, after_transfer
from cobblestone.wire.scheduler.host import TimeStats
from cobblestone.wire.scheduler.request import parse_scheduler_request, write_scheduler_request

DAY = 86400.0
START = 1.8e9


class HandClock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def live(world: World, clock: HandClock, seconds: int) -> None:
    """Let time pass as the daemon sees it."""
    for _ in range(seconds // 10):
        clock.now += 10.0
        world.client.measurements.passed(world.client.decisions.core.state, clock.now)
        world.client.measurements.save(world.client.decisions.core.state, clock.now)


def told(world: World) -> TimeStats:
    contact = ContactProject(project=URL, requests={}, report=())
    request = make_request(world.client.state, world.content, contact, world.client.facts())
    return parse_scheduler_request(write_scheduler_request(request)).time_stats


def test_seconds_are_counted_kept_over_a_restart_and_told(tmp_path: Path) -> None:
    clock = HandClock()

    def first(world: World) -> None:
        live(world, clock, 600)
        world.client.state.notes.run_mode.permanent = 3
        world.look()
        live(world, clock, 300)
        clock.now += 3600.0  # asleep
        world.client.measurements.passed(world.client.decisions.core.state, clock.now)
        stats = told(world)
        assert (stats.total_duration, stats.total_active_duration) == (900.0, 600.0)
        assert (stats.session_active_duration, stats.session_gpu_active_duration) == (600.0, 600.0)
        assert (stats.client_start_time, stats.total_start_time, stats.now) == (START, START, clock.now)
        assert stats.active_frac == pytest.approx(math.exp(-3900 / (10 * DAY)), abs=1e-6)
        world.client.measurements.save(world.client.decisions.core.state, clock.now, at_once=True)
        world.client.state.flush()

    def second(world: World) -> None:
        stats = told(world)
        assert (stats.total_duration, stats.session_active_duration) == (900.0, 0.0)
        assert stats.previous_uptime == 900.0 + 3600.0
        assert stats.total_start_time == START
        assert stats.active_frac < 1.0  # although the core's own memory had not been stored

    play(tmp_path, first, clock)
    clock.now += 60.0
    play(tmp_path, second, clock)


def test_a_core_that_remembers_is_not_told_older_figures(tmp_path: Path) -> None:
    clock = HandClock()

    def remembers(world: World) -> None:
        world.client.decisions.store()
        world.client.state.notes.time_stats = TimeStats(total_start_time=1.0, on_frac=0.1)
        world.client.state.keep_notes()
        world.client.state.flush()
        again = CoreDriver(world.client.state, policy="recent", seed=1)
        assert again.restored

    def goes_on(world: World) -> None:
        assert world.client.facts().time_stats.on_frac > 0.9

    play(tmp_path, remembers, clock)
    play(tmp_path, goes_on, clock)


@pytest.mark.parametrize("stated", [math.nan, 1.5, -1.0, math.inf])
def test_fractions_of_another_client_that_are_none_count_as_always(stated: float) -> None:
    times = known_times(TimeStats(total_start_time=1.0, on_frac=stated, active_frac=0.5))
    assert times is not None
    assert (times.on_frac, times.active_frac) == (1.0, 0.5)


def test_a_clock_that_is_set_back_takes_the_start_along(tmp_path: Path) -> None:
    clock = HandClock()

    def check(world: World) -> None:
        live(world, clock, 100)
        clock.now -= DAY
        world.client.measurements.clock_set_back(DAY)
        live(world, clock, 100)
        stats = world.client.facts().time_stats
        assert stats.total_duration == 200.0
        assert stats.client_start_time == START - DAY

    play(tmp_path, check, clock)


def test_the_speed_of_the_network_follows_transfers_large_ones_more() -> None:
    rate = after_transfer(TransferRate(), nbytes=1e6, started=START, now=START + 10)
    assert rate.highest == pytest.approx(1e5)
    small = after_transfer(rate, nbytes=100, started=START + 20, now=START + 30)
    large = after_transfer(rate, nbytes=1e9, started=START + 20, now=START + 30)
    assert small.highest == pytest.approx(1e5 - (math.log(100) / 500) * (1e5 - 10))
    assert large.highest == pytest.approx(1e5 + (math.log(1e9) / 500) * (1e8 - 1e5))
    assert after_transfer(rate, nbytes=1e6, started=START, now=START) == rate
    assert after_transfer(rate, nbytes=0, started=START, now=START + 1) == rate
    quiet = after_transfer(rate, nbytes=2, started=START + 7 * DAY, now=START + 7 * DAY + 10)
    assert quiet.average == pytest.approx(rate.average / 2, rel=1e-3)


def test_transfers_are_measured_in_each_direction_and_kept(tmp_path: Path) -> None:
    clock = HandClock()

    def check(world: World) -> None:
        clock.now += 100.0
        world.client._measured(4e6, True, clock.now - 8.0)
        world.client._measured(9e6, False, clock.now - 3.0)
        stats = world.client.state.notes.net_stats
        assert (stats.bwup, stats.bwdown) == (pytest.approx(5e5), pytest.approx(3e6))
        world.client.measurements.save(world.client.decisions.core.state, clock.now, at_once=True)
        world.client.state.flush()

    def kept(world: World) -> None:
        assert world.client.state.notes.net_stats.bwdown == pytest.approx(3e6)

    play(tmp_path, check, clock)
    play(tmp_path, kept, clock)


HEAD = "Iface\tDestination\tGateway\tFlags\n"
ROUTES_6 = {
    "default": f"{'0' * 32} 00 {'0' * 32} 00 {'f' * 32} 00000400 00000001 00000000 00000003     eth0\n",
    "loopback": f"{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 00000001 00000000 00200200       lo\n",
}


@pytest.mark.parametrize(
    ("routes", "routes_6", "connected"),
    [
        (None, None, None),
        (HEAD + "eth0\t00000000\t0101A8C0\t0003\n", None, True),
        (HEAD + "eth0\t0001A8C0\t00000000\t0001\n", ROUTES_6["loopback"], False),
        (HEAD, ROUTES_6["default"], True),
    ],
)
def test_a_computer_is_connected_when_it_has_a_default_route(
    routes: str | None, routes_6: str | None, connected: bool | None, tmp_path: Path
) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    for name, text in (("route", routes), ("ipv6_route", routes_6)):
        if text is not None:
            (tmp_path / "proc/net" / name).write_text(text)
    assert HostWatch({}, root=tmp_path).look(0.0).connected is connected


def test_only_servers_that_may_ask_about_files_are_told_that_it_answers(tmp_path: Path) -> None:
    def check(world: World) -> None:
        contact = ContactProject(project=URL, requests={}, report=())
        for asks in (True, False):
            world.content.project.asks_about_files = asks
            request = make_request(world.client.state, world.content, contact, world.client.facts())
            assert ("client_cap_file_challenge" in write_scheduler_request(request).decode()) == asks

    play(tmp_path, check)
