"""The scheduler: one request of a client, one reply.

The body is read and the reply written in the event loop; everything between runs as one write of the store, so that the
reply leaves only after everything it says is durable.
"""

from __future__ import annotations

import random
from functools import partial

import structlog
from starlette.types import Receive, Scope, Send

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.offer import OfferCache
from cobblestone.server.scheduler.exchange import BAD_KEY_DELAY, Exchange
from cobblestone.server.scheduler.links import Links
from cobblestone.service.http.bodies import BodyTooLarge, answer, read_all
from cobblestone.service.http.rate_limits import client_address
from cobblestone.store.engine.database import Transaction
from cobblestone.store.work.locks import HOSTS, WORKUNITS_OF_RESULTS
from cobblestone.wire.scheduler_reply import Message, SchedulerReply, write_scheduler_reply
from cobblestone.wire.scheduler_request import SchedulerRequest, parse_scheduler_request

log = structlog.get_logger(__name__)


class SchedulerRpc:
    """Answers scheduler requests."""

    def __init__(self, ctx: ServerContext, offers: OfferCache) -> None:
        self._ctx = ctx
        self._offers = offers
        self._links = Links(ctx)
        self._rng = random.Random()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer over HTTP."""
        body = await self._answer(
            scope, receive, address=client_address(scope), languages=_accepted_languages(scope)
        )
        await answer(send, body, "text/xml; charset=utf-8")

    async def _answer(self, scope: Scope, receive: Receive, *, address: str, languages: str) -> bytes:
        max_bytes = self._ctx.settings.server.max_request_bytes
        try:
            message = parse_scheduler_request(await read_all(scope, receive, max_bytes), max_bytes=max_bytes)
        except BodyTooLarge:
            return self._plain_reply(f"The request is larger than {max_bytes} bytes.", delay=BAD_KEY_DELAY)
        except RemoteProtocolError as error:
            log.info("bad_scheduler_request", error=str(error))
            return self._plain_reply(error.reply_hint, delay=BAD_KEY_DELAY)
        if message.leniences:
            log.info(
                "lenience", host=message.hostid, kinds=sorted({str(note.kind) for note in message.leniences})
            )
        locks = {WORKUNITS_OF_RESULTS: [item.name for item in message.results], HOSTS: (message.hostid,)}
        reply = await self._ctx.store.awrite(
            partial(self.transact, message=message, address=address, languages=languages), locks=locks
        )
        metrics = self._ctx.metrics
        metrics.n_sent += len(reply.results)
        metrics.n_reported += len(reply.result_acks)
        return write_scheduler_reply(reply)

    def _plain_reply(self, text: str, *, delay: float) -> bytes:
        return write_scheduler_reply(
            SchedulerReply(
                master_url=self._ctx.master_url,
                project_name=self._ctx.settings.project.name,
                request_delay=delay,
                messages=(Message(text=text),),
            )
        )

    def transact(
        self, tx: Transaction, *, message: SchedulerRequest, address: str, languages: str
    ) -> SchedulerReply:
        """Everything that one request does, inside a write of the store."""
        offer = self._offers.get(tx)
        return Exchange(self._ctx, offer, offer.limits, self._links, self._rng, tx, message).run(
            address, languages
        )


def _accepted_languages(scope: Scope) -> str:
    """Return what the client says of languages; it does when its user has chosen one."""
    for name, value in scope["headers"]:
        if name == b"accept-language":
            return str(value, "latin-1")
    return ""
