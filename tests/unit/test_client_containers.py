"""Whether this computer runs containers, as our own client finds out."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cobblestone.client.sandbox.containers import ContainerEngine, find_engine, lay_out_trial
from cobblestone.wire.scheduler.host import HostInfo, write_host_info


def test_without_an_engine_nothing_is_tried_and_nothing_said(tmp_path: Path):
    assert find_engine(tmp_path, None, {"PATH": str(tmp_path)}) == ContainerEngine()
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_cannot_run_a_container_is_not_reported(tmp_path: Path):
    bad = tmp_path / "bin" / "podman"
    bad.parent.mkdir()
    bad.write_text("#!/bin/sh\necho version 9.9; echo no store here >&2; exit 1\n")
    bad.chmod(0o755)
    found = find_engine(tmp_path, None, {"PATH": f"{bad.parent}:/usr/bin:/bin"})
    assert (found.version, found.type) == ("", 0)
    (sentence,) = found.report
    assert "podman is installed" in sentence
    assert "no store here" in sentence


def test_the_program_of_the_trial_runs_and_ends_well(tmp_path: Path):
    lay_out_trial(tmp_path)
    subprocess.run(["tar", "-xf", "layer.tar"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "end"], check=False).returncode == 0


def test_it_is_told_to_projects_as_the_family_tells_it():
    assert "docker" not in write_host_info(HostInfo())
    text = write_host_info(HostInfo(docker_version="4.3.1", docker_type=2))
    assert "<docker_version>4.3.1</docker_version>" in text
    assert "<docker_type>2</docker_type>" in text
