"""Webhooks: where a batch's finished jobs are told; their endpoints, and the daemon that sends the messages.

Messages are signed as in Standard Webhooks (https://www.standardwebhooks.com).  One that does not arrive is sent again, later and
later, for about two days; it keeps its id unless more jobs have finished.  A job may be told twice, but none is left out.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import secrets
import socket
from functools import partial

import httpx
import msgspec
import structlog

from cobblestone.api_schema import batches as schema
from cobblestone.api_schema import endpoints
from cobblestone.api_schema.batches import ResultsPage
from cobblestone.domain.errors import JobError, NotFound, words_of
from cobblestone.domain.values import form_of
from cobblestone.server.api.endpoints.routing import Call, answers
from cobblestone.server.api.submission.batches import results_page
from cobblestone.server.core.context import ServerContext
from cobblestone.service.http.api import ApiProblem
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.work import batches, webhooks
from cobblestone.store.work.webhooks import Webhook

log = structlog.get_logger(__name__)

AT_ONCE = 20
PAGE = 200
TIMEOUT_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 6 * 3600.0
MAX_ATTEMPTS = 17
#: By this status the receiver asks for no more messages.
GONE = 410


@answers(endpoints.PUT_WEBHOOK)
async def put_webhook(call: Call, batch_id: int, body: schema.NewWebhook) -> schema.WebhookSecret:
    """Tell finished jobs to an address.

    All of the batch's finished jobs are sent there, in order, signed with the secret in the reply. A second webhook replaces
    the first, and starts from the beginning.
    """
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    try:
        await reachable_address(httpx.URL(body.url), private=call.ctx.settings.server.private_webhooks)
    except (OSError, httpx.InvalidURL, JobError, UnicodeError) as error:
        raise ApiProblem(
            422, "bad_webhook", f"Nothing can be sent to {body.url}: {error}", member="url"
        ) from error

    def put(tx: Transaction) -> schema.WebhookSecret:
        batch = batches.batch_by_id(tx, batch_id)
        webhooks.put_webhook(tx, batch.id, url=body.url, secret=secret, now=call.now)
        return schema.WebhookSecret(url=body.url, secret=secret)

    return await call.write(put)


@answers(endpoints.GET_WEBHOOK)
async def get_webhook(call: Call, batch_id: int) -> schema.WebhookStatus:
    """Return how a batch's webhook fares."""
    return await call.read(lambda db: _status(_known(db, batch_id)))


@answers(endpoints.DELETE_WEBHOOK)
async def delete_webhook(call: Call, batch_id: int) -> schema.WebhookStatus:
    """Remove a batch's webhook."""

    def remove(tx: Transaction) -> schema.WebhookStatus:
        known = _known(tx, batch_id)
        webhooks.remove_webhook(tx, known.batch_id)
        return msgspec.structs.replace(_status(known), state="removed", next_time=None)

    return await call.write(remove)


def _known(db: Database, batch_id: int) -> Webhook:
    known = webhooks.webhook_of(db, batches.batch_by_id(db, batch_id).id)
    if known is None:
        raise NotFound(f"Batch {batch_id} has no webhook.")
    return known


def _status(webhook: Webhook) -> schema.WebhookStatus:
    return form_of(schema.WebhookStatus, webhook, told=webhook.told_seq)


async def tell(ctx: ServerContext) -> int:
    """Send one message to each webhook that has news; return how many were tried."""
    due = await ctx.store.aread(partial(webhooks.with_news, now=ctx.clock(), limit=AT_ONCE))
    await asyncio.gather(*(_tell(ctx, webhook) for webhook in due))
    return len(due)


async def _tell(ctx: ServerContext, webhook: Webhook) -> None:
    told, attempts, error = webhook.told_seq, webhook.attempts, ""
    next_time: float | None = ctx.clock()
    try:
        page = await ctx.store.aread(
            partial(results_page, ctx, batch_id=webhook.batch_id, after=told, limit=PAGE)
        )
    except NotFound:
        page = ResultsPage(results=[], next=told, finished=True)
    status = 0
    try:
        status = await send(webhook, page, now=ctx.clock(), private=ctx.settings.server.private_webhooks)
        if not 200 <= status < 300:
            error = f"it answers with status {status}"
    except (OSError, httpx.HTTPError, httpx.InvalidURL, JobError, TimeoutError) as problem:
        error = words_of(problem)
    if error:
        attempts += 1
        pause = min(FIRST_PAUSE_SECONDS * 2.5 ** (attempts - 1), LONGEST_PAUSE_SECONDS)
        next_time = None if attempts >= MAX_ATTEMPTS or status == GONE else ctx.clock() + pause
        log.warning("webhook_failed", batch=webhook.batch_id, attempt=attempts, error=error)
    else:
        told, attempts = page.next, 0
        next_time = None if page.finished else next_time
    await ctx.store.awrite(
        partial(
            webhooks.note, before=webhook, told_seq=told, attempts=attempts, error=error, next_time=next_time
        )
    )


async def send(webhook: Webhook, page: ResultsPage, *, now: float, private: bool) -> int:
    """Send one message; return the status of the answer, whose body is not read.

    Raises:
        JobError: the address is not allowed.
        OSError, TimeoutError, httpx.HTTPError: it did not arrive.
    """
    kind = "batch.finished" if page.finished else "batch.results"
    body = msgspec.json.encode({"type": kind, "timestamp": int(now), "batch": webhook.batch_id, "data": page})
    message_id = f"batch-{webhook.batch_id}-{webhook.told_seq}-{page.next}-{int(page.finished)}"
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now)),
        "webhook-signature": signature(webhook.secret, message_id, int(now), body),
    }
    async with asyncio.timeout(TIMEOUT_SECONDS):
        url = httpx.URL(webhook.url)
        address = await reachable_address(url, private=private)
        # The connection goes to the address that was looked at: a name may have another one at the next look.
        async with (
            httpx.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False) as client,
            client.stream(
                "POST",
                url.copy_with(host=address),
                content=body,
                headers={**headers, "host": url.netloc.decode()},
                extensions={"sni_hostname": url.host},
            ) as answer,
        ):
            return answer.status_code


async def reachable_address(url: httpx.URL, *, private: bool) -> str:
    """Return the network address behind a webhook's address.

    Raises:
        JobError: it lies in a private network, and the operator does not allow that.
        OSError: there is none.
    """
    port = url.port or (443 if url.scheme == "https" else 80)
    if port > 65535:
        raise OSError("its port is larger than 65535")
    found = await asyncio.get_running_loop().getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
    address = str(found[0][4][0])
    if not private and not ipaddress.ip_address(address.partition("%")[0]).is_global:
        raise JobError(
            f"{url.host} is {address}, an address of a private network; only the operator can allow those"
            " (server.private_webhooks)."
        )
    return address


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header ``webhook-signature``: HMAC with SHA-256 over id, time and body, by the secret behind ``whsec_``."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, b"%s.%d.%s" % (message_id.encode(), timestamp, body), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
