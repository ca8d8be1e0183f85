"""The islands of a project, which compute for it on servers and databases of their own: ``islands.toml`` in its folder."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.ops.settings import toml_value
from cobblestone.policy.dispatch.islands import MAX_NUMBER
from cobblestone.store.engine.database import Store
from cobblestone.store.maintenance.upgrade import current_revision
from cobblestone.store.operation.island_accounts import Identity, check_island
from cobblestone.store.schema.project import PROJECT

FILE_NAME = "islands.toml"
CENTRE = 0
"""The number of the project's own range of ids."""

Share = Annotated[float, Meta(ge=0, le=1e6)]


class Island(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server with jobs of its own, whose accounts and credit are kept by the centre."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,30}$")]
    number: Annotated[int, Meta(ge=1, le=MAX_NUMBER)]  #: of its range of ids
    url: Annotated[str, Meta(pattern=r"^https?://[^\s\"'<>&?#]{1,100}/$")]
    database: Annotated[str, Meta(pattern=r"^postgres(ql)?://", max_length=1000)]
    share: Share = 1.0  #: of new computers, against the others'


class Islands(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All islands of a project."""

    centre_share: Share = 1.0  #: of new computers that the project serves itself
    island: tuple[Island, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.island)

    @property
    def shares(self) -> Mapping[int, float]:
        """Parts of new computers by number."""
        return {CENTRE: self.centre_share, **{each.number: each.share for each in self.island}}


def load_islands(folder: Path) -> Islands:
    """Read what islands the project in a folder has; without the file it has none.

    Raises:
        ConfigError: the file is wrong; the text says what and where.
    """
    path = folder / FILE_NAME
    try:
        found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Islands)
    except FileNotFoundError:
        return Islands()
    except (OSError, ValueError) as error:  # not to be read, no TOML, or other keys and values than above
        raise ConfigError(f"{path} cannot be used: {error}.") from error
    check_islands(found, source=str(path))
    return found


def made_island(**values: object) -> Island:
    """Make an island of what somebody typed.  Raises ConfigError: a value is wrong."""
    try:
        return msgspec.convert(values, Island)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The island cannot be made: {error}.") from error


def check_islands(islands: Islands, *, source: str) -> None:
    """Refuse islands that are in each other's way.  Raises ConfigError."""
    for problem in _problems(islands):
        raise ConfigError(f"{source}: {problem}.")


def _problems(islands: Islands) -> Iterator[str]:
    for key in ("name", "number", "url", "database"):
        values = [getattr(each, key) for each in islands.island]
        double = next((value for value in values if values.count(value) > 1), None)
        if double is not None:
            yield f"two islands have the {key} {double!r}" + (
                ": their ranges of ids overlap" if key == "number" else ""
            )
    if not any(islands.shares.values()):
        yield "every share is 0, so no new computer is served: give one island or centre_share more"


def islands_text(islands: Islands) -> str:
    """Return the text of the file."""
    lines = [
        "# Islands: servers with jobs and a PostgreSQL server of their own, see docs/postgresql.md. Restart after changes.",
        "# share: part of the new computers, against the others'; 0: none. Computers that are there stay where they are.",
        f"centre_share = {toml_value(islands.centre_share)}",
    ]
    for island in islands.island:
        values = msgspec.structs.asdict(island)
        lines += ["", "[[island]]", *(f"{key} = {toml_value(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def open_island(island: Island, master_url: str) -> Store:
    """Open the database of an island of the project at an address; not from the event loop.

    Raises:
        StoreError: it cannot be reached, has another schema, or is not that of this island.
    """
    found = current_revision(island.database, PROJECT)
    if found != PROJECT.head:
        raise StoreError(
            f"The database of island {island.name} has schema {found or 'none'}, and this program {PROJECT.head}. Upgrade both:"
            " cobblestone upgrade DIR"
        )
    store = Store(island.database, readers=1)
    try:
        identity = Identity(number=island.number, master_url=master_url)
        store.read(lambda db: check_island(db, identity))
    except BaseException:
        store.close()
        raise
    return store
