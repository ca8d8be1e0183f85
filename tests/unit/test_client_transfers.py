"""Transfers against a server that misbehaves: resumed, checked, tried elsewhere, held back, slowed, and never wrong."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.daemon_in_test import until
from tests.helpers.file_server import Answer, FileServer

from cobblestone.client.projects.connections import Connections
from cobblestone.client.projects.http import (
    TransferContext,
    TransferOutcome,
    TransferProgress,
    download,
    partial_path,
    upload,
)
from cobblestone.client.projects.transfers import Transfers
from cobblestone.client.records.state import ClientDatabase
from cobblestone.client.sandbox.slot_files import SlotFolder
from cobblestone.client.tasks.description import TaskOutput, TaskSpec
from cobblestone.client.tasks.slot import collect_outputs
from cobblestone.domain.computing import Proxy
from cobblestone.policy.client.host.transfers import (
    BACKOFF_MAX,
    Backoffs,
    TransferLimits,
    choose_transfers,
    transfer_backoff,
)
from cobblestone.wire.client.records import FileRecord, FileStatus
from cobblestone.wire.scheduler.job import FileInfo, OutputFileInfo

BODY = random.Random(1).randbytes(300_000)
MD5 = hashlib.md5(BODY).hexdigest()
DEAD = "http://127.0.0.1:9"  # nobody listens there
PROJECT = "https://project.example.org/"


def info(*urls: str, **more: Any) -> FileInfo:
    return FileInfo(**{"name": "f", "urls": urls, "nbytes": len(BODY), "md5_cksum": MD5, **more})


async def unhurried(_: int) -> None:
    """No limit of speed."""


class Place:
    """A folder, a server, and one download tried again and again."""

    def __init__(self, folder: Path, server: FileServer, connections: Connections) -> None:
        self.path, self.server = folder / "f", server
        self.exchange = TransferContext(connections, 72005, unhurried, unhurried)
        self.file = FileRecord(project=PROJECT, name="f", download=info(f"{server.url}/f"))

    async def fetch(self, **changes: Any) -> TransferOutcome:
        if changes:
            self.file.download = info(f"{self.server.url}/f", **changes)
        return await download(self.exchange, self.file, self.path, "", TransferProgress(""))

    @property
    def part(self) -> Path:
        return partial_path(self.path)


def at(folder: Path, check: Callable[[Place], Awaitable[None]]) -> None:
    async def inside() -> None:
        connections = Connections()
        async with FileServer() as server:
            await check(Place(folder, server, connections))
        await connections.close()

    asyncio.run(inside())


# -- one download -------------------------------------------------------------------------------------------


def test_a_download_that_was_cut_goes_on_behind_what_is_there(tmp_path: Path) -> None:
    async def check(place: Place) -> None:
        place.server.pages["/f"] = [Answer(BODY[:200_000], announced=len(BODY)), Answer(BODY)]
        first = await place.fetch()
        assert (first.ok, first.permanent) == (False, False)
        assert not place.path.exists()
        kept = place.part.stat().st_size
        assert 190_000 < kept < 200_000  # without its tail, which may be a proxy's words
        assert (await place.fetch()).ok
        assert place.path.read_bytes() == BODY
        assert place.server.asked == [("/f", ""), ("/f", f"bytes={kept}-")]

    at(tmp_path, check)


def test_a_server_that_knows_no_ranges_sends_all_again_and_nothing_is_doubled(tmp_path: Path) -> None:
    async def check(place: Place) -> None:
        place.part.write_bytes(BODY[:100_000])
        place.server.pages["/f"] = [Answer(BODY, ignores_range=True)]
        assert (await place.fetch()).ok
        assert place.path.read_bytes() == BODY

    at(tmp_path, check)


@pytest.mark.parametrize(
    ("answer", "words", "left"),
    [
        (Answer(BODY, content_range="bytes 7-9/300000"), "another range", 100_000),
        (Answer(status="416 Range Not Satisfiable"), "refused to continue at byte 100000", None),
        (Answer(b"Please pay.", ignores_range=True), "ended after 11 of 300000", 0),
        (Answer(BODY + b"x", ignores_range=True), "more than the 300000 bytes", None),
    ],
)
def test_strange_answers_never_get_into_the_file(
    answer: Answer, words: str, left: int | None, tmp_path: Path
) -> None:
    async def check(place: Place) -> None:
        place.part.write_bytes(BODY[:100_000])
        place.server.pages["/f"] = [answer, Answer(BODY)]
        outcome = await place.fetch()
        assert words in outcome.error
        assert not outcome.permanent
        assert (place.part.stat().st_size if place.part.exists() else None) == left
        assert (await place.fetch()).ok
        assert place.path.read_bytes() == BODY

    at(tmp_path, check)


def test_another_content_than_announced_is_thrown_away(tmp_path: Path) -> None:
    async def check(place: Place) -> None:
        place.server.pages["/f"] = [Answer(BODY[:-1] + b"!")]
        outcome = await place.fetch()
        assert (outcome.permanent, outcome.code) == (True, -119)
        assert "differs from what the project announced" in outcome.error
        assert not place.path.exists()
        assert not place.part.exists()

    at(tmp_path, check)


def test_what_is_not_there_is_permanent_and_a_busy_server_is_not(tmp_path: Path) -> None:
    async def check(place: Place) -> None:
        assert (await place.fetch()).permanent
        place.server.pages["/f"] = [Answer(status="503 Busy")]
        assert not (await place.fetch()).permanent
        place.file.download = info(f"{DEAD}/f")
        gone = await download(place.exchange, place.file, place.path, "", TransferProgress(""))
        assert gone.server_down
        place.file.download = info()
        assert (
            "no address"
            in (await download(place.exchange, place.file, place.path, "", TransferProgress(""))).error
        )

    at(tmp_path, check)


def test_packed_files_are_unpacked_and_bombs_and_damage_are_refused(tmp_path: Path) -> None:
    async def check(place: Place) -> None:
        packed = gzip.compress(BODY)
        more = {"gzipped_url": f"{place.server.url}/z", "gzipped_nbytes": len(packed)}
        place.server.pages["/z"] = [Answer(packed)]
        assert (await place.fetch(**more)).ok
        assert place.path.read_bytes() == BODY
        for wrong in (packed[:-100] + bytes(100), gzip.compress(BODY + bytes(10_000_000)), b"no gzip at all"):
            place.path.unlink(missing_ok=True)
            place.server.pages["/z"] = [Answer(wrong)]
            outcome = await place.fetch(**{**more, "gzipped_nbytes": len(wrong)})
            assert "damaged" in outcome.error
            assert not place.path.exists()
            assert sum(path.stat().st_size for path in place.path.parent.iterdir()) == 0
        place.file.num_retries = 1  # then the file as it is
        place.server.pages["/f"] = [Answer(BODY)]
        assert (await place.fetch(**more)).ok

    at(tmp_path, check)


def test_a_transfer_that_crawls_is_given_up(tmp_path: Path) -> None:
    async def check(place: Place) -> None:
        place.server.pages["/f"] = [Answer(BODY, piece=1000, pause=0.02), Answer(BODY)]
        place.exchange.patience, place.exchange.slowest = 0.2, 1e6
        outcome = await place.fetch()
        assert "could not be fetched" in outcome.error
        assert "were transferred in" in outcome.error
        place.exchange.slowest = 10.0
        assert (await place.fetch()).ok

    at(tmp_path, check)


# -- one upload ---------------------------------------------------------------------------------------------


def test_an_upload_that_was_cut_goes_on_where_the_server_stands(tmp_path: Path) -> None:
    async def check(place: Place) -> None:
        place.path.write_bytes(BODY)
        target = OutputFileInfo(
            name="f", max_nbytes=10**6, upload_url=f"{place.server.url}/up", xml_signature=""
        )
        file = FileRecord(project=PROJECT, name="f", upload=target, nbytes=len(BODY), md5_cksum=MD5)
        place.server.cut_uploads = 1
        cut = await upload(place.exchange, file, place.path, TransferProgress(""))
        assert (cut.ok, cut.permanent) == (False, False)
        there = len(place.server.taken["f"])
        assert 0 < there < len(BODY)
        assert (await upload(place.exchange, file, place.path, TransferProgress(""))).ok
        assert place.server.taken["f"] == BODY
        assert place.server.sent[-1] == len(BODY) - there
        progress = TransferProgress("")
        assert (await upload(place.exchange, file, place.path, progress)).ok  # all is there already
        assert progress.moved == 0

    at(tmp_path, check)


@pytest.mark.parametrize(
    ("reply", "permanent"),
    [("<status>1</status><message>busy</message>", False), ("<status>-1</status><message>no</message>", True),
     ("rubbish", False)],
)  # fmt: skip
def test_a_server_that_refuses_an_upload_says_for_how_long(
    reply: str, permanent: bool, tmp_path: Path
) -> None:
    async def check(place: Place) -> None:
        place.path.write_bytes(b"small")
        target = OutputFileInfo(
            name="f", max_nbytes=10, upload_url=f"{place.server.url}/up", xml_signature=""
        )
        file = FileRecord(project=PROJECT, name="f", upload=target, nbytes=5)
        place.server.refusals = [reply]
        outcome = await upload(place.exchange, file, place.path, TransferProgress(""))
        assert (outcome.ok, outcome.permanent) == (False, permanent)
        assert (await upload(place.exchange, file, place.path, TransferProgress(""))).ok

    at(tmp_path, check)


# -- all transfers of a client ------------------------------------------------------------------------------


class Client:
    """All transfers of a client, with a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.now = 1.8e9
        self.connections = Connections()
        self.said: list[str] = []
        self.ended: list[FileRecord] = []
        self.measured: list[tuple[float, bool]] = []
        self.folder = folder / "files"
        self.state = ClientDatabase(folder)
        self.transfers = Transfers(
            self.state,
            self.connections,
            version=72005,
            clock=lambda: self.now,
            rng=random.Random(1),
            finished=self.ended.append,
            say=lambda _, text: self.said.append(text),
            folder_of=lambda _: self.folder,
            measured=lambda nbytes, up, _: self.measured.append((nbytes, up)),
        )

    def want(self, name: str, *urls: str, body: bytes = BODY, project: str = PROJECT) -> FileRecord:
        md5 = hashlib.md5(body).hexdigest()
        file = FileRecord(
            project=project,
            name=name,
            download=FileInfo(name=name, urls=urls, nbytes=len(body), md5_cksum=md5),
        )
        self.transfers.want(file)
        return file

    async def rest(self) -> None:
        """Start what may start, and wait until nothing moves."""
        self.transfers.poll()
        async with asyncio.timeout(30):
            while self.transfers._running:
                await asyncio.gather(
                    *(task for task, _ in self.transfers._running.values()), return_exceptions=True
                )
                await asyncio.sleep(0)


def among(folder: Path, check: Callable[[Client, FileServer], Awaitable[None]]) -> None:
    async def inside() -> None:
        async with FileServer() as server:
            client = Client(folder)
            await check(client, server)
            await client.transfers.close()
            await client.connections.close()
            client.state.close()

    asyncio.run(inside())


def test_mirrors_are_tried_at_once_and_a_wait_comes_after_the_last(tmp_path: Path) -> None:
    async def check(client: Client, server: FileServer) -> None:
        server.pages["/f"] = [Answer(status="503 Busy"), Answer(BODY)]
        file = client.want("f", f"{DEAD}/f", f"{server.url}/wrong", f"{server.url}/f")
        await client.rest()
        assert [path for path, _ in server.asked] == ["/wrong", "/f"]
        assert file.status is FileStatus.ABSENT
        assert file.next_request_time > client.now
        assert client.ended == []
        await client.rest()
        assert len(server.asked) == 2
        client.now = file.next_request_time + 1
        await client.rest()
        assert [path for path, _ in server.asked][2:] == ["/wrong", "/f"]
        assert file.status is FileStatus.PRESENT
        assert client.ended == [file]
        assert (client.folder / "f").read_bytes() == BODY
        assert client.measured == [(len(BODY), False)]

    among(tmp_path, check)


def test_a_file_that_is_wrong_on_every_mirror_is_given_up_with_words(tmp_path: Path) -> None:
    async def check(client: Client, server: FileServer) -> None:
        server.pages["/a"] = server.pages["/b"] = [Answer(bytes(len(BODY)))]
        file = client.want("f", f"{server.url}/a", f"{server.url}/b")
        await client.rest()
        assert [path for path, _ in server.asked] == ["/a", "/b"]
        assert file.status is FileStatus.FAILED
        assert file.error.startswith("-119 (f differs from")
        assert client.ended == [file]

    among(tmp_path, check)


NO_ADDRESSES = [
    "http://[x/f",
    "http://[x]/f",
    "http://a:b/f",
    "http://a\x01/f",
    "http://xn--/f",
    "nonsense",
    "",
]


def test_what_is_no_address_is_passed_over_and_others_go_on(tmp_path: Path) -> None:
    async def check(client: Client, server: FileServer) -> None:
        server.pages["/f"] = server.pages["/g"] = [Answer(BODY)]
        for number, url in enumerate(NO_ADDRESSES):
            client.want(f"bad{number}", url)
        mirrored = client.want("f", *NO_ADDRESSES, f"{server.url}/f", project="p")
        other = client.want("g", f"{server.url}/g", project="q")
        await client.rest()
        assert other.status is FileStatus.PRESENT
        assert mirrored.status is FileStatus.PRESENT
        assert all(word in "\n".join(client.said) for word in ("is not a valid address", "cannot be reached"))

    among(tmp_path, check)


def test_a_server_that_is_down_is_not_tried_for_each_file_and_others_go_on(tmp_path: Path) -> None:
    async def check(client: Client, server: FileServer) -> None:
        server.pages["/ok"] = [Answer(BODY)]
        down = [client.want(f"d{n}", f"{DEAD}/d{n}", project=f"https://p{n}.example.org/") for n in range(6)]
        good = client.want("ok", f"{server.url}/ok")
        client.transfers.limits = TransferLimits(total=2, per_project=2)
        await client.rest()
        assert good.status is FileStatus.PRESENT
        assert 2 <= sum(file.num_retries for file in down) <= 3  # the others wait for the server

    among(tmp_path, check)


def test_without_the_network_nothing_moves_and_what_has_come_stays(tmp_path: Path) -> None:
    async def check(client: Client, server: FileServer) -> None:
        server.pages["/f"] = [Answer(BODY, piece=20_000, stalls_after=60_000), Answer(BODY)]
        file = client.want("f", f"{server.url}/f")
        client.transfers.poll()
        part = partial_path(client.folder / "f")
        await until(lambda: part.exists() and part.stat().st_size >= 40_000, seconds=60, what="the beginning")
        client.transfers.allowed = False  # as when the quota of the month is used up
        client.transfers.suspend()
        await client.rest()
        assert len(server.asked) == 1
        there = part.stat().st_size
        client.transfers.allowed = True
        await client.rest()
        assert file.status is FileStatus.PRESENT
        assert server.asked[1] == ("/f", f"bytes={there}-")
        assert file.num_retries == 0

    among(tmp_path, check)


def test_other_connections_take_over_from_where_a_transfer_stands(tmp_path: Path) -> None:
    async def check(client: Client, server: FileServer) -> None:
        server.pages["/f"] = [Answer(BODY, piece=20_000, stalls_after=60_000), Answer(BODY)]
        file = client.want("f", f"{server.url}/f")
        client.transfers.poll()
        part = partial_path(client.folder / "f")
        await until(lambda: part.exists() and part.stat().st_size >= 40_000, seconds=60, what="the beginning")
        nowhere = Proxy(kind="http", host="127.0.0.1", port=9, direct=("127.0.0.1",))
        assert client.connections.use(nowhere, 300.0)
        client.transfers.reconnect()
        await client.rest()
        assert file.status is FileStatus.PRESENT
        assert server.asked[1][1].startswith("bytes=")

    among(tmp_path, check)


def test_two_transfers_share_the_limit_of_speed(tmp_path: Path) -> None:
    async def check(client: Client, server: FileServer) -> None:
        body = BODY[:60_000]
        server.pages["/a"] = server.pages["/b"] = [Answer(body)]
        client.transfers.down.limit = 200_000.0
        client.want("a", f"{server.url}/a", body=body)
        client.want("b", f"{server.url}/b", body=body)
        begin = time.monotonic()
        await client.rest()
        assert time.monotonic() - begin > 0.55  # 120,000 bytes at 200,000 a second
        assert len(client.ended) == 2

    among(tmp_path, check)


def test_a_transfer_that_is_slowed_by_the_volunteer_is_not_one_that_crawls(tmp_path: Path) -> None:
    async def check(client: Client, server: FileServer) -> None:
        client.transfers.be_patient(60.0, 100.0)
        assert client.transfers._exchange.slowest == 100.0
        client.transfers.up.limit = 50.0
        client.transfers.be_patient(60.0, 100.0)
        assert client.transfers._exchange.slowest == 0.0
        assert server.asked == []

    among(tmp_path, check)


# -- the rules ----------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Waiting:
    """A file to be moved, which counts how often someone asks for its address."""

    name: str
    project: str = "p"
    upload: object = None
    num_retries: int = 1
    next_request_time: float = 0.0
    looked_at: int = 0

    @property
    def url(self) -> str:
        self.looked_at += 1
        return f"https://s/{self.name}"


def waiting(
    name: str, project: str = "p", *, upload: bool = False, first_try: bool = False, due: float = 0.0
) -> Waiting:
    return Waiting(
        name=name,
        project=project,
        upload=upload or None,
        num_retries=int(not first_try),
        next_request_time=due,
    )


def chosen(files: list[Waiting], running: list[Waiting] | None = None, **limits: int) -> tuple[str, ...]:
    start = choose_transfers(
        files,
        running or [],
        server_of=str,
        projects=Backoffs(3),
        servers=Backoffs(2),
        limits=TransferLimits(**limits),
        now=100.0,
    )
    return tuple(each.name for each in start)


class Unread(dict[Any, Any]):
    """A dictionary through which nobody goes."""

    def __iter__(self) -> Any:
        raise AssertionError("all of it is gone through")


def test_a_file_that_is_needed_no_more_is_forgotten_without_a_look_at_all_others(tmp_path: Path) -> None:
    client = Client(tmp_path)
    client.want("f")
    client.transfers._wanted = Unread(client.transfers._wanted)
    client.transfers.forget(PROJECT, "f")
    assert list(client.transfers.listed()) == []
    client.state.close()


def test_of_many_files_only_those_for_which_there_is_room_are_looked_at_closely() -> None:
    files = [waiting(f"f{n}") for n in range(1000)]
    assert chosen(files) == ("f0", "f1")
    assert sum(each.looked_at for each in files) == 2


def test_limits_hold_per_direction_and_per_project() -> None:
    files = [waiting(f"a{n}") for n in range(4)] + [waiting(f"b{n}", "q") for n in range(4)]
    assert chosen(files) == ("a0", "a1", "b0", "b1")
    assert chosen(files, total=3) == ("a0", "a1", "b0")
    assert chosen(files, [waiting("r")]) == ("a0", "b0", "b1")
    assert chosen(files, [waiting("r", upload=True)] * 8) == ("a0", "a1", "b0", "b1")


def test_transfers_that_have_begun_come_first_and_none_before_its_time() -> None:
    files = [waiting("new", first_try=True), waiting("old"), waiting("later", due=101.0)]
    assert chosen(files) == ("old", "new")


def test_a_project_waits_from_the_third_failure_on_but_for_first_tries() -> None:
    projects = Backoffs(3)
    for _ in range(3):
        projects.failed("down p", 100.0, rng=random.Random(1))
    choice = choose_transfers(
        [waiting("again"), waiting("new", first_try=True), waiting("up", upload=True)],
        [],
        server_of=str,
        projects=projects,
        servers=Backoffs(2),
        limits=TransferLimits(),
        now=100.0,
    )
    assert [each.name for each in choice] == ["up", "new"]
    assert projects.until("down p") > 100.0
    projects.succeeded("down p")
    assert projects.until("down p") == 0.0


def test_waits_double_up_to_six_hours() -> None:
    rng = random.Random(1)
    for failures in range(1, 40):
        top = min(60.0 * 2.0**failures, BACKOFF_MAX)
        assert top / 2 <= transfer_backoff(failures, rng=rng) <= top


# -- outputs that are to be packed --------------------------------------------------------------------------


def produce(tmp_path: Path, content: bytes, **output: Any) -> tuple[TaskSpec, SlotFolder, Path]:
    slot, project = tmp_path / "slot", tmp_path / "project"
    slot.mkdir(exist_ok=True)
    project.mkdir(exist_ok=True)
    (slot / "out").write_bytes(content)
    outputs = (TaskOutput(open_name="out", physical_name="r0", copy=True, packed=True, **output),)
    spec = TaskSpec(
        name="j", result_name="j", project_url=PROJECT, project_dir=project, main_program="m", outputs=outputs
    )
    return spec, SlotFolder(slot), project / "r0"


def test_an_output_is_packed_under_its_own_name_once_and_equal_ones_stay_equal(tmp_path: Path) -> None:
    content = b"1 2 3\n" * 10_000
    spec, slot, target = produce(tmp_path, content)
    (first,) = collect_outputs(slot, spec)
    assert gzip.decompress(target.read_bytes()) == content
    assert first.nbytes == target.stat().st_size < len(content)
    assert first.md5 == hashlib.md5(target.read_bytes()).hexdigest()
    (again,) = collect_outputs(slot, spec)  # after an interruption: it has been moved and packed already
    assert again == first
    spec, slot, _ = produce(tmp_path, content)
    assert collect_outputs(slot, spec) == (first,)
    assert [path.name for path in target.parent.iterdir()] == ["r0"]


def test_an_output_over_its_bound_is_refused_before_it_is_packed(tmp_path: Path) -> None:
    spec, slot, target = produce(tmp_path, bytes(5000), max_nbytes=1000.0)
    with pytest.raises(Exception, match="has 5000 bytes, the project allows 1000"):
        collect_outputs(slot, spec)
    assert target.stat().st_size == 5000
