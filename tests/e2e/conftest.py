"""A real server process, and Debian's unmodified client attached to it."""

from __future__ import annotations

import atexit
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
from tests.helpers.command_line import run_here
from tests.helpers.faulty_proxy import FaultyProxy
from tests.helpers.nginx import Nginx
from tests.helpers.redirecting import Redirecting
from tests.helpers.stock_client import StockClient

import cobblestone
from cobblestone.demo.processes import free_port
from cobblestone.sdk.api.batch import Batch
from cobblestone.sdk.project import Project
from cobblestone.store.engine.database import Store
from cobblestone.wire.project.account import passwd_hash

PASSWORD = "a long password"
TEMPLATE_PORT = 18765
TEMPLATE_URL = f"http://127.0.0.1:{TEMPLATE_PORT}/"

#: A job that goes on until it is stopped.  It leaves the processors to other tests, but for the CPU time that every job has.
ENDLESS = """
import time
while True:
    sum(range(20_000))
    time.sleep(0.1)
"""


@cache
def empty_project() -> Path:
    """A project as `cobblestone project create` makes it, to be copied: that takes seconds, mostly for the database."""
    folder = Path(tempfile.mkdtemp(prefix="cobblestone-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    place = folder / "project"
    run_here(
        "project", "create", str(place), "--url", TEMPLATE_URL, "--port", str(TEMPLATE_PORT), "--name", "E2E"
    )
    return place


class Volunteer(Protocol):
    """A client of any make."""

    def log(self) -> str: ...

    def update(self, url: str) -> None: ...


class LiveProject:
    """A running project with volunteers."""

    def __init__(
        self,
        root: Path,
        *,
        behind_proxy: bool = False,
        behind_nginx: bool = False,
        redirected: bool = False,
        settings: dict[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self.root = root
        self.folder = root / "project"
        self.port = port or free_port()
        self.proxy = FaultyProxy(self.port) if behind_proxy else None
        self.nginx = Nginx(self.port) if behind_nginx else None
        self.redirecting = Redirecting(self.port) if redirected else None
        in_front = self.proxy or self.nginx or self.redirecting
        self.url = f"http://127.0.0.1:{in_front.port if in_front else self.port}/"
        self.clients: list[StockClient] = []
        shutil.copytree(empty_project(), self.folder)
        text = (self.folder / "cobblestone.toml").read_text()
        text = text.replace(TEMPLATE_URL, self.url).replace(str(TEMPLATE_PORT), str(self.port))
        for key, value in (settings or {}).items():
            text, n = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
            assert n == 1, key
        (self.folder / "cobblestone.toml").write_text(text)
        self.process: subprocess.Popen[bytes] | None = None
        self.start()
        self.project: Project = cobblestone.connect(self.folder)
        self.database = Store(self.folder / "project.sqlite", readers=1)

    # -- the server ---------------------------------------------------------------------------------------

    def start(self) -> None:
        with (self.root / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cobblestone", "run", str(self.folder)], stdout=log, stderr=log
            )
        end = time.monotonic() + 180
        with httpx.Client(verify=False) as client:  # loopback, no TLS: certificates would be read each time
            while time.monotonic() < end:
                with contextlib.suppress(httpx.HTTPError):
                    if client.get(f"http://127.0.0.1:{self.port}/healthz").status_code == 200:
                        return
                assert self.process.poll() is None, self.log()
                time.sleep(0.05)
        self.process.kill()
        self.process.wait()
        raise AssertionError("the server does not start: " + self.log())

    def log(self) -> str:
        return (self.root / "server.log").read_text()

    def close(self) -> None:
        for client in self.clients:
            client.stop()
        self.project.close()
        self.database.close()
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
        for in_front in (self.proxy, self.nginx, self.redirecting):
            if in_front is not None:
                in_front.close()
        assert "Traceback" not in self.log(), self.log()

    def cli(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run_here(*arguments, check=check)

    # -- content ------------------------------------------------------------------------------------------

    def app(
        self, name: str, program: str, *options: str, command: str = "python3 {name}.py {{input}} {{output}}"
    ) -> None:
        """Add a Python program as an app, as a scientist would."""
        path = self.root / f"{name}.py"
        path.write_text(program)
        self.cli(
            "app", "create", name, "--project", str(self.folder), "--command", command.format(name=name),
            "--files", str(path), *options,
        )  # fmt: skip

    def submit(self, app: str, *contents: str) -> Batch:
        inputs = []
        for number, content in enumerate(contents):
            path = self.root / f"{app}-{number}.txt"
            path.write_text(content)
            inputs.append(path)
        return self.project.submit(app, inputs)

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self.database.read(lambda db: db.query(sql, parameters))

    def value(self, sql: str, *parameters: object) -> Any:
        return self.database.read(lambda db: db.value(sql, parameters))

    # -- volunteers ---------------------------------------------------------------------------------------

    def account(self, name: str) -> str:
        """Create an account; its authenticator."""
        email = f"{name}@example.org"
        reply = httpx.get(
            f"http://127.0.0.1:{self.port}/create_account.php",
            params={
                "email_addr": email,
                "passwd_hash": passwd_hash(PASSWORD, email),
                "user_name": name.title(),
            },
            verify=False,
            timeout=60,
        ).text
        found = re.search(r"<authenticator>(\w+)", reply)
        assert found, reply
        return found[1]

    def volunteer(
        self, name: str, *, folder: str = "", authenticator: str = "", **options: Any
    ) -> StockClient:
        """A running client attached to the project."""
        client = StockClient(self.root / (folder or name), **options)
        self.clients.append(client)
        client.start()
        client.attach(self.url, authenticator or self.account(name))
        return client

    def wait(self, condition: Callable[[], bool], *clients: Volunteer, seconds: float, what: str) -> None:
        """Poll, pressing "update" in the clients as an impatient volunteer does."""
        end = time.monotonic() + seconds
        pressed = time.monotonic()
        while not condition():
            if time.monotonic() > end:
                logs = "\n".join(client.log()[-3000:] for client in clients)
                raise AssertionError(f"waited {seconds} s for {what}\n{logs}\n{self.log()[-3000:]}")
            if time.monotonic() > pressed + 4:
                pressed = time.monotonic()
                for client in clients:
                    client.update(self.url)
            time.sleep(0.2)

    def wait_for_batch(self, batch: Batch, *clients: Volunteer, seconds: float = 150) -> None:
        def done() -> bool:
            status = batch.status()
            return status.n_success + status.n_error >= status.njobs

        self.wait(done, *clients, seconds=seconds, what=f"batch {batch.id}")

    def wait_for_report(self, *clients: Volunteer, n: int = 1, seconds: float = 120) -> None:
        """Wait until ``n`` results are over."""
        self.wait(
            lambda: self.value("SELECT COUNT(*) FROM result WHERE received_time IS NOT NULL") >= n,
            *clients,
            seconds=seconds,
            what=f"{n} reports",
        )

    def report_of(self, name: str) -> dict[str, Any]:
        """What the host said about a result."""
        text = self.value(
            "SELECT t.report FROM result_text t JOIN result r ON r.id = t.result_id WHERE r.name = ?", name
        )
        return json.loads(text)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Callable[..., LiveProject]]:
    """Make a running project; the client's log of what it did not understand must stay empty."""
    projects: list[LiveProject] = []

    def make(**options: Any) -> LiveProject:
        project = LiveProject(tmp_path / f"live{len(projects)}", **options)
        projects.append(project)
        return project

    (tmp_path / "live0").mkdir()
    yield make
    misunderstood = [
        line for project in projects for client in project.clients for line in client.unparsed_xml()
    ]
    for project in projects:
        project.close()
    assert misunderstood == []
