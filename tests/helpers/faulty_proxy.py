"""A TCP relay that fails on purpose: cuts uploads, swallows replies."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field


@dataclass
class Fault:
    """What goes wrong with the next ``times`` requests that hold ``match``."""

    match: bytes
    times: int = 1
    cut_request_after: int | None = None  #: bytes of the request that are passed on
    swallow_reply: bool = False
    hits: int = field(default=0)


class FaultyProxy:
    """Relays connections from its own port to another one."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.faults: list[Fault] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(connection,), daemon=True).start()

    def _fault(self, data: bytes) -> Fault | None:
        for fault in self.faults:
            if fault.hits < fault.times and fault.match in data:
                fault.hits += 1
                return fault
        return None

    def _relay(self, client: socket.socket) -> None:
        with (
            client,
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.target_port)) as server,
        ):
            swallow = threading.Event()
            back = threading.Thread(target=self._answer, args=(server, client, swallow), daemon=True)
            back.start()
            allowed: int | None = None  # bytes that are still passed on
            while data := client.recv(65536):
                # A client sends many requests on one connection.
                fault = self._fault(data)
                if fault is not None and fault.swallow_reply:
                    swallow.set()
                if fault is not None and fault.cut_request_after is not None:
                    allowed = fault.cut_request_after
                server.sendall(data if allowed is None else data[:allowed])
                if allowed is not None:
                    allowed -= len(data)
                    if allowed <= 0:
                        return
            server.shutdown(socket.SHUT_WR)
            back.join(30)

    def _answer(self, server: socket.socket, client: socket.socket, swallow: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if swallow.is_set():
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
