"""Reads the export of any BOINC project as a stream of bounded values, and as rows for statistics over many projects.

Reading the export of any project of the family, as a stream: whoever wrote it, nothing but bounded values comes out.

Real exports are not always XML: names in ``tables.xml`` are not escaped, letters beyond ASCII in names stand there as one
reference for each byte of UTF-8, elements come and go with versions of the server.  So no XML parser reads them (and no
entity of a document type means anything): records are cut out between their tags, and of a record what is known is taken.
One without its number, or with a number that cannot be, is refused and counted; a file that ends too early is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any
from urllib.parse import urljoin, urlsplit

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.exports import ExportedBadge, ExportedTable
from cobblestone.wire.project.statistics_export import ROOTS
from cobblestone.wire.text.reader import unescape_html
from cobblestone.wire.text.writer import one_line, printable

#: Of one record: descriptions of teams are the longest.
MAX_RECORD_BYTES = 200_000
MAX_TEXT = 255
LARGEST_CREDIT = 1e30
LARGEST_ID = 2**53
MOST_CPUS = 1_000_000
LATEST = 4_000_000_000  #: Unix seconds: no time lies later

_FIELD = re.compile(r"<(\w{1,40})>([^<]*)</\1>")
_CDATA = re.compile(r"<!\[CDATA\[.*?(?:\]\]>|$)", re.DOTALL)
_MISC = re.compile(r"<misc>(?:<!\[CDATA\[)?([^<]*?)(?:\]\]>)?</misc>")
MOST_MODELS = 8  #: of GPUs in one computer
MAX_MODEL = 100
MOST_BADGES = 1000  #: of one project
MAX_BADGE_TITLE = 100
MAX_BADGE = 2000  #: letters of a badge's record
_BADGE_ID = re.compile(r"[1-9][0-9]{0,14}")
_ADDRESS = re.compile(r"[A-Za-z0-9_./:?&=%~+,-]{1,255}")
_BYTES = re.compile(r"(?:&#(?:1[2-9][0-9]|2[0-5][0-9]);)+")
_HEX = re.compile(r"[0-9a-fA-F]{32}")


class RecordRefused(RemoteProtocolError):
    """A record is invalid."""


class Fields:
    """The elements of a record, by name; the first of several with one name."""

    __slots__ = ("_texts", "misc")

    def __init__(self, record: str) -> None:
        self._texts: dict[str, str] = {}
        misc = _MISC.search(record)
        self.misc = misc[1] if misc else ""  #: what has no element of its own, as JSON
        if "<![CDATA[" in record:  # free text: what looks like an element there is none
            record = _CDATA.sub("", record)
        for name, text in _FIELD.findall(record):
            self._texts.setdefault(name, text)

    def has(self, name: str) -> bool:
        """Return whether there is such an element."""
        return name in self._texts

    def text(self, name: str) -> str:
        """Return a text on one line, with references resolved."""
        return resolved(self._texts.get(name, ""))

    def number(self, name: str, most: float, *, needed: bool = False) -> float:
        """Return a number, 0 if it is missing.  Raises RecordRefused for an invalid one, and if a needed one is missing."""
        text = self._texts.get(name)
        if text is None:
            if needed:
                raise RecordRefused(f"{name} is missing")
            return 0.0
        try:
            number = float(text)
        except ValueError:
            raise RecordRefused(f"{name} is not a number: {text[:40]!r}") from None
        if not 0 <= number <= most:  # nor NaN
            raise RecordRefused(f"{name} cannot be: {text[:40]!r}")
        return number

    def whole(self, name: str) -> int:
        """Return a count, 0 if it is missing.  Raises RecordRefused."""
        return int(self.number(name, LARGEST_ID))

    def id(self, name: str = "id") -> int:
        """Return a required number.  Raises RecordRefused."""
        number = self.whole(name)
        if number < 1:
            raise RecordRefused(f"{name} is missing")
        return number

    def cpid(self, name: str = "cpid") -> str:
        """Return a cross-project id, empty if it is invalid."""
        return cpid_in(self._texts.get(name, ""))


def gpu_models(misc: str) -> str:
    """Return the models of the GPUs in a JSON list, one per line, in order; empty if it is not such a list."""
    if not misc:
        return ""
    try:
        said = json.loads(misc)
        entries = [*said.get("coprocs", ()), *said.get("gpus", ())][:MOST_MODELS]
        names = {resolved(str(each.get("name", "")), MAX_MODEL) for each in entries}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return ""
    return "\n".join(sorted(names - {""}))


def resolved(text: str, most: int = MAX_TEXT) -> str:
    """Return the text of an element on one line, with references resolved."""
    if "&" in text:
        text = unescape_html(_BYTES.sub(_letters, text[: most * 24]))
    return printable(one_line(text)).strip()[:most]


def cpid_in(text: str) -> str:
    """Return a text as a cross-project id, in lower case; empty if it is not one."""
    text = text.strip()
    return text.lower() if _HEX.fullmatch(text) else ""


def _letters(references: re.Match[str]) -> str:
    """Return the characters of a run of references, each of which is a byte of UTF-8; else the run itself."""
    numbers = [int(each[2:]) for each in references[0].rstrip(";").split(";")]
    try:
        return bytes(numbers).decode()
    except ValueError:
        return references[0]


def _without_members(teams: bytes) -> bytes:
    """Leave out the members of teams, whom some projects export within them (``<detail/>``), as far as they are complete."""
    *complete, rest = teams.split(b"</user>")
    return b"".join([each.partition(b"<user>")[0] for each in complete]) + rest


class ExportReader:
    """Consumes the bytes of a file as they arrive, and returns complete records."""

    def __init__(self, table: ExportedTable, make: Callable[[str], Any]) -> None:
        """Read a file of ``table``.  ``make`` returns a record from its text, or raises RecordRefused."""
        element = table.value.removesuffix("_deleted")
        self._make = make
        self._begin, self._end = f"<{element}>", f"</{element}>"
        self._with_members = table is ExportedTable.TEAM
        self._last = f"</{ROOTS[table]}>"
        self._buffer = b""
        self._over = False
        self.n_refused = 0
        self.first_refusal = ""  #: why the first record was refused that was

    def receive(self, data: bytes) -> list[Any]:
        """Take some bytes; return the records that they complete.

        Raises:
            RemoteProtocolError: a record is longer than any can be.
        """
        buffer, end = self._buffer + data, self._end.encode()
        if self._with_members and b"</user>" in buffer:
            buffer = _without_members(buffer)
        cut = buffer.rfind(end) + 1
        cut += len(end) - 1 if cut else 0
        found = self.records(memoryview(buffer)[:cut]) if cut else []
        rest = buffer[cut:]
        self._over = self._over or self._last.encode() in rest
        begin = rest.find(self._begin.encode())
        if begin >= 0 and len(rest) - begin > MAX_RECORD_BYTES:
            raise RemoteProtocolError(f"a record is longer than {MAX_RECORD_BYTES} bytes")
        # Kept: the beginning of a record, or what may be the beginning of a tag.
        self._buffer = rest[begin if begin >= 0 else -64 :]
        return found

    def records(self, data: memoryview) -> list[Any]:
        """Return the records in some bytes, which end with one."""
        found: list[Any] = []
        skip = len(self._begin)
        pieces = str(data, "utf-8", "replace").split(self._end)
        del pieces[-1]  # nothing follows the last end
        for piece in pieces:
            begin = piece.find(self._begin)
            if begin < 0:
                continue
            try:
                if len(piece) - begin > MAX_RECORD_BYTES:
                    raise RecordRefused(f"it is longer than {MAX_RECORD_BYTES} bytes")
                found.append(self._make(piece[begin + skip :]))
            except RecordRefused as error:
                self.n_refused += 1
                self.first_refusal = self.first_refusal or str(error)
        return found

    def close(self) -> None:
        """Record the end of the input.

        Raises:
            RemoteProtocolError: the file is not complete.
        """
        if not self._over:
            raise RemoteProtocolError(
                f"it ends before {self._last}: the file is cut, or is none of an export"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsRead:
    """The totals in ``tables.xml`` about the other files."""

    update_time: float
    n_users: int | None  #: None: it does not say
    n_teams: int | None
    n_hosts: int | None
    badges: tuple[ExportedBadge, ...] = ()


def parse_tables(text: str) -> TotalsRead:
    """Read ``tables.xml``, which need not be well-formed.  Raises RemoteProtocolError."""
    if "<tables>" not in text:
        raise RemoteProtocolError("it is not tables.xml")
    fields = Fields(text)
    return TotalsRead(
        update_time=fields.number("update_time", LATEST),
        n_users=fields.whole("nusers_total") if fields.has("nusers_total") else None,
        n_teams=fields.whole("nteams_total") if fields.has("nteams_total") else None,
        n_hosts=fields.whole("nhosts_total") if fields.has("nhosts_total") else None,
        badges=tuple(_badges(text)),
    )


def _badges(text: str) -> Iterator[ExportedBadge]:
    """Yield the badges with a number and a title; the first of several with one number.  Titles may contain markup."""
    seen: set[int] = set()
    for piece in text.partition("<badges>")[2].split("</badge>", MOST_BADGES)[:-1]:
        record = piece.rpartition("<badge>")[2][:MAX_BADGE]
        number = _between(record, "id").strip()
        name, title = (resolved(_between(record, each), MAX_BADGE_TITLE) for each in ("name", "title"))
        if _BADGE_ID.fullmatch(number) and int(number) not in seen and (title or name):
            seen.add(int(number))
            yield ExportedBadge(
                id=int(number),
                name=name,
                title=title or name,
                image_url=resolved(_between(record, "image_url"), MAX_BADGE),
            )


def _between(record: str, name: str) -> str:
    return record.partition(f"<{name}>")[2].partition(f"</{name}>")[0]


def picture_address(export: str, said: str) -> str:
    """Return the address of a badge's picture, if it lies at the server of the project whose export is at ``export``; else
    nothing.  It may be relative to the project's address, which is that above the export."""
    try:
        address = urljoin(urljoin(export, ".."), said)
        ours, theirs = urlsplit(export), urlsplit(address)
    except ValueError:
        return ""
    there = said and theirs.scheme in ("http", "https") and theirs.netloc == ours.netloc
    return address if there and _ADDRESS.fullmatch(address) else ""


_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def split_files(data: bytes) -> dict[str, str]:
    """Return the names of files that are exported in parts, by table, as ``db_dump.xml`` says: ``user_id`` for
    ``user_id_0.gz``, ``user_id_1.gz`` and so on."""
    found: dict[str, str] = {}
    for piece in data.decode("utf-8", "replace").split("</enumeration>")[:-1]:
        enumeration = piece.partition("<enumeration>")[2]
        fields = Fields(enumeration)
        table, name = fields.text("table"), fields.text("filename")
        if "<recs_per_file>" in enumeration and _FILE_NAME.fullmatch(name):
            found.setdefault(table, name)
    return found


class Form(Enum):
    """The type of an element's content."""

    ID = auto()  #: a number that must be there
    WHOLE = auto()
    NUMBER = auto()
    TEXT = auto()
    FEW = auto()  #: a text that many records share
    CPID = auto()
    GPUS = auto()  #: models of GPUs, from JSON


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a record, and its column."""

    column: str
    name: str
    form: Form
    most: float = 0.0  #: the largest number that can be
    needed: bool = False  #: a record without it is refused: an absent total is not zero


_NUMBERS = (
    Element("id", "id", Form.ID, LARGEST_ID, needed=True),
    Element("create_time", "create_time", Form.NUMBER, LATEST),
    Element("total", "total_credit", Form.NUMBER, LARGEST_CREDIT, needed=True),
    Element("recent", "expavg_credit", Form.NUMBER, LARGEST_CREDIT, needed=True),
    Element("recent_time", "expavg_time", Form.NUMBER, LATEST),
)


def _badge_elements(kind: str) -> tuple[Element, ...]:
    return (
        Element("id", f"{kind}_id", Form.ID, LARGEST_ID, needed=True),
        Element("badge_id", "badge_id", Form.ID, LARGEST_ID, needed=True),
        Element("since", "create_time", Form.NUMBER, LATEST),
    )


#: By table.  Times are Unix seconds; what is missing and not needed is 0 or empty; the name of a computer is its processor's.
ELEMENTS: Mapping[ExportedTable, tuple[Element, ...]] = {
    ExportedTable.USER: (
        *_NUMBERS,
        Element("name", "name", Form.TEXT),
        Element("cpid", "cpid", Form.CPID),
        Element("country", "country", Form.FEW),
        Element("team_id", "teamid", Form.WHOLE, LARGEST_ID),
    ),
    ExportedTable.HOST: (
        *_NUMBERS,
        Element("name", "p_model", Form.FEW),
        Element("cpid", "host_cpid", Form.CPID),
        Element("system", "os_name", Form.FEW),
        Element("user_id", "userid", Form.WHOLE, LARGEST_ID),
        Element("n_cpus", "ncpus", Form.WHOLE, MOST_CPUS),
        Element("gpus", "misc", Form.GPUS),
    ),
    ExportedTable.TEAM: (
        *_NUMBERS,
        Element("type", "type", Form.WHOLE, LARGEST_ID),
        Element("name", "name", Form.TEXT),
        Element("country", "country", Form.FEW),
    ),
    ExportedTable.USER_DELETED: (Element("id", "id", Form.ID, LARGEST_ID, needed=True),),
    ExportedTable.HOST_DELETED: (Element("id", "id", Form.ID, LARGEST_ID, needed=True),),
    ExportedTable.BADGE_USER: _badge_elements("user"),
    ExportedTable.BADGE_TEAM: _badge_elements("team"),
    ExportedTable.BADGE_HOST: _badge_elements("host"),
}
#: The tables that statistics over many projects show.
COLLECTED = tuple(table for table in ELEMENTS if table is not ExportedTable.BADGE_HOST)

#: Values of the columns.
Row = tuple[Any, ...]


def row_maker(table: ExportedTable) -> Callable[[str], Row]:
    """Return a function that makes a row from the text of a record; it raises RecordRefused."""
    elements = ELEMENTS[table]

    def row(record: str) -> Row:
        fields = Fields(record)
        return tuple(_value(fields, element) for element in elements)

    return row


def _value(fields: Fields, element: Element) -> Any:
    match element.form:
        case Form.ID:
            return fields.id(element.name)
        case Form.WHOLE:
            return int(fields.number(element.name, element.most))
        case Form.NUMBER:
            return fields.number(element.name, element.most, needed=element.needed)
        case Form.TEXT | Form.FEW:
            return fields.text(element.name)
        case Form.CPID:
            return fields.cpid(element.name)
        case Form.GPUS:
            return gpu_models(fields.misc)
