"""Uploads and downloads: resume, signatures, sizes, checksums, ranges, packed twins."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.helpers.effort import times
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import URL, SimHost, World, file_size, post_upload, succeeded, upload_body

from cobblestone.domain.apps import AppFile
from cobblestone.domain.work import InputFile, OutputSpec
from cobblestone.server.app import create_app
from cobblestone.server.daemons.file_deleter import purge
from cobblestone.server.run import open_project
from cobblestone.store.catalog.apps import to_json
from cobblestone.store.catalog.files import fan_out, place_of
from cobblestone.store.work.archive import Archive
from cobblestone.store.work.uploads import output_content, outputs_of_results
from cobblestone.wire.project.signatures import sign_md5, upload_signature

pytestmark = pytest.mark.both_databases


@pytest.fixture
def job(world: World) -> tuple[SimHost, str]:
    """A host with one result whose output may have 1 MB."""
    return make_job(world)


def make_job(world: World) -> tuple[SimHost, str]:
    app = world.add_app(outputs=(OutputSpec(open_name="out", max_nbytes=1_000_000),))
    world.add_jobs(app)
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    return host, f"{host.new_results()[0]}_0"


def stored(world: World, name: str) -> bytes:
    result_id = world.value("SELECT result_id FROM upload WHERE name = ?", name)
    (output,) = world.ctx.store.read(lambda db: outputs_of_results(db, [result_id]))[result_id]
    return output_content(output, world.ctx.folder.upload, max_nbytes=10**8)


@pytest.mark.parametrize("size", [0, 1, 8191, 65_536, 65_537, 900_000])
def test_files_of_every_size_arrive_unchanged(world: World, job: tuple[SimHost, str], size: int):
    host, name = job
    content = os.urandom(size)
    assert host.upload(name, content).get("status") == "0"
    assert stored(world, name) == content
    assert file_size(world, name) == size
    assert host.upload(name, content).get("status") == "0", "a repetition is harmless"


def test_an_interrupted_upload_goes_on_where_it_stopped(world: World, job: tuple[SimHost, str]):
    host, name = job
    content = os.urandom(500_000)
    signature = host.file_info(name).get("xml_signature").strip()
    cut = upload_body(name, content, signature=signature, max_nbytes=1_000_000)[:-200_000]
    reply = world.post("/cgi-bin/file_upload_handler", content=cut)
    assert "<status>1</status>" in reply.text
    have = file_size(world, name)
    assert 290_000 < have < 300_000
    assert host.upload(name, content, offset=have).get("status") == "0"
    assert stored(world, name) == content


def test_the_size_of_a_file_that_is_not_yet_recorded_is_never_the_full_one(
    world: World, job: tuple[SimHost, str]
):
    _, name = job
    partial = world.ctx.folder.upload / "partial" / name
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"x" * 70_000)  # complete, but the server died before it was recorded
    assert file_size(world, name) == 69_999


def test_a_damaged_upload_is_refused_and_can_be_repeated(world: World, job: tuple[SimHost, str]):
    host, name = job
    for content in (b"small", os.urandom(100_000)):
        assert host.upload(name, content, md5="0" * 32).get("status") == "1"
    assert world.value("SELECT COUNT(*) FROM upload") == 0
    assert file_size(world, name) == 0
    assert host.upload(name, b"small").get("status") == "0"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"signature": "00" * 32 + "\n."}, "not signed"),
        ({"signature": ""}, "not signed"),
        ({"max_nbytes": 10**9}, "not signed"),
    ],
)
def test_an_upload_without_this_jobs_signature_is_refused(
    world: World, job: tuple[SimHost, str], options: dict[str, object], words: str
):
    host, name = job
    signature = host.file_info(name).get("xml_signature").strip()
    reply = post_upload(world, name, b"data", **{"signature": signature, "max_nbytes": 1_000_000, **options})
    assert reply.get("status") == "-1"
    assert words in reply.get("message")


def test_another_jobs_signature_does_not_help(world: World, job: tuple[SimHost, str]):
    _, name = job
    signature = upload_signature(world.ctx.secret, "other_1_0_0_0", 1_000_000)
    assert post_upload(world, name, b"x", signature=signature, max_nbytes=1_000_000).get("status") == "-1"


def test_a_file_larger_than_its_bound_is_refused(world: World, job: tuple[SimHost, str]):
    host, name = job
    assert host.upload(name, b"x", nbytes=1_000_001).get("status") == "-1"


def test_more_bytes_than_announced_are_refused(world: World, job: tuple[SimHost, str]):
    host, name = job
    for size in (10, 100_000):
        content = b"x" * (size + 5)
        assert host.upload(name, content, nbytes=size).get("status") == "-1"
    assert world.value("SELECT COUNT(*) FROM upload") == 0


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..", "a/b", ".hidden", "x" * 300, "demo_1_0_0_7", "nosuch_0"]
)
def test_names_that_are_no_output_are_refused(world: World, job: tuple[SimHost, str], name: str):
    signature = upload_signature(world.ctx.secret, name, 100)
    assert post_upload(world, name, b"x", signature=signature, max_nbytes=100).get("status") == "-1"
    assert not list(world.ctx.folder.upload.rglob("passwd"))


def test_another_content_cannot_replace_a_complete_file(world: World, job: tuple[SimHost, str]):
    host, name = job
    host.upload(name, b"first")
    assert host.upload(name, b"second").get("status") == "-1"
    assert stored(world, name) == b"first"


def test_a_full_disk_puts_uploads_off(make_world):
    world = make_world(server={"min_free_disk_bytes": 10**15})
    world.add_jobs(world.add_app())
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    assert host.upload(f"{host.new_results()[0]}_0", b"x").get("status") == "1"


def test_an_output_that_the_client_packed_is_compared_unpacked(world: World):
    app = world.add_app(quorum=2, outputs=(OutputSpec(open_name="out", gzip=True),))
    world.add_jobs(app)
    for level, user in ((1, "alice"), (9, "bob")):
        host = world.host(world.user(user))
        host.rpc(ask=1)
        (name,) = host.new_results()
        assert host.file_info(f"{name}_0").has("gzip_when_done")
        packed = gzip.compress(b"answer\n" * 1000, compresslevel=level)
        assert host.upload(f"{name}_0", packed).get("status") == "0"
        host.rpc(reports=[succeeded(name, packed)])
    world.settle()
    assert world.query("SELECT validate_state FROM result") == [(1,), (1,)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=times(16))
@given(data=st.data())
def test_mutilated_uploads_get_a_reply_of_the_protocol(world: World, data: st.DataObject):
    body = bytearray(upload_body("demo_1_0_0_0", b"x" * 100, signature="ab" * 32, max_nbytes=1000))
    for _ in range(data.draw(st.integers(0, 5))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    reply = world.post("/cgi-bin/file_upload_handler", content=bytes(body[:cut]))
    assert reply.status_code == 200
    assert "<status>" in reply.text


# -- downloads ----------------------------------------------------------------------------------------------


def test_a_file_is_sent_whole_or_from_an_offset(world: World):
    content = os.urandom(20_000)
    file = world.store_file("data.bin", content)
    url = f"/download/{fan_out(file.name)}/{file.name}"
    assert world.get(url).content == content
    part = world.get(url, headers={"Range": "bytes=15000-"})
    assert part.status_code == 206
    assert part.headers["content-range"] == "bytes 15000-19999/20000"
    assert part.content == content[15_000:]


@pytest.mark.parametrize("part", ["input", "version"])
def test_a_packed_twin_is_sent_as_it_is_and_described_in_the_reply(world: World, part: str):
    content = b"line of text\n" * 1000
    file = world.store_file("data.txt", content, compress=True)
    assert file.gzipped_nbytes is not None
    app = world.add_app()
    world.add_jobs(
        app,
        inputs=[
            InputFile(
                name=file.name,
                open_name="in",
                nbytes=file.nbytes,
                md5=file.md5,
                gzipped_nbytes=file.gzipped_nbytes,
            )
        ]
        if part == "input"
        else [],
    )
    of_version = AppFile(
        name=file.name,
        open_name="in",
        nbytes=file.nbytes,
        md5=file.md5,
        main_program=True,
        signature=sign_md5(world.key, file.md5),
        gzipped_nbytes=file.gzipped_nbytes,
    )
    if part == "version":
        world.write(lambda tx: tx.execute("UPDATE app_version SET files = ?", (to_json((of_version,)),)))
        world.ctx.offers.invalidate()
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    info = host.file_info(file.name)
    assert info.get("md5_cksum") == hashlib.md5(content).hexdigest()
    assert bool(info.get("file_signature")) == (part == "version")
    reply = world.get(info.get("gzipped_url").replace("http://127.0.0.1:8080", ""))
    assert "content-encoding" not in reply.headers
    assert len(reply.content) == int(info.get("gzipped_nbytes"))
    assert gzip.decompress(reply.content) == content


@pytest.mark.parametrize(
    "path",
    [
        "/download/0/nosuch",
        "/download/../cobblestone.toml",
        "/download/%2e%2e/%2e%2e%2fcobblestone.toml",
        "/download/0/..%2f..%2fkeys%2fsecret",
        "/download/keys/secret",
    ],
)
def test_nothing_else_can_be_downloaded(world: World, path: str):
    assert world.get(path).status_code == 404


def test_input_files_go_when_the_job_is_done_and_the_grace_is_over(make_world):
    world = make_world(files={"unused_file_grace": 100})
    file = world.store_file("in.txt", b"input")
    world.add_jobs(
        world.add_app(), inputs=[InputFile(name=file.name, open_name="in", nbytes=file.nbytes, md5=file.md5)]
    )
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    (name,) = host.new_results()
    host.rpc(reports=[host.finish(name, b"x")])
    world.settle()
    path = place_of(world.ctx.folder.download, file.name)
    assert path.exists()
    world.now += 101
    world.settle()
    assert not path.exists()
    assert world.value("SELECT COUNT(*) FROM file WHERE name = ?", file.name) == 0


def test_the_answer_of_a_batch_stays_until_the_batch_is_retired(world: World):
    from cobblestone.store.work import batches

    batch = world.add_jobs(world.add_app(quorum=2))
    for user in ("alice", "bob"):
        host = world.host(world.user(user))
        host.rpc(ask=1)
        (name,) = host.new_results()
        host.rpc(reports=[host.finish(name, b"y" * 100_000)])
    world.settle()
    assert world.value("SELECT COUNT(*) FROM upload") == 1, "the canonical one; the other has gone"
    world.write(lambda tx: batches.retire_batch(tx, batch.id))
    world.settle()
    assert world.value("SELECT COUNT(*) FROM upload") == 0
    assert [path for path in world.ctx.folder.upload.rglob("*") if path.is_file()] == []


def test_purged_jobs_leave_the_project_and_stay_in_the_archive(make_world):
    from cobblestone.store.work import archive, batches

    world = make_world(files={"purge_after": 50})
    batch = world.add_jobs(world.add_app())
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    (name,) = host.new_results()
    world.now += 200
    host.rpc(reports=[host.finish(name, b"x")])
    world.settle()
    world.write(lambda tx: batches.retire_batch(tx, batch.id))
    world.settle()
    world.now += 60
    with capture_logs() as logs:
        assert world.run(purge(world.ctx)) == 1
    assert [(each["event"], each["workunits"]) for each in logs] == [("jobs_archived", 1)]
    assert world.value("SELECT COUNT(*) FROM workunit") == 0
    columns, rows = archive.query(
        world.ctx.archive.path,
        "SELECT r.name, r.granted_credit, t.stderr IS NOT NULL FROM result r JOIN result_text t ON t.result_id = r.id",
    )
    assert columns == ["name", "granted_credit", "t.stderr IS NOT NULL"]
    assert rows[0][0] == name
    assert rows[0][1] > 0
    assert world.value("SELECT COUNT(*) FROM credit_entry") == 1


def test_what_programs_wrote_leaves_the_archive_with_its_account(make_world):
    from cobblestone.domain.values import UserId
    from cobblestone.server.daemons.housekeeping import keep_accounts
    from cobblestone.store.people import account_changes
    from cobblestone.store.work import archive

    world = make_world(files={"purge_after": 50})
    world.add_jobs(world.add_app(quorum=2))
    world.write(lambda tx: tx.execute("UPDATE workunit SET batch_id = NULL"))
    for name in ("alice", "bob"):
        host = world.host(world.user(name))
        host.rpc(ask=1)
        (task,) = host.new_results()
        host.rpc(reports=[host.finish(task, b"x")])
    world.settle()
    world.now += 60
    assert world.run(purge(world.ctx)) == 1

    def written() -> list[tuple[int, bool]]:
        sql = "SELECT r.user_id, t.stderr IS NOT NULL FROM result r JOIN result_text t ON t.result_id = r.id ORDER BY 1"
        return archive.query(world.ctx.archive.path, sql)[1]

    assert written() == [(1, True), (2, True)]
    world.write(lambda tx: account_changes.ask_to_erase(tx, UserId(1), world.now))
    world.now += 1
    world.run(keep_accounts(world.ctx))
    assert written() == [(1, False), (2, True)]


def test_an_archive_without_tables_keeps_no_account_from_being_erased(tmp_path):
    from cobblestone.store.work import archive

    path = tmp_path / "archive.sqlite"
    archive.forget_words(Archive(path), 1)
    path.touch()
    archive.forget_words(Archive(path), 1)
    assert path.stat().st_size == 0


def test_the_beginning_of_an_upload_that_nobody_continues_goes_after_a_month(world: World):
    folder = world.ctx.folder.upload / "partial"
    folder.mkdir()
    old, new = folder / "old_0", folder / "new_0"
    for path, age in ((old, 31), (new, 1)):
        path.write_bytes(b"half")
        os.utime(path, (world.now - age * 86400, world.now - age * 86400))
    world.run(purge(world.ctx))
    assert not old.exists()
    assert new.exists()


class SecondProcess:
    """Another process that serves the same project: a store and an application of its own."""

    def __init__(self, world: World, stack: ExitStack) -> None:
        self._world = world
        ctx = stack.enter_context(open_project(world.ctx.folder.root, clock=lambda: world.now))
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(create_app(ctx)), base_url=URL)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self._world.run(self.http.post(path, **options))


def test_a_client_that_comes_back_to_another_process_waits_for_its_first_connection(
    postgres: PostgresServer, tmp_path: Path
):
    """The first connection hangs in its middle; two that write at once would store what nobody sent."""
    address = postgres.project_database()
    with ExitStack() as stack:
        stack.callback(postgres.release, address)
        world = World(tmp_path / "project", database=address)
        stack.callback(world.close)
        other = SecondProcess(world, stack)
        host, name = make_job(world)
        content = os.urandom(600_000)
        options = {"signature": host.file_info(name).get("xml_signature").strip(), "max_nbytes": 1_000_000}
        body = upload_body(name, content, **options)
        half_is_there, go_on = asyncio.Event(), asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield body[:300_000]
            half_is_there.set()
            await go_on.wait()
            yield body[300_000:]

        async def first() -> str:
            return (await world.http.post("/cgi-bin/file_upload_handler", content=slow())).text

        task = world.loop.create_task(first())
        world.run(half_is_there.wait())
        partial = world.ctx.folder.upload / "partial" / name
        while not partial.exists() or partial.stat().st_size < 200_000:
            world.run(asyncio.sleep(0))
        for offset in (0, 100_000):
            refused = post_upload(other, name, content, offset=offset, **options)
            assert (refused.get("status"), refused.get("message")) == (
                "1",
                "Another connection is still bringing this file.",
            )
        go_on.set()
        assert "<status>0</status>" in world.run(asyncio.wait_for(task, 30))
        assert post_upload(other, name, content, **options).get("status") == "0", "a repetition is harmless"
        assert stored(world, name) == content
        world.run(other.http.aclose())


def test_a_client_goes_on_at_another_process_after_the_first_one_gave_up(
    postgres: PostgresServer, tmp_path: Path
):
    address = postgres.project_database()
    with ExitStack() as stack:
        stack.callback(postgres.release, address)
        world = World(tmp_path / "project", database=address)
        stack.callback(world.close)
        other = SecondProcess(world, stack)
        host, name = make_job(world)
        content = os.urandom(500_000)
        options = {"signature": host.file_info(name).get("xml_signature").strip(), "max_nbytes": 1_000_000}
        cut = upload_body(name, content, **options)[:-200_000]
        assert "<status>1</status>" in world.post("/cgi-bin/file_upload_handler", content=cut).text
        have = file_size(other, name)
        assert 290_000 < have < 300_000
        assert post_upload(other, name, content, offset=have, **options).get("status") == "0"
        assert stored(world, name) == content
        world.run(other.http.aclose())


def test_a_stranger_who_asks_for_a_size_does_not_end_an_upload(world: World, job: tuple[SimHost, str]):
    """Nobody signs such a question."""
    host, name = job
    content = os.urandom(600_000)
    options = {"signature": host.file_info(name).get("xml_signature").strip(), "max_nbytes": 1_000_000}
    body = upload_body(name, content, **options)
    half_is_there, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield body[:300_000]
        half_is_there.set()
        await go_on.wait()
        yield body[300_000:]

    async def upload() -> str:
        return (await world.http.post("/cgi-bin/file_upload_handler", content=slow())).text

    task = world.loop.create_task(upload())
    world.run(half_is_there.wait())
    assert file_size(world, name) < 600_000
    go_on.set()
    assert "<status>0</status>" in world.run(asyncio.wait_for(task, 30))
    assert stored(world, name) == content
