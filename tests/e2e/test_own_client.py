"""Our own client against our own server: jobs computed, managers obeyed, kills survived."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import ENDLESS, PASSWORD, LiveProject
from tests.e2e.early_upload import check_early_upload, early_batch
from tests.helpers.gui_rpc_peer import Peer, structure
from tests.helpers.own_client import OwnClient

from cobblestone.client.records.decisions import fresh_core, play
from cobblestone.client.records.state import ClientDatabase
from cobblestone.domain.errors import StoreError

WORK = """
import sys, time
time.sleep({seconds})
open(sys.argv[2], "w").write(open(sys.argv[1]).read() * 2)
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Callable[..., OwnClient]]:
    clients: list[OwnClient] = []

    def make(name: str = "own", **options: int) -> OwnClient:
        client = OwnClient(tmp_path / name, **options)
        clients.append(client)
        client.start()
        return client

    yield make
    for client in clients:
        client.stop()
        log = client.log()
        assert "Traceback" not in log, log[-3000:]
        assert "Internal error" not in log, log[-3000:]


def test_jobs_are_computed_reported_and_credited(
    live: Callable[..., LiveProject], own: Callable[..., OwnClient]
):
    project = live()
    project.app("work", WORK.format(seconds=1))
    batch = project.submit("work", "1", "2", "3", "4")
    project.account("alice")
    client = own(ncpus=2)
    client.cli("attach", project.url, "--email", "alice@example.org", "--password", PASSWORD)
    project.wait_for_batch(batch, client)
    assert sorted(result.text() for result in batch.results(timeout=60)) == ["11", "22", "33", "44"]
    project.wait(lambda: client.ask("projects")[0]["host_credit"] > 0, client, seconds=60, what="credit")
    (row,) = client.ask("projects")
    assert row["user"] == "Alice"
    assert row["jobs_done"] == 4
    assert row["estimated_credit"] > 0
    assert {job["outcome"] for job in client.ask("history")} == {"uploaded"}
    reports = project.query("SELECT outcome, client_state FROM result")
    assert reports


def test_an_output_is_uploaded_and_fetched_while_the_job_runs_and_its_client_is_killed(
    live: Callable[..., LiveProject], own: Callable[..., OwnClient]
):
    project = live()
    batch = early_batch(project)
    client = own()
    client.cli("attach", project.url, "--key", project.account("alice"))
    check_early_upload(project, batch, client)


def test_a_job_that_fails_says_why(live: Callable[..., LiveProject], own: Callable[..., OwnClient]):
    project = live()
    project.app("bad", "import sys\nsys.stderr.write('no such constant: pi\\n')\nsys.exit(3)\n")
    project.submit("bad", "1")
    client = own()
    client.cli("attach", project.url, "--key", project.account("alice"))
    project.wait_for_report(client)
    reported = "FROM result_text t JOIN result r ON r.id = t.result_id WHERE r.received_time > 0"
    text = project.value(f"SELECT t.stderr {reported}")
    assert text is not None, (project.value(f"SELECT t.report {reported}"), client.log())
    assert "no such constant: pi" in zlib.decompress(text).decode()
    assert project.value("SELECT exit_status FROM result WHERE received_time > 0") == 3


def test_debians_tool_sees_and_controls_it(live: Callable[..., LiveProject], own: Callable[..., OwnClient]):
    project = live()
    project.app("work", ENDLESS)
    project.submit("work", "1", "2")
    client = own()
    client.boinccmd("--project_attach", project.url, project.account("alice"))
    client.wait_for(
        lambda: any(t.active_task_state == "EXECUTING" for t in client.tasks()),
        seconds=60,
        what="a running task",
    )
    assert "E2E" in client.boinccmd("--get_project_status")
    running = next(t for t in client.tasks() if t.active_task_state == "EXECUTING")
    client.boinccmd("--task", project.url, running.name, "suspend")
    client.wait_for(
        lambda: next(t for t in client.tasks() if t.name == running.name).suspended,
        seconds=60,
        what="suspension",
    )
    client.boinccmd("--task", project.url, running.name, "resume")
    client.boinccmd("--project", project.url, "detach_when_done")
    assert "don't request more work: yes" in client.boinccmd("--get_project_status")
    client.boinccmd("--project", project.url, "dont_detach_when_done")
    assert "don't request more work: no" in client.boinccmd("--get_project_status")
    client.boinccmd("--project", project.url, "nomorework")
    assert "don't request more work: yes" in client.boinccmd("--get_project_status")
    client.boinccmd("--set_run_mode", "never", "0")
    client.wait_for(
        lambda: not any(t.active_task_state == "EXECUTING" for t in client.tasks()),
        seconds=60,
        what="computing to stop",
    )
    client.boinccmd("--set_run_mode", "auto", "0")
    client.boinccmd("--task", project.url, running.name, "abort")
    project.wait_for_report(client)
    assert project.value("SELECT exit_status FROM result WHERE name = ?", running.name) == 203
    assert "Authorization failure" in client.boinccmd("--project", project.url, "update", password="wrong")
    client.boinccmd("--project", project.url, "detach")
    client.wait_for(lambda: client.ask("projects") == [], seconds=60, what="the project to be left")
    assert client.job_processes() == []


#: Preferences are read by name; ours has some that the stock client of Debian 12 does not know yet.
NOT_COMPARED = (
    r"/client_state/global_preferences.*",
    r".*/active_task/progress_rate",  # there as soon as a task has told how far it is
)
OPERATIONS = (
    "<get_state/>", "<get_results/>", "<get_simple_gui_info/>", "<get_project_status/>", "<get_cc_status/>", "<get_host_info/>",
    "<get_disk_usage/>", "<get_file_transfers/>", "<get_messages>\n<seqno>0</seqno>\n</get_messages>", "<get_message_count/>",
    "<get_notices>\n<seqno>0</seqno>\n</get_notices>", "<get_statistics/>", "<get_daily_xfer_history/>", "<get_old_results/>",
    "<get_newer_version/>", "<get_screensaver_tasks/>", "<get_proxy_settings/>", "<acct_mgr_info/>",
    "<get_project_init_status/>", "<project_attach_poll/>", "<acct_mgr_rpc_poll/>", "<no_such_thing/>",
    "<exchange_versions>\n<major>7</major>\n<minor>20</minor>\n<release>5</release>\n</exchange_versions>",
)  # fmt: skip


def quiet(port: int) -> bool:
    """Whether a client neither talks to a scheduler nor means to."""
    with Peer(port) as peer:
        state = peer.ask("<get_state/>")
    return "<client_state>" in state and "in_progress" not in state and "<sched_rpc_pending>0<" in state


def test_answers_have_the_structure_of_the_stock_clients_in_the_same_state(
    live: Callable[..., LiveProject], own: Callable[..., OwnClient]
):
    project = live()
    project.app("work", ENDLESS)
    project.submit("work", *map(str, range(20)))  # the last jobs of a batch are other than the rest, so many
    stock = project.volunteer("bob")
    client = own()
    client.cli("attach", project.url, "--key", project.account("alice"))
    for each in (stock, client):
        project.wait(
            lambda each=each: any(t.active_task_state == "EXECUTING" for t in each.tasks()),
            each,
            seconds=60,
            what="a running task",
        )
    client.wait_for(lambda: client.ask("tasks")[0]["elapsed"] > 3, seconds=60, what="progress")
    for each in (stock, client):
        client.wait_for(lambda each=each: quiet(each.port), seconds=60, what="the end of a contact")
    with Peer(stock.port) as theirs, Peer(client.port) as ours:
        assert (
            structure(theirs.log_in(stock.folder)) == structure(ours.log_in(client.folder)) == ["/authorized"]
        )
        for operation in OPERATIONS:
            name = re.findall(r"\w+", operation)[0]
            expected, found = structure(theirs.ask(operation)), structure(ours.ask(operation))
            expected, found = (
                [p for p in paths if not re.fullmatch("|".join(NOT_COMPARED), p)]
                for paths in (expected, found)
            )
            assert found == expected, name


def test_after_kills_at_any_moment_every_job_is_reported_once_and_no_process_is_left(
    live: Callable[..., LiveProject], own: Callable[..., OwnClient], kills: int
):
    project = live()
    project.app("work", WORK.format(seconds=2))
    batch = project.submit("work", *map(str, range(6)))
    client = own(ncpus=2)
    client.cli("attach", project.url, "--key", project.account("alice"))
    rng = random.Random(7)
    for _ in range(kills):
        time.sleep(rng.choice((0.0, 0.05, 0.3, 1.0, 2.5)) * rng.random())
        client.kill()
        client.start()
        client.update(project.url)
    project.wait_for_batch(batch, client, seconds=120)
    assert batch.status().n_success == 6
    assert project.value("SELECT COUNT(*) FROM result WHERE received_time IS NOT NULL") == 6
    client.stop()
    assert client.job_processes() == []


def test_its_log_of_inputs_gives_the_same_decisions_again(
    live: Callable[..., LiveProject], own: Callable[..., OwnClient]
):
    project = live()
    project.app("work", WORK.format(seconds=1))
    batch = project.submit("work", "1", "2", "3")
    client = own(ncpus=2)
    client.cli("attach", project.url, "--key", project.account("alice"))
    project.wait_for_batch(batch, client)
    client.stop()
    state = ClientDatabase(client.folder)
    entries, seed = list(state.events()), state.note("seed", int)
    state.close()
    assert seed is not None
    assert len(entries) > 10
    for told in play(fresh_core("recent", seed=seed), entries):
        assert told.recorded is not None
        assert not told.differs


GARBAGE = (
    b"GET / HTTP/1.0\r\n\r\n\x03" + bytes(range(256)) * 50,
    b"<boinc_gui_rpc_request>" * 1000 + b"\x03",
    b"<boinc_gui_rpc_request>\n<get_state/>\n</boinc_gui_rpc_request>\n" * 20,
    b"\x03" * 5000,
    b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>\x03",
    b"\xff\xfe\x00" * 3000,
)


def test_its_status_says_of_every_bound_of_a_job_who_keeps_it(own: Callable[..., OwnClient]):
    client, end = own(), time.monotonic() + 30
    while not (found := client.ask("status"))[
        "bounds"
    ]:  # it answers before it has tried what the system enforces
        assert time.monotonic() < end
        time.sleep(0.1)
    held = {each["bound"]: each["held_by"] for each in found["bounds"]}
    assert held["number of processes and threads"] == held["size of single files, core dumps"] == "system"
    remarks = [each["remark"] for each in found["bounds"] if each["remark"]]
    assert remarks
    assert set(remarks) <= set(found["sandbox"])


def test_garbage_and_crowds_on_its_port_do_not_disturb_it(own: Callable[..., OwnClient]):
    client = own()
    rng = random.Random(3)
    for wave in range(20):  # 10,000 connections in all, 500 at once
        crowd = [socket.create_connection(("127.0.0.1", client.port), timeout=10) for _ in range(500)]
        for peer in crowd[:: 10 + wave]:
            with contextlib.suppress(OSError):
                peer.sendall(rng.choice(GARBAGE))
        for peer in crowd:
            peer.close()

    def serves() -> bool:
        with Peer(client.port) as friend:
            return "<client_state>" in friend.ask("<get_state/>")

    end = time.monotonic() + 30
    while not serves():  # while the crowd is let go, newcomers are sent away
        assert time.monotonic() < end
        time.sleep(0.2)
    with Peer(client.port) as stranger:
        assert "unauthorized" in stranger.ask("<quit/>")
        assert "unauthorized" in stranger.ask("<quit/>")
        assert stranger.ask("<get_state/>") == ""
    assert client.ask("status")["projects"] == 0


def test_a_second_client_stays_out_of_the_directory(own: Callable[..., OwnClient]):
    client = own()
    refused = subprocess.run(
        [sys.executable, "-m", "cobblestone", "client", "run", str(client.folder), "--gui-port", "0"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert refused.returncode == 1
    assert "Another client is using" in refused.stderr


def test_a_damaged_state_file_is_refused_in_words(tmp_path: Path):
    (tmp_path / "cobblestone_client.sqlite").write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreError, match=r"cannot be opened.* It is damaged: move it away"):
        ClientDatabase(tmp_path)


def test_a_file_that_is_kept_for_further_jobs_is_listed_asked_about_and_proven(
    live: Callable[..., LiveProject], own: Callable[..., OwnClient]
):
    project = live(settings={"storage": "true"})
    project.app("work", WORK.format(seconds=1))
    project.cli("app", "dispatch", "work", "--locality", "--project", str(project.folder))
    batch = project.submit("work", "1")
    client = own()
    client.cli("attach", project.url, "--key", project.account("alice"))
    project.wait_for_batch(batch, client)

    def proven() -> bool:
        client.boinccmd("--project", project.url, "update")
        time.sleep(1.0)
        return bool(project.value("SELECT proven FROM host_storage"))

    project.wait(proven, client, seconds=120, what="a right answer")
    assert project.value("SELECT nbytes FROM host_storage") == 1
