"""Tolerant reading of the family's XML-like texts.

BOINC's own parser is a tag scanner, and what its clients send is not always XML: a program's stderr is copied in as it
is, with NULs, with bytes of any encoding, with tags of its own.  So reading goes in three steps:

1. `cut_verbatim` takes the free texts out of the *bytes*, each up to its closing tag, and leaves a number in place of
   each.  What remains, the skeleton, holds nothing that a running program wrote.
2. `take`, `take_all` and `scan_fields` find blocks and scalars in the usual layout.  They are quick, and they notice
   (`UnusualLayout`) whenever something other than ``<name>text</name>`` is left over.
3. `parse_unusual` reads an unusual skeleton with lxml, strictly first, then after repair in recovery mode.  Recovery
   loses data silently, so it is the last resort and reported as a `Lenience`.

`FieldReader` turns scalars into bounded, finite values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lxml import etree

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.lenience import Lenience, LenienceKind

MAX_REQUEST_BYTES = 8 * 1024 * 1024
MAX_SKELETON_BYTES = 4 * 1024 * 1024
"""Bound of a message without its free texts: 2,000 reports and 5,000 jobs in progress take less than half of it."""
MAX_UNUSUAL_BYTES = 512 * 1024
"""Bound of a message that needs the general XML parser, whose tree takes some hundred bytes for each element."""
MAX_BLOCK_CHARS = 256 * 1024
MAX_TEXT = 1024
MAX_NAME = 255
MAX_LENIENCES = 100
HUGE = 1e18
"""No quantity of the protocol (bytes, seconds, operations per second) is larger."""

Fields = dict[str, str]
"""Scalars of one block by element name, entities not yet resolved."""

Element = etree._Element  # pyright: ignore[reportPrivateUsage]  # lxml has no public name for its elements' type

_SCALAR = re.compile(r"<(\w+)>([^<]*)</\1>")
_REFERENCE = re.compile(r"&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(lt|gt|amp|quot|apos));")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_CONTROL = {code: None for code in (*range(0x20), 0x7F) if code not in (0x09, 0x0A, 0x0D)}
_CONTROL_CHARACTER = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_DECLARATION = re.compile(r"<\?xml[^<>]{0,200}\?>")
_SPACED_TAG = re.compile(r"<[ \t\r\n]*(/?)[ \t\r\n]*(\w+)[ \t\r\n]*(/?)[ \t\r\n]*>")
_STRAY = re.compile(r"&(?!#\d{1,7};|#x[0-9a-fA-F]{1,6};|\w{1,20};)|<(?![/\w!])")
_CDATA_END_OF_STDERR = re.compile(rb"\]\]>\s*</stderr_out>")


class UnusualLayout(Exception):
    """The text is not in the layout of the family's client; never leaves the package."""


# -- free texts -----------------------------------------------------------------------------------------------------


def cut_verbatim(body: bytes, tags: Sequence[bytes]) -> tuple[bytes, dict[str, bytes]]:
    """Cut the contents of the given elements out of a message.

    The outermost of two nested ones wins, whatever the inner text looks like.  Returns the skeleton, in which each
    such element holds a number, and the contents by number.  Raises RemoteProtocolError for a missing closing tag.
    """
    pieces: dict[str, bytes] = {}
    out: list[bytes] = []
    position = 0
    starts = {tag: at for tag in tags if (at := body.find(b"<%b>" % tag)) >= 0}
    while starts:
        tag = min(starts, key=starts.__getitem__)
        begin = starts[tag] + len(tag) + 2
        end = _end_of_verbatim(body, tag, begin)
        key = str(len(pieces))
        pieces[key] = body[begin:end]
        out += body[position:begin], key.encode()
        position = end
        for name, at in list(starts.items()):
            if at < end:
                starts[name] = body.find(b"<%b>" % name, end)
                if starts[name] < 0:
                    del starts[name]
    out.append(body[position:])
    return b"".join(out), pieces


def _end_of_verbatim(body: bytes, tag: bytes, begin: int) -> int:
    end = body.find(b"</%b>" % tag, begin)
    if end < 0:
        name = tag.decode()
        raise RemoteProtocolError(
            f"<{name}> at byte {begin} has no closing tag", reply_hint="The request was cut short."
        )
    if tag == b"stderr_out" and not body[begin:end].rstrip().endswith(b"]]>"):
        # A program may print the closing tag itself: within CDATA only the one behind "]]>" counts, unless another
        # stderr_out begins before it.
        opening = body.find(b"<![CDATA[", begin, end)
        proper = _CDATA_END_OF_STDERR.search(body, end) if opening >= 0 else None
        if proper and body.find(b"<stderr_out>", end, proper.start()) < 0:
            return body.index(b"</stderr_out>", proper.start())
    return end


def decode(data: bytes, where: str, notes: list[Lenience]) -> str:
    """Decode UTF-8, else Latin-1 (which old clients and many hosts' names are in)."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        note(notes, LenienceKind.NOT_UTF8, where, f"byte {error.start}")
        return data.decode("latin-1")


def strip_control(text: str) -> str:
    """Remove control characters except tab and line ends; databases and XML refuse them."""
    return text.translate(_CONTROL) if _CONTROL_CHARACTER.search(text) else text


def unescape(text: str) -> str:
    """Resolve the five named entities and numeric references; leave everything else alone."""
    return _REFERENCE.sub(_resolve, text) if "&" in text else text


def _resolve(match: re.Match[str]) -> str:
    decimal, hexadecimal, name = match.groups()
    if name:
        return _ENTITIES[name]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    # Surrogates are not characters: they could not be encoded again.
    return chr(code) if code < 0xD800 or 0xDFFF < code < 0x110000 else "\ufffd"


def note(notes: list[Lenience], kind: LenienceKind, where: str, detail: str = "") -> None:
    """Record a lenience; a hostile message cannot make the list long."""
    if len(notes) < MAX_LENIENCES:
        notes.append(Lenience(kind=kind, where=where, detail=strip_control(detail)[:80]))


# -- the usual layout -----------------------------------------------------------------------------------------------


def take(text: str, tag: str) -> tuple[str | None, str]:
    """Take the first element of that name out of a text: its content (None if absent), and the rest."""
    start = text.find(f"<{tag}>")
    if start < 0:
        return None, text
    begin = start + len(tag) + 2
    end = text.find(f"</{tag}>", begin)
    if end < 0:
        raise UnusualLayout(tag)
    return text[begin:end], text[:start] + text[end + len(tag) + 3 :]


def take_all(text: str, tag: str, limit: int) -> tuple[list[str], str, bool]:
    """Take all elements of that name out of a text: their contents, the rest, and whether some were dropped.

    Beyond ``limit`` everything up to the last closing tag of that name is dropped.
    """
    opening, closing = f"<{tag}>", f"</{tag}>"
    start = text.find(opening)
    if start < 0:
        return [], text, False
    blocks: list[str] = []
    rest: list[str] = []
    position = 0
    while start >= 0:
        rest.append(text[position:start])
        if len(blocks) == limit:
            rest.append(text[text.rindex(closing) + len(closing) :])
            return blocks, "".join(rest), True
        begin = start + len(opening)
        end = text.find(closing, begin)
        if end < 0:
            raise UnusualLayout(tag)
        blocks.append(text[begin:end])
        position = end + len(closing)
        start = text.find(opening, position)
    rest.append(text[position:])
    return blocks, "".join(rest), False


def scan_fields(block: str, where: str) -> Fields:
    """Read ``<name>text</name>`` scalars; the last of several wins, as in the family's parser.

    Raises UnusualLayout when the block holds any other tag.
    """
    if len(block) > MAX_BLOCK_CHARS:
        raise RemoteProtocolError(
            f"<{where}> has {len(block)} characters, at most {MAX_BLOCK_CHARS} are read"
        )
    found = _SCALAR.findall(block)
    if block.count("<") != 2 * len(found):
        raise UnusualLayout(where)
    return dict(found)


# -- any other layout -----------------------------------------------------------------------------------------------


def parse_unusual(text: str, root: str, flags: Sequence[str], notes: list[Lenience]) -> tuple[Element, bool]:
    """Read a text with lxml; returns the root element and whether the text had to be repaired.

    ``flags`` are the elements for which ``<x/>`` means true.  Raises RemoteProtocolError.
    """
    if len(text) > MAX_UNUSUAL_BYTES:
        raise RemoteProtocolError(
            f"<{root}> is not in the usual layout, and too long to be read in any other"
        )
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise RemoteProtocolError("document types and entities are not accepted")
    text = strip_control(_DECLARATION.sub("", text))
    text = _SPACED_TAG.sub(r"<\1\2\3>", text)
    text = re.sub(rf"<({'|'.join(flags)})/>", r"<\1>1</\1>", text)
    repaired = False
    try:
        tree = _parse(text, recover=False)
    except etree.XMLSyntaxError as error:
        repaired = True
        note(notes, LenienceKind.RECOVERED, root, str(error))
        try:
            tree = _parse(_STRAY.sub(_escape_stray, text), recover=True)
        except etree.XMLSyntaxError:
            tree = None
    if tree is not None and tree.tag != root:
        tree = next(tree.iter(root), None)
    if tree is None:
        raise RemoteProtocolError(f"no <{root}> could be read")
    return tree, repaired


def _parse(text: str, *, recover: bool) -> Element | None:
    parser = etree.XMLParser(
        encoding="utf-8",
        recover=recover,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    return etree.fromstring(text.encode("utf-8", "replace"), parser)


def _escape_stray(match: re.Match[str]) -> str:
    return "&amp;" if match.group() == "&" else "&lt;"


def element_fields(element: Element) -> Fields:
    """The scalars directly below an element, still escaped as `FieldReader` expects them."""
    return {
        child.tag: (child.text or "").replace("&", "&amp;")
        for child in element
        if isinstance(child.tag, str) and not len(child)
    }


def elements(root: Element, tag: str, *, anywhere: bool) -> Iterator[Element]:
    """Elements of that name below the root; ``anywhere`` after recovery, which nests siblings."""
    return root.iter(tag) if anywhere else root.iterchildren(tag)


# -- values ---------------------------------------------------------------------------------------------------------


class FieldReader:
    """Turns the scalars of one block into bounded values, and notes what could not be taken as it was."""

    __slots__ = ("fields", "notes", "where")

    def __init__(self, fields: Fields, where: str, notes: list[Lenience]) -> None:
        self.fields = fields
        self.where = where
        self.notes = notes

    def number(self, name: str, default: float = 0.0, low: float = 0.0, high: float = HUGE) -> float:
        """A finite number within the bounds, else the default."""
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
        """A whole number within the bounds, else the default; a fraction is cut off, as C does."""
        value = self.fields.get(name)
        if value is None:
            return default
        try:
            number = float(value)
            if low <= number <= high:
                return int(number)
        except ValueError:
            pass
        note(self.notes, LenienceKind.BAD_NUMBER, f"{self.where}/{name}", value)
        return default

    def flag(self, name: str) -> bool:
        """True for a number other than 0; absence and the empty text are false."""
        value = self.fields.get(name)
        if value is None or value == "0" or not value.strip():
            return False
        return self.integer(name, low=-(2**31)) != 0

    def text(self, name: str, limit: int = MAX_TEXT) -> str:
        """A text on one line, at most ``limit`` characters long."""
        value = self.fields.get(name)
        if not value:
            return ""
        if "&" in value:
            value = unescape(value)
        if not value.isprintable():
            value = self._clean(name, value)
        if len(value) > limit:
            note(self.notes, LenienceKind.CUT, f"{self.where}/{name}", f"{len(value)} characters")
            value = value[:limit]
        return value

    def name(self, name: str = "name") -> str:
        """A name, or the empty text for one that is too long to be anything we gave out."""
        value = self.text(name, MAX_TEXT).strip()
        return value if len(value) <= MAX_NAME else ""

    def _clean(self, name: str, value: str) -> str:
        cleaned = strip_control(value)
        if cleaned != value:
            note(self.notes, LenienceKind.CONTROL_CHARACTERS, f"{self.where}/{name}")
        return " ".join(cleaned.split()) if "\n" in cleaned or "\r" in cleaned else cleaned
