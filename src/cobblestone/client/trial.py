"""One job run to its end on this computer as a volunteer's client runs it: launcher, slot, sandbox, limits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cobblestone.client.host.containers import empty_home, open_home
from cobblestone.client.sandbox.sandbox import SandboxChoice, detect_sandbox
from cobblestone.client.tasks.description import Ended, TaskEvent, TaskSpec
from cobblestone.client.tasks.runner import Runner
from cobblestone.client.tasks.task import Timing
from cobblestone.ops.environment import environment_without_proxies
from cobblestone.policy.client.task_exit import Ending

TIMING = Timing(poll=0.2, measure=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How it ended."""

    end: Ended
    peak_memory: float  #: bytes, resident, of all its processes
    peak_disk: float  #: bytes in its slot
    outputs: Mapping[str, Path]  #: by the names under which the job wrote them; none if it failed
    surroundings: Sequence[str]  #: what keeps it within bounds, in sentences

    @property
    def succeeded(self) -> bool:
        """Whether a client would report success."""
        return self.end.ending is Ending.FINISHED


async def run_trial(spec: TaskSpec, data_dir: Path) -> Trial:
    """Run a job in a slot below ``data_dir`` until its process ends, whatever the end is.

    Raises:
        ConfigError: jobs cannot be run here.
    """
    environment = environment_without_proxies()
    sandbox = await asyncio.to_thread(detect_sandbox, SandboxChoice(), data_dir, environment=environment)
    ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    def take(event: TaskEvent) -> None:
        if isinstance(event, Ended) and not ended.done():
            ended.set_result(event)

    home = open_home(data_dir, sandbox.account) if spec.in_container else None
    runner = Runner(data_dir, sandbox, take, environment=environment, timing=TIMING)
    watching = asyncio.create_task(runner.run())
    peak_memory = peak_disk = 0.0
    try:
        await runner.start(spec, 0)
        while not ended.done():
            await asyncio.wait([ended], timeout=0.2)
            for view in runner.views().values():
                peak_memory = max(peak_memory, view.working_set)
                peak_disk = max(peak_disk, view.disk_usage)
    finally:
        if home is not None:
            await asyncio.to_thread(empty_home, home, sandbox.account, environment)
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await runner.close()
    end = ended.result()
    return Trial(
        end=end,
        peak_memory=max(peak_memory, end.peak_working_set),
        peak_disk=peak_disk,
        outputs={
            output.open_name: file.path
            for file in end.outputs
            for output in spec.outputs
            if output.physical_name == file.physical_name
        },
        surroundings=[each.text() for each in sandbox.report],
    )
