"""The doctor needs no more memory for a larger project."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from tests.bench.bench_whole import NOT_OF_ROWS, make_whole

from cobblestone.server.operation.doctor import CHECKS
from cobblestone.server.run import open_project
from cobblestone.store.engine import reading, spilled

HELD = 50  #: rows and entries that may be in memory, instead of many thousands


def _peaks(folder: Path, n: int) -> dict[str, int]:
    """Return the most bytes that each check takes beyond those that were there before."""
    make_whole(folder, n)
    peaks: dict[str, int] = {}
    tracemalloc.start()
    try:
        with open_project(folder) as ctx:
            for name, check in CHECKS.items():
                for turn in range(3):  # what stays for good comes the first time
                    before, _ = tracemalloc.get_traced_memory()
                    tracemalloc.reset_peak()
                    found = ctx.store.read(lambda db, check=check: check.look(ctx, db))
                    peak = tracemalloc.get_traced_memory()[1] - before
                    # Of two, the least: other threads of this process take memory, too.
                    peaks[name] = peak if turn < 2 else min(peak, peaks[name])
                    assert name in NOT_OF_ROWS or not found.findings, found.findings[:3]
                    assert name != "output_files" or len(found.findings) + found.more == n // 2
    finally:
        tracemalloc.stop()
    return peaks


def test_no_check_takes_more_memory_when_the_project_is_eight_times_as_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading, "PAGE", HELD)
    monkeypatch.setattr(reading, "PART", HELD)
    monkeypatch.setattr(spilled, "MAX_NEAR", HELD)
    few, many = _peaks(tmp_path / "few", 500), _peaks(tmp_path / "many", 4_000)
    grown = {name: (few[name], peak) for name, peak in many.items() if peak > 1.5 * few[name] + 50_000}
    assert not grown
