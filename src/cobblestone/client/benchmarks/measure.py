"""One CPU's measurement, in a separate process: ``python -m cobblestone.client.benchmarks.measure SECONDS``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

MODULE = "speed.wasm"
WHETSTONES_PER_UNIT = 100_000.0
#: What a VAX 11/780, the computer of one MIPS, did.
VAX_DHRYSTONES_PER_SECOND = 1757.0
MIPS = 1e6


def measure(seconds: float, clock: Callable[[], float] = time.process_time) -> dict[str, float]:
    """Run both benchmarks for ``seconds`` of CPU time each; return operations per second in BOINC's units."""
    import wasmtime  # an extra

    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    binary = Path(__file__).with_name(MODULE).read_bytes()
    instance = wasmtime.Instance(store, wasmtime.Module(engine, binary), [])
    exports = instance.exports(store)

    def rate(name: str) -> float:
        function = exports[name]
        if not isinstance(function, wasmtime.Func):
            raise TypeError(f"{MODULE} has no function {name}")
        count, best = 100, 0.0
        end = clock() + seconds
        while clock() < end:
            began = clock()
            function(store, count)
            used = clock() - began
            if used > 0.2:
                best = max(best, count / used)
            else:
                count *= 2
        return best

    return {
        "whetstone": rate("whetstone") * WHETSTONES_PER_UNIT,
        "dhrystone": rate("dhrystone") / VAX_DHRYSTONES_PER_SECOND * MIPS,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(float(sys.argv[1]))))
