"""The two round-robin simulations of the published family, compiled as they are, with arrays instead of lists."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cobblestone.policy.client.published import round_robin

numpy: Any = import_module("numpy")  # Any: Numba has no types
numba: Any = import_module("numba")
extending: Any = import_module("numba.extending")

#: Functions that the simulations call; each is compiled into those that call it.
_helpers = (
    round_robin.rate_of, round_robin.line_up, round_robin.sort_in, round_robin.speed_up,
    round_robin.line_up_2007, round_robin.set_rates,
)  # fmt: skip
for _helper in _helpers:
    extending.register_jitable(error_model="numpy", forceinline=True)(_helper)


def _floats(count: int) -> Any:
    def array(count: int) -> Any:
        return numpy.zeros(count, numpy.float64)

    return array


def _whole_numbers(count: int, each: int) -> Any:
    def array(count: int, each: int) -> Any:
        found = numpy.empty(count, numpy.int64)
        for i in range(count):
            found[i] = each
        return found

    return array


def _first_least(values: Any) -> Any:
    def place(values: Any) -> Any:
        return values.argmin()

    return place


for _function, _instead in (
    (round_robin.floats, _floats),
    (round_robin.whole_numbers, _whole_numbers),
    (round_robin.first_least, _first_least),
):
    extending.overload(_function, strict=False, jit_options={"forceinline": True})(_instead)

#: Once per machine, with every rounding as written.
_cached: Any = numba.njit(cache=True, error_model="numpy")
run_down, run_down_2007 = _cached(round_robin.run_down), _cached(round_robin.run_down_2007)
