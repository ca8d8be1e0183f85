"""Backups of a statistics site: a snapshot of its rows and history.

What pages read is made from these at the start, and what projects sent comes again with the next collection.
"""

from __future__ import annotations

from pathlib import Path

from cobblestone import __version__
from cobblestone.domain.exports import KeysInBackup
from cobblestone.service import backup
from cobblestone.service.backup import BackupManifest, Contents, Kind, Report, ignore_report
from cobblestone.statistics.folder import SiteFolder, load_settings

KIND = Kind()


def make_backup(
    folder: SiteFolder,
    target: Path,
    *,
    keys: KeysInBackup = KeysInBackup.ALL,
    report: Report = ignore_report,
) -> BackupManifest:
    """Write a backup of a site, running or stopped, and verify the copy.

    Raises:
        ConfigError: it is none, or the target exists.
        StoreError: something cannot be read or written, or changes too fast; nothing is left at the target.
    """
    settings = load_settings(folder.root)
    incoming = [project.incoming for project in folder.known_projects()]
    contents = Contents(
        kind=KIND,
        root=folder.root,
        name=settings.site.name,
        url=settings.site.url,
        keys=keys.value,
        program=__version__,
        left_out=frozenset(
            (
                folder.lock,
                folder.published,
                *incoming,
                *(() if keys is KeysInBackup.ALL else (folder.secret,)),
            )
        ),
        never_changes=lambda path: path.suffix == ".parquet",  # others of the same name take their place
        moment=lambda: _counted_files(folder),
    )
    made = backup.make_backup(contents, target, report=report)
    backup.verify_backup(target, KIND, report=report)
    return made


def _counted_files(folder: SiteFolder) -> frozenset[tuple[str, int, int]]:
    """Return the current files: a new one is written beside its place and renamed, so its number differs."""
    projects = folder.known_projects()
    places = [folder.history, *(place for each in projects for place in (each.generations, each.all_history))]
    files = [path for place in places for path in place.rglob("*.parquet")]
    files += [each.state_file for each in projects]
    found: set[tuple[str, int, int]] = set()
    for path in files:
        try:
            facts = path.stat()
        except FileNotFoundError:
            continue
        found.add((str(path), facts.st_ino, facts.st_mtime_ns))
    return frozenset(found)


def restore_backup(source: Path, target: Path, *, report: Report = ignore_report) -> BackupManifest:
    """Restore a site's folder from a backup, after verifying all of it.

    Raises:
        ConfigError: the target exists, or the source is not a backup.
        StoreError: the backup is damaged; nothing is left at the target.
    """

    def prepare(working: Path, manifest: BackupManifest) -> str:
        load_settings(working)
        folder = SiteFolder(working)
        if folder.secret.exists():
            folder.secret.chmod(0o600)
        return ""

    return backup.restore_backup(source, target, KIND, prepare, report=report)


def verify_backup(source: Path, *, report: Report = ignore_report) -> BackupManifest:
    """Check a backup without restoring it.  Raises ConfigError if it is not a backup, StoreError if it is damaged."""
    return backup.verify_backup(source, KIND, report=report)
