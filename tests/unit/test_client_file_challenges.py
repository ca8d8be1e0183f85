"""What the client answers about files that it keeps, and what it does not tell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cobblestone.client.projects.contacts import answer_challenge
from cobblestone.policy.storage import answer_of
from cobblestone.wire.client.records import FileRecord, FileStatus, ProjectContent, ProjectRecord
from cobblestone.wire.scheduler.reply import FileChallenge, SchedulerReply, write_scheduler_reply
from cobblestone.wire.scheduler.reply_reader import MAX_RANGE, parse_scheduler_reply

URL = "https://project.example/"
NONCE = "0f" * 16


def _content(**changes: object) -> ProjectContent:
    content = ProjectContent(project=ProjectRecord(master_url=URL, authenticator="key"))
    values: dict[str, Any] = {"keep": True, "status": FileStatus.PRESENT, **changes}
    content.files["kept"] = FileRecord(project=URL, name="kept", **values)
    return content


def _question(**changes: object) -> FileChallenge:
    values: dict[str, Any] = {"file_name": "kept", "nonce": NONCE, "offset": 3, "length": 4, **changes}
    return FileChallenge(**values)


def test_the_answer_is_about_the_range_that_was_asked_for(tmp_path: Path):
    (tmp_path / "kept").write_bytes(b"0123456789")
    found = answer_challenge(_content(), tmp_path, _question())
    assert found is not None
    assert (found.file_name, found.nonce, found.answer) == ("kept", NONCE, answer_of(NONCE, b"3456"))


@pytest.mark.parametrize(
    "changes", [{"keep": False}, {"own": True}, {"status": FileStatus.ABSENT}, {"status": FileStatus.FAILED}]
)
def test_files_that_are_not_the_projects_to_ask_for_are_not_read(tmp_path: Path, changes: dict[str, object]):
    (tmp_path / "kept").write_bytes(b"0123456789")
    assert answer_challenge(_content(**changes), tmp_path, _question()) is None
    assert answer_challenge(_content(), tmp_path, _question(file_name="other")) is None


def test_a_link_in_place_of_the_file_tells_nothing_about_where_it_leads(tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"of the volunteer")
    (tmp_path / "kept").symlink_to(secret)
    assert answer_challenge(_content(), tmp_path, _question()) is None


def test_a_pipe_a_folder_and_nothing_in_place_of_the_file_keep_nobody_waiting(tmp_path: Path):
    assert answer_challenge(_content(), tmp_path, _question()) is None
    os.mkfifo(tmp_path / "kept")
    assert answer_challenge(_content(), tmp_path, _question()) is None
    (tmp_path / "kept").unlink()
    (tmp_path / "kept").mkdir()
    assert answer_challenge(_content(), tmp_path, _question()) is None


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        ({}, True),
        ({"length": MAX_RANGE + 1}, False),
        ({"length": 0}, False),
        ({"nonce": "xyz"}, False),
        ({"nonce": ""}, False),
    ],
)
def test_a_question_beyond_the_bounds_is_none(changes: dict[str, object], read: bool):
    reply = SchedulerReply(master_url=URL, file_challenge=_question(**changes))
    found = parse_scheduler_reply(write_scheduler_reply(reply)).reply.file_challenge
    assert found == (_question() if read else None)
