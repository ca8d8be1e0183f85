"""Tables of fields: the scalars of a block, with the reader and the writers that are made of each table.

The fields of a dataclass say what they are on the wire, as in ``ncpus: Annotated[int, Whole(1, MAX_COUNT)] = 1``; a table
collects them.

A scheduler request has some 170 scalars, nearly all of them plain.  A call for each takes half of the time of reading one, so the
reader of a block is one function with the usual case of every field in a row; whatever is not plain goes to `FieldReader`, which
knows all there is to know of bounds and leniences.  A writer is one function too, with one format string for the whole block.
Both are compiled when they are first used: most programs need few of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, Generic, TypeVar, cast, get_type_hints

from cobblestone.domain.values import made_of_fields
from cobblestone.wire.text.reader import HUGE, MAX_NAME, MAX_TEXT, FieldReader, Fields, Lenience
from cobblestone.wire.text.writer import check_finite, line_text

T = TypeVar("T")
#: Names that the compiled functions know.
Scope = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Number:
    """A number, read as `FieldReader.number` does."""

    low: float = 0.0
    high: float = HUGE
    default: float | None = None  #: None: the field's, or 0
    element: str = ""  #: empty: named like the field
    optional: bool = False  #: not written when it is 0 or empty
    digits: int = 6  #: decimals that are written
    least: float | None = None  #: taken for smaller numbers, down to ``low``
    most: float | None = None  #: taken for larger numbers, up to ``high``

    def lines(self, element: str, target: str, scope: Scope) -> list[str]:
        """Return what sets ``target`` to the value of ``text``."""
        made = _bounded(self, element, target, usual="number", else_by="reader.number")
        if self.least is not None:
            made.append(f"if {target} < {self.least!r}: {target} = {self.least!r}")
        if self.most is not None:
            made.append(f"if {target} > {self.most!r}: {target} = {self.most!r}")
        return made

    def written(self, element: str, source: str, scope: Scope, *, plain: bool) -> str:
        """Return the element as part of a format string; ``plain``: in the form that clients give their own values."""
        return f"<{element}>{{{source}:.{6 if plain else self.digits}f}}</{element}>"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, read as `FieldReader.integer` does."""

    low: int = 0
    high: int = 2**31 - 1
    default: int | None = None
    element: str = ""
    optional: bool = False

    def lines(self, element: str, target: str, scope: Scope) -> list[str]:
        """See `Number.lines`."""
        return _bounded(self, element, target, usual="int(number)", else_by="reader.integer")

    def written(self, element: str, source: str, scope: Scope, *, plain: bool) -> str:
        """See `Number.written`."""
        return f"<{element}>{{{source}:d}}</{element}>"


def _bounded(kind: Number | Whole, element: str, target: str, *, usual: str, else_by: str) -> list[str]:
    call = f"{else_by}({element!r}, {kind.default!r}, {kind.low!r}, {kind.high!r})"
    return [
        "if text is None:",
        f"    {target} = {kind.default!r}",
        "else:",
        "    try:",
        "        number = float(text)",
        "    except ValueError:",
        "        number = nan",
        f"    {target} = {usual} if {kind.low!r} <= number <= {kind.high!r} else {call}",
    ]


@dataclass(frozen=True, slots=True)
class FlagField:
    """A flag, read as `FieldReader.flag` does."""

    element: str = ""
    #: None: always written, as 0 or 1; else only if it is set, as this or, if empty, as ``<x/>``
    content: str | None = None

    @property
    def optional(self) -> bool:
        """Whether it is not written when it is not set."""
        return self.content is not None

    def lines(self, element: str, target: str, scope: Scope) -> list[str]:
        """See `Number.lines`."""
        return [f"{target} = text is not None and text != '0' and (text == '1' or reader.flag({element!r}))"]

    def written(self, element: str, source: str, scope: Scope, *, plain: bool) -> str:
        """See `Number.written`."""
        content = f"{{{source}:d}}" if self.content is None else self.content
        return f"<{element}>{content}</{element}>" if content else f"<{element}/>"


@dataclass(frozen=True, slots=True)
class Mark(FlagField):
    """A flag that an element with any content but ``0`` sets."""

    content: str | None = ""

    def lines(self, element: str, target: str, scope: Scope) -> list[str]:
        """See `Number.lines`."""
        return [f"{target} = text is not None and text != '' and text != '0'"]


@dataclass(frozen=True, slots=True)
class Text:
    """A text, read as `FieldReader.text` does, and written on one line."""

    limit: int = MAX_TEXT
    element: str = ""
    optional: bool = False
    read: Callable[[str], str] | None = None  #: what is made of it, once it has been read
    #: returns its written form; it gets the element's name, too
    write: Callable[[str, str], str] | None = None

    def lines(self, element: str, target: str, scope: Scope) -> list[str]:
        """See `Number.lines`."""
        made = [
            f"if text is None or len(text) <= {self.limit} and text.isascii() and text.isprintable() and '&' not in text:",
            f"    {target} = text or ''",
            "else:",
            f"    {target} = reader.text({element!r}, {self.limit})",
        ]
        if self.read is not None:
            scope[f"read_{element}"] = self.read
            made.append(f"{target} = read_{element}({target})")
        return made

    def written(self, element: str, source: str, scope: Scope, *, plain: bool) -> str:
        """See `Number.written`."""
        if self.write is None or plain:
            return f"<{element}>{{line_text({source})}}</{element}>"
        scope[f"write_{element}"] = self.write
        return f"<{element}>{{write_{element}('{element}', {source})}}</{element}>"


@dataclass(frozen=True, slots=True)
class Given:
    """A field that is not read here: it has its default, or what the caller gives.  It is written like ``kind``."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class Inside:
    """A place for what is no scalar: the caller gives its text for the writer, and its value for the reader if it is a field."""


Kind = Number | Whole | FlagField | Text

Amount = Annotated[float, Number()]
Count = Annotated[int, Whole()]
Flag = Annotated[bool, FlagField()]
Marked = Annotated[bool, Mark()]
#: Of blocks within the block.
Contents = Annotated[tuple[T, ...], Inside()]


def usable_name(text: str) -> str:
    """Return a name without spaces at its ends; the empty text for one that is too long to be anything we gave out."""
    text = text.strip()
    return text if len(text) <= MAX_NAME else ""


def _with_default(kind: Kind | Given | Inside, field: Field[Any]) -> Kind | Given | Inside:
    """Let what is absent or unusable become the field's default."""
    if not isinstance(kind, Number | Whole) or kind.default is not None:
        return kind
    usual = field.default
    return replace(kind, default=usual if usual is not MISSING else 0 if isinstance(kind, Whole) else 0.0)


class FieldTable(Generic[T]):
    """The scalars of one block: the fields of a dataclass that are annotated with their kinds."""

    def __init__(self, cls: type[T], places: Mapping[str, str] | None = None) -> None:
        """Make a table of the fields of ``cls``, and of places for more in front of some of them (empty: behind all).

        Raises TypeError for a class that is more than its fields.
        """
        if not made_of_fields(cls):
            raise TypeError(f"{cls.__name__} is no plain value")
        self.cls, self._places = cls, places or {}

    @cached_property
    def _declared(self) -> dict[str, Kind | Given | Inside]:
        hints = get_type_hints(self.cls, include_extras=True)
        found: dict[str, Kind | Given | Inside] = {}
        for each in fields(cast("Any", self.cls)):
            found |= self._places_before(each.name)
            if said := getattr(hints[each.name], "__metadata__", ()):
                found[each.name] = _with_default(said[0], each)
        return found | self._places_before("")

    def _places_before(self, field: str) -> dict[str, Inside]:
        return {place: Inside() for place, before in self._places.items() if before == field}

    @cached_property
    def kinds(self) -> dict[str, Kind | Inside]:
        """All fields and places, in the order in which they are written."""
        return {name: each.kind if isinstance(each, Given) else each for name, each in self._declared.items()}

    @cached_property
    def scalars(self) -> dict[str, Kind]:
        """The fields that are read."""
        return {n: each for n, each in self._declared.items() if not isinstance(each, Given | Inside)}

    @property
    def elements(self) -> frozenset[str]:
        """The elements of the scalars."""
        return frozenset(kind.element or name for name, kind in self.scalars.items())

    @cached_property
    def read(self) -> Callable[..., T]:
        """The reader.  It takes a `FieldReader`, and by name the other fields, as far as they have no defaults."""
        scope: Scope = {"new": object.__new__, "cls": self.cls, "nan": math.nan}
        given: list[str] = []
        lines: list[str] = []
        for each in fields(cast("Any", self.cls)):
            name = each.name
            if name in self.scalars:
                continue
            if each.default_factory is not MISSING:
                scope[f"default_{name}"] = each.default_factory
                given.append(f"{name}=None")
                lines.append(f"made.{name} = default_{name}() if {name} is None else {name}")
                continue
            scope[f"default_{name}"] = each.default
            given.append(name if each.default is MISSING else f"{name}=default_{name}")
            lines.append(f"made.{name} = {name}")
        for name, kind in self.scalars.items():
            element = kind.element or name
            lines += [f"text = get({element!r})", *kind.lines(element, f"made.{name}", scope)]
        head = f"def read(reader{', *, ' if given else ''}{', '.join(given)}):"
        return _compiled(
            [head, "get = reader.fields.get", "made = new(cls)", *lines, "return made"], "read", scope
        )

    def read_named(self, found: Iterable[Fields], where: str, notes: list[Lenience]) -> tuple[T, ...]:
        """Read several blocks, with the field ``name``; those without a usable one are left out."""
        readers = (FieldReader(each, where, notes) for each in found)
        return tuple(self.read(reader, name=name) for reader in readers if (name := reader.name()))

    def layout(
        self,
        *order: str,
        without: Collection[str] = (),
        tag: str = "",
        indent: str = "    ",
        outside: str = "",
        optional: Collection[str] = (),
        renamed: Mapping[str, str] | None = None,
        plain: bool = False,
    ) -> Layout[T]:
        """Return a written form of the block.

        Args:
            order: Names of the table, by default all of it; another name is a place as `Inside`.
            without: Names of the table that are left out.
            tag: Element around the block.
            indent: What each line begins with.
            outside: What the lines of ``tag`` begin with.
            optional: More fields that are left out when they are 0 or empty.
            renamed: Elements of fields that go by another name here.
            plain: Texts are escaped, and nothing else, and numbers have six decimals: so clients write what they know.
        """
        return Layout(self, order, without, tag, indent, outside, optional, renamed or {}, plain)


@dataclass(frozen=True, eq=False)
class Layout(Generic[T]):
    """One written form of a table's block; see `FieldTable.layout`."""

    table: FieldTable[T]
    order: tuple[str, ...]
    without: Collection[str]
    tag: str
    indent: str
    outside: str
    optional: Collection[str]
    renamed: Mapping[str, str]
    plain: bool

    @cached_property
    def write(self) -> Callable[..., str]:
        """The writer.  It takes a value of the table's class, and the texts of the places by name.

        Raises LocalProtocolError for a number that is not finite, and for what a kind of text cannot carry.
        """
        scope: Scope = {"line_text": line_text, "isfinite": math.isfinite, "check_finite": check_finite}
        parts: list[str] = []
        places: list[str] = []
        lines: list[str] = []
        numbers: list[str] = []
        for name in self.order or (name for name in self.table.kinds if name not in self.without):
            kind = self.table.kinds.get(name)
            if kind is None or isinstance(kind, Inside):
                places.append(name)
                parts.append(f"{{{name}}}")
                continue
            source = f"value.{name}"
            element = self.renamed.get(name) or kind.element or name
            written = f"{self.indent}{kind.written(element, source, scope, plain=self.plain)}\\n"
            if isinstance(kind, Number):
                numbers.append(source)
            if kind.optional or name in self.optional:
                lines.append(f'part_{name} = f"""{written}""" if {source} else ""')
                written = f"{{part_{name}}}"
            parts.append(written)
        if numbers:  # their sum is finite, or one of them is not, or they are huge
            lines.insert(
                0, f"if not isfinite(0.0 + {' + '.join(numbers)}): check_finite({', '.join(numbers)})"
            )
        if self.tag:
            parts = [f"{self.outside}<{self.tag}>\\n", *parts, f"{self.outside}</{self.tag}>\\n"]
        head = f"def write(value{', *, ' if places else ''}{', '.join(places)}):"
        return _compiled([head, *lines, f'return f"""{"".join(parts)}"""'], "write", scope)


def _compiled(lines: list[str], name: str, scope: Scope) -> Callable[..., Any]:
    exec("\n    ".join(lines), scope)  # noqa: S102  # names of our own classes' fields, nothing else
    return scope[name]
