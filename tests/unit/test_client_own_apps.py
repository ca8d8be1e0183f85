"""`app_info.xml`: the volunteer's own programs take the place of what a project would send, and it is undone with the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.client_state import URL, World, add_job, play
from tests.helpers.daemon_in_test import said

from cobblestone.client.projects.scheduler_reply import take_reply
from cobblestone.client.projects.scheduler_request import make_request
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.policy.client.core.events import ContactProject
from cobblestone.wire.scheduler.job import write_app_version
from cobblestone.wire.scheduler.reply_reader import OwnApps, parse_scheduler_reply, read_app_info

FILE = "projects/project.example.org/app_info.xml"
OWN = """<app_info>
  <app><name>square</name></app>
  <file_info><name>own_square</name><executable/></file_info>
  <file><name>tables</name></file>
  <app_version>
    <app_name>square</app_name><version_num>317</version_num><avg_ncpus>2</avg_ncpus>
    <file_ref><file_name>own_square</file_name><main_program/></file_ref>
    <file_ref><file_name>tables</file_name><open_name>t.txt</open_name><copy_file/></file_ref>
  </app_version>
</app_info>
"""


def read(text: str) -> OwnApps:
    return read_app_info(text.encode(), platform="x86_64-pc-linux-gnu", cpu_flops=3e9)


def test_a_version_without_platform_and_speed_gets_those_of_the_computer() -> None:
    own = read(OWN)
    (version,) = own.versions
    assert version.key == ("square", 317, "x86_64-pc-linux-gnu", "")
    assert version.flops == 6e9
    assert [(ref.file_name, ref.open_name, ref.main_program, ref.copy_file) for ref in version.file_refs] == [
        ("own_square", "", True, False),
        ("tables", "t.txt", False, True),
    ]
    assert own.executables == {"own_square"}
    stated = OWN.replace("<avg_ncpus>2</avg_ncpus>", "<flops>5e8</flops><platform>other</platform>")
    assert (read(stated).versions[0].flops, read(stated).versions[0].platform) == (5e8, "other")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("<app><name>square</name></app>", "", "belongs to no <app>"),
        ("<file><name>tables</name></file>", "", "uses files without a <file_info>: tables"),
        ("<file_ref>", "<ref>", "has no <file_ref>"),
    ],
)
def test_versions_that_cannot_be_used_are_named(old: str, new: str, words: str) -> None:
    own = read(OWN.replace(old, new).replace("</file_ref>" if "ref" in new else "\0", "</ref>"))
    assert own.versions == ()
    assert words in own.problems[0]


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", ".hidden", ""])
def test_names_never_lead_out_of_the_project_s_folder(name: str) -> None:
    with pytest.raises(RemoteProtocolError):
        read(OWN.replace("own_square", name))


@given(st.text(max_size=200))
def test_rubbish_is_read_or_refused(text: str) -> None:
    try:
        read(f"<app_info>{text}</app_info>")
    except RemoteProtocolError:
        return


def programs(world: World) -> None:
    folder = world.client.folders.project(URL)
    (folder / "own_square").write_text("#!/bin/sh\n")
    (folder / "tables").write_text("1 4 9\n")


def test_the_request_names_own_versions_and_the_project_s_are_not_taken(tmp_path: Path) -> None:
    def check(world: World) -> None:
        client, content = world.client, world.content
        content.jobs.clear()
        programs(world)
        world.write(FILE, OWN)
        contact = ContactProject(project=URL, requests={}, report=())
        request = make_request(client.state, content, contact, client.facts())
        assert request.platforms[0] == "anonymous"
        assert [(each.app_name, each.version_num) for each in request.app_versions] == [("square", 317)]
        (version,) = content.versions
        reply = f"<scheduler_reply>{write_app_version(version).replace('317', '400')}</scheduler_reply>"
        take_reply(
            client.state, client.journal, content, parse_scheduler_reply(reply.encode()), reported=(), now=1.0
        )
        assert content.versions == [version]
        job = add_job(content, version, "square_1", client.clock())
        assert client.jobs._check_inputs(content, job) == ""
        spec = world.spec(job.name)
        assert spec.main_program == "own_square"
        assert [(each.open_name, each.copy) for each in spec.inputs] == [("t.txt", True)]

    play(tmp_path, check)


def test_without_the_file_the_project_s_own_apps_are_used_again_and_no_program_is_deleted(
    tmp_path: Path,
) -> None:
    def check(world: World) -> None:
        content = world.content
        content.jobs.clear()
        programs(world)
        world.write(FILE, OWN)
        world.remove(FILE)
        assert not content.project.anonymous_platform
        assert content.versions == []
        world.client.jobs.collect_garbage(content)
        assert world.client.jobs.unneeded == []
        assert "own_square" in content.files

    play(tmp_path, check)


def test_a_job_keeps_the_version_that_it_came_for(tmp_path: Path) -> None:
    def check(world: World) -> None:
        programs(world)
        world.write(FILE, OWN)
        names = {version.app_name for version in world.content.versions}
        assert names == {"square", "wide", "gpu"}  # of these there are jobs
        job = add_job(
            world.content, next(v for v in world.content.versions if v.app_name == "square"), "s", 1.0
        )
        world.write(FILE, OWN.replace("317", "318"))
        version = world.content.version_of(job)
        assert version is not None
        assert version.version_num == 317
        assert 318 in {version.version_num for version in world.content.versions}

    play(tmp_path, check)


def test_what_is_wrong_with_the_file_is_said_and_leaves_everything_as_it_was(tmp_path: Path) -> None:
    def check(world: World) -> None:
        programs(world)
        world.write(FILE, OWN)
        before = list(world.content.versions)
        world.write(FILE, OWN[:200])
        assert world.content.versions == before
        assert "app_info.xml: <app_info> does not end" in said(world.client)
        (world.client.folders.project(URL) / "tables").unlink()
        world.write(FILE, OWN + "\n")
        assert "names files that are not in its folder: tables" in said(world.client)
        assert "square" not in {version.app_name for version in world.content.versions}

    play(tmp_path, check)
