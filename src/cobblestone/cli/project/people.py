"""``cobblestone user``, ``team`` and ``news``: accounts, teams, and news that clients show as notices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import click

from cobblestone.cli.options import Common, PageOptions, given
from cobblestone.cli.output import counted, when
from cobblestone.cli.parameters import Argument, Commands, Option
from cobblestone.domain.errors import ConfigError

if TYPE_CHECKING:
    from cobblestone.api_schema.people import GivenRights, News, UserDetails


ReasonOption = Annotated[str, Option(help="The reason and how to lift the block: the volunteer can read it.")]


BlockedOption = Annotated[
    bool | None, Option("--blocked/--not-blocked", help="Only those with this flag, or without it.")
]


def set_blocked(common: Common, noun: str, number: int, reason: str | None) -> None:
    """Block a host, or a user's hosts, with a reason, or unblock (no reason), and print that."""
    with common.connect() as connected:
        doing = connected.operation
        done = doing.unblock(noun, number) if reason is None else doing.block(noun, number, reason)
    common.out.done(done, f"{noun.title()} {number} {done.text}.", number)


user_commands = Commands(help="Accounts of volunteers.")
UserArgument = Annotated[
    int, Argument(metavar="ID", min=1, help="Number of the user; see `user list` and `cobblestone find`.")
]
RoleWord = Literal["operator", "volunteer"]


@user_commands.verb("create")
def create_user(
    email: Annotated[str, Argument(metavar="EMAIL", help="E-mail address.")],
    name: Annotated[str, Argument(metavar="NAME", help="Name that others see.")],
    password: Annotated[
        str, Option(help="Password; without one, clients attach with the authenticator.")
    ] = "",
    common: Common = Common(),
) -> None:
    """Create an account; prints the key that clients attach with."""
    with common.connect() as connected:
        made = connected.admin.create_user(email, name, password=password)
        url = connected.status().url
    common.out.show(
        made,
        lines=[
            f"Account {made.id} for {made.email}. A client attaches with:",
            f"  boinccmd --project_attach {url} {made.authenticator}",
        ],
        essential=[made.authenticator],
    )


@user_commands.verb("list")
def list_users(
    role: Annotated[RoleWord | None, Option(help="Only those with this role.")] = None,
    blocked: BlockedOption = None,
    page: PageOptions = PageOptions(),
    common: Common = Common(),
) -> None:
    """List accounts, newest first."""
    found = common.ask(
        lambda connected: connected.admin.users(
            limit=page.limit,
            before=page.before,
            role=None if role is None else _stored_role(role),
            blocked=blocked,
        )
    )
    rows = [
        (each.id, each.name, each.email, each.team_id, f"{each.total_credit:.2f}", when(each.created))
        for each in found
    ]
    common.out.table(
        found,
        ["id", "name", "e-mail", "team", "credit", "made"],
        rows,
        empty="No accounts.",
        right=("id", "team", "credit"),
    )


def _stored_role(name: str) -> str:
    return "" if name == "volunteer" else name


@user_commands.verb("show")
def show_user(user_id: UserArgument, common: Common) -> None:
    """Describe an account."""
    found = common.ask(lambda connected: connected.admin.user(user_id))
    common.out.show(found, lines=_user_lines(found), essential=[found.id])


def _user_lines(found: UserDetails) -> list[str]:
    choices = [
        "shows computers" if found.show_hosts else "hides computers",
        "takes mails" if found.send_email else "takes no mails",
        f"language {found.language}" if found.language else "browser language",
    ]
    return [
        f"User {found.id}: {found.name} <{found.email}>, {found.role or 'volunteer'}",
        f"  since        {when(found.created)}; team {found.team_id or '-'}; country {found.country or '-'}",
        f"  web page     {found.url or '-'}",
        f"  chose        {', '.join(choices)}",
        f"  log-in       {'with' if found.second_factor else 'without'} one-time password",
        f"  credit       {found.total_credit:.2f}, recent average {found.recent_average_credit:.2f}",
        f"  computers    {found.computers} (cobblestone host list --user {found.id})",
        f"  tasks        {counted(found.tasks)}",
        f"  submits      {_rights_line(found.submits)}",
        *([f"  blocked      {found.blocked}"] if found.blocked else []),
        *([f"  is erased    {when(found.erase_time)}"] if found.erase_time is not None else []),
    ]


def _rights_line(found: GivenRights | None) -> str:
    if found is None:
        return "no jobs"
    of = "all apps" if found.apps is None else ", ".join(found.apps)
    most = "" if found.max_jobs is None else f" of at most {found.max_jobs}"
    return f"jobs of {of}; {found.jobs_in_progress}{most} unfinished; share {found.share:g}"


@dataclass(frozen=True, kw_only=True)
class RightsOptions:
    """What a token, or an account, may submit."""

    apps: Annotated[list[str] | None, Option("--app", metavar="APP")] = None
    """Only jobs of this app. Repeatable."""
    max_jobs: Annotated[int | None, Option(min=1)] = None
    """Most unfinished jobs at a time."""
    share: Annotated[float, Option(min=1e-3)] = 1.0
    """Share of the computers when jobs of several submitters are waiting."""


@user_commands.verb("submit")
def submit(
    user_id: UserArgument,
    wanted: RightsOptions,
    all_apps: Annotated[bool, Option("--all-apps", help="Jobs of every app.")] = False,
    common: Common = Common(),
) -> None:
    """Let an account submit jobs, or change what it may submit."""
    from cobblestone.api_schema.people import Rights
    from cobblestone.domain.values import form_of

    if all_apps == bool(wanted.apps):
        raise click.BadParameter("give --app for each app that it may submit, or --all-apps")
    if wanted.max_jobs is None:
        raise click.BadParameter("give --max-jobs, the most unfinished jobs that it may have")
    rights = form_of(Rights, wanted, apps=tuple(wanted.apps) if wanted.apps else None)
    found = common.ask(lambda connected: connected.admin.set_rights(user_id, rights))
    common.out.done(found, f"User {user_id} may submit {_rights_line(found.submits)}.", user_id)


@user_commands.verb("revoke-submit")
def revoke_submit(user_id: UserArgument, common: Common) -> None:
    """Take the right to submit jobs from an account. Jobs that it has submitted go on."""
    found = common.ask(lambda connected: connected.admin.set_rights(user_id, None))
    common.out.done(found, f"User {user_id} may submit no more jobs.", user_id)


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """Editable fields of an account."""

    name: str | None = None
    """Name that others see."""
    country: str | None = None
    """Country; empty: none."""
    url: str | None = None
    """Web page; empty: none."""
    language: str | None = None
    """Language of pages and mails, such as fr; empty: the browser's."""
    show_hosts: Annotated[bool | None, Option("--show-hosts/--hide-hosts")] = None
    """Whether others can see the computers."""
    send_email: Annotated[bool | None, Option("--send-email/--no-email")] = None
    """Whether the project may send mail."""


@user_commands.verb("edit")
def edit_user(user_id: UserArgument, wanted: ProfileOptions, common: Common) -> None:
    """Change the profile of an account. Only its owner can change the e-mail address, on the account page."""
    from cobblestone.api_schema.people import UserChanges

    changes = given(wanted)
    if not changes:
        raise click.BadParameter("give what to change, such as --name or --hide-hosts")
    found = common.ask(lambda connected: connected.admin.change_user(user_id, UserChanges(**changes)))
    common.out.show(found, lines=_user_lines(found), essential=[found.id])


@user_commands.verb("role")
def role(
    user_id: UserArgument, name: Annotated[RoleWord, Argument(help="What the user may do.")], common: Common
) -> None:
    """Give a user access to the operator's pages, or withdraw it."""
    done = common.ask(lambda connected: connected.operation.set_role(user_id, _stored_role(name)))
    common.out.done(done, f"User {user_id} is now {done.text}.", user_id)


@user_commands.verb("block")
def block(user_id: UserArgument, reason: ReasonOption, common: Common) -> None:
    """Send no more work to the computers of a user."""
    set_blocked(common, "user", user_id, reason)


@user_commands.verb("unblock")
def unblock(user_id: UserArgument, common: Common) -> None:
    """Send work to the computers of a user again."""
    set_blocked(common, "user", user_id, None)


@user_commands.verb("reset-password")
def reset_password(user_id: UserArgument, common: Common) -> None:
    """Give a user a new password, shown only once; clients must attach again."""
    done = common.ask(lambda connected: connected.operation.reset_password(user_id))
    common.out.show(
        done,
        lines=[f"The new password of user {user_id}, shown only once:", done.password],
        essential=[done.password],
    )


@user_commands.verb("delete")
def delete(
    user_id: UserArgument,
    yes: Annotated[bool, Option("--yes", help="Do not ask for confirmation.")] = False,
    common: Common = Common(),
) -> None:
    """Erase an account: personal data is deleted permanently, credit stays in the totals."""
    if not (yes or click.confirm(f"Erase the account of user {user_id} permanently?", err=True)):
        raise ConfigError("Nothing is erased. To erase it without this question: --yes")
    done = common.ask(lambda connected: connected.operation.delete_user(user_id))
    common.out.done(done, f"User {user_id} {done.text}.", user_id)


team_commands = Commands(help="Teams of users.")
UserIdArgument = Annotated[int, Argument(metavar="USERID", help="See `user list`.")]


@team_commands.verb("create")
def create_team(
    name: Annotated[str, Argument(metavar="NAME", help="Name of the team.")],
    founder: UserIdArgument,
    common: Common,
) -> None:
    """Create a team; its founder joins it."""
    made = common.ask(lambda connected: connected.admin.create_team(name, founder))
    common.out.done(made, f"Team {made.id}: {made.name}.", made.id)


@team_commands.verb("join")
def join(
    team: Annotated[str, Argument(metavar="TEAM", help="Name or number.")],
    user: UserIdArgument,
    common: Common,
) -> None:
    """Add a user to a team."""
    joined = common.ask(lambda connected: connected.admin.join_team(team, user))
    common.out.done(joined, f"User {user} is now in {joined.name}.", joined.id)


@team_commands.verb("list")
def list_teams(common: Common) -> None:
    """List teams."""
    found = common.ask(lambda connected: connected.admin.teams())
    rows = [
        (each.id, each.name, each.founder, f"{each.total_credit:.2f}", when(each.created)) for each in found
    ]
    common.out.table(
        found, ["id", "name", "founder", "credit", "made"], rows, empty="No teams yet.", right=("credit",)
    )


news_commands = Commands(help="News for volunteers.")
NewsArgument = Annotated[int, Argument(metavar="ID", min=1, help="Number of the news item; see `news list`.")]


@news_commands.verb("add")
def add_news(
    title: Annotated[str, Argument(metavar="TITLE", help="Its title.")],
    text: Annotated[str, Argument(metavar="TEXT", help="In Markdown.")],
    common: Common,
) -> None:
    """Publish a news item; clients get it as a notice."""
    made = common.ask(lambda connected: connected.admin.add_news(title, text))
    common.out.done(made, f"News item {made.id} is published.", made.id)


@news_commands.verb("list")
def list_news(page: PageOptions, common: Common) -> None:
    """List news, newest first."""
    found = common.ask(lambda connected: connected.admin.news(limit=page.limit, before=page.before))
    rows = [(each.id, when(each.time), each.title) for each in found]
    common.out.table(found, ["id", "published", "title"], rows, empty="No news yet.", right=("id",))


@news_commands.verb("show")
def show_news(news_id: NewsArgument, common: Common) -> None:
    """Show a news item with its text."""
    found = common.ask(lambda connected: connected.admin.news_item(news_id))
    common.out.show(found, lines=_news_lines(found), essential=[found.text])


def _news_lines(found: News) -> list[str]:
    return [f"News {found.id}, {when(found.time)}: {found.title}", "", *found.text.splitlines()]


@news_commands.verb("edit")
def edit_news(
    news_id: NewsArgument,
    title: Annotated[str | None, Option(help="New title.")] = None,
    text: Annotated[str | None, Option(help="New text, in Markdown.")] = None,
    common: Common = Common(),
) -> None:
    """Change a news item; clients that have shown it do not show it again."""
    if title is None and text is None:
        raise click.BadParameter("give what to change: --title or --text")
    found = common.ask(lambda connected: connected.admin.edit_news(news_id, title=title, text=text))
    common.out.show(found, lines=_news_lines(found), essential=[found.id])


@news_commands.verb("withdraw")
def withdraw(news_id: NewsArgument, common: Common) -> None:
    """Remove a news item from the pages and the feed; a client that has shown it keeps it."""
    found = common.ask(lambda connected: connected.admin.withdraw_news(news_id))
    common.out.done(found, f"News item {found.id} ({found.title}) is withdrawn.", found.id)
