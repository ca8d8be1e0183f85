"""Grids of runs: complete, resumable, the same on every backend."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from weakref import WeakSet

import pytest

from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.simulator.report.statistics import estimate
from cobblestone.sweep.backends import open_backend
from cobblestone.sweep.grid import read_results, run_grid


def double(number: int) -> int:
    return 2 * number


def fail(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


def die(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_every_task_is_run_and_kept(tmp_path: Path) -> None:
    keep = tmp_path / "runs.jsonl"
    backend = open_backend(workers=1)
    try:
        found = run_grid(double, {str(i): i for i in range(5)}, backend=backend, keep=keep)
    finally:
        backend.close()
    assert found == {str(i): 2 * i for i in range(5)} == read_results(keep)


def test_an_interrupted_sweep_keeps_what_it_has_and_goes_on(tmp_path: Path) -> None:
    keep = tmp_path / "runs.jsonl"
    keep.write_text('{"key": "1", "result": 77}\n{"key": "2", "resu', encoding="utf-8")
    seen: list[tuple[int, int]] = []
    backend = open_backend(workers=1)
    try:
        found = run_grid(
            double, {"1": 1, "2": 2}, backend=backend, keep=keep, progress=lambda a, b: seen.append((a, b))
        )
    finally:
        backend.close()
    assert found == {"1": 77, "2": 4}
    assert seen == [(1, 2), (2, 2)]
    assert read_results(keep) == {"1": 77, "2": 4}


def test_results_of_other_code_are_not_used(tmp_path: Path) -> None:
    keep = tmp_path / "runs.jsonl"
    keep.write_text(
        '{"key": "1", "code": "old", "result": 77}\n{"key": "1", "result": 78}\n[1]\n', encoding="utf-8"
    )
    backend = open_backend(workers=1)
    try:
        assert run_grid(double, {"1": 1}, backend=backend, keep=keep, code="new") == {"1": 2}
        assert run_grid(fail, {"1": 3}, backend=backend, keep=keep, code="new") == {"1": 2}
    finally:
        backend.close()
    assert read_results(keep, code="old") == {"1": 77}
    assert read_results(keep, code="new") == {"1": 2}


def test_results_before_a_failure_are_kept(tmp_path: Path) -> None:
    keep = tmp_path / "runs.jsonl"
    backend = open_backend(workers=1)
    try:
        with pytest.raises(ValueError, match="three"):
            run_grid(fail, {str(i): i for i in range(1, 4)}, backend=backend, keep=keep)
    finally:
        backend.close()
    assert set(read_results(keep)) <= {"1", "2"}


class Here:
    """Runs everything in this process, and counts the futures that somebody still holds."""

    def __init__(self) -> None:
        self.held: WeakSet[Future[int]] = WeakSet()

    def submit(self, function: Callable[[int], int], argument: int) -> Future[int]:
        future: Future[int] = Future()
        future.set_result(function(argument))
        self.held.add(future)
        return future

    def as_completed(self, futures: Iterable[Future[int]]) -> Iterator[tuple[Future[int], int]]:
        waiting = list(futures)
        while waiting:
            future = waiting.pop()
            yield future, future.result()

    def close(self) -> None:
        pass


def test_a_result_that_was_fetched_is_let_go() -> None:
    backend = Here()
    held: list[int] = []
    run_grid(
        double,
        {str(i): i for i in range(4)},
        backend=backend,
        progress=lambda done, _: held.append(len(backend.held)) if done else None,
    )
    assert held == [4, 3, 2, 1]


@pytest.mark.parametrize("address", ["slurm://here", "dask://here", "dask://here:port"])
def test_an_unknown_scheduler_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="dask://host:port"):
        open_backend(address)


def test_a_worker_that_is_killed_ends_the_sweep_with_what_to_do_and_keeps_the_rest(tmp_path: Path) -> None:
    keep = tmp_path / "runs.jsonl"
    backend = open_backend(workers=1)
    try:
        with pytest.raises(CobblestoneError, match=r"killed\..*--workers.*same command again"):
            run_grid(die, {str(i): i for i in range(1, 4)}, backend=backend, keep=keep)
    finally:
        backend.close()
    assert read_results(keep) == {"1": 1, "2": 2}


def test_the_interval_is_students() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert (found.mean, found.half_width) == (pytest.approx(2.0), pytest.approx(4.303 / 3**0.5, rel=1e-3))
    assert estimate([5.0]).half_width == 0.0


def test_what_is_no_result_is_passed_over_whatever_its_bytes(tmp_path: Path) -> None:
    keep = tmp_path / "kept.jsonl"
    keep.write_bytes(b'\xda\xff\x00\n{"key": "1", "result": 2}\n[1]\n{"key": "2", "res')
    assert read_results(keep) == {"1": 2}
