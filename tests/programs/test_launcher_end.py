"""How a job ends under the launcher: outputs, exit status, signals, error output, bounds, trickles."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.launcher_slot import (
    LAUNCHER_FILE,
    TRICKLE_DOWN,
    TRICKLE_UP,
    Slot,
    is_gone,
    open_slot,
    process_state,
    until,
)

COPY = "import sys\nopen(sys.argv[2], 'w').write(open(sys.argv[1]).read().upper())\n"
IN_OUT = ["python3", "program.py", "{input}", "{output}"]
OPTIONS = ["--input", "main=in.txt", "--output", "main=out.txt"]
NOTE_PID = """
import os, time
open("pid.tmp", "w").write(str(os.getpid()))
os.rename("pid.tmp", "pid")
"""
FOREVER = NOTE_PID + "while True: time.sleep(60)"


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[Slot]:
    with open_slot(tmp_path) as made:
        yield made


def test_success_writes_the_output_and_the_finish_file(slot: Slot) -> None:
    slot.write("in.txt", "abc")
    assert slot.run(COPY, OPTIONS, command=IN_OUT) == 0
    assert slot.read("out.txt") == "ABC"
    assert slot.read("boinc_finish_called") == "0\n"
    assert not slot.exists("boinc_temporary_exit")


def test_the_session_of_a_program_is_as_nice_as_the_launcher(slot: Slot) -> None:
    niceness = str(min(19, os.nice(0) + 7))  # "nice" adds to its own, and the tests may run under it already
    program = """
import os, sys, time
for _ in range(50):
    told = sys.argv[3]
    if os.path.exists("/proc/self/autogroup"):  # as on most kernels
        told = open("/proc/self/autogroup").read()
    if told.split()[-1] == sys.argv[3]:
        break
    time.sleep(0.1)
open(sys.argv[2], "w").write(told)
"""
    slot.write("in.txt", "")
    launcher = ["nice", "-n", "7", sys.executable, str(LAUNCHER_FILE)]
    assert slot.run(program, OPTIONS, command=[*IN_OUT, niceness], launcher=launcher) == 0
    assert slot.read("out.txt").split()[-1] == niceness


def test_starts_as_a_shell_script_with_any_python_on_the_path(slot: Slot) -> None:
    copy = slot.folder / "main_program"
    copy.write_bytes(LAUNCHER_FILE.read_bytes())
    copy.chmod(0o755)
    slot.write("in.txt", "abc")
    assert slot.run(COPY, OPTIONS, command=IN_OUT, launcher=["./main_program"]) == 0
    assert slot.read("out.txt") == "ABC"


def test_says_so_when_the_computer_has_no_python(slot: Slot) -> None:
    launcher = ["/usr/bin/env", "PATH=/nonexistent", "/bin/sh", str(LAUNCHER_FILE)]
    assert slot.run(COPY, launcher=launcher) == 195
    assert "no Python 3.6 or newer" in slot.read("stderr.txt")


def test_last_figures_are_sent_even_when_the_message_before_was_not_read(slot: Slot) -> None:
    program = "import cobblestone_runtime as r\nr.progress(1)\nwhile r.time.process_time() < 0.3: pass\n"
    assert slot.run(program) == 0  # nobody has read the first message
    figures = slot.status()
    assert figures["fraction_done"] == 1.0
    assert figures["current_cpu_time"] >= 0.3


def test_exit_status_of_the_command_is_passed_on(slot: Slot) -> None:
    assert slot.run("import sys\nsys.exit(7)") == 7
    assert not slot.exists("boinc_finish_called")
    assert "the command ended with exit status 7" in slot.read("stderr.txt")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGFPE"])
def test_a_signal_of_the_command_becomes_128_plus_its_number(slot: Slot, name: str) -> None:
    number = signal.Signals[name]
    no_core_file = "import os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
    program = f"{no_core_file}os.kill(os.getpid(), {number:d})"
    assert slot.run(program) == 128 + number
    assert f"ended by signal {number:d} ({name})" in slot.read("stderr.txt")


def test_a_command_killed_from_outside_is_started_again_three_times(slot: Slot) -> None:
    program = "import os\nos.kill(os.getpid(), 9)"
    assert [slot.run(program) for _ in range(4)] == [0, 0, 0, 137]
    assert not slot.exists("boinc_finish_called")
    assert "ended by signal 9 (SIGKILL)" in slot.read("stderr.txt")


def test_a_checkpoint_between_two_kills_starts_the_count_again(slot: Slot) -> None:
    program = "import os, cobblestone_runtime\ncobblestone_runtime.checkpoint()\nos.kill(os.getpid(), 15)"
    assert [slot.run(program) for _ in range(5)] == [0, 0, 0, 0, 0]


def test_a_missing_output_is_named(slot: Slot) -> None:
    slot.write("in.txt", "abc")
    assert slot.run("pass", OPTIONS, command=IN_OUT) == 208
    assert "did not write its output main (out.txt)" in slot.read("stderr.txt")
    assert not slot.exists("boinc_finish_called")


def test_an_optional_output_may_be_missing(slot: Slot) -> None:
    assert slot.run("pass", ["--output", "log=log.txt"], optional_outputs=["log"]) == 0


def test_standard_output_can_be_an_output_file(slot: Slot) -> None:
    options = ["--output", "main=deep/out.txt"]
    assert slot.run("print('hello')", options, stdout="{output:main}") == 0
    assert slot.read("deep/out.txt") == "hello\n"


def test_standard_output_goes_to_a_file_otherwise(slot: Slot) -> None:
    assert slot.run("print('hello')") == 0
    assert slot.read("stdout.txt") == "hello\n"


def test_error_output_is_cleaned_and_the_launchers_own_sentence_follows(slot: Slot) -> None:
    program = r"import sys; sys.stderr.buffer.write(b'caf\xc3\xa9 \0 x ]]> y'); sys.exit(3)"
    assert slot.run(program) == 3
    assert (slot.folder / "stderr.txt").read_bytes() == (
        b"caf\xc3\xa9  x ]] > y\ncobblestone: the command ended with exit status 3\n"
    )


def test_only_the_end_of_long_error_output_is_handed_over(slot: Slot) -> None:
    assert slot.run("import sys\nfor n in range(100000): print(n, file=sys.stderr)") == 0
    text = slot.read("stderr.txt")
    assert text.endswith("\n99999\n")
    assert len(text) < 61_000


def test_error_output_of_a_killed_launcher_is_not_lost(slot: Slot) -> None:
    process = slot.start("import sys\nprint('first words', file=sys.stderr, flush=True)\n" + FOREVER)
    slot.pid()
    process.kill()
    process.wait()
    assert slot.run("pass") == 0
    assert slot.read("stderr.txt") == "first words\n"


def test_the_users_key_is_nowhere_but_in_the_clients_own_file(slot: Slot) -> None:
    assert slot.run("import cobblestone_runtime as r\nprint(r.job_info())") == 0
    files = [path for path in slot.folder.rglob("*") if path.is_file()]
    holders = [path.name for path in files if b"secret-of-the-user" in path.read_bytes()]
    assert holders == ["init_data.xml"]
    assert "'result_name': 'wu_1_0'" in slot.read("stdout.txt")


def test_processes_left_behind_by_the_command_are_killed(slot: Slot) -> None:
    program = """
import os, subprocess, sys
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
open("child", "w").write(str(child.pid))
os._exit(0)
"""
    assert slot.run(program) == 0
    assert is_gone(int(slot.read("child")))


def test_a_file_that_differs_from_the_signed_one_is_refused(slot: Slot) -> None:
    assert slot.run("print(1)", files={"program.py": "0" * 64}) == 206
    assert "program.py differs from the one that the project signed" in slot.read("stderr.txt")


def test_an_app_may_change_its_own_copy_of_a_file_and_be_continued(slot: Slot) -> None:
    program = "import os\nopen(__file__, 'a').write('#')\nif not os.path.exists('again'):\n    "
    program += "open('again', 'w')\n    os.kill(os.getpid(), 9)\n"
    files = {"program.py": hashlib.sha256(program.encode()).hexdigest()}
    slot.start(program, files=files)
    assert slot.wait() == 0
    assert not slot.exists("boinc_finish_called")
    assert slot.run(slot.read("program.py"), files=files) == 0
    assert slot.exists("boinc_finish_called")


def test_an_empty_description_of_the_client_is_not_taken_for_stand_alone(slot: Slot) -> None:
    slot.write("init_data.xml", "")
    assert slot.run("pass", ["--input", "a=/etc/passwd"]) == 206
    assert slot.run("pass") == 0
    assert slot.exists("boinc_finish_called")


def test_a_missing_file_of_the_app_is_named(slot: Slot) -> None:
    assert slot.run("print(1)", files={"tables.bin": None}) == 206
    assert "the app's file tables.bin is missing" in slot.read("stderr.txt")


def test_a_missing_app_description_is_named(slot: Slot) -> None:
    process = subprocess.run(
        [sys.executable, str(LAUNCHER_FILE)], cwd=slot.folder, capture_output=True, timeout=30
    )
    assert process.returncode == 206
    assert b"cobblestone_app.json is missing in the slot" in process.stderr


def test_a_command_that_does_not_exist_is_named(slot: Slot) -> None:
    assert slot.run("", command=["no-such-program"]) == 206
    assert "'no-such-program'" in slot.read("stderr.txt")


def test_a_native_program_in_the_slot_is_started_by_its_name(slot: Slot) -> None:
    slot.write("tool", "#!/bin/sh\necho from the tool\n")
    assert slot.run("", command=["tool"]) == 0
    assert slot.read("stdout.txt") == "from the tool\n"


def test_memory_bound_is_enforced_when_the_app_asks_for_it(slot: Slot) -> None:
    slot.write_init_data(memory_bound=60e6)
    too_much = NOTE_PID + "data = bytearray(b'x' * 90_000_000)\nwhile True: time.sleep(60)"
    assert slot.run(too_much, enforce_memory=True) == 198
    assert is_gone(slot.pid())
    assert "its bound is 60 MB" in slot.read("stderr.txt")


def test_disk_bound_is_enforced_when_the_app_asks_for_it(slot: Slot) -> None:
    slot.write_init_data(disk_bound=2e6)
    program = "open('big', 'wb').write(bytes(3_000_000))\n" + FOREVER
    assert slot.run(program, enforce_disk=True, change="r.DISK_SECONDS = 0.2; r.STATUS_SECONDS = 0.2") == 196
    assert is_gone(slot.pid())


def test_bounds_are_the_clients_business_otherwise(slot: Slot) -> None:
    slot.write_init_data(memory_bound=1e6, disk_bound=10)
    assert slot.run("print(1)", change="r.STATUS_SECONDS = 0.01") == 0


def test_trickles_up_go_to_the_client_one_at_a_time(slot: Slot) -> None:
    program = "import cobblestone_runtime as r\nfor n in range(3): r.trickle('step', 'number %d' % n)\n"
    slot.start(program)
    seen: list[str] = []

    def take() -> bool:
        if slot.receive(TRICKLE_UP):
            seen.append(slot.read("trickle_up.xml"))
            (slot.folder / "trickle_up.xml").unlink()
        return len(seen) == 3

    until(take)
    assert slot.wait() == 0
    assert seen == [f"<variety>step</variety>\nnumber {n}\n" for n in range(3)]


def test_trickles_that_the_client_does_not_take_do_not_hold_up_the_end_for_ever(slot: Slot) -> None:
    program = "import cobblestone_runtime as r\nr.trickle('a', 'b')\nr.trickle('a', 'c')\n"
    assert slot.run(program, change="r.TRICKLE_WAIT_SECONDS = 0.3") == 0
    assert "1 trickles could not be handed" in slot.read("stderr.txt")


def test_trickles_down_reach_the_command_in_order(slot: Slot) -> None:
    program = """
import time, cobblestone_runtime as r
texts = []
while len(texts) < 2:
    texts += r.receive_trickles()
    time.sleep(0.01)
print(texts)
"""
    slot.start(program)
    until(lambda: slot.exists("cobblestone_job.json"))
    slot.write("trickle_down_100", "<text>\nfirst\n</text>\n")
    slot.write("trickle_down_200", "<text>second</text>")
    slot.send(TRICKLE_DOWN, "<have_trickle_down/>\n")
    assert slot.wait() == 0
    assert slot.read("stdout.txt") == "['first', 'second']\n"


def alone(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, str(LAUNCHER_FILE), *words]
    return subprocess.run(launcher, cwd=folder, capture_output=True, text=True, timeout=30)


def test_stand_alone_it_runs_the_described_command_and_leaves_the_folder_clean(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import cobblestone_runtime as r\nr.progress(1)\nr.trickle('v', 't')\n" + COPY
    )
    (tmp_path / "cobblestone_app.json").write_text(json.dumps({"command": IN_OUT}))
    (tmp_path / "in.txt").write_text("abc")
    done = alone(tmp_path, *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert "finished in" in done.stderr
    assert (tmp_path / "out.txt").read_text() == "ABC"
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"program.py", "cobblestone_app.json", "in.txt", "out.txt"}


def test_stand_alone_it_runs_a_command_given_after_two_dashes(tmp_path: Path) -> None:
    done = alone(tmp_path, "--", "python3", "-c", "import sys; print('{}', file=sys.stderr); sys.exit(4)")
    assert done.returncode == 4
    assert "{}" in done.stderr


def test_stand_alone_it_reports_a_killed_command_and_does_not_start_it_again(tmp_path: Path) -> None:
    done = alone(tmp_path, "--", "python3", "-c", "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == 137
    assert "ended by signal 9" in done.stderr


def test_stand_alone_ctrl_c_ends_the_command(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FOREVER)
    launcher = [sys.executable, str(LAUNCHER_FILE), "--", "python3", "program.py"]
    with subprocess.Popen(launcher, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        until((tmp_path / "pid").exists)
        pid = int((tmp_path / "pid").read_text())
        assert process_state(pid) != ""
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 130
    assert is_gone(pid)


SIGNALLED_AT_ONCE = """
import os, signal, subprocess, sys, cobblestone_runtime
class Started(subprocess.Popen):
    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        open("pid", "w").write(str(self.pid))
        os.kill(os.getpid(), signal.{name})
subprocess.Popen = Started
sys.exit(cobblestone_runtime.main(["--", "sleep", "60"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_moment_in_which_the_command_starts_ends_both(
    tmp_path: Path, number: signal.Signals
) -> None:
    program = [sys.executable, "-c", SIGNALLED_AT_ONCE.format(name=number.name)]
    folder = {"PYTHONPATH": str(LAUNCHER_FILE.parent)}
    done = subprocess.run(program, cwd=tmp_path, env=os.environ | folder, check=False, timeout=30)
    assert done.returncode == 128 + number
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_stand_alone_without_anything_to_run_says_what_to_do(tmp_path: Path) -> None:
    done = alone(tmp_path)
    assert done.returncode == 206
    assert "give a command after --" in done.stderr


def test_help_explains_the_file(tmp_path: Path) -> None:
    done = alone(tmp_path, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("\nRun a plain command as a job of the BOINC client")


EARLY = """
import time, cobblestone_runtime as r
open("half.txt", "w").write("half")
r.upload_now("half.txt")
while not r.uploaded("half.txt"):
    time.sleep(0.01)
r.upload_now("half.txt")
open("out.txt", "w").write("whole")
"""
EARLY_OPTIONS = ["--output", "half.txt=half.txt", "--output", "out.txt=out.txt"]


@pytest.fixture
def early_slot(slot: Slot, tmp_path: Path) -> Slot:
    """A slot of BOINC's client, which looks for outputs in the project's folder."""
    (tmp_path / "project").mkdir()
    text = slot.read("init_data.xml")
    slot.write(
        "init_data.xml",
        text.replace("<shm_key>", f"<project_dir>{tmp_path}/project</project_dir>\n<shm_key>"),
    )
    return slot


def take_request(slot: Slot) -> None:
    until(lambda: "<have_new_upload_file/>" in slot.receive(TRICKLE_UP))
    (slot.folder / "boinc_ufr_half.txt").unlink()


def test_an_output_is_handed_over_where_the_client_looks_while_the_command_goes_on(
    early_slot: Slot, tmp_path: Path
) -> None:
    early_slot.start(EARLY, EARLY_OPTIONS)
    take_request(early_slot)
    assert (tmp_path / "project" / "wu_1_0_0").read_text() == "half"
    assert not early_slot.exists("half.txt")
    early_slot.write("boinc_ufs_half.txt", "<status>0</status>\n")
    assert early_slot.wait() == 0, early_slot.read("stderr.txt")
    assert early_slot.read("out.txt") == "whole"
    assert early_slot.exists("boinc_finish_called"), "the uploaded output is not missed"


def test_after_a_kill_the_client_is_asked_again_unless_the_output_is_gone(
    early_slot: Slot, tmp_path: Path
) -> None:
    uploading = tmp_path / "project" / "wu_1_0_0"
    process = early_slot.start(EARLY, EARLY_OPTIONS)
    take_request(early_slot)
    process.kill()
    process.wait()
    process = early_slot.start("import time\ntime.sleep(60)\n", EARLY_OPTIONS)
    take_request(early_slot)
    assert uploading.read_text() == "half"
    process.kill()
    process.wait()
    uploading.unlink()  # uploaded, and the client was killed before it said so
    early_slot.start("open('out.txt', 'w').close()\nimport time\ntime.sleep(2)\n", EARLY_OPTIONS)
    assert early_slot.wait() == 0, early_slot.read("stderr.txt")
    assert early_slot.exists("cobblestone_uploaded_half.txt")


def test_where_the_project_has_no_folder_for_it_the_client_takes_the_output_from_the_slot(slot: Slot) -> None:
    slot.start(EARLY, EARLY_OPTIONS)
    take_request(slot)
    assert slot.read("half.txt") == "half"
    (slot.folder / "half.txt").unlink()
    slot.write("boinc_ufs_half.txt", "<status>0</status>\n")
    assert slot.wait() == 0, slot.read("stderr.txt")


def test_an_upload_of_what_is_no_output_is_refused_in_words(early_slot: Slot) -> None:
    program = """
import cobblestone_runtime as r, time
for name, error in (("../x", ValueError), ("", ValueError), ("missing", FileNotFoundError)):
    try:
        r.upload_now(name)
    except error:
        continue
    raise SystemExit(9)
open("other", "w").close()
r.upload_now("other")
open("half.txt", "w").close(); open("out.txt", "w").close()
time.sleep(2)
"""
    assert early_slot.run(program, EARLY_OPTIONS) == 0
    assert "'other' is no output of the job" in early_slot.read("stderr.txt")
    assert not early_slot.exists("boinc_ufr_other")


def test_a_link_in_the_place_of_an_output_hands_over_no_file_of_the_volunteer(
    early_slot: Slot, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("of the volunteer")
    program = f"""
import os, time, cobblestone_runtime as r
open("half.txt", "w").close()
os.symlink({str(tmp_path / "secret")!r}, "link")
r.upload_now("half.txt")
os.replace("link", "half.txt")
while os.path.exists("cobblestone_upload_half.txt"):
    time.sleep(0.01)
open("out.txt", "w").close()
"""
    assert early_slot.run(program, EARLY_OPTIONS) == 208
    assert "half.txt cannot be uploaded now" in early_slot.read("stderr.txt")
    assert not [*(tmp_path / "project").iterdir()]
    assert not early_slot.exists("boinc_ufr_half.txt")


def test_a_link_is_no_output_at_the_end_either(slot: Slot, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the volunteer")
    program = f"import os\nos.symlink({str(tmp_path / 'secret')!r}, 'out.txt')\n"
    assert slot.run(program, OPTIONS[2:]) == 208
    assert "did not write its output main (out.txt)" in slot.read("stderr.txt")


def test_links_in_the_place_of_output_and_error_output_lead_nowhere(slot: Slot, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the volunteer")
    program = f"""
import os, time
for name in ("stdout.txt", "command_stderr.txt"):
    os.symlink({str(tmp_path / "secret")!r}, "link")
    os.replace("link", name)
open("ready", "w").close()
time.sleep(60)
"""
    process = slot.start(program)
    until(lambda: slot.exists("ready"))
    process.kill()  # so that the next one finds the links
    process.wait()
    assert slot.run(program.replace("time.sleep(60)", "")) == 0
    assert "of the volunteer" not in slot.read("stderr.txt")
    assert not (slot.folder / "stdout.txt").is_symlink()
    assert (tmp_path / "secret").read_text() == "of the volunteer"


def test_nothing_is_written_through_a_link_that_the_command_leaves(slot: Slot, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the volunteer")
    program = f"""
import os
os.symlink({str(tmp_path / "secret")!r}, "boinc_finish_called.%d.tmp" % os.getppid())
open("out.txt", "w").close()
"""
    assert slot.run(program, OPTIONS[2:]) == 0
    assert slot.read("boinc_finish_called") == "0\n"
    assert (tmp_path / "secret").read_text() == "of the volunteer"


def test_stand_alone_an_output_that_is_to_be_uploaded_now_stays(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(EARLY)
    (tmp_path / "cobblestone_app.json").write_text(json.dumps({"command": ["python3", "program.py"]}))
    done = alone(tmp_path, *EARLY_OPTIONS)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "half.txt").read_text() == "half"
