"""From the stock client to ours: its projects, jobs and account go on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from tests.e2e.conftest import LiveProject
from tests.helpers.own_client import OwnClient

WORK = """
import sys, time
end = time.process_time() + 20
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
