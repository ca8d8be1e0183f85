"""The book of credit: what an event makes of its rows, and which entries it brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.credit_builders import NOW, VERSION, WORKUNIT, facts

from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, UserId, WorkunitId
from cobblestone.policy.credit.book import (
    CreditBook,
    GrantTerms,
    JobLost,
    JobSent,
    MessageReceived,
    RecordKey,
    RecordTaken,
    ResultsJudged,
    TrickleFacts,
    TrickleRules,
)
from cobblestone.policy.credit.claims import AppStatistics, ClaimInput, VersionStatistics
from cobblestone.policy.credit.rac import CreditTotals
from cobblestone.policy.credit.registry import credit_system

APP = AppId(1)
UNIT = WorkunitId(5)


def book() -> CreditBook:
    made = CreditBook()
    made.apps[APP] = AppStatistics()
    made.versions[VERSION] = VersionStatistics()
    return made


def key(number: int = 1) -> RecordKey:
    return HostId(number), VERSION


def judged(valid: Sequence[ClaimInput] = (), *, system: str = "benchmark", **changes: Any) -> ResultsJudged:
    event = ResultsJudged(
        terms=GrantTerms(system=credit_system(system)),
        app_id=APP,
        workunit_id=UNIT,
        workunit=WORKUNIT,
        valid=valid,
        verdicts=[((one.host_id, one.app_version_id), True) for one in valid],
        now=NOW,
    )
    return replace(event, **changes)


def test_valid_results_bring_an_entry_each_and_teach_their_hosts_the_version_and_the_canonical_credit() -> (
    None
):
    accounts = book()
    entries = accounts.apply(judged([facts(1), facts(2)]))
    assert [entry.credit.result_id for entry in entries] == [1, 2]
    assert {entry.credit.granted for entry in entries} == {accounts.canonical_credit[UNIT]}
    assert [accounts.hosts[key(n)].consecutive_valid for n in (1, 2)] == [1, 1]
    assert accounts.hosts[key(1)].pfc.n == 1
    assert accounts.versions[VERSION].pfc.n == 2
    assert accounts.changed.hosts == {key(1), key(2)}
    assert accounts.changed.versions == {VERSION}
    assert accounts.changed.canonical_credit == {UNIT}


def test_an_entry_keeps_the_rows_as_they_were_before_it() -> None:
    accounts = book()
    accounts.apply(judged([facts(1)]))
    before = accounts.hosts[key(1)], accounts.versions[VERSION]
    entry = accounts.apply(judged([facts(1)]))[0]
    assert (entry.facts.result.host_version, entry.facts.version) == before  # type: ignore[union-attr]  # no message


def test_a_straggler_gets_what_the_canonical_result_got_and_does_not_change_it() -> None:
    accounts = book()
    accounts.canonical_credit[UNIT] = 7.0
    (entry,) = accounts.apply(judged([facts(3)], straggler=True))
    assert entry.credit.granted == 7.0
    assert accounts.canonical_credit == {UNIT: 7.0}
    assert not accounts.changed.canonical_credit


def test_a_wrong_result_breaks_the_row_of_valid_ones_and_brings_nothing() -> None:
    accounts = book()
    accounts.hosts[key(1)] = HostVersionStatistics(consecutive_valid=9)
    assert accounts.apply(judged(verdicts=[(key(1), False)])) == []
    assert accounts.hosts[key(1)].consecutive_valid == 0
    assert not accounts.changed.canonical_credit


def test_what_nobody_else_computed_proves_nothing_about_its_host_but_is_granted() -> None:
    accounts = book()
    assert accounts.apply(judged([facts(1)], replicated=False))
    assert accounts.hosts[key(1)].consecutive_valid == 0


def test_a_suspicion_outlives_the_result_that_raised_it() -> None:
    accounts = book()
    accounts.hosts[key(1)] = HostVersionStatistics(scale_probation=False, error_rate=0.0)
    cheat = facts(1, peak_flops=1e16)  # beyond the bound of the job
    accounts.apply(judged([cheat], system="creditnew-designed"))
    assert accounts.hosts[key(1)].scale_probation


def test_credit_that_the_project_has_not_named_yet_waits_and_teaches_only_once() -> None:
    accounts = book()
    waiting = judged([facts(1)], system="after-assimilation", amounts_known=False)
    assert accounts.apply(waiting) == []
    assert accounts.hosts[key(1)].pfc.n == 0
    named = judged([facts(1, canonical=True, claimed_credit=3.0)], system="after-assimilation", verdicts=())
    (entry,) = accounts.apply(named)
    assert entry.credit.granted == 3.0
    assert (accounts.hosts[key(1)].pfc.n, accounts.hosts[key(1)].consecutive_valid) == (1, 1)


def test_what_the_project_has_no_row_for_is_not_learned() -> None:
    accounts = CreditBook()
    assert accounts.apply(judged([facts(1)]))
    assert (accounts.versions, accounts.apps) == ({}, {})


def test_sending_and_losing_jobs_move_the_probation_of_the_host_scale() -> None:
    accounts = book()
    accounts.apply(JobSent(key=key(), delay_bound=100.0, now=NOW))
    assert accounts.hosts[key()].host_scale_time == NOW + 100.0
    accounts.apply(JobLost(key=key(), delay_bound=100.0, now=NOW + 50.0))
    assert accounts.hosts[key()].host_scale_time == NOW + 150.0
    assert accounts.hosts[key()].error_rate > HostVersionStatistics().error_rate


def test_messages_of_one_job_are_credited_for_no_more_than_the_time_since_it_was_sent() -> None:
    accounts = book()
    message = MessageReceived(
        result_id=ResultId(1),
        user_id=UserId(1),
        facts=TrickleFacts(run_time=800.0, p_fpops=1e9, in_progress=True, sent_time=NOW - 1000.0),
        rules=TrickleRules(),
        now=NOW,
    )
    first, second = accounts.apply(message)[0], accounts.apply(message)[0]
    assert second.credit.granted == pytest.approx(first.credit.granted / 4)
    assert accounts.messages[ResultId(1)][0] == 1000.0
    assert accounts.apply(message) == []


def test_messages_bring_no_more_than_the_bound_of_the_job_and_what_its_owner_may_have_open() -> None:
    accounts = book()
    told = TrickleFacts(
        run_time=86400.0,
        p_fpops=1e9,
        in_progress=True,
        sent_time=NOW - 1e7,
        most_credit=2.5,
        owner_most_credit=4.0,
    )
    message = MessageReceived(
        result_id=ResultId(1), user_id=UserId(1), facts=told, rules=TrickleRules(), now=NOW
    )
    assert [entry.credit.granted for entry in accounts.apply(message)] == [2.5]
    assert accounts.apply(message) == []
    other = replace(message, result_id=ResultId(2))
    assert [entry.credit.granted for entry in accounts.apply(other)] == [1.5]
    assert accounts.apply(replace(other, user_id=UserId(2)))


def test_a_record_that_went_over_is_nowhere_twice() -> None:
    accounts = book()
    accounts.apply(judged([facts(1)]))
    later = HostId(1), AppVersionId(8)
    taught = accounts.hosts[key(1)]
    accounts.apply(RecordTaken(earlier=key(1), later=later))
    assert accounts.hosts == {later: taught}


def test_totals_add_up_for_everybody_whom_an_entry_names_and_for_nobody_else() -> None:
    totals = CreditTotals()
    totals.open((1, 2, None, 3))
    totals.credit([((1, 2, None, 3), 5.0, NOW - 10.0), ((1, 9, 9, 3), 2.0, NOW - 10.0)], now=NOW)
    assert {kind: {i: each.total for i, each in rows.items()} for kind, rows in totals.rows.items()} == {
        "host": {1: 7.0},
        "user_account": {2: 5.0},
        "team": {},
        "app_version": {3: 7.0},
    }
    totals.correct((1, None, None, None), credit=-7.0, granted_time=NOW, now=NOW)
    assert totals.rows["host"][1].total == 0.0


def test_a_probation_ends_after_one_delay_bound_however_much_work_a_busy_host_takes() -> None:
    accounts = book()
    for hour in range(30):  # it reports and takes a job in one contact, and is validated a moment later
        now = NOW + hour * 3600.0
        accounts.apply(JobSent(key=key(), delay_bound=86400.0, now=now))
        accounts.apply(judged(verdicts=[(key(), True)], now=now + 60.0))
        assert accounts.hosts[key()].scale_probation is (hour < 24)


def test_a_one_time_cheat_costs_the_trust_that_spares_checks_without_any_option() -> None:
    accounts = book()
    accounts.hosts[key(1)] = HostVersionStatistics(consecutive_valid=50, scale_probation=False)
    accounts.apply(judged([facts(1, peak_flops=1e16)], system="creditnew-designed"))
    assert accounts.hosts[key(1)].consecutive_valid == 0
    accounts.apply(JobSent(key=key(1), delay_bound=86400.0, now=NOW))
    accounts.apply(judged(verdicts=[(key(1), True)], now=NOW + 60.0))
    assert accounts.hosts[key(1)].scale_probation
