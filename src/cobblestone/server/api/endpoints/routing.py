"""The handling around each call of an endpoint of the JSON API.

A handler with :func:`answers` above it is all there is: the routes, the checks of token, parameters and body, and the
OpenAPI document are made from the declared endpoint and the handler's docstring.  Bodies and replies are structs of
:mod:`cobblestone.api_schema`; what they do not allow never reaches a handler.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cobblestone.api_schema.endpoints import PLACE, Endpoint
from cobblestone.api_schema.values import MAX_ID, PREFIX, Body, Reply
from cobblestone.domain.errors import NotAllowed, NotFound
from cobblestone.domain.people import Scope
from cobblestone.domain.values import UserId
from cobblestone.server.core.context import ServerContext
from cobblestone.service.http import api as http
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import audit
from cobblestone.store.operation.audit import Actor
from cobblestone.store.people import credentials
from cobblestone.store.people.credentials import ApiToken
from cobblestone.store.work import submitters
from cobblestone.wire.project.signatures import HEADER, SignedExchange, sign_reply

TOKENS = http.Tokens(
    command="cobblestone token create NAME",
    advice="Ask the project's operator for one: cobblestone token create NAME --scope submit",
)


def unauthorised(message: str, *, code: str = "unauthorised") -> http.ApiProblem:
    """Return the error for a missing token, or one without permission."""
    return TOKENS.unauthorised(message, code=code)


LARGE_BODY = 16_000_000
MAX_KEY_LENGTH = 200
#: Says who sits at the command line: several people may use the token of the project's folder.
PERSON_HEADER = "x-cobblestone-person"
_PERSON = re.compile(r"[A-Za-z0-9_.@\-]{1,80}")

#: What an account that may submit reaches in the API, by tag; of batches only its own.
_OF_SUBMITTERS = ("apps", "batches", "files", "project")

T = TypeVar("T")
R = TypeVar("R", bound=Reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An authorised request."""

    ctx: ServerContext
    request: Request
    body: Body | None  #: for the audit log; handlers have it as a parameter
    token: ApiToken | None
    now: float  #: Unix seconds
    request_key: str | None = None  #: from ``Idempotency-Key``: makes a repetition harmless
    digest: str = ""  #: of the body
    action: str = ""  #: name in the audit log; empty: not noted
    #: what the handler wants noted as the state before
    before: list[object] = field(default_factory=list[object])

    @property
    def actor(self) -> Actor:
        """Return the caller, for the audit log."""
        name = "nobody" if self.token is None else f"token:{self.token.id} {self.token.name}"
        return Actor(name=name, origin=request_origin(self.request, "api"))

    async def read(self, operation: Callable[[Database], T]) -> T:
        """Read from the database."""
        return await self.ctx.store.aread(operation)

    async def write(self, operation: Callable[[Transaction], R]) -> R:
        """Make a write and record it in the audit log, in one transaction."""
        return await self.ctx.store.awrite(lambda tx: self._noted(tx, operation(tx)))

    def _noted(self, tx: Transaction, reply: R) -> R:
        if self.action:
            before = self.before[-1] if self.before else None
            audit.record(
                tx,
                self.actor,
                self.action,
                self._target(reply),
                now=self.now,
                before=before,
                # a handler that notes its reply as it would have been before has all values that the body implies noted
                after=reply if type(before) is type(reply) else self.body,
            )
        return reply

    def _target(self, reply: Reply) -> str:
        """Return the target of the action: from the path, else the new object."""
        parameters = self.request.path_params
        segment = self.request.url.path.partition(f"{PREFIX}/")[2].partition("/")[0]
        noun = _NOUNS.get(segment, segment)
        value = next(iter(parameters.values()), None)
        if value is None:
            value = getattr(reply, "id", getattr(reply, "name", ""))
        return f"{noun} {value}".strip()

    async def write_once(self, operation: Callable[[Transaction], R], kind: type[R]) -> R:
        """Make a write and return its reply; a repetition with the same ``Idempotency-Key`` gets the same reply.

        Raises:
            Conflict: the key was used for another body.
        """

        def once(tx: Transaction) -> R:
            if self.request_key is None:
                return self._noted(tx, operation(tx))
            earlier = audit.recall_reply(tx, self.request_key, self.digest)
            if earlier is not None:
                return msgspec.json.decode(earlier, type=kind)
            reply = self._noted(tx, operation(tx))
            audit.remember_reply(
                tx, self.request_key, self.digest, msgspec.json.encode(reply).decode(), now=self.now
            )
            return reply

        return await self.ctx.store.awrite(once)


_NOUNS = {
    "apps": "app",
    "versions": "version",
    "batches": "batch",
    "workunits": "workunit",
    "hosts": "host",
    "users": "user",
    "teams": "team",
    "tokens": "token",
    "keys": "key",
}


def request_origin(request: Request, kind: str) -> str:
    """Return the origin of a request: interface, caller, and network address."""
    address = request.client.host if request.client else ""
    person = request.headers.get(PERSON_HEADER, "")
    if person and _PERSON.fullmatch(person):
        kind = f"command line of {person}"
    return f"{kind} {address}".strip()


A = TypeVar("A", bound=Reply | bytes)


def submitter_of(db: Database, user_id: UserId) -> ApiToken:
    """Return the token that an account submits with.  Raises NotAllowed if it may not."""
    found = submitters.submitter_of(db, user_id)
    if found is None:
        raise NotAllowed(
            f"Your account may not submit jobs. Ask the project's operator to allow it: cobblestone user submit {user_id}"
        )
    return found


class AnsweredEndpoint(Endpoint[Any], frozen=True, kw_only=True):
    """An endpoint with the function that answers it.  Created by :func:`answers`."""

    handler: Callable[..., Awaitable[Reply | Response]]
    summary: str
    description: str
    max_body: int
    quiet: bool

    async def call(self, ctx: ServerContext, request: Request) -> Response:
        """Check a request, run the handler, and write its reply."""
        now = ctx.clock()
        token = await self._authorise(ctx, request, now)
        given: dict[str, object] = {name: _path_value(request, name) for name in request.path_params}
        if self.query is not None:
            given["query"] = http.read_query(request, self.query)
        else:
            http.refuse_query(request)
        raw = b"" if self.raw_body else await http.read_bounded(request, self.max_body)
        body = None if self.body is None else http.read_json(raw, self.body)
        if body is not None:
            given["body"] = body
        call = Call(
            ctx=ctx,
            request=request,
            body=body,
            token=token,
            now=now,
            request_key=self._request_key(request, token),
            digest=hashlib.sha256(raw).hexdigest(),
            action=self._action(),
        )
        answer = await self.handler(call, **given)
        response = answer if isinstance(answer, Response) else http.json_response(answer, self.status)
        if self.signed:
            _sign(response, request, raw, now)
        return response

    def _action(self) -> str:
        """Return the name of a change in the audit log; jobs and files of scientists are not recorded."""
        noted = self.scope is Scope.MANAGE and self.method != "GET" and not self.quiet
        return f"{self.summary[0].lower()}{self.summary[1:]}" if noted else ""

    async def _authorise(self, ctx: ServerContext, request: Request, now: float) -> ApiToken | None:
        if self.scope is None:
            return None
        secret, scope = TOKENS.secret_of(request), self.scope

        def find(db: Database) -> ApiToken:
            token = TOKENS.check(credentials.token_by_secret(db, secret), scope, now=now)
            return self._submitter(db, request, token) if scope in (Scope.READ, Scope.SUBMIT) else token

        return await ctx.store.aread(find)

    def _submitter(self, db: Database, request: Request, token: ApiToken) -> ApiToken:
        """Return the token itself, or the one that its account submits with, which reaches nothing of others.

        Raises:
            NotAllowed: the account may not submit, or this is not about its own batches.
            NotFound: the batch is not its own.
        """
        if token.user_id is None:
            return token
        found = submitter_of(db, token.user_id)
        if self.tag not in _OF_SUBMITTERS:
            raise NotAllowed("This is not for accounts that submit jobs: it needs a token of the project.")
        if "batch_id" in request.path_params:
            submitters.own_batch(db, found, int(_path_value(request, "batch_id")))
        return found

    def _request_key(self, request: Request, token: ApiToken | None) -> str | None:
        given = request.headers.get("idempotency-key")
        if given is None or not self.idempotent:
            return None
        if not 1 <= len(given) <= MAX_KEY_LENGTH:
            text = f"Idempotency-Key must have 1 to {MAX_KEY_LENGTH} characters."
            raise http.ApiProblem(400, "bad_idempotency_key", text)
        owner = 0 if token is None else token.id
        return hashlib.sha256(f"{owner} {self.method} {request.url.path} {given}".encode()).hexdigest()


def answers(
    endpoint: Endpoint[A], *, max_body: int = http.SMALL_BODY, quiet: bool = False
) -> Callable[[Callable[..., Awaitable[A | Response]]], AnsweredEndpoint]:
    """Let a handler answer an endpoint.

    The first line of its docstring is the summary, the rest the description.  Its first parameter is the
    :class:`Call`; ``body`` and ``query`` are those of the endpoint, and all others are the places of its path.
    ``max_body`` is in bytes; ``quiet``: it makes no entry in the audit log, though it changes something.

    Raises:
        TypeError: the handler takes or returns something else than the endpoint says.
    """

    def declare(handler: Callable[..., Awaitable[Any]]) -> AnsweredEndpoint:
        hints = get_type_hints(handler)
        reply = hints["return"]
        given = {
            name: getattr(hints[name], "__supertype__", hints[name])  # HostId is an int
            for name in list(inspect.signature(handler).parameters)[1:]
        }
        wanted: dict[str, type[Any] | None] = {
            **{name: int if kind else str for name, kind in PLACE.findall(endpoint.path)},
            "body": endpoint.body,
            "query": endpoint.query,
        }
        if given != {name: kind for name, kind in wanted.items() if kind is not None}:
            raise TypeError(f"{handler.__name__}: the endpoint gives {wanted}, the parameters are {given}")
        if reply is not endpoint.reply and not (endpoint.reply is bytes and issubclass(reply, Response)):
            raise TypeError(f"{handler.__name__}: the endpoint answers with {endpoint.reply}, not {reply}")
        summary, _, description = inspect.cleandoc(handler.__doc__ or "").partition("\n")
        return AnsweredEndpoint(
            **msgspec.structs.asdict(endpoint),
            handler=handler,
            summary=summary.removesuffix("."),
            description=" ".join(description.split()),
            max_body=max_body,
            quiet=quiet,
        )

    return declare


def _path_value(request: Request, name: str) -> int | str:
    value = request.path_params[name]
    if isinstance(value, int) and value > MAX_ID:
        raise NotFound(f"There is no {name.removesuffix('_id')} {str(value)[:30]}.")
    return value


def _sign(response: Response, request: Request, question: bytes, now: float) -> None:
    """Sign a reply with the token of its request."""
    path = request.url.path.partition(PREFIX)[2]  # proxies may change what is before it
    target = path + (f"?{request.url.query}" if request.url.query else "")
    exchange = SignedExchange(
        method=request.method, target=target, question=question, answer=bytes(response.body)
    )
    response.headers[HEADER] = sign_reply(TOKENS.secret_of(request), exchange, now=now)


def make_routes(ctx: ServerContext, endpoints: Sequence[AnsweredEndpoint]) -> list[Route]:
    """Return one route per path; the method selects the endpoint."""
    by_path: dict[str, dict[str, AnsweredEndpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return [
        http.route(path, {method: partial(each.call, ctx) for method, each in choices.items()})
        for path, choices in sorted(by_path.items(), key=lambda item: item[0].count("{"))  # fixed paths win
    ]
