"""What the scheduler holds of a request before it reads it, and how late it may ask for the next one."""

from __future__ import annotations

from cobblestone.domain.values import changed
from cobblestone.server.scheduler.endpoint import _claimed_host
from cobblestone.server.scheduler.reports import ANSWER_SECONDS, next_storage_contact
from cobblestone.wire.scheduler.reply import FileChallenge, SchedulerReply


def test_a_computer_s_number_is_looked_for_near_the_start_of_its_request_only() -> None:
    number = b"<hostid>12</hostid>"
    assert _claimed_host(b"<scheduler_request>\n" + number) == b"12"
    assert _claimed_host(b"<scheduler_request>\n" + b"x" * 5000 + number) is None


def test_the_answer_to_a_question_about_a_file_comes_within_hours() -> None:
    plain = SchedulerReply(master_url="http://p/")
    asks = changed(plain, file_challenge=FileChallenge(file_name="f", nonce="00", offset=0, length=1))
    assert next_storage_contact(plain, 1e6) == 1e6
    assert [next_storage_contact(asks, delay) for delay in (0.0, 100.0, 1e6)] == [
        ANSWER_SECONDS,
        100.0,
        ANSWER_SECONDS,
    ]
