"""``cobblestone key`` and ``token``: code-signing keys, and tokens that give access to the API.

``cobblestone key``: code signing.

Clients run only files that are signed with the project's key. The private key may lie in the project's folder (convenient), or
on a machine without network (safe): then files travel there in a folder, and signatures come back in it.
"""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import click

from cobblestone.cli.options import Common, OutputOptions, ProjectOption, open_project
from cobblestone.cli.output import size, when
from cobblestone.cli.parameters import Argument, Commands, Option
from cobblestone.cli.project.people import RightsOptions
from cobblestone.ops.environment import typed_word

key_commands = Commands(
    help="Code signing: clients run only files that are signed with the project's key. The private key can stay on"
    " another machine: create it there, give the public one to `project create --offline-key`, and bring files to sign"
    " there with `manifest`, `sign`, `import`."
)


@key_commands.verb("create")
def create_key(
    file: Annotated[
        Path, Argument(metavar="FILE", help="For the private key; the public key goes to FILE.pub.")
    ],
    out: OutputOptions = OutputOptions(),
) -> None:
    """Create a key pair. Needs no project: run it on the machine that will keep the private key."""
    from cobblestone.domain.errors import ConfigError
    from cobblestone.sdk.api.signing import write_key_pair

    public = Path(f"{file}.pub")
    for path in (file, public):
        if path.exists():
            raise ConfigError(f"{path} exists already, and a key is never overwritten. Give another name.")
    write_key_pair(file, public)
    out.show(
        {"private_key": str(file), "public_key": str(public)},
        lines=[
            f"Private key: {file} – keep it on this machine, with a copy in a safe place.",
            f"Public key: {public} – copy it to the server: cobblestone project create DIR --offline-key {public.name}",
        ],
        essential=[public],
    )


@key_commands.verb("show")
def show(common: Common) -> None:
    """Show the project's public keys, and which files wait for signatures."""
    from cobblestone.api_schema import endpoints

    with common.connect() as connected:
        keys = connected.connection.call(endpoints.LIST_KEYS).keys
        unsigned = connected.connection.call(endpoints.GET_SIGNING_MANIFEST).files
    lines: list[str] = []
    for key in keys:
        state = "current" if key.current else "retired"
        if not key.current and not key.has_successor_signature:
            state += "; clients that have it must attach again"
        lines += [f"Key {key.id}, made {when(key.created)}, {state}", key.public_key]
    lines += [f"Waiting for a signature: {file.open_name} of {file.app} ({file.file})" for file in unsigned]
    common.out.show(
        {"keys": keys, "unsigned": unsigned},
        lines=lines,
        essential=[key.public_key for key in keys if key.current],
    )


@key_commands.verb("manifest")
def manifest(
    folder: Annotated[Path, Argument(metavar="DIR", help="A new folder.")],
    all_: Annotated[
        bool, Option("--all", help="Include files that are already signed: for a new key.")
    ] = False,
    common: Common = Common(),
) -> None:
    """Write the files to be signed into a folder, to be copied to the machine with the private key."""
    from cobblestone.sdk.api.signing import export_manifest

    made = common.ask(lambda connected: export_manifest(connected.connection, folder, everything=all_))
    common.out.show(
        made,
        lines=[
            f"Files to sign in {folder}: {len(made.files)}. Copy it to the machine with the private key, run there:",
            f"  cobblestone key sign {typed_word(folder.name)} --key PRIVATEKEYFILE",
        ]
        if made.files
        else ["Everything is already signed. For a new key: --all"],
        essential=[file.file for file in made.files],
    )


@key_commands.verb("sign")
def sign(
    folder: Annotated[Path, Argument(metavar="DIR", help="Made by `cobblestone key manifest`.")],
    key: Annotated[Path, Option(metavar="FILE", help="The private key.")],
    old_key: Annotated[
        list[Path] | None, Option(metavar="FILE", help="Older private keys, when the key changes.")
    ] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Sign the files of a manifest, without project or network. Check the files first: your signature vouches for them."""
    from cobblestone.sdk.api.signing import read_manifest, read_private_key, sign_manifest

    files = read_manifest(folder).files
    signed = sign_manifest(folder, read_private_key(key), [read_private_key(path) for path in old_key or []])
    lines = [f"  {file.app}: {file.open_name}, {size(file.nbytes)}, MD5 {file.md5}" for file in files]
    out.show(
        signed,
        lines=[
            f"Signed ({len(files)}):",
            *lines,
            f"Copy {folder} back to the server, and run there:  cobblestone key import {typed_word(folder.name)}",
        ],
        essential=list(signed.signatures),
    )


@key_commands.verb("import")
def import_(
    folder: Annotated[Path, Argument(metavar="DIR", help="The signed manifest folder.")], common: Common
) -> None:
    """Import the signatures of a signed manifest; with a new key, the project's key changes."""
    from cobblestone.sdk.api.signing import import_signatures, read_signatures

    reply = common.ask(lambda connected: import_signatures(connected.connection, read_signatures(folder)))
    left = (
        f"Still unsigned: {len(reply.still_unsigned)}." if reply.still_unsigned else "Everything is signed."
    )
    common.out.show(
        reply,
        lines=[f"App versions changed: {reply.versions_changed}. {left}"],
        essential=reply.still_unsigned,
    )


@key_commands.verb("rotate")
def rotate(project: ProjectOption = None, out: OutputOptions = OutputOptions()) -> None:
    """Change the key of a project whose private key is in its folder: all files are signed again.

    Clients accept the new key because the old one signs it. With the private key elsewhere: `key create` there,
    `key manifest --all` here, `key sign --key NEW --old-key OLD` there, `key import` here.
    """
    from cobblestone.cli.options import local_folder
    from cobblestone.sdk.api.signing import rotate_key

    folder = local_folder(project)
    with open_project(str(folder), None) as connected:
        rotated = rotate_key(connected.connection, folder)
    out.show(
        rotated,
        lines=[
            f"The project has a new key; app versions signed again: {rotated.versions_changed}.",
            f"The old private key is in {rotated.kept}: the next change needs it.",
        ],
        essential=[rotated.public_key],
    )


@key_commands.verb("ownership")
def ownership(project: ProjectOption = None, out: OutputOptions = OutputOptions()) -> None:
    """Let volunteers prove to other sites that an account is theirs: creates the key that signs such proofs.

    Volunteers find it on account_ownership.php, other sites the public key in get_project_config.php.
    """
    from cobblestone.cli.options import local_folder
    from cobblestone.server.accounts.ownership import create_key as create
    from cobblestone.server.core.project import ProjectFolder

    folder = ProjectFolder(local_folder(project))
    created = create(folder)
    text = (
        "Volunteers can now prove that an account is theirs"
        if created
        else "The project has this key already"
    )
    out.done({"created": created}, f"{text}: account_ownership.php")


token_commands = Commands(help="Tokens for programs that use the project from outside.")


class TokenScope(StrEnum):
    """Scopes of a token; each includes those before it, except that none includes accounting."""

    accounting = "accounting"
    read = "read"
    submit = "submit"
    manage = "manage"

    def included(self) -> list[str]:
        """Return all scopes that a token of this scope has."""
        if self is TokenScope.accounting:
            return [self.value]
        ordered = [TokenScope.read, TokenScope.submit, TokenScope.manage]
        return [each.value for each in ordered[: ordered.index(self) + 1]]


DaysOption = Annotated[float | None, Option(min=0.001, help="Validity in days. Default: 365.")]
ForeverOption = Annotated[bool, Option("--forever", help="Valid until it is revoked.")]
NameArgument = Annotated[str, Argument(metavar="NAME", help="Owner or purpose of the token.")]
TokenIdArgument = Annotated[int, Argument(metavar="ID", help="See `token list`.")]


def chosen_days(days: float | None, *, forever: bool) -> float | None:
    """Return the validity in days; None: until the token is revoked."""
    if forever and days is not None:
        raise click.BadParameter("give --days or --forever, not both")
    return None if forever else days or 365


def created_lines(token_id: int, name: str, expires: float | None, scopes: list[str], text: str) -> list[str]:
    """Return the lines printed about a new token."""
    until = when(expires) if expires else "the token is revoked"
    allows = ", ".join(scopes)
    return [
        f"Token {token_id} for {name}, valid until {until}, allows {allows}. It is shown only once:",
        text,
    ]


def state_of(*, usable: bool, revoked: float | None) -> str:
    """Return the state of a token as one word."""
    return "usable" if usable else "revoked" if revoked else "expired"


@token_commands.verb("create")
def create_token(
    name: NameArgument,
    rights: RightsOptions,
    scope: Annotated[
        TokenScope,
        Option(
            help="read: look; submit: also upload, submit, cancel; manage: also apps, tokens, "
            "accounts; accounting: for an account manager, read the credit of accounts whose "
            "weak keys it has."
        ),
    ] = TokenScope.submit,
    days: DaysOption = None,
    forever: ForeverOption = False,
    common: Common = Common(),
) -> None:
    """Create a token. Its text is shown only once."""
    lasting = chosen_days(days, forever=forever)
    made = common.ask(
        lambda connected: connected.admin.create_token(name, scope.included(), days=lasting, **asdict(rights))
    )
    common.out.show(
        made,
        lines=created_lines(made.id, name, made.expires, made.scopes, made.token),
        essential=[made.token],
    )


@token_commands.verb("list")
def list_tokens(common: Common) -> None:
    """List tokens."""
    found = common.ask(lambda connected: connected.admin.tokens())
    common.out.listing(
        found,
        {
            "id": lambda each: each.id,
            "name": lambda each: each.name,
            "allows": lambda each: ", ".join(each.scopes),
            "state": lambda each: state_of(usable=each.usable, revoked=each.revoked),
            "made": lambda each: when(each.created),
            "expires": lambda each: when(each.expires) if each.expires else "never",
        },
    )


@token_commands.verb("revoke")
def revoke(token_id: TokenIdArgument, common: Common) -> None:
    """Revoke a token."""
    revoked = common.ask(lambda connected: connected.admin.revoke_token(token_id))
    common.out.done(revoked, f"Token {revoked.id} ({revoked.name}) is revoked.", revoked.id)
