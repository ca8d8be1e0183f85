"""Data that leaves a project: rows for statistics sites, version scales, job states for account managers, backups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from cobblestone.domain.hosts import ExportedHardware
from cobblestone.domain.people import TeamType
from cobblestone.domain.statistics import CreditStatement
from cobblestone.domain.values import HostId, TeamId, UserId, value


class ExportedTable(StrEnum):
    """A kind of rows in an export."""

    USER = "user"
    USER_DELETED = "user_deleted"
    HOST = "host"
    HOST_DELETED = "host_deleted"
    TEAM = "team"
    BADGE_USER = "badge_user"
    BADGE_TEAM = "badge_team"
    BADGE_HOST = "badge_host"


class ExportOrder(StrEnum):
    """The order of rows in a file."""

    ID = "id"  #: the smallest first
    TOTAL = "total_credit"  #: the largest first
    RECENT = "expavg_credit"  #: the largest first


class ExportFormat(StrEnum):
    """How a file of rows is written."""

    GZIP = "gzip"  #: XML, packed
    PLAIN = "plain"  #: XML
    PARQUET = "parquet"  #: columns, for researchers

    def file_name(self, stem: str) -> str:
        """Return the name of a file of this kind."""
        return f"{stem}.{_ENDINGS[self]}"


_ENDINGS = {ExportFormat.GZIP: "gz", ExportFormat.PLAIN: "xml", ExportFormat.PARQUET: "parquet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Enumeration:
    """One pass over a table, in one order, into one file or several."""

    table: ExportedTable
    order: ExportOrder = ExportOrder.ID
    records_per_file: int = 0  #: 0: one file
    formats: tuple[ExportFormat, ...] = (ExportFormat.GZIP,)

    @property
    def stem(self) -> str:
        """Return the name of its files without number and extension."""
        return f"{self.table}_{self.order}" if self.records_per_file else self.table.value

    def part_name(self, part: int) -> str:
        """Return the stem of the file number ``part``, from 0."""
        return f"{self.stem}_{part}" if self.records_per_file else self.stem


@value(kw_only=True)
class ExportedUser:
    """A user who agreed to be exported."""

    id: UserId
    name: str
    create_time: float  #: Unix seconds, as all times here
    credit: CreditStatement
    cpid: str  #: external
    country: str = ""
    url: str = ""
    team_id: TeamId | None = None
    has_profile: bool = False


@value(kw_only=True)
class ExportedHost:
    """A computer shown by such a user."""

    id: HostId
    user_id: UserId
    credit: CreditStatement
    create_time: float
    rpc_time: float
    host_cpid: str
    hardware: ExportedHardware
    avg_turnaround: float = 0.0  #: seconds from sending to receipt, mean


@value(kw_only=True)
class ExportedTeam:
    """A team, with its founder's name if the founder agreed."""

    id: TeamId
    name: str
    credit: CreditStatement
    create_time: float
    founder_id: UserId | None = None
    founder_name: str = ""
    type: int = TeamType.CLUB
    url: str = ""
    name_html: str = ""
    description: str = ""
    country: str = ""


@value()
class Deletion:
    """A deletion of exported data that statistics sites must follow."""

    id: int
    cpid: str  #: of the user (external) or host


@value()
class BadgeHolder:
    """An owner of a badge, and since when."""

    owner_id: int
    badge_id: int
    create_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedBadge:
    """A badge that the project gives."""

    id: int
    name: str
    title: str
    image_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSummary:
    """Summary of an export."""

    update_time: float  #: when the rows were read
    n_users: int = 0
    n_teams: int = 0
    n_hosts: int = 0
    n_users_deleted: int = 0
    n_hosts_deleted: int = 0
    total_credit: float = 0.0  #: of the users
    applications: tuple[str, ...] = ()  #: names for people
    badges: tuple[ExportedBadge, ...] = ()


def enumerations(
    *, formats: tuple[ExportFormat, ...], split: ExportOrder | None, records_per_file: int
) -> Iterator[Enumeration]:
    """Yield the passes of an export: every table in one file; if split, users, hosts and teams also in parts."""
    for table in ExportedTable:
        yield Enumeration(table=table, formats=formats)
    if split is not None and records_per_file:
        xml = tuple(each for each in formats if each is not ExportFormat.PARQUET)
        for table in (ExportedTable.USER, ExportedTable.HOST, ExportedTable.TEAM):
            yield Enumeration(table=table, order=split, records_per_file=records_per_file, formats=xml)


SMALLEST_SCALE = 1e-6
#: No scale outside of these is believed: scales say how far peak speeds are from useful ones.
LARGEST_SCALE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionScale:
    """Scale and weight of one app version."""

    app_name: str
    platform: str
    version_num: int = 0  #: 100 * major + minor
    plan_class: str = ""
    expavg_credit: float = 0.0  #: recent average credit, in the project's credit per day
    pfc_scale: float = 0.0  #: 0: not known
    measured: bool = True  #: found by comparison with CPU versions of the same app, not taken from elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectScales:
    """The exported scales of one project."""

    name: str = ""
    master_url: str = ""
    credit_per_gflops_day: float = 200.0  #: the unit of its credit
    time: float = 0.0  #: Unix seconds
    versions: tuple[VersionScale, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedScale:
    """The scale that a list of projects found together for one plan class."""

    plan_class: str
    scale: float
    n_projects: int
    lowest: float  #: of the projects' own scales
    highest: float
    expavg_credit: float  #: of all projects together, at 200 credit per GFLOPS-day


#: Jobs or accounts in one question.
MAX_BATCH = 500


class CountedJobState(StrEnum):
    """A project's report on a job of an account."""

    UNKNOWN = "unknown"  #: no job of this account, or one that was forgotten
    IN_PROGRESS = "in_progress"
    REPORTED = "reported"  #: back, and not decided
    GRANTED = "granted"
    REFUSED = "refused"  #: failed, invalid, too late, cancelled


class KeysInBackup(StrEnum):
    """Secrets included in a backup."""

    ALL = "all"
    NO_SIGNING_KEY = "no-signing-key"  #: all but the private key that signs programs
    NONE = "none"
