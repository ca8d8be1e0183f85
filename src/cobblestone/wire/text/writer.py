"""Exact writing: one element per line, numbers as C prints them, one escape function for everything.

Clients read line by line and look for exact tags, and signatures cover exact bytes, hence strings and no XML
library.
"""

from __future__ import annotations

import math
import re

from cobblestone.domain.errors import LocalProtocolError
from cobblestone.domain.texts import MAX_BYTES, markup_in, without_markup

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_LINE_ENDS = re.compile("[\r\n\t\x85\u2028\u2029]+")
_SURELY_SHORT = MAX_BYTES // 6  # no character becomes more bytes than "&quot;"
_SPECIAL = re.compile('[&<>"\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff\ufffe\uffff]')


def printable(text: str) -> str:
    """Return the text without the characters that XML cannot contain."""
    return _NOT_IN_XML.sub("", text)


def escape(text: str) -> str:
    """Escape a text for an element or attribute, and drop what XML cannot contain."""
    if not _SPECIAL.search(text):
        return text
    return (
        printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    )


def html_text(text: str) -> str:
    """Return a text that may contain HTML: in CDATA, which every BOINC reader knows, or escaped where that ends early."""
    if "<" not in text or "]]>" in text:
        return escape(text)
    return f"<![CDATA[{printable(text)}]]>"


def decimal(value: float) -> str:
    """Return a number with six decimals, as C's ``%f`` prints it; LocalProtocolError for NaN and infinity."""
    check_finite(value)
    return f"{value:.6f}"


def whole(value: float) -> str:
    """Return a number without decimals, as C's ``%.0f`` prints it; LocalProtocolError for NaN and infinity."""
    check_finite(value)
    return f"{value:.0f}"


def check_finite(*values: float) -> None:
    """Raise LocalProtocolError if one of the numbers is NaN or infinite."""
    for value in values:
        if not math.isfinite(value):
            raise LocalProtocolError(f"{value} cannot be sent: only finite numbers can")


def one_line(text: str) -> str:
    """Return the text with each run of line ends and tabs replaced by a space."""
    return _LINE_ENDS.sub(" ", text)


def line_text(text: str) -> str:
    """Return a text as the content of an element on one line."""
    return escape(one_line(text)) if _SPECIAL.search(text) else text


def cut(text: str) -> str:
    """Return as much of a text as fits into clients' buffers, escapes included; never a part of a character or escape."""
    if len(text) <= _SURELY_SHORT:
        return text
    text = one_line(text)
    while len(escape(text).encode()) > MAX_BYTES:
        text = text[: min(len(text) - 1, MAX_BYTES)]
    return text


def title_text(_element: str, text: str) -> str:
    """Return a text for people as the content of an element that clients write into their state without escapes."""
    return line_text(cut(without_markup(text)))


def title(name: str, text: str) -> str:
    """Write an element as `title_text` does."""
    return f"<{name}>{title_text(name, text)}</{name}>\n"


def verbatim_text(element: str, text: str) -> str:
    """Return a text for programs as the content of an element that clients write into their state without escapes.

    Raises:
        LocalProtocolError: they could not read that state again.
    """
    if not _SPECIAL.search(text):
        return text
    if piece := markup_in(text):
        raise LocalProtocolError(
            f"<{element}> {text[:80]!r} cannot be sent: clients would not survive its {piece!r}"
        )
    return line_text(text)


def verbatim(name: str, text: str) -> str:
    """Write an element as `verbatim_text` does."""
    return f"<{name}>{verbatim_text(name, text)}</{name}>\n"


def scalar(name: str, value: str | float | bool, indent: str = "") -> str:
    """Return one element on its own line: booleans as 0 or 1, integers plain, other numbers with six decimals."""
    if isinstance(value, str):
        text = line_text(value)
    elif isinstance(value, int):
        text = str(int(value))
    else:
        text = decimal(value)
    return f"{indent}<{name}>{text}</{name}>\n"


def number(name: str, value: float, indent: str = "    ") -> str:
    """Return a number with six decimals."""
    return scalar(name, float(value), indent)


def scalars(source: object, names: str, indent: str = "") -> str:
    """Write fields of an object under their own names."""
    return "".join(scalar(name, getattr(source, name), indent) for name in names.split())


def numbers(source: object, names: str, indent: str = "") -> str:
    """Write fields of an object as numbers with six decimals."""
    return "".join(number(name, getattr(source, name), indent) for name in names.split())
