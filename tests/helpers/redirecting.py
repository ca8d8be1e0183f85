"""A web server that answers every request with a redirect to the same path on another port, as after a move to https."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Redirecting:
    """Redirects from a port of its own to another one."""

    def __init__(self, target_port: int, status: int = 301) -> None:
        self.asked: list[str] = []  #: method and path of each request
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                asked.append(f"{self.command} {self.path}")
                self.send_response(status)
                self.send_header("Location", f"http://127.0.0.1:{target_port}{self.path}")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_POST = do_PUT = do_GET  # noqa: N815  # names that the library calls

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
