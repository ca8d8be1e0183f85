"""Free texts in a scheduler request: a program's stderr, trickle-up messages, preferences.

They come as bytes that `xml_reader.cut_verbatim` has taken out, and no parser has looked into them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cobblestone.wire.lenience import Lenience, LenienceKind
from cobblestone.wire.xml_reader import decode, note, strip_control, unescape

MAX_STDERR = 64 * 1024
MAX_ERROR_MESSAGE = 8 * 1024
MAX_TRICKLE = 64 * 1024
MAX_VERBATIM = 64 * 1024

_HIGH_BYTE = re.compile(rb"&#(1(?:2[89]|[3-9]\d)|2(?:[0-4]\d|5[0-5]));")
_CLIENT_VERSION = re.compile(rb"\s*<core_client_version>[^<]{0,40}</core_client_version>\s*")
_TRICKLE_HEADER = re.compile(
    rb"\s*(?:<result_name>([^<]{0,300})</result_name>)?\s*(?:<time>([^<]{0,40})</time>)?[ \t]*\n?"
)
_VARIETY = re.compile(rb"[ \t]*<variety>([^<]{0,300})</variety>[ \t]*\n?")


@dataclass(frozen=True, slots=True)
class Stderr:
    """The parts of ``<stderr_out>``."""

    program: str  #: what the program wrote, its last part
    message: str  #: what the client adds in case of failure


def read_stderr(data: bytes, notes: list[Lenience]) -> Stderr:
    """Split ``<stderr_out>`` into the program's text and the client's message.

    The client writes bytes from 128 up as decimal references, one for each byte (seen with 7.20.5: the two bytes of
    an e with acute accent arrive as ``&#195;&#169;``), everything else as it is.  The message may stand before or
    behind the program's text.
    """
    version = _CLIENT_VERSION.match(data)
    if version:
        data = data[version.end() :]
    data = data.strip()
    if data.startswith(b"<![CDATA["):
        data = data[9:]
    if data.endswith(b"]]>"):
        data = data[:-3]
    head, opened, rest = data.partition(b"<stderr_txt>")
    if not opened:
        if b"<message>" in head:
            return Stderr("", _message(head, b"", notes))
        return Stderr(_stderr_text(head, notes), "")
    program, _, tail = rest.rpartition(b"</stderr_txt>") if b"</stderr_txt>" in rest else (rest, b"", b"")
    return Stderr(_stderr_text(program, notes), _message(head, tail, notes))


def _message(head: bytes, tail: bytes, notes: list[Lenience]) -> str:
    text = b"\n".join(part for part in (_inside_message(head), _inside_message(tail)) if part)
    if len(text) > MAX_ERROR_MESSAGE:
        note(notes, LenienceKind.CUT, "stderr_out/message", f"{len(text)} bytes")
        text = text[:MAX_ERROR_MESSAGE]
    return _text(text)


def _inside_message(data: bytes) -> bytes:
    _, opened, rest = data.partition(b"<message>")
    return rest.rpartition(b"</message>")[0].strip() if opened else b""


def _stderr_text(data: bytes, notes: list[Lenience]) -> str:
    data = data.strip(b"\r\n")
    if len(data) > MAX_STDERR:
        note(notes, LenienceKind.CUT, "stderr_out", f"{len(data)} bytes")
        data = data[-MAX_STDERR:]
    return _text(data)


def _text(data: bytes) -> str:
    if b"&#" in data:
        data = _HIGH_BYTE.sub(lambda match: bytes((int(match[1]),)), data)
    # Not `decode`: a stderr may hold several encodings, and Latin-1 would garble its good parts.
    return strip_control(data.decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Trickle:
    """The parts of ``<msg_from_host>``."""

    result_name: str
    time: str
    variety: str
    text: str


def read_trickle(data: bytes, notes: list[Lenience]) -> Trickle:
    """Split a trickle-up message: the client's header, the variety, and the program's text, verbatim."""
    header = _TRICKLE_HEADER.match(data)
    assert header is not None  # every part of it is optional
    rest = data[header.end() :]
    variety = _VARIETY.search(rest)
    name = b""
    if variety:
        name = variety[1]
        rest = rest[: variety.start()] + rest[variety.end() :]
    if len(rest) > MAX_TRICKLE:
        note(notes, LenienceKind.CUT, "msg_from_host", f"{len(rest)} bytes")
        rest = rest[:MAX_TRICKLE]
    return Trickle(
        result_name=_scalar(header[1] or b"", notes),
        time=(header[2] or b"").decode("latin-1"),
        variety=_scalar(name, notes),
        text=strip_control(decode(rest, "msg_from_host", notes)).strip("\r\n").rstrip(),
    )


def _scalar(data: bytes, notes: list[Lenience]) -> str:
    return strip_control(unescape(decode(data, "msg_from_host", notes))).strip()


def read_verbatim(data: bytes, where: str, notes: list[Lenience]) -> str:
    """Any other free text, bounded and without control characters."""
    if len(data) > MAX_VERBATIM:
        note(notes, LenienceKind.CUT, where, f"{len(data)} bytes")
        data = data[:MAX_VERBATIM]
    return strip_control(decode(data, where, notes)).strip()
