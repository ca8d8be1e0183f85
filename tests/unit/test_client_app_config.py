"""`app_config.xml` in force: what jobs use and are started with, and that all of it is undone without a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.helpers.client_state import URL, attach_with_jobs, version
from tests.helpers.daemon_in_test import make_client, said

from cobblestone.client.app_versions import with_versions_in_force
from cobblestone.client.daemon import Client
from cobblestone.client.task_specs import make_task_spec
from cobblestone.client.tasks.description import TaskSpec
from cobblestone.policy.client.core.events import HostOn
from cobblestone.policy.client.core.state import Job
from cobblestone.wire.client_objects import write_known_version
from cobblestone.wire.client_records import ProjectContent

WISHES = """<app_config>
  <app><name>wide</name><max_concurrent>1</max_concurrent><fraction_done_exact/></app>
  <app><name>gpu</name><gpu_versions><gpu_usage>0.5</gpu_usage><cpu_usage>0.2</cpu_usage></gpu_versions></app>
  <app_version><app_name>wide</app_name><plan_class>mt</plan_class><avg_ncpus>3</avg_ncpus>
    <cmdline>--threads 3</cmdline></app_version>
  <project_max_concurrent>4</project_max_concurrent>
  <report_results_immediately/>
</app_config>
"""


class World:
    """A client with one project, driven by hand: nothing is started."""

    def __init__(self, folder: Path) -> None:
        self.client: Client = make_client(folder, ncpus=8)
        self.client.conditions.read_files()
        self.content: ProjectContent = attach_with_jobs(
            self.client,
            version("wide", "mt", avg_ncpus=8.0, cmdline="--threads 8"),
            version("gpu", "cuda", avg_ncpus=1.0, coproc_type="NVIDIA", coproc_count=1.0),
        )
        self.file = self.client.folders.project(URL) / "app_config.xml"
        self.client.post(HostOn(self.client.clock()))
        self.client._tell_core_of_everything()
        self.look()

    def look(self) -> None:
        """Read what has changed, as the daemon does every ten seconds."""
        if self.client.conditions._looks() != self.client.conditions._stamp:
            self.client.conditions.read_files()
        self.client.apply_conditions()
        self.client.drain()

    def write(self, text: str) -> None:
        self.file.write_text(text)
        self.look()

    def known(self, name: str) -> Job:
        return self.client.decisions.core.state.by_id[f"{URL}|{name}"]

    def spec(self, name: str) -> TaskSpec:
        client = self.client
        return make_task_spec(
            client.state, client.folders, client.facts(), self.content, self.content.jobs[name], 60.0
        )

    def state_for_managers(self) -> str:
        return "".join(write_known_version(each) for each in with_versions_in_force(self.content).versions)

    def figures(self) -> tuple[object, ...]:
        wide, gpu = self.known("wide_0_r"), self.known("gpu_0_r")
        spec, other = self.spec("wide_0_r"), self.spec("gpu_0_r")
        (project,) = self.client.decisions.core.state.projects
        return (
            (wide.cpus, wide.exact_fraction, wide.report_immediately),
            (gpu.cpus, gpu.gpus, gpu.report_immediately),
            (spec.arguments, spec.init.ncpus),
            (other.init.ncpus, other.init.gpu_usage),
            (project.description.max_concurrent, dict(project.description.app_max_concurrent)),
        )


PLAIN = (
    (8.0, False, False),
    (1.0, 1.0, False),
    (("--size", "3", "--threads", "8"), 8.0),
    (1.0, 1.0),
    (0, {}),
)
WISHED = (
    (3.0, True, True),
    (0.2, 0.5, True),
    (("--size", "3", "--threads", "3"), 3.0),
    (0.2, 0.5),
    (4, {"wide": 1}),
)


def play(tmp_path: Path, check: object) -> None:
    async def inside() -> None:
        world = World(tmp_path / "own")
        try:
            check(world)  # type: ignore[operator]
        finally:
            await world.client.http.aclose()
            world.client.state.close()

    asyncio.run(inside())


def test_wishes_take_effect_on_waiting_jobs_and_are_undone_when_the_file_goes(tmp_path: Path) -> None:
    def check(world: World) -> None:
        assert world.figures() == PLAIN
        world.write(WISHES)
        assert world.figures() == WISHED
        assert "<avg_ncpus>3.000000</avg_ncpus>" in world.state_for_managers()
        world.file.unlink()
        world.look()
        assert world.figures() == PLAIN
        assert "<avg_ncpus>8.000000</avg_ncpus>" in world.state_for_managers()

    play(tmp_path, check)


def test_a_line_taken_out_is_undone_and_a_typing_error_leaves_the_last_good_file_in_force(
    tmp_path: Path,
) -> None:
    def check(world: World) -> None:
        world.write(WISHES)
        world.write(WISHES.replace("</app_config>", "</app_confg>"))
        assert world.figures() == WISHED
        assert "app_config.xml: line" in said(world.client)
        assert "its last good content stays in force" in said(world.client)
        world.write("<app_config><app><name>wide</name><max_concurrent>2</max_concurrent></app></app_config>")
        assert world.figures() == (*PLAIN[:4], (0, {"wide": 2}))

    play(tmp_path, check)


def test_an_entry_for_an_app_that_there_is_not_becomes_a_notice(tmp_path: Path) -> None:
    def check(world: World) -> None:
        world.write("<app_config><app><name>wied</name><max_concurrent>2</max_concurrent></app></app_config>")
        (notice,) = world.client.journal.notices
        assert "has no app 'wied'; it has: gpu, wide" in notice.description

    play(tmp_path, check)


def test_after_a_restart_the_core_learns_what_the_file_says_by_then(tmp_path: Path) -> None:
    def check(world: World) -> None:
        world.write(WISHES)
        world.file.unlink()
        world.client.conditions.read_files()  # as at a start: the core remembers the old figures
        world.client._tell_core_of_everything()
        world.client.apply_conditions()
        world.client.drain()
        assert world.figures() == PLAIN

    play(tmp_path, check)
