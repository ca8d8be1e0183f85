"""Account and configuration RPCs of clients and account managers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial, wraps

from starlette.requests import Request
from starlette.responses import Response

from cobblestone import __version__
from cobblestone.domain.apps import ANY_PLATFORM
from cobblestone.domain.errors import Conflict
from cobblestone.domain.exports import ExportedUser
from cobblestone.domain.people import ConsentKind, Team, User
from cobblestone.domain.values import TeamId, form_of
from cobblestone.server.accounts.ownership import public_key
from cobblestone.server.accounts.service import Accounts
from cobblestone.server.core.context import ServerContext
from cobblestone.service.languages import ENGLISH
from cobblestone.service.rate_limits import client_address, limit_key, refuse_after
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import exports
from cobblestone.store.people import consents, credentials, teams, users
from cobblestone.store.people.credentials import Purpose
from cobblestone.store.people.users import profile_of
from cobblestone.wire.project import account as wire
from cobblestone.wire.project.pages import PlatformEntry, ProjectConfig, write_project_config

#: Where versions for any platform are offered: they need a Python interpreter, which these usually have.
COMMON_PLATFORMS = (
    "x86_64-pc-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-apple-darwin",
    "arm64-apple-darwin",
)


def _told(
    answer: Callable[[AccountRpc, Request], Awaitable[bytes]],
) -> Callable[[AccountRpc, Request], Awaitable[Response]]:
    """Make an endpoint of a method that returns XML; a WebRpcFailure is told as XML, too."""

    @wraps(answer)
    async def endpoint(self: AccountRpc, request: Request) -> Response:
        try:
            content = await answer(self, request)
        except wire.WebRpcFailure as failure:
            content = wire.write_web_rpc_error(failure.error, str(failure))
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return Response(content, media_type="text/xml", headers=headers)

    return endpoint


class AccountRpc:
    """HTTP endpoints of the RPCs."""

    def __init__(self, ctx: ServerContext, accounts: Accounts) -> None:
        self._ctx = ctx
        self._accounts = accounts

    @_told
    async def get_project_config(self, request: Request) -> bytes:
        """Answer ``get_project_config.php``: what a client must know before it attaches."""
        settings = self._ctx.settings
        platforms = await self._ctx.store.aread(_platforms)
        key = await asyncio.to_thread(public_key, self._ctx.folder)
        return write_project_config(
            ProjectConfig(
                name=settings.project.name,
                master_url=settings.project.url,
                server_version=__version__,
                min_passwd_length=settings.accounts.min_password_length,
                account_creation_disabled=settings.accounts.creation == "closed",
                invite_code_required=settings.accounts.creation == "invitation",
                terms_of_use=self._ctx.texts.text("terms", ENGLISH) or "",
                platforms=tuple(PlatformEntry(platform_name=name) for name in platforms),
                account_ownership_public_key=key,
            )
        )

    @_told
    async def create_account(self, request: Request) -> bytes:
        """Answer ``create_account.php``."""
        wish = wire.parse_create_account(request.url.query)
        wish = replace(wish, source=f"create_account.php {wish.source}".strip())
        user = await self._accounts.create(wish, address=client_address(request.scope))
        return wire.write_account_out(_key_for_password(user))

    @_told
    async def lookup_account(self, request: Request) -> bytes:
        """Answer ``lookup_account.php``; without a password, only whether the account exists."""
        wanted = wire.parse_lookup_account(request.url.query)
        self._count_lookup(request)
        if wanted.passwd_hash is None:
            found = await self._ctx.store.aread(lambda db: users.user_by_email(db, wanted.email_addr))
            if found is None:
                raise wire.WebRpcFailure(wire.WebRpcError.NOT_FOUND)
            return wire.write_account_exists()
        user = await self._accounts.look_up(
            wanted.email_addr, wanted.passwd_hash, address=client_address(request.scope)
        )
        return wire.write_account_out(_key_for_password(user))

    @_told
    async def login_token_lookup(self, request: Request) -> bytes:
        """Answer ``login_token_lookup.php``: the key for a client that found a token in its data folder."""
        self._count_lookup(request)
        now = self._ctx.clock()
        wanted = wire.parse_login_token_lookup(request.url.query)
        found = await self._ctx.store.aread(partial(_token_owner, wanted=wanted, now=now))
        if found is None:
            text = "The token is wrong or older than a day: make a new one"
            raise wire.WebRpcFailure(wire.WebRpcError.NOT_FOUND, text)
        user, team = found
        team_name = "" if team is None else team.name
        key = _key_for_password(user)
        return wire.write_login_token_reply(key, user_name=user.name, team_name=team_name)

    @_told
    async def am_get_info(self, request: Request) -> bytes:
        """Answer ``am_get_info.php``: what an account manager asks about an account, by its key."""
        self._count_lookup(request)
        key = wire.parse_am_get_info(request.url.query)
        user = await self._ctx.store.aread(lambda db: _owner(db, key))
        is_founder, has_profile = await self._ctx.store.aread(
            lambda db: (_is_founder(db, user), profile_of(db, user.id) is not None)
        )
        return wire.write_am_get_info_reply(
            form_of(
                wire.AccountInfo,
                user,
                weak_auth=user.weak_authenticator,
                cpid=wire.external_cpid(user.cross_project_id, user.email_addr),
                teamid=user.team_id or 0,
                has_profile=has_profile,
                teamfounder=is_founder,
            )
        )

    @_told
    async def am_set_info(self, request: Request) -> bytes:
        """Answer ``am_set_info.php``: settings that an account manager makes for the owner of an account it created.

        The key that may say it may say a cross-project id to the scheduler as well: no one gains a claim by this.
        """
        accounts, now = self._ctx.settings.accounts, self._ctx.clock()
        self._count_lookup(request)
        wish = wire.parse_am_set_info(request.url.query)

        def change(tx: Transaction) -> None:
            user = _owner(tx, wish.account_key)
            if wish.cross_project_id is not None:
                users.adopt_cross_project_id(tx, user.id, wish.cross_project_id)
            if wish.statistics is not None:
                agreed = wish.statistics
                consents.record(
                    tx, user.id, ConsentKind.STATISTICS, agreed, source="am_set_info.php", now=now
                )
            if wish.team_name is not None:
                if accounts.confirmed_email == "required" and not user.email_verified:
                    raise wire.WebRpcFailure(wire.WebRpcError.GENERIC, "The email address is not confirmed")
                _change_team(tx, user, wish.team_name)

        await self._ctx.store.awrite(change)
        return wire.write_am_set_info_reply()

    def _count_lookup(self, request: Request) -> None:
        """Count a look-up from this address.  Raises TooManyAttempts."""
        address, now = limit_key(client_address(request.scope)), self._ctx.clock()
        refuse_after(self._ctx.limits.lookups.attempt(address, now=now))

    @_told
    async def team_lookup(self, request: Request) -> bytes:
        """Answer ``team_lookup.php``: teams by number, or by a part of the name, most active first."""
        wanted = wire.parse_team_lookup(request.url.query)
        found = await self._ctx.store.aread(partial(_teams, wanted=wanted))
        if wanted.single and not found:
            raise wire.WebRpcFailure(wire.WebRpcError.NOT_FOUND, "There is no team with that number")
        return wire.write_teams_xml(found, single=wanted.single)

    @_told
    async def team_members(self, request: Request) -> bytes:
        """Answer ``team_email_list.php``: members of a team who agreed to the export, most credit first; no addresses."""
        team_id = TeamId(wire.parse_member_query(request.url.query))
        found = await self._ctx.store.aread(partial(_members, team_id=team_id))
        return await asyncio.to_thread(wire.write_members_xml, found)


def _owner(db: Database, key: str) -> User:
    """Return the account of a key that is not a weak one.  Raises WebRpcFailure."""
    found = users.user_by_authenticator(db, key)
    if found is None or found[1] or found[0].erased:
        raise wire.WebRpcFailure(wire.WebRpcError.NOT_FOUND)
    return found[0]


def _change_team(tx: Transaction, user: User, name: str) -> None:
    """Move an account to the team of this name.  Raises WebRpcFailure."""
    team = users.team_by_name(tx, name)
    if team is None:
        raise wire.WebRpcFailure(wire.WebRpcError.NOT_FOUND, "There is no team of that name")
    try:
        teams.join(tx, user.id, team.id)
    except Conflict as error:
        raise wire.WebRpcFailure(wire.WebRpcError.GENERIC, str(error)) from None


def _teams(db: Database, wanted: wire.TeamLookup) -> list[Team]:
    if wanted.name:
        return [row.team for row in teams.find_teams(db, wanted.name)]
    found = (users.team_by_id(db, TeamId(team_id)) for team_id in wanted.team_ids)
    return [team for team in found if team is not None]


def _members(db: Database, team_id: TeamId) -> list[ExportedUser]:
    """Return the members of a team as the export has them.  Raises WebRpcFailure."""
    if users.team_by_id(db, team_id) is None:
        raise wire.WebRpcFailure(wire.WebRpcError.NOT_FOUND, "There is no team with that number")
    return exports.members(db, team_id)


def _token_owner(
    db: Database, wanted: wire.LoginTokenQuery, *, now: float
) -> tuple[User, Team | None] | None:
    code = credentials.find_code(db, Purpose.ATTACH, wanted.token, now=now)
    if code is None or code.user_id != wanted.user_id:
        return None
    user = users.user_by_id(db, code.user_id)
    if user is None or user.erased:
        return None
    return user, None if user.team_id is None else users.team_by_id(db, user.team_id)


def _is_founder(db: Database, user: User) -> bool:
    team = None if user.team_id is None else users.team_by_id(db, user.team_id)
    return team is not None and team.founder_id == user.id


def _key_for_password(user: User) -> str:
    """Return the key for address and password: with a second factor, only the key that attaches computers."""
    return user.weak_authenticator if user.second_factor else user.authenticator


def _platforms(db: Database) -> list[str]:
    """Return the platforms that the project has versions for."""
    found = apps.platforms_in_use(db)
    if ANY_PLATFORM in found:
        found = (found - {ANY_PLATFORM}) | set(COMMON_PLATFORMS)
    return sorted(found)
