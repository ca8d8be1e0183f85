"""Accounts, teams, tokens and news for operators; own data for volunteers.

What volunteers' own programs may read: their computers, tasks and credit.

These endpoints take a token that a volunteer made on the page of tokens, and show that volunteer's data alone.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from cobblestone.api_schema import endpoints
from cobblestone.api_schema import people as schema
from cobblestone.api_schema.values import PageQuery
from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.hosts import Host
from cobblestone.domain.people import Scope, SubmitRights, Team, User
from cobblestone.domain.reasons import exit_advice
from cobblestone.domain.values import DAY, AppId, HostId, TeamId, UserId, form_of
from cobblestone.policy.credit.rac import decayed
from cobblestone.server.accounts.service import Accounts
from cobblestone.server.api.endpoints.routing import Call, answers, unauthorised
from cobblestone.server.operation import interventions
from cobblestone.service.http.api import ApiProblem
from cobblestone.service.languages import NAMES as LANGUAGES
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import listings, page_queries
from cobblestone.store.operation.page_queries import TaskOwner, TaskRow
from cobblestone.store.people import account_changes, credentials, hosts, users
from cobblestone.store.people.account_changes import PROFILE
from cobblestone.store.people.credentials import ApiToken
from cobblestone.store.work import submitters
from cobblestone.wire.project import account as wire


def _user_fields(user: User) -> dict[str, Any]:
    return {"email": user.email_addr, "created": user.create_time, "total_credit": user.credit.total}


def _check_name(name: str) -> None:
    if problem := wire.user_name_problem(name.strip()):
        raise ApiProblem(422, "bad_name", f"{name!r}: {problem}.")


def _team(team: Team) -> schema.Team:
    total, created = team.credit.total, team.create_time
    return form_of(schema.Team, team, founder=team.founder_id, created=created, total_credit=total)


@answers(endpoints.CREATE_USER)
async def create_user(call: Call, body: schema.NewUser) -> schema.CreatedUser:
    """Create an account."""
    settings = call.ctx.settings.accounts
    email = body.email.strip().lower()
    if not wire.legal_email_addr(email):
        raise ApiProblem(422, "bad_email", f"{email!r} is not an e-mail address.")
    _check_name(body.name)
    if body.password and len(body.password) < settings.min_password_length:
        text = f"A password needs at least {settings.min_password_length} characters here."
        raise ApiProblem(422, "bad_password", text)
    password = body.password or secrets.token_urlsafe(16)
    try:
        user = await Accounts(call.ctx).create(
            wire.AccountCreation(
                email_addr=email,
                passwd_hash=wire.passwd_hash(password, email),
                user_name=body.name.strip(),
                source="operator",
            ),
            by_operator=True,
        )
    except wire.WebRpcFailure as failure:
        taken = failure.error is wire.WebRpcError.NOT_UNIQUE
        text = f"No account was created: {failure}"
        raise ApiProblem(409, "email_taken" if taken else "account_refused", text) from failure
    created = form_of(schema.CreatedUser, user, **_user_fields(user))
    return await call.write(lambda tx: created)


@answers(endpoints.LIST_USERS)
async def list_users(call: Call, query: schema.UsersQuery) -> schema.UserList:
    """List accounts, newest first."""
    page = listings.Page(limit=query.limit, before=query.before)
    found = await call.read(
        lambda db: listings.newest_users(db, page, role=query.role, blocked=query.blocked)
    )
    return schema.UserList(users=[form_of(schema.User, user, **_user_fields(user)) for user in found])


@answers(endpoints.GET_USER)
async def get_user(call: Call, user_id: UserId) -> schema.UserDetails:
    """Describe an account."""
    return await call.read(lambda db: _user_details(db, _user_or_missing(db, user_id), call.now))


@answers(endpoints.CHANGE_USER)
async def change_user(call: Call, user_id: UserId, body: schema.UserChanges) -> schema.UserDetails:
    """Change the profile of an account.

    The e-mail address is part of the password's hash: its owner changes it on the page of the account.
    """
    changes = {name: value for name in PROFILE if (value := getattr(body, name)) is not None}
    _check_profile(changes)

    def change(tx: Transaction) -> schema.UserDetails:
        user = _user_or_missing(tx, user_id)
        call.before.append({name: getattr(user, name) for name in PROFILE})
        changed = replace(user, **changes)
        account_changes.set_profile(tx, changed)
        return _user_details(tx, changed, call.now)

    return await call.write(change)


def _check_profile(changes: dict[str, Any]) -> None:
    """Trim a new name; refuse what the account's owner could not choose.  Raises ApiProblem."""
    if "name" in changes:
        changes["name"] = changes["name"].strip()
        _check_name(changes["name"])
    url = changes.get("url", "")
    if url and not url.startswith(("https://", "http://")):
        text = f"{url!r} is not a web address: it must begin with https:// or http://."
        raise ApiProblem(422, "bad_url", text)
    language = changes.get("language", "")
    if language not in ("", *LANGUAGES):
        text = f"There is no language {language!r} here. Known: {', '.join(LANGUAGES)}."
        raise ApiProblem(422, "bad_language", text)


def _user_details(db: Database, user: User, now: float) -> schema.UserDetails:
    tasks = page_queries.count_tasks(db, TaskOwner(user_id=user.id))
    held = submitters.token_of(db, user.id)
    return form_of(
        schema.UserDetails,
        user,
        **_user_fields(user),
        recent_average_credit=decayed(user.credit.recent, now),
        blocked=user.blocked_reason,
        computers=hosts.count_hosts(db, user.id),
        tasks={state.value: number for state, number in tasks.items()},
        submits=None
        if held is None
        else form_of(
            schema.GivenRights, held.rights, jobs_in_progress=submitters.jobs_in_progress(db, held.id)
        ),
    )


def _user_or_missing(db: Database, user_id: int) -> User:
    user = users.user_by_id(db, UserId(user_id))
    if user is None or user.erased:
        raise NotFound(f"There is no user {user_id}. See: cobblestone user list")
    return user


@answers(endpoints.SET_RIGHTS, quiet=True)
async def set_rights(call: Call, user_id: UserId, body: schema.Rights) -> schema.UserDetails:
    """Let an account submit jobs, or change what it may submit.

    It sees and uses only its own batches, on the pages and with tokens of its own.
    """
    return await _set_rights(call, user_id, form_of(SubmitRights, body))


@answers(endpoints.WITHDRAW_RIGHTS, quiet=True)
async def withdraw_rights(call: Call, user_id: UserId) -> schema.UserDetails:
    """Take the right to submit from an account.

    Jobs that it has submitted go on.
    """
    return await _set_rights(call, user_id, None)


async def _set_rights(call: Call, user_id: UserId, rights: SubmitRights | None) -> schema.UserDetails:
    def change(tx: Transaction) -> schema.UserDetails:
        interventions.set_rights(tx, call.ctx, user_id, rights, call.actor)
        return _user_details(tx, _user_or_missing(tx, user_id), call.now)

    return await call.ctx.store.awrite(change)


@answers(endpoints.CREATE_TEAM)
async def create_team(call: Call, body: schema.NewTeam) -> schema.Team:
    """Create a team."""
    _check_name(body.name)

    def create(tx: Transaction) -> schema.Team:
        founder = _user_or_missing(tx, body.founder).id
        return _team(users.create_team(tx, body.name, founder, now=call.now))

    return await call.write_once(create, schema.Team)


@answers(endpoints.LIST_TEAMS)
async def list_teams(call: Call, query: schema.TeamsQuery) -> schema.TeamList:
    """List teams."""
    found = await call.read(lambda db: users.list_teams(db, name=query.name, after=query.after))
    return schema.TeamList(teams=[_team(team) for team in found])


@answers(endpoints.JOIN_TEAM)
async def join_team(call: Call, team_id: TeamId, body: schema.TeamMember) -> schema.Team:
    """Add a user to a team."""

    def join(tx: Transaction) -> schema.Team:
        team = users.team_by_id(tx, team_id)
        if team is None:
            raise NotFound(f"There is no team {team_id}. See: cobblestone team list")
        users.join_team(tx, _user_or_missing(tx, body.user).id, team_id)
        return _team(team)

    return await call.write(join)


def _token_reply(token: ApiToken, now: float) -> schema.Token:
    return form_of(
        schema.Token,
        token,
        token.rights,
        scopes=sorted(token.scopes),
        created=token.create_time,
        expires=token.expire_time,
        revoked=token.revoke_time,
        usable=token.usable(now),
    )


@answers(endpoints.CREATE_TOKEN)
async def create_token(call: Call, body: schema.NewToken) -> schema.CreatedToken:
    """Create a token.

    The reply is the only place where the token's text is ever shown. A repetition makes another token: revoke the one
    that you do not need.
    """
    secret = credentials.new_secret()
    if Scope.COMPUTE in body.scopes:
        text = "The scope 'compute' is for browsers, which get it from POST /browsers."
        raise ApiProblem(422, "bad_scope", text)
    if Scope.ACCOUNT in body.scopes:
        raise ApiProblem(
            422,
            "bad_scope",
            "The scope 'account' is for the owner of an account.",
            "Volunteers create such tokens on their own pages (tokens.php).",
        )
    expire_time = None if body.days is None else call.now + body.days * DAY

    rights = form_of(SubmitRights, body)

    def create(tx: Transaction) -> schema.CreatedToken:
        submitters.check_apps(tx, rights)
        token = credentials.create_token(
            tx,
            secret,
            name=body.name,
            scopes=body.scopes,
            now=call.now,
            expire_time=expire_time,
            rights=rights,
        )
        return form_of(schema.CreatedToken, _token_reply(token, call.now), token=secret)

    return await call.write(create)


@answers(endpoints.LIST_TOKENS)
async def list_tokens(call: Call) -> schema.TokenList:
    """List tokens."""
    found = await call.read(credentials.list_tokens)
    return schema.TokenList(tokens=[_token_reply(token, call.now) for token in found])


@answers(endpoints.REVOKE_TOKEN)
async def revoke_token(call: Call, token_id: int) -> schema.Token:
    """Revoke a token.

    Not the one that is used for it, lest nobody be left who can make another.
    """
    if call.token is not None and call.token.id == token_id:
        raise Conflict("You are using this token. Create another, and revoke this one with that: --token")
    return await call.write(
        lambda tx: _token_reply(credentials.revoke_token(tx, token_id, now=call.now), call.now)
    )


@answers(endpoints.LIST_NEWS)
async def list_news(call: Call, query: PageQuery) -> schema.NewsList:
    """List news, newest first."""
    before = users.MAX_ID if query.before is None else query.before
    found = await call.read(lambda db: users.list_news(db, limit=query.limit, before=before))
    return schema.NewsList(news=[form_of(schema.News, item) for item in found])


@answers(endpoints.GET_NEWS)
async def get_news(call: Call, news_id: int) -> schema.News:
    """Read a news item."""
    return form_of(schema.News, await call.read(lambda db: users.news_item(db, news_id)))


@answers(endpoints.ADD_NEWS, quiet=True)
async def add_news(call: Call, body: schema.NewNews) -> schema.News:
    """Publish a news item."""

    def add(tx: Transaction) -> schema.News:
        news_id = interventions.publish_news(tx, call.ctx, body.title, body.text, call.actor)
        return form_of(schema.News, users.news_item(tx, news_id))

    return await call.write_once(add, schema.News)


@answers(endpoints.EDIT_NEWS, quiet=True)
async def edit_news(call: Call, news_id: int, body: schema.NewsChanges) -> schema.News:
    """Change a news item.

    Clients that have shown it do not show it again.
    """

    def edit(tx: Transaction) -> schema.News:
        old = users.news_item(tx, news_id)
        title = old.title if body.title is None else body.title
        text = old.text if body.text is None else body.text
        interventions.edit_news(tx, call.ctx, news_id, title, text, call.actor)
        return form_of(schema.News, users.news_item(tx, news_id))

    return await call.ctx.store.awrite(edit)


@answers(endpoints.WITHDRAW_NEWS, quiet=True)
async def withdraw_news(call: Call, news_id: int) -> schema.News:
    """Withdraw a news item.

    It leaves the pages and the feed; a client that has shown it keeps it.
    """

    def withdraw(tx: Transaction) -> schema.News:
        item = users.news_item(tx, news_id)
        interventions.withdraw_news(tx, call.ctx, news_id, call.actor)
        return form_of(schema.News, item)

    return await call.ctx.store.awrite(withdraw)


MAX_COMPUTERS = 1000


def _owner_of_token(call: Call) -> UserId:
    if call.token is None or call.token.user_id is None:
        raise unauthorised("This needs a volunteer's token: create one on the project's pages (tokens.php).")
    return call.token.user_id


@answers(endpoints.GET_OWN_ACCOUNT)
async def account(call: Call) -> schema.OwnAccount:
    """Your account."""
    user_id = _owner_of_token(call)
    user, counts = await call.read(
        lambda db: (users.user_by_id(db, user_id), page_queries.count_tasks(db, TaskOwner(user_id=user_id)))
    )
    if user is None:
        raise NotFound("The account no longer exists.")
    return form_of(
        schema.OwnAccount,
        user,
        created=user.create_time,
        total_credit=user.credit.total,
        recent_average_credit=decayed(user.credit.recent, call.now),
        tasks={state.value: number for state, number in counts.items()},
    )


@answers(endpoints.LIST_OWN_COMPUTERS)
async def computers(call: Call) -> schema.OwnComputers:
    """Your computers."""
    user_id = _owner_of_token(call)
    found = await call.read(lambda db: hosts.hosts_of_user(db, user_id, limit=MAX_COMPUTERS))
    return schema.OwnComputers(computers=[_computer(host, call.now) for host in found])


@answers(endpoints.LIST_OWN_TASKS)
async def tasks(call: Call, query: schema.TasksQuery) -> schema.OwnTasks:
    """Your tasks."""
    user_id = _owner_of_token(call)
    app_id = None if query.app is None else AppId(query.app)

    def read(db: Database) -> list[TaskRow]:
        owner = TaskOwner(user_id=user_id, app_id=app_id)
        if query.computer is not None:
            host = hosts.host_by_id(db, HostId(query.computer))
            if host is None or host.user_id != user_id:
                raise NotFound(f"You have no computer {query.computer}.")
            owner = TaskOwner(host_id=host.id, app_id=app_id)
        return page_queries.list_tasks(db, owner, state=query.state, before=query.before, limit=query.limit)

    rows = await call.read(read)
    more = len(rows) > query.limit
    shown = rows[: query.limit]
    return schema.OwnTasks(
        tasks=[schema.OwnTask(**task_fields(row)) for row in shown],
        before=shown[-1].result.id if more else None,
    )


def _computer(host: Host, now: float) -> schema.OwnComputer:
    about = host.description
    return schema.OwnComputer(
        id=host.id,
        name=host.label or about.domain_name,
        created=host.create_time,
        last_contact=host.rpc_time,
        venue=host.venue,
        processor=about.p_model,
        cpus=about.p_ncpus,
        system=about.os_name,
        total_credit=host.credit.total,
        recent_average_credit=decayed(host.credit.recent, now),
        blocked=host.blocked_reason,
    )


def task_fields(row: TaskRow) -> dict[str, Any]:
    """Return the fields of a reply about a task."""
    result = row.result
    return {
        "id": result.id,
        "name": result.name,
        "workunit": result.workunit_id,
        "app": row.app_title,
        "computer": result.host_id,
        "state": page_queries.task_state(result),
        "sent": result.sent_time,
        "deadline": result.report_deadline,
        "reported": result.received_time,
        "run_time": result.elapsed_time,
        "cpu_time": result.cpu_time,
        "exit_status": result.exit_status,
        "exit_meaning": exit_advice(result.exit_status).text() if result.exit_status else "",
        "credit": result.granted_credit,
    }
