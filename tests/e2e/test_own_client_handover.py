"""From the stock client to ours and back: projects, jobs, account and preferences go on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from tests.e2e.conftest import LiveProject
from tests.helpers.gui_rpc_peer import Peer
from tests.helpers.own_client import PREFERENCES, OwnClient

from cobblestone.demo.stock_client import StockClient

WORK = """
import sys, time
end = time.process_time() + 12
while time.process_time() < end:
    pass
open(sys.argv[2], "w").write("done")
"""


def test_a_job_of_the_stock_client_is_finished_by_ours(live: Callable[..., LiveProject]):
    project = live()
    project.app("work", WORK)
    batch = project.submit("work", "1")
    stock = project.volunteer("alice")
    project.wait(
        lambda: any(t.active_task_state == "EXECUTING" for t in stock.tasks()),
        stock,
        seconds=60,
        what="a running task",
    )
    name = stock.tasks()[0].name
    stock.stop()
    client = OwnClient(stock.folder)
    found = client.cli_alone("adopt")
    assert found == {"projects": 1, "jobs": 1, "in_progress": 1, "files": 5}
    with contextlib.ExitStack() as stack:
        stack.callback(client.stop)
        client.start()
        (task,) = client.ask("tasks")
        assert (task["name"], task["slot"]) == (name, 0)
        project.wait_for_batch(batch, client, seconds=120)
        assert batch.status().n_success == 1
        (row,) = client.ask("projects")
        assert row["user"] == "Alice"


def test_a_job_of_ours_is_finished_by_the_stock_client_with_the_same_preferences(
    live: Callable[..., LiveProject], tmp_path: Path
):
    project = live()
    project.app("work", WORK)
    batch = project.submit("work", "1", "2")
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
