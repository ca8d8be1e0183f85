"""Bundles of Python with packages, one archive per platform, for computers without Python.

The interpreters are relocatable ones, which ``uv`` fetches for any platform and holds against its own hashes; a mirror is named
in its environment variables (UV_PYTHON_INSTALL_MIRROR, UV_PYTHON_DOWNLOADS_JSON_URL).  The packages are wheels, which pip picks
for any platform.  The archive is unpacked once per computer by the native launcher, ``launcher/native/bundle.c``.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cobblestone.api_schema.apps import NewVersion, Version, VersionFileBody
from cobblestone.domain.apps import BROWSER_PLATFORM
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.domain.pyodide import PACKAGES_NAME
from cobblestone.domain.values import form_of
from cobblestone.launcher import APP_FILE, BUNDLE_FILE, RUNTIME_MODULE, launcher_bytes
from cobblestone.launcher.packing import (
    DESCRIPTION_FILE,
    PYODIDE_DESCRIPTION_FILE,
    STARTS_LAUNCHER,
    bundle_description,
)
from cobblestone.sdk.api.connection import Connection
from cobblestone.sdk.packing import app_package, dependencies, pyodide
from cobblestone.sdk.wasm import toolchain

MAX_BUNDLE_BYTES = 2_000_000_000  #: unpacked, with the heads of the archive; the launcher takes no more
LONGEST_NAME = 250
LONGEST_WINDOWS_NAME = 150  #: the folder above takes some of the 260 letters that Windows allows
#: Folders of an interpreter that no job needs; of programs the interpreter alone.
_LEFT_OUT = frozenset({"include", "libs", "share", "Scripts", "tcl"})
_FORBIDDEN = frozenset('\\:*?"<>|')  #: in names on Windows
_HEAD_BYTES = tarfile.BLOCKSIZE


@dataclass(frozen=True, slots=True)
class PythonBuild:
    """A platform as uv and wheels name it."""

    uv: str
    wheels: tuple[str, ...]

    @property
    def windows(self) -> bool:
        """Return whether the interpreter has the Windows layout, with short names only inside."""
        return self.uv.startswith("windows")

    @property
    def interpreter(self) -> str:
        """Return the interpreter's path in its folder, as the launcher expects it."""
        return "python.exe" if self.windows else "bin/python3"

    def library(self, root: Path) -> tuple[Path, str]:
        """Return the folder of the standard library, and the version as in 3.12; raises ConfigError without one."""
        if self.windows:
            found = [
                (root / "Lib", re.sub(r"^python3(\d+)$", r"3.\1", path.stem))
                for path in root.glob("python3?*.dll")
            ]
        else:
            found = [(path, path.name.removeprefix("python")) for path in sorted(root.glob("lib/python3.*"))]
        if not found or not found[0][0].is_dir() or not (root / self.interpreter).exists():
            raise ConfigError(
                f"The interpreter for {self.uv} has no {self.interpreter}, or no standard library."
            )
        return found[0]


#: Where bundles run.
TARGETS = {
    "x86_64-pc-linux-gnu": PythonBuild(
        "linux-x86_64-gnu", ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
    ),
    "aarch64-unknown-linux-gnu": PythonBuild(
        "linux-aarch64-gnu", ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
    ),
    "x86_64-apple-darwin": PythonBuild(
        "macos-x86_64-none", ("macosx_11_0_x86_64", "macosx_10_13_x86_64", "macosx_10_9_x86_64")
    ),
    "arm64-apple-darwin": PythonBuild("macos-aarch64-none", ("macosx_12_0_arm64", "macosx_11_0_arm64")),
    "windows_x86_64": PythonBuild("windows-x86_64-none", ("win_amd64",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleCommand(app_package.Command):
    """A command that brings its own Python."""

    archives: dict[str, bytes]  #: by platform, packed
    browser_packages: bytes = b""  #: what browsers need beside Pyodide; empty: none of them computes it

    def check(self) -> None:
        """Find mistakes before anything is sent; see `Command.check`."""
        app_package.Command.check(self)
        if self.browser_packages:
            pyodide.check_program(self, app_package.read_files(self.files))


def bundle_command(
    command: app_package.Command, requirements: Path, python: str, *, in_browsers: bool = False
) -> BundleCommand:
    """Return a Python command with an archive for each of its platforms; minutes the first time.

    Raises:
        JobError: the command does not run Python, or a package cannot be had for a platform; the text names it.
        ConfigError: an interpreter cannot be fetched.
    """
    if command.words[0] != "python3":
        raise JobError(
            f"--bundle brings Python, but the command begins with {command.words[0]}: write python3."
        )
    if not requirements.is_file():
        raise JobError(f"--bundle: {requirements} does not exist. (The current folder is {Path.cwd()}.)")
    if not re.fullmatch(r"3\.\d{1,2}(\.\d{1,2})?", python):
        raise JobError(f"--bundle-python {python}: write a version such as 3.12")
    platforms = _platforms(command)
    browser_packages = pyodide.packages_archive(requirements) if in_browsers else b""
    archives: dict[str, bytes] = {}
    modules: set[str] = set(command.installed)
    for platform in platforms:
        archives[platform], found = make_archive(platform, requirements, python)
        modules |= found
    return form_of(
        BundleCommand,
        command,
        installed=modules,
        platforms=tuple(archives),
        archives=archives,
        browser_packages=browser_packages,
    )


def _platforms(command: app_package.Command) -> list[str]:
    """Return the wanted platforms, or all for which the program's imports are available."""
    able = [each for each in TARGETS if not (TARGETS[each].windows and _imports_posix(command))]
    for platform in command.platforms:
        if platform not in able:
            why = " (the program imports modules that Windows does not have)" if platform in TARGETS else ""
            raise JobError(
                f"--platform {platform}: bundles run on {', '.join(able)}{why}. Leave it out for all of them."
            )
    return list(dict.fromkeys(command.platforms)) or able


def _imports_posix(command: app_package.Command) -> bool:
    programs = [data for name, data in app_package.read_files(command.files).items() if name.endswith(".py")]
    return any(
        module in dependencies.NOT_ON_WINDOWS
        for data in programs
        for module, _ in dependencies.needed_imports(data)
    )


def make_archive(platform: str, requirements: Path, python: str) -> tuple[bytes, set[str]]:
    """Return an archive for a platform, and the names of the modules of its packages."""
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as temporary:
        folder = Path(temporary)
        target = TARGETS[platform]
        root = fetch_interpreter(folder, target, python)
        library, version = target.library(root)
        packages = library / "site-packages"
        try:
            dependencies.install_wheels(requirements, packages, target.wheels, version)
        except dependencies.NoWheelError as problem:
            raise JobError(
                f"{problem.package} has no wheel for Python {version} on {platform}. Leave that platform out (--platform …), or"
                " use another version of the package or of Python (--bundle-python)."
            ) from None
        modules = {
            path.name.partition(".")[0] for path in packages.iterdir() if not path.name.endswith("-info")
        }
        (packages / f"{RUNTIME_MODULE}.py").write_bytes(launcher_bytes())
        return pack(root, target), modules


def fetch_interpreter(folder: Path, target: PythonBuild, python: str) -> Path:
    """Download a relocatable Python for a platform with uv into a folder.  Raises ConfigError."""
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        raise ConfigError("--bundle needs uv, which downloads the interpreters: pip install uv")
    words = [uv, "python", "install", "--no-config", "--no-bin", "--install-dir", str(folder / "pythons")]
    name = f"cpython-{python}-{target.uv}"
    try:
        dependencies.run([*words, name], f"uv could not fetch the interpreter {name}")
    except ConfigError as problem:
        first, *causes = str(problem).splitlines()
        cause = f" ({causes[-1].strip()})" if causes else ""
        raise ConfigError(
            f"{first}{cause}\nWithout a way to its source, name a mirror in UV_PYTHON_INSTALL_MIRROR, or another version of"
            " Python (--bundle-python)."
        ) from None
    found = [
        path for path in (folder / "pythons").glob("cpython-*") if path.is_dir() and not path.is_symlink()
    ]
    if len(found) != 1:
        raise ConfigError(f"uv brought {len(found)} interpreters for {target.uv}, not one.")
    return found[0]


def pack(root: Path, target: PythonBuild) -> bytes:
    """Return the files in a folder as a compressed archive for the launcher; equal files give equal bytes.

    It holds no links: a link to a file is that file once more.

    Raises:
        JobError: it is too large, or a file has a name that not every system can store.
    """
    files = {
        path.relative_to(root).as_posix(): path
        for path in sorted(root.rglob("*"))
        if _is_sent(path, root, target)
    }
    _check_names(files, target)
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents} - {"."}
    size = sum(path.stat().st_size for path in files.values()) + _HEAD_BYTES * (len(files) + len(folders))
    if size > MAX_BUNDLE_BYTES:
        raise JobError(
            f"The bundle is {size / 1e6:.0f} MB, more than the {MAX_BUNDLE_BYTES / 1e6:.0f} MB that are allowed."
        )
    packed = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", 6, packed, mtime=0) as packer,
        tarfile.open(fileobj=packer, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in sorted({*files, *folders}):
            about = tarfile.TarInfo(name)
            if name in folders:
                about.type, about.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(about)
                continue
            status = files[name].stat()
            about.size, about.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
            with files[name].open("rb") as file:
                archive.addfile(about, file)
    return packed.getvalue()


def _is_sent(path: Path, root: Path, target: PythonBuild) -> bool:
    parts = path.relative_to(root).parts
    if not path.is_file() or parts[0] in _LEFT_OUT or "__pycache__" in parts:
        return False
    if parts[0] == "bin" and "/".join(parts) != target.interpreter:
        return False
    return path.resolve().is_relative_to(root.resolve())


def _check_names(names: Iterable[str], target: PythonBuild) -> None:
    """Refuse names that the launcher would refuse: those that are ambiguous on some system."""
    seen: dict[str, str] = {}
    for name in names:
        if any(
            not part.isascii()
            or not part.isprintable()
            or part[0] == " "
            or part[-1] in ". "
            or set(part) & _FORBIDDEN
            for part in name.split("/")
        ):
            raise JobError(f"The bundle has a file with a name that not every system can store: {name!r}.")
        if len(name) > (LONGEST_WINDOWS_NAME if target.windows else LONGEST_NAME):
            raise JobError(f"The bundle has a file with too long a name: {name}.")
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise JobError(
                f"The bundle has the files {other} and {name}, which are one where letters' case does not count."
            )


def bundle_version(connection: Connection, command: BundleCommand) -> NewVersion:
    """Upload the files of a version with bundles; return the version for a request."""
    if command.browser_packages:
        pyodide.check_server(connection)
    command.check()
    contents = app_package.read_files(command.files)
    own = {
        platform: _platform_files(connection, command, contents, platform, gzip.decompress(archive))
        for platform, archive in command.archives.items()
    }
    if command.browser_packages:
        own[BROWSER_PLATFORM] = _browser_files(connection, command)
    first, *further = own
    return NewVersion(
        platform=first,
        also_for=further,
        plan_class=command.plan_class,
        files=app_package.copied_files(connection, contents),
        platform_files=own,
    )


def _platform_files(
    connection: Connection,
    command: BundleCommand,
    contents: Mapping[str, bytes],
    platform: str,
    archive: bytes,
) -> list[VersionFileBody]:
    """Upload the files for one platform: on Windows the native launcher runs the command, elsewhere the Python launcher."""
    launcher = toolchain.launcher_name(platform)
    windows = TARGETS[platform].windows
    about = bundle_description(
        command.words if windows else STARTS_LAUNCHER,
        name=BUNDLE_FILE,
        sha256=hashlib.sha256(archive).hexdigest(),
        files=contents if windows else {},
        stdout=command.stdout,
        optional_outputs=command.optional_outputs,
    )
    copied = (
        {DESCRIPTION_FILE: about}
        if windows
        else {DESCRIPTION_FILE: about, APP_FILE: app_package.version_description(command)}
    )
    return [
        app_package.uploaded(
            connection, launcher, toolchain.launcher(platform), executable=True, main_program=True
        ),
        app_package.uploaded(connection, BUNDLE_FILE, archive, stored_as=f"{BUNDLE_FILE}_{platform}.tar"),
        *app_package.copied_files(connection, copied),
    ]


def _browser_files(connection: Connection, command: BundleCommand) -> list[VersionFileBody]:
    packages = command.browser_packages
    description = pyodide.pyodide_description(command, packages, app_package.read_files(command.files))
    return [
        app_package.uploaded(connection, PACKAGES_NAME, packages, main_program=True),
        app_package.uploaded(connection, PYODIDE_DESCRIPTION_FILE, description, copy_file=True),
    ]


def brings_python(version: Version) -> bool:
    """Return whether a version has a bundle."""
    return any(file.open_name == BUNDLE_FILE for file in version.files)
