"""Taking over a scheduler's reply: what it leaves out of account and computer stays as it was."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.client_state import World, play

from cobblestone.client.projects.scheduler_reply import take_reply
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
