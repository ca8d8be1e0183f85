"""A real server process, and hosts that speak to it over real HTTP."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import psutil


class Server:
    """A real server process on a project that a World made; ``options`` of the command."""

    program: Sequence[str] = (sys.executable, "-m", "cobblestone")  #: words that the command begins with

    def __init__(self, root: Path, url: str, *options: str) -> None:
        self.root = root
        self.options = options
        self.url = url
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen([*self.program, "run", str(self.root), *self.options])
        end = time.monotonic() + 180
        with httpx.Client(base_url=self.url, verify=False, timeout=10) as client:  # loopback, no TLS
            while time.monotonic() < end:
                assert self.process.poll() is None, "the server ended at once"
                with contextlib.suppress(httpx.HTTPError):
                    if client.get("healthz").status_code == 200:
                        return
                time.sleep(0.05)
        raise AssertionError("the server does not start")

    def rss(self) -> int:
        """Bytes of memory that it holds."""
        assert self.process is not None
        return psutil.Process(self.process.pid).memory_info().rss

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)


class RemoteWorld:
    """What a SimHost needs of a World, over real HTTP; a dead server is an exception."""

    def __init__(self, url: str) -> None:
        # Volunteers' clients open a connection for each request; one that is kept may be closed just when it is used again.
        limits = httpx.Limits(max_keepalive_connections=0)
        self.http = httpx.Client(base_url=url, timeout=10, limits=limits)

    def close(self) -> None:
        self.http.close()

    def post(self, path: str, **options: object) -> httpx.Response:
        return self.http.post(path, **options)  # type: ignore[arg-type]  # the client's own options
