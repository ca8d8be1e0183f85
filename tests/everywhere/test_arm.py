"""The launcher for Linux on ARM, emulated by qemu; needs Debian's qemu-user-static, libc6-arm64-cross, libgcc-s1-arm64-cross."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from tests.everywhere.test_windows import MEMORY, TORTURE, count
from tests.helpers.wasm_slot import STEPS, WasmSlot, open_wasm_slot

from cobblestone.launcher.packing import DESCRIPTION_FILE, LIBRARY_NAME, wasm_description
from cobblestone.sdk.wasm import toolchain

PLATFORM = "aarch64-unknown-linux-gnu"
ROOT = "/usr/aarch64-linux-gnu"


def run_on_arm(slot: WasmSlot, code: bytes) -> int:
    """Run a module by the launcher for ARM; its exit status."""
    slot.lay_out(code)
    library = toolchain.library(PLATFORM)
    (slot.project / "arm.so").write_bytes(library)
    slot.link(LIBRARY_NAME, "arm.so")
    text = wasm_description(
        ["program"],
        module="program.wasm",
        module_sha256=hashlib.sha256(code).hexdigest(),
        native_sha256=[hashlib.sha256(library).hexdigest()],
    )
    (slot.folder / DESCRIPTION_FILE).write_bytes(text)
    program = slot.project / "launcher"
    program.write_bytes(toolchain.launcher(PLATFORM))
    program.chmod(0o755)
    with (slot.folder / "stderr.txt").open("ab") as stderr:
        words = ["qemu-aarch64-static", "-L", ROOT, str(program), "--output", "output=output"]
        return subprocess.run(words, cwd=slot.folder, stderr=stderr, check=False, timeout=500).returncode


@pytest.mark.parametrize("code", [STEPS, TORTURE], ids=["steps", "torture"])
def test_bytes_and_count_are_those_of_the_other_processor(tmp_path: Path, code: bytes):
    (tmp_path / "here").mkdir()
    (tmp_path / "arm").mkdir()
    with open_wasm_slot(tmp_path / "here") as here, open_wasm_slot(tmp_path / "arm") as arm:
        for slot in (here, arm):
            slot.write_bounds(memory_bound=MEMORY)
        assert here.run_module(code) == 0
        assert run_on_arm(arm, code) == 0, arm.read("stderr.txt")
        assert (arm.folder / "output").read_bytes() == (here.folder / "output").read_bytes()
        assert count(arm.read("stderr.txt")) == count(here.read("stderr.txt"))
