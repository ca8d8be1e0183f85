"""The data directory: its layout, small files for other programs, and the volunteer's preferences.

Preferences and configuration from the data directory.

Every reading starts from the files as they are, never from what was in force before, so that a line or a file taken away is
undone without a restart.  A file with a typing error changes nothing: its last good content stays in force, and a sentence says
where the error is.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from cobblestone.domain.computing import AppConfig, ClientConfig, ComputingPreferences
from cobblestone.domain.errors import ConfigError, RemoteProtocolError
from cobblestone.ops.files import write_private
from cobblestone.wire.client.config import (
    MAX_FILE_BYTES,
    override_preferences,
    read_app_config,
    read_client_config,
    read_preferences,
)
from cobblestone.wire.project.pages import folder_of

PASSWORD_FILE = "gui_rpc_auth.cfg"  # noqa: S105  # a file's name
MAX_PASSWORD = 255


class DataFolder:
    """One client's data directory.  Names from servers have been checked by `wire` before."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()

    def project(self, master_url: str) -> Path:
        """Return the folder of a project's files."""
        return self.root / "projects" / folder_of(master_url)

    def account_file(self, master_url: str) -> Path:
        """Return the account file of a project, in BOINC's format."""
        return self.root / f"account_{folder_of(master_url)}.xml"

    def empty_project(self, master_url: str, sent: Iterable[str]) -> list[str]:
        """Remove what a project sent, and unfinished downloads; return the names of the volunteer's own files, which stay."""
        folder = self.project(master_url)
        for path in (*(folder / name for name in sent), *folder.glob(".*.part")):
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def password(self) -> str:
        """Return the password for controlling this client; created at the first start.

        Raises:
            ConfigError: the file cannot be read.
        """
        path = self.root / PASSWORD_FILE
        try:
            if not path.exists():
                write_private(path, f"{secrets.token_hex(16)}\n".encode())
            return path.read_text(encoding="utf-8", errors="replace").split("\n", 1)[0].strip()[:MAX_PASSWORD]
        except OSError as error:
            raise ConfigError(f"{path} cannot be used: {error.strerror}.") from error

    def free_space(self) -> tuple[float, float]:
        """Return the size of the disk and its free space, in bytes."""
        usage = shutil.disk_usage(self.root)
        return float(usage.total), float(usage.free)

    def used_by(self, folder: Path) -> float:
        """Return the bytes on disk of a folder."""
        total = 0.0
        for path in _files(folder):
            try:
                total += path.lstat().st_blocks * 512
            except OSError:
                continue
        return total


def _files(folder: Path) -> Iterable[Path]:
    for base, folders, names in os.walk(folder):
        yield from (Path(base, name) for name in (*folders, *names))


PREFERENCES = "global_prefs.xml"
OVERRIDE = "global_prefs_override.xml"
CONFIG = "cc_config.xml"
APP_CONFIG = "app_config.xml"
APP_INFO = "app_info.xml"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InForce:
    """The settings in force, and sentences about unreadable ones."""

    preferences: ComputingPreferences
    config: ClientConfig
    problems: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    """The file that changed a preference last, for those that are not as usual."""


class PreferenceFiles:
    """The preference files of one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._good: dict[Path, bytes] = {}

    def read(self, venue: str = "") -> InForce:
        """Read preferences, override and configuration."""
        problems: list[str] = []
        base = self._file(PREFERENCES, lambda body: read_preferences(body, venue), problems)
        preferences = base or ComputingPreferences()
        override = self._file(OVERRIDE, lambda body: override_preferences(preferences, body), problems)
        config = self._file(CONFIG, read_client_config, problems)
        steps = (
            ("", ComputingPreferences()),
            (PREFERENCES, preferences),
            (OVERRIDE, override or preferences),
        )
        origins: dict[str, str] = {}
        for (_, before), (name, after) in pairwise(steps):
            fields = after.__dataclass_fields__
            origins |= {each: name for each in fields if getattr(before, each) != getattr(after, each)}
        return InForce(override or preferences, config or ClientConfig(), tuple(problems), origins)

    def read_app_config(self, project_dir: Path) -> tuple[AppConfig, tuple[str, ...]]:
        """Read the settings for one project."""
        problems: list[str] = []
        found = self._file(f"{project_dir}/{APP_CONFIG}", read_app_config, problems)
        return found or AppConfig(), tuple(problems)

    def _file(
        self, name: str, read: Callable[[bytes], tuple[T, tuple[str, ...]]], problems: list[str]
    ) -> T | None:
        path = self._data_dir / name
        try:
            body = path.read_bytes()[: MAX_FILE_BYTES + 1]
        except FileNotFoundError:
            self._good.pop(path, None)
            return None
        except OSError as error:
            problems.append(f"{path} cannot be read ({error.strerror}); its last content stays in force.")
            body = self._good.get(path)
            return None if body is None else read(body)[0]
        try:
            found, sentences = read(body)
        except RemoteProtocolError as error:
            last = self._good.get(path)
            stays = "its last good content stays in force" if last is not None else "it is not used"
            problems.append(f"{path}: {error}; {stays}.")
            return None if last is None else read(last)[0]
        self._good[path] = body
        problems += [f"{path}, {sentence}." for sentence in sentences]
        return found

    def stamp(self, *project_dirs: Path) -> tuple[tuple[int, int] | None, ...]:
        """Return a fingerprint of the files: modification time and size of each."""
        names = [*(self._data_dir / name for name in (PREFERENCES, OVERRIDE, CONFIG))]
        names += [folder / name for folder in project_dirs for name in (APP_CONFIG, APP_INFO)]
        return tuple(_stamp(path) for path in names)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
