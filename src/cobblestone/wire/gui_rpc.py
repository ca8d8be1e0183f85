"""GUI RPC, the server's side: framing, authentication, and which operation needs what.  No sockets here.

A request is a document ended by byte 3, and so is the answer; a connection stays open.  Who knows the password proves it with a
hash over a nonce.  Programs on the same computer may look at everything without it; others may not even do that.

Source: BOINC's wire protocol as seen with client 7.20.5 and its tools (facts only).
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.identity import md5_hex
from cobblestone.wire.lenience import Lenience
from cobblestone.wire.tag_tree import Node, read_tree
from cobblestone.wire.xml_reader import FieldReader
from cobblestone.wire.xml_writer import escape, scalar

END = b"\x03"
MAX_REQUEST = 100_000
"""Bytes; the family's buffer."""
IN_PROGRESS = -204
"""Error number of an answer that is not there yet: ask again in a second."""

OPEN_OPERATIONS = frozenset(
    (
        "exchange_versions", "get_state", "get_results", "get_simple_gui_info", "get_project_status", "get_cc_status",
        "get_host_info", "get_disk_usage", "get_file_transfers", "get_messages", "get_message_count", "get_notices_public",
        "get_statistics", "get_daily_xfer_history", "get_old_results", "get_all_projects_list", "get_newer_version",
        "get_screensaver_tasks",
    )
)  # fmt: skip
"""What a program on the same computer may ask without the password."""

_OPERATION = re.compile(rb"<boinc_gui_rpc_request>\s*<\s*([A-Za-z_0-9]{1,64})\s*(/?)", re.ASCII)
_BARE_OPERATION = re.compile(rb"\s*<[^<>]{0,80}>\s*<\s*([^<>\s]{1,64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Call:
    """An operation that the peer may carry out."""

    operation: str
    arguments: FieldReader
    node: Node  #: for arguments that are documents themselves

    def has(self, name: str) -> bool:
        """Whether there is such an argument, be it empty."""
        return self.node.has(name)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that the protocol itself gives."""

    data: bytes
    close: bool = False


class GuiRpcConnection:
    """One peer.  Give it what arrives; it gives back calls to carry out, and answers to send as they are."""

    def __init__(self, *, password: str, local: bool, nonce: str) -> None:
        self._password = password
        self._nonce = nonce
        self._local = local
        self._asked = self._warned = False
        self._authorized = not password
        self._buffer = bytearray()

    def receive_data(self, data: bytes) -> list[Call | Reply]:
        """Take bytes.  Raises RemoteProtocolError when the peer talks something else, or without end."""
        self._buffer += data
        found: list[Call | Reply] = []
        while (end := self._buffer.find(END)) >= 0:
            request = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            found.append(self._request(request))
        if len(self._buffer) > MAX_REQUEST:
            raise RemoteProtocolError(f"no end of a request within {MAX_REQUEST} bytes")
        return found

    def _request(self, request: bytes) -> Call | Reply:
        match = _OPERATION.search(request)
        if match is None:
            strange = _BARE_OPERATION.match(request)
            name = strange[1].decode("ascii", "replace") if strange else ""
            return Reply(write_reply(f"<error>unrecognized op: {escape(name)}</error>\n"), close=not strange)
        operation = match[1].decode("ascii")
        if operation == "auth1":
            return self._first_step()
        if operation == "auth2":
            return self._second_step(request)
        if not self._authorized and not (self._local and operation in OPEN_OPERATIONS):
            close, self._warned = self._warned, True
            return Reply(write_reply("<unauthorized/>\n"), close=close)
        node = _operation_node(request, operation, bare=bool(match[2]))
        notes: list[Lenience] = []
        return Call(operation, node.reader(notes), node)

    def _first_step(self) -> Reply:
        repeated, self._asked = self._asked, True
        return Reply(write_reply(scalar("nonce", self._nonce)), close=repeated and not self._authorized)

    def _second_step(self, request: bytes) -> Reply:
        found = re.search(rb"<nonce_hash>\s*([0-9a-fA-F]{32})\s*</nonce_hash>", request)
        expected = md5_hex(self._nonce + self._password)
        right = found is not None and hmac.compare_digest(found[1].lower(), expected.encode())
        if not (self._asked and right):
            return Reply(write_reply("<unauthorized/>\n"), close=True)
        self._authorized = True
        return Reply(write_reply("<authorized/>\n"))


_VERBATIM = ("cc_config", "global_preferences", "app_config")


def _operation_node(request: bytes, operation: str, *, bare: bool) -> Node:
    if bare:
        return Node("", operation, 0, 0)
    try:
        return read_tree(request, operation, _VERBATIM, max_bytes=MAX_REQUEST)
    except RemoteProtocolError:
        return Node("", operation, 0, 0)


def write_reply(content: str) -> bytes:
    """Put an answer into its frame."""
    return (
        f"<boinc_gui_rpc_reply>\n{content}</boinc_gui_rpc_reply>\n".encode("ascii", "xmlcharrefreplace") + END
    )


SUCCESS = "<success/>\n"


def write_error(text: str) -> str:
    """Content of an answer that says no."""
    return f"<error>{escape(text)}</error>\n"
