"""The launcher for Windows under wine, against a stand-in of the client's side; not part of ``make test``: ``make everywhere``.

It needs wine (Debian: ``apt-get install wine64``), and the cross compiler and the runtimes that ``cobblestone app create --wasm``
fetches (150 MB, once).
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from tests.everywhere.conftest import PLATFORM, Windows
from tests.helpers.float_torture import float_torture
from tests.helpers.launcher_slot import until
from tests.helpers.wasm_slot import COPY, FOREVER, STEPS, WasmSlot, module, open_wasm_slot, steps

from cobblestone.sdk.wasm import toolchain
from cobblestone.sdk.wasm.one_nan import with_one_nan

#: Some seconds.
LONG = steps(2_500_000_000)
#: Every floating-point instruction on the hardest numbers, as volunteers get it.
TORTURE = with_one_nan(float_torture())
MEMORY = 64_000_000


@pytest.mark.parametrize("code", [STEPS, TORTURE], ids=["steps", "torture"])
def test_bytes_and_count_are_those_of_linux(windows: Windows, tmp_path: Path, code: bytes):
    (tmp_path / "linux").mkdir()
    with open_wasm_slot(tmp_path / "linux") as linux:
        linux.write_bounds(memory_bound=MEMORY)
        assert linux.run_module(code) == 0
        expected, counted = (linux.folder / "output").read_bytes(), count(linux.read("stderr.txt"))
    bound = f"<rsc_memory_bound>{MEMORY}</rsc_memory_bound>"
    assert "ended with 0" in windows.run(code, "end", init=bound)
    assert (windows.slot / "output").read_bytes() == expected
    assert count(windows.stderr()) == counted
    assert (windows.slot / "boinc_finish_called").read_bytes().strip() == b"0"


def count(stderr: str) -> int:
    found = re.search(r"(\d+) instructions counted", stderr)
    assert found, stderr
    return int(found[1])


def test_an_input_is_read(windows: Windows):
    (windows.slot / "input").write_text("over there")
    assert "ended with 0" in windows.run(COPY, "end", options="--input input=input --output output=output")
    assert (windows.slot / "output").read_text() == "over there"


def test_suspend_resume_and_abort(windows: Windows):
    steps = [
        "working",
        "status",
        "status",
        "send=<suspend/>",
        "silence",
        "send=<resume/>",
        "status",
        "heartbeat",
    ]
    told = windows.run(FOREVER, *steps, "send=<abort/>", "end")
    assert "ended with 194" in told
    assert not (windows.slot / "boinc_finish_called").exists()
    first, second, before, after, *_ = map(int, re.findall(r"<intops_cumulative>(\d+)<", told))
    assert first < second < before < after
    half_second = second - first
    assert after - before < 6 * half_second, "it stood still for more than five seconds"


def test_a_job_interrupted_at_twenty_points_of_two_systems_gives_the_same_bytes_and_count(
    windows: Windows, tmp_path: Path
):
    """Every other part is computed on the other system; some end with a power cut."""
    (tmp_path / "linux").mkdir()
    (tmp_path / "further").mkdir()
    rng = random.Random(20)
    with open_wasm_slot(tmp_path / "linux") as straight:
        straight.lay_out(LONG)
        straight.start_module()
        assert straight.wait(300) == 0
        expected, counted = (straight.folder / "output").read_bytes(), straight.counted
    with open_wasm_slot(tmp_path / "further") as linux:
        linux.write_bounds()
        linux.lay_out(LONG)
        for number in range(20):
            wait, power_cut = rng.uniform(0, 0.1), rng.random() < 0.2
            if number % 2:
                move_state(linux.folder, windows.slot)
                step = "kill" if power_cut else "send=<quit/>"
                windows.run(LONG, "working", f"sleep={1000 * wait:.0f}", step, "end")
            else:
                move_state(windows.slot, linux.folder)
                interrupt(linux, wait, signal.SIGKILL if power_cut else signal.SIGTERM)
            assert not (windows.slot / "output").exists(), "it must not be ready before the end"
            assert not (linux.folder / "output").exists(), "it must not be ready before the end"
        move_state(windows.slot, linux.folder)
        assert (linux.room / "state").exists()
        linux.start_module()
        assert linux.wait(300) == 0
        assert (linux.folder / "output").read_bytes() == expected
        assert linux.counted == counted


def interrupt(slot: WasmSlot, seconds: float, number: signal.Signals) -> None:
    """Start the module, and end the launcher so much after it has begun to work."""
    begun = slot.room / "cobblestone_checkpoints"
    begun.unlink(missing_ok=True)
    process = slot.start_module()
    until(begun.exists)
    time.sleep(seconds)
    process.send_signal(number)
    process.wait(60)


def move_state(source: Path, target: Path) -> None:
    """Bring the module's folder and what is kept of its checkpoints to the other system."""
    for path in target.glob("job_files*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in source.glob("job_files*"):
        shutil.move(path, target / path.name)


def test_a_failure_is_told_in_words_and_shows_no_window(windows: Windows):
    assert "ended with 134" in windows.run(module("(unreachable)"), "end")
    assert "the module failed: wasm trap" in windows.stderr()
    head = (windows.project / toolchain.launcher_name(PLATFORM)).read_bytes()[:1024]
    start = int.from_bytes(head[60:64], "little")
    assert int.from_bytes(head[start + 24 + 68 : start + 24 + 70], "little") == 2, (
        "a program without a console"
    )
