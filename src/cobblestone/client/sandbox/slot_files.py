"""Files in a slot, seen from outside: the job owns the directory, so nothing in it can be trusted.

A job may put a symbolic link, a pipe or a device where a file is expected, to have the client read or write elsewhere with its
own rights.  Hence every step of a path is opened by itself, no link is followed, and only regular files are read.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cobblestone.domain.errors import JobError

MAX_OPEN_NAME = 255
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class JobAccount:
    """The account under which jobs run."""

    name: str
    uid: int
    gid: int


def checked_open_name(name: str) -> PurePosixPath:
    """Return the name under which a job opens a file.  Raises JobError unless it stays in the slot."""
    path = PurePosixPath(name)
    if (
        not name
        or len(name) > MAX_OPEN_NAME
        or not name.isprintable()
        or path.is_absolute()
        or ".." in path.parts
        or not path.parts
        or len(path.parts) > 8
    ):
        raise JobError(
            f"{name[:80]!r} cannot be the name of a file of a job: it must be a relative path without '..'."
        )
    return path


def checked_physical_name(name: str) -> str:
    """Return a file's name in a project's directory.  Raises JobError for one with a path."""
    if (
        not name
        or len(name) > 255
        or "/" in name
        or "\\" in name
        or name in (".", "..")
        or not name.isprintable()
    ):
        raise JobError(f"{name[:80]!r} cannot be the name of a project's file.")
    return name


class SlotFolder:
    """One slot's directory.  ``account``, if given, becomes the owner of what is created in it."""

    def __init__(self, path: Path, account: JobAccount | None = None) -> None:
        self.path = path
        self.account = account

    @contextmanager
    def _parent(self, name: str, *, make: bool = False) -> Generator[tuple[int, str]]:
        """Yield the directory that holds ``name``, opened step by step, and the last part of the name."""
        *folders, last = PurePosixPath(name).parts
        directory = os.open(self.path, _DIRECTORY)
        try:
            for folder in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, 0o755, dir_fd=directory)
                        self._own(folder, directory)
                inner = os.open(folder, _DIRECTORY, dir_fd=directory)
                os.close(directory)
                directory = inner
            yield directory, last
        finally:
            os.close(directory)

    def _own(self, name: str, directory: int) -> None:
        if self.account:
            os.chown(name, self.account.uid, self.account.gid, dir_fd=directory, follow_symlinks=False)

    @contextmanager
    def _regular_file(self, name: str) -> Generator[int | None]:
        """Yield a file opened for reading; None if there is none, or it is not a regular file."""
        try:
            with self._parent(name) as (directory, last):
                file = os.open(last, _READ, dir_fd=directory)
        except OSError:
            yield None
            return
        try:
            yield file if stat.S_ISREG(os.fstat(file).st_mode) else None
        finally:
            os.close(file)

    def exists(self, name: str) -> bool:
        """Return whether there is a regular file of this name."""
        try:
            with self._parent(name) as (directory, last):
                return stat.S_ISREG(os.stat(last, dir_fd=directory, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the first ``limit`` bytes of a regular file; None if there is none."""
        with self._regular_file(name) as file:
            return None if file is None else os.read(file, limit)

    def read_tail(self, name: str, limit: int) -> bytes:
        """Return the last ``limit`` bytes of a regular file; empty if there is none."""
        with self._regular_file(name) as file:
            if file is None:
                return b""
            size = os.fstat(file).st_size
            return os.pread(file, limit, max(0, size - limit))

    def write(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Replace a file in one step; a reader sees the old or the new content."""
        with self._parent(name, make=True) as (directory, last):
            temporary = f".{last[:200]}.new"
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            file = os.open(temporary, _CREATE, mode, dir_fd=directory)
            with os.fdopen(file, "wb") as stream:
                stream.write(data)
            self._own(temporary, directory)
            os.rename(temporary, last, src_dir_fd=directory, dst_dir_fd=directory)

    def copy_in(self, source: Path, name: str, *, executable: bool) -> None:
        """Copy a file of the project into the slot."""
        with self._parent(name, make=True) as (directory, last), source.open("rb") as data:
            with suppress(OSError):
                os.unlink(last, dir_fd=directory)
            file = os.open(last, _CREATE, 0o755 if executable else 0o644, dir_fd=directory)
            with os.fdopen(file, "wb") as stream:
                shutil.copyfileobj(data, stream, 1 << 20)
            self._own(last, directory)

    def open_append(self, name: str) -> int:
        """Return a descriptor for a log that the job's process inherits."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with self._parent(name) as (directory, last):
            with suppress(OSError):
                if not stat.S_ISREG(os.stat(last, dir_fd=directory, follow_symlinks=False).st_mode):
                    os.unlink(last, dir_fd=directory)
            file = os.open(last, flags, 0o644, dir_fd=directory)
            self._own(last, directory)
        return file

    def open_for_exchange(self, name: str, size: int) -> int:
        """Create a file of ``size`` zero bytes that both sides map, or read and write."""
        self.write(name, bytes(size))
        with self._parent(name) as (directory, last):
            return os.open(last, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        with suppress(OSError), self._parent(name) as (directory, last):
            os.unlink(last, dir_fd=directory)

    def move_out(self, name: str, target: Path) -> int | None:
        """Move a regular file out of the slot atomically; return its size, or None if there is none.

        What arrives is looked at again where the job cannot reach it, since it may have exchanged the file meanwhile.
        """
        if not self.exists(name):
            return None
        with self._parent(name) as (directory, last):
            os.rename(last, target, src_dir_fd=directory)
        found = target.lstat()
        if not stat.S_ISREG(found.st_mode):
            target.unlink()
            return None
        if self.account:
            os.chown(target, os.geteuid(), os.getegid(), follow_symlinks=False)
        target.chmod(0o644)
        return found.st_size

    def names(self, prefix: str = "", limit: int = 1000) -> list[str]:
        """Return names directly in the slot that start with ``prefix``."""
        found: list[str] = []
        with suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith(prefix):
                    found.append(entry.name)
                if len(found) >= limit:
                    break
        return sorted(found)

    def disk_usage(self) -> float:
        """Return the bytes on disk of everything in the slot; holes and preallocated space do not count."""
        total = 0
        with suppress(OSError):
            for _folder, _folders, files, directory in os.fwalk(self.path):
                for name in files:
                    with suppress(OSError):
                        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                        total += min(found.st_size, found.st_blocks * 512)
        return float(total)

    def make(self) -> None:
        """Create the directory; only the job's account and ours may read it, since it contains the user's key."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o750)
        if self.account:
            os.chown(self.path, self.account.uid, self.account.gid)

    def own_everything(self) -> None:
        """Give everything in the slot to the account."""
        if self.account:
            for _folder, folders, files, directory in os.fwalk(self.path):
                for name in (*folders, *files):
                    self._own(name, directory)

    def empty(self) -> None:
        """Remove the directory with its content.  Raises OSError if something remains."""
        if self.path.exists():
            shutil.rmtree(self.path)
