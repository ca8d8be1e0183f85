"""A site's folder: its settings with the list of projects, and the state of each project."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

import msgspec
from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from cobblestone.domain.errors import ConfigError
from cobblestone.ops import settings
from cobblestone.ops.files import write_durably, write_private
from cobblestone.ops.settings import (
    ENVIRONMENT_PREFIX,
    Bytes,
    Count,
    FileSettings,
    Seconds,
    Section,
    ServerSection,
)
from cobblestone.service.folder import Kind, Place, ServiceFolder

SETTINGS_FILE = "statistics.toml"
MAX_PROJECTS = 1000
TEMPLATE = """\
# A statistics site. See docs/statistics.md.

[site]
name = "Statistics"
url = "http://127.0.0.1:8095/"

[server]
port = 8095

[collect]
every_seconds = 86400

# One table for each project. The order is that of trust: who holds a cross-project id in the first project of the list is the
# person that it stands for.
#
# [[project]]
# name = "example"                            # in addresses
# title = "Example@home"
# url = "https://example.org/project/stats/"  # the folder of the export
# join = "name"                               # or "cpid": believe its cross-project ids; "no": never join its accounts
"""


class Join(StrEnum):
    """When an account of a project belongs to the person with its cross-project id."""

    CPID = "cpid"  #: always: the operator vouches for the project
    NAME = "name"  #: if it also has the name of that person's account in the first project of the list
    NO = "no"


class SiteSection(Section):
    """The public presentation of the site."""

    name: str = Field("Statistics", min_length=1, max_length=100)
    url: str = Field("http://127.0.0.1:8095/", pattern=r"^https?://[^\s\"'<>?#]+/$")


class CollectSection(Section):
    """How exports are downloaded."""

    every_seconds: Seconds = Field(86400.0, ge=10)
    step_seconds: Seconds = Field(86400.0, ge=10, le=86400)
    retry_seconds: Seconds = Field(3600.0, ge=10)
    pause_seconds: Seconds = Field(2.0, le=3600)
    timeout_seconds: Seconds = Field(60.0, ge=1)
    max_seconds_per_file: Seconds = Field(4 * 3600.0, ge=1)
    max_seconds_per_project: Seconds = Field(6 * 3600.0, ge=1)
    least_bytes_per_second: Bytes = 10_000
    max_file_bytes: Bytes = Field(5_000_000_000, ge=1000)
    max_rows: Count = Field(20_000_000, ge=1)


class CollectedSource(Section):
    """A project whose export is collected."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")
    title: str = Field(min_length=1, max_length=100)
    url: str = Field(pattern=r"^https?://[^\s\"'<>?#]+/$", max_length=500)
    join: Join = Join.NAME
    credit_per_gflops_day: float = Field(default=200.0, gt=0, le=1e6, allow_inf_nan=False)


class StatisticsSettings(FileSettings):
    """The whole file."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=f"{ENVIRONMENT_PREFIX}STATISTICS_", env_nested_delimiter="__"
    )
    file_name: ClassVar[str] = SETTINGS_FILE
    what: ClassVar[str] = "statistics"
    title: ClassVar[str] = "statistics site"

    site: SiteSection = SiteSection()  # pyright: ignore[reportCallIssue]  # all fields have defaults
    server: ServerSection = ServerSection(port=8095)  # pyright: ignore[reportCallIssue]  # fields have defaults
    collect: CollectSection = CollectSection()  # pyright: ignore[reportCallIssue]  # fields have defaults
    project: tuple[CollectedSource, ...] = Field(default=(), max_length=MAX_PROJECTS)

    @field_validator("project")
    @classmethod
    def _check_names(cls, value: tuple[CollectedSource, ...]) -> tuple[CollectedSource, ...]:
        names = [source.name for source in value]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two projects have the name {min(doubled)!r}")
        return value


def load_settings(root: Path) -> StatisticsSettings:
    """Read a site's settings.  Raises ConfigError: see `cobblestone.ops.settings.load_settings`."""
    return settings.load_settings(root, StatisticsSettings)


def create_site(root: Path) -> Path:
    """Create the folder of a new site; return its settings file.  Raises ConfigError if there is one already."""
    path = root / SETTINGS_FILE
    if path.exists():
        raise ConfigError(f"{path} exists already: nothing was changed.")
    root.mkdir(parents=True, exist_ok=True)
    write_private(root / "secret", secrets.token_bytes(32))
    path.write_text(TEMPLATE, encoding="utf-8")
    return path


STATE_FILE = "state.json"


class FetchedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A project's response headers for a stored file."""

    etag: str = ""
    last_modified: str = ""


class RowCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Row counts of an accepted export."""

    users: int = 0
    hosts: int = 0
    teams: int = 0
    refused: int = 0  #: records that cannot be
    doubled: int = 0  #: records with a number that came before


class CollectedProject(msgspec.Struct, frozen=True, kw_only=True):
    """One project."""

    generation: str = ""  #: folder of the rows that count; empty: nothing was read yet
    exported: float = 0.0  #: when the project read those rows; Unix seconds, as all times here
    collected: float = 0.0  #: when they came here
    tried: float = 0.0  #: when the last attempt began
    problem: str = ""  #: of the last attempt; empty: it went well
    counts: RowCounts = RowCounts()
    files: dict[str, FetchedFile] = {}
    seconds: float = 0.0  #: that reading the export took


@dataclass(frozen=True, slots=True)
class ExportFolder:
    """The rows of one project on disk."""

    root: Path

    incoming = Place("incoming")  #: folder of downloaded files
    state_file = Place(STATE_FILE)  #: file with the project's state
    #: folder of exports that were read: the current one, and at times one being read
    generations = Place("rows")
    all_history = Place("history")  #: folder with histories of users, computers and teams

    def rows(self, generation: str) -> Path:
        """Return the folder of Parquet files of one export."""
        return self.generations / generation

    def history(self, kind: str) -> Path:
        """Return the folder of Parquet files of former days."""
        return self.all_history / kind

    def read_state(self) -> CollectedProject:
        """Return the state; empty if the file is missing or unreadable: the export is then collected again."""
        try:
            return msgspec.json.decode(self.state_file.read_bytes(), type=CollectedProject)
        except (OSError, msgspec.MsgspecError):
            return CollectedProject()

    def write_state(self, state: CollectedProject) -> None:
        """Write the state, atomically.  Raises OSError."""
        write_durably(self.state_file, msgspec.json.encode(state))


@dataclass(frozen=True, slots=True)
class SiteFolder(ServiceFolder):
    """Where a statistics site lies on disk."""

    kind: ClassVar[Kind] = Kind(
        what="statistics site",
        settings=SETTINGS_FILE,
        address=lambda root: load_settings(root) and "",
        secrets="secret",
    )

    secret = Place("secret")  #: random bytes from which cookies are derived
    projects = Place("projects")  #: folder with a subfolder for each project
    published = Place("published")  #: folder of published files for pages: one file, the newest
    history = Place("history")  #: folder of daily figures of projects, countries, systems and processors

    def known_projects(self) -> list[ExportFolder]:
        """Return the folders of all projects with data, including those no longer listed."""
        paths = sorted(self.projects.iterdir()) if self.projects.exists() else []
        return [ExportFolder(path) for path in paths if path.is_dir()]

    def project(self, name: str) -> ExportFolder:
        """Return the folder of a project."""
        return ExportFolder(self.projects / name)
