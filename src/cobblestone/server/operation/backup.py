"""Backups of a project, restoring, and the move from SQLite to PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cobblestone import __version__
from cobblestone.domain.exports import KeysInBackup
from cobblestone.ops.settings import FILE_NAME
from cobblestone.server.core.project import ProjectFolder
from cobblestone.service import backup
from cobblestone.service.backup import BackupManifest, Contents, Kind, NeededFiles, Report, ignore_report
from cobblestone.service.settings import Movable, Moved, database_of_restored, move_service
from cobblestone.store.catalog.files import FAN_OUT, place_of
from cobblestone.store.maintenance.copy_to_postgres import Progress
from cobblestone.store.schema.project import DOWNLOADS, OUTPUTS, PROJECT
from cobblestone.store.work.uploads import partial_folder

KIND = Kind(schema=PROJECT, database=ProjectFolder(Path()).database.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupWish:
    """The requested content of a backup."""

    keys: KeysInBackup = KeysInBackup.ALL
    results: bool = True  #: also what assimilators wrote


def make_backup(
    folder: ProjectFolder, target: Path, wish: BackupWish = BackupWish(), *, report: Report = ignore_report
) -> BackupManifest:
    """Write a backup of a project, running or stopped.

    Raises:
        ConfigError: it is not a project, or the target exists.
        StoreError: something cannot be read or written; nothing is left at the target.
    """
    return backup.make_backup(_contents(folder, wish), target, report=report)


def _contents(folder: ProjectFolder, wish: BackupWish) -> Contents:
    settings = folder.settings()
    hierarchies = (folder.download, folder.upload)
    return Contents(
        kind=KIND,
        root=folder.root,
        name=settings.project.name,
        url=settings.project.url,
        keys=wish.keys.value,
        program=__version__,
        address=settings.database.url,
        further_databases=(folder.archive,),
        # What is in a bucket stays there: the folder is a cache of it.
        needed=()
        if settings.storage.bucket
        else (
            NeededFiles(query=DOWNLOADS, place=lambda name: place_of(folder.download, name)),
            NeededFiles(query=OUTPUTS, place=lambda name: place_of(folder.upload, name)),
        ),
        left_out=frozenset(
            (
                folder.staging,
                folder.exports,
                folder.run_file,
                folder.lock_file,
                partial_folder(folder.upload),
                *(hierarchies if settings.storage.bucket else ()),
                *(() if wish.results else (folder.results,)),
                *((folder.keys,) if wish.keys is KeysInBackup.NONE else ()),
                *((folder.code_sign_private,) if wish.keys is KeysInBackup.NO_SIGNING_KEY else ()),
            )
        ),
        never_changes=lambda path: path.parent.parent in hierarchies and _is_fan_out(path.parent.name),
    )


def _is_fan_out(name: str) -> bool:
    try:
        return int(name, 16) < FAN_OUT
    except ValueError:
        return False


def restore_backup(
    source: Path, target: Path, *, database: str = "", report: Report = ignore_report
) -> BackupManifest:
    """Restore a project folder from a backup, after verifying all of it.

    ``database``: address of an empty PostgreSQL database for a project that was on PostgreSQL; without it, the one that the
    settings in the backup name must be empty.

    Raises:
        ConfigError: the target exists, the database is not empty, or the source is not a backup.
        StoreError: the backup is damaged; nothing is left at the target.
    """

    def prepare(working: Path, manifest: BackupManifest) -> str:
        settings = working / FILE_NAME
        return database_of_restored(
            settings,
            database,
            manifest,
            lambda: ProjectFolder(working).settings().database.url,
            advice="call cobblestone project move",
        )

    return backup.restore_backup(source, target, KIND, prepare, report=report)


def verify_backup(source: Path, *, report: Report = ignore_report) -> BackupManifest:
    """Check a backup, folder or tar file, without restoring it.

    Raises:
        ConfigError: it is not a backup.
        StoreError: it is damaged; the text names the first file that is.
    """
    return backup.verify_backup(source, KIND, report=report)


def move_project(root: Path, address: str, *, progress: Progress) -> Moved:
    """Move a stopped project; see `move_service`, also for errors."""
    folder = ProjectFolder(root.resolve())
    project = Movable(
        what="project",
        database=folder.database,
        settings=folder.root / FILE_NAME,
        address=folder.settings().database.url,
        schema=PROJECT,
        lock=folder.lock,
    )
    return move_service(project, address, progress=progress)
