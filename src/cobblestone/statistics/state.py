"""What is known of each project on the list: what was fetched, what of it counts, and how the last attempt went."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from cobblestone.ops.durable_files import write_durably

FILE_NAME = "state.json"


class FetchedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the project's server said of a file that lies here."""

    etag: str = ""
    last_modified: str = ""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of an export that was taken."""

    users: int = 0
    hosts: int = 0
    teams: int = 0
    refused: int = 0  #: records that cannot be
    doubled: int = 0  #: records with a number that came before


class ProjectState(msgspec.Struct, frozen=True, kw_only=True):
    """One project."""

    generation: str = ""  #: folder of the rows that count; empty: nothing was read yet
    exported: float = 0.0  #: when the project read those rows; Unix seconds, as all times here
    collected: float = 0.0  #: when they came here
    tried: float = 0.0  #: when the last attempt began
    problem: str = ""  #: of the last attempt; empty: it went well
    counts: Counts = Counts()
    files: dict[str, FetchedFile] = {}
    seconds: float = 0.0  #: that reading the export took


@dataclass(frozen=True, slots=True)
class ProjectFolder:
    """Where the rows of one project lie."""

    root: Path

    @property
    def incoming(self) -> Path:
        """Files as they came."""
        return self.root / "incoming"

    @property
    def state_file(self) -> Path:
        """What is known of the project."""
        return self.root / FILE_NAME

    @property
    def generations(self) -> Path:
        """A folder for each export that was read: that which counts, and at times one that is being read."""
        return self.root / "rows"

    @property
    def all_history(self) -> Path:
        """A folder of history for users, computers and teams each."""
        return self.root / "history"

    def rows(self, generation: str) -> Path:
        """Parquet files of one export."""
        return self.generations / generation

    def history(self, kind: str) -> Path:
        """Parquet files of former days."""
        return self.all_history / kind

    def read_state(self) -> ProjectState:
        """Return what is known; nothing, if the file is missing or unreadable: the export is then collected anew."""
        try:
            return msgspec.json.decode(self.state_file.read_bytes(), type=ProjectState)
        except (OSError, msgspec.MsgspecError):
            return ProjectState()

    def write_state(self, state: ProjectState) -> None:
        """Keep what is known, all or nothing.  Raises OSError."""
        write_durably(self.state_file, msgspec.json.encode(state))


@dataclass(frozen=True, slots=True)
class SiteFolder:
    """Where a statistics site lies on disk."""

    root: Path

    @property
    def lock(self) -> Path:
        """Held by the process that runs the site."""
        return self.root / "lock"

    @property
    def secret(self) -> Path:
        """Random bytes from which cookies are made."""
        return self.root / "secret"

    @property
    def projects(self) -> Path:
        """A folder for each project."""
        return self.root / "projects"

    @property
    def published(self) -> Path:
        """What pages read: one file, the newest."""
        return self.root / "published"

    @property
    def history(self) -> Path:
        """Figures of projects, countries, systems and processors by day."""
        return self.root / "history"

    def known_projects(self) -> list[ProjectFolder]:
        """Return the folders of all projects from which anything came, also of those that are on the list no more."""
        paths = sorted(self.projects.iterdir()) if self.projects.exists() else []
        return [ProjectFolder(path) for path in paths if path.is_dir()]

    def project(self, name: str) -> ProjectFolder:
        """Return the folder of a project."""
        return ProjectFolder(self.projects / name)
