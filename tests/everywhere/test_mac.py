"""The launcher for macOS was never run; this is what its file says: format, processor, libraries, and every symbol that it needs.

Format: Apple's ``mach-o/loader.h`` and ``mach-o/nlist.h``.
"""

from __future__ import annotations

import struct

import pytest

from cobblestone.sdk.wasm import toolchain

MACH_O, EXECUTE = 0xFEEDFACF, 2
SYMTAB, LOAD_DYLIB, MAIN, BUILD_VERSION, CODE_SIGNATURE = 0x2, 0xC, 0x80000028, 0x32, 0x1D
PIE = 0x200000
UNDEFINED = 0x01  # external, and of no section
PROCESSORS = {"x86_64-apple-darwin": 0x01000007, "arm64-apple-darwin": 0x0100000C}
#: POSIX and the C library, as far as the launcher goes; some have another name there ($INODE64).
KNOWN = set(
    """
    ____chkstk_darwin ___bzero ___error ___memcpy_chk ___memmove_chk ___memset_chk ___snprintf_chk ___stack_chk_fail
    ___stack_chk_guard ___stderrp ___strcpy_chk ___vsnprintf_chk __exit __mh_execute_header __stderrp _abort _atof
    _bzero _calloc _ceil _chmod _clock_gettime _close _closedir _dirfd _dlerror _dlopen _dlsym _execv _exit _fchmod
    _fclose _fcntl _ferror _fflush _fgets _fileno _fopen _fprintf _fputc _fputs _fread _free _fseek _fstat _fstatat
    _fsync _ftell _futimens _fwrite _getppid _getrusage _kill _lstat _malloc _memchr _memcmp _memcpy _memmove _memset
    _mkdir _mmap _munmap _nanosleep _open _opendir _pthread_attr_init _pthread_attr_setstacksize _pthread_create _putc
    _read _readdir _realloc _realpath _rename _rmdir _setenv _sigaction _snprintf _sscanf _strchr _strcmp _strcpy
    _strcspn _strerror _strlen _strncmp _strpbrk _strrchr _strspn _strstr _strtod _sync _unlink _vfprintf _vsnprintf
    dyld_stub_binder
    """.split()  # noqa: SIM905  # a table
)


def commands(data: bytes) -> list[tuple[int, bytes]]:
    """The load commands: number and bytes."""
    count, place, found = struct.unpack_from("<I", data, 16)[0], 32, list[tuple[int, bytes]]()
    for _ in range(count):
        number, size = struct.unpack_from("<II", data, place)
        found.append((number, data[place : place + size]))
        place += size
    return found


def undefined_symbols(data: bytes, symtab: bytes) -> set[str]:
    symbols, count, names, _ = struct.unpack_from("<IIII", symtab, 8)
    found: set[str] = set()
    for number in range(count):
        name, kind, section = struct.unpack_from("<IBB", data, symbols + 16 * number)
        if kind & 0x0F == UNDEFINED and section == 0:
            found.add(data[names + name :].partition(b"\0")[0].decode())
    return found


@pytest.mark.parametrize("platform", PROCESSORS)
def test_the_launcher_is_a_program_for_macos_that_needs_the_system_library_alone(platform: str):
    data = toolchain.launcher(platform)
    magic, processor, _, kind, _, _, flags = struct.unpack_from("<7I", data)
    assert (magic, processor, kind) == (MACH_O, PROCESSORS[platform], EXECUTE)
    assert flags & PIE
    found = commands(data)
    numbers = [number for number, _ in found]
    assert MAIN in numbers
    libraries = [each[24:].partition(b"\0")[0].decode() for number, each in found if number == LOAD_DYLIB]
    assert libraries == ["/usr/lib/libSystem.B.dylib"]
    (version,) = [each for number, each in found if number == BUILD_VERSION]
    system, oldest = struct.unpack_from("<II", version, 8)
    assert system == 1, "macOS"
    assert oldest >> 16 <= 11, "no newer than what volunteers have"
    assert (CODE_SIGNATURE in numbers) or platform != "arm64-apple-darwin", "ARM starts signed programs only"
    (symtab,) = [each for number, each in found if number == SYMTAB]
    needed = {name.partition("$")[0] for name in undefined_symbols(data, symtab)}
    assert {"_mmap", "_dlopen", "_pthread_create"} <= needed
    assert needed - KNOWN == set()
