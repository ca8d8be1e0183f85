"""A job that makes progress on Debian's client but will be late keeps its place."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.conftest import LiveProject

STEADY = """\
import sys, time
import cobblestone_runtime
for step in range(100):
    cobblestone_runtime.progress(step / 100)
    time.sleep(1)
open(sys.argv[2], "w").write("done")
"""


def test_the_deadline_of_a_job_that_makes_progress_is_extended_as_its_client_tells(
    live: Callable[..., LiveProject],
):
    project = live()
    project.app("steady", STEADY, "--delay-bound", "60s", "--flops-est", "1e11")
    batch = project.submit("steady", "1")
    client = project.volunteer("alice")
    project.wait(lambda: bool(client.tasks()), client, seconds=90, what="the job")
    sent, deadline = project.query("SELECT sent_time, report_deadline FROM result")[0]
    assert deadline - sent == 60
    project.wait_for_batch(batch, client, seconds=240)
    (result,) = project.query(
        "SELECT report_deadline - sent_time, received_time - sent_time, outcome FROM result"
    )
    allowed, took, outcome = result  # one result: nobody else was given the job
    assert took > 100
    assert took <= allowed <= 180
    assert outcome == 1
