"""What the container runs at its start, without a container, and what compose gives it; see `tests/everywhere/test_image.py`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import yaml
from tests.helpers.eventually import eventually

from cobblestone.demo.stock_client import free_port
from cobblestone.ops.settings import Settings

ROOT = Path(__file__).parents[2]
VARIABLE = re.compile(r"COBBLESTONE_(?!PROJECT\b)(\w+?)__(\w+)")


class Container:
    """The image's command with a folder as its volume."""

    def __init__(self, volume: Path, **variables: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.project = volume / "project"
        given = {
            "PROJECT__NAME": "Sky",
            "PROJECT__URL": self.url,
            "SERVER__PORT": str(self.port),
            **variables,
        }
        self.environment = {
            **os.environ,
            **{f"COBBLESTONE_{name}": value for name, value in given.items()},
            "COBBLESTONE_PROJECT": str(self.project),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [ROOT / "container" / "start", *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}readyz").status_code == 200
        except httpx.HTTPError:
            return False


def stop(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=60)[0]


def test_the_first_start_makes_the_project_and_the_next_one_runs_it(tmp_path: Path) -> None:
    container = Container(tmp_path)
    # what a start that was killed left: everything but the settings
    (container.project / "keys").mkdir(parents=True)
    first = container.start()
    eventually(container.is_ready, seconds=60)
    assert "<name>Sky</name>" in httpx.get(f"{container.url}get_project_config.php").text
    status = container.start("status").communicate(timeout=60)[0]
    assert "Sky at" in status
    assert "Created a project" in stop(first)
    key = (container.project / "keys" / "code_sign_private").read_bytes()

    again = container.start()
    eventually(container.is_ready, seconds=60)
    assert "Created" not in stop(again)
    assert (container.project / "keys" / "code_sign_private").read_bytes() == key


def test_of_two_first_starts_one_makes_the_project_and_the_other_says_that_it_runs(tmp_path: Path) -> None:
    container = Container(tmp_path)
    both = [container.start(), container.start()]
    eventually(container.is_ready, seconds=60)
    eventually(lambda: any(each.poll() is not None for each in both), seconds=60)
    ended = sorted(both, key=lambda each: each.poll() is None)
    texts = [ended[0].communicate(timeout=60)[0], stop(ended[1])]
    assert "is already open in process" in texts[0]
    assert "".join(texts).count("Created a project") == 1


def test_a_wrong_setting_is_named_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    container = Container(tmp_path, PROJECT__URL="http://localhost/")
    failed = container.start()
    assert "BOINC clients reject a host without a dot" in failed.communicate(timeout=60)[0]
    assert failed.returncode
    assert not container.project.exists()


def test_compose_gives_settings_that_exist_and_asks_for_what_large_env_has() -> None:
    text, settings = (ROOT / "compose.yaml").read_text(encoding="utf-8"), Settings()
    for section, key in VARIABLE.findall(text + (ROOT / "docs" / "container.md").read_text(encoding="utf-8")):
        if section != "SECTION":
            assert hasattr(getattr(settings, section.lower()), key.lower()), (section, key)

    lines = (ROOT / "container" / "large.env").read_text(encoding="utf-8").splitlines()
    given = {line.partition("=")[0] for line in lines if not line.startswith("#")}
    with_defaults = {"PORT", "SECOND_PORT", "STORAGE_PORT", "TRUSTED_PROXIES"}
    assert set(re.findall(r"\$\{(\w+)", text)) == given | with_defaults

    for ignored in (".gitignore", ".containerignore"):  # it holds passwords
        assert ".env" in (ROOT / ignored).read_text(encoding="utf-8").split()

    services = yaml.safe_load(text)["services"]
    assert {name for name, each in services.items() if "profiles" not in each} == {"project"}
    assert services["second"]["environment"] == services["project"]["environment"]
