"""HTTP servers on loopback that stand for projects and their exports, decent or not."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
from collections.abc import Callable, Iterator

Behaviour = Callable[[http.server.BaseHTTPRequestHandler], None]


def export(scale: object, credit: object = 1000.0, plan_class: str = "cuda") -> bytes:
    """A project's export with one version."""
    version = {
        "app_name": "a",
        "platform": "p",
        "plan_class": plan_class,
        "expavg_credit": credit,
        "pfc_scale": scale,
    }
    return json.dumps({"name": "P", "app_versions": [version]}).encode()


def answers(body: bytes, status: int = 200, **headers: str) -> Behaviour:
    """Answer with a body."""

    def behave(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        with contextlib.suppress(OSError):
            handler.wfile.write(body)

    return behave


class ExportServer:
    """A server whose behaviour can be changed while it runs; ``stopped`` ends those that dawdle."""

    def __init__(self, behave: Behaviour) -> None:
        self.behave = behave
        self.asked: list[str] = []
        self.stopped = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.behave(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def endless(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Send for ever, as fast as it goes."""
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while not self.stopped.is_set():
                handler.wfile.write(b" " * 65536)

    def silent(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Accept and say nothing."""
        self.stopped.wait(60)

    def dripping(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Send a byte now and then, so that no single read takes long."""
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while not self.stopped.wait(0.02):
                handler.wfile.write(b" ")

    def close(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def export_servers(*behaviours: Behaviour) -> Iterator[list[ExportServer]]:
    """Some servers, closed at the end."""
    servers = [ExportServer(behave) for behave in behaviours]
    try:
        yield servers
    finally:
        for server in servers:
            server.close()


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
