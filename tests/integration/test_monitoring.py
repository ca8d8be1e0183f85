"""What machines that watch a server see."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import time
from contextlib import redirect_stderr
from functools import partial

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World

from cobblestone.ops.logging import configure_logging
from cobblestone.ops.metrics import METRICS
from cobblestone.server.core.comparisons import comparison_kinds
from cobblestone.server.core.roles import Role
from cobblestone.server.operation.alerts import Watcher
from cobblestone.server.run import _project_daemons
from cobblestone.service import health
from cobblestone.service.health import DaemonBeat, DaemonHealth
from cobblestone.service.supervision import DaemonTask, run_daemon
from cobblestone.store.engine.database import in_background
from cobblestone.store.operation.figures import samples


def metrics(world: World) -> dict[str, float]:
    text = world.get("/metrics").text
    return {
        sample.name + "".join(f"/{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_tell_what_waits_and_what_was_asked(world: World):
    app = world.add_app()
    world.add_jobs(app, n=3)
    world.settle()
    world.get("/")
    world.get("/no-such-page")
    found = metrics(world)
    assert found["cobblestone_results/unsent"] == 3
    assert found["cobblestone_results_created_total"] == 3
    assert found["cobblestone_http_requests_total/page/200"] == 1
    assert found["cobblestone_http_requests_total/page/404"] == 1
    assert found["cobblestone_disk_free_bytes"] > 0
    for name in METRICS:
        assert any(key.startswith(f"cobblestone_{name}") for key in found) or METRICS[name].label, name


def test_a_scheduler_exchange_is_counted(world: World):
    app = world.add_app()
    world.add_jobs(app, n=2)
    world.settle()
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6)
    host.rpc(reports=[host.finish(name, b"x") for name in sorted(host.held)])
    found = metrics(world)
    assert found["cobblestone_results_sent_total"] == 2
    assert found["cobblestone_results_reported_total"] == 2
    assert found["cobblestone_http_requests_total/scheduler/200"] == 2


def test_metrics_are_for_this_machine_or_a_token(world: World):
    assert world.get("/metrics").status_code == 200
    passed_on = {"X-Forwarded-For": "203.0.113.5"}
    assert world.get("/metrics", headers=passed_on).status_code == 403
    api = ApiClient(world)
    assert world.get("/metrics", headers={**passed_on, **api.headers}).status_code == 200
    assert world.get("/metrics", headers={"Authorization": "Bearer cob_wrong"}).status_code == 403


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let time pass for who looks at daemons."""
    now = time.monotonic() + seconds
    monkeypatch.setattr(health, "monotonic", lambda: now)


def test_ready_means_a_database_that_writes_and_daemons_that_beat(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    answer = world.get("/readyz")
    assert (answer.status_code, answer.json()["database"]) == (200, "ok")
    beat = world.ctx.health.daemon("validator")
    beat.sleeps(world.now, 5)
    later(monkeypatch, 10)
    assert world.get("/readyz").json()["daemons"]["validator"]["state"] == "running"
    world.now += 86400
    assert world.get("/readyz").status_code == 200, "the clock was set"
    later(monkeypatch, 1000)
    answer = world.get("/readyz")
    assert (answer.status_code, answer.json()["daemons"]["validator"]["state"]) == (503, "stuck")
    beat.sleeps(world.now, 5)
    world.ctx.health.draining = True
    answer = world.get("/readyz")
    assert (answer.status_code, answer.headers["connection"]) == (503, "close")
    assert world.get("/healthz").text == "ok\n"


def test_a_database_that_is_closed_is_not_ready(world: World):
    world.now += 5
    world.ctx.store._writer.close()
    answer = world.get("/readyz")
    assert answer.status_code == 503
    assert "shutting down" in answer.json()["database"]


def test_a_daemon_tells_of_its_rounds_and_its_errors(world: World):
    tried = asyncio.Event()

    async def fail() -> int:
        world.loop.call_soon(tried.set)
        raise ValueError("the validator's file is broken")

    async def rounds() -> None:
        task = asyncio.create_task(
            run_daemon(world.ctx, DaemonTask(name="broken", step=fail, sweep_seconds=0.01))
        )
        async with asyncio.timeout(10):
            await tried.wait()
        assert world.ctx.health.daemon("broken").health() is DaemonHealth.FAILING
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    world.run(rounds())
    beat = world.ctx.health.daemon("broken")
    assert beat.last_error == "ValueError: the validator's file is broken"
    assert beat.health() is DaemonHealth.STOPPED


def test_a_daemon_rests_so_many_times_as_long_as_its_step_took(world: World):
    begun, twice = list[float](), asyncio.Event()

    async def step() -> int:
        begun.append(time.monotonic())
        if len(begun) == 2:
            twice.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.Event().wait()
        return 0

    async def rounds() -> None:
        daemon = DaemonTask(name="slow", step=step, sweep_seconds=0.01, rest=8.0)
        task = asyncio.create_task(run_daemon(world.ctx, daemon))
        async with asyncio.timeout(20):
            await twice.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    world.run(rounds())
    assert begun[1] - begun[0] >= 0.9


def test_a_step_that_does_not_end_is_stuck_and_a_sleeping_daemon_is_not(monkeypatch: pytest.MonkeyPatch):
    beat = DaemonBeat("x")
    assert beat.health() is DaemonHealth.STOPPED
    for begin, limit in ((partial(beat.begin, 1000), 900), (partial(beat.sleeps, 2000, 3600), 3660)):
        later(monkeypatch, 0)
        begin()
        later(monkeypatch, limit - 10)
        assert beat.health() is DaemonHealth.RUNNING
        later(monkeypatch, limit + 10)
        assert beat.health() is DaemonHealth.STUCK


def test_every_answer_carries_the_id_of_its_request(world: World):
    assert len(world.get("/").headers["x-request-id"]) == 16
    assert world.get("/", headers={"X-Request-ID": "proxy-7"}).headers["x-request-id"] == "proxy-7"
    assert world.get("/", headers={"X-Request-ID": "bad id\t"}).headers["x-request-id"] != "bad id\t"


def test_log_lines_are_json_with_the_id_of_the_request_and_the_level_holds(world: World):
    stream = io.StringIO()
    configure_logging(level="debug", json=True, stream=stream)
    try:
        world.get("/", headers={"X-Request-ID": "abc"})
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert [(line["event"], line["request"], line["status"]) for line in lines] == [
            ("request", "abc", 200)
        ]
        stream.truncate(0)
        configure_logging(level="warning", json=True, stream=stream)
        world.get("/")
        assert "request" not in stream.getvalue()
    finally:
        configure_logging(level="warning")


# -- warnings and samples ------------------------------------------------------------------------------


@pytest.fixture
def full_world(tmp_path_factory: pytest.TempPathFactory):
    world = World(
        tmp_path_factory.mktemp("full") / "project",
        server={"min_free_disk_bytes": 10**15},
        watch={"max_unsent": 2, "min_unsent": 1},
    )
    yield world
    world.close()


def test_a_full_disk_is_told_and_nothing_large_is_taken(full_world: World):
    world = full_world
    app = world.add_app()
    world.add_jobs(app)
    world.settle()
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6)
    api = ApiClient(world)
    assert api.problem(507, "POST", "/batches", {"app": "demo", "jobs": [{}]})["code"] == "disk_full"
    world.run(Watcher(world.ctx).step())
    assert world.ctx.health.warnings["disk_full"].severe
    assert metrics(world)["cobblestone_warning/disk_full"] == 1
    assert world.get("/readyz").json()["warnings"] == ["disk_full", "work_runs_out"]


def test_jobs_are_refused_while_too_many_wait(tmp_path_factory: pytest.TempPathFactory):
    world = World(tmp_path_factory.mktemp("queue") / "project", watch={"max_unsent": 2})
    try:
        app = world.add_app()
        world.add_jobs(app, n=2)
        world.settle()
        problem = ApiClient(world).problem(429, "POST", "/batches", {"app": "demo", "jobs": [{}]})
        assert problem["code"] == "too_much_waits"
        with redirect_stderr(io.StringIO()):
            world.run(Watcher(world.ctx).step())
        assert world.ctx.health.warnings["too_much_unsent"].severe
    finally:
        world.close()


def test_samples_are_taken_at_their_time_and_forgotten_at_their_end(world: World):
    watcher = Watcher(world.ctx)
    for _ in range(4):
        world.run(watcher.step())
        world.now += 200
    taken = world.ctx.store.read(lambda db: samples(db, since=0))
    assert [sample.time for sample in taken] == [1_800_000_000.0, 1_800_000_400.0]
    assert taken[0].figures["unsent"] == 0
    world.now += 40 * 86400
    world.run(watcher.step())
    assert len(world.ctx.store.read(lambda db: samples(db, since=0))) == 1


def test_after_a_clock_was_years_ahead_samples_are_taken_again(world: World):
    for wrong in (10 * 365 * 86400, 0):
        world.now = 1_800_000_000.0 + wrong
        world.run(Watcher(world.ctx).step())
    taken = world.ctx.store.read(lambda db: samples(db, since=0))
    assert 1_800_000_000.0 in [sample.time for sample in taken]


def test_warnings_are_mailed_once_an_hour(tmp_path_factory: pytest.TempPathFactory):
    world = World(
        tmp_path_factory.mktemp("mail") / "project",
        server={"min_free_disk_bytes": 10**15},
        watch={"mail_to": "ann@example.org, bob@example.org"},
    )
    try:
        watcher = Watcher(world.ctx)
        for _ in range(3):
            world.run(watcher.step())
            world.ctx.health.warnings.clear()
            world.now += 60
        assert world.query("SELECT recipient, subject FROM mail ORDER BY id") == [
            ("ann@example.org", "My project: disk full"),
            ("bob@example.org", "My project: disk full"),
        ]
        assert "uploads and submissions are deferred" in world.value("SELECT body FROM mail LIMIT 1")
        world.now += 3600
        world.run(watcher.step())
        assert world.value("SELECT COUNT(*) FROM mail") == 4
        world.ctx.health.warnings.clear()
        world.now -= 365 * 86400  # the clock was a year ahead
        world.run(watcher.step())
        assert world.value("SELECT COUNT(*) FROM mail") == 6
    finally:
        world.close()


def test_what_daemons_write_lets_requests_pass(world: World):
    found: list[bool] = []

    async def step() -> int:
        found.append(in_background.get())
        found.append(await asyncio.to_thread(in_background.get))
        raise asyncio.CancelledError

    async def run() -> bool:
        daemon = asyncio.create_task(run_daemon(world.ctx, DaemonTask(name="some", step=step)))
        await asyncio.wait({daemon})
        return in_background.get()

    assert world.run(run()) is False
    assert found == [True, True]


def test_kinds_of_comparisons_are_loaded_before_a_daemon_writes(world: World):
    comparison_kinds.cache_clear()

    async def run() -> int:
        async with _project_daemons(world.ctx, roles=frozenset({Role.WEB})):
            return comparison_kinds.cache_info().currsize

    assert world.run(run()) == 1
