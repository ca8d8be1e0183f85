"""Messages of running jobs, in both directions."""

from __future__ import annotations

from cobblestone.api_schema import project as schema
from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.people import Scope
from cobblestone.domain.states import ServerState
from cobblestone.server.api.routing import Call, endpoint
from cobblestone.store.engine.database import Transaction
from cobblestone.store.work import messages
from cobblestone.store.work import rows as work


@endpoint("GET", "/trickles", scope=Scope.READ, tag="trickles")
async def list_trickles(call: Call, query: schema.TricklesQuery) -> schema.TrickleList:
    """List messages of running jobs."""
    found = await call.ctx.store.aread(lambda db: messages.trickles(db, after=query.after, limit=query.limit))
    return schema.TrickleList(
        trickles=[
            schema.Trickle(
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


@endpoint(
    "POST", "/trickles", scope=Scope.SUBMIT, tag="trickles", status=201, idempotent=True, problems=(404, 409)
)
async def send_trickle(call: Call, body: schema.NewTrickle) -> schema.SentTrickle:
    """Send a message to a running job."""

    def send(tx: Transaction) -> schema.SentTrickle:
        result = work.results_by_name(tx, [body.result]).get(body.result)
        if result is None:
            raise NotFound(f"There is no result called {body.result}.")
        if result.server_state is not ServerState.IN_PROGRESS or result.host_id is None:
            raise Conflict(
                f"{result.name} is not in progress on any computer, so nobody would get the message."
            )
        return schema.SentTrickle(
            id=messages.send_trickle_down(
                tx, result.host_id, result_name=result.name, text=body.text, now=call.now
            )
        )

    return await call.write_once(send, schema.SentTrickle)
