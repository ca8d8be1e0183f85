"""A manager on GUI RPC, as small as it can be, and the structure of what it is answered."""

from __future__ import annotations

import hashlib
import re
import socket
from pathlib import Path

from tests.helpers.wire_elements import Element, read_elements

END = b"\x03"


class Peer:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, operation: str) -> str:
        """The answer; the empty text when the connection was closed instead."""
        self.socket.sendall(
            f"<boinc_gui_rpc_request>\n{operation}\n</boinc_gui_rpc_request>\n".encode() + END
        )
        answer = b""
        while not answer.endswith(END):
            try:
                piece = self.socket.recv(65536)
            except ConnectionError:
                piece = b""
            if not piece:
                return ""
            answer += piece
        return answer[:-1].decode()

    def log_in(self, folder: Path) -> str:
        """Prove the knowledge of the password."""
        password = (folder / "gui_rpc_auth.cfg").read_text().split("\n", 1)[0]
        found = re.search(r"<nonce>([^<]+)</nonce>", self.ask("<auth1/>"))
        assert found
        proof = hashlib.md5((found[1] + password).encode()).hexdigest()
        return self.ask(f"<auth2>\n<nonce_hash>{proof}</nonce_hash>\n</auth2>")


def structure(answer: str) -> list[str]:
    """Paths of all elements in their order, each of several alike siblings once."""
    found: list[str] = []

    def walk(element: Element, path: str) -> None:
        for child in element.children:
            place = f"{path}/{child.tag}"
            if place not in found:
                found.append(place)
            walk(child, place)

    walk(read_elements(answer), "")
    return found
