"""Backups of a running service, and restoring them.

A backup is a folder (or a tar file of it) like the service's own, with a manifest that names every file with its size and
SHA-256.  The manifest is written last: what has none is not complete.  Files that never change their content are hard
links where the disk allows it, so a backup beside the service costs little.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import msgspec

from cobblestone import __version__
from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.domain.exports import KeysInBackup
from cobblestone.ops.environment import BACKUP_MANIFEST
from cobblestone.ops.files import sync_folder, write_durably
from cobblestone.service.folder import LOCK, Kind
from cobblestone.service.settings import settings_mode, with_database
from cobblestone.service.tar_files import MODES, pack_folder, unpack_folder
from cobblestone.store.engine.reading import is_postgres
from cobblestone.store.maintenance import snapshot as snapshots
from cobblestone.store.maintenance.upgrade import check_revision, current_revision, needs_steps

#: The rows of a PostgreSQL database; a SQLite database has its own name.
DUMP = "database.dump"
FORMAT = 1
ATTEMPTS = 3

#: Is told what is being done, and the part of it that is done (0 to 1).
Report = Callable[[str, float], None]


class FileEntry(msgspec.Struct, frozen=True):
    """A file of a backup."""

    path: str  # relative, with slashes
    nbytes: int
    sha256: str


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a backup."""

    format: int
    cobblestone: str  # version of the program
    schema: str  # revision of the database
    time: float  # Unix seconds
    name: str
    url: str
    keys: str
    files: list[FileEntry]
    database: str = "sqlite"  # or "postgresql"; empty: there is none

    @property
    def nbytes(self) -> int:
        """Return the size of all files."""
        return sum(file.nbytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededFiles:
    """Files named in rows of the database."""

    query: str  #: for their names
    place: Callable[[str], Path]  #: where the file of a name lies


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The parts of a service that go into a backup."""

    kind: Kind
    root: Path
    name: str
    url: str
    address: str = ""  #: of its PostgreSQL database; empty: it has a SQLite one
    keys: KeysInBackup = KeysInBackup.ALL
    signing_key: Path | None = None  #: private
    further_databases: tuple[Path, ...] = ()
    needed: tuple[NeededFiles, ...] = ()
    left_out: tuple[Path, ...] = ()  #: beside the lock, and the secrets that `keys` does not want
    never_changes: Callable[[Path], bool] = lambda path: False  #: of files; others might be written to later
    moment: Callable[[], object] = lambda: None
    """Something that differs when files of one moment became others; where it is the same before and after, a copy is of one
    moment.  With a database it need not say anything: then the rows name the files."""

    @property
    def location(self) -> Path | str:
        """Return the location of the database."""
        return self.address or self.root / self.kind.database


def ignore_report(what: str, part: float) -> None:
    """Report nothing."""


# -- making ----------------------------------------------------------------------------------------------


def make_backup(contents: Contents, target: Path, *, report: Report = ignore_report) -> BackupManifest:
    """Write a backup of a service, running or stopped.

    Raises:
        ConfigError: the target exists.
        StoreError: something cannot be read or written; nothing is left at the target.
    """
    kind, address = contents.kind, contents.address
    if target.exists():
        raise ConfigError(f"{target} exists already. Give a new name: a backup never overwrites a file.")
    target.parent.mkdir(parents=True, exist_ok=True)
    packed = target.suffix in MODES
    # The folder of a tar file is made beside the service, where hard links are possible.
    beside = contents.root.parent if packed else target.parent
    with _working_folder(beside, "backup", "The backup could not be written") as working:
        schema = current_revision(address, kind.schema) if address and kind.schema else ""
        _Copy(contents, working, skip=target, report=report).run()
        if kind.schema and not schema:
            schema = current_revision(working / kind.database, kind.schema)
        manifest = BackupManifest(
            format=FORMAT,
            cobblestone=__version__,
            schema=schema or "",
            time=time.time(),
            name=contents.name,
            url=contents.url,
            keys=contents.keys.value,
            files=list(_entries(working, report)),
            database="postgresql" if address else "sqlite" if kind.schema else "",
        )
        write_durably(working / BACKUP_MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
        if packed:
            pack_folder(working, target)
        else:
            working.rename(target)
        sync_folder(target.parent)
    return manifest


@contextlib.contextmanager
def _working_folder(beside: Path, what: str, failure: str) -> Generator[Path]:
    """Make a folder that is gone afterwards; remove those of programs that were killed, for they may hold keys."""
    for left in beside.glob(f".{what}-" + "[0-9a-f]" * 12):
        with contextlib.suppress(OSError), _locked(left, fcntl.LOCK_EX):
            shutil.rmtree(left)
    working = beside / f".{what}-{secrets.token_hex(6)}"
    try:
        working.mkdir(mode=0o700)
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):  # some file systems have no locks: there nothing is removed
                held.enter_context(_locked(working, fcntl.LOCK_SH))
            yield working
    except OSError as error:
        raise StoreError(f"{failure}: {error}.") from error
    finally:
        shutil.rmtree(working, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path, how: int) -> Generator[None]:
    """Hold a lock of a folder.  Raises OSError if that cannot be, as while another process has one."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, how | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)


class _Copy:
    """Copies a service's folder.

    Files come first, then the database, then the files that came in between: whatever the copied rows need is there, for a
    file is written before its row and removed after it.
    """

    def __init__(self, contents: Contents, target: Path, *, skip: Path, report: Report) -> None:
        self._contents = contents
        self._target = target
        self._report = report
        self._skipped = {skip.absolute(), target.absolute(), contents.root / LOCK, *contents.left_out}
        if contents.keys is KeysInBackup.NONE:
            self._skipped.add(contents.root / contents.kind.secrets)
        if contents.keys is KeysInBackup.NO_SIGNING_KEY and contents.signing_key:
            self._skipped.add(contents.signing_key)

    def run(self) -> None:
        """Make the whole copy."""
        contents = self._contents
        self._report("files", 0.0)
        self._files()
        if contents.kind.schema is None:
            return
        rows = self._target / (DUMP if is_postgres(contents.location) else contents.kind.database)
        for _ in range(ATTEMPTS):
            if self._late_files(self._database(rows)):
                break
        else:
            text = "Files disappear faster than they can be copied. Try again when there is less activity."
            raise StoreError(text)
        for path in contents.further_databases:
            if path.exists():
                self._report(path.name, 0.0)
                snapshots.copy_database(
                    path, self._place(path), progress=lambda part, name=path.name: self._report(name, part)
                )
                self._place(path).chmod(0o600)

    def _files(self) -> None:
        for _ in range(ATTEMPTS):
            before = self._contents.moment()
            self._tree(self._contents.root)
            if self._contents.moment() == before:
                return
            shutil.rmtree(self._target)
            self._target.mkdir(mode=0o700)
        text = "Files change faster than they can be copied. Try again when there is less activity."
        raise StoreError(text)

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
        in_root = path.parent == self._contents.root
        return in_root and any(part in path.name for part in (".sqlite", "-before-upgrade-"))

    def _place(self, path: Path) -> Path:
        return self._target / path.relative_to(self._contents.root)

    def _file(self, path: Path) -> None:
        place = self._place(path)
        with contextlib.suppress(FileNotFoundError):  # it was not needed any more
            if self._contents.never_changes(path):
                with contextlib.suppress(OSError):
                    os.link(path, place)
                    return
            shutil.copy2(path, place)

    def _database(self, place: Path) -> list[set[str]]:
        """Copy the rows; return the names of the files that they need, of each kind."""
        self._report(place.name, 0.0)
        place.unlink(missing_ok=True)
        found = snapshots.copy_rows(
            self._contents.location,
            place,
            queries=[each.query for each in self._contents.needed],
            progress=lambda part: self._report(place.name, part),
        )
        place.chmod(0o600)
        return [{row[0] for row in rows} for rows in found]

    def _late_files(self, names: list[set[str]]) -> bool:
        """Copy the missing files that the copied rows need; return whether all could be copied."""
        complete = True
        for needed, wanted in zip(self._contents.needed, names, strict=True):
            missing: set[str] = set()
            for name in wanted:
                source = needed.place(name)
                place = self._place(source)
                if not place.exists():
                    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    self._file(source)
                    if not place.exists():
                        missing.add(name)
            complete = complete and (not missing or missing <= self._still_needed(needed))
        return complete

    def _still_needed(self, needed: NeededFiles) -> set[str]:
        """Return the files that the live database needs: of those that are missing all the same no retry helps."""
        (rows,) = snapshots.read_rows(self._contents.location, [needed.query])
        return {row[0] for row in rows}


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


# -- reading ---------------------------------------------------------------------------------------------


def restore_backup(
    source: Path, target: Path, kind: Kind, *, database: str = "", report: Report = ignore_report
) -> BackupManifest:
    """Restore a service's folder from a backup, after verifying all of it.

    ``database``: address of an empty PostgreSQL database for a service that was on PostgreSQL; without it, the one that the
    settings in the backup name must be empty.

    Raises:
        ConfigError: the target exists, the database is not empty, or the source is not a backup.
        StoreError: the backup is damaged; nothing is left at the target.
    """
    if target.exists() and any(target.iterdir()):
        raise ConfigError(f"{target} is not empty. Restore into a new folder, then rename it.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with _working_folder(target.absolute().parent, "restore", "The backup could not be restored") as working:
        _unpack(source, working)
        manifest = check_backup(working, kind, report=report, name=source)
        (working / BACKUP_MANIFEST).unlink()
        for path in working.rglob("*"):
            secret = kind.secrets in path.relative_to(working).parts[:1]
            path.chmod(0o700 if path.is_dir() else 0o600 if secret else 0o644)
        address = _name_database(working, kind, database, manifest)
        if manifest.database == "postgresql":
            # The last step but the renaming, since it cannot be undone with the folder.
            report("database", 0.0)
            snapshots.fill_database(address, working / DUMP)
            (working / DUMP).unlink()
        if target.exists():
            target.rmdir()
        working.rename(target)
        sync_folder(target.absolute().parent)
    return manifest


def _name_database(working: Path, kind: Kind, database: str, manifest: BackupManifest) -> str:
    """Have the restored settings name ``database``, if there is one; return the address that they name then."""
    if database and manifest.database != "postgresql":
        raise ConfigError(
            f"This backup is of a service on SQLite. Restore it without --database, then {kind.advice_to_move}."
        )
    settings = working / kind.settings
    if database:
        write_durably(settings, with_database(settings.read_text(encoding="utf-8"), database).encode())
    address = kind.address(working)
    settings.chmod(settings_mode(settings, address))
    return address


def verify_backup(source: Path, kind: Kind, *, report: Report = ignore_report) -> BackupManifest:
    """Check a backup, folder or tar file, without restoring it.

    Raises:
        ConfigError: it is not a backup.
        StoreError: it is damaged; the text names the first file that is.
    """
    if source.is_dir():
        return check_backup(source, kind, report=report, name=source)
    with _working_folder(source.absolute().parent, "verify", "The backup could not be unpacked") as working:
        _unpack(source, working)
        return check_backup(working, kind, report=report, name=source)


def _unpack(source: Path, working: Path) -> None:
    if source.is_dir():
        if not (source / BACKUP_MANIFEST).is_file():
            raise ConfigError(f"{source} is not a backup: it has no {BACKUP_MANIFEST}.")
        shutil.copytree(source, working, symlinks=True, dirs_exist_ok=True)
        return
    try:
        unpack_folder(source, working)
    except FileNotFoundError as error:
        raise ConfigError(f"There is no {source}.") from error


def check_backup(
    root: Path, kind: Kind, *, report: Report = ignore_report, name: Path | None = None
) -> BackupManifest:
    """Check an unpacked backup: every file, no other files, and a valid database that this program understands.

    Raises:
        ConfigError: it is not a backup.
        StoreError: it is damaged.
    """
    shown = name or root
    for path in root.rglob("*"):
        if path.is_symlink():  # none is made, and one to a folder elsewhere would lead there
            raise StoreError(f"{shown}: {path.relative_to(root)} is a link, which a backup never contains.")
    manifest = _read_manifest(root, shown)
    done = 0
    for entry in manifest.files:
        parts = PurePosixPath(entry.path)
        if parts.is_absolute() or ".." in parts.parts:
            raise StoreError(f"{shown}: the manifest names {entry.path!r}, which is outside the backup.")
        path = root / parts
        if not path.is_file():
            raise StoreError(f"{shown}: {entry.path} is missing.")
        if path.stat().st_size != entry.nbytes or _sha256(path) != entry.sha256:
            raise StoreError(f"{shown}: {entry.path} is damaged: its content does not match the manifest.")
        done += entry.nbytes
        report("checking", done / (manifest.nbytes or 1))
    listed = {entry.path for entry in manifest.files}
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir()}
    if strays := sorted(found - listed - {BACKUP_MANIFEST}):
        raise StoreError(f"{shown}: {strays[0]} is not in the manifest.")
    if kind.schema is None:
        return manifest
    if manifest.database == "postgresql":
        snapshots.check_dump(root / DUMP)
        needs_steps(manifest.schema or None, str(shown), kind.schema)
        return manifest
    database = root / kind.database
    if problems := snapshots.database_problems(database):
        raise StoreError(f"{shown}: the database is damaged: {problems[0]}")
    check_revision(database, kind.schema)
    return manifest


def _read_manifest(root: Path, shown: Path) -> BackupManifest:
    try:
        manifest = msgspec.json.decode((root / BACKUP_MANIFEST).read_bytes(), type=BackupManifest)
    except FileNotFoundError as error:
        raise ConfigError(f"{shown} is not a complete backup: it has no {BACKUP_MANIFEST}.") from error
    except msgspec.DecodeError as error:
        raise StoreError(f"{shown}: {BACKUP_MANIFEST} is damaged. Take another backup.") from error
    if manifest.format > FORMAT:
        text = f"{shown} was made by a newer cobblestone ({manifest.cobblestone}). Install that version."
        raise StoreError(text)
    return manifest
