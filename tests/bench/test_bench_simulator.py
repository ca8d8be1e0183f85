"""The simulator is at least as fast as is asked for."""

from __future__ import annotations

from tests.bench import bench_simulator


def test_the_simulator_is_fast_enough() -> None:
    found = bench_simulator.figures()
    for name, value in found.items():
        print(f"{name:<50} {value:>8.2f} s of CPU")
    slow = {name: found[name] for name, ceiling in bench_simulator.CEILINGS.items() if found[name] > ceiling}
    assert slow == {}
