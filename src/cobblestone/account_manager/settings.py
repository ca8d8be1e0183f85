"""The account manager's settings: one typed TOML file, as a project has it."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from cobblestone.ops.settings import (
    ENVIRONMENT_PREFIX,
    DatabaseSection,
    FileSettings,
    LimitsSection,
    LogSection,
    MailSection,
    Seconds,
    Section,
    ServerSection,
    ServiceSection,
)

FILE_NAME = "manager.toml"


class ManagerSection(ServiceSection):
    """What volunteers see of the account manager."""


class JoiningSection(Section):
    """Who may have an account."""

    creation: Literal["open", "invitation", "closed"] = Field(
        "open", description="open, invitation or closed."
    )
    invitation_code: str = Field("", max_length=100, description="What people must know, with invitation.")
    confirmed_email: Literal["off", "asked", "required"] = Field(
        "asked",
        description="Confirmed e-mail addresses: asked (newcomers get a mail with a link), required (without it no accounts at"
        " projects are made) or off (no mail to newcomers).",
    )
    min_password_length: int = Field(8, ge=1, le=100, description="Characters of a password, at least.")


class ContactSection(Section):
    """How computers are looked after."""

    repeat_seconds: Seconds = Field(43_200, ge=60, description="Seconds between two contacts of a computer.")
    max_hosts: int = Field(1000, ge=1, le=1_000_000, description="Computers of one account, at most.")
    max_new_hosts: int = Field(
        50, ge=1, le=100_000, description="New computers of one account in a day, at most."
    )
    cpu_flops: float = Field(
        1e10, gt=0, le=1e15, description="Speed at which one CPU of an unknown model is counted, at most."
    )
    gpu_flops: float = Field(
        2e13, gt=0, le=1e18, description="Speed at which one GPU of an unknown model is counted, at most."
    )
    check_seconds: Seconds = Field(
        86_400, ge=60, description="Seconds between two looks at what a project says of itself."
    )


class AccountingSection(Section):
    """How what projects granted is found out, from projects that gave a token (`manager accounting`)."""

    policy: Literal["sums", "totals", "jobs", "estimate"] = Field(
        "sums", description="sums, totals, jobs; or estimate: no project is asked."
    )
    ask_seconds: Seconds = Field(86_400, ge=60, description="Seconds between two questions to a project.")


class ManagerSettings(FileSettings):
    """All settings of an account manager."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=f"{ENVIRONMENT_PREFIX}MANAGER_", env_nested_delimiter="__"
    )
    file_name: ClassVar[str] = FILE_NAME
    what: ClassVar[str] = "manager"

    manager: ManagerSection = ManagerSection()  # pyright: ignore[reportCallIssue]  # pydantic fills the defaults
    server: ServerSection = ServerSection()  # pyright: ignore[reportCallIssue]  # as above
    database: DatabaseSection = DatabaseSection()  # pyright: ignore[reportCallIssue]  # as above
    accounts: JoiningSection = JoiningSection()  # pyright: ignore[reportCallIssue]  # as above
    contacts: ContactSection = ContactSection()  # pyright: ignore[reportCallIssue]  # as above
    accounting: AccountingSection = AccountingSection()  # pyright: ignore[reportCallIssue]  # as above
    limits: LimitsSection = LimitsSection()  # pyright: ignore[reportCallIssue]  # as above
    mail: MailSection = MailSection()  # pyright: ignore[reportCallIssue]  # as above
    log: LogSection = LogSection()  # pyright: ignore[reportCallIssue]  # as above
