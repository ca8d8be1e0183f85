"""Code signing: what is to be signed, signatures made elsewhere, and new keys."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.api_schema.values import Body, FileName, Query, Reply

KeyText = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
SignatureText = Annotated[str, msgspec.Meta(max_length=1000)]
KeyId = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,15}\Z")]
MAX_FILES = 5000


class ManifestQuery(Query, frozen=True):
    """Which files to list."""

    all: bool = False  #: also those that are signed already (for a new key)


class FileToSign(Reply, frozen=True):
    """A file of an app version in use."""

    file: str
    open_name: str
    app: str
    nbytes: int
    md5: str
    signed: bool
    url: str


class Manifest(Reply, frozen=True):
    """What the current key must sign."""

    public_key: str  #: empty: the project has none yet
    files: list[FileToSign]


class Signatures(Body, frozen=True):
    """Signatures by physical file name."""

    signatures: Annotated[dict[FileName, SignatureText], msgspec.Meta(min_length=1, max_length=MAX_FILES)]


class SigningReply(Reply, frozen=True):
    """What an import changed."""

    versions_changed: int
    still_unsigned: list[str]


class Key(Reply, frozen=True):
    """A public key."""

    id: int
    public_key: str
    created: float
    current: bool
    has_successor_signature: bool  #: without it, clients that hold this older key must attach anew


class KeyList(Reply, frozen=True):
    """Public keys, the newest first."""

    keys: list[Key]


class NewKey(Body, frozen=True):
    """A new current key, with what only holders of private keys can make."""

    public_key: KeyText
    #: by the id of an older key: the new key's text, signed with that one
    successor_signatures: Annotated[dict[KeyId, SignatureText], msgspec.Meta(max_length=100)]
    #: of all files of versions in use, made with the new key; those left out become unsigned
    signatures: Annotated[dict[FileName, SignatureText], msgspec.Meta(max_length=MAX_FILES)]
