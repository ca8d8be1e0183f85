"""Tokens: who may use this API, for what and how long."""

from __future__ import annotations

import msgspec

from cobblestone.api_schema import people as schema
from cobblestone.domain.people import Scope
from cobblestone.server.api.routing import Call, endpoint
from cobblestone.service.http.problems import ApiProblem
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import tokens
from cobblestone.store.people.tokens import ApiToken

DAY = 86400.0


def _reply(token: ApiToken, now: float) -> schema.Token:
    return schema.Token(
        id=token.id,
        name=token.name,
        scopes=sorted(token.scopes),
        created=token.create_time,
        expires=token.expire_time,
        revoked=token.revoke_time,
        usable=token.usable(now),
        share=token.share,
    )


@endpoint("POST", "/tokens", scope=Scope.MANAGE, tag="tokens", status=201)
async def create_token(call: Call, body: schema.NewToken) -> schema.CreatedToken:
    """Make a token.

    The reply is the only place where the token's text is ever shown. A repetition makes another token: revoke the one
    that you do not need.
    """
    secret = tokens.new_secret()
    if Scope.COMPUTE in body.scopes:
        raise ApiProblem(
            422, "bad_scope", "The scope 'compute' is for browsers, which get it from POST /browsers."
        )
    if Scope.ACCOUNT in body.scopes:
        raise ApiProblem(
            422,
            "bad_scope",
            "The scope 'account' is for the owner of an account.",
            "Volunteers make such tokens on their own pages (tokens.php).",
        )
    expire_time = None if body.days is None else call.now + body.days * DAY

    def create(tx: Transaction) -> schema.CreatedToken:
        token = tokens.create_token(
            tx,
            secret,
            name=body.name,
            scopes=body.scopes,
            now=call.now,
            expire_time=expire_time,
            share=body.share,
        )
        return schema.CreatedToken(token=secret, **msgspec.structs.asdict(_reply(token, call.now)))

    return await call.write(create)


@endpoint("GET", "/tokens", scope=Scope.MANAGE, tag="tokens")
async def list_tokens(call: Call) -> schema.TokenList:
    """List tokens."""
    found = await call.ctx.store.aread(tokens.list_tokens)
    return schema.TokenList(tokens=[_reply(token, call.now) for token in found])


@endpoint("DELETE", "/tokens/{token_id:int}", scope=Scope.MANAGE, tag="tokens", problems=(404,))
async def revoke_token(call: Call, token_id: int) -> schema.Token:
    """Revoke a token."""
    return await call.write(lambda tx: _reply(tokens.revoke_token(tx, token_id, now=call.now), call.now))
