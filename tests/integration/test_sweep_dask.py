"""The same grid on a local Dask cluster."""

from __future__ import annotations

import warnings

from cobblestone.simulator.paper.cells import as_task, run_cell, slack_cell
from cobblestone.sweep.backends import open_backend
from cobblestone.sweep.grid import run_grid


def test_a_dask_cluster_gives_what_the_process_pool_gives() -> None:
    task = as_task(slack_cell(5.0, "CS2_WF2_WS2_JC2", "corrected"), 1)
    found: list[dict[str, object]] = []
    for scheduler in ("", "dask://local"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Dask's own, about ports and unclosed sockets
            backend = open_backend(scheduler, workers=1)
            try:
                found.append(run_grid(run_cell, {"one": task}, backend=backend))
            finally:
                backend.close()
    assert found[0] == found[1]
