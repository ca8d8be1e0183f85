"""A Python with packages, for each platform one archive: programs that need compiled packages run where no Python is.

The interpreters are relocatable ones, which ``uv`` fetches for any platform and holds against its own hashes; a mirror is named
in its environment variables (UV_PYTHON_INSTALL_MIRROR, UV_PYTHON_DOWNLOADS_JSON_URL).  The packages are wheels, which pip picks
for any platform.  The archive is unpacked once per computer by the head of the launcher, ``cobblestone_runtime.py``.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cobblestone.api_schema.apps import NewVersion, Version, VersionFileBody
from cobblestone.domain.apps import BROWSER_PLATFORM
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.domain.pyodide import PACKAGES_NAME
from cobblestone.launcher import APP_FILE, BUNDLE_FILE
from cobblestone.launcher.wasm import PYODIDE_DESCRIPTION_FILE
from cobblestone.sdk import pyodide
from cobblestone.sdk.app_package import (
    Command,
    command_version,
    read_files,
    upload_bytes,
    version_description,
)
from cobblestone.sdk.connection import Connection
from cobblestone.sdk.wheels import NoWheelError, install_wheels, run

DEFAULT_PYTHON = "3.12"
MAX_BUNDLE_BYTES = 2_000_000_000  #: unpacked
_ROOT = "python"
_PACKAGES = "site-packages"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Target:
    """A platform in the words of uv and of wheels."""

    uv: str
    wheels: tuple[str, ...]


TARGETS = {
    "x86_64-pc-linux-gnu": Target(
        "linux-x86_64-gnu", ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
    ),
    "aarch64-unknown-linux-gnu": Target(
        "linux-aarch64-gnu", ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
    ),
    "x86_64-apple-darwin": Target(
        "macos-x86_64-none", ("macosx_11_0_x86_64", "macosx_10_13_x86_64", "macosx_10_9_x86_64")
    ),
    "arm64-apple-darwin": Target("macos-aarch64-none", ("macosx_12_0_arm64", "macosx_11_0_arm64")),
}
"""Where bundles run.  Not on Windows, whose clients start no scripts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleCommand(Command):
    """A command that brings its own Python."""

    archives: dict[str, bytes]  #: by platform
    browser_packages: bytes = b""  #: what browsers need beside Pyodide; empty: none of them computes it

    def check(self) -> None:
        """Find mistakes before anything is sent; see `Command.check`."""
        Command.check(self)
        if self.browser_packages:
            pyodide.check_program(self, read_files(self.files))


def bundle_command(
    command: Command,
    requirements: Path,
    python: str,
    *,
    in_browsers: bool = False,
    say: Say = lambda text: None,
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
        raise JobError(f"--bundle-python {python}: write a version such as {DEFAULT_PYTHON}")
    read_files(command.files)
    for platform in command.platforms:
        if platform not in TARGETS:
            raise JobError(
                f"--platform {platform}: bundles run on {', '.join(TARGETS)}. Leave it out for all of them."
            )
    browser_packages = b""
    if in_browsers:
        say("Fetching the packages for browsers …")
        browser_packages = pyodide.packages_archive(requirements)
    archives: dict[str, bytes] = {}
    modules: set[str] = set(command.installed)
    for platform in dict.fromkeys(command.platforms) or TARGETS:
        say(f"Making the bundle for {platform} …")
        archives[platform], found = make_archive(platform, requirements, python)
        modules |= found
    return BundleCommand(
        words=command.words,
        files=command.files,
        outputs=command.outputs,
        optional_outputs=command.optional_outputs,
        stdout=command.stdout,
        installed=modules,
        platforms=tuple(archives),
        plan_class=command.plan_class,
        archives=archives,
        browser_packages=browser_packages,
    )


def make_archive(platform: str, requirements: Path, python: str) -> tuple[bytes, set[str]]:
    """Return an archive for a platform, and the names of the modules of its packages."""
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as temporary:
        folder = Path(temporary)
        root = _fetch_interpreter(folder, TARGETS[platform], python)
        homes = sorted(root.glob("lib/python3.*"))
        if not homes or not (root / "bin" / "python3").exists():
            raise ConfigError(f"The interpreter for {platform} has no bin/python3 or no lib/python3.X.")
        packages = homes[0] / _PACKAGES
        version = homes[0].name.removeprefix("python")
        try:
            install_wheels(requirements, packages, TARGETS[platform].wheels, version)
        except NoWheelError as problem:
            raise JobError(
                f"{problem.package} has no wheel for Python {version} on {platform}. Leave that platform out (--platform …), or"
                " take another version of it or of Python (--bundle-python)."
            ) from None
        modules = {
            path.name.partition(".")[0] for path in packages.iterdir() if not path.name.endswith("-info")
        }
        return pack(root), modules


def _fetch_interpreter(folder: Path, target: Target, python: str) -> Path:
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        raise ConfigError("--bundle needs uv, which fetches the interpreters: pip install uv")
    words = [uv, "python", "install", "--no-config", "--no-bin", "--install-dir", str(folder / "pythons")]
    run([*words, f"cpython-{python}-{target.uv}"], "uv could not fetch the interpreter")
    found = [
        path for path in (folder / "pythons").glob("cpython-*") if path.is_dir() and not path.is_symlink()
    ]
    if len(found) != 1:
        raise ConfigError(f"uv brought {len(found)} interpreters for {target.uv}, not one.")
    return found[0]


def pack(root: Path) -> bytes:
    """Return a folder as ``python`` in a packed archive; the same files give the same bytes.

    Raises:
        JobError: it is too large.
    """
    size = 0
    target = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", 6, target, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for path in sorted(root.rglob("*")):
            about = archive.gettarinfo(path, f"{_ROOT}/{path.relative_to(root).as_posix()}")
            if (
                not (about.isreg() or about.issym() or about.isdir() or about.islnk())
                or "__pycache__" in path.parts
            ):
                continue
            size += about.size
            about = about.replace(mtime=0, uid=0, gid=0, uname="", gname="", deep=False)
            if about.isreg():
                with path.open("rb") as file:
                    archive.addfile(about, file)
            else:
                archive.addfile(about)
    if size > MAX_BUNDLE_BYTES:
        raise JobError(
            f"The bundle is {size / 1e6:.0f} MB, more than the {MAX_BUNDLE_BYTES / 1e6:.0f} MB that are allowed."
        )
    return target.getvalue()


def bundle_version(connection: Connection, command: BundleCommand) -> NewVersion:
    """Upload what a version with bundles consists of; the version for a request."""
    if command.browser_packages:
        pyodide.check_server(connection)
    shared = command_version(connection, command).files
    files = [file for file in shared if file.open_name != APP_FILE and not file.main_program]
    (launcher,) = [file for file in shared if file.main_program]
    own: dict[str, list[VersionFileBody]] = {}
    for platform, archive in command.archives.items():
        description = version_description(command, bundle=hashlib.sha256(archive).hexdigest())
        own[platform] = [
            launcher,
            VersionFileBody(
                file=upload_bytes(connection, f"{BUNDLE_FILE}_{platform}.tar.gz", archive),
                open_name=BUNDLE_FILE,
            ),
            VersionFileBody(
                file=upload_bytes(connection, APP_FILE, description), open_name=APP_FILE, copy_file=True
            ),
        ]
    if command.browser_packages:
        own[BROWSER_PLATFORM] = _browser_files(connection, command)
    first, *further = own
    return NewVersion(
        platform=first, also_for=further, plan_class=command.plan_class, files=files, platform_files=own
    )


def _browser_files(connection: Connection, command: BundleCommand) -> list[VersionFileBody]:
    packages = command.browser_packages
    description = pyodide.pyodide_description(command, packages, read_files(command.files))
    return [
        VersionFileBody(
            file=upload_bytes(connection, PACKAGES_NAME, packages),
            open_name=PACKAGES_NAME,
            main_program=True,
        ),
        VersionFileBody(
            file=upload_bytes(connection, PYODIDE_DESCRIPTION_FILE, description),
            open_name=PYODIDE_DESCRIPTION_FILE,
            copy_file=True,
        ),
    ]


def brings_python(version: Version) -> bool:
    """Whether a version has a bundle."""
    return any(file.open_name == BUNDLE_FILE for file in version.files)
