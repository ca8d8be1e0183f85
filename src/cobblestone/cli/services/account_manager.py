"""``cobblestone manager``: an account manager, one account for all projects."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from cobblestone.cli.options import HostOption, OutputOptions, PortOption
from cobblestone.cli.output import named
from cobblestone.cli.parameters import Argument, Commands, Option
from cobblestone.cli.project.setup import NewFolderArgument, NewServiceOptions
from cobblestone.cli.services import account_manager_upkeep
from cobblestone.cli.services.account_manager_upkeep import FolderArgument
from cobblestone.domain.texts import several
from cobblestone.ops.environment import typed_word

if TYPE_CHECKING:
    from cobblestone.account_manager.model import ManagedProject

manager_commands = Commands(help="One account for all projects: an account manager for volunteers.")

WhichArgument = Annotated[str, Argument(metavar="PROJECT", help="Its number or address.")]
ShareOption = Annotated[float | None, Option(help="Share of all computing, relative to the other projects.")]
SharedKeyOption = Annotated[
    str | None,
    Option(
        metavar="WEAKKEY",
        help="Weak key of one account shared by all users. Default: each user gets an account there; "
        "empty: back to that.",
    ),
]
KeywordsOption = Annotated[
    list[str] | None,
    Option(
        "--keyword",
        metavar="NUMBER[=PART]",
        help="Keywords of its jobs, with their share (1: all). Replaces earlier ones; repeat it.",
    ),
]


@manager_commands.verb("create")
def create(folder: NewFolderArgument, new: NewServiceOptions, out: OutputOptions = OutputOptions()) -> None:
    """Create an account manager: settings, keys, database."""
    from cobblestone.account_manager.core.folder import create_manager
    from cobblestone.service.settings import NewService

    made = create_manager(folder, NewService(**asdict(new)))
    out.show(
        {"folder": str(made.folder.root), "url": made.url, "port": made.port},
        lines=[
            f"Created an account manager in {made.folder.root} for {made.url}",
            "The first account created on its pages is the operator's.",
            "The key keys/url_sign_private signs the addresses of projects. It can be kept on another machine.",
            "",
            "Next:",
            f"  cobblestone manager run {typed_word(folder)}",
            f"  cobblestone manager add {typed_word(folder)} PROJECT_URL",
        ],
        essential=[made.folder.root],
    )


@manager_commands.verb("run")
def run(
    folder: FolderArgument,
    check: Annotated[
        bool, Option("--check", help="Only check that it could run: settings, keys, database.")
    ] = False,
    host: HostOption = None,
    port: PortOption = None,
) -> None:
    """Run the account manager until Ctrl-C."""
    from cobblestone.account_manager.core.context import ManagerContext
    from cobblestone.account_manager.core.folder import ManagerFolder
    from cobblestone.account_manager.run import MANAGER_SERVICE, check_start
    from cobblestone.cli.output import print_error
    from cobblestone.ops.logging import configure_logging
    from cobblestone.service.serving import run_service

    if check:
        check_start(folder, replaces=os.getppid())  # a running one asks, which then starts again
        click.echo(f"{folder} could run.")
        return
    settings = ManagerFolder(folder).settings()
    configure_logging(level=settings.log.level, json=settings.log.json_lines)

    def ready(ctx: ManagerContext) -> None:
        print_error(f"{ctx.settings.manager.name} runs at {ctx.master_url} – stop it with Ctrl-C.")

    run_service(MANAGER_SERVICE, folder, host=host, port=port, ready=ready)


@manager_commands.verb("add")
def add(
    folder: FolderArgument,
    url: Annotated[str, Argument(metavar="URL", help="The project's address, as volunteers attach to it.")],
    share: ShareOption = 1.0,
    shared_key: SharedKeyOption = None,
    keyword: KeywordsOption = None,
    signature: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="Signature made with `manager sign`, if the private key is kept elsewhere."
        ),
    ] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Add a project; the account manager may be running."""
    from cobblestone.account_manager.core import operation
    from cobblestone.store.engine.database import Transaction

    keywords = _keywords(keyword)
    now = time.time()

    with operation.open_beside(folder) as (opened, store):
        signed = operation.sign_address(opened, url, signature.read_text("ascii") if signature else "")

        def write(tx: Transaction) -> int:
            id_ = operation.add_project(
                tx, url, signature=signed, share=share or 0.0, shared_key=shared_key or "", now=now
            )
            if keywords:
                operation.change_project(tx, id_, keywords=keywords, now=now)
            return id_

        id_ = store.write(write)
    out.done({"id": id_, "url": url}, f"Project {id_}: {url}", id_)


@manager_commands.verb("edit")
def edit(
    folder: FolderArgument,
    project: WhichArgument,
    share: ShareOption = None,
    shared_key: SharedKeyOption = None,
    keyword: KeywordsOption = None,
    stop: Annotated[
        bool | None, Option("--stop/--start", help="Send no one there any more; or again.")
    ] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Change a project: share, keywords, account; stop or start it."""
    from cobblestone.account_manager.core import operation
    from cobblestone.store.engine.database import Transaction

    keywords = None if keyword is None else _keywords(keyword)
    now = time.time()

    def write(tx: Transaction) -> ManagedProject:
        known = operation.find_project(tx, project)
        return operation.change_project(
            tx, known.id, share=share, stopped=stop, keywords=keywords, shared_key=shared_key, now=now
        )

    with operation.open_beside(folder) as (_, store):
        changed = store.write(write)
    out.done(
        named(changed, "id", "url", "share", "stopped"),
        f"Project {changed.id}: {changed.url}, share {changed.share:g}{', stopped' if changed.stopped else ''}",
        changed.id,
    )


@manager_commands.verb("projects")
def list_projects(folder: FolderArgument, out: OutputOptions = OutputOptions()) -> None:
    """List the projects, with what was counted and why one cannot be used."""
    from cobblestone.account_manager.core import operation
    from cobblestone.account_manager.store import ledger, projects

    with operation.open_beside(folder) as (_, store):
        found = store.read(
            lambda db: [(each, ledger.sum_of(db, "project", each.id)) for each in projects.all_projects(db)]
        )
    rows = [
        (str(each.id), each.name, each.url, f"{each.share:g}", f"{counted.credit:.2f}", state)
        for each, counted in found
        for state in ["stopped" if each.stopped else each.problem or "good"]
    ]
    data = [
        {**named(each, "id", "name", "url", "share", "stopped", "problem"), "credit": counted.credit}
        for each, counted in found
    ]
    columns = ["id", "name", "address", "share", "credit", "state"]
    out.table(data, columns, rows, empty="No projects yet.", right=("id", "share", "credit"))


@manager_commands.verb("accounting")
def accounting(
    folder: FolderArgument,
    project: WhichArgument,
    token_file: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="The token that the project's operator gave you (`cobblestone token create NAME --scope accounting`).",
        ),
    ] = None,
    stop: Annotated[bool, Option("--stop", help="Stop asking it: its credit is an estimate again.")] = False,
    vouch: Annotated[
        bool | None,
        Option(
            "--vouch/--no-vouch",
            help="Trust its validation, or not: without trust, what it grants counts as a claim only.",
        ),
    ] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Ask a project for granted credit, or stop asking, and show the state of it."""
    from cobblestone.account_manager.core import operation
    from cobblestone.cli.output import when

    with operation.open_beside(folder) as (_, store):
        token = "" if stop else operation.read_token(token_file) if token_file else None
        state, accounts = store.write(
            lambda tx: operation.change_accounting(tx, project, token=token, vouched=vouch, now=time.time())
        )
    asked = "asked" if state.token else "not asked"
    lines = [
        f"Project {state.project_id} is {asked} for granted credit, of {several(accounts, 'account')}.",
        "Its validation is trusted."
        if state.vouched
        else "Its validation is not trusted, so what it grants counts as a claim only. If you know "
        "that it validates: --vouch",
    ]
    if state.asked_time:
        lines.append(f"Last report: {when(state.asked_time)}.")
    if state.problem:
        lines.append(f"The last request failed: {state.problem}")
    data = {
        "project": state.project_id,
        "asked": bool(state.token),
        "vouched": state.vouched,
        "accounts": accounts,
        **named(state, "asked_time", "failures", "problem"),
    }
    out.show(data, lines=lines, essential=[asked])


@manager_commands.verb("keyword")
def keyword_(
    folder: FolderArgument,
    number: Annotated[int, Argument(min=1, max=2**31 - 1, help="Number of the keyword, as in BOINC.")],
    name: Annotated[str, Argument(help="Name that users see. Default: that of the family's list.")] = "",
    place: Annotated[bool, Option("--place", help="A place where research is done, not a subject.")] = False,
) -> None:
    """Define a keyword: a subject or place that people can choose to support or reject."""
    from cobblestone.account_manager.core import operation
    from cobblestone.account_manager.store import projects
    from cobblestone.domain.people import KEYWORDS, is_place

    if not name:
        place, name = is_place(number), KEYWORDS[number].name
    kind = "place" if place else "subject"
    with operation.open_beside(folder) as (_, store):
        store.write(lambda tx: projects.put_keywords(tx, {number: (kind, name[:100])}))


@manager_commands.verb("password")
def password(
    folder: FolderArgument,
    email: Annotated[str, Argument(metavar="EMAIL", help="The address of the account.")],
) -> None:
    """Set a new password for a user who forgot it, and print it. Computers stay attached."""
    import asyncio

    from cobblestone.account_manager.core import operation

    with operation.open_beside(folder) as (_, store):
        click.echo(asyncio.run(operation.new_password(store, email)))


@manager_commands.verb("sign")
def sign(
    key: Annotated[Path, Argument(metavar="KEYFILE", help="The private key, keys/url_sign_private.")],
    url: Annotated[str, Argument(metavar="URL", help="The project's address.")],
) -> None:
    """Sign a project's address, on the machine that keeps the private key; prints the signature."""
    from cobblestone.wire.project.pages import canonical_master_url
    from cobblestone.wire.project.signatures import decode_private_key, sign_bytes

    text = key.read_text(encoding="ascii", errors="replace")
    click.echo(sign_bytes(decode_private_key(text), canonical_master_url(url).encode()), nl=False)


@manager_commands.verb("ledger")
def ledger_(
    folder: FolderArgument,
    repair: Annotated[bool, Option("--repair", help="Recompute wrong daily sums.")] = False,
    delete: Annotated[list[int] | None, Option(metavar="ID", help="Delete a bad entry; repeat it.")] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Check that all sums agree with the ledger; delete bad entries."""
    from cobblestone.account_manager.core import operation
    from cobblestone.account_manager.store import ledger

    with operation.open_beside(folder) as (_, store):
        deleted = store.write(lambda tx: ledger.delete_entries(tx, delete or []))
        wrong = store.write(lambda tx: operation.verify_sums(tx, repair=repair))
    lines = (
        [f"Deleted entries: {len(deleted)}, worth {sum(each.amounts.credit for each in deleted):.2f}."]
        if delete
        else []
    )
    if wrong:
        verb = "were wrong and have been recomputed" if repair else "are wrong; --repair recomputes them"
        lines.append(f"Sums of days that {verb}: {len(wrong)}.")
    else:
        lines.append("All sums agree with the ledger.")
    out.show(
        {"deleted": [each.id for each in deleted], "wrong_days": wrong, "repaired": repair},
        lines=lines,
        essential=wrong,
    )


def _keywords(given: list[str] | None) -> dict[int, float]:
    """Return the share of jobs by keyword.  Raises ConfigError."""
    from cobblestone.domain.errors import ConfigError

    found: dict[int, float] = {}
    for each in given or []:
        number, _, part = each.partition("=")
        try:
            found[int(number)] = float(part) if part else 1.0
        except ValueError:
            raise ConfigError(
                f"--keyword {each}: give a number, optionally with =PART such as 3=0.5."
            ) from None
    return found


account_manager_upkeep.register(manager_commands)
