"""What goes wrong on volunteers' machines and on the way, with the stock client."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from tests.e2e.conftest import LiveProject
from tests.helpers.faulty_proxy import Fault

COPY = "import sys\nopen(sys.argv[2], 'w').write(open(sys.argv[1]).read())\n"


@pytest.mark.parametrize(
    ("program", "options", "exit_status", "words"),
    [
        ("import sys\nprint('no luck', file=sys.stderr)\nsys.exit(1)\n", (), 1, "no luck"),
        ("pass\n", (), None, "output"),
        ("import sys\nopen(sys.argv[2], 'w').write('x' * 2000)\n", ("--max-output", "1000"), None, ""),
    ],
    ids=["exits with 1", "missing output", "output too large"],
)
def test_a_failing_program_is_an_error_with_its_reason(
    live: Callable[..., LiveProject],
    program: str,
    options: tuple[str, ...],
    exit_status: int | None,
    words: str,
):
    project = live()
    project.app("bad", program, *options)
    project.submit("bad", "x")
    client = project.volunteer("alice")
    project.wait_for_report(client)
    name, status, outcome = project.query(
        "SELECT name, exit_status, outcome FROM result WHERE received_time IS NOT NULL"
    )[0]
    assert outcome == 3
    if exit_status is not None:
        assert status == exit_status
    import zlib

    stderr = project.value("SELECT stderr FROM result_text")
    text = zlib.decompress(stderr).decode() if stderr else ""
    assert words in text + str(project.report_of(name))
    assert project.value("SELECT COUNT(*) FROM credit_entry") == 0


def test_a_lost_reply_is_made_good(live: Callable[..., LiveProject]):
    project = live(behind_proxy=True)
    project.app("copy", COPY)
    assert project.proxy is not None
    client = project.volunteer("alice")
    project.wait(
        lambda: project.value("SELECT COUNT(*) FROM host") == 1, client, seconds=60, what="attachment"
    )
    # the next replies that carry work are lost: curl itself repeats a request once
    project.proxy.faults.append(Fault(b"POST /cgi-bin/cgi", times=2, swallow_reply=True))
    batch = project.submit("copy", "hello")
    project.wait_for_batch(batch, client)
    assert project.proxy.faults[0].hits == 2
    (result,) = batch.results(timeout=60)
    assert result.text() == "hello"
    assert project.value("SELECT COUNT(*) FROM result") == 1


def test_an_interrupted_upload_is_resumed(live: Callable[..., LiveProject]):
    project = live(behind_proxy=True)
    project.app("big", "import sys\nopen(sys.argv[2], 'w').write('0123456789' * 300_000)\n")
    assert project.proxy is not None
    fault = Fault(b"<file_upload>", cut_request_after=1_000_000)
    project.proxy.faults.append(fault)
    batch = project.submit("big", "x")
    client = project.volunteer("alice")
    project.wait_for_batch(batch, client)
    assert fault.hits == 1
    (result,) = batch.results(timeout=60)
    assert result.bytes() == b"0123456789" * 300_000


def test_a_refused_upload_ends_as_an_error_and_not_as_a_success(live: Callable[..., LiveProject]):
    project = live(settings={"max_upload_bytes": "100_000"})
    project.app("big", "import sys\nopen(sys.argv[2], 'w').write('x' * 200_000)\n")
    project.submit("big", "x")
    client = project.volunteer("alice")
    project.wait_for_report(client)
    assert project.query("SELECT outcome, exit_status FROM result WHERE received_time IS NOT NULL") == [
        (3, 0)
    ]


def test_a_client_whose_state_was_wiped_keeps_its_host_and_its_jobs_are_done_again(
    live: Callable[..., LiveProject],
):
    project = live()
    project.app(
        "sleepy", "import sys, time\ntime.sleep(float(open(sys.argv[1]).read()))\nopen(sys.argv[2], 'w')\n"
    )
    batch = project.submit("sleepy", "20")
    key = project.account("alice")
    client = project.volunteer("alice", authenticator=key)
    project.wait(
        lambda: any(task.active_task_state == "EXECUTING" for task in client.tasks()),
        client,
        seconds=90,
        what="a task",
    )
    client.stop()
    for path in client.folder.iterdir():
        if path.name not in ("cc_config.xml", "global_prefs_override.xml", "client.log"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    client.start()
    client.attach(project.url, key)
    project.wait(
        lambda: project.value("SELECT COUNT(*) FROM result WHERE outcome = 7") == 1,
        client,
        seconds=60,
        what="the detachment",
    )
    assert project.value("SELECT COUNT(*) FROM host") == 1
    other = project.volunteer("bob")
    project.wait_for_batch(batch, other, client)
