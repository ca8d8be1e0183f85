"""`app_config.xml` in force: what jobs use and are started with, and that all of it is undone without a restart."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.client_state import APP_CONFIG as FILE
from tests.helpers.client_state import URL, World, add_job, play
from tests.helpers.daemon_in_test import said

from cobblestone.client.daemon.news import stalled_downloads
from cobblestone.client.projects.scheduler_reply import describe_job
from cobblestone.client.records.app_versions import with_versions_in_force
from cobblestone.policy.client.core.events import JobsFound
from cobblestone.wire.client.objects import write_known_version
from cobblestone.wire.client.records import ClientJobState, FileRecord
from cobblestone.wire.scheduler.job import FileInfo

WISHES = """<app_config>
  <app><name>wide</name><max_concurrent>1</max_concurrent><fraction_done_exact/></app>
  <app><name>gpu</name><gpu_versions><gpu_usage>0.5</gpu_usage><cpu_usage>0.2</cpu_usage></gpu_versions></app>
  <app_version><app_name>wide</app_name><plan_class>mt</plan_class><avg_ncpus>3</avg_ncpus>
    <cmdline>--threads 3</cmdline></app_version>
  <project_max_concurrent>4</project_max_concurrent>
  <report_results_immediately/>
</app_config>
"""


def figures(world: World) -> tuple[object, ...]:
    wide, gpu = world.known("wide_0_r"), world.known("gpu_0_r")
    spec, other = world.spec("wide_0_r"), world.spec("gpu_0_r")
    (project,) = world.client.decisions.core.state.projects
    return (
        (wide.cpus, wide.exact_fraction, wide.report_immediately),
        (gpu.cpus, gpu.gpus, gpu.report_immediately),
        (spec.arguments, spec.init.ncpus),
        (other.init.ncpus, other.init.gpu_usage),
        (project.description.max_concurrent, dict(project.description.app_max_concurrent)),
    )


def shown_to_managers(world: World) -> str:
    return "".join(map(write_known_version, with_versions_in_force(world.content).versions))


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


def test_wishes_take_effect_on_waiting_jobs_and_are_undone_when_the_file_goes(tmp_path: Path) -> None:
    def check(world: World) -> None:
        assert figures(world) == PLAIN
        world.write(FILE, WISHES)
        assert figures(world) == WISHED
        assert "<avg_ncpus>3.000000</avg_ncpus>" in shown_to_managers(world)
        world.remove(FILE)
        assert figures(world) == PLAIN
        assert "<avg_ncpus>8.000000</avg_ncpus>" in shown_to_managers(world)

    play(tmp_path, check)


def test_a_line_taken_out_is_undone_and_a_typing_error_leaves_the_last_good_file_in_force(
    tmp_path: Path,
) -> None:
    def check(world: World) -> None:
        world.write(FILE, WISHES)
        world.write(FILE, WISHES.replace("</app_config>", "</app_confg>"))
        assert figures(world) == WISHED
        assert "app_config.xml: line" in said(world.client)
        assert "its last good content stays in force" in said(world.client)
        world.write(
            FILE, "<app_config><app><name>wide</name><max_concurrent>2</max_concurrent></app></app_config>"
        )
        assert figures(world) == (*PLAIN[:4], (0, {"wide": 2}))

    play(tmp_path, check)


def test_an_entry_for_an_app_that_there_is_not_becomes_a_notice(tmp_path: Path) -> None:
    def check(world: World) -> None:
        world.write(
            FILE, "<app_config><app><name>wied</name><max_concurrent>2</max_concurrent></app></app_config>"
        )
        (notice,) = world.client.journal.notices
        assert "has no app 'wied'; it has: gpu, wide" in notice.description

    play(tmp_path, check)


def test_after_a_restart_the_core_learns_what_the_file_says_by_then(tmp_path: Path) -> None:
    def check(world: World) -> None:
        world.write(FILE, WISHES)
        (world.client.folders.root / FILE).unlink()
        world.client.conditions.read_files()  # as at a start: the core remembers the old figures
        world.client._tell_core_of_everything()
        world.client.apply_conditions()
        world.client.drain()
        assert figures(world) == PLAIN

    play(tmp_path, check)


def test_a_project_may_be_put_behind_others_and_asked_for_no_work_of_one_kind(tmp_path: Path) -> None:
    def described(world: World) -> tuple[int, tuple[str, ...]]:
        (project,) = world.client.decisions.core.state.projects
        return project.description.priority_group, project.description.forbidden

    def check(world: World) -> None:
        assert described(world) == (0, ())
        text = "<priority_group>2</priority_group><no_rsc>CPU</no_rsc><no_rsc>NVIDIA</no_rsc>"
        world.write(FILE, f"<app_config>{text}</app_config>")
        assert described(world) == (2, ("", "NVIDIA"))
        assert not world.client.journal.notices
        world.remove(FILE)
        assert described(world) == (0, ())

    play(tmp_path, check)


def test_a_job_whose_files_do_not_come_is_no_work_until_they_come_again(tmp_path: Path) -> None:
    def check(world: World) -> None:
        client, content = world.client, world.content
        job = add_job(content, content.versions[0], "late", client.clock())
        job.state = ClientJobState.DOWNLOADING
        info = FileInfo(name="wide_program", urls=(), nbytes=1, md5_cksum="")
        file = content.files["wide_program"] = FileRecord(project=URL, name="wide_program", download=info)
        client.post(JobsFound(client.clock(), (describe_job(content, job),)))
        client.drain()
        state = client.decisions.core.state
        assert stalled_downloads(client.state, state, client.clock()) == []
        file.num_retries, file.next_request_time = 1, client.clock() + 600
        client.post(*stalled_downloads(client.state, state, client.clock()))
        client.drain()
        assert world.known("late_r").stalled
        assert not world.known("late_r").queued
        assert stalled_downloads(client.state, state, client.clock()) == []
        client.post(*stalled_downloads(client.state, state, client.clock() + 601))
        client.drain()
        assert not world.known("late_r").stalled

    play(tmp_path, check)


def test_what_is_in_force_says_which_file_it_comes_from(tmp_path: Path) -> None:
    def check(world: World) -> None:
        world.write(
            "global_prefs.xml", "<global_preferences><max_ncpus_pct>40</max_ncpus_pct></global_preferences>"
        )
        found = world.client.conditions.preferences_as_data()
        assert found["max_ncpus_pct"] == {"value": 40.0, "from": "global_prefs.xml"}
        assert found["disk_interval"] == {"value": 1.0, "from": "global_prefs_override.xml"}
        assert found["hours"] == {"value": (0.0, 0.0), "from": "default"}
        assert found["ncpus"] == {"value": 8, "from": "cc_config.xml"}

    play(tmp_path, check)
