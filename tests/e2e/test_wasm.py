"""A WebAssembly app under Debian's stock client, on a computer without Python."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.conftest import LiveProject
from tests.helpers.wasm_slot import put_native_launcher, steps

from cobblestone.demo import processes
from cobblestone.sdk.api.jobs import Job

PLATFORM = "x86_64-pc-linux-gnu"
STEPS = 6_000_000_000  #: the first checkpoint comes half way
SECONDS = 120


def last_state() -> bytes:
    """What the steps lead to, by doubling: n steps are one step with another factor and summand."""
    factor, summand = 6364136223846793005, 1442695040888963407
    whole_factor, whole_summand, left, mask = 1, 0, STEPS, (1 << 64) - 1
    while left:
        if left & 1:
            whole_factor, whole_summand = (
                whole_factor * factor & mask,
                (whole_summand * factor + summand) & mask,
            )
        factor, summand, left = factor * factor & mask, (factor + 1) * summand & mask, left >> 1
    return whole_summand.to_bytes(8, "little")


def test_a_module_is_computed_and_continued_after_a_restart_of_the_client(
    live: Callable[..., LiveProject], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COBBLESTONE_LAUNCHERS", str(tmp_path))
    put_native_launcher(tmp_path / f"cobblestone_launcher_{PLATFORM}")
    without_python(tmp_path / "bin", monkeypatch)
    project = live()
    (project.root / "steps.wasm").write_bytes(steps(STEPS))
    project.cli(
        "app", "create", "steps", "--project", str(project.folder), "--wasm", str(project.root / "steps.wasm"),
        "--command", "steps {output}", "--platform", PLATFORM,
    )  # fmt: skip
    batch = project.project.submit("steps", [Job()])
    client = project.volunteer("alice")
    project.wait(
        lambda: any(task.fraction_done > 0 for task in client.tasks()),
        client,
        seconds=SECONDS,
        what="a running job",
    )
    client.wait_for(lambda: client.tasks()[0].checkpoint_cpu_time > 0, seconds=SECONDS, what="a checkpoint")
    client.stop()
    client.start()
    project.wait_for_batch(batch, client)
    (result,) = batch.results(timeout=10)
    assert result.outputs["output"] == last_state()
    assert project.query("SELECT outcome, exit_status, intops_counted > ? FROM result", STEPS) == [(1, 0, 1)]


def without_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients find nothing on their PATH but themselves."""
    folder.mkdir()
    for name in ("boinc", "boinccmd"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    environment = {**processes.environment_without_proxies(), "PATH": str(folder)}
    monkeypatch.setattr(processes, "environment_without_proxies", lambda: environment)
