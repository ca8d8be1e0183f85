"""Key pairs in files."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa

from cobblestone.domain.errors import ConfigError
from cobblestone.wire.signatures import (
    decode_private_key,
    encode_private_key,
    encode_public_key,
    generate_key,
)


def read_private_key(path: Path) -> rsa.RSAPrivateKey:
    """Read a private key.

    Raises:
        ConfigError: the file cannot be read.
        BadKey: it holds no private key.
    """
    try:
        return decode_private_key(path.read_text(encoding="ascii", errors="replace"))
    except OSError as error:
        raise ConfigError(f"The private key {path} cannot be read: {error.strerror}.") from error


def write_key_pair(private: Path, public: Path) -> rsa.RSAPrivateKey:
    """Make a key pair and write it; neither file may exist.

    Raises:
        ConfigError: a file exists or cannot be written.
    """
    key = generate_key()
    write_new(private, encode_private_key(key), mode=0o600)
    write_new(public, encode_public_key(key.public_key()), mode=0o644)
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
