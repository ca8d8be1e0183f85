"""The client's identification on the wire."""

from __future__ import annotations

import platform

#: The client of the family whose messages this one writes; servers choose by it what they send.
VERSION = (7, 20, 5)
VERSION_NUMBER = 10000 * VERSION[0] + 100 * VERSION[1] + VERSION[2]
VERSION_TEXT = ".".join(map(str, VERSION))
BRAND = "cobblestone"

_PLATFORMS = {
    ("Linux", "x86_64"): ("x86_64-pc-linux-gnu", "i686-pc-linux-gnu"),
    ("Linux", "i686"): ("i686-pc-linux-gnu",),
    ("Linux", "aarch64"): ("aarch64-unknown-linux-gnu",),
    ("Linux", "armv7l"): ("arm-unknown-linux-gnueabihf",),
    ("Linux", "riscv64"): ("riscv64-unknown-linux-gnu",),
    ("Linux", "ppc64le"): ("powerpc64le-unknown-linux-gnu",),
    ("Darwin", "arm64"): ("arm64-apple-darwin", "x86_64-apple-darwin"),
    ("Darwin", "x86_64"): ("x86_64-apple-darwin",),
    ("FreeBSD", "amd64"): ("x86_64-pc-freebsd__FreeBSD",),
}


def platforms(system: str = "", machine: str = "") -> tuple[str, ...]:
    """Return BOINC's names of the platforms that run here, best first; 32-bit programs only if their loader exists."""
    system, machine = system or platform.system(), machine or platform.machine()
    names = _PLATFORMS.get((system, machine), (f"{machine}-unknown-{system.lower()}",))
    if names[0] == "x86_64-pc-linux-gnu" and not _runs_32_bits():
        return names[:1]
    return names


def _runs_32_bits() -> bool:
    from pathlib import Path

    return Path("/lib/ld-linux.so.2").exists()


def user_agent() -> str:
    """Return the name in HTTP requests, in BOINC's format."""
    return f"BOINC client ({platforms()[0]} {VERSION_TEXT})"
