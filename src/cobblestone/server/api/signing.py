"""Code signing: what is to be signed, signatures made elsewhere, and new keys."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.domain.apps import AppFile, AppVersion
from cobblestone.domain.errors import JobError, NotFound
from cobblestone.server.api.routing import Call, Endpoint, FileName, Model, Nothing, Reply
from cobblestone.server.files.code_signing import check_signatures
from cobblestone.server.scheduler.reply_jobs import download_url
from cobblestone.store.catalog import apps, keys
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people.tokens import Scope
from cobblestone.wire.signatures import decode_public_key, verify_bytes

KeyText = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
SignatureText = Annotated[str, msgspec.Meta(max_length=1000)]
KeyId = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,15}\Z")]
MAX_FILES = 5000


class ManifestQuery(Model):
    """Which files to list."""

    all: bool = False  # also those that are signed already (for a new key)


class FileToSign(Reply):
    """A file of an app version in use."""

    file: str
    open_name: str
    app: str
    nbytes: int
    md5: str
    signed: bool
    url: str


class Manifest(Reply):
    """What the current key must sign."""

    public_key: str  # empty: the project has none yet
    files: list[FileToSign]


class Signatures(Model):
    """Signatures by physical file name."""

    signatures: Annotated[dict[FileName, SignatureText], msgspec.Meta(min_length=1, max_length=MAX_FILES)]


class SigningReply(Reply):
    """What an import changed."""

    versions_changed: int
    still_unsigned: list[str]


class KeyReply(Reply):
    """A public key."""

    id: int
    public_key: str
    created: float
    current: bool
    has_successor_signature: bool  # without it, clients that hold this older key must attach anew


class KeyList(Reply):
    """Public keys, the newest first."""

    keys: list[KeyReply]


class NewKey(Model):
    """A new current key, with what only holders of private keys can make."""

    public_key: KeyText
    # by the id of an older key: the new key's text, signed with that one
    successor_signatures: Annotated[dict[KeyId, SignatureText], msgspec.Meta(max_length=100)]
    # of all files of versions in use, made with the new key; those left out become unsigned
    signatures: Annotated[dict[FileName, SignatureText], msgspec.Meta(max_length=MAX_FILES)]


def _files_in_use(versions: list[AppVersion]) -> dict[str, tuple[AppVersion, AppFile]]:
    return {file.name: (version, file) for version in versions for file in version.files}


def _still_unsigned(db: Database) -> list[str]:
    return [file.name for file in apps.unsigned_files(apps.list_versions(db))]


async def manifest(call: Call[Nothing, ManifestQuery]) -> Manifest:
    """List what is to be signed."""

    def load(db: Database) -> Manifest:
        current = keys.current_key(db)
        names = {app.id: app.name for app in apps.list_apps(db)}
        found = _files_in_use(apps.list_versions(db))
        return Manifest(
            public_key="" if current is None else current.public_key,
            files=[
                FileToSign(
                    file=name,
                    open_name=file.open_name,
                    app=names[version.app_id],
                    nbytes=file.nbytes,
                    md5=file.md5,
                    signed=bool(file.signature),
                    url=download_url(call.ctx, name),
                )
                for name, (version, file) in sorted(found.items())
                if call.query.all or not file.signature
            ],
        )

    return await call.ctx.store.aread(load)


def _known(tx: Transaction, names: dict[str, str]) -> dict[AppFile, str]:
    found = _files_in_use(apps.list_versions(tx, deprecated=True))
    unknown = sorted(set(names) - set(found))
    if unknown:
        raise NotFound(
            f"No app version has the file {unknown[0]!r}. Make a fresh manifest and sign that one."
        )
    return {found[name][1]: signature for name, signature in names.items()}


async def import_signatures(call: Call[Signatures, Nothing]) -> SigningReply:
    """Take signatures that were made elsewhere."""
    given = {name: text.strip() for name, text in call.body.signatures.items()}

    def store(tx: Transaction) -> SigningReply:
        current = keys.current_key(tx)
        if current is None:
            raise NotFound("The project has no public key yet, so nothing can be checked.")
        check_signatures(_known(tx, given), current.public_key)
        changed = apps.set_signatures(tx, given)
        return SigningReply(versions_changed=changed, still_unsigned=_still_unsigned(tx))

    return await call.write(store)


async def list_keys(call: Call[Nothing, Nothing]) -> KeyList:
    """List public keys."""
    found = await call.ctx.store.aread(keys.list_keys)
    return KeyList(keys=[_key_reply(key) for key in found])


def _key_reply(key: keys.CodeSignKey) -> KeyReply:
    return KeyReply(
        id=key.id,
        public_key=key.public_key,
        created=key.create_time,
        current=key.is_current,
        has_successor_signature=bool(key.successor_signature),
    )


async def change_key(call: Call[NewKey, Nothing]) -> SigningReply:
    """Make a new key the current one."""
    body = call.body
    text = body.public_key.strip()
    decode_public_key(text)
    given = {name: signature.strip() for name, signature in body.signatures.items()}

    def store(tx: Transaction) -> SigningReply:
        older = {key.id: key for key in keys.list_keys(tx)}
        handovers = {int(number): sign for number, sign in body.successor_signatures.items()}
        for key_id, signature in handovers.items():
            if key_id not in older:
                raise NotFound(f"There is no key {key_id}. See: cobblestone key show")
            if not verify_bytes(decode_public_key(older[key_id].public_key), text.encode(), signature):
                raise JobError(
                    f"The signature for key {key_id} was not made with that key over the new key's text."
                )
        check_signatures(_known(tx, given), text)
        keys.set_current_key(tx, text, successor_signatures=handovers, now=call.now)
        unsigned = {
            name: given.get(name, "") for name in _files_in_use(apps.list_versions(tx, deprecated=True))
        }
        changed = apps.set_signatures(tx, unsigned)
        return SigningReply(versions_changed=changed, still_unsigned=_still_unsigned(tx))

    return await call.write(store)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/signatures",
        summary="List files to be signed",
        handler=manifest,
        body=Nothing,
        query=ManifestQuery,
        reply=Manifest,
        scope=Scope.MANAGE,
        tag="signing",
    ),
    Endpoint(
        method="POST",
        path="/signatures",
        summary="Import signatures",
        description="Each is checked with the project's current public key.",
        handler=import_signatures,
        body=Signatures,
        query=Nothing,
        reply=SigningReply,
        scope=Scope.MANAGE,
        tag="signing",
        max_body=4_000_000,
        problems=(404,),
    ),
    Endpoint(
        method="GET",
        path="/keys",
        summary="List public code signing keys",
        handler=list_keys,
        body=Nothing,
        query=Nothing,
        reply=KeyList,
        scope=Scope.READ,
        tag="signing",
    ),
    Endpoint(
        method="POST",
        path="/keys",
        summary="Change the code signing key",
        description="Old key, new key and all signatures change together, or not at all.",
        handler=change_key,
        body=NewKey,
        query=Nothing,
        reply=SigningReply,
        scope=Scope.MANAGE,
        tag="signing",
        max_body=4_000_000,
        problems=(404, 409),
    ),
)
