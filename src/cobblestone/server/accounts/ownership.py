"""Proof of account ownership: a statement about an account, signed by the project, for a third party.

A site that lists people's accounts on many projects gives its member a text.  The member lets the project sign it together
with the number of the account, and brings the proof back.  Projects give their public key in ``get_project_config.php``.

Source: the family's ``account_ownership.php`` (facts only).
"""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import UserId
from cobblestone.ops.files import write_private
from cobblestone.server.core.project import ProjectFolder
from cobblestone.wire.project.account import write_ownership_proof

KEY_BITS = 3072
MAX_TEXT = 4096


def create_key(folder: ProjectFolder) -> bool:
    """Create the project's key for proofs; return whether there was none yet.

    Raises:
        OSError: the key cannot be written.
    """
    if folder.ownership_private.exists():
        return False
    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private(folder.ownership_private, pem)
    return True


def public_key(folder: ProjectFolder) -> bytes:
    """Return the public key as PEM; empty if the operator has created none.

    Raises:
        ConfigError: the key is damaged or cannot be read.
    """
    if not folder.ownership_private.exists():
        return b""
    return (
        _private_key(folder)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def prove(folder: ProjectFolder, *, master_url: str, user_id: UserId, text: str) -> str:
    """Return the proof that an account's owner asked for this text: RSA with SHA-512 over the number, a space and the text.

    Raises:
        ConfigError: there is no key, or it is damaged or cannot be read.
    """
    message = f"{user_id} {text}"
    signature = _private_key(folder).sign(message.encode(), padding.PKCS1v15(), hashes.SHA512())
    return write_ownership_proof(master_url, message, base64.b64encode(signature).decode())


def _private_key(folder: ProjectFolder) -> rsa.RSAPrivateKey:
    try:
        key = serialization.load_pem_private_key(folder.ownership_private.read_bytes(), None)
    except (OSError, TypeError, ValueError) as error:
        text = f"The key {folder.ownership_private} cannot be used: {error}. Restore it from a backup."
        raise ConfigError(text) from error
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ConfigError(f"The key {folder.ownership_private} is not an RSA key. Restore it from a backup.")
    return key
