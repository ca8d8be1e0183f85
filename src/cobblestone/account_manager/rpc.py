"""The endpoint for clients, ``rpc.php``, and the page that identifies this as an account manager."""

from __future__ import annotations

import random

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cobblestone import __version__
from cobblestone.account_manager.contact import Contact, answer_contact
from cobblestone.account_manager.core.context import ManagerContext
from cobblestone.account_manager.core.members import Members
from cobblestone.account_manager.model import ManagerAccount
from cobblestone.account_manager.store import accounts
from cobblestone.domain.errors import RemoteProtocolError, StoreError
from cobblestone.ops.aside import read_aside
from cobblestone.service.http.requests import BodyTooLarge, answer, read_all
from cobblestone.service.rate_limits import client_address, limit_key, refuse_after
from cobblestone.store.engine.database import Locks, RowsOf, Transaction
from cobblestone.wire.client import account_manager as wire
from cobblestone.wire.project.account import WebRpcError, WebRpcFailure
from cobblestone.wire.project.pages import WEAK_KEY, ProjectConfig, write_project_config

log = structlog.get_logger(__name__)

XML = "text/xml; charset=utf-8"
ACCOUNTS = RowsOf("account")
RPC_PATH = "rpc.php"


class ManagerRpc:
    """Answers clients, as a plain ASGI application, because it is the busy endpoint."""

    def __init__(self, ctx: ManagerContext, members: Members) -> None:
        self._ctx = ctx
        self._members = members
        self._rng = random.Random()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one contact; errors are answers too, with status 200, as clients expect."""
        try:
            request = await read_aside(
                wire.parse_manager_request, await read_all(scope, receive, wire.MAX_REQUEST)
            )
            reply = await self._answer(request, limit_key(client_address(scope)))
        except ClientDisconnect:
            return
        except WebRpcFailure as error:
            reply = wire.ManagerReply(error_num=error.error, error_msg=str(error))
        except (RemoteProtocolError, BodyTooLarge) as error:
            reply = wire.ManagerReply(
                error_num=WebRpcError.XML, error_msg=f"The request cannot be read: {error}"
            )
        except StoreError as error:
            log.error("contact_failed", error=str(error))
            text = "The account manager cannot answer at the moment. Nothing is lost; the client tries again."
            reply = wire.ManagerReply(error_num=WebRpcError.NO_DATABASE, error_msg=text)
        await answer(send, wire.write_manager_reply(reply), XML)

    async def _answer(self, request: wire.ReceivedRequest, address: str) -> wire.ManagerReply:
        ctx, now = self._ctx, self._ctx.clock()
        known: ManagerAccount | None = None
        if request.authenticator:
            refuse_after(ctx.limits.failures_by_address.wait(address, now=now))
        else:
            known = await self._members.look_up(request.name.lower(), request.password_hash, key=address)

        def write(tx: Transaction) -> wire.ManagerReply | None:
            account = known or accounts.account_by_key(tx, request.authenticator)
            if account is None:
                return None
            contact = Contact(account=account, request=request, address_block=_block(address), now=now)
            return answer_contact(tx, ctx, contact, self._rng)

        reply = await ctx.store.awrite(write, locks=_locks(known, request.authenticator))
        if reply is None:
            ctx.limits.failures_by_address.take(address, now=now)
            raise WebRpcFailure(WebRpcError.BAD_PASSWD, "This account key is unknown here. Log in again.")
        return reply

    async def project_config(self, request: Request) -> Response:
        """Tell a client at this address that it is an account manager."""
        settings = self._ctx.settings
        config = ProjectConfig(
            name=settings.manager.name,
            master_url=self._ctx.master_url,
            server_version=__version__,
            account_manager=True,
            min_passwd_length=settings.accounts.min_password_length,
            client_account_creation_disabled=True,
        )
        return Response(write_project_config(config), media_type=XML)


def _locks(known: ManagerAccount | None, key: str) -> Locks:
    """Return the keys to lock for a contact, as far as known in advance: a weak key starts with the account's number."""
    number = key.partition("_")[0]
    return {ACCOUNTS: (known.id if known else int(number) if WEAK_KEY.fullmatch(key) else 0,)}


def _block(address: str) -> str:
    """Return the part of an address shared by neighbours: the first three bytes, or the network of IPv6."""
    return address.rpartition(".")[0] if address.count(".") == 3 else address
