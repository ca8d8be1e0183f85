"""Exact writing: one element on a line, numbers as C prints them, one escape function for everything.

Clients read line by line and look for exact tags, and signatures cover exact bytes, hence strings and no XML library.
"""

from __future__ import annotations

import math
import re

from cobblestone.domain.errors import LocalProtocolError

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_LINE_ENDS = re.compile(r"[\r\n\t\x85\u2028\u2029]+")


def escape(text: str) -> str:
    """Escape a text for an element or attribute, and drop what no XML document may hold."""
    text = _NOT_IN_XML.sub("", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def cdata(text: str) -> str:
    """Wrap a text in CDATA; a ``]]>`` within is split by a space, for the client's scanner knows no other way."""
    return f"<![CDATA[{_NOT_IN_XML.sub('', text).replace(']]>', ']] >')}]]>"


def decimal(value: float) -> str:
    """A number with six decimals, as C's ``%f`` prints it.  Raises LocalProtocolError for NaN and infinity."""
    if not math.isfinite(value):
        raise LocalProtocolError(f"{value} cannot be sent: only finite numbers can")
    return f"{value:.6f}"


def whole(value: float) -> str:
    """A number without decimals, as C's ``%.0f`` prints it.  Raises LocalProtocolError for NaN and infinity."""
    if not math.isfinite(value):
        raise LocalProtocolError(f"{value} cannot be sent: only finite numbers can")
    return f"{value:.0f}"


def one_line(text: str) -> str:
    """The text with each run of line ends and tabs replaced by a space."""
    return _LINE_ENDS.sub(" ", text)


def scalar(name: str, value: str | float | bool, indent: str = "") -> str:
    """One element on a line of its own: booleans as 0 or 1, integers plain, other numbers with six decimals."""
    if isinstance(value, str):
        text = escape(one_line(value))
    elif isinstance(value, int):
        text = str(int(value))
    else:
        text = decimal(value)
    return f"{indent}<{name}>{text}</{name}>\n"
