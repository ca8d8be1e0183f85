"""A tolerant reader of the output of BOINC servers and programs: a tree of tags over the text itself.

The family reads tag by tag, so much of what it writes is not XML: raw HTML in messages, bare ``&`` in addresses, bytes of any
encoding.  Here a closing tag closes the nearest open element of its name, one that closes nothing is passed over, and
elements whose content is not ours to read (`verbatim`) are jumped over.  Texts stay as they came, bytes in a str as
`xml_reader` describes them; `FieldReader` turns them into bounded values.  Reading takes linear time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.text.reader import MAX_TEXT, WHITE_SPACE, FieldReader, Fields, Lenience, end_of_verbatim

MAX_BYTES = 64 * 1024 * 1024
MAX_TAGS = 2_000_000
MAX_DEPTH = 40
#: Of a message a tag has at least so many on average: a tree of millions of elements would keep the garbage collector busy.
LEAST_BYTES = 12
#: A ``<`` that begins no element counts as so many tags.
STRAY = 20
#: Departures from well-formed XML that are remembered.
MAX_FAULTS = 100

_TAG = (
    # Most elements hold no other ones: each is one match.
    r"<(?P<leaf>\w{1,64})>(?P<value>[^<]*)</(?P=leaf)>"
    r"|</\s*(?P<close>\w{1,64})\s*>"
    r"|<(?P<open>\w{1,64})(?P<attributes>\s[^<>]*?)?(?P<empty>/?)>"
)
_AT = re.compile(_TAG, re.ASCII)
_IN_TEXT = re.compile(
    rf"{_TAG}|<!\[CDATA\[(?P<cdata>.*?)(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?[^>]*(?:>|\Z)", re.DOTALL | re.ASCII
)
_NO_ELEMENTS = (("<![CDATA[", "]]>"), ("<!--", "-->"), ("<?", ">"))


class Node:
    """One element: its children, and the position of its content in the text."""

    __slots__ = ("attributes", "begin", "cdata", "children", "end", "source", "tag")

    def __init__(self, source: str, tag: str, begin: int, end: int, attributes: str = "") -> None:
        self.source = source
        self.tag = tag
        self.begin = begin
        self.end = end
        self.attributes = attributes
        self.children: list[Node] = []
        self.cdata = False

    @property
    def raw(self) -> str:
        """Return the content as it is in the text."""
        return self.source[self.begin : self.end]

    @property
    def text(self) -> str:
        """Return the content as a scalar: CDATA escaped, white space at the ends removed; of an empty element ``1``."""
        raw = self.raw
        if self.cdata:
            raw = _IN_TEXT.sub(_escaped, raw)
        return raw.strip(WHITE_SPACE)

    def all(self, tag: str) -> Iterator[Node]:
        """Return the children of that name."""
        return (child for child in self.children if child.tag == tag)

    def everywhere(self, tag: str) -> Iterator[Node]:
        """Return the elements of that name at any depth, in order: where an end is missing, siblings lie within each other."""
        for child in self.children:
            if child.tag == tag:
                yield child
            yield from child.everywhere(tag)

    def find(self, tag: str) -> Node | None:
        """Return the last child of that name: as in BOINC's parser, the last of several wins."""
        return next((child for child in reversed(self.children) if child.tag == tag), None)

    def inner(self, tag: str) -> Node:
        """Return the same as `find`, or an empty element."""
        return self.find(tag) or Node("", tag, 0, 0)

    def has(self, tag: str) -> bool:
        """Return whether there is a child of that name."""
        return any(child.tag == tag for child in self.children)

    def is_set(self, tag: str) -> bool:
        """Return whether there is a child of that name that is a flag or has any content but ``0``."""
        child = self.inner(tag)
        return child.attributes == "/" or child.text not in ("", "0")

    def scalar(self, notes: list[Lenience], limit: int = MAX_TEXT) -> str:
        """Return the content as a text on one line, at most ``limit`` characters long."""
        return FieldReader({self.tag: self.text}, self.tag, notes).text(self.tag, limit)

    def fields(self) -> Fields:
        """Return the children without child elements; an empty element counts as a flag that is set."""
        found: Fields = {}
        for child in self.children:
            if child.children:
                continue
            if child.begin == child.end:
                found[child.tag] = "1" if child.attributes == "/" else ""
            elif child.cdata:
                found[child.tag] = child.text
            else:  # nearly all, hence without the properties
                found[child.tag] = child.source[child.begin : child.end].strip(WHITE_SPACE)
        return found

    def reader(self, notes: list[Lenience]) -> FieldReader:
        """Return a reader of bounded values from `fields`."""
        return FieldReader(self.fields(), self.tag, notes)


def _escaped(match: re.Match[str]) -> str:
    content = match["cdata"]
    if content is None:
        return match["value"] or ""
    return content.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def read_tree(body: bytes, root: str, verbatim: Collection[str] = (), *, max_bytes: int = MAX_BYTES) -> Node:
    """Read the first element of that name.

    Raises:
        RemoteProtocolError: there is none, it does not end, or it is too long, too deep or too full to be genuine.
    """
    if len(body) > max_bytes:
        raise RemoteProtocolError(f"<{root}> has {len(body)} bytes; at most {max_bytes} are read")
    return TreeReader(body, verbatim, min(MAX_TAGS, max_bytes // LEAST_BYTES)).element(root)


class TreeReader:
    """Reads one element; ``faults`` are what was not well-formed in it."""

    def __init__(self, body: bytes, verbatim: Collection[str], max_tags: int) -> None:
        self.source = body.decode("latin-1")
        self.max_tags = max_tags
        self.verbatim = frozenset(verbatim)
        self.stack: list[Node] = []
        self.faults: deque[str] = deque(maxlen=MAX_FAULTS)

    def element(self, root: str) -> Node:
        """Read the first element of that name, as `read_tree` does."""
        start = re.search(rf"<{root}(?:\s[^<>]*)?(/?)>", self.source)
        if start is None:
            raise RemoteProtocolError(
                f"there is no <{root}> in the {len(self.source)} bytes: {self.source[:80]!r}"
            )
        top = Node(self.source, root, start.end(), start.end())
        return top if start[1] else self._read(top)

    def _read(self, top: Node) -> Node:
        self.stack = stack = [top]
        source, at, verbatim = self.source, _AT.match, self.verbatim
        position, tags = top.begin, 0
        # Not one search for the next tag: as long as a regular expression runs, all other threads wait.
        while (position := source.find("<", position)) >= 0:
            match = at(source, position)
            kind = match.lastgroup if match else ""  # of the groups that took part the last one
            tags += 2 if kind == "value" else 1 if match else STRAY
            if tags > self.max_tags:
                raise RemoteProtocolError(f"<{top.tag}> holds more than {self.max_tags} tags")
            if match is None:
                position = self._passed_over(position)
                continue
            position = match.end()
            if kind == "value":  # nearly all, hence here
                tag = match[1]
                if len(stack) >= MAX_DEPTH and tag not in verbatim:
                    raise RemoteProtocolError(f"<{tag}> lies more than {MAX_DEPTH} elements deep")
                stack[-1].children.append(Node(source, tag, *match.span(2)))
            elif kind == "empty":
                position = self._opened(match)
            elif kind == "close":
                self._closed(match)
                if not stack:
                    return top
        raise RemoteProtocolError(f"<{top.tag}> does not end: the text was cut short")

    def _passed_over(self, position: int) -> int:
        """Return where what begins there and is no element ends."""
        source = self.source
        for opening, closing in _NO_ELEMENTS:
            if source.startswith(opening, position):
                self.stack[-1].cdata |= closing == "]]>"
                end = source.find(closing, position + len(opening))
                return len(source) if end < 0 else end + len(closing)
        self.faults.append(f"{source[position : position + 20]!r} begins no element")
        return position + 1

    def _opened(self, match: re.Match[str]) -> int:
        tag, position = match["open"], match.end()
        node = Node(self.source, tag, position, position, match["attributes"] or "")
        self.stack[-1].children.append(node)
        if match["empty"]:
            node.attributes = "/"
        elif tag in self.verbatim:
            node.end = end = end_of_verbatim(self.source, tag, position)
            node.cdata = "<![CDATA[" in node.raw
            return end + len(tag) + 3
        else:
            if len(self.stack) >= MAX_DEPTH:
                raise RemoteProtocolError(f"<{tag}> lies more than {MAX_DEPTH} elements deep")
            self.stack.append(node)
        return position

    def _closed(self, match: re.Match[str]) -> None:
        tag = match["close"]
        if self.stack[-1].tag != tag:
            self.faults.append(f"</{tag}> stands in <{self.stack[-1].tag}>")
        for depth in range(len(self.stack) - 1, -1, -1):
            if self.stack[depth].tag == tag:
                for node in self.stack[depth:]:
                    node.end = match.start()
                del self.stack[depth:]
                return
