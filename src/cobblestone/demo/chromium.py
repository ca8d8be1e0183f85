"""A volunteer's tab: headless Chromium on a project's page ``/compute``, controlled by the DevTools protocol.

The protocol is https://chromedevtools.github.io/devtools-protocol/; of it two methods are needed, ``Page.navigate`` and
``Runtime.evaluate``.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from cobblestone.demo.stock_client import ClientError, ClientTask, LoggedClient
from cobblestone.domain.errors import ConfigError

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS = 60.0
ANSWER_SECONDS = 60.0
_QUIET = (
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",  # containers give little of it
    "--no-proxy-server",
)
_IS_READY = "document.querySelector('[data-part=start]')?.disabled === false"
_PRESS = "document.querySelector('[data-part=start]').click()"
_ROWS = """JSON.stringify([...document.querySelectorAll('[data-part=tasks] > li')].map((row) => ({
  name: row.querySelector('[data-part=title]').textContent,
  state: row.querySelector('[data-part=state]').textContent,
  done: row.querySelector('progress').value})))"""


def chromium() -> str:
    """Return the program.

    Raises:
        ConfigError: it is not installed.
    """
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    raise ConfigError(
        "The demonstration with a browser needs Chromium. On Debian and Ubuntu: apt-get install chromium"
        " (make demo ARGS=--browser does that for you when it may)."
    )


class Tab(LoggedClient):
    """One browser with one tab; has the methods of `StockClient` that the demonstration needs."""

    kind = "a tab of headless Chromium, nothing installed"

    def __init__(self, folder: Path) -> None:
        """Prepare ``folder``, where the browser keeps its profile.  Raises ConfigError if Chromium is not installed."""
        self._program = chromium()
        super().__init__(folder)
        self._connection: ClientConnection | None = None
        self._opened = contextlib.ExitStack()
        self._numbers = itertools.count(1)

    def start(self) -> None:
        """Start the browser with an empty tab, and connect to it.

        Raises:
            ClientError: it does not come up.
        """
        from websockets.sync.client import connect  # of the extra "client", and slow to import

        port = self.folder / "DevToolsActivePort"
        # Chromium's own sandbox cannot be set up by root, and the page is our own project's.
        root = ("--no-sandbox",) if os.geteuid() == 0 else ()
        shown = (f"--user-data-dir={self.folder}", "--remote-debugging-port=0", "about:blank")
        self.launch(self._program, *_QUIET, *root, *shown)
        self.wait_for(lambda: _is_written(port), seconds=START_SECONDS, what="Chromium")
        targets = httpx.get(
            f"http://127.0.0.1:{port.read_text(encoding='ascii').split()[0]}/json/list", trust_env=False
        ).json()
        (address,) = (each["webSocketDebuggerUrl"] for each in targets if each["type"] == "page")
        self._connection = self._opened.enter_context(connect(address, proxy=None, max_size=None))

    def compute(self, url: str) -> None:
        """Open a project's page and press its button, as a visitor does.

        Raises:
            ClientError: the page has no such button.
        """
        self._call("Page.navigate", url=f"{url}compute")
        self.wait_for(lambda: self._evaluate(_IS_READY) is True, seconds=60, what="the button of /compute")
        self._evaluate(_PRESS)

    def tasks(self) -> list[ClientTask]:
        """Return the tasks shown on the page.  Raises ClientError."""
        return parse_rows(str(self._evaluate(_ROWS)))

    def update(self, url: str) -> None:
        """Check that the browser is alive: the page asks for work automatically.  Raises ClientError."""
        self.check_alive()

    def stop(self) -> None:
        """Close the tab, and the browser with all its processes."""
        self._connection = None
        self._opened.close()
        super().stop()

    def _evaluate(self, expression: str) -> object:
        """Return the value of an expression in the tab: a text, number or truth value."""
        return self._call("Runtime.evaluate", expression=expression)["result"].get("value")

    def _call(self, method: str, **given: object) -> dict[str, Any]:
        """Call Chromium.  Raises ClientError if it does not answer, or refuses."""
        if self._connection is None:
            raise ClientError("Chromium does not run.")
        from websockets.exceptions import WebSocketException

        number = next(self._numbers)
        try:
            self._connection.send(json.dumps({"id": number, "method": method, "params": given}))
            # Events of the page are not asked for, so what comes is answers.
            reply = json.loads(self._connection.recv(timeout=ANSWER_SECONDS))
        except (OSError, WebSocketException) as error:
            raise ClientError(f"Chromium does not answer: {error}\n{self.log()[-2000:]}") from error
        if reply.get("id") != number or "error" in reply:
            raise ClientError(f"Chromium refuses {method}: {reply}")
        return reply["result"]


def _is_written(port: Path) -> bool:
    return port.exists() and port.read_text(encoding="ascii").count("\n") > 0


def parse_rows(text: str) -> list[ClientTask]:
    """Return tasks from the page's text; a loading task has no progress yet."""
    return [
        ClientTask(
            name=row["name"],
            state=row["state"],
            active_task_state="EXECUTING" if row["done"] else "",
            fraction_done=row["done"],
        )
        for row in json.loads(text)
    ]
