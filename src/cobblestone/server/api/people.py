"""Users, teams and news, for the operator."""

from __future__ import annotations

import secrets
from typing import Annotated

import msgspec

from cobblestone.domain.errors import NotFound
from cobblestone.domain.ids import TeamId, UserId
from cobblestone.domain.people import Team, User
from cobblestone.server.accounts.service import Accounts
from cobblestone.server.api.errors import ApiProblem
from cobblestone.server.api.routing import Call, Endpoint, Line, Model, Nothing, Reply
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import users as people
from cobblestone.store.people.tokens import Scope
from cobblestone.wire.account import (
    AccountCreation,
    WebRpcError,
    WebRpcFailure,
    legal_email_addr,
    user_name_problem,
)
from cobblestone.wire.identity import passwd_hash

Id = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Password = Annotated[str, msgspec.Meta(max_length=200)]


class NewUser(Model):
    """An account to be made."""

    email: Annotated[str, msgspec.Meta(min_length=3, max_length=254)]
    name: Annotated[Line, msgspec.Meta(min_length=1)]
    password: Password = ""  # empty: a random one; clients attach with the authenticator


class UserReply(Reply):
    """An account."""

    id: int
    name: str
    email: str
    team_id: int | None
    created: float
    total_credit: float


class CreatedUser(UserReply):
    """A new account, with the key by which clients attach: boinccmd --project_attach URL AUTHENTICATOR."""

    authenticator: str


class UserList(Reply):
    """Accounts in the order of their ids."""

    users: list[UserReply]


class UsersQuery(Model):
    """A part of the list."""

    after: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


class NewTeam(Model):
    """A team to be made."""

    name: Annotated[Line, msgspec.Meta(min_length=1)]
    founder: Id  # user id


class TeamReply(Reply):
    """A team."""

    id: int
    name: str
    founder: int
    created: float
    total_credit: float


class TeamList(Reply):
    """Teams in the order of their ids."""

    teams: list[TeamReply]


class TeamMember(Model):
    """Who joins."""

    user: Id


class NewNews(Model):
    """A piece of news."""

    title: Annotated[Line, msgspec.Meta(min_length=1)]
    text: Annotated[
        str, msgspec.Meta(min_length=1, max_length=20_000, pattern=r"\A[^\x00-\x08\x0b-\x1f\x7f]*\Z")
    ]


class NewsReply(Reply):
    """A piece of news."""

    id: int


def _user(user: User) -> UserReply:
    return UserReply(
        id=user.id,
        name=user.name,
        email=user.email_addr,
        team_id=user.team_id,
        created=user.create_time,
        total_credit=user.credit.total,
    )


def _team(team: Team) -> TeamReply:
    return TeamReply(
        id=team.id,
        name=team.name,
        founder=team.founder_id,
        created=team.create_time,
        total_credit=team.credit.total,
    )


async def create_user(call: Call[NewUser, Nothing]) -> CreatedUser:
    """Make an account."""
    body, settings = call.body, call.ctx.settings.accounts
    email = body.email.strip().lower()
    if not legal_email_addr(email):
        raise ApiProblem(422, "bad_email", f"{email!r} is not an e-mail address.")
    problem = user_name_problem(body.name.strip())
    if problem:
        raise ApiProblem(422, "bad_name", f"{body.name!r}: {problem}.")
    if body.password and len(body.password) < settings.min_password_length:
        raise ApiProblem(
            422, "bad_password", f"A password needs at least {settings.min_password_length} characters here."
        )
    password = body.password or secrets.token_urlsafe(16)
    try:
        user = await Accounts(call.ctx).create(
            AccountCreation(
                email_addr=email,
                passwd_hash=passwd_hash(password, email),
                user_name=body.name.strip(),
            ),
            by_operator=True,
        )
    except WebRpcFailure as failure:
        taken = failure.error is WebRpcError.NOT_UNIQUE
        raise ApiProblem(
            409, "email_taken" if taken else "account_refused", f"No account was made: {failure}"
        ) from failure
    created = CreatedUser(authenticator=user.authenticator, **msgspec.structs.asdict(_user(user)))
    return await call.write(lambda tx: created)


async def list_users(call: Call[Nothing, UsersQuery]) -> UserList:
    """List accounts."""
    query = call.query
    found = await call.ctx.store.aread(lambda db: people.list_users(db, limit=query.limit, after=query.after))
    return UserList(users=[_user(user) for user in found])


def _check_user(db: Database, user_id: int) -> UserId:
    if people.user_by_id(db, UserId(user_id)) is None:
        raise NotFound(f"There is no user {user_id}. See: cobblestone user list")
    return UserId(user_id)


async def create_team(call: Call[NewTeam, Nothing]) -> TeamReply:
    """Make a team."""

    def create(tx: Transaction) -> TeamReply:
        founder = _check_user(tx, call.body.founder)
        return _team(people.create_team(tx, call.body.name, founder, now=call.now))

    return await call.write_once(create, TeamReply)


async def list_teams(call: Call[Nothing, Nothing]) -> TeamList:
    """List teams."""
    found = await call.ctx.store.aread(lambda db: people.list_teams(db, limit=1000))
    return TeamList(teams=[_team(team) for team in found])


async def join_team(call: Call[TeamMember, Nothing]) -> TeamReply:
    """Put a user into a team."""
    team_id = TeamId(call.path_id("team_id"))

    def join(tx: Transaction) -> TeamReply:
        team = people.team_by_id(tx, team_id)
        if team is None:
            raise NotFound(f"There is no team {team_id}. See: cobblestone team list")
        people.join_team(tx, _check_user(tx, call.body.user), team_id)
        return _team(team)

    return await call.write(join)


async def add_news(call: Call[NewNews, Nothing]) -> NewsReply:
    """Publish a piece of news: clients show it as a notice."""

    def add(tx: Transaction) -> NewsReply:
        return NewsReply(id=people.add_news(tx, call.body.title, call.body.text, now=call.now))

    return await call.write_once(add, NewsReply)


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/users",
        summary="Make an account",
        handler=create_user,
        body=NewUser,
        query=Nothing,
        reply=CreatedUser,
        scope=Scope.MANAGE,
        tag="people",
        status=201,
        problems=(409,),
    ),
    Endpoint(
        method="GET",
        path="/users",
        summary="List accounts",
        handler=list_users,
        body=Nothing,
        query=UsersQuery,
        reply=UserList,
        scope=Scope.MANAGE,
        tag="people",
    ),
    Endpoint(
        method="POST",
        path="/teams",
        summary="Make a team",
        handler=create_team,
        body=NewTeam,
        query=Nothing,
        reply=TeamReply,
        scope=Scope.MANAGE,
        tag="people",
        status=201,
        idempotent=True,
        problems=(404, 409),
    ),
    Endpoint(
        method="GET",
        path="/teams",
        summary="List teams",
        handler=list_teams,
        body=Nothing,
        query=Nothing,
        reply=TeamList,
        scope=Scope.READ,
        tag="people",
    ),
    Endpoint(
        method="POST",
        path="/teams/{team_id:int}/members",
        summary="Put a user into a team",
        handler=join_team,
        body=TeamMember,
        query=Nothing,
        reply=TeamReply,
        scope=Scope.MANAGE,
        tag="people",
        problems=(404,),
    ),
    Endpoint(
        method="POST",
        path="/news",
        summary="Publish a piece of news",
        handler=add_news,
        body=NewNews,
        query=Nothing,
        reply=NewsReply,
        scope=Scope.MANAGE,
        tag="people",
        status=201,
        idempotent=True,
    ),
)
