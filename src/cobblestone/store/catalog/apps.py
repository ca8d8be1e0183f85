"""Apps and their versions, and the public keys that their files are signed with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from cobblestone.domain.apps import App, AppFile, AppVersion
from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.job_form import JobForm
from cobblestone.domain.values import AppId, AppVersionId
from cobblestone.store.catalog import files
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper, to_json

#: Woken when apps or versions change: processes that keep a copy read it again.
CATALOGUE_CHANGED = "catalogue"

_APPS = RowMapper(App)
_STORED_APP = _APPS.writer(without=("id", "create_time"))
_VERSIONS = RowMapper(AppVersion)
_STORED_VERSION = _VERSIONS.writer(without=("id",))


# -- apps ----------------------------------------------------------------------


def apps_in_use(db: Database) -> list[App]:
    """Return apps that are not deprecated."""
    return [app for app in list_apps(db) if not app.deprecated]


def list_apps(db: Database) -> list[App]:
    """Return all apps that can be read, in the order of their ids."""
    return [*db.readable(_APPS.load, db.query(f"SELECT {_APPS.columns} FROM app ORDER BY id"))]


def app_by_name(db: Database, name: str) -> App | None:
    """Return an app, or None."""
    return db.first(_APPS, "app WHERE name = ?", (name,))


def app_by_id(db: Database, app_id: AppId) -> App:
    """Return an app.

    Raises:
        NotFound: there is none with this id.
    """
    return db.needed(_APPS, "app WHERE id = ?", (app_id,), f"There is no app {app_id}.")


def job_form(db: Database, app_id: AppId) -> JobForm:
    """Return the form of an app's jobs.

    Raises:
        NotFound: there is no such app.
    """
    text = db.value("SELECT command FROM app WHERE id = ?", (app_id,))
    if text is None:
        raise NotFound(f"There is no app {app_id}.")
    return msgspec.json.decode(text, type=JobForm)


def create_app(tx: Transaction, app: App, *, form: JobForm, now: float) -> App:
    """Create an app (``app.id`` is ignored).

    Raises:
        Conflict: the name is taken.
    """
    if tx.value("SELECT 1 FROM app WHERE name = ?", (app.name,)):
        text = f"There is already an app called {app.name}. Use another name, or add a version to that one."
        raise Conflict(text)
    app_id = tx.insert(
        _STORED_APP.insert("app", "command", "create_time"), (*_STORED_APP.values(app), to_json(form), now)
    )
    tx.wake(CATALOGUE_CHANGED)
    return replace(app, id=AppId(app_id), create_time=now)


def update_app(tx: Transaction, app: App, *, form: JobForm | None = None) -> App:
    """Store changed properties of an app; existing jobs keep theirs.  ``form`` None: unchanged.

    Raises:
        NotFound: there is no such app.
    """
    changed = tx.execute(_STORED_APP.update("app"), (*_STORED_APP.values(app), app.id))
    if changed == 0:
        raise NotFound(f"There is no app {app.id}.")
    if form is not None:
        tx.change("app", app.id, command=to_json(form))
    tx.wake(CATALOGUE_CHANGED)
    return app


# -- versions ------------------------------------------------------------------


def list_versions(
    db: Database, app_id: AppId | None = None, *, platform: str | None = None, deprecated: bool = False
) -> list[AppVersion]:
    """Return versions of one app or of all, of one platform or of all, oldest first; ``deprecated``: those too.

    Those that cannot be read are left out.
    """
    wanted = {"app_id": app_id, "platform": platform, "deprecated": None if deprecated else 0}
    given = {column: wish for column, wish in wanted.items() if wish is not None}
    where = " AND ".join(f"{column} = ?" for column in given) or "1 = 1"
    sql = f"SELECT {_VERSIONS.columns} FROM app_version WHERE {where} ORDER BY app_id, version_num, id"
    return [*db.readable(_VERSIONS.load, db.query(sql, list(given.values())))]


def platforms_in_use(db: Database) -> set[str]:
    """Return the platforms of all versions in use."""
    return {row[0] for row in db.query("SELECT DISTINCT platform FROM app_version WHERE deprecated = 0")}


def version_by_id(db: Database, version_id: AppVersionId) -> AppVersion | None:
    """Return a version, or None."""
    return db.first(_VERSIONS, "app_version WHERE id = ?", (version_id,))


def next_version_num(db: Database, app_id: AppId, *, platform: str, plan_class: str) -> int:
    """Return the number of a new version: one above the highest of that platform and plan class, 100 at first."""
    highest = db.value(
        "SELECT MAX(version_num) FROM app_version WHERE app_id = ? AND platform = ? AND plan_class = ?",
        (app_id, platform, plan_class),
    )
    return 100 if highest is None else int(highest) + 1


def add_version(tx: Transaction, version: AppVersion, *, now: float) -> AppVersion:
    """Add a version (``id`` is ignored; ``version_num`` 0: the next one); its files gain a reference.

    Raises:
        Conflict: the app has this version number for that platform and plan class already.
        NotFound: a file is not in the store.
    """
    number = version.version_num or next_version_num(
        tx, version.app_id, platform=version.platform, plan_class=version.plan_class
    )
    if tx.value(
        "SELECT 1 FROM app_version WHERE app_id = ? AND platform = ? AND version_num = ? AND plan_class = ?",
        (version.app_id, version.platform, number, version.plan_class),
    ):
        raise Conflict(
            f"There is already a version {number / 100:.2f} for {version.platform}. Leave the number out to get the next one."
        )
    files.add_references(tx, {file.name: 1 for file in version.files})
    numbered = replace(version, version_num=number)
    version_id = tx.insert(
        _STORED_VERSION.insert("app_version", "create_time", "expavg_time"),
        (*_STORED_VERSION.values(numbered), now, now),
    )
    tx.wake(CATALOGUE_CHANGED)
    return replace(numbered, id=AppVersionId(version_id))


def set_version_deprecated(tx: Transaction, version_id: AppVersionId, deprecated: bool) -> AppVersion:
    """Stop or resume sending a version; return the version after that.

    Raises:
        NotFound: there is no such version.
    """
    tx.change("app_version", version_id, deprecated=int(deprecated))
    tx.wake(CATALOGUE_CHANGED)
    return tx.needed(
        _VERSIONS, "app_version WHERE id = ?", (version_id,), f"There is no app version {version_id}."
    )


def earlier_versions(db: Database, version: AppVersion) -> list[tuple[AppVersionId, int]]:
    """Return id and number of the versions before ``version`` of the same app, platform and plan class."""
    rows = db.query(
        "SELECT id, version_num FROM app_version WHERE app_id = ? AND platform = ? AND plan_class = ? AND version_num < ?",
        (version.app_id, version.platform, version.plan_class, version.version_num),
    )
    return [(AppVersionId(row[0]), row[1]) for row in rows]


def set_signatures(tx: Transaction, signatures: Mapping[str, str]) -> int:
    """Store signatures, by physical file name, in every version with this file; return how many versions changed."""
    changed = 0
    for version in list_versions(tx, deprecated=True):
        signed = tuple(
            replace(file, signature=signatures[file.name]) if file.name in signatures else file
            for file in version.files
        )
        if signed != version.files:
            tx.change("app_version", version.id, files=to_json(signed))
            changed += 1
    tx.wake(CATALOGUE_CHANGED)
    return changed


def unsigned_files(versions: Sequence[AppVersion]) -> list[AppFile]:
    """Return files of versions in use that lack a signature, each once, by name."""
    found = {
        file.name: file
        for version in versions
        if not version.deprecated
        for file in version.files
        if not file.signature
    }
    return [found[name] for name in sorted(found)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSignKey:
    """A public code-signing key, current or retired."""

    id: int
    public_key: str  #: text in the family's form, without white space at its ends
    create_time: float  #: Unix seconds
    is_current: bool
    successor_signature: str  #: the current key, signed with this older one; empty: clients must attach again


_KEYS = RowMapper(CodeSignKey)


def list_keys(db: Database) -> list[CodeSignKey]:
    """Return all keys, newest first."""
    return db.load(_KEYS, "code_sign_key ORDER BY id DESC")


def current_key(db: Database) -> CodeSignKey | None:
    """Return the key that clients must have, or None."""
    return next((key for key in list_keys(db) if key.is_current), None)


def set_current_key(
    tx: Transaction, public_key: str, *, successor_signatures: Mapping[int, str], now: float
) -> CodeSignKey:
    """Make a new key the current one.

    ``successor_signatures`` holds, by the id of an older key, the signature of the new key's text made with
    that older one.  Older keys without one lose theirs: it belonged to a key that is not current any more.

    Raises:
        Conflict: the project has this key already.
    """
    text = public_key.strip()
    older = list_keys(tx)
    if any(key.public_key == text for key in older):
        raise Conflict("The project has this key already. Make a new one with: cobblestone key create")
    tx.execute_many(
        "UPDATE code_sign_key SET is_current = 0, successor_signature = ? WHERE id = ?",
        [(successor_signatures.get(key.id, "").strip(), key.id) for key in older],
    )
    key_id = tx.insert(
        "INSERT INTO code_sign_key (public_key, create_time, is_current, successor_signature) VALUES (?, ?, 1, '')",
        (text, now),
    )
    tx.wake(CATALOGUE_CHANGED)
    return CodeSignKey(id=key_id, public_key=text, create_time=now, is_current=True, successor_signature="")
