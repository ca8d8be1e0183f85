"""Wine, the programs for it, and a slot on Windows."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.helpers.wasm_slot import CHECKPOINT_INSTRUCTIONS

from cobblestone.launcher.packing import DESCRIPTION_FILE, wasm_description
from cobblestone.sdk.wasm import toolchain

HERE = Path(__file__).parent
PLATFORM = "windows_x86_64"
FLAGS = ["-target", "x86_64-windows-gnu", "-O1", "-s"]


@pytest.fixture(scope="session")
def wine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of wine, with a prefix of its own."""
    assert shutil.which("wine"), "these tests need wine: apt-get install wine64 wine"
    prefix = tmp_path_factory.mktemp("wine") / "prefix"
    environment = {**os.environ, "WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "LC_ALL": "C.UTF-8"}
    subprocess.run(["wine", "wineboot", "-i"], env=environment, check=True, capture_output=True, timeout=300)
    return environment


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the launcher, the runtime, the stand-in, and what wine lacks."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / toolchain.launcher_name(PLATFORM)).write_bytes(toolchain.launcher(PLATFORM))
    (folder / toolchain.library_name(PLATFORM)).write_bytes(toolchain.library(PLATFORM))
    for output, source, more in (
        ("client_side.exe", "client_side.c", []),
        ("bcryptprimitives.dll", "bcryptprimitives.c", ["-shared", "-ladvapi32"]),
    ):
        words = [*toolchain.zig(), "cc", *FLAGS, *more, "-o", str(folder / output), str(HERE / source)]
        toolchain.run_compiler(words, folder, source)
    return folder


class Windows:
    """A slot below a folder with a space and an umlaut."""

    def __init__(self, root: Path, programs: Path, wine: dict[str, str]) -> None:
        self.root, self.wine = root / "Büro und mehr", wine
        self.project, self.slot = self.root / "projects" / "sky", self.root / "slots" / "0"
        self.slot.mkdir(parents=True)
        shutil.copytree(programs, self.project)

    def run(
        self,
        code: bytes,
        *steps: str,
        init: str = "",
        options: str = "--output output=output",
        words: Sequence[str] = ("program",),
        files: Mapping[str, bytes] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Run a job with the client's side doing these steps; return what that prints."""
        name = "program.wasm"
        (self.project / name).write_bytes(code)
        for each, target in ((name, name), ("wasmtime_library", toolchain.library_name(PLATFORM))):
            (self.slot / each).write_text(f"<soft_link>../../projects/sky/{target}</soft_link>\n")
        text = wasm_description(
            words,
            module=name,
            module_sha256=hashlib.sha256(code).hexdigest(),
            native_sha256=[toolchain.expected_hashes()[toolchain.library_name(PLATFORM)]],
            files=files,
            environment=environment,
            checkpoint_instructions=CHECKPOINT_INSTRUCTIONS,
        )
        (self.slot / DESCRIPTION_FILE).write_bytes(text)
        for each, data in (files or {}).items():
            (self.slot / each).write_bytes(data)
        return self.start(options, *steps, init=init)

    def start(self, options: str, *steps: str, init: str = "") -> str:
        """Start the launcher in the slot as it is, with the client's side doing these steps; return what that prints."""
        (self.slot / "init_data.xml").write_text(
            f"<app_init_data><wu_name>wu_1</wu_name><comm_obj_name>boinc_0</comm_obj_name>{init}</app_init_data>"
        )
        launcher = self.project / toolchain.launcher_name(PLATFORM)
        command = [
            "wine",
            str(self.project / "client_side.exe"),
            f"Z:{launcher}",
            f"Z:{self.slot}",
            options,
            *steps,
        ]
        done = subprocess.run(
            command, env=self.wine, capture_output=True, text=True, check=False, timeout=1900
        )
        assert done.returncode == 0, done.stdout + self.stderr()
        return done.stdout

    def stderr(self) -> str:
        path = self.slot / "stderr.txt"
        return path.read_text(errors="replace") if path.exists() else ""


@pytest.fixture
def windows(tmp_path: Path, programs: Path, wine: dict[str, str]) -> Windows:
    return Windows(tmp_path, programs, wine)
