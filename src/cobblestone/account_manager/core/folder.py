"""An account manager's folder: its settings, paths, keys and lock; and its creation."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from cobblestone.account_manager.store.schema import MANAGER
from cobblestone.domain.errors import ConfigError
from cobblestone.ops import settings as sections
from cobblestone.ops.files import write_durably, write_private
from cobblestone.service.folder import Kind, Place, ServiceFolder
from cobblestone.service.settings import NewService, settings_mode, settings_of_new
from cobblestone.store.maintenance.upgrade import upgrade
from cobblestone.wire.project.signatures import encode_private_key, encode_public_key, generate_key

FILE_NAME = "manager.toml"


class ManagerSection(sections.ServiceSection):
    """The public presentation of the account manager."""


class JoiningSection(sections.Section):
    """Who may create an account."""

    creation: Literal["open", "invitation", "closed"] = "open"
    """open, invitation or closed."""
    invitation_code: str = Field("", max_length=100)
    """Code that new users must give, with invitation."""
    confirmed_email: Literal["off", "asked", "required"] = "asked"
    """Confirmed e-mail addresses: asked (new users get a mail with a link), required (without it no accounts at projects are
    created) or off (no mail to new users)."""
    min_password_length: int = Field(8, ge=1, le=100)
    """Minimum length of a password, in characters."""


class ContactSection(sections.Section):
    """How contacts of computers are handled."""

    repeat_seconds: sections.Seconds = Field(43_200, ge=60)
    """Seconds between two contacts of a computer."""
    max_hosts: int = Field(1000, ge=1, le=1_000_000)
    """Most computers of one account."""
    max_new_hosts: int = Field(50, ge=1, le=100_000)
    """Most new computers of one account per day."""
    cpu_flops: float = Field(1e10, gt=0, le=1e15)
    """Highest speed counted for one CPU of an unknown model."""
    gpu_flops: float = Field(2e13, gt=0, le=1e18)
    """Highest speed counted for one GPU of an unknown model."""
    check_seconds: sections.Seconds = Field(86_400, ge=60)
    """Seconds between two checks of a project."""


class AccountingSection(sections.Section):
    """How granted credit is learned, from projects that gave a token (`manager accounting`)."""

    policy: Literal["sums", "totals", "jobs", "estimate"] = "sums"
    """sums, totals, jobs; or estimate: projects are not asked."""
    ask_seconds: sections.Seconds = Field(86_400, ge=60)
    """Seconds between two questions to a project."""


class ManagerSettings(sections.FileSettings):
    """All settings of an account manager."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=f"{sections.ENVIRONMENT_PREFIX}MANAGER_",
        env_nested_delimiter="__",
    )
    file_name: ClassVar[str] = FILE_NAME
    what: ClassVar[str] = "manager"

    manager: ManagerSection = ManagerSection()  # pyright: ignore[reportCallIssue]  # pydantic fills the defaults
    server: sections.ServerSection = sections.ServerSection()  # pyright: ignore[reportCallIssue]  # as above
    database: sections.DatabaseSection = sections.DatabaseSection()  # pyright: ignore[reportCallIssue]  # as above
    accounts: JoiningSection = JoiningSection()  # pyright: ignore[reportCallIssue]  # as above
    contacts: ContactSection = ContactSection()  # pyright: ignore[reportCallIssue]  # as above
    accounting: AccountingSection = AccountingSection()  # pyright: ignore[reportCallIssue]  # as above
    limits: sections.LimitsSection = sections.LimitsSection()
    mail: sections.MailSection = sections.MailSection()  # pyright: ignore[reportCallIssue]  # as above
    log: sections.LogSection = sections.LogSection()


DEFAULT_PORT = 8180


@dataclass(frozen=True, slots=True)
class ManagerFolder(ServiceFolder):
    """Where the parts of an account manager lie on disk."""

    kind: ClassVar[Kind] = Kind(
        what="account manager",
        settings=FILE_NAME,
        address=lambda root: sections.load_settings(root, ManagerSettings).database.url,
        schema=MANAGER,
        database="manager.sqlite",
        advice_to_move="move it (cobblestone manager move)",
    )

    keys = Place("keys")  #: folder of secrets, readable only by the owner
    secret_file = Place("keys", "secret")  #: random bytes from which cookies are derived
    #: private key that signs projects' addresses; may be kept elsewhere
    sign_private = Place("keys", "url_sign_private")
    #: public key for checking them, which clients keep: it must never change
    sign_public = Place("keys", "url_sign_public")

    def settings(self) -> ManagerSettings:
        """Read the settings.  Raises ConfigError."""
        return sections.load_settings(self.root, ManagerSettings)

    def read_key(self, path: Path) -> str:
        """Return a key or secret as text.

        Raises:
            ConfigError: it is gone.
        """
        try:
            return path.read_text(encoding="ascii")
        except (FileNotFoundError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path} is missing or damaged. Restore it from a backup: clients refuse an account manager whose key changed."
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedManager:
    """The result of creating an account manager."""

    folder: ManagerFolder
    url: str
    port: int


def create_manager(root: Path, wish: NewService) -> CreatedManager:
    """Create an account manager in a folder that is empty or does not exist.

    The settings file comes last: what is left by a crash is none, and may be deleted.

    Raises:
        ConfigError: the folder is not empty, a value is wrong, or no port is free.
    """
    root = root.absolute()
    settings, text, port = settings_of_new(
        root, wish, ManagerSettings, section="manager", first_port=DEFAULT_PORT
    )
    folder = ManagerFolder(root)
    key = generate_key()
    folder.keys.mkdir(parents=True)
    folder.keys.chmod(0o700)
    write_private(folder.secret_file, secrets.token_hex(32).encode())
    write_private(folder.sign_private, encode_private_key(key).encode())
    write_durably(folder.sign_public, encode_public_key(key.public_key()).encode())
    with folder.lock(shared=bool(wish.database)):
        upgrade(folder.location(settings), folder.schema)
    write_durably(root / FILE_NAME, text.encode(), mode=settings_mode(root / FILE_NAME, wish.database))
    return CreatedManager(folder=folder, url=settings.manager.url, port=port)
