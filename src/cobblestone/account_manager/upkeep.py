"""Upkeep of an account manager: what goes into a backup, and ``cobblestone manager doctor``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cobblestone.account_manager.core import operation
from cobblestone.account_manager.core.folder import ManagerFolder
from cobblestone.account_manager.store import figures, projects
from cobblestone.account_manager.store.schema import MANAGER
from cobblestone.domain.errors import CobblestoneError
from cobblestone.domain.exports import KeysInBackup
from cobblestone.domain.reasons import Finding
from cobblestone.service import diagnosis
from cobblestone.service.backup import Contents
from cobblestone.service.mail import outbox
from cobblestone.store.engine.database import Database, Store
from cobblestone.wire.project import signatures as wire


def manager_contents(folder: ManagerFolder, keys: KeysInBackup = KeysInBackup.ALL) -> Contents:
    """Return what of an account manager goes into a backup.  Raises ConfigError: it is none."""
    settings = folder.settings()
    return Contents(
        kind=folder.kind,
        root=folder.root,
        name=settings.manager.name,
        url=settings.manager.url,
        address=settings.database.url,
        keys=keys,
        signing_key=folder.sign_private,
        left_out=(outbox(folder.root),),
    )


@dataclass(frozen=True, slots=True)
class Opened:
    """An account manager under examination, running or stopped."""

    folder: ManagerFolder
    store: Store


Check = diagnosis.Check[Opened, [Opened, Database]]


def _secrets(folder: ManagerFolder) -> list[Path]:
    keys = [path for path in sorted(folder.keys.iterdir()) if path != folder.sign_public]
    databases = [folder.database] if folder.database.exists() else []
    return [folder.keys, *keys, *databases, *diagnosis.secret_settings(folder.root)]


def _keys(opened: Opened, db: Database) -> Iterator[Finding]:
    folder = opened.folder
    yield from diagnosis.readable_by_others(folder.root, _secrets(folder))
    try:
        public = folder.read_key(folder.sign_public)
        wire.decode_public_key(public)
        if len(folder.read_key(folder.secret_file)) < 32:
            yield Finding("short_secret", str(folder.secret_file), None, "it is too short to be a secret")
    except CobblestoneError as error:
        yield Finding("no_key", "keys", None, str(error))
        return
    if folder.sign_private.exists():
        try:
            private = wire.decode_private_key(folder.read_key(folder.sign_private))
        except CobblestoneError as error:
            yield Finding("unreadable_key", "signing key", None, str(error))
            return
        if not wire.same_key(wire.encode_public_key(private.public_key()), public):
            text = "the private key in the folder does not match the public key, which clients keep"
            yield Finding("other_key", "signing key", None, text)


def _signatures(opened: Opened, db: Database) -> Iterator[Finding]:
    try:
        public = wire.decode_public_key(opened.folder.read_key(opened.folder.sign_public))
    except CobblestoneError:  # the check of keys says so
        return
    for project in projects.all_projects(db):
        if not wire.verify_bytes(public, project.url.encode(), project.url_signature):
            text = f"the signature of {project.url} was not made with this account manager's key: clients reject it"
            yield Finding("bad_signature", "project", project.id, text)


def _projects(opened: Opened, db: Database) -> Iterator[Finding]:
    for project in projects.all_projects(db):
        if project.problem and not project.stopped:
            yield Finding("not_usable", "project", project.id, f"{project.url}: {project.problem}")


CHECKS: Mapping[str, Check] = diagnosis.by_name(
    Check(
        name="days",
        promise="The sums of days are those of the ledger.",
        find=diagnosis.in_rows(figures.days_follow),
        repair=diagnosis.in_write(lambda tx: len(operation.verify_sums(tx, repair=True))),
        repair_text="Makes the sums of these days again from the entries.",
        advice="Sums that go wrong again are a bug of cobblestone: report it, with the days.",
    ),
    Check(
        name="totals",
        promise="What a person has at a project is what the ledger holds.",
        find=diagnosis.in_rows(figures.totals_follow),
        repair=diagnosis.in_write(figures.settle_totals),
        repair_text="Sets the totals to what the ledger holds.",
    ),
    Check(
        name="rows", promise="No row names one that is not there.", find=diagnosis.in_rows(figures.orphans)
    ),
    Check(
        name="people",
        promise="Weak keys lead to their accounts, and there is an operator.",
        find=diagnosis.in_rows(figures.wrong_people),
        advice="Restore a backup, or report it as a bug of cobblestone.",
    ),
    Check(
        name="keys",
        promise="Secrets are there, fit together, and are for their owner alone.",
        find=_keys,
        repair=lambda opened: diagnosis.keep_from_others(_secrets(opened.folder)),
        repair_text="Takes the permission to read secrets from others.",
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
        advice="The project says why; stop it with cobblestone manager edit DIR PROJECT --stop if it does not come back.",
        only_warns=True,
    ),
    Check(
        name="schema",
        promise="The database has the schema of this program.",
        find=lambda it, db: diagnosis.missing_steps(it.folder.location(it.folder.settings()), MANAGER),
        advice="cobblestone manager upgrade says what it waits for.",
    ),
    Check(
        name="disk",
        promise="There is room on the disk.",
        find=lambda it, db: diagnosis.full_disk(
            it.folder.root, it.folder.settings().server.min_free_disk_bytes
        ),
        advice="Make room: nothing can be counted on a full disk.",
        only_warns=True,
    ),
)
