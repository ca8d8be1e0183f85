"""Maintenance of an account manager: backups, the move to PostgreSQL, and ``cobblestone manager doctor``."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cobblestone import __version__
from cobblestone.account_manager.core import operation
from cobblestone.account_manager.core.folder import FILE_NAME, ManagerFolder
from cobblestone.account_manager.store import figures, projects
from cobblestone.account_manager.store.schema import MANAGER
from cobblestone.domain.errors import CobblestoneError, StoreError
from cobblestone.domain.exports import KeysInBackup
from cobblestone.domain.reasons import Finding
from cobblestone.service import backup, diagnosis
from cobblestone.service.backup import BackupManifest, Contents, Kind, Report, ignore_report
from cobblestone.service.diagnosis import keep_from_others, readable_by_others
from cobblestone.service.mail import outbox
from cobblestone.service.settings import Movable, Moved, database_of_restored, move_service
from cobblestone.store.engine.database import Database, Store, Transaction
from cobblestone.store.maintenance.copy_to_postgres import Progress
from cobblestone.store.maintenance.upgrade import upgrade_plan
from cobblestone.wire.project.signatures import (
    decode_private_key,
    decode_public_key,
    encode_public_key,
    same_key,
    verify_bytes,
)

KIND = Kind(schema=MANAGER, database=ManagerFolder(Path()).database.name)


def make_backup(
    folder: ManagerFolder,
    target: Path,
    *,
    keys: KeysInBackup = KeysInBackup.ALL,
    report: Report = ignore_report,
) -> BackupManifest:
    """Write a backup of an account manager, running or stopped, and verify the copy.

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
) -> BackupManifest:
    """Restore an account manager's folder from a backup, after verifying all of it.

    ``database``: address of an empty PostgreSQL database for one that was on PostgreSQL; without it, the one that the settings in
    the backup name must be empty.

    Raises:
        ConfigError: the target exists, the database is not empty, or the source is not a backup.
        StoreError: the backup is damaged; nothing is left at the target.
    """

    def prepare(working: Path, manifest: BackupManifest) -> str:
        return database_of_restored(
            working / FILE_NAME,
            database,
            manifest,
            lambda: ManagerFolder(working).settings().database.url,
            advice="move it (cobblestone manager move)",
        )

    return backup.restore_backup(source, target, KIND, prepare, report=report)


def verify_backup(source: Path, *, report: Report = ignore_report) -> BackupManifest:
    """Check a backup without restoring it.  Raises ConfigError if it is not a backup, StoreError if it is damaged."""
    return backup.verify_backup(source, KIND, report=report)


def move_manager(root: Path, address: str, *, progress: Progress) -> Moved:
    """Move a stopped account manager; see `move_service`, also for errors."""
    folder = ManagerFolder(root.resolve())
    settings = folder.settings()
    manager = Movable(
        what="account manager",
        database=folder.database,
        settings=folder.root / FILE_NAME,
        address=settings.database.url,
        schema=MANAGER,
        lock=lambda: folder.lock(settings),
    )
    return move_service(manager, address, progress=progress)


@dataclass(frozen=True, slots=True)
class Opened:
    """An account manager under examination, running or stopped."""

    folder: ManagerFolder
    store: Store


Check = diagnosis.Check[Opened, [Opened, Database]]


def _only_rows(
    find: Callable[[Database], Iterator[Finding]],
) -> Callable[[Opened, Database], Iterator[Finding]]:
    return lambda opened, db: find(db)


def _write(mend: Callable[[Transaction], int]) -> Callable[[Opened], int]:
    return lambda opened: opened.store.write(mend)


def _secrets(folder: ManagerFolder) -> list[Path]:
    keys = [path for path in sorted(folder.keys.iterdir()) if path != folder.sign_public]
    return [folder.keys, *keys, *([folder.database] if folder.database.exists() else [])]


def _keys(opened: Opened, db: Database) -> Iterator[Finding]:
    folder = opened.folder
    yield from readable_by_others(folder.root, _secrets(folder))
    try:
        public = folder.read_key(folder.sign_public)
        decode_public_key(public)
        if len(folder.read_key(folder.secret_file)) < 32:
            yield Finding("short_secret", str(folder.secret_file), None, "it is too short to be a secret")
    except CobblestoneError as error:
        yield Finding("no_key", "keys", None, str(error))
        return
    if folder.sign_private.exists():
        try:
            private = decode_private_key(folder.read_key(folder.sign_private))
        except CobblestoneError as error:
            yield Finding("unreadable_key", "signing key", None, str(error))
            return
        if not same_key(encode_public_key(private.public_key()), public):
            text = "the private key in the folder does not match the public key, which clients keep"
            yield Finding("other_key", "signing key", None, text)


def _signatures(opened: Opened, db: Database) -> Iterator[Finding]:
    try:
        public = decode_public_key(opened.folder.read_key(opened.folder.sign_public))
    except CobblestoneError:  # the check of keys says so
        return
    for project in projects.all_projects(db):
        if not verify_bytes(public, project.url.encode(), project.url_signature):
            text = f"the signature of {project.url} was not made with this account manager's key: clients reject it"
            yield Finding("bad_signature", "project", project.id, text)


def _projects(opened: Opened, db: Database) -> Iterator[Finding]:
    for project in projects.all_projects(db):
        if project.problem and not project.stopped:
            yield Finding("not_usable", "project", project.id, f"{project.url}: {project.problem}")


def _schema(opened: Opened, db: Database) -> Iterator[Finding]:
    try:
        plan, _ = upgrade_plan(opened.folder.location(opened.folder.settings()), MANAGER)
    except StoreError as error:
        yield Finding("wrong_schema", "database", None, str(error))
        return
    for step in (*plan.steps, *plan.waiting):
        yield Finding(
            "step_waits", "database", None, f"the step to schema {step.revision} has not been taken yet"
        )


def _disk(opened: Opened, db: Database) -> Iterator[Finding]:
    least = opened.folder.settings().server.min_free_disk_bytes
    free = shutil.disk_usage(opened.folder.root).free
    if free < least:
        yield Finding(
            "disk_full", "disk", None, f"{free // 10**6} MB are free: less than {least // 10**6} MB"
        )


CHECKS: Mapping[str, Check] = {
    each.name: each
    for each in (
        Check(
            name="days",
            promise="The daily sums agree with the ledger.",
            find=_only_rows(figures.days_follow),
            repair=_write(lambda tx: len(operation.verify_sums(tx, repair=True))),
            repair_text="Recomputes the sums of these days from the entries.",
            advice="Sums that become wrong again are a bug in cobblestone: report it, with the days.",
        ),
        Check(
            name="totals",
            promise="People's totals at projects agree with the ledger.",
            find=_only_rows(figures.totals_follow),
            repair=_write(figures.settle_totals),
            repair_text="Sets the totals from the ledger.",
            advice="Report it as a bug in cobblestone, with the rows.",
        ),
        Check(
            name="rows",
            promise="No row refers to a missing one.",
            find=_only_rows(figures.orphans),
            advice="Report it as a bug in cobblestone, with the rows.",
        ),
        Check(
            name="people",
            promise="Weak keys match their accounts, and there is an operator.",
            find=_only_rows(figures.wrong_people),
            advice="Restore a backup, or report it as a bug in cobblestone.",
        ),
        Check(
            name="keys",
            promise="Secrets exist, match each other, and can only be read by their owner.",
            find=_keys,
            repair=lambda opened: keep_from_others(_secrets(opened.folder)),
            repair_text="Removes the permission of others to read secrets.",
            advice="Restore keys/ from a backup: clients refuse an account manager whose key changed.",
        ),
        Check(
            name="signatures",
            promise="Every project's address is signed by this account manager's key.",
            find=_signatures,
            advice="Restore keys/ from a backup, or sign the addresses with the right key: cobblestone manager sign.",
        ),
        Check(
            name="projects",
            promise="Computers can be sent to every project.",
            find=_projects,
            advice="See the project's page for the reason; stop it with cobblestone manager edit DIR "
            "PROJECT --stop if it does not come back.",
            only_warns=True,
        ),
        Check(
            name="schema",
            promise="The database has the schema of this program.",
            find=_schema,
            advice="cobblestone manager upgrade shows what it waits for.",
        ),
        Check(
            name="disk",
            promise="There is enough space on the disk.",
            find=_disk,
            advice="Free some space: nothing can be counted on a full disk.",
            only_warns=True,
        ),
    )
}
