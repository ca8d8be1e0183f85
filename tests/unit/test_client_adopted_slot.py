"""A slot in which another client of the family has saved a checkpoint becomes ours, with all that the job has done."""

from __future__ import annotations

from pathlib import Path

import pytest

from cobblestone.client.sandbox.slot_files import SlotFolder
from cobblestone.client.tasks import slot
from cobblestone.client.tasks.description import TaskOutput, TaskSpec
from cobblestone.wire.client.task_messages import (
    CheckpointState,
    read_soft_link,
    write_soft_link,
    write_task_state,
)

NAME = "job_1_0"


@pytest.fixture
def left(tmp_path: Path) -> tuple[SlotFolder, TaskSpec]:
    """A slot as the client 7.20.5 leaves it: its mark of completeness is unknown there, outputs go to the project's directory."""
    project = tmp_path / "projects" / "p"
    project.mkdir(parents=True)
    (project / "job_1_0_r0").write_text("half of it")
    folder = tmp_path / "slots" / "0"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("77")
    (folder / "out").write_text(write_soft_link("../../projects/p/job_1_0_r0"))
    (folder / "log").write_text("a real file")
    state = CheckpointState(project_url="http://127.0.0.1/", result_name=NAME, cpu_time=3.0, elapsed=5.0)
    (folder / slot.STATE_FILE).write_text(write_task_state(state))
    outputs = (
        TaskOutput(open_name="out", physical_name="job_1_0_r0", max_nbytes=1e6),
        TaskOutput(open_name="log", physical_name="job_1_0_r1", max_nbytes=1e6),
    )
    spec = TaskSpec(
        name=NAME,
        result_name=NAME,
        project_url="http://127.0.0.1/",
        project_dir=project,
        main_program="app",
        outputs=outputs,
    )
    return SlotFolder(folder), spec


def test_a_checkpoint_of_another_client_is_kept(left: tuple[SlotFolder, TaskSpec]) -> None:
    folder, spec = left
    assert not slot.is_set_up_for(folder, NAME)
    assert slot.take_over(folder, spec)
    assert slot.is_set_up_for(folder, NAME)
    assert (folder.path / "state.json").read_text() == "77"
    assert (folder.path / "log").read_text() == "a real file"
    assert read_soft_link((folder.path / "out").read_text()) == "outputs/job_1_0_r0"
    assert (folder.path / "outputs" / "job_1_0_r0").read_text() == "half of it"
    assert not (spec.project_dir / "job_1_0_r0").exists()


def test_a_slot_of_another_job_or_without_a_checkpoint_is_not_taken_over(
    left: tuple[SlotFolder, TaskSpec],
) -> None:
    folder, spec = left
    text = (folder.path / slot.STATE_FILE).read_text()
    for other in ("", text.replace(NAME, "job_2_0"), text[:-20]):
        (folder.path / slot.STATE_FILE).write_text(other)
        assert not slot.take_over(folder, spec)
        assert (spec.project_dir / "job_1_0_r0").exists()
