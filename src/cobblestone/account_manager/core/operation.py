"""Actions of an operator: projects, keywords, corrections of the ledger."""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cobblestone.account_manager.core.folder import ManagerFolder
from cobblestone.account_manager.core.projects_web import check_address
from cobblestone.account_manager.model import ManagedProject
from cobblestone.account_manager.store import accounts, granted, ledger, projects
from cobblestone.account_manager.store.accounts import OperatorScope, OperatorToken
from cobblestone.account_manager.store.granted import ProjectAccounting
from cobblestone.account_manager.store.schema import MANAGER
from cobblestone.domain.errors import ConfigError, NotFound, RemoteProtocolError
from cobblestone.domain.values import DAY
from cobblestone.policy.account_manager.selection import Balance, joining_work
from cobblestone.service.passwords import Passwords
from cobblestone.store.engine.database import Database, Store, Transaction
from cobblestone.store.maintenance.upgrade import check_revision
from cobblestone.store.people.credentials import new_secret
from cobblestone.wire.client.account_manager import key_of_address
from cobblestone.wire.project import signatures as wire
from cobblestone.wire.project.account import passwd_hash
from cobblestone.wire.project.pages import WEAK_KEY, canonical_master_url

MAX_SHARE = 1e6
#: Characters of a piece of news.
MAX_TEXT = 5000
MAX_TOKEN_NAME, MAX_TOKEN_DAYS = 200, 36_500
TOKEN = re.compile(r"cob_[A-Za-z0-9_\-]{20,200}")


@contextmanager
def open_beside(root: Path) -> Generator[tuple[ManagerFolder, Store], None, None]:
    """Open an account manager's database beside its running process, which sees changes within half a minute.

    Raises:
        ConfigError: the folder is no account manager.
        StoreError: the database is not one that this program understands.
    """
    folder = ManagerFolder(root.resolve())
    location = folder.location(folder.settings())
    check_revision(location, MANAGER)
    store = Store(location, readers=1)
    try:
        yield folder, store
    finally:
        store.close()


def sign_address(folder: ManagerFolder, url: str, signature: str = "") -> str:
    """Return the signature of a project's address: the given one if it is right, else one made with the key in the folder.

    Raises:
        ConfigError: the given one is wrong, or there is neither one nor a key.
        RemoteProtocolError: this is no address.
    """
    address = canonical_master_url(url).encode()
    if signature:
        public = wire.decode_public_key(folder.read_key(folder.sign_public))
        if not wire.verify_bytes(public, address, signature):
            raise ConfigError(
                f"This is not a signature of {address.decode()} by the key of this account manager."
            )
        return signature
    if not folder.sign_private.exists():
        raise ConfigError(
            f"{folder.sign_private} is kept elsewhere. Sign the address there (cobblestone manager sign KEYFILE URL), and give"
            " the signature with --signature FILE."
        )
    return wire.sign_bytes(wire.decode_private_key(folder.read_key(folder.sign_private)), address)


def add_project(
    tx: Transaction, url: str, *, signature: str, share: float = 1.0, shared_key: str = "", now: float
) -> int:
    """Add a project; return its number.  Its balance starts level with the others.

    Raises:
        Conflict: it is there already.
        ConfigError: a value is wrong.
        RemoteProtocolError: this is no address.
    """
    _check(share, shared_key)
    address = canonical_master_url(url)
    known = [
        (Balance(done=each.done, time=each.done_time).at(now), each.share)
        for each in projects.all_projects(tx)
        if not each.stopped
    ]
    id_ = projects.add_project(
        tx,
        ManagedProject(
            id=0,
            url=address,
            address_key=key_of_address(address),
            url_signature=signature,
            name=address,
            share=share,
            shared_key=shared_key,
            done=joining_work(known, share),
            done_time=now,
            problem="It has not been asked yet.",
            create_time=now,
        ),
    )
    if not shared_key:
        accounts.want_accounts_at(tx, id_, now=now)
    return id_


def change_project(
    tx: Transaction,
    project_id: int,
    *,
    share: float | None = None,
    stopped: bool | None = None,
    keywords: dict[int, float] | None = None,
    shared_key: str | None = None,
    now: float,
) -> ManagedProject:
    """Change what is given, and have the project checked; return its new state.

    Raises:
        NotFound: there is none.
        ConfigError: a value is wrong.
    """
    project = projects.project_by_id(tx, project_id)
    _check(project.share if share is None else share, shared_key or "")
    if keywords is not None and not all(0.0 < part <= 1.0 for part in keywords.values()):
        raise ConfigError(
            "The share of a project's jobs with a keyword must be a number above 0 and at most 1."
        )
    given = {"share": share, "stopped": stopped, "keywords": keywords, "shared_key": shared_key}
    said = {name: each for name, each in given.items() if each is not None}
    project = replace(project, **said, next_check=now)
    projects.put_project(tx, project)
    if not project.shared_key and not project.stopped:
        accounts.want_accounts_at(tx, project.id, now=now)
    return project


def _check(share: float, shared_key: str) -> None:
    if not 0.0 < share <= MAX_SHARE:
        raise ConfigError(f"A share must be a number above 0 and at most {MAX_SHARE:g}.")
    if shared_key and not WEAK_KEY.fullmatch(shared_key):
        raise ConfigError(
            "The shared account is identified by its weak key, such as 12_0123456789abcdef0123456789abcdef."
        )


def find_project(db: Database, text: str) -> ManagedProject:
    """Return a project by its number or address.  Raises NotFound."""
    try:
        key = key_of_address(text)
    except RemoteProtocolError:
        key = ""
    for project in projects.all_projects(db):
        if text == str(project.id) or project.address_key == key:
            return project
    raise NotFound(f"There is no project {text} here. See them with: cobblestone manager projects DIR")


def read_token(path: Path) -> str:
    """Return the token in a file.

    Raises:
        ConfigError: it holds none.
    """
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if not TOKEN.fullmatch(text):
        raise ConfigError(
            f"{path} contains no token: the file must contain only a token, which begins with cob_."
        )
    return text


def change_accounting(
    tx: Transaction, project: str, *, token: str | None = None, vouched: bool | None = None, now: float
) -> tuple[ProjectAccounting, int]:
    """Change how a project (number or address) is asked for granted credit; return that, and how many accounts it reports.

    Raises:
        NotFound: there is no such project.
        ConfigError: the token would be readable on its way there.
    """
    known = find_project(tx, project)
    if token:
        check_address(known.url)
    if token is None and vouched is None:
        state = granted.project_accounting(tx, known.id)
    else:
        state = granted.change(tx, known.id, token=token, vouched=vouched, now=now)
    return state, len(granted.told_names(tx, known.id))


def create_token(
    tx: Transaction, name: str, *, operates: bool, days: float | None, now: float
) -> tuple[OperatorToken, str]:
    """Create a token for a program of the operator that reads, or also operates; return it and its text.

    ``days``: for how long it is valid; None: until it is revoked.

    Raises:
        ConfigError: the name is none, or it would be valid for too long.
    """
    if not name.isprintable() or not 1 <= len(name.strip()) <= len(name) <= MAX_TOKEN_NAME:
        raise ConfigError(f"The name of a token must have 1 to {MAX_TOKEN_NAME} characters, on one line.")
    if days is not None and not 0 < days <= MAX_TOKEN_DAYS:
        raise ConfigError(f"A token is valid for at most {MAX_TOKEN_DAYS} days. Or give --forever.")
    secret = new_secret()
    scopes = set(OperatorScope) if operates else {OperatorScope.READ}
    expire_time = None if days is None else now + days * DAY
    return accounts.create_token(
        tx, secret, name=name, scopes=scopes, now=now, expire_time=expire_time
    ), secret


async def new_password(store: Store, email: str) -> str:
    """Set a new password for someone who forgot it; all sessions end, computers continue.  Return it.

    Raises:
        NotFound: the address has no account.
    """
    found = store.read(lambda db: accounts.account_by_email(db, email.strip().lower()))
    if found is None:
        raise NotFound(f"There is no account with the address {email} here.")
    account, password, key = found[0], secrets.token_urlsafe(12), secrets.token_hex(16)
    hashed = await Passwords().hash(passwd_hash(password, account.email_addr))
    await store.awrite(lambda tx: accounts.set_password(tx, account.id, hashed, authenticator=key))
    return password


def verify_sums(tx: Transaction, *, repair: bool) -> list[int]:
    """Return the days whose sums differ from the entries of the ledger; with ``repair`` they are recomputed."""
    days = ledger.wrong_days(tx)
    if repair:
        for day in days:
            ledger.fold(tx, since_day=day, until_day=day)
    return days
