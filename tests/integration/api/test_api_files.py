from __future__ import annotations

import errno
import hashlib
import resource

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World

from cobblestone.store.catalog import files


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_file_is_stored_and_found(api: ApiClient, world: World):
    content = b"1234" * 100_000
    answer = api.call("PUT", f"/files/{sha256(content)}", content=content).json()
    assert answer == {
        "name": f"jf_{sha256(content)}",
        "nbytes": 400_000,
        "md5": hashlib.md5(content).hexdigest(),
    }
    assert api.get(f"/files/{answer['name']}") == answer
    assert files.place_of(world.ctx.folder.download, answer["name"]).read_bytes() == content


def test_head_tells_whether_a_file_is_there(api: ApiClient):
    name = api.put(b"x")
    assert api.call("HEAD", f"/files/{name}").status_code == 200
    assert api.call("HEAD", "/files/jf_missing").status_code == 404


def test_storing_a_file_again_changes_nothing(api: ApiClient):
    assert api.put(b"x") == api.put(b"x")


def test_an_empty_file_is_a_file(api: ApiClient):
    assert api.get(f"/files/{api.put(b'')}")["nbytes"] == 0


def test_a_name_makes_the_physical_name_readable(api: ApiClient):
    assert api.put(b"x", "dir/period v2.py") == f"period_v2_{sha256(b'x')[:32]}.py"


def test_a_file_with_another_hash_is_refused_and_removed(api: ApiClient, world: World):
    problem = api.problem(422, "PUT", f"/files/{sha256(b'x')}", content=b"y")
    assert problem["code"] == "wrong_hash"
    assert list(world.ctx.folder.staging.iterdir()) == []
    api.problem(404, "GET", f"/files/jf_{sha256(b'y')}")


@pytest.mark.parametrize("name", ["x", "zz" * 32, "../../etc/passwd", "ab" * 33])
def test_a_path_that_is_no_hash_is_refused(api: ApiClient, name: str):
    assert api.call("PUT", f"/files/{name}", content=b"x").status_code in (404, 422)


def test_a_file_larger_than_allowed_is_refused(make_world):
    world = make_world(server={"max_upload_bytes": 1000})
    api = ApiClient(world)
    for content in (b"x" * 1001, b"x" * 3_000_000):
        problem = api.problem(413, "PUT", f"/files/{sha256(content)}", content=content)
        assert "1000 bytes" in problem["message"]

    async def pieces():
        for _ in range(50):
            yield b"x" * 100

    assert api.call("PUT", f"/files/{sha256(b'')}", content=pieces()).status_code == 413
    assert list(world.ctx.folder.staging.iterdir()) == []


def test_nothing_is_taken_when_the_disk_is_nearly_full(make_world):
    world = make_world(server={"min_free_disk_bytes": 10**15})
    api = ApiClient(world)
    assert api.problem(507, "PUT", f"/files/{sha256(b'x')}", content=b"x")["code"] == "disk_full"
    assert api.problem(507, "POST", "/batches", {"app": "a"})["code"] == "disk_full"


def test_many_files_are_asked_for_at_once(api: ApiClient, world: World):
    name = api.put(b"x")
    world.now += 500
    answer = api.post("/files/query", {"names": [name, "jf_missing", name]})
    assert [file["name"] for file in answer["present"]] == [name]
    assert answer["missing"] == ["jf_missing"]
    touched = world.value("SELECT touched_time FROM file WHERE name = ?", name)
    assert touched == world.now


def test_inputs_and_files_of_versions_get_a_compressed_twin(api: ApiClient, world: World):
    content = b"0" * 100_000
    plain, named = api.put(content), api.put(content, "program.py")
    rows = dict(world.query("SELECT name, gzipped_nbytes FROM file"))
    assert rows[plain] < 1000
    assert rows[named] < 1000


@pytest.mark.both_databases
@pytest.mark.parametrize("where", ["while it arrives", "while its packed copy is made"])
def test_a_file_for_which_the_disk_has_no_room_is_refused_for_now_and_leaves_nothing(
    api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch, where: str
):
    content = b"0123456789abcdef" * (400_000 if where == "while it arrives" else 100_000)
    before = sorted(world.ctx.folder.download.rglob("*")), sorted(world.ctx.folder.staging.rglob("*"))
    if where == "while its packed copy is made":
        # Packed data would have to be larger than what is packed to fail by the limit below.
        def no_room(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(files, "sync_file", no_room)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (3_000_000, limits[1])
    )  # of every file that this process writes
    try:
        answer = api.call("PUT", f"/files/{hashlib.sha256(content).hexdigest()}", content=content)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "disk_full")
    assert answer.headers["Retry-After"]
    left = [path for path in world.ctx.folder.download.rglob("*") if path.is_file() and path not in before[0]]
    assert not left
    assert sorted(world.ctx.folder.staging.rglob("*")) == before[1]
    monkeypatch.undo()
    assert (
        api.call("PUT", f"/files/{hashlib.sha256(content).hexdigest()}", content=content).status_code == 200
    )
