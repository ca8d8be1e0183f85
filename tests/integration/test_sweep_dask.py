"""The same grid on a local Dask cluster."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import pytest
from dask.distributed import LocalCluster

from cobblestone.domain.errors import CobblestoneError
from cobblestone.simulator.paper.cells import as_task, run_cell, slack_cell
from cobblestone.sweep.backends import open_backend
from cobblestone.sweep.grid import read_results, run_grid


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


def test_a_cluster_that_goes_away_ends_the_sweep_with_what_to_do_and_keeps_the_rest(tmp_path: Path) -> None:
    def end_after_one(done: int, _: int) -> None:
        if done:
            cluster.close()

    keep = tmp_path / "runs.jsonl"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0")
        backend = open_backend(cluster.scheduler_address.replace("tcp://", "dask://"))
        try:
            with pytest.raises(CobblestoneError, match=r"scheduler and workers run.*same command again"):
                run_grid(
                    time.sleep,
                    {"short": 0.0, "long": 60.0},
                    backend=backend,
                    keep=keep,
                    progress=end_after_one,
                )
        finally:
            backend.close()
    assert read_results(keep) == {"short": None}
