"""A new code signing key for a project whose private key lies in its folder.

The new private key is on disk before the project learns of it, and takes its place afterwards; whatever happens in
between, calling again finishes the change or begins it anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cobblestone.api_schema.signing import Key, KeyList, Manifest, SigningReply
from cobblestone.domain.errors import ConfigError
from cobblestone.sdk.connection import Connection
from cobblestone.sdk.key_files import read_private_key, write_new
from cobblestone.sdk.signing import KnownKey, ManifestFile, handovers
from cobblestone.wire.signatures import (
    encode_private_key,
    encode_public_key,
    generate_key,
    same_key,
    sign_md5,
)

_KEYS = "keys"
_PRIVATE = "code_sign_private"
_PUBLIC = "code_sign_public"
_RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """What changed."""

    public_key: str
    versions_changed: int
    kept: Path  #: where the older private keys lie


def rotate_key(connection: Connection, folder: Path) -> Rotated:
    """Make a new key, have the older ones vouch for it, and sign all files in use with it.

    Raises:
        ConfigError: the private key is not in the folder, or does not belong to the project's current key.
    """
    keys = folder / _KEYS
    private, fresh = keys / _PRIVATE, keys / f"{_PRIVATE}.new"
    if not private.exists() and not fresh.exists():
        raise ConfigError(
            f"The private key is not in {keys}. Change the key where it is: `cobblestone key create` there,"
            " `key manifest DIR --all` here, `key sign DIR --key NEW --old-key OLD` there, `key import DIR` here."
        )
    current = next((key for key in _known(connection) if key.current), None)
    if fresh.exists():
        text = encode_public_key(read_private_key(fresh).public_key())
        if current is not None and same_key(current.public_key, text):  # interrupted after the change
            kept = _put_in_place(keys, text, old_id=0)
            return Rotated(public_key=text, versions_changed=0, kept=kept)
        fresh.unlink()  # interrupted before it
    new = generate_key()
    public_key = encode_public_key(new.public_key())
    manifest = ManifestFile(
        project=connection.address,
        keys=[
            KnownKey(id=key.id, public_key=key.public_key, current=key.current) for key in _known(connection)
        ],
        files=connection.get("/signatures", Manifest, all=True).files,
    )
    older = [read_private_key(path) for path in [private, *sorted((keys / _RETIRED).glob("*"))]]
    body = {
        "public_key": public_key,
        "successor_signatures": handovers(manifest, public_key, older),
        "signatures": {file.file: sign_md5(new, file.md5).strip() for file in manifest.files},
    }
    write_new(fresh, encode_private_key(new), mode=0o600)
    reply = connection.post("/keys", body, SigningReply)
    kept = _put_in_place(keys, public_key, old_id=0 if current is None else current.id)
    return Rotated(public_key=public_key, versions_changed=reply.versions_changed, kept=kept)


def _known(connection: Connection) -> list[Key]:
    return connection.get("/keys", KeyList).keys


def _put_in_place(keys: Path, public_key: str, *, old_id: int) -> Path:
    """Keep the old private key and give the new pair its place."""
    retired = keys / _RETIRED
    retired.mkdir(mode=0o700, exist_ok=True)
    private = keys / _PRIVATE
    if private.exists():
        number = old_id
        while (kept := retired / f"{_PRIVATE}_{number}").exists():
            number += 1
        private.rename(kept)
    (keys / f"{_PRIVATE}.new").rename(private)
    public = keys / _PUBLIC
    temporary = keys / f"{_PUBLIC}.new"
    temporary.unlink(missing_ok=True)
    write_new(temporary, public_key, mode=0o644)
    temporary.replace(public)
    return retired
