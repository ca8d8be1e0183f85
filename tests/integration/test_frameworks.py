"""What the frameworks' pages promise beside joblib itself: Dask's recipe, apps for rules, and batches that are gone on with."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.bag
import pytest
from tests.helpers.project_world import World
from tests.helpers.served_world import LoopThread, Volunteers, connect

from cobblestone.sdk import executor
from cobblestone.sdk.api.jobs import Job
from cobblestone.sdk.project import Project
from snakemake_executor_plugin_cobblestone import rule_jobs

PAGE = Path(__file__).parents[2] / "docs" / "joblib.md"


@pytest.fixture
def project(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr(executor, "POLL_SECONDS", 0.3)
    with LoopThread(world), connect(world) as project:
        project.create_app("period", "cat {input}", stdout="output")
        yield project


@pytest.fixture
def computing(world: World, project: Project) -> Iterator[None]:
    """A host whose jobs write their input as it is."""
    volunteers = Volunteers(world, compute=lambda inputs: inputs[0].read_bytes())
    enough = threading.Event()
    thread = threading.Thread(target=volunteers.work_until, args=[enough])
    thread.start()
    yield
    enough.set()
    thread.join()


def test_the_recipe_maps_a_bag_of_dask_over_an_executor(project: Project, computing: None) -> None:
    recipe = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[-1]
    known: dict[str, Any] = {
        "dask": dask,
        "project": project,
        "inputs": range(5),
        "prepare": lambda n: n * 10,
    }
    exec(recipe, known)
    assert known["total"] == 100


@pytest.mark.parametrize("program", rule_jobs.PROGRAMS)
def test_the_app_of_the_page_runs_rules(project: Project, program: str) -> None:
    app = project.create_app("rules", [program, "{inputs}"], outputs=[rule_jobs.OUTPUT])
    assert rule_jobs.checked_command(app) == [program, "{inputs}"]
    with pytest.raises(Exception, match="does not run rules"):
        rule_jobs.checked_command(project.app("period"))


def test_an_executor_goes_on_with_a_batch_that_a_process_left_open(project: Project, world: World) -> None:
    left = project.executor("period", name="mine")
    futures = [left.submit(Job(inputs=[str(n).encode()], name=f"job {n}")) for n in range(2)]
    while left.batch.status().njobs < 2:
        pass
    again = project.executor("period", batch=project.batch(left.batch.id))
    assert sorted(again.earlier) == ["job 0", "job 1"]
    more = again.submit(Job(inputs=[b"7"], name="job 2"))
    volunteers = Volunteers(world, compute=lambda inputs: inputs[0].read_bytes())
    while not (more.done() and again.earlier["job 1"].done()):
        volunteers.work()
    assert (again.earlier["job 1"].result().text(), more.result().text()) == ("1", "7")
    assert again.batch.status().njobs == 3
    again.shutdown()
    left.shutdown()
    assert futures[0].result().text() == "0"
