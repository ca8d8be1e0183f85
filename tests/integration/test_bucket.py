"""A project whose files are in a bucket: machines share no folder, and the storage may fail in every way."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.bucket_server import BUCKET, KEYS, BucketServer, at_most, endpoint, misbehaving
from tests.helpers.eventually import eventually
from tests.helpers.project_world import SimHost, World

from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.domain.work import InputFile, OutputSpec
from cobblestone.ops.settings import StorageSection, parse_settings
from cobblestone.server.core.bucket import StorageBucket, trim_cache
from cobblestone.server.operation.backup import project_contents
from cobblestone.server.operation.doctor import CHECKS, diagnose
from cobblestone.service.backup import make_backup
from cobblestone.store.catalog.files import fan_out, input_name, place_of

CONTENT = os.urandom(300_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture(scope="module")
def server() -> Iterator[BucketServer]:
    found = BucketServer()
    yield found
    found.close()


@pytest.fixture
def world(make_world: Callable[..., World], server: BucketServer) -> Iterator[World]:
    yield make_world(storage=server.settings(), files={"unused_file_grace": 60})
    server.empty()


def bucket(root: Path, **settings: object) -> StorageBucket:
    return StorageBucket(
        root, StorageSection.model_validate({"bucket": BUCKET, "timeout": 1, **KEYS, **settings})
    )


def lose_cache(world: World) -> None:
    """Go on as another machine would, which has the bucket only."""
    for folder in (world.ctx.folder.download, world.ctx.folder.upload):
        shutil.rmtree(folder)
        folder.mkdir()


def put_input(world: World, content: bytes = CONTENT) -> InputFile:
    sha256 = hashlib.sha256(content).hexdigest()
    answer = ApiClient(world).call("PUT", f"/files/{sha256}", content=content)
    assert answer.status_code == 200, answer.text
    stored = answer.json()
    return InputFile(name=stored["name"], nbytes=stored["nbytes"], md5=stored["md5"], open_name="in")


def job_with_output(world: World, **app: object) -> tuple[SimHost, str]:
    found = world.add_app(outputs=(OutputSpec(open_name="out", max_nbytes=1_000_000),), **app)  # type: ignore[arg-type]  # fields that exist
    world.add_jobs(found, inputs=[put_input(world)])
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    return host, host.new_results()[0]


def test_an_input_goes_into_the_bucket_and_every_machine_sends_clients_there(
    world: World, server: BucketServer
):
    put_input(world)
    name = input_name(hashlib.sha256(CONTENT).hexdigest())
    place = f"download/{fan_out(name)}/{name}"
    assert server.content() == {f"sky/{place}": CONTENT}
    assert world.get(f"/{place}").content == CONTENT, "the machine that has it sends it itself"
    lose_cache(world)
    answer = world.get(f"/{place}")
    assert answer.status_code == 302
    assert "no-store" in answer.headers["Cache-Control"]
    signed = answer.headers["Location"]
    assert signed.startswith(server.endpoint)
    assert "X-Amz-Signature=" in signed
    assert KEYS["secret_key"] not in signed
    assert httpx.get(signed).content == CONTENT
    ranged = httpx.get(signed, headers={"Range": "bytes=299990-"})
    assert (ranged.status_code, ranged.content) == (206, CONTENT[-10:])
    assert world.get("/download/000/nothing..here").status_code == 404


def test_outputs_are_validated_and_handed_over_on_a_machine_that_never_received_them(
    world: World, server: BucketServer
):
    (world.ctx.folder.root / "keep.py").write_text(
        "def assimilate(workunit):\n    (workunit.folder / 'answer').write_bytes(workunit.outputs['out'].read_bytes())\n"
    )
    host, name = job_with_output(world, assimilator="keep.py:assimilate")
    report = host.finish(name, CONTENT)
    (key,) = (key for key in server.content() if "/upload/" in key)
    assert server.content()[key] == CONTENT
    host.rpc(reports=[report])
    lose_cache(world)
    world.settle()
    assert (world.ctx.folder.results / "demo" / "answer").read_bytes() == CONTENT
    ApiClient(world).post("/batches/1/retire")
    world.settle()
    assert world.value("SELECT COUNT(*) FROM upload") == 0
    assert [key for key in server.content() if "/upload/" in key] == [], "the deleter removes it there too"
    assert not place_of(world.ctx.folder.upload, f"{name}_0").exists()


def test_the_storage_takes_only_what_the_projects_key_signed_and_links_open_one_file_for_a_while(
    world: World, server: BucketServer, tmp_path: Path
):
    put_input(world)
    name = input_name(hashlib.sha256(CONTENT).hexdigest())
    place = f"download/{fan_out(name)}/{name}"
    lose_cache(world)
    signed = world.get(f"/{place}").headers["Location"]
    assert httpx.get(signed).status_code == 200
    for other in (
        signed.replace(name, name + "0"),
        signed.partition("?")[0],
        re.sub("Signature=.", "Signature=z", signed),
    ):
        assert httpx.get(other).status_code == 403
    assert httpx.delete(signed).status_code == 403
    source = tmp_path / "source"
    source.write_bytes(b"content")
    stranger = bucket(tmp_path, endpoint=server.endpoint, secret_key="a guess", timeout=10)
    with pytest.raises(StoreError, match="did not keep"):
        asyncio.run(stranger.keep(tmp_path / "upload" / "1a" / "x", source))
    settings = StorageSection.model_validate(server.settings())
    hasty = StorageBucket(world.ctx.folder.root, settings.model_copy(update={"link_seconds": 1}))
    link = hasty.link(world.ctx.folder.root / place)
    eventually(lambda: httpx.get(link, verify=False).status_code == 403)


def test_an_answer_is_read_from_the_bucket_and_the_doctor_looks_there(world: World, server: BucketServer):
    host, name = job_with_output(world)
    host.rpc(reports=[host.finish(name, CONTENT)])
    world.settle()
    lose_cache(world)
    api = ApiClient(world)
    (job,) = api.get("/batches/1/jobs")["jobs"]
    answer = api.call("GET", f"/batches/1/jobs/{job['id']}/outputs/out")
    assert answer.content == CONTENT
    assert world.run(diagnose(world.ctx, CHECKS["output_files"])).findings == []
    server.empty()
    lose_cache(world)
    assert [found.code for found in world.run(diagnose(world.ctx, CHECKS["output_files"])).findings] == [
        "missing"
    ]


def test_what_nobody_needs_leaves_the_bucket_and_can_come_again(world: World, server: BucketServer):
    put_input(world)
    world.now += 120
    world.settle()
    assert server.content() == {}
    put_input(world)
    assert len(server.content()) == 1


def test_a_storage_that_is_away_puts_uploads_off_and_loses_nothing(world: World, server: BucketServer):
    host, name = job_with_output(world)
    good = world.ctx.storage
    world.ctx.storage = bucket(world.ctx.folder.root, endpoint="http://127.0.0.1:9")
    assert host.upload(f"{name}_0", CONTENT).get("status") == "1", "the client comes again"
    assert world.value("SELECT COUNT(*) FROM upload") == 0
    api = ApiClient(world)
    sha256 = hashlib.sha256(b"another input").hexdigest()
    error = api.problem(503, "PUT", f"/files/{sha256}", content=b"another input")
    assert "file storage did not keep" in error["message"]
    assert world.value("SELECT COUNT(*) FROM file WHERE name = ?", input_name(sha256)) == 0
    world.ctx.storage = good
    host.rpc(reports=[host.finish(name, CONTENT)])
    world.settle()
    assert world.value("SELECT COUNT(*) FROM workunit WHERE assimilate_state = 2") == 1


@pytest.mark.parametrize(
    ("manner", "words"),
    [
        ("hangs", "did not fetch"),
        ("drips", "did not fetch"),
        ("half", "did not fetch"),
        ("other", "not sent .* as it was stored"),
        ("500", "did not fetch"),
        ("403", "did not fetch"),
    ],
)
def test_a_storage_that_misbehaves_is_left_after_its_time_and_leaves_nothing_behind(
    tmp_path: Path, manner: str, words: str
):
    place = tmp_path / "upload" / "1a" / "result_0"
    with misbehaving(manner) as server, at_most(8):
        storage = bucket(tmp_path, endpoint=endpoint(server))
        with pytest.raises(StoreError, match=words):
            storage.bring_now(place, nbytes=1000, md5=MD5)
        assert list(place.parent.iterdir()) == []
        assert 1 <= server.requests <= 3
        if manner in ("hangs", "500", "403"):
            source = tmp_path / "source"
            source.write_bytes(b"content")
            with pytest.raises(StoreError, match="did not keep"):
                asyncio.run(storage.keep(place, source))
            with pytest.raises(StoreError, match="did not look for"):
                storage.size(place)


def test_while_the_storage_hangs_the_rest_of_the_server_goes_on(world: World):
    host, name = job_with_output(world)
    with misbehaving("hangs") as server:
        world.ctx.storage = bucket(world.ctx.folder.root, endpoint=endpoint(server))

        async def visit() -> float:
            content = {f"{name}_0": CONTENT}
            waiting = [
                asyncio.create_task(world.ctx.storage.keep(world.ctx.folder.upload / "1a" / each, source))
                for each in content
                for _ in range(30)
            ]
            assert await asyncio.to_thread(server.asked.wait, 30)
            began = time.monotonic()
            for _ in range(5):
                assert (await world.http.get("/get_project_config.php")).status_code == 200
                await world.ctx.store.aread(lambda db: db.value("SELECT 1"))
            seconds = time.monotonic() - began
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            return seconds

        source = world.ctx.folder.root / "source"
        source.write_bytes(b"content")
        assert world.run(visit()) < 1
    assert host.held


def test_large_files_come_in_pieces(tmp_path: Path, server: BucketServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cobblestone.server.core.bucket.PIECE", 100_001)
    storage = bucket(tmp_path, endpoint=server.endpoint, timeout=20)
    place, source = tmp_path / "upload" / "2b" / "large", tmp_path / "source"
    source.write_bytes(CONTENT)
    asyncio.run(storage.keep(place, source))
    asyncio.run(storage.bring(place, nbytes=len(CONTENT), md5=MD5))
    assert place.read_bytes() == CONTENT
    storage.remove([place])
    storage.remove([place])
    assert storage.size(place) is None
    place.unlink()
    storage.bring_now(place, nbytes=len(CONTENT), md5=MD5)
    assert not place.exists(), "what is nowhere is left missing"


def test_the_cache_forgets_what_was_not_used_for_long(tmp_path: Path):
    for name, age in (("download/1a/old", 100), ("upload/1a/new", 1), ("upload/partial/part", 100)):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
        os.utime(path, (time.time() - age, time.time() - age))
    trim_cache(tmp_path, before=time.time() - 50)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["new", "part"]


def test_a_backup_of_a_project_with_a_bucket_holds_the_rows_and_not_the_cache(world: World, tmp_path: Path):
    put_input(world)
    lose_cache(world)
    make_backup(project_contents(world.ctx.folder), tmp_path / "backup")
    assert (tmp_path / "backup" / "project.sqlite").stat().st_size > 0
    assert not (tmp_path / "backup" / "download").exists()


def test_mirrors_come_before_the_server_in_every_reply(make_world: Callable[..., World]):
    world = make_world(storage={"mirrors": ["https://a.example.org/sky/", "http://b.example.org/"]})
    host, _ = job_with_output(world)
    all_urls = [[each.text.strip() for each in info.all("url")] for info in host.reply.all("file_info")]
    downloads = [urls for urls in all_urls if len(urls) > 1]
    assert len(downloads) == 2, "the program and the input"
    for urls in downloads:
        place = urls[-1].partition("/download/")[2]
        assert urls == [
            f"https://a.example.org/sky/{place}",
            f"http://b.example.org/{place}",
            f"http://127.0.0.1:8080/download/{place}",
        ]


@pytest.mark.parametrize(
    "mirror", ["ftp://a.example.org/", "https://a.example.org", 'https://a"b/', "https://a/<x>/"]
)
def test_a_mirror_that_is_no_address_is_refused(mirror: str):
    with pytest.raises(ConfigError, match="mirrors"):
        parse_settings({"storage": {"mirrors": [mirror]}}, source="x")


def test_the_proxy_is_told_to_send_a_file_itself(make_world: Callable[..., World]):
    world = make_world(storage={"accel": "/protected-download/"})
    file = put_input(world)
    answer = world.get(f"/download/{fan_out(file.name)}/{file.name}")
    assert answer.content == b""
    assert answer.headers["X-Accel-Redirect"] == f"/protected-download/{fan_out(file.name)}/{file.name}"
