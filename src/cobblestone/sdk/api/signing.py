"""Code signing keys: key pairs in files, signing on another machine, and a new key for a project.

A new code signing key for a project whose private key lies in its folder.

The new private key is on disk before the project learns of it, and takes its place afterwards; whatever happens in
between, calling again finishes the change or starts it again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric import rsa
from msgspec.structs import asdict

from cobblestone.api_schema import endpoints
from cobblestone.api_schema.project import FileToSign, Key, NewKey, Signatures, SigningReply
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.domain.values import form_of
from cobblestone.sdk.api.connection import Connection
from cobblestone.wire.project import signatures as wire

T = TypeVar("T")

MANIFEST_FILE = "manifest.json"
SIGNATURES_FILE = "signatures.json"
FILES_FOLDER = "files"


class KnownKey(msgspec.Struct, frozen=True):
    """A public key of the project."""

    id: int
    public_key: str
    current: bool


class ManifestFile(msgspec.Struct, frozen=True):
    """The file that is copied to the machine with the private key."""

    project: str
    keys: list[KnownKey]
    files: list[FileToSign]

    @property
    def current_key(self) -> str:
        """Return the project's current public key; empty if there is none."""
        return next((key.public_key for key in self.keys if key.current), "")


class SignaturesFile(msgspec.Struct, frozen=True):
    """The file that is copied back."""

    public_key: str
    signatures: dict[str, str]  # by physical file name
    successor_signatures: dict[str, str]  # by the id of an older key; empty unless the key changes


def export_manifest(connection: Connection, folder: Path, *, everything: bool) -> ManifestFile:
    """Write the files to be signed and their list into a new folder.

    ``everything``: also what is signed already, as a new key needs.

    Raises:
        ConfigError: the folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty. Give a new folder for the manifest.")
    manifest = _manifest(connection, everything=everything)
    (folder / FILES_FOLDER).mkdir(parents=True, exist_ok=True)
    for file in manifest.files:
        connection.save_url(file.url, folder / FILES_FOLDER / file.file)
    (folder / MANIFEST_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


def _manifest(connection: Connection, *, everything: bool) -> ManifestFile:
    return ManifestFile(
        project=connection.address,
        keys=[form_of(KnownKey, key) for key in connection.call(endpoints.LIST_KEYS).keys],
        files=connection.call(endpoints.GET_SIGNING_MANIFEST, all=everything).files,
    )


def read_manifest(folder: Path) -> ManifestFile:
    """Read a manifest.

    Raises:
        ConfigError: there is none, or it is damaged.
    """
    return _read(folder / MANIFEST_FILE, ManifestFile, "cobblestone key manifest DIR (on the server)")


def read_signatures(folder: Path) -> SignaturesFile:
    """Read signatures.

    Raises:
        ConfigError: there are none, or they are damaged.
    """
    return _read(folder / SIGNATURES_FILE, SignaturesFile, "cobblestone key sign DIR --key FILE")


def sign_manifest(
    folder: Path, key: rsa.RSAPrivateKey, older: Sequence[rsa.RSAPrivateKey] = ()
) -> SignaturesFile:
    """Sign the files of a manifest and write the signatures beside it.  Needs neither project nor network.

    With a key that is not the project's current one, the key changes: ``older`` must then hold the current one.

    Raises:
        ConfigError: the key does not fit.
        JobError: a file differs from what the manifest says.
    """
    manifest = read_manifest(folder)
    public_key = wire.encode_public_key(key.public_key())
    signatures: dict[str, str] = {}
    for file in manifest.files:
        signatures[file.file] = wire.sign_bytes(key, _checked_content(folder, file)).strip()
    signed = SignaturesFile(
        public_key=public_key,
        signatures=signatures,
        successor_signatures=handovers(manifest, public_key, older),
    )
    (folder / SIGNATURES_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(signed)))
    return signed


def handovers(manifest: ManifestFile, public_key: str, older: Sequence[rsa.RSAPrivateKey]) -> dict[str, str]:
    """Return signatures with which holders of older keys accept the new one, by the id of the older key.

    Raises:
        ConfigError: the new key is not the current one, and the current one's private key is not at hand.
    """
    if wire.same_key(manifest.current_key, public_key):
        return {}
    made: dict[str, str] = {}
    for private_key in older:
        text = wire.encode_public_key(private_key.public_key())
        for known in manifest.keys:
            if wire.same_key(known.public_key, text):
                made[str(known.id)] = wire.sign_key_handover(private_key, public_key).strip()
    current = next((str(known.id) for known in manifest.keys if known.current), None)
    if current is not None and current not in made:
        raise ConfigError(
            "This key is not the project's current one. Is it the wrong file? To change the project's key, also give the"
            " current private key with --old-key: clients accept the new key only with a signature by the old one."
        )
    return made


def _checked_content(folder: Path, file: FileToSign) -> bytes:
    path = folder / FILES_FOLDER / file.file
    if Path(file.file).name != file.file:
        raise JobError(f"The manifest has a bad file name: {file.file!r}.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise JobError(f"{path} cannot be read: {error.strerror}. Create a new manifest.") from error
    if hashlib.md5(data, usedforsecurity=False).hexdigest() != file.md5 or len(data) != file.nbytes:
        raise JobError(f"{path} is not the file described in the manifest. Create a new manifest.")
    return data


def import_signatures(connection: Connection, signed: SignaturesFile) -> SigningReply:
    """Upload signatures to the project; with another key than the current one, the key changes."""
    current = _current(connection)
    if current is not None and wire.same_key(current.public_key, signed.public_key):
        return connection.call(endpoints.IMPORT_SIGNATURES, body=Signatures(signatures=signed.signatures))
    return connection.call(endpoints.CHANGE_KEY, body=NewKey(**asdict(signed)))


def _read(path: Path, kind: type[T], command: str) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        raise ConfigError(f"There is no {path}. Create it with: {command}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} is damaged, or not a valid file. Create it again with: {command}"
        ) from error


def read_private_key(path: Path) -> rsa.RSAPrivateKey:
    """Read a private key.

    Raises:
        OSError: the file cannot be read.
        BadKey: it holds no private key.
    """
    return wire.decode_private_key(path.read_text(encoding="ascii", errors="replace"))


def write_key_pair(private: Path, public: Path) -> rsa.RSAPrivateKey:
    """Create a key pair and write it; neither file may exist.

    Raises:
        ConfigError: a file exists or cannot be written.
    """
    key = wire.generate_key()
    write_new(private, wire.encode_private_key(key), mode=0o600)
    write_new(public, wire.encode_public_key(key.public_key()), mode=0o644)
    return key


def write_new(path: Path, text: str, *, mode: int) -> None:
    """Write a file that must not exist, and flush it to disk.

    Raises:
        ConfigError: it exists or cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="ascii") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error


_KEYS = "keys"
_PRIVATE = "code_sign_private"
_PUBLIC = "code_sign_public"
_RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """The result of a key change."""

    public_key: str
    versions_changed: int
    kept: Path  #: where the older private keys lie


def rotate_key(connection: Connection, folder: Path) -> Rotated:
    """Create a new key, sign it with the older ones, and sign all files in use with it.

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
    current = _current(connection)
    if fresh.exists():
        text = wire.encode_public_key(read_private_key(fresh).public_key())
        if current is not None and wire.same_key(current.public_key, text):  # interrupted after the change
            kept = _put_in_place(keys, text, old_id=0)
            return Rotated(public_key=text, versions_changed=0, kept=kept)
        fresh.unlink()  # interrupted before it
    new = wire.generate_key()
    public_key = wire.encode_public_key(new.public_key())
    manifest = _manifest(connection, everything=True)
    older = [read_private_key(path) for path in [private, *sorted((keys / _RETIRED).glob("*"))]]
    body = NewKey(
        public_key=public_key,
        successor_signatures=handovers(manifest, public_key, older),
        signatures={file.file: wire.sign_md5(new, file.md5).strip() for file in manifest.files},
    )
    write_new(fresh, wire.encode_private_key(new), mode=0o600)
    reply = connection.call(endpoints.CHANGE_KEY, body=body)
    kept = _put_in_place(keys, public_key, old_id=0 if current is None else current.id)
    return Rotated(public_key=public_key, versions_changed=reply.versions_changed, kept=kept)


def _current(connection: Connection) -> Key | None:
    return next((key for key in connection.call(endpoints.LIST_KEYS).keys if key.current), None)


def _put_in_place(keys: Path, public_key: str, *, old_id: int) -> Path:
    """Keep the old private key and replace the pair with the new one."""
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
