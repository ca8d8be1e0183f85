"""Texts as QR codes, drawn in the page itself."""

from __future__ import annotations

import segno
from markupsafe import Markup

QUIET_ZONE = 4
"""Light modules around a code, as the standard (ISO/IEC 18004) wants; the page may be dark."""


def qr_code(text: str) -> Markup:
    """Return an SVG element, dark on light whatever the page's colours are; empty for a text that is too long for any code."""
    try:
        drawn = segno.make_qr(text, error="m")
    except segno.DataOverflowError:
        return Markup()
    svg = drawn.svg_inline(
        border=QUIET_ZONE, dark="#000", light="#fff", omitsize=True, svgclass=None, lineclass=None
    )
    return Markup(svg)  # noqa: S704  # made of figures only
