"""Messages of running jobs, in both directions."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.states import ServerState
from cobblestone.server.api.routing import Call, Endpoint, Line, Model, Nothing, Reply
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people.tokens import Scope
from cobblestone.store.work import messages
from cobblestone.store.work import rows as work


class TricklesQuery(Model):
    """A part of the list."""

    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class TrickleReply(Reply):
    """A message that a running job sent."""

    id: int
    host_id: int
    result: str  #: name
    variety: str
    time: int  #: Unix seconds, by the host's clock
    received: float  #: Unix seconds
    text: str


class TrickleList(Reply):
    """Messages in the order of their arrival."""

    trickles: list[TrickleReply]


class NewTrickle(Model):
    """A message for a running job; its program gets it by ``receive_trickles()``."""

    result: Annotated[Line, msgspec.Meta(min_length=1)]  # name
    text: Annotated[
        str, msgspec.Meta(min_length=1, max_length=20_000, pattern=r"\A[^\x00-\x08\x0b-\x1f\x7f]*\Z")
    ]


class SentTrickle(Reply):
    """A queued message: it goes out with the host's next request."""

    id: int


async def list_trickles(call: Call[Nothing, TricklesQuery]) -> TrickleList:
    """List messages of running jobs."""
    found = await call.ctx.store.aread(
        lambda db: messages.trickles(db, after=call.query.after, limit=call.query.limit)
    )
    return TrickleList(
        trickles=[
            TrickleReply(
                id=each.id,
                host_id=each.host_id,
                result=each.result_name,
                variety=each.variety,
                time=each.time,
                received=each.receive_time,
                text=each.text,
            )
            for each in found
        ]
    )


async def send_trickle(call: Call[NewTrickle, Nothing]) -> SentTrickle:
    """Queue a message for a running job."""

    def send(tx: Transaction) -> SentTrickle:
        result = work.results_by_name(tx, [call.body.result]).get(call.body.result)
        if result is None:
            raise NotFound(f"There is no result called {call.body.result}.")
        if result.server_state is not ServerState.IN_PROGRESS or result.host_id is None:
            raise Conflict(
                f"{result.name} is not in progress on any computer, so nobody would get the message."
            )
        return SentTrickle(
            id=messages.send_trickle_down(
                tx, result.host_id, result_name=result.name, text=call.body.text, now=call.now
            )
        )

    return await call.write_once(send, SentTrickle)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/trickles",
        summary="List messages of running jobs",
        handler=list_trickles,
        body=Nothing,
        query=TricklesQuery,
        reply=TrickleList,
        scope=Scope.READ,
        tag="trickles",
    ),
    Endpoint(
        method="POST",
        path="/trickles",
        summary="Send a message to a running job",
        handler=send_trickle,
        body=NewTrickle,
        query=Nothing,
        reply=SentTrickle,
        scope=Scope.SUBMIT,
        tag="trickles",
        status=201,
        idempotent=True,
        problems=(404, 409),
    ),
)
