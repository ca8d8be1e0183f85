"""The OpenAPI description of the API, generated from the endpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cobblestone import __version__
from cobblestone.api_schema.endpoints import PLACE
from cobblestone.api_schema.values import PREFIX, ErrorReply
from cobblestone.server.api.endpoints.routing import MAX_KEY_LENGTH, AnsweredEndpoint

Schema = dict[str, Any]  # JSON Schema is a tree of mixed values

_REF = "#/components/schemas/{name}"
_PROBLEMS = {
    400: "The body is not valid JSON",
    401: "No token, or one that is unknown, expired or revoked",
    403: "The token lacks the scope",
    404: "There is no such object",
    409: "It already exists, or its state does not allow this",
    413: "The body is too large",
    422: "A value is not allowed",
    429: "Too much is waiting; try again later",
    503: "The database is busy or failed; try again",
    507: "The server's disk is nearly full",
}
_TAGS = {
    "batches": "Submit jobs, watch them, download their outputs",
    "files": "Files that jobs and app versions refer to",
    "apps": "Apps and their versions",
    "signing": "Code signing",
    "tokens": "Who may use this API",
    "people": "Users, teams, news",
    "project": "The project itself",
    "accounting": "Credit reported to account managers, of accounts that they handle",
    "operation": "Manual actions of operators",
}


def openapi_document(endpoints: Sequence[AnsweredEndpoint], *, title: str, server_url: str) -> Schema:
    """Return the whole document, as OpenAPI 3.1."""
    kinds = [
        kind
        for each in endpoints
        for kind in (each.body, each.query, each.reply)
        if kind is not None and kind is not bytes
    ]
    _, found = msgspec.json.schema_components([*dict.fromkeys(kinds), ErrorReply], ref_template=_REF)
    # Regular expressions of JSON Schema are those of ECMAScript, which has other anchors than Python.
    text = msgspec.json.encode(found).replace(rb"\\A", b"^").replace(rb"\\Z", b"$")
    components: dict[str, Schema] = msgspec.json.decode(text)
    queries = {each.query.__name__ for each in endpoints if each.query is not None}
    paths: dict[str, Schema] = {}
    for endpoint in endpoints:
        path = re.sub(r":\w+}", "}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"{title}: API",
            "version": __version__,
            "description": "Submit jobs to this project and download their results. Errors have one form; see "
            "Problem.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": server_url.rstrip("/") + PREFIX}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {
                name: _described(schema) for name, schema in components.items() if name not in queries
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(schema: Schema) -> Schema:
    """Return a struct's description without the members that its docstring documents for Python's help."""
    return {**schema, "description": schema.get("description", "").partition("\n\nAttributes:")[0]}


def _operation(endpoint: AnsweredEndpoint, components: Mapping[str, Schema]) -> Schema:
    operation: Schema = {
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "operationId": endpoint.handler.__name__,
        "parameters": _parameters(endpoint, components),
        "responses": _responses(endpoint),
    }
    description = endpoint.description
    if endpoint.scope is None:
        operation["security"] = []
    else:
        operation["security"] = [{"token": []}]
        description = f"{description}\n\nScope: {endpoint.scope.value}.".strip()
    if description:
        operation["description"] = description
    if endpoint.raw_body:
        operation["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    elif endpoint.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(endpoint.body)}},
        }
    return operation


def _parameters(endpoint: AnsweredEndpoint, components: Mapping[str, Schema]) -> list[Schema]:
    found: list[Schema] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer"} if kind else {"type": "string"},
        }
        for name, kind in PLACE.findall(endpoint.path)
    ]
    if endpoint.query is not None:
        schema = components[endpoint.query.__name__]
        found += [
            {"name": name, "in": "query", "required": False, "schema": property_}
            for name, property_ in schema["properties"].items()
        ]
    if endpoint.idempotent:
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "A repetition with the same key returns the first answer and creates nothing "
                "new.",
                "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
            }
        )
    return found


def _responses(endpoint: AnsweredEndpoint) -> Schema:
    content: Schema = {} if endpoint.reply is bytes else {"schema": _ref(endpoint.reply)}
    statuses = {422, 503, *endpoint.problems}
    if PLACE.search(endpoint.path) and not endpoint.raw_body:  # an upload creates what the path names
        statuses.add(404)
    if endpoint.scope is not None:
        statuses |= {401, 403}
    if endpoint.body is not None:
        statuses |= {400, 413}
    problem = {"application/json": {"schema": _ref(ErrorReply)}}
    return {
        str(endpoint.status): {"description": "Done", "content": {endpoint.media_type: content}},
        **{
            str(status): {"description": _PROBLEMS[status], "content": problem} for status in sorted(statuses)
        },
    }


def _ref(kind: type[Any]) -> Schema:
    return {"$ref": _REF.format(name=kind.__name__)}
