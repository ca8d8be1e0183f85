"""The files that a computer keeps, in its requests and replies, while the project counts storage."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from cobblestone.domain.hosts import Host
from cobblestone.domain.networks import network_of
from cobblestone.domain.values import changed
from cobblestone.policy.contribution.storage import (
    StorageRecord,
    StorageRules,
    answered,
    contacted,
    next_challenge,
)
from cobblestone.policy.dispatch.decision import Assignment
from cobblestone.server.scheduler.work_request import STICKY_PRESENT
from cobblestone.store.engine.database import Transaction
from cobblestone.store.work import kept_files
from cobblestone.wire.scheduler_reply import FileChallenge, SchedulerReply
from cobblestone.wire.scheduler_request import SchedulerRequest

RULES = StorageRules()
ANSWER_SECONDS = 6 * 3600.0
"""A computer that was asked shall call again by then, if it has nothing else to say."""


def take_list(
    tx: Transaction, message: SchedulerRequest, reply: SchedulerReply, host: Host, *, address: str, now: float
) -> None:
    """Note which files the computer keeps and what it answers; perhaps ask it; tell it which files nobody needs any more."""
    held = {file.name: file for file in message.sticky_files if file.status == STICKY_PRESENT}
    before = kept_files.record_of(tx, host.id)
    if before is None and not held:
        return
    record = before or StorageRecord()
    listed = kept_files.listed(tx, host.id, held.keys(), user_id=host.user_id, network=network_of(address))
    record = contacted(record, listed.counted, now=now, rules=RULES)
    question = record.challenge
    if question is not None and question.file_name in held:
        file = held[question.file_name]
        record = answered(record, file.nonce, file.answer, now=now)
        if record.answer:
            tx.wake("storage")
    if message.client_cap_file_challenge:
        asked = next_challenge(
            record,
            listed.counted,
            since=before.seen if before else 0.0,
            now=now,
            rng=secrets.SystemRandom(),
            rules=RULES,
        )
        if asked is not None:
            record = changed(record, challenge=asked)
            reply.file_challenge = FileChallenge(
                file_name=asked.file_name, nonce=asked.nonce, offset=asked.offset, length=asked.length
            )
    kept_files.save(tx, host.id, record)
    reply.delete_files += listed.unneeded
    if listed.new:
        tx.wake("storage")


def next_contact(reply: SchedulerReply, delay: float) -> float:
    """Return after how many seconds the client shall call in any case (0: no wish), where the project asks for ``delay``."""
    if reply.file_challenge is None:
        return delay
    return min(delay or ANSWER_SECONDS, ANSWER_SECONDS)


def ask_to_keep(tx: Transaction, assignments: Sequence[Assignment], *, host: Host) -> None:
    """Note which files a computer is asked to keep with the jobs that it is sent."""
    files = {
        file.name: file.nbytes
        for assignment in assignments
        for file in assignment.candidate.input_files
        if file.sticky
    }
    if files:
        kept_files.ask(tx, host.id, files.items())
