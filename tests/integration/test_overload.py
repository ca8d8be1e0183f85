"""A scheduler to which more come than it can serve: whoever is sent away loses nothing, and comes again later."""

from __future__ import annotations

import asyncio
import resource

import httpx
import pytest
from structlog.testing import capture_logs
from tests.helpers.project_world import URL, SimHost, World, upload_body
from tests.helpers.wire_elements import read_elements
from tests.helpers.wire_requests import written_request

from cobblestone.server.app import create_app
from cobblestone.server.files import download, uploads
from cobblestone.server.scheduler import endpoint
from cobblestone.store.catalog.files import fan_out
from cobblestone.wire.scheduler.report import ReportedResult


def with_a_report(world: World) -> tuple[SimHost, ReportedResult]:
    """A computer that has done a job, and what it has to report."""
    world.add_jobs(world.add_app())
    world.settle()
    worker = world.host(world.user("ada"))
    worker.rpc(ask=1)
    (name,) = worker.new_results()
    return worker, worker.finish(name, b"answer")


@pytest.mark.both_databases
def test_whoever_is_sent_away_hears_when_to_come_again_and_reports_then(
    make_world, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(endpoint, "PLACES", 1)
    monkeypatch.setattr(endpoint, "MAX_WAITING", 1)
    world: World = make_world()
    worker, report = with_a_report(world)
    others = [world.host(world.user(f"u{i}")) for i in range(6)]

    async def all_at_once() -> list[httpx.Response]:
        bodies = [written_request(other.request) for other in others]
        return await asyncio.gather(*(world.http.post("/cgi-bin/cgi", content=body) for body in bodies))

    replies = [read_elements(answer.content) for answer in world.run(all_at_once())]
    sent_away = [reply for reply in replies if not reply.has("hostid")]
    assert 1 <= len(sent_away) <= 4
    assert all(45 <= float(reply.get("request_delay")) <= 600 for reply in sent_away)
    assert world.value("SELECT COUNT(*) FROM host") == 1 + len(replies) - len(sent_away)
    assert worker.rpc(reports=[report]).all("result_ack")


def test_whoever_comes_while_the_disk_is_full_hears_when_to_come_again_and_reports_then(world: World):
    worker, report = with_a_report(world)
    no_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    with capture_logs():  # or the log could not be written either
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, no_limit[1]))
        try:
            put_off = worker.rpc(reports=[report])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, no_limit)
    assert put_off.get("message") == "The project's database is not available."
    assert 45 <= float(put_off.get("request_delay")) <= 75
    assert not put_off.all("result_ack")
    assert worker.rpc(reports=[report]).all("result_ack")


def test_uploads_that_are_sent_away_come_again_and_nothing_is_lost(
    make_world, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(uploads, "PLACES", 1)
    monkeypatch.setattr(uploads, "MAX_WAITING", 1)
    world: World = make_world(scheduler={"max_jobs_per_day_init": 20})
    world.add_jobs(world.add_app(), n=8)
    worker = world.host(world.user("ada"))
    worker.rpc(ask=1e6)
    names = [f"{name}_0" for name in worker.new_results()]
    assert len(names) == 8
    handler = create_app(world.ctx)
    infos = [worker.file_info(name) for name in names]
    bodies = [
        upload_body(
            info.get("name"),
            b"answer",
            signature=info.get("xml_signature").strip(),
            max_nbytes=int(info.get("max_nbytes")),
        )
        for info in infos
    ]

    async def send_all(waiting: list[bytes]) -> list[bytes]:
        """Send them at once; those that were put off."""
        async with httpx.AsyncClient(transport=httpx.ASGITransport(handler), base_url=URL) as http:
            answers = await asyncio.gather(
                *(http.post("/cgi-bin/file_upload_handler", content=body) for body in waiting)
            )
        statuses = [read_elements(answer.content).get("status") for answer in answers]
        assert set(statuses) <= {"0", "1"}, "none is refused for good"
        return [body for body, status in zip(waiting, statuses, strict=True) if status == "1"]

    put_off = world.run(send_all(bodies))
    assert 1 <= len(put_off) < len(bodies)
    for _attempt in range(len(bodies)):
        put_off = world.run(send_all(put_off))
    assert put_off == []
    assert world.value("SELECT COUNT(*) FROM upload") == 8


def test_downloads_are_shared_fairly_and_put_off_when_too_many_wait(
    make_world, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(download, "PLACES", 1)
    monkeypatch.setattr(download, "MAX_WAITING", 2)
    world: World = make_world()
    stored = world.store_file("data.bin", bytes(200_000))
    page = f"/download/{fan_out(stored.name)}/{stored.name}"
    app = create_app(world.ctx)

    async def get(address: str) -> httpx.Response:
        transport = httpx.ASGITransport(app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url=URL) as http:
            return await http.get(page)

    async def all_at_once() -> list[httpx.Response]:
        return await asyncio.gather(*(get(f"10.0.0.{n}") for n in range(8)))

    answers = world.run(all_at_once())
    assert sorted({answer.status_code for answer in answers}) == [200, 503]
    for answer in answers:
        if answer.status_code == 200:
            assert answer.content == bytes(200_000)
        else:
            assert answer.headers["retry-after"] == "60"
    assert world.run(get("10.0.0.9")).status_code == 200, "no place is lost"


@pytest.mark.parametrize("path", ["/cgi-bin/cgi", "/cgi-bin/file_upload_handler", "/login.php"])
def test_who_hangs_up_in_the_middle_of_a_request_is_no_error_of_the_server(world: World, path: str) -> None:
    app = create_app(world.ctx)
    parts = [{"type": "http.request", "body": b"<scheduler_request>", "more_body": True}]

    async def receive() -> dict[str, object]:
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(_: object) -> None:
        pass

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"",
        "scheme": "http", "http_version": "1.1", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 9),
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/x-www-form-urlencoded")],
    }  # fmt: skip
    world.run(app(scope, receive, send))
