"""Refusals of a JSON API: one form, the right status, and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterable

import msgspec
from starlette.responses import Response

from cobblestone.api_schema.problems import ErrorReply, Problem
from cobblestone.domain.errors import (
    Busy,
    CobblestoneError,
    ConfigError,
    Conflict,
    JobError,
    NotFound,
    ProtocolError,
    StoreError,
)


class ApiProblem(CobblestoneError):
    """A request that is refused."""

    def __init__(self, status: int, code: str, message: str, hint: str = "", *, member: str = "") -> None:
        super().__init__(message)
        self.member = member
        self.status = status
        self.code = code
        self.hint = hint
        self.headers: dict[str, str] = {}


def unknown_path(path: str, hint: str) -> ApiProblem:
    """Say that there is no such path."""
    return ApiProblem(404, "unknown_path", f"There is nothing at {path[:200]}.", hint)


def wrong_method(method: str, allowed: Iterable[str]) -> ApiProblem:
    """Say that the path exists, but not for this method."""
    names = ", ".join(sorted(allowed))
    problem = ApiProblem(405, "wrong_method", f"{method} is not possible here.", f"Possible: {names}.")
    problem.headers["Allow"] = names
    return problem


# The first class that fits decides.
_STATUSES: tuple[tuple[type[CobblestoneError], int, str], ...] = (
    (NotFound, 404, "not_found"),
    (Conflict, 409, "conflict"),
    (Busy, 503, "busy"),
    (StoreError, 503, "store_failed"),
    (ConfigError, 422, "bad_setting"),
    (JobError, 422, "bad_job"),
    (ProtocolError, 422, "bad_format"),
)


def has_no_room(error: Exception) -> bool:
    """Whether the disk is full, or may hold no more of ours."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def response_for(error: Exception) -> Response:
    """Return the answer for an exception; an unforeseen one shows nothing of itself."""
    headers: dict[str, str] = {}
    if isinstance(error, ApiProblem):
        status, headers = error.status, error.headers
        problem = Problem(code=error.code, message=str(error), hint=error.hint, member=error.member)
    elif known := [(status, code) for kind, status, code in _STATUSES if isinstance(error, kind)]:
        status, code = known[0]
        problem = Problem(code=code, message=str(error))
    elif has_no_room(error):
        status = 503
        problem = Problem(
            code="disk_full",
            message="The server's disk is full. Nothing was stored.",
            hint="Try again later; the operator must make room.",
        )
    else:
        status = 500
        problem = Problem(
            code="internal_error",
            message="The server failed at this request. Nothing was changed.",
            hint="The server's log says why (event api_failed).",
        )
    if status == 503:
        headers["Retry-After"] = "2"
    return Response(
        msgspec.json.encode(ErrorReply(error=problem)),
        status_code=status,
        headers=headers,
        media_type="application/json",
    )
