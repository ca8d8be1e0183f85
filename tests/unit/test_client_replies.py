"""Taking over a scheduler's reply: what it leaves out of account and computer stays as it was."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.client_state import URL, World, add_job, play

from cobblestone.client.projects.jobs import Jobs
from cobblestone.client.projects.scheduler_reply import take_reply
from cobblestone.wire.client.records import ClientJobState, FileRecord, FileStatus, JobRecord
from cobblestone.wire.scheduler.job import FileRef, OutputFileInfo
from cobblestone.wire.scheduler.reply import (
    HostBlock,
    SchedulerReply,
    UserBlock,
    parse_scheduler_reply,
    write_scheduler_reply,
)

USER = UserBlock(
    id=7, name="Ann", total_credit=100.0, expavg_credit=5.0, create_time=9.0, email_hash="ab", cpid_time=9.0
)
HOST = HostBlock(id=3, total_credit=60.0, expavg_credit=4.0, venue="work", create_time=8.0, announce_id=True)
REPLY = write_scheduler_reply(
    SchedulerReply(master_url="https://p.example.org/", user=USER, host=HOST)
).decode()
OUTPUT = OutputFileInfo(name="out", max_nbytes=9, upload_url="https://p.example.org/up", xml_signature="")
ELEMENTS: list[str] = re.findall(r"<((?:user|host)\w+|email_hash)>", REPLY)


@pytest.mark.parametrize("content", ["", "nan"])
def test_what_a_reply_leaves_out_or_spoils_of_account_and_computer_stays_as_it_was(
    tmp_path: Path, content: str
):
    def check(world: World) -> None:
        def take(text: str) -> None:
            read = parse_scheduler_reply(text.encode())
            take_reply(world.client.state, world.client.journal, world.content, read, reported=(), now=1.0)

        project = world.content.project
        take(REPLY)
        user, host = project.user, project.host
        assert (user.total_credit, host.total_credit, host.id) == (100.0, 60.0, 3)
        for name in ELEMENTS:
            number = re.search(rf"<{name}>[\d.]+</{name}>", REPLY) is not None
            if content and not number:
                continue
            element = f"<{name}>{content}</{name}>" if content else ""
            take(re.sub(rf"<{name}>.*</{name}>", element, REPLY))
            assert (project.user, replace(project.host, announce_id=True)) == (user, host), name
        assert project.rpc_seqno == 0

    play(tmp_path, check)


def test_the_end_of_a_transfer_is_looked_up_in_the_jobs_that_use_the_file_also_those_that_came_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def check(world: World) -> None:
        client, content = world.client, world.content
        program = content.versions[0].file_refs[0].file_name
        content.files[program] = FileRecord(project=URL, name=program)
        for number in range(100):
            name = f"more_{number}"
            job = add_job(content, content.versions[0], name, 1.0)
            job.state = ClientJobState.UPLOADING
            ref = FileRef(file_name=f"{name}_out")
            job.result = replace(job.result, file_refs=(ref,))
            content.files[ref.file_name] = FileRecord(
                project=URL, name=ref.file_name, upload=OUTPUT, status=FileStatus.PRESENT, wanted_upload=True
            )
        looked_at: list[JobRecord] = []
        left = Jobs._uploads_left
        monkeypatch.setattr(
            Jobs, "_uploads_left", lambda *given: (looked_at.append(given[2]), left(*given))[1]
        )
        for number in range(100):
            file = content.files[f"more_{number}_out"]
            file.status = FileStatus.UPLOADED
            client.jobs.transferred(file)
        assert len(looked_at) == 100
        assert all(job.ready_to_report for job in looked_at)

        later = add_job(content, content.versions[0], "later", 1.0)
        later.state = ClientJobState.DOWNLOADING
        read = parse_scheduler_reply(REPLY.encode())
        take_reply(client.state, client.journal, content, read, reported=(), now=1.0)
        content.files[program].status = FileStatus.PRESENT
        client.jobs.transferred(content.files[program])
        assert later.state is ClientJobState.DOWNLOADED

    play(tmp_path, check)
