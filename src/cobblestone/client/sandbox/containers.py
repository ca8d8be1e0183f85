"""Detection of container engines, by running a container through the launcher of container jobs."""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path

from cobblestone.client.sandbox.sandbox import SYSTEM_PATH
from cobblestone.client.sandbox.slot_files import JobAccount
from cobblestone.launcher import APP_FILE, app_description, launcher_bytes
from cobblestone.launcher.cobblestone_runtime import ENGINES
from cobblestone.launcher.packing import IMAGE_FILE, pack_layers

#: Folder of the data directory that is the home of Podman: its images and containers lie there.
CONTAINERS_FOLDER = "containers"
_TYPES = {"docker": 1, "podman": 2}  # as the family's clients write them
_TRIAL_SECONDS = 180
#: Architecture of the image, of the program, and the program in hexadecimal: exit(0).
_MACHINES = {
    "x86_64": ("amd64", 62, "31ffb83c0000000f05"),
    "aarch64": ("arm64", 183, "a80b8052000080d2010000d4"),
}


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """The container engine of this computer, if there is one."""

    version: str = ""  #: empty: nothing
    type: int = 0
    report: tuple[str, ...] = ()  #: sentences for the event log


def find_engine(
    data_dir: Path, account: JobAccount | None, environment: Mapping[str, str]
) -> ContainerEngine:
    """Look for Podman or Docker, and run a container with only a program that ends."""
    path = environment.get("PATH", SYSTEM_PATH)
    name = next((each for each in ENGINES if shutil.which(each, path=path)), "")
    if not name or platform.machine() not in _MACHINES:
        return ContainerEngine()
    try:
        version, problem = _run_one(name, data_dir, account, {"PATH": path})
    except (OSError, subprocess.SubprocessError) as error:
        version, problem = "", str(error)
    if problem:
        return ContainerEngine(
            report=(f"No jobs in containers: {name} is installed, but cannot run one ({problem}).",)
        )
    return ContainerEngine(version, _TYPES[name], (f"Jobs in containers: {name} {version}",))


def _run_one(
    name: str, data_dir: Path, account: JobAccount | None, environment: Mapping[str, str]
) -> tuple[str, str]:
    """Return the engine's version, and the error."""
    home, owner = open_home(data_dir, account), _owner(account)
    with tempfile.TemporaryDirectory(dir=data_dir, prefix="containers-") as temporary:
        folder = Path(temporary)
        lay_out_trial(folder)
        for each in (folder, *folder.iterdir()):
            os.chown(each, *owner)
        run = partial(_run, folder, home, account, environment)
        version = re.search(r"\d{1,9}\.[\w.\-+~]+", run(name, "--version").stdout)
        done = run(str(folder / "launcher"))
    problem = "" if done.returncode == 0 else (done.stderr.strip() or f"exit status {done.returncode}")[-300:]
    return version[0] if version else "unknown", problem


def open_home(data_dir: Path, account: JobAccount | None) -> Path:
    """Return the folder of images and containers; created if missing."""
    home = data_dir / CONTAINERS_FOLDER
    home.mkdir(mode=0o700, exist_ok=True)
    os.chown(home, *_owner(account))
    return home


def empty_home(home: Path, account: JobAccount | None, environment: Mapping[str, str]) -> None:
    """Have Podman remove its images: their files may belong to accounts that only Podman can use."""
    path = environment.get("PATH", SYSTEM_PATH)
    if podman := shutil.which("podman", path=path):
        with suppress(OSError, subprocess.SubprocessError):  # the account may have none
            _run(home, home, account, {"PATH": path}, podman, "rmi", "--all", "--force")


def _run(
    folder: Path, home: Path, account: JobAccount | None, environment: Mapping[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=folder,
        env={**environment, "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=_TRIAL_SECONDS,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=() if account else None,
    )


def _owner(account: JobAccount | None) -> tuple[int, int]:
    return (account.uid, account.gid) if account else (os.geteuid(), os.getegid())


def lay_out_trial(folder: Path) -> None:
    """Create a container job in a folder."""
    architecture, machine, code = _MACHINES[platform.machine()]
    layer = folder / "layer.tar"
    with tarfile.open(layer, "w") as archive:
        program = tarfile.TarInfo("end")
        data = _program(machine, bytes.fromhex(code))
        program.size, program.mode = len(data), 0o755
        archive.addfile(program, BytesIO(data))
    image = pack_layers([layer], architecture, folder)
    image.path.rename(folder / IMAGE_FILE)
    (folder / APP_FILE).write_bytes(app_description(["/end"], container=image.description))
    (folder / "launcher").write_bytes(launcher_bytes())
    (folder / "launcher").chmod(0o755)


def _program(machine: int, code: bytes) -> bytes:
    """Return a minimal executable for Linux (ELF-64: header, one program header, code)."""
    base, head = 0x400000, 64 + 56
    size = head + len(code)
    elf = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, machine, 1, base + head, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    return elf + struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000) + code
