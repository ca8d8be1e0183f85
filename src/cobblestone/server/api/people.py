"""Accounts and teams, for operators."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from cobblestone.api_schema import people as schema
from cobblestone.domain.errors import NotFound
from cobblestone.domain.ids import TeamId, UserId
from cobblestone.domain.people import Scope, Team, User
from cobblestone.policy.credit.rac import decayed
from cobblestone.server.accounts.service import Accounts
from cobblestone.server.api.routing import Call, endpoint
from cobblestone.service.http.problems import ApiProblem
from cobblestone.service.languages import NAMES as LANGUAGES
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import listings, page_queries
from cobblestone.store.operation.page_queries import TaskOwner
from cobblestone.store.people import account_changes
from cobblestone.store.people import users as people
from cobblestone.wire.account import (
    AccountCreation,
    WebRpcError,
    WebRpcFailure,
    legal_email_addr,
    user_name_problem,
)
from cobblestone.wire.identity import passwd_hash


def _fields(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "name": user.name,
        "email": user.email_addr,
        "team_id": user.team_id,
        "created": user.create_time,
        "total_credit": user.credit.total,
    }


def _check_name(name: str) -> None:
    problem = user_name_problem(name.strip())
    if problem:
        raise ApiProblem(422, "bad_name", f"{name!r}: {problem}.")


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
    _check_name(body.name)
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
    created = schema.CreatedUser(authenticator=user.authenticator, **_fields(user))
    return await call.write(lambda tx: created)


@endpoint("GET", "/users", scope=Scope.MANAGE, tag="people")
async def list_users(call: Call, query: schema.UsersQuery) -> schema.UserList:
    """List accounts, the newest first."""
    page = listings.Page(limit=query.limit, before=query.before)
    found = await call.ctx.store.aread(
        lambda db: listings.newest_users(db, page, role=query.role, blocked=query.blocked)
    )
    return schema.UserList(users=[schema.User(**_fields(user)) for user in found])


@endpoint("GET", "/users/{user_id:int}", scope=Scope.MANAGE, tag="people", problems=(404,))
async def get_user(call: Call, user_id: UserId) -> schema.UserDetails:
    """Describe an account."""
    return await call.ctx.store.aread(lambda db: _details(db, _user_or_missing(db, user_id), call.now))


@endpoint("PATCH", "/users/{user_id:int}", scope=Scope.MANAGE, tag="people", problems=(404,))
async def change_user(call: Call, user_id: UserId, body: schema.UserChanges) -> schema.UserDetails:
    """Change what the owner of an account says and shows.

    The e-mail address is part of the password's hash: its owner changes it on the page of the account.
    """
    changes = {name: value for name in _PROFILE if (value := getattr(body, name)) is not None}
    _check_profile(changes)

    def change(tx: Transaction) -> schema.UserDetails:
        user = _user_or_missing(tx, user_id)
        call.before.append({name: getattr(user, name) for name in _PROFILE})
        changed = replace(user, **changes)
        account_changes.set_profile(tx, user.id, **{name: getattr(changed, name) for name in _PROFILE})
        return _details(tx, changed, call.now)

    return await call.write(change)


_PROFILE = ("name", "country", "url", "language", "show_hosts", "send_email")


def _check_profile(changes: dict[str, Any]) -> None:
    """Trim a new name; refuse what an account's owner could not choose.  Raises ApiProblem."""
    if "name" in changes:
        changes["name"] = changes["name"].strip()
        _check_name(changes["name"])
    url = changes.get("url", "")
    if url and not url.startswith(("https://", "http://")):
        raise ApiProblem(422, "bad_url", f"{url!r} is no web page: it begins with https:// or http://.")
    language = changes.get("language", "")
    if language not in ("", *LANGUAGES):
        raise ApiProblem(
            422, "bad_language", f"There is no language {language!r} here. Known: {', '.join(LANGUAGES)}."
        )


def _details(db: Database, user: User, now: float) -> schema.UserDetails:
    tasks = page_queries.count_tasks(db, TaskOwner(user_id=user.id))
    return schema.UserDetails(
        **_fields(user),
        recent_average_credit=decayed(user.credit.recent, now),
        country=user.country,
        url=user.url,
        language=user.language,
        venue=user.venue,
        role=user.role,
        blocked=user.blocked_reason,
        show_hosts=user.show_hosts,
        send_email=user.send_email,
        second_factor=user.second_factor,
        erase_time=user.erase_time,
        computers=listings.count_hosts(db, user.id),
        tasks={state.value: number for state, number in tasks.items()},
    )


def _user_or_missing(db: Database, user_id: int) -> User:
    user = people.user_by_id(db, UserId(user_id))
    if user is None or user.erased:
        raise NotFound(f"There is no user {user_id}. See: cobblestone user list")
    return user


@endpoint(
    "POST", "/teams", scope=Scope.MANAGE, tag="people", status=201, idempotent=True, problems=(404, 409)
)
async def create_team(call: Call, body: schema.NewTeam) -> schema.Team:
    """Make a team."""
    _check_name(body.name)

    def create(tx: Transaction) -> schema.Team:
        founder = _user_or_missing(tx, body.founder).id
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
        people.join_team(tx, _user_or_missing(tx, body.user).id, team_id)
        return _team(team)

    return await call.write(join)
