"""BOINC's two benchmarks, Whetstone and Dhrystone, on every CPU at once.

Their C sources stand beside this module, with the WebAssembly module made of them (``make benchmarks`` builds it again): it runs
at nearly the speed of native code, and its bytes are the same for every client.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from cobblestone.domain.errors import CobblestoneError
from cobblestone.ops.environment import Clock, system_clock

#: Benchmarks are run again after so long, as in the family.
PERIOD_SECONDS = 5 * 86400.0
#: CPU time for each of the two.
CPU_SECONDS = 10.0
START_SECONDS = 20.0
#: The two together may take so many times the CPU time of one: jobs pause meanwhile, and of a busy
#: computer the figures would be wrong.
PATIENCE = 8.0


class BenchmarkFailed(CobblestoneError):
    """The computer's speed could not be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult:
    """The mean speed of one CPU while all are busy."""

    whetstone: float  #: floating-point operations per second
    dhrystone: float  #: integer operations per second
    ncpus: int
    at: float  #: Unix seconds


def are_due(at: float, *, same_hardware: bool, now: float) -> bool:
    """Return whether to measure again: never done, done for other hardware, long ago, or in what is now the future."""
    return not (same_hardware and 0.0 <= now - at < PERIOD_SECONDS)


async def run_benchmarks(
    ncpus: int,
    environment: Mapping[str, str],
    *,
    cpu_seconds: float = CPU_SECONDS,
    clock: Clock = system_clock,
) -> BenchmarkResult:
    """Measure on ``ncpus`` CPUs at once.  Jobs should be paused meanwhile.  Raises BenchmarkFailed; may be cancelled."""
    tasks = [asyncio.create_task(_measure(cpu_seconds, environment)) for _ in range(ncpus)]
    try:
        async with asyncio.timeout(START_SECONDS + PATIENCE * cpu_seconds):
            found = await asyncio.gather(*tasks)
    except TimeoutError:
        raise BenchmarkFailed("The benchmarks did not end in time: the computer is too busy.") from None
    finally:
        for task in tasks:
            if not task.cancelling():  # a second order would interrupt its cleaning up
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return BenchmarkResult(
        whetstone=sum(one for one, _ in found) / ncpus,
        dhrystone=sum(other for _, other in found) / ncpus,
        ncpus=ncpus,
        at=clock(),
    )


async def _measure(cpu_seconds: float, environment: Mapping[str, str]) -> tuple[float, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "cobblestone.client.benchmarks.measure",
        str(cpu_seconds),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(environment),
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    try:
        found = json.loads(output)
        speeds = float(found["whetstone"]), float(found["dhrystone"])
    except (ValueError, KeyError, TypeError):
        last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["it gave no message"]
        raise BenchmarkFailed(f"The computer's speed could not be measured: {last[0]}.") from None
    if not all(math.isfinite(speed) and speed > 0 for speed in speeds):
        raise BenchmarkFailed(f"The benchmarks gave {speeds}, which is not a valid speed.")
    return speeds
