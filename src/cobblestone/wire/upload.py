"""Uploads: the text header in front of the bytes, and the short replies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class UploadStatus(IntEnum):
    """What the client shall do after an upload attempt."""

    OK = 0
    TRANSIENT_ERROR = 1  #: back off, ask for the size, go on from there
    PERMANENT_ERROR = -1  #: give up


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizeQuery:
    """The client asks how many bytes of a file the server holds."""

    name: str
    client_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUpload:
    """Header of an upload; ``nbytes - offset`` raw bytes follow."""

    name: str
    xml_signature: str  #: text without white space at its ends
    max_nbytes: int
    nbytes: int  #: size of the whole file
    md5_cksum: str  #: of the whole file, may be empty
    offset: int
    client_version: int = 0


def legal_file_name(name: str) -> bool:
    """Whether a client may name a file so."""
    raise NotImplementedError


class UploadHeaderParser:
    """Reads the header of one upload POST piece by piece."""

    def __init__(self, *, max_header_bytes: int = 16 * 1024) -> None:
        raise NotImplementedError

    @property
    def leftover(self) -> bytes:
        """Bytes of the file that came with the end of the header."""
        raise NotImplementedError

    def receive_data(self, chunk: bytes) -> FileSizeQuery | FileUpload | None:
        """Take bytes; return the message when its header is complete, else None."""
        raise NotImplementedError

    def end_of_body(self) -> FileSizeQuery | FileUpload:
        """Say that no more bytes come; returns the message, or raises RemoteProtocolError."""
        raise NotImplementedError


def write_upload_reply(
    status: UploadStatus, message: str | None = None, file_size: int | None = None
) -> bytes:
    """Write a reply of the upload handler."""
    raise NotImplementedError
