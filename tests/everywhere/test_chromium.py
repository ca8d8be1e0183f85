"""Chromium's tabs beside the native launcher: Python, and a job whose tab is closed again and again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.browser import test_compute
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.test_compute import PATIENCE_MS, Computing, Program, done, keeps_checkpoint, start
from tests.everywhere.test_examples import Example, folders, sunspots
from tests.helpers.wasm_slot import steps

from cobblestone.domain.work import JobLimits

pytestmark = pytest.mark.timeout(3600)
computing = test_compute.computing
LIMITS = JobLimits(rsc_fpops_est=2e10, rsc_fpops_bound=1e13, rsc_memory_bound=500e6)
INTERRUPTIONS = 20
STEPS = 5_000_000_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.mark.parametrize("make", [sunspots, folders])
def test_python_in_a_tab_gives_the_bytes_and_the_count_of_the_native_launcher(
    computing: Computing, tmp_path: Path, make: Callable[[Path], Example]
):
    example = make(tmp_path)
    program = Program(
        module=example.module,
        words=example.words,
        files=example.files,
        environment=example.environment,
        given=example.given,
        limits=LIMITS,
    )
    app = computing.app_of("python", program)
    page = computing.open()
    start(page)
    done(page, patience_ms=5 * PATIENCE_MS)
    in_tab = computing.counted_in_tabs()
    computing.compute_natively(computing.world.host(computing.world.user("alice")))
    assert computing.verdicts(app) == [(1, 1), (1, 1)]
    assert computing.counts == [in_tab]


def test_a_tab_that_is_closed_at_twenty_random_points_gives_the_bytes_and_the_count_of_a_straight_run(
    computing: Computing,
):
    app = computing.app("steps", steps(STEPS), LIMITS)
    page = computing.open()
    chance = random.Random(14)
    for _ in range(INTERRUPTIONS):
        start(page)
        keeps_checkpoint(page)
        page.wait_for_timeout(chance.uniform(0, 600))
        page.goto("about:blank")  # the tab is closed: its threads end, wherever they are
        assert (
            computing.world.value("SELECT COUNT(*) FROM result WHERE exit_status = 0 AND cpu_time > 0") == 0
        )
        page.goto(f"{computing.url}compute")
    start(page)
    done(page, patience_ms=5 * PATIENCE_MS)
    computing.compute_natively(computing.world.host(computing.world.user("alice")))
    assert computing.verdicts(app) == [(1, 1), (1, 1)]
    assert computing.counts == [computing.counted_in_tabs()]
