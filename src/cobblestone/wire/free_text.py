"""Free texts in a scheduler request: a program's stderr, trickle-up messages, preferences.

They come as bytes in a str, as `xml_reader` describes, and no parser has looked into them.
"""

from __future__ import annotations

import re

from cobblestone.domain.values import value
from cobblestone.wire.lenience import Lenience, LenienceKind
from cobblestone.wire.xml_reader import WHITE_SPACE, decode, note, strip_control_bytes, unescape

MAX_STDERR = 64 * 1024
MAX_ERROR_MESSAGE = 8 * 1024
MAX_TRICKLE = 64 * 1024
MAX_VERBATIM = 64 * 1024

_HIGH_BYTE = re.compile(r"&#(1(?:2[89]|[3-9]\d)|2(?:[0-4]\d|5[0-5]));")
_CLIENT_VERSION = re.compile(r"\s*<core_client_version>[^<]{0,40}</core_client_version>\s*", re.ASCII)
_RESULT_NAME = re.compile(r"\s*<result_name>([^<]{0,300})</result_name>", re.ASCII)
_TIME = re.compile(r"\s*<time>([^<]{0,40})</time>[ \t]*\n?", re.ASCII)


@value()
class Stderr:
    """The parts of ``<stderr_out>``."""

    program: str = ""  #: what the program wrote, its last part
    message: str = ""  #: what the client adds in case of failure


def read_stderr(text: str, notes: list[Lenience]) -> Stderr:
    """Split ``<stderr_out>`` into the program's text and the client's message.

    The client writes bytes from 128 up as decimal references, one for each byte (seen with 7.20.5: the two
    bytes of an e with acute accent arrive as ``&#195;&#169;``), everything else as it is.  The message may
    stand before or behind the program's text.
    """
    version = _CLIENT_VERSION.match(text)
    if version:
        text = text[version.end() :]
    text = text.strip(WHITE_SPACE).removeprefix("<![CDATA[").removesuffix("]]>")
    head, opened, rest = text.partition("<stderr_txt>")
    if not opened:
        if "<message>" in head:
            return Stderr(message=_message(head, "", notes))
        return Stderr(program=_program_text(head, notes))
    program, closed, tail = rest.rpartition("</stderr_txt>")
    if not closed:
        program, tail = rest, ""
    return Stderr(program=_program_text(program, notes), message=_message(head, tail, notes))


def _message(head: str, tail: str, notes: list[Lenience]) -> str:
    text = "\n".join(part for part in (_inside_message(head), _inside_message(tail)) if part)
    if len(text) > MAX_ERROR_MESSAGE:
        note(notes, LenienceKind.CUT, "stderr_out/message", f"{len(text)} bytes")
        text = text[:MAX_ERROR_MESSAGE]
    return _characters(text)


def _inside_message(text: str) -> str:
    _, opened, rest = text.partition("<message>")
    return rest.rpartition("</message>")[0].strip(WHITE_SPACE) if opened else ""


def _program_text(text: str, notes: list[Lenience]) -> str:
    text = text.strip("\r\n")
    if len(text) > MAX_STDERR:
        note(notes, LenienceKind.CUT, "stderr_out", f"{len(text)} bytes")
        text = text[-MAX_STDERR:]
    return _characters(text)


def _characters(text: str) -> str:
    if "&#" in text:
        text = _HIGH_BYTE.sub(lambda match: chr(int(match[1])), text)
    # Not `decode`: a stderr may hold several encodings, and Latin-1 would garble its good parts.
    return strip_control_bytes(text.encode("latin-1")).decode("utf-8", "replace")


@value()
class Trickle:
    """The parts of ``<msg_from_host>``."""

    result_name: str
    time: str
    variety: str
    text: str


def read_trickle(text: str, notes: list[Lenience]) -> Trickle:
    """Split a trickle-up message: the client's header, the variety, and the program's text, verbatim."""
    result_name = time = ""
    if match := _RESULT_NAME.match(text):
        result_name, text = match[1], text[match.end() :]
    if match := _TIME.match(text):
        time, text = match[1], text[match.end() :]
    before, opened, rest = text.partition("<variety>")
    variety, closed, after = rest.partition("</variety>")
    if opened and closed:
        text = before.rstrip(" \t") + after.lstrip(" \t").removeprefix("\n")
    else:
        variety = ""
    if len(text) > MAX_TRICKLE:
        note(notes, LenienceKind.CUT, "msg_from_host", f"{len(text)} bytes")
        text = text[:MAX_TRICKLE]
    return Trickle(
        result_name=_scalar(result_name, notes),
        time=time,
        variety=_scalar(variety[:300], notes),
        text=_clean(text, "msg_from_host", notes).strip("\r\n").rstrip(),
    )


def _scalar(text: str, notes: list[Lenience]) -> str:
    return unescape(_clean(text, "msg_from_host", notes)).strip()


def read_verbatim(text: str, where: str, notes: list[Lenience]) -> str:
    """Any other free text, bounded and without control characters."""
    if len(text) > MAX_VERBATIM:
        note(notes, LenienceKind.CUT, where, f"{len(text)} bytes")
        text = text[:MAX_VERBATIM]
    return _clean(text, where, notes).strip()


def _clean(text: str, where: str, notes: list[Lenience]) -> str:
    return decode(strip_control_bytes(text.encode("latin-1")).decode("latin-1"), where, notes)
