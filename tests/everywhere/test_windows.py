"""The launcher for Windows under wine, against a stand-in of the client's side; not part of ``make test``: ``make everywhere``.

It needs wine (Debian: ``apt-get install wine64``), and the cross compiler and the runtimes that ``cobblestone app create --wasm``
fetches (150 MB, once).
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.everywhere.conftest import PLATFORM, Windows
from tests.helpers.wasm_slot import COPY, FOREVER, STEPS, WasmSlot, module, open_wasm_slot, steps

from cobblestone.sdk import wasm_toolchain as toolchain

#: Some seconds.
LONG = steps(1_500_000_000)
#: Some floating point whose bits differ where engines do: sums, roots, divisions, minima, conversions, NaN.
TORTURE = module(
    """(local $i i64) (local $x f64)
    (local.set $x (f64.const 0.1))
    (loop $next
      (local.set $x (f64.add (f64.sqrt (f64.abs (f64.sub (f64.mul (local.get $x) (f64.const 3.7)) (f64.const 1e-300))))
        (f64.div (local.get $x) (f64.convert_i64_s (local.get $i)))))
      (local.set $x (f64.promote_f32 (f32.demote_f64 (f64.min (local.get $x) (f64.const 1e30)))))
      (f64.store (i32.add (i32.const 8192) (i32.mul (i32.const 8) (i32.and (i32.wrap_i64 (local.get $i)) (i32.const 1023))))
        (f64.copysign (f64.nearest (f64.mul (local.get $x) (f64.const 1e6))) (local.get $x)))
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (br_if $next (i64.lt_u (local.get $i) (i64.const 1000000))))
    (call $save @out (i32.const 8192) (i32.const 8192))""",
    out="output",
)


@pytest.mark.parametrize("code", [STEPS, TORTURE], ids=["steps", "torture"])
def test_bytes_and_count_are_those_of_linux(windows: Windows, tmp_path: Path, code: bytes):
    (tmp_path / "linux").mkdir()
    with open_wasm_slot(tmp_path / "linux") as linux:
        assert linux.run_module(code) == 0
        expected, counted = (linux.folder / "output").read_bytes(), count(linux.read("stderr.txt"))
    assert "ended with 0" in windows.run(code, "end")
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


def test_a_job_begun_on_windows_is_continued_on_linux_with_the_same_bytes(windows: Windows, tmp_path: Path):
    (tmp_path / "linux").mkdir()
    with open_wasm_slot(tmp_path / "linux") as linux:
        assert linux.run_module(LONG) == 0
        expected = (linux.folder / "output").read_bytes()
    init = "<checkpoint_period>0.01</checkpoint_period>"
    assert "ended with 0" in windows.run(LONG, "working", "send=<quit/>", "end", init=init)
    state = windows.slot / "job_files" / "state"
    assert state.exists()
    assert not (windows.slot / "output").exists()
    (tmp_path / "further").mkdir()
    with open_wasm_slot(tmp_path / "further") as linux:
        continued(linux, state)
        assert (linux.folder / "output").read_bytes() == expected


def continued(linux: WasmSlot, state: Path) -> None:
    linux.room.mkdir()
    shutil.copyfile(state, linux.room / "state")
    assert linux.run_module(LONG) == 0


def test_a_failure_is_told_in_words_and_shows_no_window(windows: Windows):
    assert "ended with 134" in windows.run(module("(unreachable)"), "end")
    assert "the module failed: wasm trap" in windows.stderr()
    head = (windows.project / toolchain.launcher_name(PLATFORM)).read_bytes()[:1024]
    start = int.from_bytes(head[60:64], "little")
    assert int.from_bytes(head[start + 24 + 68 : start + 24 + 70], "little") == 2, (
        "a program without a console"
    )
