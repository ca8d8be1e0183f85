"""Users, teams and news, for the operator."""

from __future__ import annotations

import secrets
from typing import Annotated

import msgspec

from cobblestone.api_schema import people as schema
from cobblestone.domain.errors import NotFound
from cobblestone.domain.ids import TeamId, UserId
from cobblestone.domain.people import Scope, Team, User
from cobblestone.server.accounts.service import Accounts
from cobblestone.server.api.errors import ApiProblem
from cobblestone.server.api.routing import Call, endpoint
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import users as people
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


def _user(user: User) -> schema.User:
    return schema.User(
        id=user.id,
        name=user.name,
        email=user.email_addr,
        team_id=user.team_id,
        created=user.create_time,
        total_credit=user.credit.total,
    )


def _team(team: Team) -> schema.Team:
    return schema.Team(
        id=team.id,
        name=team.name,
        founder=team.founder_id,
        created=team.create_time,
        total_credit=team.credit.total,
    )


@endpoint("POST", "/users", scope=Scope.MANAGE, tag="people", status=201, problems=(409,))
async def create_user(call: Call, body: schema.NewUser) -> schema.CreatedUser:
    """Make an account."""
    settings = call.ctx.settings.accounts
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
                source="operator",
            ),
            by_operator=True,
        )
    except WebRpcFailure as failure:
        taken = failure.error is WebRpcError.NOT_UNIQUE
        raise ApiProblem(
            409, "email_taken" if taken else "account_refused", f"No account was made: {failure}"
        ) from failure
    created = schema.CreatedUser(authenticator=user.authenticator, **msgspec.structs.asdict(_user(user)))
    return await call.write(lambda tx: created)


@endpoint("GET", "/users", scope=Scope.MANAGE, tag="people")
async def list_users(call: Call, query: schema.UsersQuery) -> schema.UserList:
    """List accounts."""
    found = await call.ctx.store.aread(lambda db: people.list_users(db, limit=query.limit, after=query.after))
    return schema.UserList(users=[_user(user) for user in found])


def _check_user(db: Database, user_id: int) -> UserId:
    if people.user_by_id(db, UserId(user_id)) is None:
        raise NotFound(f"There is no user {user_id}. See: cobblestone user list")
    return UserId(user_id)


@endpoint(
    "POST", "/teams", scope=Scope.MANAGE, tag="people", status=201, idempotent=True, problems=(404, 409)
)
async def create_team(call: Call, body: schema.NewTeam) -> schema.Team:
    """Make a team."""

    def create(tx: Transaction) -> schema.Team:
        founder = _check_user(tx, body.founder)
        return _team(people.create_team(tx, body.name, founder, now=call.now))

    return await call.write_once(create, schema.Team)


@endpoint("GET", "/teams", scope=Scope.READ, tag="people")
async def list_teams(call: Call) -> schema.TeamList:
    """List teams."""
    found = await call.ctx.store.aread(lambda db: people.list_teams(db, limit=1000))
    return schema.TeamList(teams=[_team(team) for team in found])


@endpoint("POST", "/teams/{team_id:int}/members", scope=Scope.MANAGE, tag="people", problems=(404,))
async def join_team(call: Call, team_id: TeamId, body: schema.TeamMember) -> schema.Team:
    """Put a user into a team."""

    def join(tx: Transaction) -> schema.Team:
        team = people.team_by_id(tx, team_id)
        if team is None:
            raise NotFound(f"There is no team {team_id}. See: cobblestone team list")
        people.join_team(tx, _check_user(tx, body.user), team_id)
        return _team(team)

    return await call.write(join)


@endpoint("POST", "/news", scope=Scope.MANAGE, tag="people", status=201, idempotent=True)
async def add_news(call: Call, body: schema.NewNews) -> schema.News:
    """Publish a piece of news."""

    def add(tx: Transaction) -> schema.News:
        return schema.News(id=people.add_news(tx, body.title, body.text, now=call.now))

    return await call.write_once(add, schema.News)
