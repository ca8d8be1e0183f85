"""A job that uploads an output while it runs, whichever client runs it."""

from __future__ import annotations

from typing import Protocol

from tests.e2e.conftest import LiveProject, Volunteer

from cobblestone.sdk.api.batch import Batch

PROGRAM = """
import sys, time
import cobblestone_runtime as runtime
if not runtime.uploaded("half.txt"):
    open("half.txt", "w").write("half of " + open(sys.argv[1]).read())
    runtime.upload_now("half.txt")
end = time.time() + 100
heard = []
while time.time() < end and not (heard and runtime.uploaded("half.txt")):
    heard += runtime.receive_trickles()
    time.sleep(0.1)
open(sys.argv[2], "w").write("%s %s" % (heard, runtime.uploaded("half.txt")))
"""


class Killable(Volunteer, Protocol):
    def kill(self) -> None: ...

    def start(self) -> None: ...


def early_batch(project: LiveProject) -> Batch:
    project.app("early", PROGRAM, "--output", "answer.txt", "--output", "half.txt")
    return project.submit("early", "x")


def check_early_upload(project: LiveProject, batch: Batch, client: Killable) -> None:
    """Kill the client as soon as the server has the file; the program is told all the same, and the job ends well."""
    project.wait(lambda: bool(list(batch.so_far())), client, seconds=90, what="the output")
    client.kill()
    (running,) = batch.so_far()
    assert dict(running.outputs) == {"half.txt": b"half of x"}
    assert running.text("half.txt") == "half of x"
    assert not running.succeeded
    name = project.value("SELECT name FROM result")
    project.cli("trickle", "send", name, "go on", "--project", str(project.folder))
    client.start()
    project.wait_for_batch(batch, client)
    (result,) = batch.results(timeout=60)
    assert (result.text("half.txt"), result.text("answer.txt")) == ("half of x", "['go on'] True")
    assert list(batch.so_far()) == []
    assert project.query("SELECT outcome, validate_state FROM result") == [(1, 1)]
