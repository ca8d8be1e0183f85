"""Uploads: the text header before the bytes, and the short replies.

Source: BOINC's wire protocol as seen with client 7.20.5; ``sched/file_upload_handler.cpp`` (facts only).
Header lines may be split anywhere over TCP segments; ``<data>`` is followed by one line end and then by raw
bytes, without closing tags.
"""

from __future__ import annotations

import re
from enum import IntEnum

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.values import value
from cobblestone.wire.text.reader import WHITE_SPACE, FieldReader, Lenience, client_version
from cobblestone.wire.text.writer import escape, one_line

#: Twice what any client of the family needs.
MAX_HEADER_BYTES = 16 * 1024
MAX_FILE_BYTES = 2**50
MAX_MESSAGE = 200

_FILE_NAME = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]{0,254}", re.ASCII)
_SCALAR = re.compile(r"<(\w+)>([^<]*)</\1>", re.ASCII)
# One line end belongs to <data>; what follows it, be it another one, belongs to the file.
_END_OF_HEADER = re.compile(rb"<data>(?:\n|\r\n)|</get_file_size>")


class UploadStatus(IntEnum):
    """What the client must do after an upload attempt."""

    OK = 0
    TRANSIENT_ERROR = 1  #: back off, ask for the size, go on from there
    PERMANENT_ERROR = -1  #: give up


@value(kw_only=True)
class FileSizeQuery:
    """The client asks how many bytes of a file the server has."""

    name: str
    client_version: int = 0


@value(kw_only=True)
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
    """Return whether a file may have that name: up to 255 of A-Z a-z 0-9 _ - . ~, no ``..``, no leading dot."""
    return _FILE_NAME.fullmatch(name) is not None and ".." not in name


class UploadHeaderParser:
    """Reads the header of one upload POST piece by piece.

    Give it the pieces of the body with `receive_data` until it returns a message.  A `FileUpload` is complete
    before the body is: its first bytes may already be in `leftover`, the rest is the caller's to read.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._leftover = b""
        self._done = False

    @property
    def leftover(self) -> bytes:
        """Return the bytes of the file that came with the end of the header."""
        return self._leftover

    def receive_data(self, chunk: bytes) -> FileSizeQuery | FileUpload | None:
        """Take bytes; return the message once its header is complete, else None.

        Raises RemoteProtocolError when the header is too long or does not say what it must.
        """
        searched = max(0, len(self._buffer) - len("</get_file_size>"))
        self._buffer += chunk
        match = _END_OF_HEADER.search(self._buffer, searched, MAX_HEADER_BYTES)
        if match:
            return self._message(match)
        if len(self._buffer) >= MAX_HEADER_BYTES:
            raise RemoteProtocolError(
                f"no <data> within {MAX_HEADER_BYTES} bytes", reply_hint="The upload header is too long."
            )
        return None

    def end_of_body(self) -> FileSizeQuery | FileUpload:
        """End the input; raises RemoteProtocolError, as the header was not complete."""
        # An empty file may come without the line end behind <data>.
        match = _END_OF_HEADER.search(self._buffer + b"\n", 0, MAX_HEADER_BYTES)
        if match is None:
            raise RemoteProtocolError(
                f"the upload header ends after {len(self._buffer)} bytes without <data> or <get_file_size>",
                reply_hint="The upload header was cut short.",
            )
        return self._message(match)

    def _message(self, match: re.Match[bytes]) -> FileSizeQuery | FileUpload:
        if self._done:
            raise RemoteProtocolError("the header is complete; what follows belongs to the file")
        self._done = True
        header = self._buffer[: match.end()].decode("latin-1")
        self._leftover = bytes(self._buffer[match.end() :])
        self._buffer.clear()
        if "<data_server_request>" not in header:
            raise RemoteProtocolError(
                "no <data_server_request> in the body", reply_hint="No upload request was found in it."
            )
        notes: list[Lenience] = []
        reader = FieldReader(dict(_SCALAR.findall(header)), "data_server_request", notes)
        query = "get_file_size" in reader.fields
        # Not `reader.text`, which mends: a name that is not legal as it came is refused.
        name = reader.fields.get("get_file_size" if query else "name", "").strip(WHITE_SPACE)
        if not legal_file_name(name):
            raise RemoteProtocolError(f"{name[:80]!r} is not a legal file name", reply_hint="Bad file name.")
        version = client_version(reader)
        if query:
            return FileSizeQuery(name=name, client_version=version)
        upload = FileUpload(
            name=name,
            xml_signature=reader.fields.get("xml_signature", "").strip(WHITE_SPACE),
            max_nbytes=_size(reader, "max_nbytes"),
            nbytes=_size(reader, "nbytes"),
            md5_cksum=reader.text("md5_cksum", 64).strip().lower(),
            offset=_size(reader, "offset", required=False),
            client_version=version,
        )
        if upload.offset > upload.nbytes:
            raise RemoteProtocolError(
                f"offset {upload.offset} lies beyond the {upload.nbytes} bytes of {name}",
                reply_hint="The offset lies beyond the end of the file.",
            )
        return upload


def _size(reader: FieldReader, name: str, *, required: bool = True) -> int:
    """Return a number of bytes.  A bad one is refused: a default could truncate a file."""
    value = reader.integer(name, -1, 0, MAX_FILE_BYTES)
    if value < 0 and (required or name in reader.fields):
        text = reader.fields.get(name)
        problem = "is missing" if text is None else f"is {text[:40]!r}, not a number of bytes"
        raise RemoteProtocolError(f"<{name}> {problem}", reply_hint=f"{name} is missing or wrong.")
    return max(0, value)


def write_upload_reply(
    status: UploadStatus, message: str | None = None, file_size: int | None = None
) -> bytes:
    """Write a reply of the upload handler; the message goes into the client's log."""
    out = [f"<data_server_reply>\n    <status>{int(status)}</status>\n"]
    if message is not None:
        text = one_line(message)[:MAX_MESSAGE]
        out.append(f"    <message>{escape(text)}</message>\n")
    if file_size is not None:
        out.append(f"    <file_size>{file_size:d}</file_size>\n")
    out.append("</data_server_reply>\n")
    return "".join(out).encode()


# -- the client's side ----------------------------------------------------------------------------------


@value(kw_only=True)
class UploadReply:
    """The server's answer."""

    status: int  #: one of `UploadStatus`, or another number that counts as transient
    message: str = ""
    file_size: int | None = None  #: bytes that the server holds; only in the answer to a `FileSizeQuery`


def write_file_size_query(query: FileSizeQuery) -> bytes:
    """Ask how many bytes of a file the server has."""
    name = f"    <get_file_size>{escape(query.name)}</get_file_size>\n"
    return f"<data_server_request>\n{_version(query.client_version)}{name}</data_server_request>\n".encode()


def write_upload_header(upload: FileUpload) -> bytes:
    """Return the header before the bytes of a file; nothing follows them."""
    return (
        f"<data_server_request>\n{_version(upload.client_version)}<file_upload>\n<file_info>\n"
        f"<name>{escape(upload.name)}</name>\n<xml_signature>\n{upload.xml_signature.strip()}</xml_signature>\n"
        f"<max_nbytes>{upload.max_nbytes:d}</max_nbytes>\n</file_info>\n<nbytes>{upload.nbytes:d}</nbytes>\n"
        f"<md5_cksum>{escape(upload.md5_cksum)}</md5_cksum>\n<offset>{upload.offset:d}</offset>\n<data>\n"
    ).encode()


def _version(number: int) -> str:
    return (
        f"    <core_client_major_version>{number // 10000}</core_client_major_version>\n"
        f"    <core_client_minor_version>{number // 100 % 100}</core_client_minor_version>\n"
        f"    <core_client_release>{number % 100}</core_client_release>\n"
    )


def parse_upload_reply(body: bytes) -> UploadReply:
    """Read the server's answer.  Raises RemoteProtocolError for anything else, such as the page of a proxy."""
    text = body[:MAX_HEADER_BYTES].decode("latin-1")
    if "<data_server_reply>" not in text or "</data_server_reply>" not in text:
        raise RemoteProtocolError(f"the upload was answered with something else: {text[:60]!r}")
    notes: list[Lenience] = []
    reader = FieldReader(dict(_SCALAR.findall(text)), "data_server_reply", notes)
    size = reader.number("file_size", -1.0, 0.0, float(MAX_FILE_BYTES))
    return UploadReply(
        status=reader.integer("status", int(UploadStatus.TRANSIENT_ERROR), -1000, 1000),
        message=reader.text("message", MAX_MESSAGE),
        file_size=int(size) if size >= 0 else None,
    )
