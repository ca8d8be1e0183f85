"""Tolerant reading of the family's XML-like texts: single elements and free texts.

BOINC's own parser is a tag scanner, and what its clients send is not always XML: a program's stderr is
copied in as it is, with NULs, with bytes of any encoding, with tags of its own.  So messages are scanned as
*bytes in a str* (decoded as Latin-1, one character for each byte), free texts are jumped over, and each
value is decoded on its own:

* `scan_fields` reads blocks in the layout of the family's client.  It is quick, and it notices
  (`UnusualLayout`) whenever anything but ``<name>text</name>`` is left over; then `tree` reads it.
* `FieldReader` turns scalars into bounded, finite values.

Nothing here takes more than linear time: what comes in may be written to hurt.

Free texts in a scheduler request: a program's stderr, trickle-up messages, preferences.

They come as bytes in a str, as described above, and no parser has looked into them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Set
from enum import StrEnum

from lxml import etree

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.values import value


class LenienceKind(StrEnum):
    """Kinds of departures that are tolerated; used as metric labels."""

    BAD_NUMBER = "bad_number"  #: not a number, not finite or out of range; the default was taken
    CONTROL_CHARACTERS = "control_characters"  #: removed from a text
    CUT = "cut"  #: a text longer than its bound was shortened
    DUPLICATE = "duplicate"  #: a second element where one is meant; the first was kept
    MISSING = "missing"  #: an element that every client sends was absent
    NAMELESS = "nameless"  #: a block without a usable name was dropped
    NOT_UTF8 = "not_utf8"  #: read as Latin-1 instead
    TOO_MANY = "too_many"  #: more elements than the bound; the rest was dropped
    UNUSUAL_LAYOUT = "unusual_layout"  #: not the layout of the family's client; read as a tree
    RECOVERED = "recovered"  #: not well-formed either; something may be lost


@value(kw_only=True)
class Lenience:
    """One tolerated departure: its kind, the element it was found in, and a short detail."""

    kind: LenienceKind
    where: str
    detail: str = ""


MAX_REQUEST_BYTES = 8 * 1024 * 1024
MAX_BLOCK_CHARS = 256 * 1024
MAX_TEXT = 1024
MAX_NAME = 255
MAX_LENIENCES = 100
#: No quantity of the protocol (bytes, seconds, operations per second) is larger.
HUGE = 1e18

#: Scalars of one block by element name: bytes in a str, entities not yet resolved.
Fields = dict[str, str]

Element = etree._Element  # pyright: ignore[reportPrivateUsage]  # lxml has no public name for this type

#: What may be stripped from bytes in a str: `str.strip` alone would also take the last bytes of some UTF-8 letters.
WHITE_SPACE = " \t\r\n"

_SCALAR = re.compile(r"<(\w+)>([^<]*)</\1>", re.ASCII)
_REFERENCE = re.compile(r"&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(lt|gt|amp|quot|apos));")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_CONTROL_CODES = [code for code in (*range(0x20), 0x7F) if code not in (0x09, 0x0A, 0x0D)]
_CONTROL_BYTES = bytes(_CONTROL_CODES)
_CONTROL_CHARACTERS = dict.fromkeys(_CONTROL_CODES)
_CDATA_END_OF_STDERR = re.compile(r"\]\]>\s*</stderr_out>", re.ASCII)


class UnusualLayout(Exception):
    """The text is not in the layout of BOINC's client; never leaves the package."""


def note(notes: list[Lenience], kind: LenienceKind, where: str, detail: str = "") -> None:
    """Record a lenience; a hostile message cannot make the list long."""
    if len(notes) < MAX_LENIENCES:
        notes.append(Lenience(kind=kind, where=where, detail=detail[:80].translate(_CONTROL_CHARACTERS)))


# -- the usual layout -----------------------------------------------------------------------------------


def scan_fields(block: str, where: str, wrappers: Iterable[str] = ()) -> Fields:
    """Read ``<name>text</name>`` scalars; the last of several wins, as in BOINC's parser.

    ``wrappers`` are elements that stand around some of them.  Raises UnusualLayout when the block holds any other
    tag.
    """
    if len(block) > MAX_BLOCK_CHARS:
        raise RemoteProtocolError(
            f"<{where}> has {len(block)} characters, at most {MAX_BLOCK_CHARS} are read"
        )
    found = _SCALAR.findall(block)
    fields: Fields = dict(found)
    tags = 2 * len(found)
    for wrapper in wrappers:
        if wrapper not in fields:  # an empty one was taken for a scalar
            tags += 2
    if block.count("<") != tags:
        raise UnusualLayout(where)
    return fields


def end_of_verbatim(text: str, tag: str, begin: int) -> int:
    """Return the position of the closing tag of a free text from ``begin`` on; RemoteProtocolError if there is none."""
    end = text.find(f"</{tag}>", begin)
    if end < 0:
        raise RemoteProtocolError(
            f"<{tag}> at byte {begin} has no closing tag", reply_hint="The request was cut short."
        )
    if tag == "stderr_out" and not text[begin:end].rstrip(WHITE_SPACE).endswith("]]>"):
        # A program may print the closing tag itself: within CDATA only the one behind "]]>" counts, unless
        # another stderr_out begins before it.
        if text.find("<![CDATA[", begin, end) < 0:
            return end
        another = text.find("<stderr_out>", end)
        proper = _CDATA_END_OF_STDERR.search(text, end, another if another >= 0 else len(text))
        if proper:
            return proper.end() - len("</stderr_out>")
    return end


def safe_parser(*, encoding: str | None = None) -> etree.XMLParser:
    """Return a parser for untrusted XML: no entities, document types, network or huge trees; comments are left out."""
    return etree.XMLParser(
        encoding=encoding,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )


# -- values ---------------------------------------------------------------------------------------------


def decode(text: str, where: str, notes: list[Lenience]) -> str:
    """Turn bytes in a str into characters: UTF-8, else Latin-1, which old clients write."""
    if text.isascii():
        return text
    try:
        return text.encode("latin-1").decode()
    except UnicodeDecodeError:
        note(notes, LenienceKind.NOT_UTF8, where)
        return text


def strip_control_bytes(data: bytes) -> bytes:
    """Remove control characters except tab and line ends; databases and XML refuse them."""
    return data.translate(None, _CONTROL_BYTES)


def unescape(text: str) -> str:
    """Resolve the five named entities and numeric references; leave everything else unchanged."""
    return _REFERENCE.sub(_resolve, text) if "&" in text else text


def unescape_html(text: str) -> str:
    """Resolve the references of HTML; a text in which one has thousands of digits stays as it is."""
    try:
        return html.unescape(text)
    except ValueError:
        return text


def _resolve(match: re.Match[str]) -> str:
    decimal, hexadecimal, name = match.groups()
    if name:
        return _ENTITIES[name]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    # Surrogates are not characters: they could not be encoded again.
    return chr(code) if code < 0xD800 or 0xDFFF < code < 0x110000 else "\ufffd"


class FieldReader:
    """Converts the scalars of one block into bounded values, and records values that had to be changed."""

    __slots__ = ("fields", "notes", "where")

    def __init__(self, fields: Fields, where: str, notes: list[Lenience]) -> None:
        self.fields = fields
        self.where = where
        self.notes = notes

    def unsaid(self, names: Set[str]) -> frozenset[str]:
        """Return which of these elements are absent, or were no usable number as far as they have been read."""
        begin = f"{self.where}/"
        bad = {n.where.removeprefix(begin) for n in self.notes if n.kind is LenienceKind.BAD_NUMBER}
        return frozenset(names - self.fields.keys() | names & bad)

    def number(self, name: str, default: float = 0.0, low: float = 0.0, high: float = HUGE) -> float:
        """Return a finite number within the bounds, else the default."""
        value = self.fields.get(name)
        if value is None:
            return default
        try:
            number = float(value)
            if low <= number <= high:  # false for NaN
                return number
        except ValueError:
            pass
        note(self.notes, LenienceKind.BAD_NUMBER, f"{self.where}/{name}", value)
        return default

    def integer(self, name: str, default: int = 0, low: int = 0, high: int = 2**31 - 1) -> int:
        """Return a whole number within the bounds, else the default; a fraction is truncated, as in C."""
        return int(self.number(name, default, low, high))

    def flag(self, name: str) -> bool:
        """Return True for a number other than 0; absence and the empty text are false."""
        value = self.fields.get(name)
        if value is None or value == "0" or not value.strip():
            return False
        return self.integer(name, low=-(2**31)) != 0

    def text(self, name: str, limit: int = MAX_TEXT) -> str:
        """Return a text on one line, at most ``limit`` characters long."""
        value = self.fields.get(name)
        if not value:
            return ""
        if not value.isascii():
            value = decode(value, f"{self.where}/{name}", self.notes)
        if "&" in value:
            value = unescape(value)
        if not value.isprintable():
            value = self._clean(name, value)
        if len(value) > limit:
            note(self.notes, LenienceKind.CUT, f"{self.where}/{name}", f"{len(value)} characters")
            value = value[:limit]
        return value

    def name(self, name: str = "name") -> str:
        """Return a name, or the empty text if it is too long to be one of ours."""
        value = self.text(name).strip()
        return value if len(value) <= MAX_NAME else ""

    def _clean(self, name: str, value: str) -> str:
        cleaned = value.translate(_CONTROL_CHARACTERS)
        if cleaned != value:
            note(self.notes, LenienceKind.CONTROL_CHARACTERS, f"{self.where}/{name}")
        return " ".join(cleaned.split()) if "\n" in cleaned or "\r" in cleaned else cleaned


def client_version(reader: FieldReader) -> int:
    """Return the client's version, 10000 * major + 100 * minor + release; 0 if it does not say."""
    major = reader.integer("core_client_major_version", high=9999)
    minor = reader.integer("core_client_minor_version", high=99)
    return 10000 * major + 100 * minor + reader.integer("core_client_release", high=99)


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
class TrickleParts:
    """The parts of ``<msg_from_host>``."""

    result_name: str
    time: str
    variety: str
    text: str


def read_trickle(text: str, notes: list[Lenience]) -> TrickleParts:
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
    return TrickleParts(
        result_name=_scalar(result_name, notes),
        time=time,
        variety=_scalar(variety[:300], notes),
        text=_clean(text, "msg_from_host", notes).strip("\r\n").rstrip(),
    )


def _scalar(text: str, notes: list[Lenience]) -> str:
    return unescape(_clean(text, "msg_from_host", notes)).strip()


def read_verbatim(text: str, where: str, notes: list[Lenience]) -> str:
    """Read any other free text, bounded and without control characters."""
    if len(text) > MAX_VERBATIM:
        note(notes, LenienceKind.CUT, where, f"{len(text)} bytes")
        text = text[:MAX_VERBATIM]
    return _clean(text, where, notes).strip()


def _clean(text: str, where: str, notes: list[Lenience]) -> str:
    return decode(strip_control_bytes(text.encode("latin-1")).decode("latin-1"), where, notes)
