"""The scheduler and the whole pipeline under load; see bench_server.py, which is also a program."""

from __future__ import annotations

from tests.bench import bench_server


def test_scheduler_and_pipeline() -> None:
    rows = bench_server.all_rows(seconds=5.0, connections=6)
    bench_server.show(rows)
    assert all(row.rate > 0 for row in rows)
