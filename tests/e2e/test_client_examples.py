"""The examples' apps under the client's runner: the launcher with Python, and a native program with the BOINC API."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.client_tasks import FAST, World, open_to_other_accounts, open_world

from cobblestone import launcher
from cobblestone.client.tasks.description import (
    Checkpointed,
    Ended,
    ProcessState,
    TaskInput,
    TaskOutput,
    TaskSpec,
)
from cobblestone.policy.client.host.tasks import Ending
from cobblestone.wire.client.task_messages import InitData

pytestmark = pytest.mark.anyio
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def launcher_spec(world: World, program: str, name: str = "job_1_0") -> TaskSpec:
    """A job of an app in Python, as the server sends it."""
    (world.project_dir / "launcher").write_bytes(launcher.launcher_bytes())
    (world.project_dir / "app_json").write_bytes(
        launcher.app_description(
            ["python3", "program.py", "{input}", "{output}"], files={"program.py": program.encode()}
        )
    )
    (world.project_dir / "program_1.py").write_text(program)
    (world.project_dir / "in_1").write_text("80\n")
    return TaskSpec(
        name=name,
        result_name=name,
        project_url="http://example.invalid/project/",
        project_dir=world.project_dir,
        main_program="launcher",
        arguments=tuple(launcher.job_command_line(inputs={"main": "in"}, outputs={"main": "out"}).split()),
        inputs=(
            TaskInput(open_name=launcher.APP_FILE, physical_name="app_json", copy=True),
            TaskInput(open_name="program.py", physical_name="program_1.py", copy=True),
            TaskInput(open_name="in", physical_name="in_1", copy=True),
        ),
        outputs=(TaskOutput(open_name="out", physical_name=f"{name}_r0", copy=True),),
        init=replace(InitData(), checkpoint_period=1.0, rsc_disk_bound=1e9, rsc_memory_bound=1e9),
    )


COUNTING = """
import os, sys, time
import cobblestone_runtime as runtime
total = int(open(sys.argv[1]).read())
step = int(open("state").read()) if os.path.exists("state") else 0
started_at = step
while step < total:
    time.sleep(0.1)
    step += 1
    runtime.progress(step / total)
    if runtime.time_to_checkpoint():
        with open("state.new", "w") as file:
            file.write(str(step))
        os.replace("state.new", "state")
        runtime.checkpoint()
open(sys.argv[2], "w").write("%d from %d" % (step, started_at))
"""


@pytest.mark.parametrize("bubblewrap", ["always", "never"])
async def test_a_python_app_checkpoints_pauses_quits_continues_and_finishes(
    tmp_path: Path, bubblewrap: str
) -> None:
    open_to_other_accounts(tmp_path)
    async with open_world(
        tmp_path / "Prüfung 1", bubblewrap=bubblewrap, timing=replace(FAST, deaf=20.0, grace=30.0)
    ) as world:
        spec = launcher_spec(world, COUNTING)
        await world.runner.start(spec, 0)
        noted = await world.until(Checkpointed)
        assert 0 < noted.fraction_done < 1
        world.runner.suspend(spec.name)
        await world.until_true(lambda: world.runner.tasks[spec.name].state is ProcessState.SUSPENDED)
        world.runner.resume(spec.name)
        world.runner.quit(spec.name)
        assert (await world.until(Ended)).ending is Ending.STOPPED
        world.events.clear()
        ended = await world.run(spec)
        assert ended.ending is Ending.FINISHED, (ended.text, ended.stderr.decode())
        done, _, start = ended.outputs[0].path.read_text().partition(" from ")
        assert done == "80"
        assert int(start) >= 5  # from its checkpoint, not from the beginning


async def test_a_native_app_with_the_boinc_api_runs_unmodified(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    assert compiler
    async with open_world(tmp_path, timing=replace(FAST, poll=0.2, deaf=20.0, grace=30.0)) as world:
        program = world.project_dir / "gaps_1"
        source, libraries = EXAMPLES / "native" / "gaps.c", ("-lboinc_api", "-lboinc", "-lpthread")
        await asyncio.to_thread(
            subprocess.run, [compiler, "-O2", "-o", program, source, *libraries], check=True
        )
        (world.project_dir / "in_1").write_text("1000000000000 1000300000000\n")
        spec = TaskSpec(
            name="gaps_0",
            result_name="gaps_0",
            project_url="http://example.invalid/project/",
            project_dir=world.project_dir,
            main_program="gaps_1",
            inputs=(TaskInput(open_name="input", physical_name="in_1"),),
            outputs=(TaskOutput(open_name="output", physical_name="gaps_0_r0"),),
            init=replace(
                InitData(), checkpoint_period=1.0, rsc_fpops_est=1e9, rsc_fpops_bound=1e15, rsc_disk_bound=1e9
            ),
        )
        await world.runner.start(spec, 0)
        await world.until_true(
            lambda: not world.runner.tasks or world.runner.tasks["gaps_0"].fraction_done > 0
        )
        world.runner.suspend(spec.name)
        await world.until_true(
            lambda: not world.runner.tasks or world.runner.tasks["gaps_0"].state is ProcessState.SUSPENDED
        )
        world.runner.resume(spec.name)
        ended = await world.until(Ended, seconds=120)
        assert ended.ending is Ending.FINISHED, (ended.text, ended.stderr.decode())
        assert "primes" in ended.outputs[0].path.read_text()
        assert ended.cpu_time > 0
        assert not world.living()
