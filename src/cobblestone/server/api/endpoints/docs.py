"""The API documentation for people: one page, rendered on the server, without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}
code,pre{font-family:ui-monospace,monospace;font-size:.92em}
h2{margin-top:2.5rem}
details{border:1px solid #8886;border-radius:.4rem;margin:.5rem 0;padding:.3rem .8rem}
summary{cursor:pointer}
summary code{font-weight:600}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
td,th{border-bottom:1px solid #8884;padding:.25rem .5rem;text-align:left;vertical-align:top}
a{color:inherit}
"""
CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def docs_page(document: Mapping[str, Any]) -> str:  # the OpenAPI document: JSON
    """Return the page."""
    return "".join(_page(document))


def _page(document: Mapping[str, Any]) -> Iterator[str]:
    title = escape(document["info"]["title"])
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><main>'
    yield f"<h1>{title}</h1><p>{escape(document['info']['description'])}</p>"
    yield '<p>For programs: <a href="openapi.json">openapi.json</a>. Base address: '
    yield f"<code>{escape(document['servers'][0]['url'])}</code>. "
    yield "Send a token with each request: <code>Authorization: Bearer cob_…</code></p>"
    for tag in document["tags"]:
        operations = [
            (path, method, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if tag["name"] in operation["tags"]
        ]
        yield f'<h2 id="{escape(tag["name"])}">{escape(tag["description"])}</h2>'
        for path, method, operation in operations:
            yield from _operation(path, method, operation)
    yield '<h2 id="schemas">Schemas</h2>'
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield from _schema(name, schema)
    yield "</main></body></html>"


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"<details><summary><code>{method.upper()} {escape(path)}</code> {escape(operation['summary'])}</summary>"
    for paragraph in operation.get("description", "").split("\n\n"):
        yield f"<p>{escape(paragraph)}</p>" if paragraph else ""
    if operation["parameters"]:
        yield "<table><tr><th>Parameter</th><th>In</th><th>Type</th></tr>"
        for each in operation["parameters"]:
            yield f"<tr><td><code>{escape(each['name'])}</code></td><td>{each['in']}</td>"
            yield f"<td>{_type(each['schema'])}</td></tr>"
        yield "</table>"
    if "requestBody" in operation:
        yield f"<p>Body: {_content(operation['requestBody']['content'])}</p>"
    yield "<table><tr><th>Status</th><th>Meaning</th><th>Body</th></tr>"
    for status, answer in operation["responses"].items():
        yield f"<tr><td>{status}</td><td>{escape(answer['description'])}</td>"
        yield f"<td>{_content(answer['content'])}</td></tr>"
    yield "</table></details>"


def _content(content: Mapping[str, Any]) -> str:
    kind, described = next(iter(content.items()))
    return _type(described["schema"]) if "schema" in described else f"<code>{escape(kind)}</code>"


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f'<details id="{escape(name)}"><summary><code>{escape(name)}</code> '
    yield f"{escape(schema.get('description', ''))}</summary>"
    if "properties" in schema:
        required = schema.get("required", [])
        yield "<table><tr><th>Member</th><th>Type</th><th>Needed</th></tr>"
        for member, inner in schema["properties"].items():
            yield f"<tr><td><code>{escape(member)}</code></td><td>{_type(inner)}</td>"
            yield f"<td>{'required' if member in required else ''}</td></tr>"
        yield "</table>"
    else:
        yield f"<p>{_type(schema)}</p>"
    yield "</details>"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(each))}</code>" for each in schema["enum"])
    kind = escape(str(schema.get("type", "any")))
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    limits = [
        f"{word} {schema[key]}"
        for key, word in (
            ("minimum", "≥"),
            ("exclusiveMinimum", ">"),
            ("maximum", "≤"),
            ("minLength", "length ≥"),
            ("maxLength", "length ≤"),
        )
        if key in schema
    ]
    return kind + (f" ({', '.join(limits)})" if limits else "")
