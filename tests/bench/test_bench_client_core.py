"""The client's core decides as fast as is asked for."""

from __future__ import annotations

from tests.bench import bench_client_core


def test_the_core_decides_fast_enough() -> None:
    found = bench_client_core.figures()
    for name, value in found.items():
        print(f"{name:<50} {value:>8.2f} ms of CPU")
    slow = {
        name: found[name] for name, ceiling in bench_client_core.CEILINGS.items() if found[name] > ceiling
    }
    assert slow == {}
