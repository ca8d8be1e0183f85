"""Version scales between projects: ``scales.xml`` and ``scales.json`` of a project, and of the central service.

Our own format, for the family has none: the CreditNew page says only what is exported.  Both forms hold the same fields
under the same names.  Reading is strict as to the form, and bounded; a version (or plan class) whose figures make no sense
is left out and counted, so that one bad row loses nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from lxml import etree

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.exports import (
    LARGEST_SCALE,
    SMALLEST_SCALE,
    ProjectScales,
    PublishedScale,
    VersionScale,
)
from cobblestone.wire.text.reader import safe_parser
from cobblestone.wire.text.writer import printable, scalar

MAX_BYTES = 2_000_000
MAX_ROWS = 5_000
MAX_NAME = 254
_HUGE = 1e30
_DECLARATION = '<?xml version="1.0" encoding="UTF-8" ?>\n'

_ROOT, _VERSION = "version_scales", "app_version"
_PUBLISHED, _CLASS = "published_scales", "plan_class_scale"

#: Values of one object by name; texts when they come from XML.
Fields = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedProject:
    """A project's export, and how many of its versions were implausible."""

    scales: ProjectScales
    n_refused: int = 0


# -- writing --------------------------------------------------------------------------------------------


def _parts(project: ProjectScales) -> tuple[Fields, list[Fields]]:
    """Return the fields of the whole, and those of each version."""
    head = asdict(project)
    return head, list(head.pop("versions"))


def write_project_scales_xml(project: ProjectScales) -> bytes:
    """Return a project's export, as XML.  Numbers are finite."""
    head, rows = _parts(project)
    return _xml(_ROOT, head, _VERSION, rows)


def write_project_scales_json(project: ProjectScales) -> bytes:
    """Return a project's export, as JSON.  Numbers are finite."""
    head, rows = _parts(project)
    return _json({**head, "app_versions": rows})


def write_published_scales_xml(scales: Sequence[PublishedScale], *, time: float) -> bytes:
    """Return the service's publication, as XML."""
    return _xml(_PUBLISHED, {"time": time}, _CLASS, [asdict(item) for item in scales])


def write_published_scales_json(scales: Sequence[PublishedScale], *, time: float) -> bytes:
    """Return the service's publication, as JSON."""
    return _json({"time": time, "plan_classes": [asdict(item) for item in scales]})


def _xml(root: str, head: Fields, row_name: str, rows: Sequence[Fields]) -> bytes:
    body = "".join(
        f"  <{row_name}>\n{''.join(_element(name, value, '    ') for name, value in row.items())}  </{row_name}>\n"
        for row in rows
    )
    top = "".join(_element(name, value, "  ") for name, value in head.items())
    return f"{_DECLARATION}<{root}>\n{top}{body}</{root}>\n".encode()


def _element(name: str, value: object, indent: str) -> str:
    if isinstance(value, bool):
        value = int(value)
    return scalar(name, str(value), indent)  # as text: scales may be small, so all digits of a number


def _json(values: Mapping[str, object]) -> bytes:
    return (json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode(errors="replace")


# -- reading --------------------------------------------------------------------------------------------


def parse_project_scales(body: bytes) -> ParsedProject:
    """Read a project's export, XML or JSON by its first character.

    Raises RemoteProtocolError: it is too large, in another form, or has too many versions.
    """
    head, rows = _read(body, _ROOT, _VERSION, "app_versions")
    versions = [_version(row) for row in rows]
    unit = _number(head, "credit_per_gflops_day", 200.0)
    if unit is None or unit <= 0.0:
        raise RemoteProtocolError("credit_per_gflops_day is not a positive number")
    project = ProjectScales(
        name=_text(head, "name"),
        master_url=_text(head, "master_url"),
        credit_per_gflops_day=unit,
        time=_number(head, "time", 0.0) or 0.0,
        versions=tuple(version for version in versions if version is not None),
    )
    return ParsedProject(scales=project, n_refused=versions.count(None))


def parse_published_scales(body: bytes) -> dict[str, float]:
    """Read the service's publication, XML or JSON: scale by plan class; implausible ones are left out.

    Raises RemoteProtocolError: it is too large, or in another form.
    """
    _, rows = _read(body, _PUBLISHED, _CLASS, "plan_classes")
    found: dict[str, float] = {}
    for row in rows:
        name = _text(row, "plan_class")
        scale = _number(row, "scale", 0.0)
        if name and scale is not None and SMALLEST_SCALE <= scale <= LARGEST_SCALE:
            found[name] = scale
    return found


def _version(row: Fields) -> VersionScale | None:
    """Return a version, or None when its figures make no sense."""
    credit = _number(row, "expavg_credit", None)
    scale = _number(row, "pfc_scale", None)
    number = _number(row, "version_num", 0.0)
    measured = _number(row, "measured", 1.0)
    name = _text(row, "app_name")
    if not name or credit is None or scale is None or number is None or measured is None:
        return None
    if scale != 0.0 and not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        return None
    return VersionScale(
        app_name=name,
        platform=_text(row, "platform"),
        plan_class=_text(row, "plan_class"),
        version_num=int(min(number, 2**31)),
        expavg_credit=credit,
        pfc_scale=scale,
        measured=measured != 0.0,
    )


def _read(body: bytes, root: str, row_name: str, rows_name: str) -> tuple[Fields, list[Fields]]:
    """Return the fields of the whole, and those of its rows."""
    if len(body) > MAX_BYTES:
        raise RemoteProtocolError(f"{len(body)} bytes are too many: at most {MAX_BYTES} are read")
    try:
        text = body.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"it is not UTF-8: {error}") from error
    head, rows = _read_json(text, rows_name) if text.startswith("{") else _read_xml(text, root, row_name)
    if len(rows) > MAX_ROWS:
        raise RemoteProtocolError(f"{len(rows)} entries are too many: at most {MAX_ROWS} are read")
    return head, rows


def _read_json(text: str, rows_name: str) -> tuple[Fields, list[Fields]]:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RemoteProtocolError(f"it is not JSON: {error}") from error
    head = _object(found)
    if head is None or not isinstance(rows := head.get(rows_name), list):
        raise RemoteProtocolError(f"the JSON has no list {rows_name!r}")
    entries: list[object] = [*rows]
    return head, [_object(entry) or {} for entry in entries]


def _object(value: object) -> Fields | None:
    """Return a JSON object; its names are texts, its values are checked one by one."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]  # of whatever JSON holds


def _read_xml(text: str, root: str, row_name: str) -> tuple[Fields, list[Fields]]:
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise RemoteProtocolError("document types and entities are not accepted")
    try:
        tree = etree.fromstring(text.encode(), safe_parser(encoding="utf-8"))
    except etree.XMLSyntaxError as error:
        raise RemoteProtocolError(f"it is neither JSON nor well-formed XML: {error}") from error
    if tree.tag != root:
        raise RemoteProtocolError(f"the XML is not <{root}> but <{str(tree.tag)[:40]}>")
    return dict(_scalars(tree)), [dict(_scalars(row)) for row in tree.iterchildren(row_name)]


def _scalars(element: etree._Element) -> Iterator[tuple[str, object]]:  # pyright: ignore[reportPrivateUsage]  # no public name
    for child in element:
        if isinstance(child.tag, str) and not len(child):
            yield child.tag, child.text or ""


def _text(fields: Fields, name: str) -> str:
    """Return a short printable text, or the empty one."""
    value = fields.get(name, "")
    if not isinstance(value, str):
        return ""
    cleaned = " ".join(printable(value).split())
    return cleaned if len(cleaned) <= MAX_NAME else ""


def _number(fields: Fields, name: str, default: float | None) -> float | None:
    """Return a finite number that is not negative; None for anything else, the default if it is missing."""
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0.0 <= number <= _HUGE and math.isfinite(number) else None
