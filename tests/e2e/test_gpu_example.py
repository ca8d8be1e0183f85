"""The example for GPUs, computed for real: OpenCL on the processor by PoCL, in C on the processor, and in NumPy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import LiveProject
from tests.helpers.own_client import OwnClient
from tests.helpers.stock_client import StockClient

from cobblestone.demo import stock_client

EXAMPLES = Path(__file__).parents[2] / "examples"
#: PoCL's device is no GPU to BOINC, so the volunteer declares it.
DECLARED = "<coproc><type>pocl</type><count>1</count><peak_flops>1e11</peak_flops></coproc>\n  </options>"
CLASS = '[pocl]\ngpu_type = "pocl"\n'


@pytest.fixture
def example(tmp_path: Path) -> Path:
    folder = tmp_path / "examples" / "gpu"
    ignored = shutil.ignore_patterns("inputs", "spectrum_cpu", "spectrum_opencl", "__pycache__")
    shutil.copytree(EXAMPLES / "gpu", folder, ignore=ignored)
    (folder.parent / "sunspots").mkdir()
    shutil.copy(EXAMPLES / "sunspots" / "sunspots.csv", folder.parent / "sunspots")
    subprocess.run(["make", "-s"], cwd=folder, check=True)
    words = ["--jobs", "1", "--shuffles", "3000", "--oversampling", "2"]
    subprocess.run([sys.executable, "make_inputs.py", *words], cwd=folder, check=True)
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnClient]:
    client = OwnClient(tmp_path / "own")
    declare_device(client.folder)
    client.start()
    yield client
    client.stop()
    assert "Traceback" not in client.log(), client.log()[-3000:]


def declare_device(folder: Path) -> None:
    path = folder / "cc_config.xml"
    path.write_text(path.read_text().replace("</options>", DECLARED))


def test_opencl_and_c_agree_through_both_clients(
    live: Callable[..., LiveProject], example: Path, own: OwnClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stock_client, "OPTIONS", [each for each in stock_client.OPTIONS if each != "--no_gpus"]
    )
    project = live()
    (project.folder / "plan_classes.toml").write_text(CLASS)
    at = ("spectrum", "--project", str(project.folder))
    project.cli(
        "app", "create", *at, "--files", str(example / "spectrum_opencl"), str(example / "spectrum.cl"),
        "--command", "spectrum_opencl {input} {output} {gpu_type} {gpu}", "--plan-class", "pocl",
        "--quorum", "3", "--compare", "numeric:rtol=1e-4",
    )  # fmt: skip
    batch = project.project.submit("spectrum", sorted((example / "inputs").iterdir()))
    own.cli("attach", project.url, "--key", project.account("olga"))
    alice = StockClient(project.root / "alice")
    declare_device(alice.folder)
    project.clients.append(alice)
    alice.start()
    alice.attach(project.url, project.account("alice"))
    reported = "SELECT count(*) FROM result WHERE received_time > 0"
    project.wait(lambda: project.value(reported) == 2, own, alice, seconds=100, what="OpenCL")

    project.cli(
        "app", "update", *at, "--files", str(example / "spectrum_cpu"),
        "--command", "spectrum_cpu {input} {output}",
    )  # fmt: skip
    bob = project.volunteer("bob")
    project.wait_for_batch(batch, own, alice, bob, seconds=100)
    assert (batch.status().n_success, batch.status().n_error) == (1, 0)
    of_versions = "FROM result r JOIN app_version v ON v.id = r.app_version_id WHERE r.outcome = 1"
    assert dict(project.query(f"SELECT v.plan_class, count(*) {of_versions} GROUP BY 1")) == {
        "pocl": 2,
        "": 1,
    }
    (result,) = batch.results(timeout=60)
    assert "period 11.0" in result.text()
