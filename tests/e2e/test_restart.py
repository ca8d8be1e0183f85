"""A server that restarts under load fails no request."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from tests.e2e.conftest import LiveProject

RESTARTS = 3
LOADERS = 4


class Load:
    """Keeps sending requests, each loader over a connection that it keeps."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.stop = threading.Event()
        self.statuses: Counter[int] = Counter()
        self.failures: list[str] = []
        self._threads = [threading.Thread(target=self._run) for _ in range(LOADERS)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=60) as client:
            while not self.stop.is_set():
                for path in ("/", "/get_project_config.php", "/server_status.php?xml=1"):
                    try:
                        self.statuses[client.get(path).status_code] += 1
                    except httpx.HTTPError as error:
                        self.failures.append(f"{path}: {error!r}")


def running(project: LiveProject) -> dict[str, object]:
    return json.loads((project.folder / "server.json").read_text())


def wait_for_start(project: LiveProject, after: float) -> dict[str, object]:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            found = running(project)
        except FileNotFoundError:
            found = {}
        if float(str(found.get("started", 0))) > after:
            return found
        time.sleep(0.05)
    raise AssertionError("it does not start again: " + project.log())


@pytest.mark.timeout(300)
def test_restarts_under_load_fail_no_request(tmp_path: Path):
    project = LiveProject(tmp_path)
    try:
        first = running(project)
        with Load(f"http://127.0.0.1:{project.port}") as load:
            for _ in range(RESTARTS):
                before = float(str(running(project)["started"]))
                assert project.process is not None
                project.process.send_signal(signal.SIGHUP)
                again = wait_for_start(project, before)
                assert again["pid"] == first["pid"]
                time.sleep(0.3)
        assert load.failures == []
        assert set(load.statuses) == {200}
        assert load.statuses[200] > 50
    finally:
        project.close()


@pytest.mark.timeout(120)
def test_a_restart_with_broken_settings_is_refused_and_the_server_goes_on(tmp_path: Path):
    project = LiveProject(tmp_path)
    try:
        before = running(project)
        settings = project.folder / "cobblestone.toml"
        good = settings.read_text()
        settings.write_text(good + "\n[serverr]\nport = 1\n")
        assert project.process is not None
        project.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 60
        while "restart_refused" not in project.log():
            assert time.monotonic() < end
            time.sleep(0.05)
        assert "serverr" in project.log()
        assert running(project) == before
        assert httpx.get(f"http://127.0.0.1:{project.port}/healthz").text == "ok\n"
        settings.write_text(good)
    finally:
        project.close()
