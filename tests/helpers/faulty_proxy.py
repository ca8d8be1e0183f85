"""A TCP relay that fails on purpose: cuts requests and replies, swallows replies, is away."""

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
    cut_reply_after: int | None = None  #: bytes of the reply that are passed on
    hits: int = field(default=0)


@dataclass
class Passed:
    """How much of a reply may still be passed on; None: all."""

    left: int | None = None


class FaultyProxy:
    """Relays connections from its own port to another one."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.faults: list[Fault] = []
        self.away = False  #: whoever comes is sent away
        self.visits = 0
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
        self.visits += 1
        if self.away:
            client.close()
            return
        with (
            client,
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.target_port)) as server,
        ):
            passed = Passed()
            back = threading.Thread(target=self._answer, args=(server, client, passed), daemon=True)
            back.start()
            allowed: int | None = None  # bytes that are still passed on
            while (data := client.recv(65536)) and not self.away:
                # A client sends many requests on one connection.
                fault = self._fault(data)
                if fault is not None:
                    passed.left = 0 if fault.swallow_reply else fault.cut_reply_after
                if fault is not None and fault.cut_request_after is not None:
                    allowed = fault.cut_request_after
                server.sendall(data if allowed is None else data[:allowed])
                if allowed is not None:
                    allowed -= len(data)
                    if allowed <= 0:
                        return
            server.shutdown(socket.SHUT_WR)
            back.join(30)

    def _answer(self, server: socket.socket, client: socket.socket, passed: Passed) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if passed.left is None:
                    client.sendall(data)
                    continue
                client.sendall(data[: passed.left])
                passed.left -= len(data)
                if passed.left <= 0:
                    client.shutdown(socket.SHUT_RDWR)
                    return
            client.shutdown(socket.SHUT_WR)
