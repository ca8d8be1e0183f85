"""Backups of a project that runs, and what is made of them again.

A backup is a folder (or a tar file of it) like a project's own, with a manifest that names every file with its size and
SHA-256.  The manifest is written last: what has none is not complete.  Files that never change their content are hard
links where the disk allows it, so a backup beside the project costs little.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec

from cobblestone import __version__
from cobblestone.domain.backups import KeysInBackup
from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.ops.durable_files import sync_folder, write_durably
from cobblestone.ops.settings import FILE_NAME
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.operation.move_to_postgres import settings_mode, with_database
from cobblestone.store.engine.select import is_postgres
from cobblestone.store.maintenance.snapshot import (
    check_dump,
    copy_database,
    copy_rows,
    database_problems,
    fill_database,
    read_rows,
)
from cobblestone.store.maintenance.upgrade import check_revision, check_schema, current_revision
from cobblestone.store.schema.project import DOWNLOADS, OUTPUTS, PROJECT
from cobblestone.store.work.files import FAN_OUT, place_of
from cobblestone.store.work.uploads import partial_folder

MANIFEST = "manifest.json"
DUMP = "database.dump"
"""The rows of a project on PostgreSQL; a SQLite database has its own name."""
FORMAT = 1
CHUNK = 1 << 20
ATTEMPTS = 3
_TAR_MODES: dict[str, Literal["w", "w:gz"]] = {".tar": "w", ".gz": "w:gz", ".tgz": "w:gz"}

Report = Callable[[str, float], None]
"""Is told what is being done, and the part of it that is done (0 to 1)."""


class FileEntry(msgspec.Struct, frozen=True):
    """A file of a backup."""

    path: str  # relative, with slashes
    nbytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds."""

    format: int
    cobblestone: str  # version of the program
    schema: str  # revision of the database
    time: float  # Unix seconds
    name: str
    url: str
    keys: str
    files: list[FileEntry]
    database: str = "sqlite"  # or "postgresql"

    @property
    def nbytes(self) -> int:
        """Size of all files."""
        return sum(file.nbytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupWish:
    """What shall be in a backup."""

    keys: KeysInBackup = KeysInBackup.ALL
    results: bool = True  #: also what assimilators wrote


def _quiet(what: str, part: float) -> None:
    """Report nothing."""


# -- making ----------------------------------------------------------------------------------------------


def make_backup(
    folder: ProjectFolder, target: Path, wish: BackupWish = BackupWish(), *, report: Report = _quiet
) -> Manifest:
    """Write a backup of a project, running or not.

    Raises:
        ConfigError: it is not a project, or the target exists.
        StoreError: something cannot be read or written; nothing is left at the target.
    """
    settings = folder.settings()
    address = settings.database.url
    if target.exists():
        raise ConfigError(f"{target} exists already. Give a new name: a backup never overwrites one.")
    target.parent.mkdir(parents=True, exist_ok=True)
    tar_mode = _TAR_MODES.get(target.suffix)
    # The folder of a tar file is made beside the project, where hard links are possible.
    beside = folder.root.parent if tar_mode else target.parent
    working = beside / f".backup-{secrets.token_hex(6)}"
    try:
        working.mkdir(mode=0o700)
        schema = current_revision(address, PROJECT) if address else ""
        _Copy(folder, working, wish, skip=target, report=report).run()
        manifest = Manifest(
            format=FORMAT,
            cobblestone=__version__,
            schema=schema or current_revision(working / folder.database.name, PROJECT) or "",
            time=time.time(),
            name=settings.project.name,
            url=settings.project.url,
            keys=wish.keys.value,
            files=list(_entries(working, report)),
            database="postgresql" if address else "sqlite",
        )
        write_durably(working / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
        if tar_mode:
            _pack(working, target, tar_mode)
        else:
            working.rename(target)
        sync_folder(target.parent)
    except OSError as error:
        raise StoreError(f"The backup could not be written: {error}.") from error
    finally:
        shutil.rmtree(working, ignore_errors=True)
    return manifest


class _Copy:
    """Copies a project's folder.

    Files come first, then the database, then the files that came in between: whatever the copied rows need is there, for a
    file is written before its row and removed after it.
    """

    def __init__(
        self, folder: ProjectFolder, target: Path, wish: BackupWish, *, skip: Path, report: Report
    ) -> None:
        self._folder = folder
        self._location: Path | str = folder.settings().database.url or folder.database
        self._target = target
        self._wish = wish
        self._report = report
        self._skipped = {
            folder.staging,
            folder.exports,
            folder.run_file,
            folder.lock_file,
            partial_folder(folder.upload),
            skip.absolute(),
            target.absolute(),
            *(() if wish.results else (folder.results,)),
            *((folder.keys,) if wish.keys is KeysInBackup.NONE else ()),
            *((folder.code_sign_private,) if wish.keys is KeysInBackup.NO_SIGNING_KEY else ()),
        }

    def run(self) -> None:
        """Do it all."""
        self._report("files", 0.0)
        self._tree(self._folder.root)
        rows = self._target / (DUMP if is_postgres(self._location) else self._folder.database.name)
        for _ in range(ATTEMPTS):
            if self._late_files(*self._database(self._location, rows)):
                break
        else:
            raise StoreError("Files vanish faster than they can be copied. Try again when less is going on.")
        archive = self._folder.archive
        if archive.exists():
            self._report(archive.name, 0.0)
            copy_database(
                archive, self._place(archive), progress=lambda part: self._report(archive.name, part)
            )
            self._place(archive).chmod(0o600)

    def _tree(self, folder: Path) -> None:
        for path in sorted(folder.iterdir()):
            if path in self._skipped or path.name.startswith(".") or path.is_symlink():
                continue
            if path.is_dir():
                (self._place(path)).mkdir(mode=0o700, exist_ok=True)
                self._tree(path)
            elif not self._is_database(path):
                self._file(path)

    def _is_database(self, path: Path) -> bool:
        in_root = path.parent == self._folder.root
        return in_root and any(part in path.name for part in (".sqlite", "-before-upgrade-"))

    def _place(self, path: Path) -> Path:
        return self._target / path.relative_to(self._folder.root)

    def _file(self, path: Path) -> None:
        place = self._place(path)
        with contextlib.suppress(FileNotFoundError):  # it was not needed any more
            if self._never_changes(path):
                with contextlib.suppress(OSError):
                    os.link(path, place)
                    return
            shutil.copy2(path, place)

    def _never_changes(self, path: Path) -> bool:
        """Whether the file lies in a hierarchy whose files keep their content; others might be written to later."""
        return path.parent.parent in (self._folder.download, self._folder.upload) and _is_fan_out(
            path.parent.name
        )

    def _database(self, location: Path | str, place: Path) -> tuple[set[str], set[str]]:
        """Copy the rows; the downloads and outputs that they need."""
        self._report(place.name, 0.0)
        place.unlink(missing_ok=True)
        downloads, outputs = copy_rows(
            location,
            place,
            queries=(DOWNLOADS, OUTPUTS),
            progress=lambda part: self._report(place.name, part),
        )
        place.chmod(0o600)
        return {row[0] for row in downloads}, {row[0] for row in outputs}

    def _late_files(self, downloads: set[str], outputs: set[str]) -> bool:
        """Copy what the copied rows need and what is not there yet; whether all of it could be had."""
        complete = True
        for root, names in ((self._folder.download, downloads), (self._folder.upload, outputs)):
            for name in names:
                source = place_of(root, name)
                place = self._place(source)
                if not place.exists():
                    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    self._file(source)
                    complete = complete and (place.exists() or self._was_lost(root, name))
        return complete

    def _was_lost(self, root: Path, name: str) -> bool:
        """Whether the live database still needs a file that is not there: then it was lost before, and no retry brings it."""
        query = DOWNLOADS if root == self._folder.download else OUTPUTS
        (rows,) = read_rows(self._location, (query,))
        return (name,) in rows


def _is_fan_out(name: str) -> bool:
    try:
        return int(name, 16) < FAN_OUT
    except ValueError:
        return False


def _entries(root: Path, report: Report) -> Iterator[FileEntry]:
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    total = sum(path.stat().st_size for path in paths) or 1
    done = 0
    for path in paths:
        yield FileEntry(
            path=path.relative_to(root).as_posix(), nbytes=path.stat().st_size, sha256=_sha256(path)
        )
        done += path.stat().st_size
        report("checksums", done / total)


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _pack(working: Path, target: Path, mode: Literal["w", "w:gz"]) -> None:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            with tarfile.open(fileobj=handle, mode=mode) as archive:
                archive.add(working, arcname=".")
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


# -- reading ---------------------------------------------------------------------------------------------


def restore_backup(source: Path, target: Path, *, database: str = "", report: Report = _quiet) -> Manifest:
    """Make a project folder from a backup, once all of it is found sound.

    ``database``: address of an empty PostgreSQL database for a project that was on PostgreSQL; without it, the one that the
    settings in the backup name must be empty.

    Raises:
        ConfigError: the target exists, the database is not empty, or the source is not a backup.
        StoreError: the backup is damaged; nothing is left at the target.
    """
    if target.exists() and any(target.iterdir()):
        raise ConfigError(f"{target} is not empty. Restore into a new folder, then rename it.")
    target.parent.mkdir(parents=True, exist_ok=True)
    working = target.absolute().parent / f".restore-{secrets.token_hex(6)}"
    try:
        _unpack(source, working)
        manifest = check_backup(working, report=report, name=source)
        (working / MANIFEST).unlink()
        _name_database(working, manifest, database)
        for path in working.rglob("*"):
            secret = (working / "keys") in path.parents
            path.chmod(0o700 if path.is_dir() else 0o600 if secret else 0o644)
        (working / FILE_NAME).chmod(
            settings_mode(working / FILE_NAME, ProjectFolder(working).settings().database.url)
        )
        if manifest.database == "postgresql":
            _restore_rows(working, report)
        if target.exists():
            target.rmdir()
        working.rename(target)
        sync_folder(target.absolute().parent)
    except OSError as error:
        raise StoreError(f"The backup could not be restored: {error}.") from error
    finally:
        shutil.rmtree(working, ignore_errors=True)
    return manifest


def _name_database(working: Path, manifest: Manifest, database: str) -> None:
    """Write another address of the PostgreSQL database into the settings."""
    if not database:
        return
    if manifest.database != "postgresql":
        raise ConfigError(
            "This backup is of a project on SQLite. Restore it without --database, then call cobblestone project move."
        )
    settings = working / FILE_NAME
    write_durably(settings, with_database(settings.read_text(encoding="utf-8"), database).encode())


def _restore_rows(working: Path, report: Report) -> None:
    """Fill the PostgreSQL database; the last step but the renaming, since it cannot be undone with the folder."""
    report("database", 0.0)
    fill_database(ProjectFolder(working).settings().database.url, working / DUMP)
    (working / DUMP).unlink()


def verify_backup(source: Path, *, report: Report = _quiet) -> Manifest:
    """Check a backup, folder or tar file, without restoring it.

    Raises:
        ConfigError: it is not a backup.
        StoreError: it is damaged; the text names the first file that is.
    """
    if source.is_dir():
        return check_backup(source, report=report, name=source)
    working = source.absolute().parent / f".verify-{secrets.token_hex(6)}"
    try:
        _unpack(source, working)
        return check_backup(working, report=report, name=source)
    finally:
        shutil.rmtree(working, ignore_errors=True)


def _unpack(source: Path, working: Path) -> None:
    if source.is_dir():
        if not (source / MANIFEST).is_file():
            raise ConfigError(f"{source} is not a backup: it has no {MANIFEST}.")
        shutil.copytree(source, working, symlinks=True)
        return
    try:
        with tarfile.open(source) as archive:
            working.mkdir(mode=0o700)
            archive.extractall(working, filter="data")
    except FileNotFoundError as error:
        raise ConfigError(f"There is no {source}.") from error
    except tarfile.TarError as error:
        raise StoreError(f"{source} is not a tar file that can be read: {error}.") from error


def check_backup(root: Path, *, report: Report = _quiet, name: Path | None = None) -> Manifest:
    """Check an unpacked backup: every file, no other files, a sound database that this program understands.

    Raises:
        ConfigError: it is not a backup.
        StoreError: it is damaged.
    """
    shown = name or root
    manifest = _read_manifest(root, shown)
    done = 0
    for entry in manifest.files:
        parts = PurePosixPath(entry.path)
        if parts.is_absolute() or ".." in parts.parts:
            raise StoreError(f"{shown}: the manifest names {entry.path!r}, which lies outside of the backup.")
        path = root / parts
        if not path.is_file() or path.is_symlink():
            raise StoreError(f"{shown}: {entry.path} is missing.")
        if path.stat().st_size != entry.nbytes or _sha256(path) != entry.sha256:
            raise StoreError(f"{shown}: {entry.path} is damaged: its content is not what the manifest says.")
        done += entry.nbytes
        report("checking", done / (manifest.nbytes or 1))
    listed = {entry.path for entry in manifest.files}
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir()}
    if strays := sorted(found - listed - {MANIFEST}):
        raise StoreError(f"{shown}: {strays[0]} is not in the manifest.")
    if manifest.database == "postgresql":
        check_dump(root / DUMP)
        check_schema(manifest.schema, str(shown), PROJECT)
        return manifest
    database = root / ProjectFolder(root).database.name
    if problems := database_problems(database):
        raise StoreError(f"{shown}: the database is damaged: {problems[0]}")
    check_revision(database, PROJECT)
    return manifest


def _read_manifest(root: Path, shown: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode((root / MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError as error:
        raise ConfigError(f"{shown} is not a complete backup: it has no {MANIFEST}.") from error
    except msgspec.DecodeError as error:
        raise StoreError(f"{shown}: {MANIFEST} is damaged. Take another backup.") from error
    if manifest.format > FORMAT:
        raise StoreError(
            f"{shown} was made by a newer cobblestone ({manifest.cobblestone}). Install that version."
        )
    return manifest
