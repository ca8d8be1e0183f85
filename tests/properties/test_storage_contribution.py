"""Storage that is proven: honest computers are paid what they keep, others at most what they can show."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.values import DAY, changed
from cobblestone.policy.storage import (
    KeptFile,
    StorageChallenge,
    StorageGrant,
    StorageRecord,
    StorageRules,
    answer_of,
    answered,
    asked,
    contacted,
    judged,
    next_challenge,
)

RULES = StorageRules()
FILES = (KeptFile(name="a", nbytes=300_000), KeptFile(name="b", nbytes=100_000), KeptFile(name="c", nbytes=7))
CONTENT = {file.name: random.Random(file.name).randbytes(file.nbytes) for file in FILES}
TOTAL = sum(file.nbytes for file in FILES)

Answer = Callable[[StorageChallenge], str]


def _range(question: StorageChallenge) -> bytes:
    return CONTENT[question.file_name][question.offset : question.offset + question.length]


def _honest(question: StorageChallenge) -> str:
    return answer_of(question.nonce, _range(question))


def _keep(answer: Answer, *, days: float, every: float, seed: int) -> list[StorageGrant]:
    """Let a computer call for some days; it answers each question at the next call."""
    rng = random.Random(seed)
    record = StorageRecord()
    now, told = 1e9, None
    grants: list[StorageGrant] = []
    end = now + days * DAY
    while now < end:
        before = record.seen
        record = contacted(record, FILES, now=now, rules=RULES)
        if told is not None:
            record = answered(record, told.nonce, answer(told), now=now)
        if record.answer and record.challenge is not None:
            record, grant = judged(record, _range(record.challenge))
            grants += [grant] if grant else []
        told = next_challenge(record, FILES, since=before, now=now, rng=rng, rules=RULES)
        record = asked(record, told) if told else record
        now += rng.expovariate(1.0 / every)
    return grants


def _next(
    record: StorageRecord | None = None,
    files: Sequence[KeptFile] = FILES,
    *,
    since: float = 1e9,
    seed: int = 1,
) -> StorageChallenge | None:
    """The question at a contact at 1e9."""
    record = record or StorageRecord()
    return next_challenge(record, files, since=since, now=1e9, rng=random.Random(seed), rules=RULES)


QUESTION = StorageChallenge(file_name="a", nonce="00" * 16, offset=0, length=9, time=1e9)
ASKED = StorageRecord(
    nbytes=TOTAL, seen=1e9, proven=1e9 - DAY, challenge=QUESTION, claimed=3.0, answer_claimed=5.0
)


@given(seed=st.integers(0, 10_000), every=st.floats(600, 2 * DAY))
def test_an_honest_computer_is_never_paid_more_than_it_keeps_and_no_time_is_paid_twice(
    seed: int, every: float
) -> None:
    grants = _keep(_honest, days=60, every=every, seed=seed)
    for grant in grants:
        assert 0.0 < grant.byte_days <= TOTAL * (grant.until - grant.since) / DAY * (1 + 1e-9)
    for one, two in pairwise(grants):
        assert one.until <= two.since


def test_an_honest_computer_is_paid_for_nearly_all_of_its_time() -> None:
    paid = [sum(g.byte_days for g in _keep(_honest, days=60, every=0.2 * DAY, seed=s)) for s in range(20)]
    assert sum(paid) / 20 > 0.95 * 60 * TOTAL


@pytest.mark.parametrize("kept", [0.0, 0.25, 0.5, 0.9])
def test_who_has_a_part_of_the_bytes_is_paid_at_most_that_part_of_honest_pay(kept: float) -> None:
    def partly(question: StorageChallenge) -> str:
        # Each range is there with a probability of `kept`: by the last digits of the nonce, which the computer does not choose.
        there = int(question.nonce[-6:], 16) < kept * 2**24
        return _honest(question) if there else "00" * 32

    paid = [
        sum(g.byte_days for g in _keep(partly, days=60, every=0.2 * DAY, seed=1000 + s)) for s in range(20)
    ]
    assert sum(paid) / 20 <= (kept + 0.03) * 60 * TOTAL  # 0.03: room for chance


SMALL, LARGE = FILES[2:], FILES  # of a cheat that has the small file only


@given(
    seed=st.integers(0, 10_000),
    lists=st.sampled_from(["after the question", "before the question", "in turns", "at random"]),
)
def test_who_lists_more_than_the_question_is_about_is_paid_for_what_it_is_about(
    seed: int, lists: str
) -> None:
    rng = random.Random(seed)
    record, now, paid, n = StorageRecord(), 1e9, 0.0, 0
    while now < 1e9 + 60 * DAY:
        large = {
            "after the question": record.challenge is not None,
            "before the question": record.challenge is None and record.proven > 0 and n % 4 < 2,
            "in turns": n // 3 % 2 == 1,
            "at random": rng.random() < 0.5,
        }[lists]
        listed, before, n = LARGE if large else SMALL, record.seen, n + 1
        record = contacted(record, listed, now=now, rules=RULES)
        question = record.challenge
        # What it does not have it does not answer, and so nothing is paid for that.
        if question is not None and question.file_name == SMALL[0].name and rng.random() < 0.5:
            record, grant = judged(
                answered(record, question.nonce, _honest(question), now=now), _range(question)
            )
            paid += grant.byte_days if grant else 0.0
        told = next_challenge(record, listed, since=before, now=now, rng=rng, rules=RULES)
        record = asked(record, told) if told else record
        now += rng.expovariate(1.0 / (0.2 * DAY))
    # An honest computer gets 60 days of the small file; chance may bring a question about it while all are listed.
    assert paid <= 60 * SMALL[0].nbytes or paid <= 1e-3 * 60 * TOTAL


def test_who_does_not_answer_in_time_begins_anew() -> None:
    rng = random.Random(1)
    record = contacted(StorageRecord(), FILES, now=1e9, rules=RULES)
    question = next_challenge(record, FILES, since=0.0, now=1e9, rng=rng, rules=RULES)
    assert question is not None
    record = changed(record, challenge=question, proven=1e9)
    soon = contacted(record, FILES, now=1e9 + DAY, rules=RULES)
    # Asked again, for the reply may have been lost; the same question, so that waiting does not bring an easier one.
    assert next_challenge(soon, FILES, since=1e9, now=1e9 + DAY, rng=rng, rules=RULES) == question
    late = contacted(soon, FILES, now=1e9 + 2.5 * DAY, rules=RULES)
    assert (late.proven, late.claimed, late.challenge) == (0.0, 0.0, None)
    assert answered(late, question.nonce, _honest(question), now=1e9 + 2.5 * DAY) == late


@given(nonce=st.text(max_size=40), digest=st.text(max_size=80))
def test_an_answer_to_another_question_changes_nothing(nonce: str, digest: str) -> None:
    record = StorageRecord(
        nbytes=TOTAL, seen=1e9, challenge=StorageChallenge(file_name="a", nonce="00" * 16, offset=0, length=9)
    )
    if nonce != "00" * 16:
        assert answered(record, nonce, digest, now=2e9) == record


def test_a_file_that_the_project_has_lost_is_held_against_nobody() -> None:
    question = StorageChallenge(file_name="a", nonce="00" * 16, offset=0, length=9, time=1e9)
    record = StorageRecord(
        nbytes=TOTAL, seen=1e9, proven=1e9 - DAY, claimed=3.0, answer_claimed=2.0, challenge=question
    )
    record = answered(record, question.nonce, "ff" * 32, now=1e9 + 1)
    after, grant = judged(record, None)
    assert grant is None
    assert (after.proven, after.claimed, after.challenge) == (1e9 - DAY, 5.0, None)


def test_a_file_that_is_not_listed_any_more_does_not_count_for_the_time_in_between() -> None:
    record = contacted(StorageRecord(), FILES, now=1e9, rules=RULES)
    record = contacted(record, FILES[1:], now=1e9 + DAY, rules=RULES)
    assert record.claimed == pytest.approx((TOTAL - 300_000) * DAY)


@given(start=st.integers(0, 300_000), seed=st.integers(0, 1000))
def test_no_range_leaves_its_file(start: int, seed: int) -> None:
    rules = StorageRules(range_bytes=max(1, start))
    question = next_challenge(
        StorageRecord(), FILES, since=0.0, now=1.0, rng=random.Random(seed), rules=rules
    )
    assert question is not None
    size = {file.name: file.nbytes for file in FILES}[question.file_name]
    assert 0 <= question.offset <= question.offset + question.length <= size
    assert 0 < question.length <= rules.range_bytes


def test_questions_are_about_the_end_of_a_file_as_well_as_its_begin() -> None:
    places = {
        question.offset / (300_000 - question.length)
        for seed in range(200)
        if (question := _next(seed=seed)) is not None and question.file_name == "a"
    }
    assert min(places) < 0.1
    assert max(places) > 0.9


def test_a_file_that_came_in_between_does_not_count_for_that_time() -> None:
    record = contacted(StorageRecord(), SMALL, now=1e9, rules=RULES)
    assert record.claimed == 0.0, "nor does anything at the first contact"
    assert contacted(record, LARGE, now=1e9 + DAY, rules=RULES).claimed == 7 * DAY


def test_a_long_silence_counts_as_a_week_and_a_clock_that_went_back_as_nothing() -> None:
    record = contacted(StorageRecord(), FILES, now=1e9, rules=RULES)
    assert contacted(record, FILES, now=1e9 + 30 * DAY, rules=RULES).claimed == 7 * DAY * TOTAL
    assert contacted(record, FILES, now=1e9 - DAY, rules=RULES).claimed == 0.0
    proven = changed(record, proven=1e9)
    assert _next(proven, since=1e9 + 1000 * DAY) is None
    asked_before = asked(changed(proven, claimed=5.0), changed(QUESTION, time=1e9 - DAY))
    assert asked_before.answer_claimed == 0.0


def test_a_question_takes_over_what_was_claimed_before_it() -> None:
    record = asked(StorageRecord(nbytes=TOTAL, proven=1e9 - DAY, claimed=5.0), QUESTION)
    assert (record.claimed, record.answer_claimed) == (0.0, 5.0)
    assert asked(record, changed(QUESTION, nonce="11" * 16)) == record


def test_an_answer_stands_until_it_is_judged() -> None:
    assert answered(ASKED, QUESTION.nonce, "", now=1e9) == ASKED
    once = answered(ASKED, QUESTION.nonce, "ff" * 32, now=1e9)
    assert answered(once, QUESTION.nonce, _honest(QUESTION), now=1e9) == once
    assert _next(once) is None
    assert contacted(once, FILES, now=1e9 + 3 * DAY, rules=RULES).answer == "ff" * 32, "we are late, not it"


def test_a_wrong_answer_voids_what_was_claimed_and_the_next_right_one_only_begins() -> None:
    wrong, grant = judged(answered(ASKED, QUESTION.nonce, "ff" * 32, now=1e9), _range(QUESTION))
    assert grant is None
    assert (wrong.proven, wrong.claimed, wrong.answer_claimed, wrong.challenge) == (0.0, 0.0, 0.0, None)
    again = changed(ASKED, proven=0.0)
    begun, grant = judged(answered(again, QUESTION.nonce, _honest(QUESTION), now=1e9), _range(QUESTION))
    assert (begun.proven, grant) == (1e9, None)


def test_nothing_is_granted_for_nothing() -> None:
    right = answered(changed(ASKED, answer_claimed=0.0), QUESTION.nonce, _honest(QUESTION), now=1e9)
    assert judged(right, _range(QUESTION))[1] is None
    assert _next(files=[KeptFile(name="empty", nbytes=0)]) is None
