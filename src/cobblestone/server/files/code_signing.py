"""Signatures of app files: made here if the private key is in the folder, else imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric import rsa

from cobblestone.domain.apps import AppFile, AppVersion
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.server.core.project import ProjectFolder
from cobblestone.store.catalog.apps import CodeSignKey
from cobblestone.wire.project import signatures as wire


def private_key_of(folder: ProjectFolder) -> rsa.RSAPrivateKey | None:
    """Return the private code-signing key, or None if it is kept elsewhere.

    Raises:
        BadKey: the file is damaged.
        ConfigError: the file cannot be read.
    """
    try:
        return wire.decode_private_key(folder.code_sign_private.read_text(encoding="ascii", errors="replace"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{folder.code_sign_private} cannot be read: {error.strerror}.") from error


def sign_version(
    version: AppVersion,
    *,
    current: CodeSignKey | None,
    private_key: rsa.RSAPrivateKey | None,
    known: Mapping[str, str],
) -> AppVersion:
    """Check the signatures that come with a version; make missing ones if the private key is available.

    ``known`` are signatures of files of other versions, by physical name: a file is signed once.

    Raises:
        ConfigError: the project has no key, or the private key is not that of the current public key.
        JobError: a given signature is not one of the project's key.
    """
    if current is None:
        raise ConfigError("The project has no code-signing key. Create one with: cobblestone key rotate")
    check_signatures({file: file.signature for file in version.files if file.signature}, current.public_key)
    version = _with_signatures(version, lambda file: known.get(file.name, ""))
    if private_key is None or version.signed:
        return version
    if not wire.same_key(wire.encode_public_key(private_key.public_key()), current.public_key):
        raise ConfigError(
            "The private key in the project's folder does not belong to the project's current "
            "public key. Put the right one there, or remove it and import signatures: cobblestone key import"
        )
    return _with_signatures(version, lambda file: wire.sign_md5(private_key, file.md5).strip())


def _with_signatures(version: AppVersion, signature: Callable[[AppFile], str]) -> AppVersion:
    """Return a version with a signature of each file that has none."""
    signed = (each if each.signature else replace(each, signature=signature(each)) for each in version.files)
    return replace(version, files=tuple(signed))


def check_signatures(signatures: Mapping[AppFile, str], public_key: str) -> None:
    """Check signatures by file.

    Raises:
        JobError: one is not of this file and key; the text names the file.
    """
    key = wire.decode_public_key(public_key)
    for file, signature in signatures.items():
        if not wire.verify_md5(key, file.md5, signature):
            raise JobError(
                f"The signature of {file.name} was not made with the project's current key for this file."
                " Sign the files of a new manifest with the right key: cobblestone key manifest, key sign"
            )
