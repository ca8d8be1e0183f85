"""Platforms by the names that clients send, and which of them can start a program, as its first bytes tell.

Sources: the ELF specification (``e_ident``, ``e_machine``), Microsoft's PE format, Apple's ``mach-o/loader.h`` and ``fat.h``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

LINUX = (
    "x86_64-pc-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "arm-unknown-linux-gnueabihf",
    "i686-pc-linux-gnu",
)
WINDOWS = ("windows_x86_64", "windows_arm64", "windows_intelx86")
APPLE = ("x86_64-apple-darwin", "arm64-apple-darwin")
OTHERS = ("aarch64-android-linux-gnu", "x86_64-pc-freebsd")
PLATFORMS = (*LINUX, *WINDOWS, *APPLE, *OTHERS)
"""The usual ones; a project may use any name that a client sends."""
POSIX = (*LINUX, *APPLE, "x86_64-pc-freebsd")
"""Those that start a script by its first line, and have a shell."""


def starts_scripts(platform: str) -> bool:
    """Whether clients of a platform start a script by its first line, as they must to run the launcher of commands.

    Unknown platforms are given the chance; Windows' clients start executables only.
    """
    return platform not in WINDOWS


HEAD_NBYTES = 4096
"""So much of a file is enough to tell."""

_FREEBSD_ABI = 9
_ELF = {
    62: ("x86_64-pc-linux-gnu",),
    3: ("i686-pc-linux-gnu", "x86_64-pc-linux-gnu"),
    183: ("aarch64-unknown-linux-gnu",),
    40: ("arm-unknown-linux-gnueabihf",),
}
_PE = {
    0x8664: ("windows_x86_64",),
    0x014C: ("windows_intelx86", "windows_x86_64"),
    0xAA64: ("windows_arm64",),
}
_MACH_O = {0x01000007: "x86_64-apple-darwin", 0x0100000C: "arm64-apple-darwin"}
_MOST_ARCHITECTURES = 20  # a Java class begins like a fat binary, with a version here that is larger


def platforms_of_program(head: bytes) -> tuple[str, ...] | None:
    """Return the platforms that can start a file with these first bytes; None: it is no program.

    An empty tuple: a program for something else.
    """
    if head.startswith(b"#!"):
        return POSIX
    if head.startswith(b"\x7fELF") and len(head) >= 20:
        order = ">" if head[5] == 2 else "<"
        (machine,) = struct.unpack_from(f"{order}H", head, 18)
        if head[7] == _FREEBSD_ABI:
            return ("x86_64-pc-freebsd",) if machine == 62 else ()
        return _ELF.get(machine, ())
    if head.startswith(b"MZ"):
        return _platforms_of_pe(head)
    return _platforms_of_mach_o(head)


def _platforms_of_pe(head: bytes) -> tuple[str, ...] | None:
    if len(head) < 64:
        return None
    (start,) = struct.unpack_from("<I", head, 60)
    if head[start : start + 4] != b"PE\0\0" or start + 6 > len(head):
        return ()  # a program for DOS, or one with a strange header
    return _PE.get(struct.unpack_from("<H", head, start + 4)[0], ())


def _platforms_of_mach_o(head: bytes) -> tuple[str, ...] | None:
    if len(head) < 8:
        return None
    if head[:4] == b"\xcf\xfa\xed\xfe":
        cpu = _MACH_O.get(struct.unpack_from("<I", head, 4)[0])
        return () if cpu is None else (cpu,)
    if head[:4] == b"\xca\xfe\xba\xbe":
        (count,) = struct.unpack_from(">I", head, 4)
        if not 0 < count <= _MOST_ARCHITECTURES:
            return None
        cpus = (
            struct.unpack_from(">I", head, 8 + 20 * i)[0] for i in range(count) if len(head) >= 28 + 20 * i
        )
        return tuple(_MACH_O[cpu] for cpu in cpus if cpu in _MACH_O)
    return None


_SHELLS = ("sh", "bash", "zsh", "dash", "ksh")
_UNIX = (*_SHELLS, "env", "nice", "timeout", "cat", "cp", "awk", "sed", "grep", "sort", "tar", "make", "bc")
"""Programs that Linux and macOS have, and Windows has not."""


def platforms_of_command(
    words: Sequence[str], programs: Mapping[str, tuple[str, ...] | None]
) -> tuple[tuple[str, ...] | None, str]:
    """Return the platforms that can start a command, and names of the files that decide it; None: nothing does.

    ``programs``: its files by name, and what `platforms_of_program` says of each.  A program that the command itself starts
    decides, but for a script, which may start the programs among the files; else these decide, which may be one for each
    platform.
    """
    name = words[0].removeprefix("./")
    started = POSIX if name in _UNIX else programs.get(name)
    binaries = {each: found for each, found in programs.items() if found is not None and found != POSIX}
    of_binaries = tuple(dict.fromkeys(platform for found in binaries.values() for platform in found))
    if started == POSIX and (both := tuple(platform for platform in POSIX if platform in of_binaries)):
        return both, ", ".join((name, *binaries))
    if started is not None:
        return started, name
    return (of_binaries, ", ".join(binaries)) if binaries else (None, "")
