"""Compile the native launcher for all platforms, and note its hashes: ``make launchers``; ``--check`` only compares.

The hashes of the libraries in the wheels that ``native/wheels.txt`` names are noted along, and that of the sources.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import zipfile
from pathlib import Path

from cobblestone.launcher.packing import HEADER, NATIVE_FOLDER, SOURCES
from cobblestone.sdk.packing.wasm_package import PYTHON_MODULE, fetch_python
from cobblestone.sdk.wasm import toolchain


def main(check: bool) -> int:
    """Return the exit status."""
    files = {
        f"native/{name}": (NATIVE_FOLDER / name).read_bytes() for name in (*SOURCES, HEADER, "wheels.txt")
    }
    for platform, target in toolchain.TARGETS.items():
        files[toolchain.launcher_name(platform)] = toolchain.compile_launcher(platform, say=print)
        with tempfile.TemporaryDirectory() as folder:
            wheel = toolchain.fetch_wheel("wasmtime", Path(folder), tag=target.wheel)
            files[toolchain.library_name(platform)] = zipfile.ZipFile(wheel).read(target.library)
    files[PYTHON_MODULE] = fetch_python()
    text = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    for line in text.splitlines():
        print(line)
    if check:
        return int(text != toolchain.SUMS_FILE.read_text(encoding="ascii"))
    toolchain.SUMS_FILE.write_text(text, encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
