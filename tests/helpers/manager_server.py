"""An account manager for tests: signs what it says, remembers what it was told."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cobblestone.wire.project.signatures import encode_public_key, generate_key, sign_bytes


class ManagerServer:
    """Answers ``rpc.php`` with the accounts that a test sets."""

    def __init__(self) -> None:
        self.key = generate_key()
        self.accounts: list[str] = []
        self.requests: list[str] = []
        self.error = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.requests.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                body = outer.answer().encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the base class
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/am/"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def account(self, url: str, authenticator: str, *, signed: str = "", orders: str = "") -> str:
        signature = sign_bytes(self.key, (signed or url).encode())
        return (
            f"<account>\n<url>{url}</url>\n<url_signature>\n{signature}</url_signature>\n"
            f"<authenticator>{authenticator}</authenticator>\n{orders}</account>\n"
        )

    def answer(self) -> str:
        if self.error:
            return f"<acct_mgr_reply>\n{self.error}</acct_mgr_reply>\n"
        key = encode_public_key(self.key.public_key())
        return (
            f"<acct_mgr_reply>\n<name>Test Manager</name>\n<signing_key>\n{key}</signing_key>\n<repeat_sec>3600</repeat_sec>\n"
            f"<dynamic>1</dynamic>\n<opaque>\n<mine>1</mine>\n</opaque>\n{''.join(self.accounts)}</acct_mgr_reply>\n"
        )
