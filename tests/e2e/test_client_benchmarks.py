"""The two benchmarks: the module does what its sources say, on every CPU at once, and can be stopped."""

from __future__ import annotations

import asyncio
import ctypes
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest
import wasmtime

from cobblestone.client import benchmarks
from cobblestone.client.benchmarks import BenchmarkFailed, are_due, run_benchmarks

FOLDER = Path(benchmarks.__file__).parent
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def test_the_committed_module_computes_what_its_sources_compute(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    assert compiler
    library = tmp_path / "speed.so"
    sources = [FOLDER / "whetstone.c", FOLDER / "dhrystone.c"]
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-w", "-o", library, *sources, "-lm"], check=True)
    native = ctypes.CDLL(str(library))
    native.whetstone.restype = ctypes.c_double
    store = wasmtime.Store()
    module = wasmtime.Module(store.engine, (FOLDER / "speed.wasm").read_bytes())
    assert list(module.imports) == []
    exports = wasmtime.Instance(store, module, []).exports(store)
    for units in (1, 3, 50):
        for name in ("whetstone", "dhrystone"):
            function = exports[name]
            assert isinstance(function, wasmtime.Func)
            assert function(store, units) == pytest.approx(getattr(native, name)(units), rel=1e-9)


def test_all_cpus_are_measured_at_once() -> None:
    found = asyncio.run(run_benchmarks(2, ENVIRONMENT, cpu_seconds=0.7, clock=lambda: 1.8e9))
    assert (found.ncpus, found.at) == (2, 1.8e9)
    assert 1e8 < found.whetstone < 1e12
    assert 1e8 < found.dhrystone < 1e12


def test_a_measurement_that_is_cancelled_leaves_no_process() -> None:
    def children() -> list[psutil.Process]:
        return [
            each
            for each in psutil.Process().children(recursive=True)
            if "cobblestone.client.benchmarks.measure" in each.cmdline()
        ]

    async def begin_and_cancel() -> None:
        task = asyncio.create_task(run_benchmarks(2, ENVIRONMENT, cpu_seconds=60.0))
        async with asyncio.timeout(30):
            while len(children()) < 2:  # noqa: ASYNC110  # of other processes
                await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(begin_and_cancel())
    assert children() == []


def test_a_measurement_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", shutil.which("false") or "")
    with pytest.raises(BenchmarkFailed, match="could not be measured: it gave no message"):
        asyncio.run(run_benchmarks(1, ENVIRONMENT, cpu_seconds=0.1))


def test_they_are_due_for_new_hardware_and_every_five_days() -> None:
    day = 86400.0
    assert are_due(0.0, same_hardware=True, now=1.8e9)
    assert not are_due(1.8e9, same_hardware=True, now=1.8e9 + 4.9 * day)
    assert are_due(1.8e9, same_hardware=True, now=1.8e9 + 5 * day)
    assert are_due(1.8e9, same_hardware=False, now=1.8e9)
    assert are_due(1.8e9, same_hardware=True, now=1.8e9 - day)  # the clock was put back
