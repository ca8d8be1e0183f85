"""What the literal client of 2007 does beside the published policies; orders as a C++ program with the GNU library prints."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.state import ClientJob
from cobblestone.policy.client.published.run_list import enforce_run_list
from cobblestone.simulator.host.client_2007 import Heap2007
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.paper import cells
from cobblestone.simulator.world.scenario import Compatibility, Preferences


def job(number: int, *, project: int = 0, run_start: float = 0.0, running: bool = True) -> ClientJob:
    """A job of the policies of 2007: one processor, no files to wait for."""
    return ClientJob(
        id=str(number),
        project=project,
        app_name="",
        version="",
        cpus=1.0,
        gpu="",
        gpus=0.0,
        raw=1000.0,
        received=0.0,
        report_deadline=1e6,
        remaining=1000.0,
        start_order=1,
        run_start=run_start,
        running=running,
    )


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ((0, 0), (1, 0)),
        ((0, 0, 0), (2, 1, 0)),
        ((0, 0, 0, 0), (2, 0, 3, 1)),
        ((0, 0, 0, 0, 0), (2, 0, 1, 4, 3)),
        ((0,) * 9, (6, 2, 0, 3, 5, 7, 1, 4, 8)),
        ((1, 1, 0, 1, 2), (4, 1, 3, 0, 2)),
        ((1, 2, 1, 2, 1, 0, 0), (3, 1, 2, 4, 0, 6, 5)),
        ((0, 1, 1, 1, 1, 0, 0, 0, 2, 2), (9, 8, 2, 4, 1, 3, 6, 5, 7, 0)),
    ],
)
def test_equal_tasks_lie_as_the_cpp_library_leaves_them(
    keys: tuple[int, ...], order: tuple[int, ...]
) -> None:
    heap = Heap2007([job(i, run_start=key) for i, key in enumerate(keys)], 10.0, [0])
    assert tuple(int(heap.pop().id) for _ in keys) == order


def test_the_second_of_two_equal_tasks_gives_way_in_2007_the_first_today() -> None:
    tasks = [job(0), job(1)]
    new = job(2, running=False)
    then, _ = enforce_run_list(
        [tasks[0], new], tasks, now=4000.0, ncpus=2, slice_seconds=3600.0, misses=[1], line_up=Heap2007
    )
    assert then.preempt == [tasks[1]]
    alone, _ = enforce_run_list([new], tasks, now=4000.0, ncpus=2, slice_seconds=3600.0, misses=[1])
    assert alone.preempt == [tasks[0]]


def test_tasks_in_deadline_trouble_give_way_first_and_one_that_goes_on_is_left_alone() -> None:
    calm, troubled = job(0, run_start=1.0), job(1, run_start=2.0, project=1)
    heap = Heap2007([calm, troubled], 10.0, [0, 1])
    assert heap.top() is troubled
    heap.keep(troubled)
    assert heap.pop() is calm
    assert not len(heap)


@pytest.mark.parametrize("compatibility", [None, Compatibility.year_2007(literal=True)])
def test_a_queue_per_project_without_a_buffer_still_has_a_job(compatibility: Compatibility | None) -> None:
    world = replace(
        cells.mix(3, compatibility=compatibility),
        duration=20 * DAY,
        preferences=Preferences(buffer_min=0.0, buffer_additional=0.0),
    )
    found = simulate(world, PolicyChoice.parse("CS2_WF1_WS2_JC2"))
    assert all(book.met for book in found.books.projects)
    assert found.metrics.idleness < 0.05


def test_no_minimum_buffer_is_a_hundred_thousandth_of_a_day_in_2007() -> None:
    def run(seconds: float) -> object:
        world = cells.slack(2.0, compatibility=Compatibility.year_2007(literal=True))
        prefs = Preferences(buffer_min=seconds, buffer_additional=21600.0)
        return simulate(replace(world, preferences=prefs, duration=20 * DAY), PolicyChoice()).metrics

    assert run(0.0) == run(0.00001 * DAY)
