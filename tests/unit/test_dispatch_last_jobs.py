"""Which jobs of a reply clients report as soon as they are done."""

from __future__ import annotations

from cobblestone.domain.values import AppId, BatchId, ResultId, WorkunitId, changed
from cobblestone.domain.work import JobLimits
from cobblestone.policy.dispatch.catalogue import (
    BatchProgress,
    Candidate,
    jobs_waiting,
    reported_at_once,
    turns,
)

WEIGHT = 0.5
SIZE = 3.6e12


def batch(njobs: int, *, done: int = 0) -> tuple[list[Candidate], BatchProgress]:
    """Jobs of a batch that was submitted when the turn 17 was served."""
    places = turns([SIZE] * njobs, weight=WEIGHT, served=17.0, last=0.0)
    jobs = [
        Candidate(
            result_id=ResultId(number),
            result_name=f"a_1_{number}_0",
            workunit_id=WorkunitId(number),
            workunit_name=f"a_1_{number}",
            app_id=AppId(1),
            batch_id=BatchId(1),
            limits=JobLimits(rsc_fpops_est=SIZE),
            replicated=False,
            turn=place,
        )
        for number, place in enumerate(places)
    ]
    return jobs, BatchProgress(unfinished=njobs - done, last_turn=places[-1], fair_weight=WEIGHT)


def flagged(
    sent: list[Candidate], progress: BatchProgress, *, ncpus: float = 4, served: float = 0.0
) -> set[int]:
    return set(reported_at_once(sent, {BatchId(1): progress}, ncpus=ncpus, served=served))


def test_what_waits_is_counted_by_turns():
    jobs, progress = batch(1000)
    assert [round(jobs_waiting(jobs[place], progress, served=0.0)) for place in (0, 500, 999)] == [
        999,
        499,
        0,
    ]


def test_jobs_in_the_middle_of_a_batch_are_reported_as_it_suits_the_client():
    jobs, progress = batch(1000, done=300)
    assert flagged(jobs[300:310], progress) == set()


def test_of_a_reply_that_ends_a_batch_the_last_jobs_are_reported_at_once_one_for_each_cpu():
    jobs, progress = batch(10)
    assert flagged(jobs, progress) == {6, 7, 8, 9}
    assert flagged(jobs, progress, ncpus=1) == {9}
    assert flagged(jobs, progress, ncpus=0.5) == {9}


def test_the_last_round_is_when_no_more_wait_than_are_computed():
    jobs, progress = batch(100, done=60)
    assert flagged(jobs[78:79], progress) == set()  # 21 wait, 19 are on computers
    assert flagged(jobs[79:80], progress) == {79}


def test_a_single_job_and_a_retry_of_an_early_one_are_last_jobs():
    jobs, progress = batch(1)
    assert flagged(jobs, progress) == {0}
    jobs, progress = batch(1000, done=999)
    retry = changed(jobs[0], retry=True)
    assert flagged([retry], progress, served=jobs[-1].turn) == {0}
    assert flagged([retry], batch(1000)[1], served=jobs[500].turn) == {0}  # 499 wait
    assert flagged([retry], batch(1000)[1], served=jobs[400].turn) == set()


def test_jobs_without_a_batch_or_of_others_do_not_count():
    jobs, progress = batch(2)
    alone = changed(jobs[0], batch_id=None)
    other = changed(jobs[0], batch_id=BatchId(9))
    assert flagged([jobs[0], alone, other], progress, ncpus=1) == {0}
    nothing = changed(jobs[0], limits=JobLimits(rsc_fpops_est=0.0))
    assert flagged([nothing], progress) == {0}
