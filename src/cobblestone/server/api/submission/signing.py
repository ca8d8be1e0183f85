"""Code signing: files to be signed, imported signatures, and new keys."""

from __future__ import annotations

from cobblestone.api_schema import endpoints
from cobblestone.api_schema import project as schema
from cobblestone.domain.apps import AppFile, AppVersion
from cobblestone.domain.errors import JobError, NotFound
from cobblestone.domain.values import form_of
from cobblestone.server.api.endpoints.routing import Call, answers
from cobblestone.server.files.code_signing import check_signatures
from cobblestone.server.scheduler.reply import download_url
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.wire.project.signatures import decode_public_key, verify_bytes


def _files_in_use(versions: list[AppVersion]) -> dict[str, tuple[AppVersion, AppFile]]:
    return {file.name: (version, file) for version in versions for file in version.files}


def _still_unsigned(db: Database) -> list[str]:
    return [file.name for file in apps.unsigned_files(apps.list_versions(db))]


@answers(endpoints.GET_SIGNING_MANIFEST)
async def manifest(call: Call, query: schema.ManifestQuery) -> schema.Manifest:
    """List the files to be signed."""

    def load(db: Database) -> schema.Manifest:
        current = apps.current_key(db)
        names = {app.id: app.name for app in apps.list_apps(db)}
        found = _files_in_use(apps.list_versions(db))
        return schema.Manifest(
            public_key="" if current is None else current.public_key,
            files=[
                form_of(
                    schema.FileToSign,
                    file,
                    file=name,
                    app=names[version.app_id],
                    signed=bool(file.signature),
                    url=download_url(call.ctx, name),
                )
                for name, (version, file) in sorted(found.items())
                if query.all or not file.signature
            ],
        )

    return await call.read(load)


def _known(tx: Transaction, names: dict[str, str]) -> dict[AppFile, str]:
    found = _files_in_use(apps.list_versions(tx, deprecated=True))
    if unknown := sorted(set(names) - set(found)):
        raise NotFound(
            f"No app version has the file {unknown[0]!r}. Create a new manifest and sign that one."
        )
    return {found[name][1]: signature for name, signature in names.items()}


@answers(endpoints.IMPORT_SIGNATURES, max_body=4_000_000)
async def import_signatures(call: Call, body: schema.Signatures) -> schema.SigningReply:
    """Import signatures.

    Each is checked with the project's current public key.
    """
    given = {name: text.strip() for name, text in body.signatures.items()}

    def store(tx: Transaction) -> schema.SigningReply:
        current = apps.current_key(tx)
        if current is None:
            raise NotFound("The project has no public key yet, so nothing can be checked.")
        check_signatures(_known(tx, given), current.public_key)
        changed = apps.set_signatures(tx, given)
        return schema.SigningReply(versions_changed=changed, still_unsigned=_still_unsigned(tx))

    return await call.write(store)


@answers(endpoints.LIST_KEYS)
async def list_keys(call: Call) -> schema.KeyList:
    """List public code-signing keys."""
    found = await call.read(apps.list_keys)
    return schema.KeyList(keys=[_key_reply(key) for key in found])


def _key_reply(key: apps.CodeSignKey) -> schema.Key:
    return form_of(
        schema.Key,
        key,
        created=key.create_time,
        current=key.is_current,
        has_successor_signature=bool(key.successor_signature),
    )


@answers(endpoints.CHANGE_KEY, max_body=4_000_000)
async def change_key(call: Call, body: schema.NewKey) -> schema.SigningReply:
    """Change the code-signing key.

    Old key, new key and all signatures change together, or not at all.
    """
    text = body.public_key.strip()
    decode_public_key(text)
    given = {name: signature.strip() for name, signature in body.signatures.items()}

    def store(tx: Transaction) -> schema.SigningReply:
        older = {key.id: key for key in apps.list_keys(tx)}
        handovers = {int(number): sign for number, sign in body.successor_signatures.items()}
        for key_id, signature in handovers.items():
            if key_id not in older:
                raise NotFound(f"There is no key {key_id}. See: cobblestone key show")
            if not verify_bytes(decode_public_key(older[key_id].public_key), text.encode(), signature):
                raise JobError(
                    f"The signature for key {key_id} was not made with that key over the new key's text."
                )
        check_signatures(_known(tx, given), text)
        apps.set_current_key(tx, text, successor_signatures=handovers, now=call.now)
        unsigned = {
            name: given.get(name, "") for name in _files_in_use(apps.list_versions(tx, deprecated=True))
        }
        changed = apps.set_signatures(tx, unsigned)
        return schema.SigningReply(versions_changed=changed, still_unsigned=_still_unsigned(tx))

    return await call.write(store)
