"""What may go wrong around our client: clocks, disks, servers.  It says what happened, loses nothing, and goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.e2e.conftest import ENDLESS, LiveProject
from tests.helpers.daemon_in_test import MovableClock, make_client, running, said, until
from tests.helpers.faulty_proxy import Fault

from cobblestone.client.daemon.daemon import Client
from cobblestone.wire.client.records import JobRecord

DAY = 86400.0
SHORT = """
import sys
open(sys.argv[2], "w").write("done")
"""


def jobs_of(client: Client) -> list[JobRecord]:
    return [job for content in client.state.contents.values() for job in content.jobs.values()]


def computing(client: Client) -> list[str]:
    client.jobs.readings()
    return [job.name for job in jobs_of(client) if job.task.pid and job.task.scheduled]


@asynccontextmanager
async def attached(client: Client, project: LiveProject, key: str) -> AsyncIterator[Client]:
    async with running(client):
        await until(lambda: client.jobs.runner is not None, seconds=60, what="start")
        client.contacts.attach(project.url, key)
        yield client


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_clock_that_is_set_by_a_day_ends_no_task_and_invents_no_work(
    jump: float, live: Callable[..., LiveProject], tmp_path: Path
):
    project = live()
    project.app("long", ENDLESS)
    project.submit("long", "1")
    key = project.account("alice")

    async def play() -> None:
        clock = MovableClock()
        client = make_client(tmp_path / "own", clock)
        async with attached(client, project, key):
            await until(lambda: computing(client) != [], seconds=60, what="a running task")
            (job,) = jobs_of(client)
            pid, content = job.task.pid, client.contacts.get(project.url)
            clock.offset += jump
            await until(lambda: "The clock moved by" in said(client), seconds=60, what="the notice")
            contacted = content.project.last_rpc_time
            client.control.update(project.url)
            await until(
                lambda: content.project.last_rpc_time != contacted,
                seconds=60,
                what="a contact after the jump",
            )
            await until(lambda: computing(client) == [job.name], seconds=60, what="the task to run")
            assert job.task.pid == pid
            assert job.task.elapsed_time < 300
            assert content.project.credit.cpu_time < 300
            client.timeline.save()
            client.loop.save()
            assert sum(end - begin for _, _, begin, end in client.state.runs(0.0)) < 300
            assert "Internal error" not in said(client)

    asyncio.run(play())


def test_a_full_disk_is_said_nothing_new_is_begun_and_work_goes_on_when_there_is_room(
    live: Callable[..., LiveProject], tmp_path: Path
):
    project = live()
    project.app("long", ENDLESS)
    project.submit("long", "1")
    key = project.account("alice")

    async def play() -> None:
        client = make_client(tmp_path / "own")
        async with running(client):
            await until(lambda: client.jobs.runner is not None, seconds=60, what="start")
            database = client.state._database  # SQLite can be told that the disk is full
            database.execute(f"PRAGMA max_page_count = {database.execute('PRAGMA page_count').fetchone()[0]}")
            client.contacts.attach(project.url, key)
            await until(lambda: "The state cannot be saved" in said(client), seconds=60, what="the complaint")
            assert "Is the disk full" in said(client)
            await asyncio.sleep(3)
            assert computing(client) == []
            database.execute("PRAGMA max_page_count = 1000000")
            await until(lambda: computing(client) != [], seconds=90, what="a running task")
            assert client.loop.save()
            assert "Internal error" not in said(client)

    asyncio.run(play())


def test_a_folder_that_cannot_be_written_is_refused_in_words():
    done = subprocess.run(
        [sys.executable, "-m", "cobblestone", "client", "run", "/sys/kernel", "--gui-port", "0"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert "/sys/kernel cannot be used as a data directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_at_the_start_a_full_disk_is_told_from_a_damaged_state(tmp_path: Path):
    done = subprocess.run(
        ["prlimit", "--fsize=0", sys.executable, "-m", "cobblestone", "client", "run", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert "Is the disk full" in done.stderr
    assert "move it away" not in done.stderr


def test_after_a_week_without_the_server_a_finished_job_is_reported_once(
    live: Callable[..., LiveProject], tmp_path: Path
):
    project = live(behind_proxy=True)
    proxy = project.proxy
    assert proxy is not None
    project.app("short", SHORT)
    batch = project.submit("short", "1")
    key = project.account("alice")

    async def play() -> None:
        clock = MovableClock()
        client = make_client(tmp_path / "own", clock)
        async with attached(client, project, key):
            await until(lambda: jobs_of(client) != [], seconds=60, what="a job")
            await until(
                lambda: all(
                    f.status.value for f in client.contacts.get(project.url).files.values() if f.download
                ),
                seconds=60,
                what="the downloads",
            )
            proxy.away, proxy.visits = True, 0
            await until(
                lambda: jobs_of(client)[0].completed_time > 0, seconds=60, what="the end of the computation"
            )
            for _ in range(14):
                clock.offset += DAY / 2
                await asyncio.sleep(1.5)
            assert len(jobs_of(client)) == 1
            assert 0 < proxy.visits < 100
            assert "cannot be reached" in said(client)
            proxy.away = False
            client.control.update(project.url)
            await until(lambda: jobs_of(client) == [], seconds=90, what="the report")
            assert "Internal error" not in said(client)

    asyncio.run(play())
    assert project.value("SELECT COUNT(*) FROM result WHERE received_time IS NOT NULL") == 1
    assert batch.status().n_error == 0


def test_half_a_reply_counts_as_none_and_its_jobs_come_again(
    live: Callable[..., LiveProject], tmp_path: Path
):
    project = live(behind_proxy=True)
    proxy = project.proxy
    assert proxy is not None
    project.app("short", SHORT)
    key = project.account("alice")

    async def play() -> None:
        client = make_client(tmp_path / "own")
        async with attached(client, project, key):
            await until(
                lambda: client.contacts.get(project.url).project.host.id > 0, seconds=60, what="a contact"
            )
            batch = project.submit("short", "1", "2")
            proxy.faults = [Fault(match=b"<scheduler_request>", times=1, cut_reply_after=1500)]
            client.control.update(project.url)
            await until(lambda: "The contact failed" in said(client), seconds=60, what="the failure")
            assert jobs_of(client) == []
            for _ in range(25):
                client.control.update(project.url)
                await asyncio.sleep(2)
                if batch.status().n_success == 2:
                    break
            assert batch.status().n_success == 2
            assert "Resent lost task" in said(client)
            assert "Internal error" not in said(client)

    asyncio.run(play())
    assert proxy.faults[0].hits == 1
    assert project.value("SELECT COUNT(*) FROM result") == 2


def test_behind_a_redirect_tasks_are_fetched_computed_uploaded_and_reported(
    live: Callable[..., LiveProject], tmp_path: Path
):
    project = live(redirected=True)
    project.app("short", SHORT.replace('"done"', '"done" * 10000'))
    batch = project.submit("short", "1")
    key = project.account("alice")

    async def play() -> None:
        client = make_client(tmp_path / "own")
        async with attached(client, project, key):
            await until(
                lambda: client.state.contents != {} and batch.status().n_success == 1,
                seconds=120,
                what="the result",
            )

    asyncio.run(play())
    assert project.redirecting is not None
    assert any(each.startswith("POST /cgi-bin/file_upload_handler") for each in project.redirecting.asked), (
        project.redirecting.asked
    )


def test_a_reset_and_a_detach_remove_what_the_project_sent_and_nothing_else(
    live: Callable[..., LiveProject], tmp_path: Path
):
    project = live()
    project.app("short", SHORT)
    project.submit("short", "1")
    key = project.account("alice")
    own = {"app_config.xml": "<app_config/>", "my_program": "x", "notes.txt": "mine"}

    async def play() -> None:
        client = make_client(tmp_path / "own")
        async with attached(client, project, key):
            folder = client.folders.project(project.url)
            for name, text in own.items():
                (folder / name).write_text(text)
            (folder / ".unfinished.part").write_text("half")

            def arrived() -> bool:
                return len(list(folder.iterdir())) > len(own) + 1

            for end in (client.contacts.reset, client.contacts.detach):
                await until(arrived, seconds=60, what="files of the project")
                content = client.contacts.get(project.url)
                content.project.dont_request_more_work = end == client.contacts.reset
                await end(content)
                assert {path.name: path.read_text() for path in folder.iterdir() if path.name in own} == own
                assert "Your own files stay" in said(client)
                if end == client.contacts.reset:
                    fresh = client.contacts.get(project.url).project
                    assert (fresh.dont_request_more_work, fresh.authenticator) == (True, key)
                    client.control.change_project(project.url, dont_request_more_work=False)
                    project.submit("short", "2")
                    client.control.update(project.url)
            assert {path.name for path in folder.iterdir()} == set(own)

    asyncio.run(play())
