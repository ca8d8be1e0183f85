"""Tokens: who may use this API, for what and how long."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.server.api.errors import ApiProblem
from cobblestone.server.api.routing import Call, Endpoint, Line, Model, Nothing, Reply
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import tokens
from cobblestone.store.people.tokens import ApiToken, Scope

DAY = 86400.0


class NewToken(Model):
    """A token to be made."""

    name: Annotated[Line, msgspec.Meta(min_length=1)]
    scopes: Annotated[list[Scope], msgspec.Meta(min_length=1, max_length=10)]
    days: Annotated[float, msgspec.Meta(gt=0, le=36500)] | None = None  # None: until it is revoked
    share: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 1.0  # of the computers, against other submitters


class TokenReply(Reply):
    """A token, without its text."""

    id: int
    name: str
    scopes: list[str]
    created: float
    expires: float | None
    revoked: float | None
    usable: bool
    share: float


class CreatedToken(TokenReply):
    """A new token; this is the only time that its text is shown."""

    token: str


class TokenList(Reply):
    """All tokens, the newest first."""

    tokens: list[TokenReply]


def _reply(token: ApiToken, now: float) -> TokenReply:
    return TokenReply(
        id=token.id,
        name=token.name,
        scopes=sorted(token.scopes),
        created=token.create_time,
        expires=token.expire_time,
        revoked=token.revoke_time,
        usable=token.usable(now),
        share=token.share,
    )


async def create_token(call: Call[NewToken, Nothing]) -> CreatedToken:
    """Make a token."""
    body, secret = call.body, tokens.new_secret()
    if Scope.ACCOUNT in body.scopes:
        raise ApiProblem(
            422,
            "bad_scope",
            "The scope 'account' is for the owner of an account.",
            "Volunteers make such tokens on their own pages (tokens.php).",
        )
    expire_time = None if body.days is None else call.now + body.days * DAY

    def create(tx: Transaction) -> CreatedToken:
        token = tokens.create_token(
            tx,
            secret,
            name=body.name,
            scopes=body.scopes,
            now=call.now,
            expire_time=expire_time,
            share=body.share,
        )
        return CreatedToken(token=secret, **msgspec.structs.asdict(_reply(token, call.now)))

    return await call.write(create)


async def list_tokens(call: Call[Nothing, Nothing]) -> TokenList:
    """List tokens."""
    found = await call.ctx.store.aread(tokens.list_tokens)
    return TokenList(tokens=[_reply(token, call.now) for token in found])


async def revoke_token(call: Call[Nothing, Nothing]) -> TokenReply:
    """Revoke a token."""
    token_id = call.path_id("token_id")
    return await call.write(lambda tx: _reply(tokens.revoke_token(tx, token_id, now=call.now), call.now))


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/tokens",
        summary="Make a token",
        description=(
            "The reply is the only place where the token's text is ever shown. A repetition makes another token:"
            " revoke the one that you do not need."
        ),
        handler=create_token,
        body=NewToken,
        query=Nothing,
        reply=CreatedToken,
        scope=Scope.MANAGE,
        tag="tokens",
        status=201,
    ),
    Endpoint(
        method="GET",
        path="/tokens",
        summary="List tokens",
        handler=list_tokens,
        body=Nothing,
        query=Nothing,
        reply=TokenList,
        scope=Scope.MANAGE,
        tag="tokens",
    ),
    Endpoint(
        method="DELETE",
        path="/tokens/{token_id:int}",
        summary="Revoke a token",
        handler=revoke_token,
        body=Nothing,
        query=Nothing,
        reply=TokenReply,
        scope=Scope.MANAGE,
        tag="tokens",
        problems=(404,),
    ),
)
