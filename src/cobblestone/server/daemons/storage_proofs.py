"""The daemon that checks computers' answers about the files that they keep, and grants storage credit."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from cobblestone.domain.statistics import Contribution
from cobblestone.domain.values import DAY, value
from cobblestone.policy.storage import StorageChallenge, StorageRecord, judged
from cobblestone.server.core.context import ServerContext
from cobblestone.store.catalog import files, kept_files
from cobblestone.store.credit import contributions
from cobblestone.store.credit.contributions import ContributionEntry
from cobblestone.store.engine.database import Transaction

PORTION = 100
#: A computer that has not called for so long keeps nothing any more, as far as we know.
ABSENT_SECONDS = 30 * DAY


@value(kw_only=True)
class _Answer:
    """An answer with the content that it is about; None: the project no longer has the file."""

    host_id: int
    user_id: int
    record: StorageRecord
    content: bytes | None


async def check_storage(ctx: ServerContext) -> int:
    """Decide which listed files count, and check answers, some of each; return how much was done."""
    store, now = ctx.store, ctx.clock()
    waiting = await store.aread(partial(kept_files.to_judge, limit=PORTION))
    answers = [
        _Answer(host_id=host_id, user_id=user_id, record=record, content=await _read(ctx, record.challenge))
        for host_id, user_id, record in waiting
    ]

    def transact(tx: Transaction) -> int:
        for answer in answers:
            _judge(tx, answer, now=now)
        counted = kept_files.count(tx, limit=PORTION)
        absent = kept_files.forget_absent(tx, before=now - ABSENT_SECONDS, limit=PORTION)
        return len(answers) + counted + absent

    return await store.awrite(transact)


async def _read(ctx: ServerContext, challenge: StorageChallenge | None) -> bytes | None:
    """Return the project's bytes of a range."""
    if challenge is None:
        return None
    found = await ctx.store.aread(partial(files.files_by_name, names=[challenge.file_name]))
    known = found.get(challenge.file_name)
    if known is None:
        return None
    place = files.place_of(ctx.folder.download, known.name)
    await ctx.storage.bring(place, nbytes=known.nbytes, md5=known.md5)
    return await asyncio.to_thread(_range, place, challenge.offset, challenge.length)


def _range(place: Path, offset: int, length: int) -> bytes | None:
    try:
        with place.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except FileNotFoundError:
        return None


def _judge(tx: Transaction, answer: _Answer, *, now: float) -> None:
    """Check an answer, unless that was done meanwhile; the record may have changed since."""
    tx.lock("host", [answer.host_id])
    record = kept_files.record_of(tx, answer.host_id)
    question = answer.record.challenge
    if (
        record is None
        or question is None
        or record.challenge != question
        or record.answer != answer.record.answer
    ):
        return
    record, grant = judged(record, answer.content)
    kept_files.save(tx, answer.host_id, record)
    if grant is None:
        return
    contributions.grant(
        tx,
        [
            ContributionEntry(
                time=now,
                kind=Contribution.STORAGE,
                host_id=answer.host_id,
                user_id=answer.user_id,
                amount=grant.byte_days,
                work_start=grant.since,
                facts={
                    "until": grant.until,
                    "file": question.file_name,
                    "offset": question.offset,
                    "length": question.length,
                },
            )
        ],
    )
