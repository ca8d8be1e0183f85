"""Jobs as real processes: what the client tells them, what they tell, and their ends; with and without bubblewrap."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.client_tasks import FAST, World, open_to_other_accounts, open_world, process_state

from cobblestone.client.sandbox import processes
from cobblestone.client.sandbox.processes import files_in_memory
from cobblestone.client.sandbox.sandbox import SandboxChoice
from cobblestone.client.tasks import task
from cobblestone.client.tasks.description import (
    Checkpointed,
    Ended,
    Notice,
    ProcessState,
    Started,
    TaskInput,
    TaskLimits,
    TaskOutput,
    TrickleUp,
    UploadWanted,
)
from cobblestone.client.tasks.task import Timing
from cobblestone.policy.client.host.tasks import Ending

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["always", "never"], ids=["bubblewrap", "no-sandbox"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    open_to_other_accounts(tmp_path)
    async with open_world(tmp_path / "Daten für Jürgen", bubblewrap=request.param) as found:
        yield found


async def test_a_job_reads_its_input_through_a_soft_link_and_its_output_arrives(world: World) -> None:
    (world.project_dir / "in_phys").write_text("21")
    spec = world.spec(
        """
        number = int(open(resolve("in")).read())
        with open(resolve("out"), "w") as file:
            file.write(str(2 * number))
        status(1.5, 1.0, 0.5)
        print("hällo", file=sys.stderr)
        finish()
        """,
        inputs=(TaskInput(open_name="in", physical_name="in_phys"),),
    )
    ended = await world.run(spec)
    assert ended.ending is Ending.FINISHED, (ended, ended.stderr)
    (output,) = ended.outputs
    assert output.path == world.project_dir / "job_1_0_r0"
    assert output.path.read_text() == "42"
    assert (output.nbytes, output.md5) == (2, hashlib.md5(b"42").hexdigest())
    assert output.path.owner() == "root" if os.geteuid() == 0 else True
    assert ended.cpu_time >= 1.5
    assert ended.stderr.decode().strip() == "hällo"
    assert not world.living()


async def test_copied_files_lie_in_the_slot_itself(world: World) -> None:
    (world.project_dir / "tool_phys").write_text("#!/bin/sh\necho made > sub/out\n")
    spec = world.spec(
        """
        os.makedirs("sub", exist_ok=True)
        os.system("./bin/tool")
        finish()
        """,
        inputs=(TaskInput(open_name="bin/tool", physical_name="tool_phys", copy=True, executable=True),),
        outputs=(TaskOutput(open_name="sub/out", physical_name="r0", copy=True),),
    )
    ended = await world.run(spec)
    assert ended.ending is Ending.FINISHED, (ended.text, ended.stderr)
    assert (world.project_dir / "r0").read_text() == "made\n"


async def test_the_same_job_continues_from_its_checkpoint_after_it_was_told_to_quit(world: World) -> None:
    program = """
        done = int(open("state").read()) if os.path.exists("state") else 0
        if done:
            open(resolve("out"), "w").write(re.search("<wu_cpu_time>(.*?)<", open("init_data.xml").read()).group(1))
            finish()
            sys.exit()
        open("state", "w").write("7")
        status(7.0, 7.0, 0.25)
        while "<quit/>" not in receive(0):
            time.sleep(0.01)
        """
    spec = world.spec(program)
    await world.runner.start(spec, 3)
    noted = await world.until(Checkpointed)
    assert (noted.cpu_time, noted.fraction_done) == (7.0, 0.25)
    world.runner.quit(spec.name)
    assert (await world.until(Ended)).ending is Ending.STOPPED
    world.events.clear()
    ended = await world.run(spec, 3)
    assert ended.ending is Ending.FINISHED, (ended.text, ended.stderr)
    assert world.events[0] == Started(spec.name, 3, world.events[0].pid, True)  # type: ignore[union-attr]  # a start
    assert ended.outputs[0].path.read_text() == "7.000000"
    assert ended.cpu_time >= 7.0


async def test_what_starts_a_job_loads_no_libraries_that_the_job_has_left(world: World) -> None:
    """They would run outside of the sandbox.  The program itself still finds its libraries beside it."""
    program = """
        for name in ("libcap.so.2", "libcap-ng.so.0", "libselinux.so.1", "libsmartcols.so.1"):
            open(name, "w").write("no library")
        if os.path.exists("again"):
            open(resolve("out"), "w").write(os.environ["LD_LIBRARY_PATH"])
            finish()
        open("again", "w").close()
        """
    assert (await world.run(world.spec(program))).ending is Ending.RESTART
    world.events.clear()
    ended = await world.run(world.spec(program))
    assert ended.ending is Ending.FINISHED, (ended.text, ended.stderr)
    assert ended.outputs[0].path.read_text() == f"../../projects/{world.project_dir.name}:.:../.."


async def test_a_job_has_a_home_of_its_own_whatever_its_account_has(world: World) -> None:
    program = """
        import tempfile
        home = os.path.expanduser("~")
        assert os.path.samefile(os.path.dirname(home), "."), home
        for place in (os.environ["XDG_CACHE_HOME"], os.environ["NUMBA_CACHE_DIR"], os.environ["MPLCONFIGDIR"]):
            os.makedirs(os.path.join(place, "x"))
            assert place.startswith(home + "/"), place
        with tempfile.NamedTemporaryFile() as file:
            open(resolve("out"), "w").write(os.path.relpath(os.path.dirname(file.name)))
        finish()
        """
    ended = await world.run(world.spec(program))
    assert ended.ending is Ending.FINISHED, (ended.text, ended.stderr)
    assert ended.outputs[0].path.read_text() == "cobblestone_home/tmp"


async def test_suspension_stands_still_and_costs_no_elapsed_time(world: World) -> None:
    spec = world.spec(
        """
        running, count = True, 0
        while count < 60:
            order = receive(0)
            if "<suspend/>" in order:
                running = False
                open("paused", "w").write("yes")
            running = running or "<resume/>" in order
            if running:
                count += 1
                open("count.new", "w").write(str(count))
                os.replace("count.new", "count")
            time.sleep(0.02)
        open(resolve("out"), "w").write("done")
        finish()
        """
    )
    await world.runner.start(spec, 0)
    await world.until_true(lambda: world.read("count") not in ("", "0"))
    world.runner.suspend(spec.name)
    await world.until_true(lambda: world.read("paused"))
    await asyncio.sleep(0.1)
    task, count = world.runner.tasks[spec.name], world.read("count")
    elapsed = task.elapsed
    assert task.state is ProcessState.SUSPENDED
    await asyncio.sleep(0.4)
    assert world.read("count") == count
    assert task.elapsed == elapsed
    world.runner.resume(spec.name)
    assert (await world.until(Ended)).ending is Ending.FINISHED


async def test_a_job_that_reads_no_orders_is_stopped_by_the_system_instead(world: World) -> None:
    spec = world.spec(
        """
        import signal
        for number in (1, 2, 3, 15):
            signal.signal(number, signal.SIG_IGN)
        while True:
            open("beat", "w").write(str(time.time()))
            time.sleep(0.02)
        """
    )
    await world.runner.start(spec, 0)
    await world.until_true(lambda: world.read("beat"))
    world.runner.suspend(spec.name)
    await world.until_true(lambda: not world.runner.tasks[spec.name].listens)
    await asyncio.sleep(0.2)
    before = world.read("beat")
    await asyncio.sleep(0.3)
    assert world.read("beat") == before
    world.runner.resume(spec.name)
    await world.until_true(lambda: world.read("beat") != before)
    world.runner.abort(spec.name, 203, "aborted by the user")
    ended = await world.until(Ended)
    assert (ended.ending, ended.exit_status) == (Ending.ABORTED, 203)
    await world.until_true(lambda: not world.living())


async def test_children_that_left_the_session_and_ignore_every_signal_end_with_the_job(world: World) -> None:
    spec = world.spec(
        """
        import signal
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in range(1, 32):
                    if number not in (9, 19):
                        signal.signal(number, signal.SIG_IGN)
                open("orphan", "w").write("here")
                time.sleep(600)
            os._exit(0)
        os.wait()
        while not os.path.exists("orphan"):
            time.sleep(0.01)
        open(resolve("out"), "w").write("x")
        finish()
        """
    )
    ended = await world.run(spec)
    assert ended.ending is Ending.FINISHED
    await world.until_true(lambda: not world.living(), seconds=60)


async def test_a_process_that_lingers_after_its_finish_file_counts_as_a_success(world: World) -> None:
    spec = world.spec(
        """
        open(resolve("out"), "w").write("x")
        finish()
        time.sleep(600)
        """
    )
    ended = await world.run(spec)
    assert ended.ending is Ending.FINISHED
    assert ended.outputs[0].nbytes == 1
    assert not world.living()


async def test_quit_waits_for_the_next_checkpoint_when_there_is_time(world: World) -> None:
    program = """
        begin = time.time()
        while True:
            if os.path.exists("go"):
                status(3.0, 3.0, 0.5)
                os.remove("go")
            if "<quit/>" in receive(0):
                sys.exit()
            time.sleep(0.01)
        """
    spec = world.spec(program)
    await world.runner.start(spec, 0)
    world.runner.quit(spec.name, patience=20.0)
    await asyncio.sleep(0.5)
    assert world.runner.tasks[spec.name].state is ProcessState.EXECUTING
    (world.slot() / "go").touch()
    ended = await world.until(Ended)
    assert ended.ending is Ending.STOPPED
    assert isinstance(world.events[-2], Checkpointed)
    world.events.clear()
    await world.runner.start(spec, 0)
    world.runner.quit(spec.name, patience=0.5)  # this time none comes
    assert (await world.until(Ended, seconds=60)).ending is Ending.STOPPED


async def test_what_does_not_leave_a_gpu_when_it_is_told_to_is_ended_within_five_seconds(
    tmp_path: Path,
) -> None:
    program = """
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        status(1.0, 1.0, 0.5)
        while True:
            receive(0)
            time.sleep(0.01)
        """
    open_to_other_accounts(tmp_path)
    async with open_world(tmp_path / "data", timing=Timing()) as world:
        spec = world.spec(program, uses_gpu=True)
        await world.runner.start(spec, 0)
        await world.until(Checkpointed)
        began = time.monotonic()
        world.runner.quit(spec.name, patience=300.0)
        ended = await world.until(Ended)
        assert time.monotonic() - began < 5.5  # half a second for this machine
        assert ended.ending is Ending.STOPPED  # it continues from its checkpoint
        assert not world.living()


async def test_exit_without_finish_file_is_a_restart_and_a_temporary_exit_a_pause(world: World) -> None:
    assert (await world.run(world.spec("", "early"), 0)).ending is Ending.RESTART
    pause = world.spec(
        'open("boinc_temporary_exit", "w").write("77\\nno licence server\\nnotice\\n")', "pause"
    )
    ended = await world.run(pause, 1)
    assert (ended.ending, ended.delay_seconds) == (Ending.POSTPONED, 77.0)
    assert (ended.text, ended.as_notice) == ("no licence server", True)


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("sys.exit(7)", 7, "process exited with code 7 (0x7, -249)"),
        ("sys.exit(195)", 195, "A program that the task started failed"),
        ("finish()", -161, "without its output file out"),
        ('open(resolve("out"), "w").write("x" * 1000001); finish()', -131, "the project allows 1000000"),
    ],
)
async def test_failures_say_what_happened(world: World, program: str, status: int, words: str) -> None:
    ended = await world.run(world.spec(program))
    assert (ended.ending, ended.exit_status) == (Ending.FAILED, status)
    assert words in ended.text


async def test_cpu_time_of_ended_jobs_stays_counted(world: World) -> None:
    spec = world.spec(
        """
        while time.process_time() < 1.0:
            pass
        open(resolve("out"), "w").write("x")
        finish()
        """
    )
    assert world.runner.cpu_seconds() == 0.0
    await world.runner.start(spec, 0)
    ended = await world.until(Ended)
    assert world.runner.cpu_seconds() >= 0.7  # partly estimated under bubblewrap
    assert ended.cpu_time >= 0.7
    assert world.runner.tasks == {}


async def test_a_crash_is_an_error_and_a_kill_from_outside_a_restart(world: World) -> None:
    crash = await world.run(world.spec("os.kill(os.getpid(), 11)", "crash"), 0)
    assert crash.ending is Ending.FAILED
    assert "11" in crash.text or "139" in crash.text
    killed = await world.run(world.spec("os.kill(os.getpid(), 9)", "killed"), 1)
    assert killed.ending is Ending.RESTART


async def test_a_job_over_its_memory_limit_fails_with_the_family_s_number(world: World) -> None:
    spec = world.spec("data = bytearray(400_000_000); time.sleep(600)", limits=TaskLimits(memory_bytes=1e8))
    ended = await world.run(spec)
    assert (ended.exit_status, ended.ending) in ((198, Ending.FAILED), (198, Ending.ABORTED))
    assert "memory" in ended.text


@pytest.mark.parametrize("folder", ["/dev/shm", "/tmp"])
async def test_files_that_a_sandbox_keeps_in_memory_count_as_the_job_s_memory(
    tmp_path: Path, folder: str
) -> None:
    async with open_world(tmp_path, choice=SandboxChoice(bubblewrap="always", control_groups=False)) as world:
        spec = world.spec(
            f"""
            with open({folder!r} + "/fill", "wb") as file:
                for _ in range(80):
                    file.write(bytes(1_000_000))
            time.sleep(600)
            """,
            limits=TaskLimits(memory_bytes=6e7),
        )
        ended = await world.run(spec)
        assert (ended.exit_status, ended.ending) == (198, Ending.ABORTED)
        assert "of memory; the limit is 60.0 MB" in ended.text


def test_what_a_process_sees_before_its_sandbox_is_set_up_is_not_its_memory() -> None:
    assert files_in_memory({os.getpid()}) == 0


async def test_a_job_that_fills_the_disk_fails_with_the_family_s_number(world: World) -> None:
    spec = world.spec(
        """
        for number in range(1000):
            open("fill%d" % number, "wb").write(bytes(1_000_000))
            time.sleep(0.01)
        time.sleep(600)
        """,
        limits=TaskLimits(disk_bytes=2e7),
    )
    ended = await world.run(spec)
    assert (ended.exit_status, ended.ending) == (196, Ending.ABORTED)
    assert ended.text.startswith("uses ")


async def test_no_single_file_grows_beyond_the_disk_bound(tmp_path: Path) -> None:
    async with open_world(
        tmp_path, timing=replace(FAST, measure=60.0)
    ) as world:  # the client watches too rarely
        spec = world.spec(
            """
            time.sleep(0.5)
            try:
                open("big", "wb").write(bytes(30_000_000))
            except OSError as error:
                sys.exit(error.errno)
            """,
            limits=TaskLimits(disk_bytes=2e7),
        )
        ended = await world.run(spec)
        assert ended.exit_status == 27, ended  # EFBIG


async def test_a_job_over_its_time_limit_is_ended(world: World) -> None:
    ended = await world.run(world.spec("time.sleep(600)", limits=TaskLimits(elapsed_seconds=0.5)))
    assert (ended.exit_status, ended.ending) == (197, Ending.ABORTED)


@pytest.mark.parametrize("grouped", [True, False], ids=["as-it-comes", "no-control-groups"])
@pytest.mark.parametrize("begin", ["os.fork() or time.sleep(600)", "threading.Thread(target=wait).start()"])
@pytest.mark.parametrize("bubblewrap", ["always", "never"])
async def test_a_fork_bomb_stays_below_its_number_of_processes(
    tmp_path: Path, bubblewrap: str, begin: str, grouped: bool
) -> None:
    open_to_other_accounts(tmp_path)
    async with open_world(
        tmp_path,
        choice=SandboxChoice(bubblewrap=bubblewrap, control_groups=grouped),
        timing=replace(FAST, measure=60.0),  # the client looks too rarely
    ) as world:
        spec = world.spec(
            f"""
            import threading
            done = threading.Event()
            def wait():
                done.wait(600)
            made = 0
            for _ in range(200):
                try:
                    {begin}
                    made += 1
                except (OSError, RuntimeError):
                    break
            open(resolve("out"), "w").write(str(made))
            done.set()
            finish()
            """,
            limits=TaskLimits(processes=40),
        )
        ended = await world.run(spec)
        assert ended.ending is Ending.FINISHED, (ended.text, ended.stderr)
        assert 30 < int(ended.outputs[0].path.read_text()) < 40
        await world.until_true(lambda: not world.living(), 20)  # dozens of them, on a busy machine


async def test_a_fork_bomb_that_goes_on_is_ended_with_all_of_its_processes(world: World) -> None:
    spec = world.spec(
        """
        for _ in range(9):  # 512 processes, if nothing kept them down
            try:
                os.fork()
            except OSError:
                pass
        time.sleep(600)
        """,
        limits=TaskLimits(processes=40, elapsed_seconds=10.0),
    )
    await world.runner.start(spec, 0)
    await world.until_true(lambda: len(world.living()) > 20)
    ended = await world.until(Ended)
    assert (ended.exit_status, ended.ending) == (197, Ending.ABORTED)
    await world.until_true(lambda: not world.living())  # on a busy machine killed processes need a moment


async def test_the_client_sees_too_many_processes_where_the_system_counts_none(tmp_path: Path) -> None:
    """Also those that have left their session and lost their parent; a last bound of the whole account can be taken off."""
    open_to_other_accounts(tmp_path)
    async with open_world(tmp_path, bubblewrap="never") as world:
        around = world.runner.around
        around.sandbox = replace(around.sandbox, control_groups=None, counting=None)
        spec = world.spec(
            """
            import resource
            soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
            open("soft", "w").write(f"{soft} {hard}")
            resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
            if os.fork() == 0:
                os.setsid()
                for _ in range(50):
                    if os.fork() == 0:
                        break
                else:
                    sys.exit()
            time.sleep(600)
            """,
            limits=TaskLimits(processes=40),
        )
        ended = await world.run(spec)
        assert ended.ending is Ending.ABORTED
        assert ended.text.endswith("processes and threads; the limit is 40")
        soft, hard = map(int, world.read("soft").split())
        assert 40 <= soft < hard
        assert not world.living()


async def test_trickles_go_both_ways(world: World) -> None:
    spec = world.spec(
        """
        open("trickle_up.xml", "w").write("<variety>grüße</variety>\\nhello\\n")
        send(6, "<have_new_trickle_up/>\\n")
        while "<have_trickle_down/>" not in receive(7):
            time.sleep(0.01)
        (name,) = [name for name in os.listdir(".") if name.startswith("trickle_down_")]
        open(resolve("out"), "w").write(open(name).read())
        finish()
        """
    )
    await world.runner.start(spec, 0)
    trickle = await world.until(TrickleUp)
    assert trickle.variety == "grüße"
    assert trickle.path.read_text().endswith("hello\n")
    assert not (world.slot() / "trickle_up.xml").exists()
    world.runner.deliver_trickle(spec.name, "<text>\nwelcome\n</text>\n")
    ended = await world.until(Ended)
    assert ended.outputs[0].path.read_text() == "<text>\nwelcome\n</text>\n"


async def test_an_output_may_be_uploaded_while_the_job_runs(world: World) -> None:
    spec = world.spec(
        """
        open(resolve("early"), "w").write("first")
        open("boinc_ufr_early", "w").close()
        send(6, "<have_new_upload_file/>\\n")
        while "<upload_file_status/>" not in receive(7):
            time.sleep(0.01)
        open(resolve("out"), "w").write(open("boinc_ufs_early").read())
        finish()
        """,
        outputs=(
            TaskOutput(open_name="early", physical_name="r1"),
            TaskOutput(open_name="out", physical_name="r0"),
        ),
    )
    await world.runner.start(spec, 0)
    wanted = await world.until(UploadWanted)
    assert wanted.file.path.read_text() == "first"
    wanted.file.path.unlink()  # uploaded
    world.runner.upload_done(spec.name, "early", 0)
    ended = await world.until(Ended)
    assert ended.ending is Ending.FINISHED, ended.text
    assert [file.physical_name for file in ended.outputs] == ["r0"]
    assert "<status>0</status>" in ended.outputs[0].path.read_text()


@pytest.mark.parametrize("in_the_way", ["slot", "project"])
async def test_an_early_upload_that_is_not_possible_is_no_harm_to_others(
    world: World, in_the_way: str
) -> None:
    spec = world.spec(
        """
        open(resolve("early"), "w").write("first")
        os.mkdir("boinc_ufs_early")
        open("boinc_ufr_early", "w").close()
        send(6, "<have_new_upload_file/>\\n")
        while "<upload_file_status/>" not in receive(7):
            time.sleep(0.01)
        finish()
        """,
        outputs=(TaskOutput(open_name="early", physical_name="r1", optional=True),),
    )
    if in_the_way == "project":
        (world.project_dir / "r1").mkdir(parents=True)
    await world.runner.start(spec, 0)
    await world.until(UploadWanted if in_the_way == "slot" else Notice)
    world.runner.upload_done(spec.name, "early", 0)
    if in_the_way == "project":
        (world.project_dir / "r1").rmdir()
    ended = await world.until(Ended)
    assert ended.ending is Ending.FINISHED, ended.text
    assert (world.project_dir / "r1").read_text() == "first"


async def test_links_and_pipes_in_place_of_files_give_nothing_away(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the volunteer's")
    secret.chmod(0o600)
    spec = world.spec(
        f"""
        os.symlink({str(secret)!r}, resolve("out"))
        os.remove("stderr.txt")
        os.symlink({str(secret)!r}, "stderr.txt")
        os.mkfifo("trickle_up.xml")
        send(6, "<have_new_trickle_up/>\\n")
        while receive(4) == "":
            time.sleep(0.01)
        os.truncate("boinc_mmap_file", 0)
        time.sleep(0.3)
        finish()
        """
    )
    ended = await world.run(spec)
    assert (ended.ending, ended.exit_status) == (Ending.FAILED, -161)
    assert ended.stderr == b""
    assert not list(world.project_dir.glob("trickle_up*"))
    assert not (world.project_dir / "job_1_0_r0").exists()


async def test_a_throttled_job_runs_a_part_of_the_time(world: World) -> None:
    spec = world.spec(
        """
        orders = []
        while len(orders) < 8:
            order = receive(0)
            if order:
                orders.append(order.strip())
            time.sleep(0.005)
        open(resolve("out"), "w").write(" ".join(orders))
        finish()
        """
    )
    world.runner.set_throttle(50.0)
    ended = await world.run(spec)
    assert ended.ending is Ending.FINISHED
    text = ended.outputs[0].path.read_text()
    assert "<suspend/> <resume/> <suspend/> <resume/>" in text


async def test_a_missing_main_program_is_said_in_words(world: World) -> None:
    spec = world.spec("")
    (world.project_dir / spec.main_program).unlink()
    ended = await world.run(spec)
    assert (ended.ending, ended.exit_status) == (Ending.FAILED, -148)
    assert "is missing" in ended.text


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/../../b", "init_data.xml", "boinc_finish_called", ""]
)
async def test_names_that_lead_out_of_the_slot_are_refused(world: World, name: str) -> None:
    (world.project_dir / "phys").write_text("x")
    spec = world.spec("", inputs=(TaskInput(open_name=name, physical_name="phys", copy=True),))
    ended = await world.run(spec)
    assert (ended.ending, ended.exit_status) == (Ending.FAILED, -148)
    assert not world.living()


async def test_tasks_that_pause_at_once_have_the_system_s_processes_read_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = 'open("beat", "w").write("beats")\ntime.sleep(1000)'
    names = [f"job_{number}_0" for number in range(8)]
    for number, name in enumerate(names):
        await world.runner.start(world.spec(program, name), number)
    await world.until_true(lambda: all(world.read("beat", number) for number in range(8)))
    looks: list[int] = []
    for module in (processes, task):
        read = module.read_processes
        monkeypatch.setattr(module, "read_processes", lambda read=read: (looks.append(1), read())[1])
    for name in names:
        world.runner.suspend(name)
    await world.until_true(lambda: all(_stands_still(world, number) for number in range(8)))
    assert len(looks) < 8


def _stands_still(world: World, number: int) -> bool:
    return any(process_state(pid) == "T" for pid in world.living(number))
