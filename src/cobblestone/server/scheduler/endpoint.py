"""The scheduler: one request of a client, one reply.

A short body is read, and the reply written, in the event loop; everything between runs as one write of the store, so that the
reply leaves only after everything it says is durable.
"""

from __future__ import annotations

import random
import re
from functools import partial

import structlog
from starlette.types import Receive, Scope, Send

from cobblestone.domain.errors import RemoteProtocolError, StoreError, UnreadableRow
from cobblestone.ops.aside import read_aside
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.offer import OfferCache
from cobblestone.server.scheduler.exchange import BAD_KEY_DELAY, SchedulerExchange
from cobblestone.server.scheduler.reply import Links
from cobblestone.server.scheduler.work_request import first_questions
from cobblestone.service.http.fair_queue import FairQueue, ServerBehind
from cobblestone.service.http.requests import BodyTooLarge, answer, read_all
from cobblestone.service.rate_limits import client_address, limit_key
from cobblestone.store.engine.database import Asks, Transaction
from cobblestone.store.work.rows import LOCKED_HOSTS, LOCKED_WORKUNITS
from cobblestone.wire.scheduler.reply import Message, SchedulerReply, write_scheduler_reply
from cobblestone.wire.scheduler.report import without_long_stderr
from cobblestone.wire.scheduler.request import SchedulerRequest, parse_scheduler_request

#: Requests that are worked on at once.  As many share a commit; more would not make it cheaper (docs/speed.md).
PLACES = 16
#: Requests that may wait for a place, a few tenths of a second's work.
MAX_WAITING = 512
#: Seconds that a client is sent away for when more come.
FIRST_DELAY, LONGEST_DELAY = 60.0, 3600.0

log = structlog.get_logger(__name__)


class SchedulerRpc:
    """Answers scheduler requests."""

    def __init__(self, ctx: ServerContext, offers: OfferCache) -> None:
        self._ctx = ctx
        self._offers = offers
        self._links = Links(ctx)
        self._rng = random.Random()
        self._queue: FairQueue[str, bytes] = FairQueue(
            places=PLACES, max_waiting=MAX_WAITING, max_waiting_promises=2 * MAX_WAITING
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer over HTTP."""
        body = await self._answer(
            scope, receive, address=client_address(scope), languages=_accepted_languages(scope)
        )
        await answer(send, body, "text/xml; charset=utf-8")

    async def _answer(self, scope: Scope, receive: Receive, *, address: str, languages: str) -> bytes:
        max_bytes = self._ctx.settings.server.max_request_bytes
        try:
            body = await read_all(scope, receive, max_bytes, shorten=without_long_stderr)
            sender, host = limit_key(address), _claimed_host(body)
            # To look for a report takes as long as all else about the queue, and only matters among those who wait.
            promise = self._queue.must_wait(sender, host) and keeps_promise(body)
            async with self._queue.place(sender, host, promise=promise):
                return await self._work(body, address=address, languages=languages, max_bytes=max_bytes)
        except ServerBehind as error:
            return self._plain_reply(
                "The server is busy.", delay=delay_when_behind(error.load, self._rng.random())
            )
        except (StoreError, UnreadableRow) as error:
            log.warning("scheduler_request_put_off", reason=str(error))
            return self._plain_reply(
                "The project's database is not available.", delay=delay_when_behind(1, self._rng.random())
            )
        except BodyTooLarge:
            return self._plain_reply(f"The request is larger than {max_bytes} bytes.", delay=BAD_KEY_DELAY)
        except RemoteProtocolError as error:
            log.info("bad_scheduler_request", error=str(error))
            return self._plain_reply(error.reply_hint, delay=BAD_KEY_DELAY)

    async def _work(self, body: bytes, *, address: str, languages: str, max_bytes: int) -> bytes:
        message = await read_aside(partial(parse_scheduler_request, max_bytes=max_bytes), body)
        if message.leniences:
            log.info(
                "lenience", host=message.hostid, kinds=sorted({str(note.kind) for note in message.leniences})
            )
        names = [item.name for item in message.results]
        hosts = (message.hostid,) if message.hostid > 0 else ()
        reply = await self._ctx.store.awrite(
            partial(self.transact, message=message, address=address, languages=languages),
            locks={LOCKED_WORKUNITS: names, LOCKED_HOSTS: hosts},
            asks=Asks(partial(first_questions, message=message), frozenset[object]((*names, *hosts))),
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
        """Do everything for one request, inside a write of the store."""
        offer = self._offers.get(tx)
        return SchedulerExchange(self._ctx, offer, offer.limits, self._links, self._rng, tx, message).run(
            address, languages
        )


_HOST = re.compile(rb"<hostid>\s*([1-9][0-9]{0,18})\s*</hostid>")
_HEAD_NBYTES = 4096


def _claimed_host(body: bytes) -> bytes | None:
    """Return the number that a computer claims to have, which is near the start of its request."""
    found = _HOST.search(body, 0, _HEAD_NBYTES)
    return found[1] if found else None


def keeps_promise(body: bytes) -> bool:
    """Return whether a request reports a finished job, as far as is visible without parsing it."""
    return b"<result>" in body


def delay_when_behind(load: float, chance: float) -> float:
    """Return the delay in seconds for a rejected client: longer the further behind we are, and spread out."""
    return min(FIRST_DELAY * load, LONGEST_DELAY) * (0.75 + 0.5 * chance)


def _accepted_languages(scope: Scope) -> str:
    """Return the languages that the client names, if its user has chosen one."""
    for name, value in scope["headers"]:
        if name == b"accept-language":
            return str(value, "latin-1")
    return ""
