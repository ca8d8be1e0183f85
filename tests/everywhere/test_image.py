"""The image of the project's server, built and run with Debian's Podman: first start, computing, backup, upgrade, PostgreSQL.

It needs podman and runc, and the image debian:13-slim; where no registry is within reach, this makes nearly the same::

    excluded=$(printf -- '--dpkgopt=path-exclude=/usr/share/%s/* ' doc man info locale lintian)
    set -f; mmdebstrap --variant=minbase $excluded trixie - | podman import - docker.io/library/debian:13-slim

What pip needs to know on this machine comes from ``IMAGE_BUILD_OPTIONS``, such as ``-v /etc/pip.conf:/etc/pip.conf:ro``.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.helpers.bucket_server import BucketServer
from tests.helpers.eventually import eventually
from tests.helpers.kept_project import RELEASED, load_sqlite
from tests.helpers.postgres_server import PostgresServer

from cobblestone.demo.stock_client import StockClient, free_port

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/cobblestone-test:1"
MOST_BYTES = 250_000_000


def podman(*words: str, check: bool = True) -> str:
    """Run Podman with the runtime that works on every kind of control groups."""
    done = subprocess.run(
        ["podman", "--runtime", "runc", *words], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def image() -> Iterator[str]:
    options = shlex.split(os.environ.get("IMAGE_BUILD_OPTIONS", ""))
    podman(
        *("build", "--isolation=chroot", "--network=host", "--format=docker", "--quiet", "--tag", IMAGE),
        *options,
        str(ROOT),
    )
    yield IMAGE
    podman("rmi", "--force", IMAGE, check=False)


class Server:
    """A container of the image on the network of this machine."""

    def __init__(self, image: str, name: str, volume: str, *more: str) -> None:
        self.image, self.name, self.volume, self.more, self.port = image, name, volume, more, free_port()
        self.url = f"http://127.0.0.1:{self.port}/"

    def options(self, **variables: str) -> list[str]:
        values = {
            "SERVER__PORT": str(self.port),
            "PROJECT__URL": self.url,
            "PROJECT__NAME": "Sky",
            **variables,
        }
        return [
            *("--network=host", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000"),
            f"--volume={self.volume}:/data",
            *self.more,
            *(f"--env=COBBLESTONE_{name}={value}" for name, value in values.items()),
        ]

    def start(self, **variables: str) -> None:
        podman("run", "--detach", "--name", self.name, *self.options(**variables), self.image)
        eventually(self.is_ready, seconds=120)

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def run(self, *words: str) -> str:
        """Run a command in the running container."""
        return podman("exec", self.name, "cobblestone", *words)

    def end(self) -> None:
        podman("stop", "--time", "30", self.name)
        podman("rm", self.name)


@pytest.fixture
def volumes() -> Iterator[list[str]]:
    names = ["cobblestone-test-1", "cobblestone-test-2"]
    yield names
    podman("rm", "--force", "--ignore", "cobblestone-test-a", "cobblestone-test-b")
    podman("volume", "rm", "--force", *names, check=False)


def test_it_is_small_and_without_root(image: str) -> None:
    [about] = json.loads(podman("image", "inspect", image))
    assert about["Size"] < MOST_BYTES
    assert about["Config"]["User"] == "cobblestone"
    assert about["Healthcheck"]


def test_a_volunteer_computes_for_it_and_its_backup_goes_on_in_another_volume(
    image: str, volumes: list[str], tmp_path: Path
) -> None:
    server = Server(image, "cobblestone-test-a", volumes[0])
    server.start()
    podman("healthcheck", "run", server.name)
    script = tmp_path / "double.py"
    script.write_text("import sys; open(sys.argv[2], 'w').write(str(2 * int(open(sys.argv[1]).read())))\n")
    (tmp_path / "in.txt").write_text("21")
    podman("cp", str(script), f"{server.name}:/data/double.py")
    podman("cp", str(tmp_path / "in.txt"), f"{server.name}:/data/in.txt")
    command = [
        "--command",
        "python3 double.py {input} {output}",
        "--files",
        "/data/double.py",
        "--quorum",
        "1",
    ]
    server.run("app", "create", "double", *command)
    server.run("submit", "double", "/data/in.txt")
    account = httpx.get(
        f"{server.url}create_account.php",
        params={"email_addr": "a@example.org", "passwd_hash": "1" * 32, "user_name": "a"},
    ).text
    key = account.partition("<authenticator>")[2].partition("<")[0]
    client = StockClient(tmp_path / "client")
    client.start()
    try:
        client.attach(server.url, key)
        eventually(
            lambda: '"state": "complete"' in server.run("batch", "status", "1", "--json"),
            seconds=200,
            pause=2,
        )
    finally:
        client.stop()
    server.run("batch", "results", "1", "--to", "/data/answers")
    assert "42" in podman("exec", server.name, "sh", "-c", "cat /data/answers/in/*")

    server.run("backup", "/data/monday.tar.gz")
    podman("cp", f"{server.name}:/data/monday.tar.gz", str(tmp_path / "monday.tar.gz"))
    server.end()
    os.chown(tmp_path / "monday.tar.gz", 10001, 10001)
    other = Server(image, "cobblestone-test-b", volumes[1])
    mounted = f"--volume={tmp_path / 'monday.tar.gz'}:/monday.tar.gz:ro"
    restore = ["restore", "/monday.tar.gz", "/data/project"]
    podman("run", "--rm", *other.options(), mounted, image, *restore)
    other.start(PROJECT__URL=server.url)
    assert "double" in other.run("app", "list")
    assert "The project is sound." in other.run("doctor")
    other.end()


def test_two_containers_share_postgresql_and_a_bucket(image: str, volumes: list[str]) -> None:
    database, bucket = PostgresServer(), BucketServer()
    try:
        database.folder.chmod(0o755)  # its socket is there
        socket = f"--volume={database.folder}:{database.folder}"
        bucket_settings = {f"STORAGE__{key.upper()}": str(value) for key, value in bucket.settings().items()}
        both = [Server(image, f"cobblestone-test-{name}", volumes[0], socket) for name in "ab"]
        for each in both:
            each.start(
                PROJECT__URL=both[0].url, DATABASE__URL=database.address("postgres"), **bucket_settings
            )
        processes = json.loads(both[0].run("status", "--json"))["project"]["processes"]
        assert len(processes) == 2
        for each in both:
            each.end()
    finally:
        bucket.close()
        database.close()


def test_a_new_image_upgrades_the_project_of_an_older_version(image: str, volumes: list[str]) -> None:
    server = Server(image, "cobblestone-test-a", volumes[0])
    server.start()
    podman("stop", "--time", "30", server.name)
    folder = Path(podman("volume", "inspect", volumes[0], "--format", "{{.Mountpoint}}").strip()) / "project"
    for old in folder.glob("project.sqlite*"):
        old.unlink()
    load_sqlite((RELEASED / "0.1.0" / "sqlite.sql").read_text(encoding="utf-8"), folder / "project.sqlite")
    os.chown(folder / "project.sqlite", 10001, 10001)
    podman("start", server.name)
    eventually(server.is_ready, seconds=120)
    state = httpx.get(f"{server.url}server_status.php?xml=1").text
    assert re.search(r"<hosts_with_credit>[1-9]", state), state
    server.end()
