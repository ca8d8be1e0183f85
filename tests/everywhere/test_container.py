"""Apps in containers, with Debian's Podman: under our own client, and the orders of a client one by one.

It needs podman and runc (``apt-get install --no-install-recommends podman runc``) and a cross compiler.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import PASSWORD, LiveProject, live  # noqa: F401  # a fixture
from tests.helpers.client_tasks import open_to_other_accounts
from tests.helpers.launcher_slot import CONTROL, Slot, open_slot, until
from tests.helpers.own_client import CONFIG, OwnClient

from cobblestone.launcher.packing import IMAGE_FILE, Image, pack_image
from cobblestone.sdk.api.jobs import Job
from cobblestone.sdk.wasm import toolchain

HERE = Path(__file__).parent
COMMAND = ["/count", "{input}", "{output}"]
OPTIONS = ["--input", "main=in", "--output", "main=out"]
SEEN = "network 0, own root 0, home of others 0\n"


@pytest.fixture(scope="session")
def saved_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of one program, as podman saves it."""
    folder = tmp_path_factory.mktemp("image")
    name = "localhost/cobblestone-test:1"
    import_image(HERE / "container_job.c", folder, "count", name)
    for step in (["save", "-q", "-o", str(folder / "image.tar"), name], ["rmi", "--force", name]):
        subprocess.run(["podman", *step], check=True, capture_output=True)
    return folder / "image.tar"


def import_image(source: Path, folder: Path, program: str, name: str) -> None:
    """Make an image of one compiled program, which is also what it runs by itself."""
    target = ["-target", "x86_64-linux-musl", "-O1", "-static", "-s"]
    words = [*toolchain.zig(), "cc", *target, "-o", str(folder / program), str(source)]
    toolchain.run_compiler(words, folder, source.name)
    with tarfile.open(folder / "files.tar", "w") as archive:
        archive.add(folder / program, program)
    change = ["--change", f'CMD ["/{program}"]']
    words = ["podman", "import", "-q", *change, str(folder / "files.tar"), name]
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Podman, found first on the path, with the runtime that works on every kind of control groups."""
    own = tmp_path / "bin" / "podman"
    own.parent.mkdir()
    own.write_text(f'#!/bin/sh\nexec {shutil.which("podman")} --runtime runc "$@"\n')
    own.chmod(0o755)
    open_to_other_accounts(own.parent)
    monkeypatch.setenv("PATH", f"{own.parent}:{os.environ['PATH']}")

    def run(*words: str) -> str:
        return subprocess.run([own, *words], check=True, capture_output=True, text=True).stdout

    return run


class ContainerSlot:
    """A slot of a job in a container."""

    def __init__(self, slot: Slot, image: Image) -> None:
        self.slot, self.image = slot, image
        (slot.folder / IMAGE_FILE).write_text(f"<soft_link>{image.path}</soft_link>\n")

    def start(self, n: int, *words: str, **description: Any) -> None:
        self.slot.write("in", str(n))
        self.slot.start(
            "", OPTIONS, command=[*COMMAND, *words], container=self.image.description, **description
        )

    def seen(self) -> int:
        return int(self.slot.read("seen") or 0)


@pytest.fixture
def job(tmp_path: Path, saved_image: Path, podman: Callable[..., str]) -> Iterator[ContainerSlot]:
    (tmp_path / "slot").mkdir()
    image = pack_image(saved_image, tmp_path)
    with open_slot(tmp_path / "slot") as slot:
        yield ContainerSlot(slot, image)
    assert podman("ps", "--all", "--quiet", "--filter", "name=cobblestone-") == ""
    podman("rmi", "--force", image.name)


def test_a_job_runs_to_its_end_in_its_slot_alone(job: ContainerSlot):
    job.start(20)
    assert job.slot.wait(60) == 0, job.slot.read("stderr.txt")
    assert job.slot.read("out") == f"counted 20, {SEEN}"
    assert "all is counted" in job.slot.read("stderr.txt")


def test_it_stands_still_while_suspended_and_goes_on(job: ContainerSlot):
    job.start(300)
    until(lambda: job.seen() > 5)
    job.slot.send(CONTROL, "<suspend/>\n")
    until(lambda: stands(job))
    job.slot.send(CONTROL, "<resume/>\n")
    assert job.slot.wait(60) == 0, job.slot.read("stderr.txt")
    assert job.slot.read("out").startswith("counted 300")


def stands(job: ContainerSlot) -> bool:
    before = job.seen()
    time.sleep(0.3)
    return job.seen() == before


def test_it_makes_a_last_checkpoint_when_the_client_quits_and_continues_from_it(job: ContainerSlot):
    job.start(1000)
    until(lambda: job.seen() > 5)
    job.slot.send(CONTROL, "<quit/>\n")
    assert job.slot.wait(60) == 0
    at = int(job.slot.read("state"))
    assert 0 < at < 1000
    assert not job.slot.exists("boinc_finish_called")
    job.start(at + 20)
    assert job.slot.wait(60) == 0
    assert int(job.slot.read("continued")) == at
    assert job.slot.read("out").startswith(f"counted {at + 20}")


def test_an_abort_and_a_killed_launcher_leave_no_container(job: ContainerSlot, podman: Callable[..., str]):
    job.start(100_000)
    until(lambda: job.seen() > 5)
    assert job.slot.process is not None
    job.slot.process.kill()
    job.slot.wait()
    job.start(100_000)
    until(
        lambda: (
            job.slot.exists("cobblestone_state.json")
            and podman("ps", "--quiet", "--filter", "name=cobblestone-")
        )
    )
    until(lambda: len(podman("ps", "--quiet", "--filter", "name=cobblestone-").split()) == 1)
    job.slot.send(CONTROL, "<abort/>\n")
    assert job.slot.wait(60) == 194


def test_memory_beyond_the_bound_ends_it(job: ContainerSlot):
    job.slot.write_init_data(memory_bound=200e6)
    job.start(1000, "600", enforce_memory=True)
    assert job.slot.wait(60) in (198, 137), job.slot.read("stderr.txt")
    assert not job.slot.exists("out")


def test_jobs_that_start_together_load_the_image_once(
    job: ContainerSlot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    loads = tmp_path / "loads"
    noting = tmp_path / "noting" / "podman"
    noting.parent.mkdir()
    noting.write_text(f'#!/bin/sh\n[ "$1" != load ] || echo >>{loads}\nexec {shutil.which("podman")} "$@"\n')
    noting.chmod(0o755)
    monkeypatch.setenv("PATH", f"{noting.parent}:{os.environ['PATH']}")
    (tmp_path / "second").mkdir()
    with open_slot(tmp_path / "second") as slot:
        jobs = [job, ContainerSlot(slot, job.image)]
        for each in jobs:
            each.start(5)
        assert [each.slot.wait(60) for each in jobs] == [0, 0]
    assert loads.read_text() == "\n"


def test_another_archive_than_the_signed_one_is_not_loaded(job: ContainerSlot, podman: Callable[..., str]):
    with job.image.path.open("ab") as archive:
        archive.write(bytes(512))
    job.start(1)
    assert job.slot.wait(60) == 206
    assert "differs from the one that the project signed" in job.slot.read("stderr.txt")
    assert job.image.name not in podman("images", "--format", "{{.Repository}}:{{.Tag}}")


def test_a_program_that_the_image_lacks_is_said(job: ContainerSlot):
    job.slot.write("in", "1")
    job.slot.start("", OPTIONS, command=["/nothing"], container=job.image.description)
    assert job.slot.wait(60) in (125, 126, 127)
    assert "/nothing" in job.slot.read("stderr.txt")


def create(project: LiveProject, image: Path) -> None:
    project.cli(
        "app", "create", "count", "--project", str(project.folder), "--container", str(image),
        "--command", " ".join(COMMAND), "--quorum", "1",
    )  # fmt: skip


def test_our_client_computes_what_the_stock_client_is_not_offered(
    live: Callable[..., LiveProject],  # noqa: F811  # the fixture
    saved_image: Path,
    tmp_path: Path,
    podman: Callable[..., str],
):
    project = live()
    create(project, saved_image)
    assert "in a container" in project.cli("app", "show", "count", "--project", str(project.folder)).stdout
    (project.root / "input").write_text("30\n")
    batch = project.project.submit("count", [Job(inputs=[project.root / "input"]) for _ in range(3)])

    stock = project.volunteer("alice")
    refused = "needs Docker or Podman"
    project.wait(lambda: refused in stock.log(), stock, seconds=120, what="a refusal")
    assert project.value("SELECT COUNT(*) FROM result WHERE host_id IS NOT NULL") == 0
    (host,) = project.query("SELECT id FROM host")
    explained = project.cli("explain", "host", str(host[0]), "--project", str(project.folder)).stdout
    assert refused in explained
    stock.stop()

    client = OwnClient(tmp_path / "own")
    options = CONFIG.format(ncpus=1).replace("<options>", "<options>\n    <use_containers>1</use_containers>")
    (client.folder / "cc_config.xml").write_text(options)
    client.start()
    try:
        client.cli("attach", project.url, "--email", "alice@example.org", "--password", PASSWORD)
        project.wait_for_batch(batch, client, seconds=300)
    finally:
        client.stop()
    assert "Jobs in containers: podman" in client.log()
    assert [result.text() for result in batch.results(timeout=60)] == [f"counted 30, {SEEN}"] * 3


def test_a_stock_client_of_version_8_computes_it(
    live: Callable[..., LiveProject],  # noqa: F811  # the fixture
    saved_image: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    podman: Callable[..., str],
):
    newer = subprocess.run(["tools/newer_client.sh", "sid"], check=True, capture_output=True, text=True)
    monkeypatch.setenv("PATH", f"{newer.stdout.strip()}:{os.environ['PATH']}")
    # With the image of this name that client tries whether containers work; here it is not fetched from far.
    (tmp_path / "hello.c").write_text(
        '#include <stdio.h>\nint main(void) { puts("\\nHello from Docker!"); }\n'
    )
    import_image(tmp_path / "hello.c", tmp_path, "hello", "localhost/hello-world")
    # The limits that Podman sets by itself are more than root may ask for in a sandbox.
    (tmp_path / "containers.conf").write_text(
        '[containers]\ndefault_ulimits = ["nofile=1024:4096", "nproc=1024:4096"]\n'
    )
    monkeypatch.setenv("CONTAINERS_CONF", str(tmp_path / "containers.conf"))
    project = live()
    create(project, saved_image)
    (project.root / "input").write_text("30\n")
    batch = project.project.submit("count", [Job(inputs=[project.root / "input"]) for _ in range(3)])
    client = project.volunteer("alice")
    assert "version 8." in client.log()
    assert "hello-world' test failed" not in client.log()
    project.wait_for_batch(batch, client, seconds=240)
    assert [result.text() for result in batch.results(timeout=60)] == [f"counted 30, {SEEN}"] * 3
    assert client.unparsed_xml() == []


def test_a_trial_runs_it(
    live: Callable[..., LiveProject],  # noqa: F811  # the fixture
    saved_image: Path,
    podman: Callable[..., str],
):
    project = live()
    create(project, saved_image)
    (project.root / "input").write_text("5\n")
    shown = project.cli("app", "try", "count", str(project.root / "input"), "--project", str(project.folder))
    assert f"counted 5, {SEEN.strip()}" in shown.stdout
    assert podman("ps", "--all", "--quiet", "--filter", "name=cobblestone-") == ""
