"""The launcher obeys the client: progress, suspend, resume, quit, abort; the test plays the client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.launcher_slot import (
    CONTROL,
    HEARTBEAT,
    LAUNCHER_FILE,
    STATUS,
    Slot,
    is_gone,
    open_slot,
    process_state,
    until,
)

#: Runs for ever; writes its process id first.
FOREVER = """
import os, time
open("pid.tmp", "w").write(str(os.getpid()))
os.rename("pid.tmp", "pid")
"""
SLEEP = FOREVER + "while True: time.sleep(60)\n"
WORK = FOREVER + "while True: sum(range(1000))\n"
#: Has a child that leaves the process group and the session.
ESCAPE = (
    FOREVER
    + """
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    open("escaped.tmp", "w").write(str(os.getpid()))
    os.rename("escaped.tmp", "escaped")
    while True: sum(range(1000))
os.wait()
while True: time.sleep(60)
"""
)
#: Saves a state whenever it is time to.
CHECKPOINTS = (
    "import cobblestone_runtime as runtime\nruntime.time_to_checkpoint()\n"  # from here SIGTERM is heard
    + FOREVER
    + """
step = int(open("state").read()) if os.path.exists("state") else 0
while True:
    sum(range(100000))
    step += 1
    runtime.progress(min(step / 100000, 1))
    if runtime.time_to_checkpoint():
        with open("state.tmp", "w") as file:
            file.write(str(step))
        os.replace("state.tmp", "state")
        runtime.checkpoint()
"""
)


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[Slot]:
    with open_slot(tmp_path) as made:
        yield made


def test_reports_progress_and_cpu_time_while_the_command_runs(slot: Slot) -> None:
    slot.start("import cobblestone_runtime as r\nr.progress(0.375)\n" + WORK)
    figures = slot.status(lambda seen: seen["current_cpu_time"] > 1.0)
    assert figures["fraction_done"] == pytest.approx(0.375)
    assert figures["checkpoint_cpu_time"] == 0.0


def test_counts_the_cpu_time_of_a_grandchild_in_another_session(slot: Slot) -> None:
    slot.start(ESCAPE)
    assert slot.status(lambda seen: seen["current_cpu_time"] > 1.0)


def test_continues_counting_from_the_cpu_time_that_the_client_knows(slot: Slot) -> None:
    slot.write_init_data(cpu_time=5000.0)
    slot.start(SLEEP)
    figures = slot.status()
    assert figures["checkpoint_cpu_time"] == 5000.0
    assert 5000.0 <= figures["current_cpu_time"] < 5010.0


def test_suspends_and_resumes_all_processes_of_the_job(slot: Slot) -> None:
    slot.start(ESCAPE)
    pids = [slot.pid(), slot.pid("escaped")]
    slot.send(CONTROL, "<suspend/>")
    until(lambda: all(process_state(pid) == "T" for pid in pids))
    slot.send(CONTROL, "<resume/>")
    until(lambda: all(process_state(pid) in "RS" for pid in pids))


def test_sends_no_status_while_suspended(slot: Slot) -> None:
    slot.start(WORK, change="r.STATUS_SECONDS = 0.01")
    pid = slot.pid()
    slot.send(CONTROL, "<suspend/>")
    until(lambda: process_state(pid) == "T")
    slot.receive(STATUS)  # the one from the moment of suspension
    for _ in range(3):  # each takes the launcher one round of its loop to read
        slot.send(CONTROL, "<reread_app_info/>")
    assert slot.receive(STATUS) == ""
    slot.send(CONTROL, "<resume/>")
    assert slot.status()


@pytest.mark.parametrize("suspended", [False, True])
def test_quit_stops_the_command_and_asks_to_be_continued(slot: Slot, suspended: bool) -> None:
    slot.start(SLEEP)
    pid = slot.pid()
    if suspended:
        slot.send(CONTROL, "<suspend/>")
        until(lambda: process_state(pid) == "T")
    slot.send(CONTROL, "<quit/>")
    assert slot.wait() == 0
    assert is_gone(pid)
    assert not slot.exists("boinc_finish_called")


def test_quit_kills_a_command_that_ignores_sigterm(slot: Slot) -> None:
    slot.start("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEP, quit_grace_seconds=0)
    pid = slot.pid()
    slot.send(CONTROL, "<quit/>")
    assert slot.wait() == 0
    assert is_gone(pid)


def test_a_command_that_was_given_a_gpu_has_less_time_to_leave(slot: Slot) -> None:
    text = (slot.folder / "init_data.xml").read_text()
    slot.write(
        "init_data.xml", text.replace("<app_init_data>", "<app_init_data>\n<gpu_type>NVIDIA</gpu_type>")
    )
    slot.start(
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEP, quit_grace_seconds=30
    )
    slot.pid()
    began = time.monotonic()
    slot.send(CONTROL, "<quit/>")
    assert slot.wait() == 0
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize("suspended", [False, True])
def test_abort_kills_the_whole_tree(slot: Slot, suspended: bool) -> None:
    slot.start(ESCAPE)
    pids = [slot.pid(), slot.pid("escaped")]
    if suspended:
        slot.send(CONTROL, "<suspend/>")
        until(lambda: all(process_state(pid) == "T" for pid in pids))
    slot.send(CONTROL, "<abort/>")
    assert slot.wait() == 194
    assert all(is_gone(pid) for pid in pids)


def test_messages_of_the_client_are_taken_at_once(slot: Slot) -> None:
    slot.start(SLEEP)
    slot.send(HEARTBEAT, "<heartbeat/><wss>0.0</wss>")
    until(lambda: slot.memory[1024 * HEARTBEAT] == 0)


def test_a_checkpoint_is_reported_with_its_cpu_time(slot: Slot) -> None:
    slot.write_init_data(checkpoint_period=0.1)
    slot.start(CHECKPOINTS)
    first = slot.status(lambda seen: seen["checkpoint_cpu_time"] > 0)
    assert slot.exists("state")
    assert first["checkpoint_cpu_time"] <= first["current_cpu_time"]
    later = slot.status(lambda seen: seen["checkpoint_cpu_time"] > first["checkpoint_cpu_time"])
    assert later["fraction_done"] > 0


def test_quit_brings_a_last_checkpoint_and_the_next_start_continues_from_it(slot: Slot) -> None:
    slot.write_init_data(checkpoint_period=3600)
    slot.start(CHECKPOINTS)
    used = slot.status(lambda seen: seen["current_cpu_time"] > 0.5 and seen["fraction_done"] > 0)
    assert not slot.exists("state")
    slot.send(CONTROL, "<quit/>")
    assert slot.wait() == 0
    saved = int(slot.read("state"))
    assert saved > 0
    last = slot.status()
    assert last["checkpoint_cpu_time"] >= used["current_cpu_time"]

    (slot.folder / "pid").unlink()
    slot.write_init_data(checkpoint_period=3600)  # a client that was shut down has not read the last figures
    slot.start(CHECKPOINTS)
    again = slot.status()
    assert again["checkpoint_cpu_time"] == pytest.approx(last["checkpoint_cpu_time"], rel=1e-5)
    slot.pid()
    slot.send(CONTROL, "<quit/>")
    assert slot.wait() == 0
    assert int(slot.read("state")) > saved


def test_changed_preferences_reach_the_command(slot: Slot) -> None:
    slot.write_init_data(checkpoint_period=3600)
    slot.start(CHECKPOINTS)
    slot.pid()
    slot.write_init_data(checkpoint_period=0.1)
    slot.send(CONTROL, "<reread_app_info/>")
    until(lambda: slot.exists("state"))


def test_sigterm_to_the_launcher_stops_the_command(slot: Slot) -> None:
    process = slot.start(SLEEP)
    pid = slot.pid()
    process.send_signal(signal.SIGTERM)
    assert slot.wait() == 0
    assert is_gone(pid)
    assert not slot.exists("boinc_finish_called")


def test_stops_when_the_client_has_died(slot: Slot) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as client:
        slot.write_init_data(client_pid=client.pid)
        slot.start(SLEEP)
        pid = slot.pid()
        client.kill()
        client.wait()
        assert slot.wait() == 0
    assert is_gone(pid)
    assert "the client has ended" in slot.read("stderr.txt")


def test_stops_when_a_program_between_client_and_launcher_has_died(slot: Slot) -> None:
    words = (sys.executable, "-I", str(LAUNCHER_FILE))
    slot.start(SLEEP, launcher=("/bin/sh", "-c", '"$@" & wait', "wrapper", *words))
    pid = slot.pid()
    launcher = int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
    assert slot.process is not None
    slot.process.kill()
    slot.wait()
    until(lambda: is_gone(launcher))
    assert is_gone(pid)


def test_kills_what_a_killed_launcher_left_behind_before_it_starts_again(slot: Slot) -> None:
    process = slot.start(ESCAPE)
    old = [slot.pid(), slot.pid("escaped")]
    process.kill()
    slot.wait()
    assert not any(is_gone(pid) for pid in old)
    for name in ("pid", "escaped"):
        (slot.folder / name).unlink()
    slot.start(SLEEP)
    slot.pid()
    assert all(is_gone(pid) for pid in old)


def test_a_second_launcher_in_the_slot_waits_and_then_postpones_the_job(slot: Slot, tmp_path: Path) -> None:
    first = slot.start(SLEEP)
    pid = slot.pid()
    assert slot.run(SLEEP, change="r.LOCK_WAIT_SECONDS = 0.3") == 0
    assert slot.read("boinc_temporary_exit").split("\n")[0] == "60"
    assert "another process works in this slot" in slot.read("stderr.txt")
    assert process_state(pid) in "RS"
    first.terminate()
    assert first.wait(timeout=60) == 0


def test_a_second_launcher_takes_over_when_the_first_has_ended(slot: Slot) -> None:
    first = slot.start(SLEEP)
    old = slot.pid()
    (slot.folder / "pid").unlink()
    slot.start(SLEEP)
    os.kill(first.pid, signal.SIGTERM)
    assert first.wait(timeout=60) == 0
    assert slot.pid() != old


def test_runs_without_control_when_there_is_no_segment(slot: Slot) -> None:
    (slot.folder / "boinc_mmap_file").unlink()
    assert slot.run("print(1)") == 0
    assert slot.read("boinc_finish_called") == "0\n"
