"""Backups of an account manager: what of its folder goes along, and what a restored one needs."""

from __future__ import annotations

from pathlib import Path

from cobblestone import __version__
from cobblestone.account_manager.folder import ManagerFolder
from cobblestone.account_manager.settings import FILE_NAME
from cobblestone.account_manager.store.schema import MANAGER
from cobblestone.domain.backups import KeysInBackup
from cobblestone.service import backup
from cobblestone.service.backup import Contents, Kind, Manifest, Report, ignore_report
from cobblestone.service.database_settings import database_of_restored
from cobblestone.service.mailer import outbox

KIND = Kind(schema=MANAGER, database=ManagerFolder(Path()).database.name)


def make_backup(
    folder: ManagerFolder,
    target: Path,
    *,
    keys: KeysInBackup = KeysInBackup.ALL,
    report: Report = ignore_report,
) -> Manifest:
    """Write a backup of an account manager, running or not, and check the copy.

    Raises:
        ConfigError: it is none, or the target exists.
        StoreError: something cannot be read or written; nothing is left at the target.
    """
    settings = folder.settings()
    contents = Contents(
        kind=KIND,
        root=folder.root,
        name=settings.manager.name,
        url=settings.manager.url,
        keys=keys.value,
        program=__version__,
        address=settings.database.url,
        left_out=frozenset(
            (
                folder.lock_file,
                outbox(folder.root),
                *((folder.keys,) if keys is KeysInBackup.NONE else ()),
                *((folder.sign_private,) if keys is KeysInBackup.NO_SIGNING_KEY else ()),
            )
        ),
    )
    made = backup.make_backup(contents, target, report=report)
    backup.verify_backup(target, KIND, report=report)
    return made


def restore_backup(
    source: Path, target: Path, *, database: str = "", report: Report = ignore_report
) -> Manifest:
    """Make an account manager's folder from a backup, once all of it is found sound.

    ``database``: address of an empty PostgreSQL database for one that was on PostgreSQL; without it, the one that the settings in
    the backup name must be empty.

    Raises:
        ConfigError: the target exists, the database is not empty, or the source is not a backup.
        StoreError: the backup is damaged; nothing is left at the target.
    """

    def prepare(working: Path, manifest: Manifest) -> str:
        return database_of_restored(
            working / FILE_NAME,
            database,
            manifest,
            lambda: ManagerFolder(working).settings().database.url,
            advice="move it (cobblestone manager move)",
        )

    return backup.restore_backup(source, target, KIND, prepare, report=report)


def verify_backup(source: Path, *, report: Report = ignore_report) -> Manifest:
    """Check a backup without restoring it.  Raises ConfigError: it is none; StoreError: it is damaged."""
    return backup.verify_backup(source, KIND, report=report)
