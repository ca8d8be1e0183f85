"""Access of programs to a client: finding it, authorisation, and calls of its JSON interface."""

from __future__ import annotations

import contextlib
import re
import ssl
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import msgspec

from cobblestone.domain.errors import CobblestoneError, ConfigError, words_of
from cobblestone.ops.environment import typed_word

ACCESS_FILE = "control.json"


class Access(msgspec.Struct, kw_only=True):
    """The access data for programs on this computer; the file is readable by its owner only."""

    port: int
    control_token: str
    reading_token: str
    tls: bool = False


def read_access(folder: Path) -> Access:
    """Return the access data that a client wrote to its data directory.

    Raises:
        ConfigError: no client has run there, or the file belongs to someone else.
    """
    path = folder / ACCESS_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Access)
    except FileNotFoundError:
        raise ConfigError(
            f"No client has run in {folder}. Start one with: cobblestone client run {typed_word(folder)}"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def known_access(folder: Path) -> Access | None:
    """Do the same as `read_access`, but return None on failure."""
    with contextlib.suppress(ConfigError):
        return read_access(folder)
    return None


TIMEOUT = 150.0  #: more than `attach` takes, which waits for three answers of a project
MAX_ANSWER = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a client's JSON interface."""

    name: str
    url: str
    token: str


class Refused(CobblestoneError):
    """The client refuses, with a reason."""


def local_address(folder: Path) -> Address:
    """Return the address of the client of a data directory on this computer."""
    access = read_access(folder)
    scheme = "wss" if access.tls else "ws"
    return Address("this computer", f"{scheme}://127.0.0.1:{access.port}/ws", access.control_token)


def remote_address(text: str, *, tls: bool = False) -> Address:
    """Return the address of a client given as ``TOKEN@HOST:PORT``; the token differs from client to client.

    On this computer it is asked without TLS, unless ``tls``.

    Raises:
        ConfigError: it is something else.
    """
    token, at, place = text.rpartition("@")
    host, colon, port = place.rpartition(":")
    if not (at and colon and token and host and port.isdecimal()):
        raise ConfigError(f"{place!r}: give --host TOKEN@HOST:PORT, from control.json of that client.")
    here = host in ("127.0.0.1", "localhost", "[::1]")
    scheme = "ws" if here and not tls else "wss"
    return Address(place, f"{scheme}://{place}/ws", token)


def ask(address: Address, command: str, certificate: Path | None = None, **given: Any) -> Any:
    """Run a command and return its result.

    Raises:
        Refused: the client says no.
        ConfigError: no one answers there.
    """
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import connect

    tls = None
    if address.url.startswith("wss:"):
        tls = ssl.create_default_context(cafile=str(certificate) if certificate else None)
        # our own file says where it is; its name in the certificate is another
        if address.name == "this computer":
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        with connect(
            address.url,
            additional_headers={"Authorization": f"Bearer {address.token}"},
            ssl=tls,
            open_timeout=10,
            max_size=MAX_ANSWER,
            compression=None,
            proxy=None,
        ) as connection:
            connection.send(msgspec.json.encode({"id": 1, "do": command, "with": given}).decode())
            answer = msgspec.json.decode(connection.recv(TIMEOUT), type=dict[str, Any])
    except InvalidStatus as error:
        raise ConfigError(f"The client at {address.name} does not accept this token ({error}).") from error
    except (OSError, WebSocketException, TimeoutError) as error:
        raise ConfigError(
            f"The client of {address.name} does not answer: {words_of(error)}. Is it running?"
        ) from error
    if not answer.get("ok"):
        raise Refused(str(answer.get("error")))
    return answer.get("result")


def notice_text(row: dict[str, Any]) -> str:
    """Return what a notice says, in one line: its title, and its text without the tags."""
    text = unescape(re.sub(r"</?\w[^<>]*>", " ", row["description"]))
    return " ".join(f"{row['title']}: {text}".removeprefix(": ").split())
