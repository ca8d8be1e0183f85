"""Credit is computed at least as fast as is asked for."""

from __future__ import annotations

from tests.bench import bench_credit


def test_credit_is_computed_fast_enough() -> None:
    found = bench_credit.figures()
    for name, value in found.items():
        print(f"{name:<50} {value:>14,.0f} /s")
    slow = {name: found[name] for name, floor in bench_credit.FLOORS.items() if found[name] < floor}
    assert slow == {}
