"""Storage that a computer gives, in byte-days, as far as it proves that the files are there.

A project asks a computer to keep files.  The computer lists them at each contact, which anybody can do.  So at random contacts
the project names a range of one of them and a nonce, both drawn after the fact; the SHA-256 of nonce and range is the answer, at
a later contact.  A right answer pays the bytes listed between the question before and this one, as far as they are among those
that the range was drawn over; what is listed after the question is for the next one.  A wrong or late answer voids them, and the
count starts over with the next right one.

What that bounds: the range is drawn over all bytes that are paid for, so who has a part f of them passes with probability f and
is paid at most f of what an honest computer gets.  That a computer *has* a file, and does not fetch it from elsewhere, no
question about contents can show; therefore a file counts once per account and once per network
(see `cobblestone.store.catalog.kept_files`).
Design of ours; questions about random ranges are known as proofs of retrievability (Juels and Kaliski, 2007).
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Sequence

from cobblestone.domain.values import DAY, changed, value

#: Length of a nonce; in messages it is written as hex digits.
NONCE_BYTES = 16


@value(kw_only=True)
class StorageRules:
    """How computers are asked.  Times in seconds."""

    mean_interval: float = DAY  #: between two questions to one computer, on average
    answer_within: float = 2 * DAY  #: a question not answered by then is answered wrongly
    longest_gap: float = 7 * DAY  #: no contact for longer: only so much of the time counts
    range_bytes: int = 65536  #: that a question is about, at most


@value(kw_only=True)
class KeptFile:
    """A file that a computer lists, that it was asked to keep, and that counts for it."""

    name: str
    nbytes: int


@value(kw_only=True)
class StorageChallenge:
    """A question about a range of a file."""

    file_name: str
    nonce: str  #: hex digits
    offset: int  #: bytes
    length: int  #: bytes
    time: float = 0.0  #: when it was first asked, Unix seconds


@value(kw_only=True)
class StorageRecord:
    """The storage record of one computer.  Times in Unix seconds, claims in byte-seconds."""

    nbytes: int = 0  #: that counted at the last contact
    seen: float = 0.0  #: the last contact; 0: none yet
    proven: float = 0.0  #: the last question that was answered right; 0: none since the last wrong answer
    claimed: float = 0.0  #: listed since the last question
    challenge: StorageChallenge | None = None  #: asked and not judged yet
    answer: str = ""  #: to be judged; hex digits
    answer_time: float = 0.0
    answer_claimed: float = 0.0  #: what a right answer to the question pays


@value(kw_only=True)
class StorageGrant:
    """Storage that was proven: byte-days, given from ``since`` to ``until`` (Unix seconds)."""

    byte_days: float
    since: float
    until: float


def answer_of(nonce: str, content: bytes) -> str:
    """Return the right answer about the content of a range.

    Raises:
        ValueError: the nonce is not made of hex digits.
    """
    return hashlib.sha256(bytes.fromhex(nonce) + content).hexdigest()


def contacted(
    record: StorageRecord, files: Sequence[KeptFile], *, now: float, rules: StorageRules
) -> StorageRecord:
    """Return the record after a contact at which the computer listed ``files``: more is claimed, or a question ran out."""
    nbytes = sum(file.nbytes for file in files)
    seconds = min(max(0.0, now - record.seen), rules.longest_gap)  # at the first contact of no bytes
    # A file that came or went in between is not counted for that time.
    claimed = record.claimed + min(record.nbytes, nbytes) * seconds
    record = changed(record, nbytes=nbytes, seen=now, claimed=claimed)
    question = record.challenge
    if question is not None and not record.answer and now - question.time > rules.answer_within:
        return voided(record)
    return record


def next_challenge(
    record: StorageRecord,
    files: Sequence[KeptFile],
    *,
    since: float,
    now: float,
    rng: random.Random,
    rules: StorageRules,
) -> StorageChallenge | None:
    """Return the question for a computer at a contact: the open one again, or perhaps a new one; None: nothing.

    ``since``: the contact before (0: none), so that questions come at one rate, however often a computer calls.  A computer that
    has not proven anything is asked at once.
    """
    if record.challenge is not None:
        return None if record.answer else record.challenge
    counted = [file for file in files if file.nbytes > 0]
    if not counted:
        return None
    chance = -math.expm1(-max(0.0, now - since) / rules.mean_interval) if record.proven else 1.0
    if rng.random() >= chance:
        return None
    (file,) = rng.choices(counted, weights=[each.nbytes for each in counted])
    length = min(file.nbytes, rules.range_bytes)
    return StorageChallenge(
        file_name=file.name,
        nonce=rng.randbytes(NONCE_BYTES).hex(),
        offset=rng.randint(0, file.nbytes - length),
        length=length,
        time=now,
    )


def asked(record: StorageRecord, challenge: StorageChallenge) -> StorageRecord:
    """Return the record with a question; a right answer pays what was claimed before, of as many bytes as are listed now."""
    if record.challenge is not None:
        return record  # the same again
    pays = min(record.claimed, record.nbytes * max(0.0, challenge.time - record.proven))
    return changed(record, challenge=challenge, answer_claimed=pays, claimed=0.0)


def answered(record: StorageRecord, nonce: str, digest: str, *, now: float) -> StorageRecord:
    """Return the record with an answer to be judged; unchanged when that was not the question, or it has been answered."""
    if record.challenge is None or record.answer or record.challenge.nonce != nonce or not digest:
        return record
    return changed(record, answer=digest, answer_time=now)


def judged(record: StorageRecord, content: bytes | None) -> tuple[StorageRecord, StorageGrant | None]:
    """Judge the answer of a record by the content of the range; None: the project has lost the file, and no one is at fault.

    Return the record afterwards, and what is to be granted: the first right answer only begins the count.
    """
    if record.challenge is None or not record.answer:
        return record, None
    if content is None:  # as if it had not been asked
        claimed = record.claimed + record.answer_claimed
        return changed(_unasked(record), claimed=claimed), None
    if answer_of(record.challenge.nonce, content) != record.answer:
        return voided(record), None
    grant = None
    if record.proven and record.answer_claimed > 0.0:
        grant = StorageGrant(
            byte_days=record.answer_claimed / DAY, since=record.proven, until=record.challenge.time
        )
    return changed(_unasked(record), proven=record.challenge.time), grant


def voided(record: StorageRecord) -> StorageRecord:
    """Return the record after a wrong or missing answer: what was claimed since the last right one is gone."""
    return changed(_unasked(record), proven=0.0, claimed=0.0)


def _unasked(record: StorageRecord) -> StorageRecord:
    return changed(record, challenge=None, answer="", answer_time=0.0, answer_claimed=0.0)
