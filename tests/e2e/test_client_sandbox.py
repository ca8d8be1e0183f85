"""What a job under bubblewrap can see and do; what is in force is said in words."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest
from tests.helpers.client_tasks import ENVIRONMENT, open_to_other_accounts, open_world
from tests.helpers.eventually import eventually

from cobblestone.cli import run_command
from cobblestone.client.sandbox.processes import find_control_groups
from cobblestone.client.sandbox.sandbox import (
    LOWEST,
    Holder,
    SandboxChoice,
    detect_sandbox,
    set_priority,
    set_session_priority,
)
from cobblestone.client.tasks.description import TaskOutput
from cobblestone.domain.errors import ConfigError
from cobblestone.policy.client.host.tasks import Ending

pytestmark = pytest.mark.anyio

LOOK = """
    import json, socket
    seen = {}
    def attempt(name, act):
        try:
            seen[name] = act()
        except OSError as error:
            seen[name] = "refused"
    attempt("home", lambda: os.listdir("/home"))
    attempt("root", lambda: os.listdir("/root"))
    attempt("true place", lambda: os.listdir(PLACE))
    attempt("other project", lambda: os.listdir("../../projects"))
    attempt("other slots", lambda: os.listdir(".."))
    attempt("write to the project", lambda: open("../../projects/example.invalid_project/x", "w").write("x"))
    attempt("network", lambda: socket.create_connection(("127.0.0.1", PORT), 2).close())
    seen["processes"] = len([name for name in os.listdir("/proc") if name.isdigit()])
    seen["user"] = os.getuid()
    seen["variables"] = sorted(os.environ)
    seen["init"] = open("init_data.xml").read()
    open(resolve("out"), "w").write(json.dumps(seen))
    finish()
    """


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_job_sees_neither_home_nor_network_nor_other_jobs(tmp_path: Path) -> None:
    import asyncio
    import json

    listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    data_dir = tmp_path / "volunteer's data"
    async with open_world(data_dir) as world:
        (data_dir / "projects" / "other").mkdir()
        (data_dir / "slots" / "9").mkdir(parents=True)
        program = LOOK.replace("PLACE", repr(str(data_dir))).replace("PORT", str(port))
        ended = await world.run(world.spec(program))
        assert ended.ending is Ending.FINISHED, ended.stderr.decode()
        seen = json.loads(ended.outputs[0].path.read_text())
        groups = world.sandbox.control_groups
    assert groups is None or not any(folder.exists() for folder in groups.folders.values())
    listening.close()
    await listening.wait_closed()
    assert seen["home"] == "refused"
    assert seen["root"] == "refused"
    assert seen["true place"] == "refused"
    assert seen["other project"] == ["example.invalid_project"]
    assert seen["other slots"] == ["0"]
    assert seen["write to the project"] == "refused"
    assert seen["network"] == "refused"
    assert seen["processes"] <= 3
    assert seen["user"] == (world.sandbox.account.uid if world.sandbox.account else os.getuid())
    assert seen["user"] != 0
    places = {"HOME", "TMPDIR"} | {name for name in seen["variables"] if name.startswith("XDG_")}
    places |= {"CUDA_CACHE_PATH", "CUPY_CACHE_DIR", "MPLCONFIGDIR", "NUMBA_CACHE_DIR"}
    others = {"COBBLESTONE_SLOT", "LANG", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "PWD", "TZ"}
    assert set(seen["variables"]) <= places | others
    assert str(data_dir) not in seen["init"]
    assert "<client_pid>1</client_pid>" in seen["init"]


async def test_a_job_that_needs_the_network_gets_it(tmp_path: Path) -> None:
    import asyncio

    listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with open_world(tmp_path) as world:
        spec = world.spec(
            f"""
            import socket
            socket.create_connection(("127.0.0.1", {port}), 5).close()
            finish()
            """,
            outputs=(TaskOutput(open_name="out", physical_name="r0", optional=True),),
            needs_network=True,
        )
        assert (await world.run(spec)).ending is Ending.FINISHED
    listening.close()
    await listening.wait_closed()


@pytest.mark.parametrize("niceness", [None, 10, LOWEST])
def test_a_job_gives_way_as_configured(niceness: int | None) -> None:
    with subprocess.Popen(["sleep", "60"]) as job:
        set_priority(job.pid, niceness)
        usual = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, job.pid) == (usual if niceness is None else niceness)
        assert (os.sched_getscheduler(job.pid) == os.SCHED_IDLE) == (niceness == LOWEST)
        job.kill()


def test_each_of_many_sessions_gives_way_though_linux_takes_ten_changes_a_second() -> None:
    """Another system, or one that groups processes otherwise, has no such file: then there is nothing to do."""
    sleepers = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(5)]
    try:
        for each in sleepers:
            eventually(lambda each=each: set_session_priority(each.pid, 10), seconds=20)
            session = Path(f"/proc/{each.pid}/autogroup")
            assert not session.exists() or session.read_text().endswith(" nice 10\n")
    finally:
        for each in sleepers:
            each.kill()
            each.wait()
    assert set_session_priority(sleepers[0].pid, 10), "it has ended"


def test_what_is_in_force_is_said_in_words(tmp_path: Path) -> None:
    words = [
        each.text() for each in detect_sandbox(SandboxChoice(), tmp_path, environment=ENVIRONMENT).report
    ]
    assert words[0].startswith("Jobs run under bubblewrap")
    assert any("account" in each for each in words)
    assert any(each.startswith("The system enforces: number of processes and threads") for each in words)
    without = detect_sandbox(SandboxChoice(control_groups=False), tmp_path, environment=ENVIRONMENT)
    held = {each.name: each.holder for each in without.bounds}
    assert held["number of processes and threads"] is Holder.SYSTEM
    assert held["memory"] is Holder.CLIENT
    assert any("memory is checked only every 10 seconds" in each.text() for each in without.report)


def test_a_number_of_processes_that_nothing_enforces_is_said_with_what_helps(tmp_path: Path) -> None:
    open_to_other_accounts(tmp_path)
    nowhere = {"PATH": str(tmp_path)}
    found = detect_sandbox(SandboxChoice(control_groups=False), tmp_path, environment=nowhere)
    (said,) = [each.text() for each in found.report if each.code == "processes_watched"]
    assert "unshare and prlimit are not installed (package util-linux)" in said
    assert "cobblestone client unit" in said
    (bound,) = [each for each in found.bounds if each.name == "number of processes and threads"]
    assert bound.as_json() == {
        "bound": "number of processes and threads",
        "held_by": "client",
        "means": "a look every 10 s",
        "remark": said,
    }


def test_the_doctor_says_what_holds_here_before_a_client_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_to_other_accounts(tmp_path)
    assert run_command(["client", "doctor", "--dir", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    held = {each["bound"]: each["held_by"] for each in found["bounds"]}
    assert held["number of processes and threads"] == "system"
    assert held["processors"] == "nobody"
    assert run_command(["client", "doctor", "--dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in held)
    assert all(text in shown for text in found["sandbox"])
    assert "Nothing limits a job to its number of processors" in shown


def test_without_bubblewrap_the_reason_is_said_and_a_demand_for_it_is_an_error(tmp_path: Path) -> None:
    nowhere = {"PATH": str(tmp_path)}
    open_to_other_accounts(tmp_path)
    report = detect_sandbox(SandboxChoice(), tmp_path, environment=nowhere).report
    assert "it is not installed (package bubblewrap)" in report[0].text()
    assert "can use the network" in report[0].text()
    with pytest.raises(ConfigError, match="under bubblewrap, but it is not installed"):
        detect_sandbox(SandboxChoice(bubblewrap="always"), tmp_path, environment=nowhere)


@pytest.mark.root
def test_a_client_that_is_root_demands_an_account_that_can_reach_its_data(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ConfigError, match="cannot reach the data directory"):
        detect_sandbox(SandboxChoice(bubblewrap="never"), closed, environment=ENVIRONMENT)
    with pytest.raises(ConfigError, match="must not run as root"):
        detect_sandbox(SandboxChoice(account="root"), tmp_path, environment=ENVIRONMENT)
    with pytest.raises(ConfigError, match="There is no account nobody-of-this-name"):
        detect_sandbox(SandboxChoice(account="nobody-of-this-name"), tmp_path, environment=ENVIRONMENT)


def version_2_tree(root: Path, controllers: str) -> None:
    root.mkdir()
    (root / "cgroup.controllers").write_text(controllers)
    (root / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (root / "cgroup.subtree_control").write_text("")


def test_version_2_groups_hold_the_client_beside_the_jobs(tmp_path: Path) -> None:
    """The tree is of ordinary files: this machine's kernel offers version 1 only."""
    root = tmp_path / "unified"
    version_2_tree(root, "cpu memory pids")
    groups = find_control_groups(tmp_path, root=root, own="0::/\n")
    assert groups is not None
    assert groups.version == 2
    assert set(groups.folders) == {"memory", "pids"}
    ours = groups.folders["memory"]
    assert (ours / "client" / "cgroup.procs").read_text() == str(os.getpid())
    job = groups.open(4, memory_bytes=1e9, processes=50)
    assert (ours / "slot-4" / "memory.max").read_text() == "1000000000"
    assert (ours / "slot-4" / "memory.swap.max").read_text() == "0"
    assert (ours / "slot-4" / "pids.max").read_text() == "50"
    (ours / "slot-4" / "memory.events").write_text("low 0\noom 1\noom_kill 3\n")
    assert job.out_of_memory_kills() == 3


def test_groups_that_another_account_has_left_are_not_ours(tmp_path: Path) -> None:
    open_to_other_accounts(tmp_path)
    root = tmp_path / "tree"
    for controller in ("memory", "pids"):
        (root / controller).mkdir(parents=True)
        (root / controller / "cgroup.procs").touch()
    own = "2:pids:/\n1:memory:/\n0::/\n"
    made = find_control_groups(tmp_path, root=root, own=own)
    assert made is not None
    assert set(made.folders) == {"memory", "pids"}
    made.folders["pids"].chmod(0o555)
    was_root = os.geteuid() == 0
    try:
        if was_root:
            os.seteuid(65534)
            made.folders["memory"].stat()  # it can be reached
        found = find_control_groups(tmp_path, root=root, own=own)
    finally:
        if was_root:
            os.seteuid(0)
    assert found is None if was_root else found and set(found.folders) == {"memory"}


def test_no_controllers_means_no_groups(tmp_path: Path) -> None:
    root = tmp_path / "unified"
    version_2_tree(root, "cpuset")
    assert find_control_groups(tmp_path, root=root, own="0::/\n") is None
    assert find_control_groups(tmp_path, root=tmp_path / "absent", own="9:memory:/x\n0::/\n") is None


def test_groups_go_although_a_killed_process_leaves_its_group_a_moment_later(tmp_path: Path) -> None:
    groups = find_control_groups(tmp_path)
    if groups is None:  # the system does not let us make any, so that nothing can be left
        return
    group = groups.open(0, memory_bytes=0, processes=0)
    with subprocess.Popen(["sleep", "60"]) as process:
        group.add(process.pid)
        assert group.pids() == {process.pid}
        killing = threading.Timer(0.1, process.kill)
        killing.start()
        reaping = threading.Thread(target=process.wait)
        reaping.start()
        groups.remove()
        assert not any(folder.exists() for folder in groups.folders.values())
        reaping.join()
