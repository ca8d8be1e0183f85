"""The API documentation for people: one page, rendered on the server, without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jinja2

CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_BOUNDS = {
    "minimum": "≥",
    "exclusiveMinimum": ">",
    "maximum": "≤",
    "minLength": "length ≥",
    "maxLength": "length ≤",
}


def docs_page(document: Mapping[str, Any]) -> str:  # the OpenAPI document: JSON
    """Return the page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__ or ""),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("docs.html").render(document, bounds=_BOUNDS.items())
