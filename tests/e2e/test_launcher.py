"""A plain command as a good citizen of the stock client."""

from __future__ import annotations

import signal
from collections.abc import Callable

import psutil
import pytest
from tests.e2e.conftest import LiveProject
from tests.e2e.early_upload import check_early_upload, early_batch
from tests.helpers.eventually import eventually
from tests.helpers.stock_client import StockClient

from cobblestone.demo.stock_client import ClientTask

#: Counts to the number in its input, a tenth of a second each, most of it asleep; checkpoints; tells where it started.
COUNTER = """
import json, os, sys, time
import cobblestone_runtime as runtime
n = int(open(sys.argv[1]).read())
start = json.load(open("state.json")) if os.path.exists("state.json") else 0
print("start at", start, file=sys.stderr, flush=True)
for i in range(start, n):
    begin = time.process_time()
    while time.process_time() - begin < 0.01:
        pass
    time.sleep(0.09)
    runtime.progress((i + 1) / n)
    if runtime.time_to_checkpoint():
        with open("state.tmp", "w") as f:
            json.dump(i + 1, f)
        os.replace("state.tmp", "state.json")
        runtime.checkpoint()
open(sys.argv[2], "w").write(f"counted to {n}\\n")
"""


def the_task(client: StockClient) -> ClientTask:
    (task,) = client.tasks()
    return task


def children(client: StockClient) -> list[psutil.Process]:
    """Processes of the scientist's program."""
    assert client.process is not None
    return [
        process
        for process in psutil.Process(client.process.pid).children(recursive=True)
        if any("counter" in word and word.endswith(".py") for word in process.cmdline())
    ]


@pytest.fixture
def counting(live: Callable[..., LiveProject]) -> Callable[[int], tuple[LiveProject, StockClient]]:
    """A project whose only job counts; returns when it computes."""

    def make(n: int) -> tuple[LiveProject, StockClient]:
        project = live()
        project.app("counter", COUNTER)
        project.submit("counter", str(n))
        client = project.volunteer("alice")
        project.wait(
            lambda: any(task.fraction_done > 0 and children(client) for task in client.tasks()),
            client,
            seconds=90,
            what="a running job",
        )
        return project, client

    return make


def test_the_client_shows_the_true_fraction_done_and_suspend_really_stops_the_process(counting):
    project, client = counting(3000)
    first = the_task(client)
    client.wait_for(lambda: the_task(client).fraction_done > first.fraction_done, seconds=60, what="progress")
    assert first.fraction_done < 0.5, "the truth, not the client's guess from the estimate"
    (process,) = children(client)
    client.command("--task", project.url, first.name, "suspend")
    client.wait_for(lambda: process.status() == psutil.STATUS_STOPPED, seconds=60, what="the stop")
    stopped_at = the_task(client).fraction_done
    client.command("--task", project.url, first.name, "resume")
    client.wait_for(lambda: process.status() != psutil.STATUS_STOPPED, seconds=60, what="the continuation")
    client.wait_for(lambda: the_task(client).fraction_done > stopped_at, seconds=60, what="progress again")
    assert children(client) == [process], "it is the same process"


def test_an_abort_leaves_no_process_and_is_reported_as_the_users(counting):
    project, client = counting(3000)
    processes = children(client)
    client.command("--task", project.url, the_task(client).name, "abort")
    client.wait_for(lambda: not any(each.is_running() for each in processes), seconds=60, what="the end")
    project.wait_for_report(client)
    assert project.query("SELECT exit_status, outcome FROM result WHERE received_time IS NOT NULL") == [
        (203, 3)
    ]


def test_a_checkpointed_job_survives_a_restart_of_the_client(counting):
    project, client = counting(200)
    client.wait_for(lambda: the_task(client).checkpoint_cpu_time > 0.3, seconds=60, what="a checkpoint")
    client.stop()
    client.start()
    project.wait_for_report(client)
    assert project.query("SELECT outcome, cpu_time > 1.6 FROM result") == [(1, 1)]
    stderr = stderr_of(project)
    starts = [int(line.rpartition(" ")[2]) for line in stderr.splitlines() if "start at" in line]
    assert len(starts) == 2
    assert starts[0] == 0
    assert starts[1] > 0, "not from the beginning"


def test_a_killed_client_leaves_no_orphan_and_its_job_goes_on_later(counting):
    project, client = counting(150)
    client.wait_for(lambda: the_task(client).checkpoint_cpu_time > 0, seconds=60, what="a checkpoint")
    processes = children(client)
    client.kill()
    eventually(lambda: not any(each.is_running() for each in processes), seconds=60)
    client.start()
    project.wait_for_report(client)
    assert project.value("SELECT outcome FROM result") == 1


def test_trickles_go_up_and_down_while_a_job_runs(live: Callable[..., LiveProject]):
    project = live()
    project.app(
        "talker",
        "import sys, time\nimport cobblestone_runtime as runtime\n"
        "runtime.trickle('progress', '<half/>')\n"
        "end = time.time() + 100\nheard = []\n"
        "while time.time() < end and not heard:\n    heard = runtime.receive_trickles()\n    time.sleep(0.2)\n"
        "open(sys.argv[2], 'w').write(''.join(heard))\n",
    )
    batch = project.submit("talker", "x")
    client = project.volunteer("alice")
    project.wait(
        lambda: project.value("SELECT COUNT(*) FROM msg_from_host") == 1,
        client,
        seconds=90,
        what="the trickle",
    )
    assert project.query("SELECT variety, text FROM msg_from_host") == [("progress", "<half/>")]
    name = project.value("SELECT name FROM result")
    project.cli("trickle", "send", name, "<stop/>", "--project", str(project.folder))
    project.wait_for_batch(batch, client)
    (result,) = batch.results(timeout=60)
    assert "<stop/>" in result.text()


def test_an_output_is_uploaded_and_fetched_while_the_job_runs_and_its_client_is_killed(
    live: Callable[..., LiveProject],
):
    project = live()
    batch = early_batch(project)
    client = project.volunteer("alice")
    check_early_upload(project, batch, client)


def test_signals_of_the_program_are_told_apart(live: Callable[..., LiveProject]):
    project = live()
    project.app("crash", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    project.submit("crash", "x")
    client = project.volunteer("alice")
    project.wait_for_report(client)
    status = project.value("SELECT exit_status FROM result WHERE received_time IS NOT NULL")
    assert status in (signal.SIGSEGV, 128 + signal.SIGSEGV)


def stderr_of(project: LiveProject) -> str:
    import zlib

    return zlib.decompress(project.value("SELECT stderr FROM result_text")).decode()
