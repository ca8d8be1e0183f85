"""The ledger system of credit: checks, audits, refused jobs, stakes, releases, routed work, and other measures of a job."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest
from tests.helpers.ledger_book import UNIT, Book

from cobblestone.policy.credit.ledger_system import words
from cobblestone.policy.credit.ledger_system.engine import (
    decide_check,
    inherit,
    level,
    relative_size,
    settled,
    step,
)
from cobblestone.policy.credit.ledger_system.records import (
    AppRecord,
    AuditFinished,
    Begun,
    CheckFailed,
    HostKey,
    HostRecord,
    Job,
    JobDecided,
    JobRefused,
    LedgerRules,
    LedgerState,
    Left,
    Report,
)

RULES = LedgerRules()
JOB = Job(estimate=1e12)
KEY: HostKey = (1, 1, "")


def alone(book: Book, number: int = 0, *, run_time: float = 1000.0) -> float:
    """Let host 1 finish a job alone, and return its price."""
    report = Report(result_id=number, host=KEY, run_time=run_time, speed=1e9)
    return book.tell(JobDecided(job=JOB, reports=(report,))).prices[0].amount


@pytest.mark.parametrize(
    ("trusted", "quorum", "size", "probability"),
    [
        (0, 1, 1, 1.0),
        (10, 1, 1, 1.0),
        (100, 1, 1, 0.1),
        (100, 1, 4, 0.4),
        (100, 1, 0.5, 0.05),
        (5000, 1, 1, 0.02),
        (0, 2, 1, 0.02),
    ],
)
def test_a_check_is_drawn_after_the_upload_and_less_often_with_trust(
    trusted: int, quorum: int, size: float, probability: float
) -> None:
    host = HostRecord(trusted=trusted, jobs=trusted)
    for draw, replicas in ((probability - 1e-9, 1), (probability, 0)):
        found = decide_check(host, RULES, quorum=quorum, draw=draw, size=size)
        assert (found.probability, found.replicas) == (pytest.approx(probability), replicas)
    assert decide_check(None, RULES, quorum=3, draw=0.0).replicas == 0


def test_a_large_job_is_checked_more_often_so_that_each_credit_runs_the_same_risk() -> None:
    host = HostRecord(jobs=10, earned=20.0)
    assert relative_size(AppRecord(unit=UNIT), host, Job(estimate=6e12)) == pytest.approx(3.0)
    assert relative_size(AppRecord(unit=UNIT), HostRecord(), JOB) == 1.0


def test_a_computer_that_failed_a_check_is_checked_at_quorum_two_as_at_quorum_one() -> None:
    failed = HostRecord(trusted=20.0, jobs=500)
    assert decide_check(failed, RULES, quorum=2, draw=0.4).probability == 0.5


def test_escrow_ends_with_a_passed_check_but_not_for_the_computer_that_came_as_the_check() -> None:
    book = Book()
    other = (2, 1, "")
    for number in range(3):
        alone(book, number)
        book.tell(JobDecided(job=JOB, reports=(Report(result_id=9, host=other, run_time=1e3, speed=1e9),)))
    pair = tuple(Report(result_id=host[0], host=host, run_time=1e3, speed=1e9) for host in (KEY, other))
    outcome = book.tell(JobDecided(job=JOB, reports=pair, checked=(1,)))
    assert outcome.released == (KEY,)
    assert not any(price.provisional for price in outcome.prices)
    assert [book.state.hosts[key].escrow_count for key in (KEY, other)] == [0, 3]


def test_a_failed_check_has_some_results_run_again_and_wrong_ones_cost_all_that_is_provisional() -> None:
    book = Book()
    for number in range(30):
        alone(book, number)
    before = settled(book.state.hosts[KEY])
    outcome = book.tell(CheckFailed(host=KEY))
    assert outcome.audits == {KEY: 5}
    assert book.state.hosts[KEY].trusted == 7.5
    outcome = book.tell(AuditFinished(host=KEY, bad=1))
    assert outcome.revoked == (KEY,)
    assert outcome.corrections[KEY] == pytest.approx(-before)
    assert (book.state.hosts[KEY].trusted, settled(book.state.hosts[KEY])) == (0.0, 0.0)


def test_results_that_were_right_become_final() -> None:
    book = Book()
    for number in range(30):
        alone(book, number)
    book.tell(CheckFailed(host=KEY))
    outcome = book.tell(AuditFinished(host=KEY, bad=0))
    assert (outcome.released, outcome.corrections) == ((KEY,), {})
    assert book.state.hosts[KEY].escrow == 0.0
    assert settled(book.state.hosts[KEY]) == pytest.approx(30.0, rel=0.02)


def test_who_was_wrong_together_has_everything_run_again() -> None:
    book = Book()
    alone(book)
    outcome = book.tell(CheckFailed(host=KEY, agreed=True))
    assert outcome.audits == {KEY: None}
    assert book.state.hosts[KEY].trusted == 0.0
    assert "agreed" in outcome.reasons[0].text()


def test_half_of_the_first_two_prices_is_held_until_twenty_jobs() -> None:
    book = Book()
    has: list[float] = []
    for number in range(21):
        alone(book, number)
        has.append(settled(book.state.hosts[KEY]))
    assert has[:3] == pytest.approx([0.5, 1.0, 2.0], rel=0.01)
    assert has[18:] == pytest.approx([18.0, 20.0, 21.0], rel=0.02)


def run(
    book: Book, rng: random.Random, hosts: dict[HostKey, float], sizes: dict[str, float], jobs: int
) -> list[float]:
    """Let pairs of hosts (with the logarithms of their slowness) compute jobs; return price / true size."""
    found: list[float] = []
    for _ in range(jobs):
        stratum = rng.choice(list(sizes))
        size = rng.gauss(sizes[stratum], 0.3)
        pair = rng.sample(list(hosts), 2)
        reports = tuple(
            Report(
                result_id=key[0],
                host=key,
                run_time=1e3 * math.exp(size + hosts[key] + rng.gauss(0.0, 0.15)),
                speed=1e9,
            )
            for key in pair
        )
        outcome = book.tell(JobDecided(job=Job(estimate=1e12, stratum=stratum), reports=reports, quorum=2))
        found += [price.amount / math.exp(size) for price in outcome.prices]
    return found


def test_a_job_that_was_dropped_costs_what_it_was_longer_than_its_price_would_have_been() -> None:
    book = Book()
    run(book, random.Random(3), {(host, 1, ""): 0.0 for host in (1, 2, 3)}, {"": 0.0}, 300)
    long = tuple(Report(result_id=1, host=(host, 1, ""), run_time=1600.0, speed=1e9) for host in (2, 3))
    before = settled(book.state.hosts[KEY])
    outcome = book.tell(JobRefused(job=JOB, host=KEY, reports=long))
    charge = before - settled(book.state.hosts[KEY])
    assert charge == pytest.approx(-outcome.corrections[KEY])
    assert 0.0 < charge < 0.3  # of a job that was worth 1.6
    assert "did not finish" in outcome.reasons[0].text()
    bank = book.state.hosts[KEY].bank
    book.tell(JobRefused(job=JOB, host=KEY, reports=long, replicated=False))
    assert bank - book.state.hosts[KEY].bank == pytest.approx(0.5, abs=0.15)


def test_a_release_that_is_twice_as_fast_pays_what_the_old_version_paid() -> None:
    rng, book = random.Random(1), Book()
    old = {(host, 1, ""): rng.gauss(0.0, 0.4) for host in range(40)}
    before = fmean(run(book, rng, old, {"": 0.0}, 1500)[-1000:])
    new = {(host, 2, ""): slow - math.log(2.0) for (host, _, _), slow in old.items()}
    hosts = {key: inherit(book.state.hosts[key[0], 1, ""]) for key in new}
    book.state.hosts.update(hosts)  # type: ignore[attr-defined]  # a dict, in the helper
    assert fmean(run(book, rng, new, {"": 0.0}, 500)) / before == pytest.approx(1.0, abs=0.03)


def test_the_constant_of_routed_jobs_is_learnt_where_versions_compare_them() -> None:
    rng, book = random.Random(2), Book()
    hosts = {(host, 1 + host % 2, ""): rng.gauss(0.0, 0.4) for host in range(30)}
    run(book, rng, hosts, {"long": math.log(3.0), "small": 0.0}, 3000)
    ratio = level(book.state.app, "small") / level(book.state.app, "long")
    assert ratio == pytest.approx(1 / 3.0, rel=0.1)


def test_the_account_of_a_computer_is_told_in_words() -> None:
    host = HostRecord(
        trusted=100.0, jobs=120, escrow=7.0, escrow_count=7, bank=0.5, debt=-2.0, stake=1.0, refused=3
    )
    said = " ".join(each.text() for each in words.account(host, RULES))
    assert "-0.0" not in " ".join(each.text() for each in words.account(HostRecord(), RULES))
    for part in (
        "120 valid jobs",
        "probability 0.1",
        "7.0 for 7 results",
        "raise later credit by 0.5",
        "unfinished jobs (3): 2.0",
        "20 valid ones: 1.0",
    ):
        assert part in said


def test_who_refuses_many_jobs_is_checked_in_many_of_the_others() -> None:
    honest, refuser = HostRecord(trusted=90, jobs=90), HostRecord(trusted=90, jobs=90, refused=900)
    assert decide_check(honest, RULES, quorum=2, draw=0.5).probability == pytest.approx(0.02)
    assert decide_check(refuser, RULES, quorum=2, draw=0.5).probability == pytest.approx(0.9)
    assert inherit(refuser).refused == 900


def test_accepting_only_what_is_shorter_than_estimated_brings_nothing() -> None:
    """Two honest hosts finish each job; a third one finishes the shortest tenth with one of them, and refuses the others."""
    rng, book = random.Random(11), Book()
    hosts = {(host, 1, ""): rng.gauss(0.0, 0.4) for host in range(40)}
    run(book, rng, hosts, {"": 0.0}, 3000)
    picky, done = (99, 1, ""), 0.0
    for _ in range(6000):
        size = rng.gauss(0.0, 0.3)
        here = [picky, *rng.sample(list(hosts), 1)] if size < -0.38 else rng.sample(list(hosts), 2)
        times = [1e3 * math.exp(size + hosts.get(key, 0.0) + rng.gauss(0.0, 0.15)) for key in here]
        reports = tuple(
            Report(result_id=place, host=key, run_time=time, speed=1e9)
            for place, (key, time) in enumerate(zip(here, times, strict=True))
        )
        book.tell(JobDecided(job=JOB, reports=reports, quorum=2))
        if picky in here:
            done += math.exp(size)
        else:
            book.tell(JobRefused(job=JOB, host=picky, reports=reports))
    fair = done / math.exp(0.3**2 / 2)
    assert 0.3 < settled(book.state.hosts[picky]) / fair < 1.10
    assert book.state.hosts[picky].earned / fair > 1.10  # but for what it refused


def test_reports_of_ever_new_identities_do_not_lower_what_others_get() -> None:
    rng, book = random.Random(4), Book()
    hosts = {(host, 1, ""): rng.gauss(0.0, 0.4) for host in range(40)}
    before = fmean(run(book, rng, hosts, {"": 0.0}, 1500)[-1000:])
    paid: list[float] = []
    for number in range(1500):
        key = rng.choice(list(hosts))
        pair = (
            Report(
                result_id=1, host=key, run_time=1e3 * math.exp(hosts[key] + rng.gauss(0.0, 0.15)), speed=1e9
            ),
            Report(result_id=2, host=(1000 + number, 1, ""), run_time=1e4, speed=1e9),
        )
        run(book, rng, hosts, {"": 0.0}, 1)
        paid.append(book.tell(JobDecided(job=JOB, reports=pair, quorum=2)).prices[0].amount)
    assert fmean(paid[-500:]) == pytest.approx(1.0, abs=0.1)
    assert fmean(run(book, rng, hosts, {"": 0.0}, 500)) / before == pytest.approx(1.0, abs=0.1)


def test_absurd_reports_that_the_bank_does_not_pay_lower_no_other_price() -> None:
    rng, book = random.Random(5), Book()
    for number in range(2000):
        host = (2 + number % 10, 1, "")
        time = 1e304 if number % 100 == 0 else 1e3 * math.exp(rng.gauss(0.0, 0.3))
        report = Report(result_id=number, host=host, run_time=time, speed=1e9)
        book.tell(JobDecided(job=JOB, reports=(report,)))
    earned = fmean(host.earned / host.jobs for key, host in book.state.hosts.items() if key[0] != 2)
    assert earned == pytest.approx(1.0, abs=0.03)


def test_an_app_takes_the_system_at_the_level_of_the_one_before_and_leaves_it_with_all_credit_final() -> None:
    host = HostRecord(escrow=7.0, escrow_count=7, earned=9.0)
    state = LedgerState(
        app=AppRecord(unit=UNIT, constant=0.3), hosts={(1, 1, ""): host, (2, 1, ""): HostRecord()}
    )
    assert step(state, Begun(early_exits=True), RULES).state.app == state.app
    assert level(step(state, Begun(early_exits=False, unit=3e-12), RULES).state.app) == 3e-12
    outcome = step(state, Left(), RULES)
    assert (outcome.released, outcome.corrections) == (((1, 1, ""),), {})
    assert outcome.state.hosts == {(1, 1, ""): HostRecord(earned=9.0)}
