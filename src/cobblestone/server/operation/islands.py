"""Islands of a project: making one, and how far each is.  What they are: docs/postgresql.md."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.domain.findings import Finding
from cobblestone.ops.durable_files import write_durably, write_private
from cobblestone.ops.settings import FILE_NAME, Settings, parse_settings, sections, settings_template
from cobblestone.policy.dispatch.islands import HOST_IDS, MAX_NUMBER
from cobblestone.server.core import islands as core
from cobblestone.server.core import plan_classes
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.islands import Island, load_islands
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.operation.create_project import ADMIN_TOKEN_NAME
from cobblestone.service.addresses import port_of
from cobblestone.store.catalog import keys
from cobblestone.store.engine.database import Database, Store, Transaction
from cobblestone.store.engine.select import is_postgres
from cobblestone.store.maintenance.snapshot import check_empty
from cobblestone.store.operation import island_accounts, island_credit
from cobblestone.store.people import tokens

LATE_SECONDS = 900.0
"""Credit that is older than this and not at the centre is late: `doctor` says so."""


# -- making one ----------------------------------------------------------------


def add_island(centre: ProjectFolder, root: Path, island: Island, *, now: float) -> None:
    """Make the folder and the database of an island, and note it in the centre's folder.

    The note comes last: what a crash leaves before is no island, and may be deleted.

    Raises:
        ConfigError: the two do not fit, or something is in the way; the text says what.
    """
    settings = centre.settings()
    if not is_postgres(centre.location(settings)):
        raise ConfigError(
            f"{centre.root} is on SQLite, and a project with islands is on PostgreSQL. Move it first: cobblestone project"
            f" move {centre.root} --to postgresql://USER@HOST/DATABASE"
        )
    if settings.island.number:
        raise ConfigError(
            f"{centre.root} is an island itself. Add islands to its centre, {settings.project.url}"
        )
    known = load_islands(centre.root)
    islands = msgspec.structs.replace(known, island=(*known.island, island))
    core.check_islands(islands, source=f"island {island.name}")
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ConfigError(f"{root} is not an empty folder. Give another name, or delete it first.")
    check_empty(island.database)
    with contextlib.closing(centre.open_store(settings)) as store:
        used = store.read(lambda db: island_accounts.last_id(db, "host"))
        if not known and used >= HOST_IDS:
            raise ConfigError(
                f"The centre has a computer {used}, and its own range of ids ends at {HOST_IDS}."
            )
        signing = store.read(keys.list_keys)
    _make_folder(centre, ProjectFolder(root.absolute()), settings, island, signing, now=now)
    write_private(centre.root / core.FILE_NAME, core.islands_text(islands).encode())


def free_number(centre: ProjectFolder) -> int:
    """Return the first range of ids that no island has.  Raises ConfigError: all are taken."""
    taken = {each.number for each in load_islands(centre.root).island}
    free = next((number for number in range(1, MAX_NUMBER + 1) if number not in taken), None)
    if free is None:
        raise ConfigError(f"There are {MAX_NUMBER} islands already, and no range of ids is left.")
    return free


def _make_folder(
    centre: ProjectFolder,
    folder: ProjectFolder,
    settings: Settings,
    island: Island,
    signing: list[keys.CodeSignKey],
    *,
    now: float,
) -> None:
    values = _settings_of(settings, island)
    own = parse_settings({name: dict(section) for name, section in values.items()}, source="island add")
    folder.make()
    for path in (centre.secret_file, centre.code_sign_public, centre.code_sign_private):
        if path.exists():  # the private key may be kept elsewhere
            write_private(folder.keys / path.name, path.read_bytes())
    secret = tokens.new_secret()
    identity = island_accounts.Identity(number=island.number, master_url=settings.project.url)

    def fill(tx: Transaction) -> None:
        island_accounts.found_island(tx, identity)
        keys.add_keys(tx, signing)
        tokens.create_token(tx, secret, name=ADMIN_TOKEN_NAME, scopes=list(tokens.Scope), now=now)

    with folder.lock(shared=True), contextlib.closing(folder.open_store(own)) as store:
        store.write(fill)
    write_private(folder.admin_token_file, secret.encode())
    classes = centre.root / plan_classes.FILE_NAME
    if classes.exists():
        write_durably(folder.root / plan_classes.FILE_NAME, classes.read_bytes())
    write_private(folder.root / FILE_NAME, settings_template(**values).encode())


def _settings_of(centre: Settings, island: Island) -> Mapping[str, dict[str, Any]]:
    """Return the centre's settings as an island needs them: its own address and database, no accounts and exports."""
    values: dict[str, dict[str, Any]] = {name: getattr(centre, name).model_dump() for name in sections()}
    values["server"]["port"] = port_of(island.url) or values["server"]["port"]
    values["database"]["url"] = island.database
    values["island"] = {"number": island.number, "url": island.url}
    values["export"]["every_seconds"] = 0
    values["storage"] |= {"prefix": f"{values['storage']['prefix']}island{island.number}/", "mirrors": ()}
    return values


# -- how far each is -----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandState:
    """How far an island is.  A problem: it cannot be reached, or is another's."""

    name: str
    number: int
    url: str
    share: float
    problem: str = ""
    waiting: int = 0  #: entries of its ledger that the centre does not have yet
    late_seconds: float = 0.0  #: age of the oldest of them
    entries: int = 0  #: that the centre has
    credit: float = 0.0
    entries_there: int = 0  #: of those, by the island's own ledger
    credit_there: float = 0.0
    accounts_missing: int = 0  #: the newest, that the island does not know yet

    @property
    def agrees(self) -> bool:
        """Whether both ledgers hold the same; sums of the same numbers in another order differ in their last digits."""
        return self.entries == self.entries_there and abs(self.credit - self.credit_there) <= 1e-9 * abs(
            self.credit
        )


def island_states(ctx: ServerContext, db: Database) -> Iterator[IslandState]:
    """Yield how far each island is, as seen from the centre."""
    for island in ctx.islands.island:
        try:
            with contextlib.closing(core.open_island(island, ctx.master_url)) as store:
                yield _state(ctx, db, island, store)
        except StoreError as error:
            yield IslandState(
                name=island.name,
                number=island.number,
                url=island.url,
                share=island.share,
                problem=str(error),
            )


def _state(ctx: ServerContext, db: Database, island: Island, store: Store) -> IslandState:
    after = island_credit.reached(db, island.number)
    entries, credit = island_credit.sums_at_centre(db, island.number)
    backlog = store.read(lambda there: island_credit.backlog(there, after=after))
    entries_there, credit_there = store.read(
        lambda there: island_credit.sums_of_island(there, island.number, until=after)
    )
    accounts = store.read(lambda there: island_accounts.last_id(there, "user_account"))
    return IslandState(
        name=island.name,
        number=island.number,
        url=island.url,
        share=island.share,
        waiting=backlog.entries,
        late_seconds=0.0 if backlog.oldest is None else max(0.0, ctx.clock() - backlog.oldest),
        entries=entries,
        credit=credit,
        entries_there=entries_there,
        credit_there=credit_there,
        accounts_missing=max(0, island_accounts.last_id(db, "user_account") - accounts),
    )


def island_findings(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    """Yield what is wrong with islands, for `cobblestone doctor`."""
    for state in island_states(ctx, db):
        if state.problem:
            yield Finding("out_of_reach", "island", state.name, state.problem)
            continue
        if state.late_seconds > LATE_SECONDS:
            late = f"{state.waiting} entries of its ledger wait, the oldest for {state.late_seconds / 60:.0f} minutes"
            yield Finding("late", "island", state.name, late)
        if not state.agrees:
            text = (
                f"its ledger has {state.entries_there} entries with {state.credit_there:.6f} credit, and the centre took"
                f" {state.entries} with {state.credit:.6f}"
            )
            yield Finding("not_of_ledger", "island", state.name, text)
