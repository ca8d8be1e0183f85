"""Common parts of the JSON APIs of all services: tokens, bounded bodies and queries, answers, refusals."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import structlog
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from cobblestone.api_schema import values as schema
from cobblestone.domain import errors
from cobblestone.domain.reasons import Reason
from cobblestone.service.http.requests import BodyTooLarge, read_body
from cobblestone.service.rate_limits import AttemptBucket, minutes
from cobblestone.store.people.credentials import IssuedToken


class ApiProblem(errors.CobblestoneError):
    """A request that is refused."""

    def __init__(
        self, status: int, code: str, message: str | Reason, hint: str = "", *, member: str = ""
    ) -> None:
        super().__init__(message)
        self.member = member
        self.status = status
        self.code = code
        self.hint = hint
        self.headers: dict[str, str] = {}


def _wrong_method(method: str, allowed: Iterable[str]) -> ApiProblem:
    names = ", ".join(sorted(allowed))
    problem = ApiProblem(405, "wrong_method", f"{method} is not possible here.", f"Possible: {names}.")
    problem.headers["Allow"] = names
    return problem


# The first class that fits decides.
_STATUSES: tuple[tuple[type[errors.CobblestoneError], int, str], ...] = (
    (errors.NotFound, 404, "not_found"),
    (errors.Conflict, 409, "conflict"),
    (errors.NotAllowed, 403, "not_allowed"),
    (errors.Busy, 503, "busy"),
    (errors.StoreError, 503, "store_failed"),
    (errors.ConfigError, 422, "bad_setting"),
    (errors.JobError, 422, "bad_job"),
    (errors.ProtocolError, 422, "bad_format"),
    (BodyTooLarge, 413, "too_large"),
)


def has_no_room(error: Exception) -> bool:
    """Return whether an error means that the disk is full or our quota is used up."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def response_for(error: Exception) -> Response:
    """Return the answer for an exception; an unexpected one reveals no details."""
    headers: dict[str, str] = {}
    if isinstance(error, ApiProblem):
        status, headers = error.status, error.headers
        problem = schema.Problem(code=error.code, message=str(error), hint=error.hint, member=error.member)
    elif known := [(status, code) for kind, status, code in _STATUSES if isinstance(error, kind)]:
        status, code = known[0]
        problem = schema.Problem(code=code, message=str(error))
    elif has_no_room(error):
        status = 503
        problem = schema.Problem(
            code="disk_full",
            message="The server's disk is full. Nothing was stored.",
            hint="Try again later; the operator must free some space.",
        )
    else:
        status = 500
        problem = schema.Problem(
            code="internal_error",
            message="The server failed to process this request. Part of it may be done: look before you repeat it.",
            hint="The server's log shows why (event api_failed).",
        )
    if status == 503:
        headers["Retry-After"] = "2"
    return Response(
        msgspec.json.encode(schema.ErrorReply(error=problem)),
        status_code=status,
        headers=headers,
        media_type="application/json",
    )


SMALL_BODY = 100_000

log = structlog.get_logger(__name__)

B = TypeVar("B", bound=schema.Body)
Q = TypeVar("Q", bound=schema.Query)
T = TypeVar("T", bound=IssuedToken)


class _Number(IntegerConvertor):
    """Numbers in paths, not much longer than ids: Python refuses to parse more than 4,300 digits."""

    regex = "[0-9]{1,30}"


register_url_convertor("int", _Number())


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """How a service checks tokens."""

    command: str  #: that makes one, without its scope
    advice: str  #: what to do without one

    def unauthorised(self, message: str, *, code: str = "unauthorised") -> ApiProblem:
        """Return the error for a missing or invalid token."""
        problem = ApiProblem(401, code, message, self.advice)
        problem.headers["WWW-Authenticate"] = "Bearer"
        return problem

    def secret_of(self, request: Request) -> str:
        """Return the text of a request's token.  Raises ApiProblem if there is none."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise self.unauthorised("This needs a token: send the header 'Authorization: Bearer cob_…'.")
        return secret.strip()

    def check(self, token: T | None, scope: str, *, now: float) -> T:
        """Return a token that was looked up by its text.  Raises ApiProblem if it is not valid for ``scope`` at ``now``."""
        if token is None:
            raise self.unauthorised("The token is unknown.")
        if not token.usable(now):
            what = "revoked" if token.revoke_time is not None else "expired"
            raise self.unauthorised(f"The token {token.name!r} has been {what}.", code=f"token_{what}")
        if scope not in token.scopes:
            raise ApiProblem(
                403,
                "missing_scope",
                f"The token {token.name!r} does not allow this: it lacks the scope {str(scope)!r}.",
                f"Use another token, made with: {self.command} --scope {scope}",
            )
        return token


def count_question(limit: AttemptBucket, token: IssuedToken, *, now: float, hint: str = "") -> None:
    """Count a question of a token.  Raises ApiProblem after too many."""
    key = str(token.id)
    wait = limit.attempt(key, now=now)
    if wait > 0:
        problem = ApiProblem(
            429,
            "too_many_questions",
            f"There were too many requests with this token. Try again in {minutes(wait)} min.",
            hint,
        )
        problem.headers["Retry-After"] = str(int(wait) + 1)
        raise problem


async def read_bounded(request: Request, max_body: int) -> bytes:
    """Return the body.  Raises ApiProblem if it is larger."""
    try:
        return await read_body(request, max_body)
    except BodyTooLarge:
        raise ApiProblem(
            413,
            "too_large",
            f"The body is larger than the {max_body} bytes that are allowed here.",
            "Send it in several smaller requests.",
        ) from None


def read_query(request: Request, kind: type[Q]) -> Q:
    """Return the parameters of a request.  Raises ApiProblem."""
    given = dict(request.query_params)
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        fault = schema.find_fault(error, given, kind)
        raise ApiProblem(
            422, "bad_parameter", f"In the query: {fault.message}", member=fault.member
        ) from error


def refuse_query(request: Request) -> None:
    """Raise ApiProblem if a request has parameters where none are allowed."""
    if request.query_params:
        unknown = next(iter(request.query_params))[:60]
        raise ApiProblem(422, "bad_parameter", f"In the query: there is no parameter `{unknown}`.")


#: Texts, commas and brackets in a body: a thousand jobs have some 20,000; five million empty ones take seconds to decode.
MAX_VALUES = 500_000


def _crowded(raw: bytes) -> bool:
    """Return whether a body holds more than `MAX_VALUES`; what lies in texts does not count.  All of it is work of C."""
    if sum(raw.count(mark) for mark in (b",", b"[", b"{", b'"')) <= MAX_VALUES:
        return False  # the usual case
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    if (n_texts := plain.count(b'"') // 2) > MAX_VALUES:
        return True
    outside = b"".join(plain.split(b'"')[::2])
    return n_texts + sum(outside.count(mark) for mark in (b",", b"[", b"{")) > MAX_VALUES


def read_json(raw: bytes, kind: type[B]) -> B:
    """Return the decoded body.  Raises ApiProblem."""
    if _crowded(raw):
        raise ApiProblem(
            413,
            "too_large",
            f"The body has more than {MAX_VALUES} values.",
            "Send it in several smaller requests.",
        )
    if not raw.strip():
        raw = b"{}"  # so that a body that is left out is reported by its missing members
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        fault = schema.find_json_fault(error, raw, kind)
        raise ApiProblem(422, "bad_body", fault.message, member=fault.member) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ApiProblem(400, "not_json", f"The body is not valid JSON: {error}.") from error


def json_response(reply: schema.Reply, status: int = 200) -> Response:
    """Return a reply as a response."""
    return Response(msgspec.json.encode(reply), status_code=status, media_type="application/json")


async def answered(request: Request, call: Callable[[], Awaitable[Response]]) -> Response:
    """Return the response of ``call``, or the one for its error."""
    try:
        return await call()
    except ClientDisconnect:
        return Response(status_code=499)  # it is not read
    except errors.CobblestoneError as error:
        return response_for(error)
    except Exception as error:  # the border: a bug must not show its insides to the caller
        if has_no_room(error):
            log.error("disk_full", path=request.url.path, error=str(error))
        else:
            log.exception("api_failed", path=request.url.path, error=str(error))
        return response_for(error)


#: All that the routes take: a method that a path does not know gets the API's own error.
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def route(path: str, answers: Mapping[str, Callable[[Request], Awaitable[Response]]]) -> Route:
    """Return the route of a path of the API; the method of a request selects what answers it."""

    async def dispatch(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method

        async def call() -> Response:
            if method not in answers:
                raise _wrong_method(request.method, answers)
            return await answers[method](request)

        return await answered(request, call)

    return Route(schema.PREFIX + path, dispatch, methods=METHODS)


def unknown_paths(hint: str) -> Route:
    """Return the route of all other paths of the API, which are errors."""

    async def refuse(request: Request) -> Response:
        return response_for(
            ApiProblem(404, "unknown_path", f"There is nothing at {request.url.path[:200]}.", hint)
        )

    return Route("/api/{rest:path}", refuse, methods=METHODS)
