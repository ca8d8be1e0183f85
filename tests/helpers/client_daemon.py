"""A small client that computes four jobs and is meant to be killed.

``python -m tests.helpers.client_daemon FOLDER BUBBLEWRAP STEPS``; each job has so many steps of a fiftieth of a second. It notes
finished jobs in ``FOLDER/done``, one line for each.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.helpers.client_tasks import open_world

from cobblestone.client.tasks.description import Ended
from cobblestone.policy.client.host.tasks import Ending

JOBS = ("a", "b", "c", "d")
PROGRAM = """
    step = int(open("state").read()) if os.path.exists("state") else 0
    while step < STEPS:
        client = re.search("<client_pid>(.*?)<", open("init_data.xml").read()).group(1)
        if "<quit/>" in receive(0) or not os.path.exists("/proc/" + client):
            sys.exit()
        time.sleep(0.02)
        step += 1
        with open("journal", "a") as file:
            file.write("%d\\n" % step)
        open("state.new", "w").write(str(step))
        os.replace("state.new", "state")
        status(float(step), float(step), step / STEPS)
    open(resolve("out"), "w").write(open("journal").read())
    finish()
    """


async def run(folder: Path, bubblewrap: str, steps: int) -> None:
    program = PROGRAM.replace("STEPS", str(steps))
    done = folder / "done"
    async with open_world(folder / "data", bubblewrap=bubblewrap) as world:
        finished = set(done.read_text().split()) if done.exists() else set[str]()
        await world.runner.clean_up({slot: name for slot, name in enumerate(JOBS) if name not in finished})
        for slot, name in enumerate(JOBS):
            if name not in finished:
                await world.runner.start(world.spec(program, name), slot)
        while finished != set(JOBS):
            for event in list(world.events):
                if isinstance(event, Ended):
                    assert event.ending in (Ending.FINISHED, Ending.RESTART), event
                    world.events.remove(event)
                    if event.ending is Ending.RESTART:
                        await world.runner.start(world.spec(program, event.name), JOBS.index(event.name))
                    elif event.name not in finished:
                        finished.add(event.name)
                        with done.open("a") as file:
                            file.write(f"{event.name}\n")
                            file.flush()
                            os.fsync(file.fileno())
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
