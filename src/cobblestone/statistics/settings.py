"""The settings of a statistics site: its name and address, how it collects, and the list of projects."""

from __future__ import annotations

import secrets
import tomllib
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.durable_files import write_private
from cobblestone.ops.settings import Bytes, Seconds, ServerSection

FILE_NAME = "statistics.toml"
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
    """When an account of a project belongs to the person whose cross-project id it has."""

    CPID = "cpid"  #: always: the operator vouches for the project
    NAME = "name"  #: if it also has the name of that person's account in the first project of the list
    NO = "no"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SiteSection(_Section):
    """What visitors see of the site."""

    name: str = Field("Statistics", min_length=1, max_length=100)
    url: str = Field("http://127.0.0.1:8095/", pattern=r"^https?://[^\s\"'<>?#]+/$")


class CollectSection(_Section):
    """How exports are fetched."""

    every_seconds: Seconds = Field(86400.0, ge=10)
    step_seconds: Seconds = Field(86400.0, ge=10, le=86400)
    retry_seconds: Seconds = Field(3600.0, ge=10)
    pause_seconds: Seconds = Field(2.0, le=3600)
    timeout_seconds: Seconds = Field(60.0, ge=1)
    max_seconds_per_file: Seconds = Field(4 * 3600.0, ge=1)
    max_seconds_per_project: Seconds = Field(6 * 3600.0, ge=1)
    least_bytes_per_second: int = Field(10_000, ge=0)
    max_file_bytes: Bytes = Field(5_000_000_000, ge=1000)
    max_rows: int = Field(20_000_000, ge=1)


class Source(_Section):
    """A project whose export is collected."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")
    title: str = Field(min_length=1, max_length=100)
    url: str = Field(pattern=r"^https?://[^\s\"'<>?#]+/$", max_length=500)
    join: Join = Join.NAME
    credit_per_gflops_day: float = Field(default=200.0, gt=0, le=1e6, allow_inf_nan=False)


class StatisticsSettings(_Section):
    """The whole file."""

    site: SiteSection = SiteSection()  # pyright: ignore[reportCallIssue]  # all fields have defaults
    server: ServerSection = ServerSection(port=8095)  # pyright: ignore[reportCallIssue]  # fields have defaults
    collect: CollectSection = CollectSection()  # pyright: ignore[reportCallIssue]  # fields have defaults
    project: tuple[Source, ...] = Field(default=(), max_length=MAX_PROJECTS)

    @field_validator("project")
    @classmethod
    def _check_names(cls, value: tuple[Source, ...]) -> tuple[Source, ...]:
        names = [source.name for source in value]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two projects have the name {min(doubled)!r}")
        return value


def load_settings(root: Path) -> StatisticsSettings:
    """Read a site's settings.

    Raises:
        ConfigError: the file is missing, is not TOML, or a value is wrong; the text names file, key and value.
    """
    path = root / FILE_NAME
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        return StatisticsSettings(**values)
    except FileNotFoundError as error:
        raise ConfigError(
            f"{root} is no statistics site: it has no {FILE_NAME}. Create one with: cobblestone statistics create {root}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}. Mend that line and try again.") from error
    except ValidationError as error:
        problems = (
            f"{path}: {'.'.join(map(str, item['loc']))}: {item['msg']}"
            + (f" (it is {str(item['input'])[:100]!r})" if item["type"] != "missing" else "")
            for item in error.errors()
        )
        raise ConfigError("\n".join(problems)) from error


def create_site(root: Path) -> Path:
    """Make the folder of a new site; return its settings file.  Raises ConfigError: there is one already."""
    path = root / FILE_NAME
    if path.exists():
        raise ConfigError(f"{path} exists already: nothing was changed.")
    root.mkdir(parents=True, exist_ok=True)
    write_private(root / "secret", secrets.token_bytes(32))
    path.write_text(TEMPLATE, encoding="utf-8")
    return path
