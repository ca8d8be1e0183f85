"""Collecting exports over the network: only what is new, from where it broke off, and nobody holds up the others."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.server
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.helpers.statistics_exports import DAY, Export, cpid, host, team, user

from cobblestone.domain.exports import ExportedUser
from cobblestone.service import supervision
from cobblestone.statistics import collector, ingest
from cobblestone.statistics.collector import ExportCollector, ExportUnreadable, fetch, new_client, run_apart
from cobblestone.statistics.folder import (
    CollectedProject,
    CollectSection,
    FetchedFile,
    SiteFolder,
    StatisticsSettings,
    create_site,
)
from cobblestone.statistics.run import open_site
from cobblestone.statistics.store.build import published
from cobblestone.statistics.store.queries import PublishedFile

NOON = 20_000 * DAY + DAY / 2
EVERY = 86400.0


class Projects:
    """A web server with the exports of projects; each may be made to misbehave."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.etags = True
        self.cut: dict[str, int] = {}  #: path -> bytes after which the connection breaks, once
        self.special: dict[str, Callable[[http.server.BaseHTTPRequestHandler], None]] = {}
        self.asked: list[tuple[str, dict[str, str], int]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def put(self, name: str, export: Export) -> None:
        self.files |= {f"/{name}/{file}": data for file, data in export.documents().items()}

    def _answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        path, data = handler.path, self.files.get(handler.path)
        if path in self.special:
            self.special[path](handler)
            return
        etag = f'"{hash(data)}"'
        begin, status = 0, 200
        if data is None:
            status = 404
        elif handler.headers.get("If-None-Match") == etag:
            status = 304
        elif (wished := handler.headers.get("Range")) and handler.headers.get("If-Range") == etag:
            begin, status = int(wished.removeprefix("bytes=").rstrip("-")), 206
        self.asked.append((path, dict(handler.headers.items()), status))
        handler.send_response(status)
        body = data[begin:] if data is not None and status != 304 else b""
        if self.etags:
            handler.send_header("ETag", etag)
        if status == 206:
            handler.send_header("Content-Range", f"bytes {begin}-{begin + len(body) - 1}/{begin + len(body)}")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        with contextlib.suppress(OSError):
            handler.wfile.write(body[: self.cut.pop(path, len(body))])
        handler.close_connection = True


@pytest.fixture
def projects() -> Generator[Projects, None, None]:
    server = Projects()
    yield server
    server.close()


class Site:
    """A statistics site at some time."""

    def __init__(self, root: Path, projects: Projects, *names: str, **collect: float) -> None:
        self.folder, self.now = SiteFolder(root), NOON
        sources = [{"name": name, "title": name.title(), "url": f"{projects.url}{name}/"} for name in names]
        settings = {"pause_seconds": 0, "timeout_seconds": 1, "max_seconds_per_file": 3, **collect}
        self.settings = StatisticsSettings.model_validate({"project": sources, "collect": settings})
        self.collector = ExportCollector(
            self.folder, self.settings, clock=lambda: self.now, run=asyncio.to_thread
        )

    def round(self) -> None:
        async def steps() -> None:
            while await self.collector.step():
                pass

        asyncio.run(steps())

    def state(self, name: str) -> CollectedProject:
        return self.folder.project(name).read_state()

    def published(self) -> PublishedFile:
        path = published(self.folder)
        assert path is not None
        return PublishedFile(self.folder, path)


def small(total: float, time: float = NOON) -> Export:
    owner = user(1, "Alice", total, time, cpid=cpid("alice"), team=1)
    return Export(time, [owner], [host(1, 1, total, time)], [team(1, "T", total, time)])


def test_what_is_new_is_fetched_and_read_and_what_is_not_is_not(
    tmp_path: Path, projects: Projects, monkeypatch: pytest.MonkeyPatch
):
    # A test process may have no file behind its main module. The processes of the collector would then have no main module
    # at all, and DuckDB needs one.
    (tmp_path / "main.py").touch()
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "main.py"), raising=False)
    projects.put("one", small(100))
    site = Site(tmp_path, projects, "one")
    site.collector = ExportCollector(
        site.folder, site.settings, clock=lambda: site.now
    )  # in processes of their own, as when it runs
    site.round()
    assert (site.state("one").problem, site.state("one").counts.users) == ("", 1)
    assert len(projects.asked) == 8

    projects.asked.clear()
    site.now += EVERY
    site.round()
    assert [(path, status) for path, _, status in projects.asked] == [("/one/tables.xml", 304)]

    projects.put("one", small(150, NOON + 2 * EVERY))
    site.now += EVERY
    site.round()
    published = site.published()
    alice = published.find("user", 1, "1")
    assert alice is not None
    assert [day.total for day in published.history(alice)] == [100, 150]


SPLIT = b"""<boinc_db_dump_spec>
 <enumeration><table>user</table><filename>user</filename>
  <output><recs_per_file>2</recs_per_file><compression>gzip</compression></output></enumeration>
 <enumeration><table>host</table><filename>../secret</filename><output><recs_per_file>2</recs_per_file></output></enumeration>
 <enumeration><table>team</table><filename>team</filename><output><compression>gzip</compression></output></enumeration>
</boinc_db_dump_spec>"""


def put_split(projects: Projects, users: Sequence[ExportedUser], time: float, *, at_once: int = 2) -> None:
    whole = Export(time, users)
    projects.files = {
        "/one/tables.xml": whole.documents()["tables.xml"],
        "/one/db_dump.xml": SPLIT,
        **{
            f"/one/user_{place // at_once}.gz": Export(time, users[place : place + at_once]).documents()[
                "user.gz"
            ]
            for place in range(0, len(users), at_once)
        },
    }


def test_an_export_in_several_files_is_read_as_one(tmp_path: Path, projects: Projects):
    people = [user(number, f"U{number}", 10.0 * number, NOON) for number in (9, 8, 4, 3, 1)]
    put_split(projects, people, NOON)
    site = Site(tmp_path, projects, "one")
    site.round()
    assert (site.state("one").problem, site.state("one").counts.users) == ("", 5)
    asked = {path for path, _, _ in projects.asked}
    assert "/one/user_2.gz" in asked
    assert not any("secret" in path for path in asked)

    site.now += EVERY
    put_split(projects, people[:2], NOON + EVERY)  # the others have left
    site.round()
    assert (site.state("one").problem, site.state("one").counts.users) == ("", 2)
    assert [path.name for path in site.folder.project("one").incoming.glob("user_*")] == ["user_00000.gz"]

    site.now += EVERY
    projects.files["/one/user_0.gz"] = projects.files["/one/user_0.gz"][:-20]
    projects.files["/one/tables.xml"] += b" "
    site.round()
    assert "user_00000.gz" in site.state("one").problem
    assert site.state("one").counts.users == 2


def test_projects_that_misbehave_touch_no_other_one(tmp_path: Path, projects: Projects):
    names = ("good", "gone", "moved", "slow", "large", "bomb", "cut", "liar")
    for name in names:
        projects.put(name, small(100))
    site = Site(tmp_path, projects, *names, max_file_bytes=1_000_000)
    site.round()
    assert [site.state(name).problem for name in names] == [""] * len(names)

    for name in names:
        projects.put(name, small(200, NOON + EVERY))
    projects.files = {path: data for path, data in projects.files.items() if not path.startswith("/gone/")}
    projects.special = {"/moved/tables.xml": redirect, "/slow/user.gz": silent, "/large/user.gz": endless}
    projects.files["/bomb/user.gz"] = gzip.compress(b"<users>" + b" " * 20_000_000)
    projects.files["/cut/host.gz"] = projects.files["/cut/host.gz"][:-30]
    projects.files["/liar/user.gz"] = gzip.compress(b"<users></users>") + b"x" * 20
    projects.files["/liar/tables.xml"] = projects.files["/liar/tables.xml"].replace(
        b"<nusers_total>1<", b"<nusers_total>500<"
    )
    site.now += EVERY
    site.round()
    published = site.published()
    totals = {
        project.name: account.total
        for number, project in published.projects.items()
        if (account := published.find("user", number, "1")) is not None
    }
    assert totals == {name: 200 if name == "good" else 100 for name in names}
    for name, problem in (
        ("gone", "tables.xml does not exist"),
        ("moved", "has moved to 'http://elsewhere.example.org/'"),
        ("slow", "user.gz"),
        ("large", "sends more than the 1000000 bytes that such a file may have"),
        ("bomb", "user.gz, after .* times its size"),
        ("cut", "host.gz, after .* the compressed file is cut off"),
        ("liar", "user.gz: it has 0 records, but tables.xml says 500"),
    ):
        assert problem.split(" .* ")[-1] in site.state(name).problem, name

    # They are asked again an hour later, and mend.
    projects.special.clear()
    for name in names:
        projects.put(name, small(300, NOON + 2 * EVERY))
    site.now += 3600
    site.round()
    assert [site.state(name).problem for name in names] == [""] * len(names)


def redirect(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "http://elsewhere.example.org/")
    handler.end_headers()


def silent(handler: http.server.BaseHTTPRequestHandler) -> None:
    threading.Event().wait(1.5)


def endless(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(200):
            handler.wfile.write(b"x" * 100_000)


def trickle(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(600):
            handler.wfile.write(b"x")
            threading.Event().wait(0.05)


def test_a_project_whose_attempts_take_longer_than_the_time_between_them_keeps_back_no_results(
    tmp_path: Path, projects: Projects
):
    projects.put("good", small(100))
    site = Site(tmp_path, projects, "drips", "good", retry_seconds=600)

    def drips(handler: http.server.BaseHTTPRequestHandler) -> None:
        site.now += 1000
        handler.send_error(503)

    projects.special = {"/drips/tables.xml": drips}

    async def steps() -> None:
        for _ in range(5):
            await site.collector.step()

    asyncio.run(steps())
    assert site.published().size("user").total == 100


def test_who_sends_byte_by_byte_is_given_up_before_the_time_for_a_file_is_over(
    tmp_path: Path, projects: Projects
):
    projects.put("one", small(100))
    projects.special["/one/user.gz"] = trickle
    site = Site(tmp_path, projects, "one", max_seconds_per_file=600)
    site.round()
    assert "user.gz is slower than 10000 bytes per second" in site.state("one").problem


def test_a_slow_project_holds_up_neither_others_nor_the_pages(
    tmp_path: Path, projects: Projects, monkeypatch: pytest.MonkeyPatch
):
    names = ("drips", "silent", "good", "late")
    for name in names:
        projects.put(name, small(100))
    projects.special = {"/drips/user.gz": trickle, "/silent/tables.xml": silent}
    site = Site(tmp_path, projects, *names, timeout_seconds=60, max_seconds_per_file=600)
    late = site.folder.project("late")
    late.write_state(CollectedProject(tried=NOON))  # due in a day
    monkeypatch.setattr(supervision, "LOOK_SECONDS", 0.1)

    async def meanwhile() -> None:
        task = asyncio.create_task(site.collector.step())
        for name, patience in (("good", 0.0), ("late", collector.PATIENCE_SECONDS)):
            async with asyncio.timeout(20):
                while not site.state(name).generation:
                    await asyncio.wait({task}, timeout=0.02)
                if name == "good":
                    late.write_state(CollectedProject())
                site.now += patience
        async with asyncio.timeout(20):
            while published(site.folder) is None:
                await asyncio.wait({task}, timeout=0.02)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(meanwhile())
    assert {each.name for each in site.published().projects.values()} == {"good", "late"}
    assert not site.state("drips").generation


def announced(n_bytes: int) -> Callable[[http.server.BaseHTTPRequestHandler], None]:
    def handle(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(n_bytes))
        handler.end_headers()
        with contextlib.suppress(OSError):
            handler.wfile.write(b"x")
        threading.Event().wait(0.5)
        handler.close_connection = True

    return handle


@pytest.mark.parametrize(
    ("file", "most"),
    [("tables.xml", 10_000_000), ("db_dump.xml", 10_000_000), ("user_deleted.gz", 5_000_000)],
)
def test_each_file_has_a_size_of_its_own_and_is_refused_before_more_of_it_comes(
    tmp_path: Path, projects: Projects, file: str, most: int
):
    projects.put("one", small(100))
    projects.put("two", small(100))
    if file == "db_dump.xml":
        del projects.files["/one/team.gz"], projects.files["/two/team.gz"]
    projects.special = {f"/one/{file}": announced(most + 1), f"/two/{file}": endless}
    site = Site(tmp_path, projects, "one", "two", max_file_bytes=50_000_000, timeout_seconds=10)
    site.round()
    for name in ("one", "two"):
        said = f"{name}/{file} sends more than the {most} bytes that such a file may have"
        assert said in site.state(name).problem
        left = site.folder.project(name).incoming.glob(f"{file}*")
        assert sum(path.stat().st_size for path in left) < 100


def test_a_table_in_parts_has_no_more_bytes_than_one_in_one_file(tmp_path: Path, projects: Projects):
    put_split(projects, [user(number, f"U{number}", 10.0, NOON) for number in range(1, 40)], NOON)
    site = Site(tmp_path, projects, "one", max_file_bytes=2000)
    site.round()
    assert re.search(r"user_\d+.gz sends more than the \d+ bytes", site.state("one").problem)


def test_a_file_that_decompresses_to_little_but_space_is_refused_early(
    tmp_path: Path, projects: Projects, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ingest, "BYTES_AT_FIRST", 10_000_000)
    projects.put("one", small(100))
    # Seven bytes in 2,000 are not the same: fewer than 400 bytes from each.
    line = b" " * 1993
    filler = b"".join(b"%07d" % number + line for number in range(50_000))
    projects.files["/one/host.gz"] = packed = gzip.compress(b"<hosts>" + filler + b"</hosts>", 9)
    assert len(filler) < 400 * len(packed)
    site = Site(tmp_path, projects, "one")
    site.round()
    said = re.fullmatch(
        r"host.gz, after (\d+) bytes: it holds 0 records only: refused", site.state("one").problem
    )
    assert said is not None, site.state("one").problem
    assert int(said[1]) < 15_000_000


def test_who_exports_parts_without_end_is_given_up(tmp_path: Path, projects: Projects):
    put_split(projects, [user(1, "U", 10, NOON)], NOON)
    part = projects.files["/one/user_0.gz"]
    projects.files |= {f"/one/user_{number}.gz": part for number in range(10_000)}
    site = Site(tmp_path, projects, "one", max_seconds_per_project=1)
    site.round()
    assert site.state("one").problem == "all files together took longer than 1 s"


def test_a_number_in_two_parts_counts_once(tmp_path: Path, projects: Projects):
    put_split(projects, [user(number, f"U{number}", 10.0, NOON) for number in (5, 4, 2, 1)], NOON)
    projects.files["/one/user_1.gz"] = projects.files["/one/user_0.gz"]
    site = Site(tmp_path, projects, "one")
    site.round()
    counts = site.state("one").counts
    assert (counts.users, counts.doubled) == (2, 2)


def test_a_file_without_its_last_byte_is_broken(tmp_path: Path, projects: Projects):
    projects.put("one", small(100))
    projects.files["/one/user.gz"] = projects.files["/one/user.gz"][:-1]
    site = Site(tmp_path, projects, "one")
    site.round()
    assert "the compressed file is cut off" in site.state("one").problem


def test_a_clock_that_was_in_the_future_stops_nothing(tmp_path: Path, projects: Projects):
    projects.put("one", small(100))
    site = Site(tmp_path, projects, "one")
    site.now = NOON + 3650 * DAY
    site.round()
    projects.put("one", small(150, NOON - 1))
    site.now = NOON
    site.round()
    assert site.state("one").tried == NOON
    account = site.published().find("user", 1, "1")
    assert account is not None
    assert account.total == 150.0
    assert len(list(site.folder.published.iterdir())) == 1


def test_an_export_that_changes_while_it_is_fetched_is_taken_or_refused_as_a_whole(
    tmp_path: Path, projects: Projects
):
    projects.put("one", small(100))
    site = Site(tmp_path, projects, "one")
    site.round()
    many = [user(number, f"U{number}", 10.0 * number, NOON) for number in range(1, 60)]
    later = Export(NOON + EVERY, many, [host(1, 1, 200, NOON)], [team(1, "T", 200, NOON)])
    projects.put("one", later)
    old = small(100).documents()
    projects.files["/one/user.gz"] = old["user.gz"]
    site.now += EVERY
    site.round()
    assert "user.gz: it has 1 records, but tables.xml says 59" in site.state("one").problem
    kept = site.published().find("user", 1, "1")
    assert kept is not None
    assert kept.total == 100.0
    projects.put("one", later)
    site.now += 3600
    site.round()
    assert (site.state("one").problem, site.state("one").counts.users) == ("", 59)


def get(projects: Projects, path: str, target: Path, known: FetchedFile | None = None) -> FetchedFile | None:
    settings = CollectSection.model_validate({"timeout_seconds": 2})

    async def ask() -> FetchedFile | None:
        async with new_client(settings) as client:
            return await fetch(client, projects.url + path, target, known, settings, most_bytes=10**6)

    return asyncio.run(ask())


def test_a_file_whose_connection_broke_is_continued(tmp_path: Path, projects: Projects):
    projects.files["/a"] = data = bytes(range(256)) * 1000
    projects.cut["/a"] = 100_000
    with pytest.raises(ExportUnreadable):
        get(projects, "a", tmp_path / "a")
    came = get(projects, "a", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == data
    assert projects.asked[-1][2] == 206
    assert get(projects, "a", tmp_path / "a", came) is None


def test_a_file_that_changed_meanwhile_is_fetched_from_the_begin(tmp_path: Path, projects: Projects):
    projects.files["/a"] = b"old" * 50_000
    projects.cut["/a"] = 100_000
    with pytest.raises(ExportUnreadable):
        get(projects, "a", tmp_path / "a")
    projects.files["/a"] = b"new" * 50_000
    get(projects, "a", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"new" * 50_000


def test_a_server_that_does_not_say_which_file_it_is_sends_it_whole_again(tmp_path: Path, projects: Projects):
    projects.files["/a"] = b"abc" * 50_000
    projects.etags = False
    projects.cut["/a"] = 100_000
    with pytest.raises(ExportUnreadable):
        get(projects, "a", tmp_path / "a")
    get(projects, "a", tmp_path / "a")
    assert "Range" not in projects.asked[-1][1]
    assert (tmp_path / "a").read_bytes() == b"abc" * 50_000


def test_who_stops_the_site_does_not_wait_for_an_export_that_is_being_read():
    async def stop() -> float:
        began = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await run_apart(partial(time.sleep, 300))
        return time.monotonic() - began

    assert asyncio.run(stop()) < 60


def test_a_site_is_open_once_and_survives_a_kill_between_reading_and_counting(
    tmp_path: Path, projects: Projects
):
    projects.put("one", small(100))
    site = Site(tmp_path, projects, "one")
    site.round()
    state = site.state("one")
    # As after SIGKILL: rows of a generation that never counted, a half-made file for pages.
    site.folder.project("one").rows("1-dead").mkdir()
    (site.folder.published / ".000.duckdb.dead").write_bytes(b"x")
    # As after SIGKILL while what does not fit into memory lies on disk.
    (site.folder.published / ".scratch").mkdir()
    (site.folder.published / ".scratch" / "duckdb_temp_storage-0.tmp").write_bytes(b"x")
    create_site(tmp_path)
    with open_site(tmp_path) as ctx:
        assert ctx.published is not None
    projects.put("one", small(120, NOON + EVERY))
    site.now += EVERY
    site.round()
    assert site.state("one").generation != state.generation
    assert [path.name for path in (site.folder.project("one").root / "rows").iterdir()] == [
        site.state("one").generation
    ]
    assert len(list(site.folder.published.iterdir())) == 1


def test_a_server_that_never_answers_is_named_as_late(tmp_path: Path):
    def hang(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("")

    async def ask() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(hang)) as client:
            settings = CollectSection.model_validate({})
            await fetch(client, "http://a.example.org/", tmp_path / "file", None, settings, most_bytes=1000)

    with pytest.raises(ExportUnreadable, match="cannot be read: no answer in time"):
        asyncio.run(ask())


def test_after_publishing_took_long_what_is_new_is_read_and_waits_for_the_next_time(
    tmp_path: Path, projects: Projects
):
    projects.put("one", small(100))
    site, seconds, builds = Site(tmp_path, projects, "one"), 600.0, list[float]()

    async def slowly(work: Callable[[], Any]) -> Any:
        found = await asyncio.to_thread(work)
        if isinstance(found, Path):  # of all projects together
            site.now += seconds
            builds.append(site.now)
        return found

    def put(total: float) -> None:
        projects.put("one", small(total, site.now))
        state = site.state("one")
        site.folder.project("one").write_state(msgspec.structs.replace(state, tried=site.now - EVERY))
        site.round()
        assert site.state("one").collected == site.now

    site.collector = ExportCollector(site.folder, site.settings, clock=lambda: site.now, run=slowly)
    site.round()
    site.now += 60
    put(150)
    site.now += 60
    put(200)
    assert len(builds) == 1, "twice in ten minutes"
    site.now += asyncio.run(site.collector.pause())
    site.round()
    assert builds[1] - builds[0] == 11 * seconds
    site.now -= EVERY + 2 * seconds
    projects.put("one", small(250, site.now))
    site.round()
    assert len(builds) == 3, "a clock that was wrong keeps back nothing"
