"""The project's settings: one typed TOML file with comments, overridden by environment variables.

Every key is described here once; the file written for a new project and the table in the documentation come from these
descriptions.  Unknown keys are refused with the nearest known one as a hint.
"""
# length: all sections stand side by side, as in the file that they describe.

from __future__ import annotations

import difflib
import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    TypeAdapter,
    ValidationError,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.texts import MAX_BYTES, markup_in
from cobblestone.ops.environment import FILE_NAME

ENVIRONMENT_PREFIX = "COBBLESTONE_"


def _up_to(most: float) -> AfterValidator:
    """Return a check for 0 to ``most``; as bounds of a `Field` they would replace the narrower ones of a setting."""

    def check(value: float) -> float:
        if not 0 <= value <= most:
            raise ValueError(f"must be 0 to {most:,.0f}")
        return value

    return AfterValidator(check)


Seconds = Annotated[float, _up_to(10 * 365 * 86400)]
Count = Annotated[int, _up_to(1e9)]
Bytes = Annotated[int, _up_to(1e15)]


class Section(BaseModel):
    """A table of the settings file; the text below a field describes it there."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ServiceSection(Section):
    """The public presentation of a service."""

    name: str = Field("My project", min_length=1, max_length=100)
    """Shown to volunteers."""
    description: str = Field("", max_length=2000)
    """One paragraph on the home page: what is computed, why."""
    url: str = "http://127.0.0.1:8080/"
    """Master URL, exactly as volunteers attach to it. Clients keep it permanently; the host part needs a dot (127.0.0.1, not
    localhost). BOINC's clients refuse an IPv6 address in it; ours do not."""

    list_number: int = Field(0, ge=0, le=10**9)
    """Number of the project in the list of projects that clients download; 0: not in the list."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if piece := markup_in(value):
            raise ValueError(f"clients would lose their jobs over {piece!r} in it: remove it")
        if not value.isprintable() or len(value.encode()) > MAX_BYTES:
            raise ValueError(f"must consist of printable characters, at most {MAX_BYTES} bytes")
        return value

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        url = TypeAdapter(HttpUrl).validate_python(value)
        if "." not in (url.host or "") and ":" not in (url.host or ""):
            raise ValueError(
                f"BOINC clients reject a host without a dot ({url.host!r}): write 127.0.0.1 or a full name"
            )
        if url.query or url.fragment or len(value) > 120 or any(c in "<>&\"' " for c in value):
            raise ValueError(
                "must be a plain address of at most 120 characters, without ? # & spaces, quotes and brackets"
            )
        return value if value.endswith("/") else value + "/"


class ProjectSection(ServiceSection):
    """The public presentation of the project."""

    forum_url: str = Field("", max_length=200, pattern=r"^(https?://[^\s\"'<>;,]+)?$")
    """The project's forum; empty: none."""
    forum_embedded: bool = False
    """Show the forum inside a page of the project; its server must allow that."""


class ServerSection(Section):
    """Where the server listens and what it accepts."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for all."""
    port: int = Field(8080, ge=1, le=65535)
    """Port to listen on."""
    max_connections: int = Field(2000, ge=16, le=100_000)
    """If there are more, the one that has been silent longest is closed."""
    private_webhooks: bool = False
    """Whether finished jobs may be told to addresses in private networks (webhooks)."""
    idle_seconds: Seconds = Field(60.0, ge=1)
    """A connection whose sender is silent for this long is closed."""
    max_request_bytes: Bytes = Field(8_000_000, ge=10_000)
    """Largest scheduler request that is accepted. Of one up to ten times as large the middle of long stderr is left out."""
    max_upload_bytes: Bytes = 2_000_000_000
    """Largest output file, regardless of the job's limit."""
    min_free_disk_bytes: Bytes = 500_000_000
    """Uploads and submissions are deferred when less than this is free."""
    drain_seconds: Seconds = Field(10, le=600)
    """Seconds for running requests to finish when the server stops or restarts."""
    trusted_proxies: str = "127.0.0.1"
    """Addresses of proxies, separated by commas, whose X-Forwarded-For and X-Forwarded-Proto are trusted; empty: none."""
    small_upload_bytes: Bytes = Field(65_536, le=1_000_000)
    """Outputs up to this size are stored in the database instead of in files."""


class DatabaseSection(Section):
    """Where the rows are stored."""

    url: str = Field("", max_length=1000)
    """Empty: SQLite, in the project's folder. postgresql://USER@HOST/DATABASE: PostgreSQL, for several processes or
    machines; see docs/postgresql.md."""

    readers: int = Field(4, ge=1, le=100)
    """Read connections of each process. It has one more for writing, and on PostgreSQL two that share the work with other
    processes."""

    backup_before_upgrade: bool = True
    """PostgreSQL: write a dump of the database into the project's folder before a new version changes its tables. Needs
    pg_dump. (A SQLite database is always kept.)"""

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        if value and not value.startswith(("postgresql://", "postgres://")):
            raise ValueError("must be empty (SQLite) or begin with postgresql://")
        return value


class AccountsSection(Section):
    """Who may create accounts."""

    creation: Literal["open", "closed", "invitation"] = "open"
    """open, closed, or invitation (then invitation_code is asked for)."""
    invitation_code: str = Field("", max_length=100)
    """Code that new users must give."""
    min_password_length: int = Field(6, ge=6, le=100)
    """Shortest password."""
    consent_by_clients: bool = False
    """Whether a program that creates an account must say that the terms of use were accepted; old clients cannot."""
    confirmed_email: Literal["off", "asked", "required"] = "asked"
    """Confirmed e-mail addresses: asked (new users get a mail with a link), required (without it no one can create or join a
    team) or off (no mail to new users)."""
    computers: Literal["asked", "hidden", "shown"] = "asked"
    """Whether others see the computers and tasks of new accounts: asked (new users choose; hidden until then), hidden or
    shown. Users can change it for their own account."""
    erase_after_days: float = Field(7, ge=0, le=365, allow_inf_nan=False)
    """Days between the request to delete an account and its deletion; until then it can be cancelled."""


class LimitsSection(Section):
    """Limits on attempts from outside. Counts are per hour; 0: no limit."""

    creations_per_address: Count = 100
    """New accounts from one address."""
    failures_per_address: Count = 100
    """Wrong passwords and codes from one address."""
    failures_per_account: Count = 20
    """Wrong passwords and codes for one account."""
    lookups_per_address: Count = 600
    """Account look-ups of clients, from one address."""
    mails_per_address: Count = 20
    """Mails requested from one address."""
    mails_per_account: Count = 5
    """Mails requested about one account."""
    browsers_per_address: Count = 20
    """New computing browsers, from one address."""
    requests_per_browser: Count = 1200
    """Requests and reports of one such browser."""
    accounting_per_token: Count = 3600
    """Questions of one account manager about credit; at an account manager: of one token to its API."""


Origins = Annotated[
    tuple[
        Annotated[str, Field(max_length=200, pattern=r"^https?://[A-Za-z0-9][A-Za-z0-9.\-]*(:[0-9]{1,5})?$")],
        ...,
    ],
    Field(max_length=50),
]


class BrowsersSection(Section):
    """Who may compute on the project's page /compute; apps are enabled with --browser, see docs/browsers.md."""

    visitors: bool = True
    """Also visitors without an account; their credit goes to a shared account."""
    origins: Origins = ()
    """Other sites that may show the button in a frame, such as https://lab.example.org."""
    jobs_per_day: Count = Field(200, ge=1)
    """Most jobs of one browser per day, for each thread."""


class MailSection(Section):
    """How mails are sent. Without a host they are written to the folder outbox/ of the project."""

    host: str = Field("", max_length=253)
    """Mail server (SMTP); empty: write mails into outbox/."""
    port: int = Field(587, ge=1, le=65535)
    """Its port: 587 with starttls, 465 with tls, 25 with none."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """starttls, tls or none."""
    user: str = Field("", max_length=254)
    """User name for the mail server; empty: no log-in."""
    password: str = Field("", max_length=200)
    """Its password; better given as COBBLESTONE_MAIL__PASSWORD."""
    sender: str = Field("", max_length=254)
    """Sender address of mails; empty: noreply@ the project's host."""
    timeout: Seconds = Field(30, gt=0)
    """Time limit for the mail server, in seconds."""


class OidcSection(Section):
    """Log-in with the account of an institute, by OpenID Connect; needs the extra oidc."""

    issuer: str = Field(
        "", max_length=500, pattern=r"^(https://\S+|http://(localhost|127\.0\.0\.1)[:/]\S+)?$"
    )
    """Address of its provider, such as https://login.example.org/realms/lab; empty: no such log-in."""
    name: str = Field("your institute", max_length=100)
    """Name of the institute, for the button."""
    client_id: str = Field("", max_length=200)
    """What the provider calls this project; it must know the address …/login_oidc.php."""
    client_secret: str = Field("", max_length=500)
    """The secret that it gave; better given as COBBLESTONE_OIDC__CLIENT_SECRET."""
    scope: str = Field("openid email profile", max_length=200, pattern=r"(^| )openid( |$)")
    """What is asked for; some providers tell groups only when asked."""
    trust_email: bool = False
    """Whether e-mail addresses are confirmed though the provider does not say so."""
    new_accounts: Literal["all", "groups", "none"] = "all"
    """Who gets an account at the first log-in, also where accounts.creation is closed: all, members of groups, or none."""
    groups: tuple[str, ...] = ()
    """Groups whose members may submit jobs."""
    groups_claim: str = Field("groups", max_length=100)
    """Where the provider names the groups of a person."""
    apps: tuple[str, ...] = ()
    """Apps whose jobs they may submit; empty: all."""
    max_jobs: Count = Field(1000, ge=1)
    """Most unfinished jobs of each at a time."""
    share: float = Field(1, gt=0, le=1e6)
    """Share of each of the computers, against other submitters."""


class SchedulerSection(Section):
    """How work is sent to hosts."""

    min_sendwork_interval: Seconds = 0
    """Minimum seconds between two requests of a host that get work."""
    next_rpc_delay: Seconds = 0
    """Ask clients to contact at least this often, in seconds; 0: as they like."""
    max_jobs_per_rpc: Count = 50
    """Most jobs in one reply, per CPU of the host; 0: no limit."""
    max_jobs_on_host: Count = 0
    """Most jobs on a host at a time; 0: no limit."""
    max_jobs_in_progress: Count = 0
    """Most jobs for the CPU on a host at a time, per CPU; 0: no limit."""
    max_gpu_jobs_in_progress: Count = 0
    """Most jobs for GPUs on a host at a time, per GPU; 0: no limit."""
    max_ncpus: int = Field(256, ge=1, le=100_000)
    """Most CPUs that are counted, regardless of a host's claim."""
    daily_result_quota: int = Field(500, ge=1, le=1_000_000)
    """Jobs per day, CPU and app version for a host in good standing."""
    max_jobs_per_day_init: Count = 0
    """The same for a host that has returned nothing yet, and the most that it may hold: the number of jobs that a broken
    host can waste. 0: a 25th of daily_result_quota, and 1 to hold at first."""
    gpu_multiplier: float = Field(1, gt=0, le=1000, allow_inf_nan=False)
    """CPUs that one GPU counts for in daily quotas and max_jobs_per_rpc."""
    workload_sim: bool = True
    """Check deadlines against all jobs that the client reports, of all projects."""
    retries_to_reliable_hosts: Seconds = 0
    """Reserve jobs that a host lost for reliable hosts, for this many seconds (10 valid results in a row, full quota); 0:
    any host gets them at once."""
    reliable_max_turnaround: Seconds = 0
    """Mean seconds from sending to report of a reliable host; 0: any."""
    retry_delay_factor: float = Field(1, gt=0, le=1, allow_inf_nan=False)
    """Reliable hosts get this part of the deadline for a job that another host lost."""
    one_result_per_user: bool = True
    """Never give two results of a workunit to the same user, so that all results are checked by others."""
    resend_lost_results: bool = True
    """Send a job again if its host has lost it."""
    longest_deadline: float = Field(3.0, ge=1, le=100)
    """A job that makes progress but will be late gets up to this many times its delay bound; 1: never more."""
    grace_period: Seconds = 0
    """Seconds after the deadline before a job is sent to another host."""


class FilesSection(Section):
    """How long files and rows are kept."""

    delete_delay: Seconds = 0
    """Keep files of a finished job this many seconds after its last result came in."""
    unused_file_grace: Seconds = 86400
    """Delete uploaded input files that no job refers to after this many seconds."""
    purge_after: Seconds = 30 * 86400
    """Move finished jobs whose files are gone into the archive after this many seconds."""


Addresses = Annotated[
    tuple[Annotated[str, Field(max_length=200, pattern=r"^https?://[^\s\"'<>&]+/$")], ...],
    Field(max_length=10),
]


class StorageSection(Section):
    """Where files are kept if the machines share no folder, and who else serves them; see docs/postgresql.md."""

    bucket: str = Field("", max_length=63, pattern=r"^[a-z0-9.-]*$")
    """Bucket of an S3-compatible storage for inputs and large outputs; empty: the project's folder."""
    prefix: str = Field("", max_length=200, pattern=r"^[\w./-]*$")
    """Path in the bucket under which everything is stored."""
    endpoint: str = Field("", max_length=200, pattern=r"^(https?://[^\s/]+)?$")
    """Address of the storage, such as https://s3.example.org; empty: Amazon's."""
    region: str = Field("us-east-1", max_length=50)
    """Its region."""
    access_key: str = Field("", max_length=200)
    """ID of the access key."""
    secret_key: str = Field("", max_length=200)
    """The key; better given as COBBLESTONE_STORAGE__SECRET_KEY."""
    timeout: Seconds = Field(20, ge=1, le=600)
    """Time limit for one request to the storage, in seconds."""
    link_seconds: Seconds = Field(3600, ge=60, le=604800)
    """Seconds for which a signed URL of a file is valid."""
    mirrors: Addresses = ()
    """URLs of other servers with the folder download/, each ending with a slash; clients try them first, then this server."""
    accel: str = Field("", max_length=100, pattern=r"^(/[\w.-]+)*(/[\w.-]+/)?$")
    """Path under which the proxy itself serves the folder download/ (X-Accel-Redirect), such as /protected-download/; empty:
    the server sends files."""


class ChecksSection(Section):
    """Limits for the project's own functions (validators and assimilators)."""

    workers: int = Field(1, ge=1, le=64)
    """Processes that run validators and assimilators; the same number again for calls that take long."""
    timeout: Seconds = Field(60, gt=0)
    """Time limit for one call, in seconds."""
    memory_bytes: Bytes = Field(1_000_000_000, ge=50_000_000)
    """Memory that a worker process may use."""
    max_attempts: int = Field(5, ge=1, le=1000)
    """Calls of a failing function before the job waits for the operator."""


class CreditSection(Section):
    """The unit and size of credit."""

    per_gflops_day: float = Field(200, gt=0, le=1e6, allow_inf_nan=False)
    """Credit for a day of one GFLOPS (BOINC: 200)."""
    max_granted: float = Field(73_000_000, gt=0, le=1e12, allow_inf_nan=False)
    """Most credit that one job can earn."""
    show_provisional: bool = True
    """Totals on pages and in clients include provisional credit; else only what is final."""


class ContributionsSection(Section):
    """Contributions other than computing; see docs/contributions.md."""

    storage: bool = False
    """Count storage: files that computers keep for further jobs, as far as they prove it."""
    network: bool = False
    """Count bytes that computers received and sent for valid results."""


Levels = Annotated[
    tuple[Annotated[float, Field(gt=0, le=1e18, allow_inf_nan=False)], ...], Field(max_length=30)
]
Percents = Annotated[
    tuple[Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)], ...], Field(max_length=30)
]


class BadgesSection(Section):
    """Badges of volunteers, computers and teams; an empty list: none of this kind."""

    total: Levels = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
    """Total credit for each badge."""
    recent: Levels = (100, 1_000, 10_000, 100_000)
    """Recent average credit per day."""
    rank_percent: Percents = (1, 5, 25)
    """The best in per cent by recent average credit, of those above 1 per day."""


class WatchSection(Section):
    """When to warn: in the log, on the operator's page, as a metric."""

    free_disk_bytes: Bytes = 2_000_000_000
    """Warn when less than this is free (see also server.min_free_disk_bytes)."""
    max_waiting: Count = 10_000
    """Warn when more workunits than this wait for validation, assimilation or deletion."""
    max_backlog_seconds: Seconds = 600
    """Warn when a workunit has been due for this long."""
    max_write_backlog: Count = 1000
    """Warn when this many writes wait for the database."""
    min_unsent: Count = 0
    """Warn when fewer results than this are ready to be sent; 0: never."""
    max_unsent: Count = 0
    """Accept no more jobs while more results than this are unsent; 0: no limit."""
    max_error_rate: float = Field(0.3, ge=0, le=1)
    """Warn when more than this part of a day's results failed."""
    max_silent_seconds: Seconds = 300
    """Warn when no process with one of the roles has reported for this long."""
    mail_to: str = Field("", max_length=1000)
    """Addresses, separated by commas, to which warnings are mailed; empty: none."""
    sample_seconds: Seconds = Field(300, ge=10)
    """Seconds between two samples of the state for the charts of the operator's page."""
    keep_samples: Seconds = 30 * 86400
    """Keep those samples for this many seconds."""


class ExportSection(Section):
    """What statistics sites get about users who agreed: files below /stats/, see docs/exports.md."""

    every_seconds: Seconds = 86400
    """Seconds between two automatic exports; 0: none."""
    formats: Literal["gzip", "plain", "both"] = "gzip"
    """XML compressed with gzip (for statistics sites), plain, or both."""
    parquet: bool = False
    """Also write columns for researchers; needs the extra `lab`."""
    split: Literal["no", "id", "total_credit", "expavg_credit"] = "no"
    """Also write users, computers and teams in parts, sorted by id, by total or by recent credit."""
    records_per_file: int = Field(10_000, ge=100, le=10_000_000)
    """Records in each of those parts."""


class LogSection(Section):
    """What is logged."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """debug, info, warning or error."""
    json_lines: bool = False
    """Write JSON, one object per line."""


class FileSettings(BaseSettings):
    """All settings of a service, in its own file; a subclass has one section per field."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=ENVIRONMENT_PREFIX, env_nested_delimiter="__"
    )
    file_name: ClassVar[str] = FILE_NAME
    what: ClassVar[str] = "project"  #: the kind of service, as its command calls it
    title: ClassVar[str] = ""  #: what people call it, if that is something else

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment override the file (which arrives as init arguments)."""
        return env_settings, init_settings


class Settings(FileSettings):
    """All settings of a project."""

    project: ProjectSection = ProjectSection()  # pyright: ignore[reportCallIssue]  # pydantic fills the defaults
    server: ServerSection = ServerSection()  # pyright: ignore[reportCallIssue]  # as above
    database: DatabaseSection = DatabaseSection()  # pyright: ignore[reportCallIssue]  # as above
    accounts: AccountsSection = AccountsSection()  # pyright: ignore[reportCallIssue]  # as above
    limits: LimitsSection = LimitsSection()
    browsers: BrowsersSection = BrowsersSection()  # pyright: ignore[reportCallIssue]  # as above
    mail: MailSection = MailSection()  # pyright: ignore[reportCallIssue]  # as above
    oidc: OidcSection = OidcSection()  # pyright: ignore[reportCallIssue]  # as above
    scheduler: SchedulerSection = SchedulerSection()  # pyright: ignore[reportCallIssue]  # as above
    files: FilesSection = FilesSection()
    storage: StorageSection = StorageSection()  # pyright: ignore[reportCallIssue]  # as above
    checks: ChecksSection = ChecksSection()  # pyright: ignore[reportCallIssue]  # as above
    credit: CreditSection = CreditSection()  # pyright: ignore[reportCallIssue]  # as above
    contributions: ContributionsSection = ContributionsSection()
    badges: BadgesSection = BadgesSection()
    watch: WatchSection = WatchSection()  # pyright: ignore[reportCallIssue]  # as above
    export: ExportSection = ExportSection()  # pyright: ignore[reportCallIssue]  # as above
    log: LogSection = LogSection()


F = TypeVar("F", bound=FileSettings)


def sections(kind: type[FileSettings] = Settings) -> dict[str, type[Section]]:
    """Return the tables of the settings file, in order; of a list of tables, what each of them is."""
    found: dict[str, type[Section]] = {}
    for name, field in kind.model_fields.items():
        table = next(iter(get_args(field.annotation)), field.annotation)
        if isinstance(table, type) and issubclass(table, Section):
            found[name] = table
    return found


def load_settings(folder: Path, kind: type[F] = Settings) -> F:
    """Read a service's settings.

    Raises:
        ConfigError: the file is missing, is not TOML, or has an unknown key or a bad value; the text names file, key,
            value and what is allowed.
    """
    path = folder / kind.file_name
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(
            f"{folder} is not a cobblestone {kind.title or kind.what}: it has no {kind.file_name}. "
            f"Create one with: cobblestone {kind.what} create {folder}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}. Correct that line and try again.") from error
    return parse_settings(values, source=str(path), kind=kind)


def parse_settings(values: dict[str, Any], *, source: str, kind: type[F] = Settings) -> F:
    """Validate settings from any source.

    Raises:
        ConfigError: see :func:`load_settings`.
    """
    try:
        return kind(**values)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(item, source, kind) for item in error.errors())) from error
    except TypeError as error:
        raise ConfigError(f"{source}: {error}.") from error


# pydantic's error item: a dict of mixed values
def _explain(item: Any, source: str, kind: type[FileSettings]) -> str:
    location = [str(part) for part in item["loc"]]
    key = ".".join(location)
    if item["type"] == "extra_forbidden":
        known = list(sections(kind)) if len(location) == 1 else list(sections(kind)[location[0]].model_fields)
        close = difflib.get_close_matches(location[-1], known, n=1, cutoff=0.5)
        hint = f"Did you mean {close[0]!r}?" if close else f"Known here: {', '.join(known)}."
        return f"{source}: unknown setting {key!r}. {hint}"
    if item["type"] == "missing":
        return f"{source}: {key} is missing."
    problem, pattern = item["msg"].removeprefix("Value error, "), item.get("ctx", {}).get("pattern", "")
    if pattern.endswith("/$") and re.match(pattern, f"{item['input']}/"):
        problem = "it must end with a slash"
    return f"{source}: {key} = {repr(item.get('input'))[:100]} is not allowed: {problem}."


def settings_template(kind: type[FileSettings] = Settings, /, **overrides: dict[str, object]) -> str:
    """Return the text of a new settings file: every key with its description and default; ``overrides`` by section."""
    lines = [
        f"# Settings of this {kind.what}. Every key is optional; the values below are the defaults unless you change them.",
        "",
    ]
    for name, section in sections(kind).items():
        summary = (section.__doc__ or "").strip()
        lines += [f"# {summary}", f"[{name}]"]
        given = overrides.get(name, {})
        for key, field in section.model_fields.items():
            value = given.get(key, field.default)
            description = " ".join((field.description or "").split())
            lines += [f"# {description}", f"{key} = {toml_value(value)}"]
        lines.append("")
    return "\n".join(lines)


def toml_value(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False)  # strings, numbers and booleans look alike in TOML and JSON
