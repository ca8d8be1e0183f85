"""The compiled form of a module, made with the app where the runtime can: volunteers' computers need not compile it.

wasmtime's library compiles for the system and the kind of processor that it runs on.  So the platform of the scientist's own
machine gets a compiled form, and others compile the module once per computer.
"""

from __future__ import annotations

import platform as system
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cobblestone.domain.errors import JobError
from cobblestone.sdk import wasm_toolchain as toolchain

COMPILE_SECONDS = 900
_OWN = {
    ("linux", "x86_64"): ("x86_64-pc-linux-gnu", "x86_64-unknown-linux-gnu"),
    ("linux", "aarch64"): ("aarch64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"),
    ("darwin", "x86_64"): ("x86_64-apple-darwin", "x86_64-apple-darwin"),
    ("darwin", "arm64"): ("arm64-apple-darwin", "aarch64-apple-darwin"),
}
"""Platform and the compiler's name for it, by system and processor."""


def compiled_modules(name: str, module: bytes, platforms: Sequence[str]) -> dict[str, bytes]:
    """Return the compiled form of a module by platform, as the launcher loads it.

    Raises:
        JobError: the runtime refuses the module; the text says why.
    """
    own, triple = _OWN.get((sys.platform, system.machine()), ("", ""))
    if own not in platforms:
        return {}
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as temporary:
        folder = Path(temporary)
        launcher, library, target = folder / "launcher", folder / "library", folder / "compiled"
        source = folder / "module"
        launcher.write_bytes(toolchain.launcher(own))
        launcher.chmod(0o755)
        library.write_bytes(toolchain.library(own))
        source.write_bytes(module)
        words = [str(launcher), "--compile", triple, str(library), str(source), str(target)]
        try:
            done = subprocess.run(
                words,
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=COMPILE_SECONDS,
            )
        except OSError:  # made for another C library than this system's
            return {}
        if "the module cannot be used" in done.stderr:
            raise JobError(f"{name}: {done.stderr.strip().removeprefix('cobblestone: ')[-1000:]}")
        return {own: target.read_bytes()} if done.returncode == 0 else {}
