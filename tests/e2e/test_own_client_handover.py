"""From the stock client to ours and back: projects, jobs, account and preferences go on."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.conftest import LiveProject
from tests.e2e.test_launcher import COUNTER
from tests.helpers.gui_rpc_peer import Peer
from tests.helpers.own_client import PREFERENCES, OwnClient
from tests.helpers.stock_client import StockClient

from cobblestone.client.records.handover import adopt
from cobblestone.domain.errors import Busy, ConfigError, Conflict

STATE = "slots/0/boinc_task_state.xml"  #: written at each checkpoint, by both clients


def starts(project: LiveProject) -> list[int]:
    """Where the job that was started most often began, each time."""
    texts = [
        zlib.decompress(row[0]).decode()
        for row in project.query("SELECT stderr FROM result_text WHERE stderr IS NOT NULL")
    ]
    found = [
        [int(line.rpartition(" ")[2]) for line in text.splitlines() if "start at" in line] for text in texts
    ]
    return max(found, key=len)


def test_a_job_of_the_stock_client_is_finished_by_ours(live: Callable[..., LiveProject]):
    project = live()
    project.app("counter", COUNTER)
    batch = project.submit("counter", "90")
    stock = project.volunteer("alice")
    project.wait(
        lambda: any(task.checkpoint_cpu_time > 0.3 for task in stock.tasks()),
        stock,
        seconds=90,
        what="a checkpoint",
    )
    (task,) = stock.tasks()
    name, saved = task.name, task.checkpoint_cpu_time
    with pytest.raises(Busy, match="A BOINC client is running"):  # several are allowed: it has locked nothing
        adopt(stock.folder)
    stock.stop()
    client = OwnClient(stock.folder)
    found = client.cli_alone("adopt")
    with pytest.raises(Conflict, match="already used by this client"):
        adopt(stock.folder)
    assert found == {"projects": 1, "jobs": 1, "in_progress": 1, "files": 5}
    with contextlib.ExitStack() as stack:
        stack.callback(client.stop)
        client.start()
        (task,) = client.ask("tasks")
        assert (task["name"], task["slot"]) == (name, 0)
        client.wait_for(
            lambda: client.ask("tasks")[0]["state"] == "running", seconds=60, what="the job to go on"
        )
        (task,) = client.ask("tasks")
        assert task["cpu_time"] >= saved
        assert task["elapsed"] >= saved
        assert task["fraction_done"] > 0
        project.wait_for_batch(batch, client, seconds=120)
        assert batch.status().n_success == 1
        (row,) = client.ask("projects")
        assert row["user"] == "Alice"
    first, second = starts(project)
    assert first == 0
    assert second > 0, "not from the beginning"
    assert project.value("SELECT MIN(cpu_time) FROM result") > saved


def test_a_folder_without_a_readable_state_is_refused_in_words(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"taken over: it holds no client_state\.xml"):
        adopt(tmp_path)
    (tmp_path / "client_state.xml").mkdir()
    with pytest.raises(ConfigError, match=r"taken over: client_state.xml: Is a directory\."):
        adopt(tmp_path)
    assert not (tmp_path / "cobblestone_client.sqlite").exists()


def test_a_job_of_ours_is_finished_by_the_stock_client_with_the_same_preferences(
    live: Callable[..., LiveProject], tmp_path: Path
):
    project = live()
    project.app("counter", COUNTER)
    batch = project.submit("counter", "70", "3")
    client, target = OwnClient(tmp_path / "own"), tmp_path / "exported"
    wishes = PREFERENCES.replace(
        "<work_buf_min_days>0.01", "<idle_time_to_run>37</idle_time_to_run><work_buf_min_days>0.2"
    )
    (client.folder / "global_prefs_override.xml").write_text(wishes)
    with contextlib.ExitStack() as stack:
        stack.callback(client.stop)
        client.start()
        client.cli("attach", project.url, "--key", project.account("alice"))
        project.wait(
            lambda: {task["state"] for task in client.ask("tasks")} == {"running", "waiting"},
            client,
            seconds=60,
            what="a running task, and one that waits",
        )
        assert "Another client is using" in client.cli("export", str(target), check=False).stderr
        assert not target.exists()
        client.wait_for((client.folder / STATE).exists, seconds=60, what="a checkpoint")
        names = {task["name"] for task in client.ask("tasks")}
        client.stop()
        client.cli("export", str(target))
        assert "not empty" in client.cli("export", str(target), check=False).stderr
        stock = StockClient(target)
        (target / "global_prefs_override.xml").write_text(wishes)  # as exported; the helper writes its own
        project.clients.append(stock)
        stock.start()
        assert {task.name for task in stock.tasks()} == names
        assert stock.project_status()["name"] == "E2E"
        with Peer(stock.port) as peer:
            peer.log_in(target)
            assert "<idle_time_to_run>37.0" in peer.ask("<get_global_prefs_working/>")
        project.wait_for_batch(batch, stock, seconds=120)
        assert batch.status().n_success == 2
        assert project.value("SELECT COUNT(*) FROM host") == 1
    first, second = starts(project)
    assert first == 0
    assert second > 0, "not from the beginning"
