"""Who a host is, which key it holds, which of its jobs are lost or not wanted."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.dispatch_world import (
    DESCRIPTION,
    HOUR,
    NOW,
    CountedVersions,
    app,
    candidate,
    catalogue,
    counted,
    host,
    record,
    records,
    request,
    version,
)

from cobblestone.domain.hosts import Host
from cobblestone.domain.values import AppId, HostId, ResultId, UserId, WorkunitId
from cobblestone.domain.work import AssimilateState, JobLimits, Outcome, Result, ServerState, WorkunitError
from cobblestone.policy.dispatch.catalogue import Catalogue
from cobblestone.policy.dispatch.held_jobs import (
    Abort,
    HeldJob,
    LostDecision,
    LostResult,
    judge_held_job,
    resend_lost,
)
from cobblestone.policy.dispatch.identity import (
    HostDecision,
    Introduction,
    KeyExchange,
    RetiredKey,
    SimilarHosts,
    exchange_key,
    hashed_cpid,
    identify_host,
)
from cobblestone.policy.dispatch.limits import DispatchLimits, quota_day
from cobblestone.policy.dispatch.request import ProjectPreferences, WorkRequest

# Host identity

CPID = "c" * 32
NAMED = replace(DESCRIPTION, domain_name="box", ip_addr="10.0.0.2")
KNOWN = host(7, 1, host_cpid=CPID, rpc_seqno=20, description=NAMED)


def identify(
    *,
    seqno: int = 21,
    sent: int = 7,
    claimed: Host | None = KNOWN,
    same: tuple[Host, ...] = (),
    similar: tuple[Host, ...] = (),
    **changes: Any,
) -> HostDecision:
    values = {"user_id": UserId(1), "rpc_seqno": seqno, "hashed_cpid": CPID, "description": NAMED} | changes
    facts = SimilarHosts(claimed=claimed, claimed_number=sent, same_cpid=same, similar=similar)
    return identify_host(Introduction(**values), facts)


def first_contact(**changes: Any) -> HostDecision:
    return identify(sent=0, claimed=None, seqno=0, **changes)


def test_a_known_host_with_a_later_number_is_used_as_it_is():
    assert identify() == HostDecision(host=KNOWN, send_host_id=False)
    assert identify(seqno=20).host == KNOWN
    assert identify(seqno=900).host == KNOWN


def test_the_survivor_of_a_merge_is_used_and_its_id_told():
    decision = identify(sent=5)
    assert (decision.host, decision.send_host_id, decision.detached) == (KNOWN, True, False)


@pytest.mark.parametrize(
    "changes", [{"seqno": 19}, {"claimed": replace(KNOWN, user_id=UserId(2))}, {"claimed": None}]
)
def test_a_copied_state_or_foreign_host_makes_a_new_record(changes: dict[str, Any]):
    decision = identify(**changes)
    assert (decision.host, decision.send_host_id, decision.detached) == (None, True, False)
    assert decision.reasons[-1].code == "host_new"


def test_a_restored_state_on_the_same_machine_keeps_its_record_and_id():
    decision = identify(seqno=3, same=(KNOWN,), lists_jobs=True)
    assert (decision.host, decision.send_host_id, decision.detached) == (KNOWN, False, False)


def test_a_wiped_client_is_recognised_by_its_cpid_and_has_lost_its_jobs():
    decision = first_contact(same=(KNOWN,))
    assert (decision.host, decision.send_host_id, decision.detached) == (KNOWN, True, True)


def test_a_client_whose_first_replies_were_lost_keeps_its_jobs():
    """It has no id yet, and goes on counting; one that was wiped begins with 0 again."""
    told_in_vain = replace(KNOWN, rpc_seqno=1)
    decision = identify(sent=0, claimed=None, seqno=2, same=(told_in_vain,))
    assert (decision.host, decision.send_host_id, decision.detached) == (told_in_vain, True, False)
    for seqno in (0, 1):
        assert identify(sent=0, claimed=None, seqno=seqno, same=(told_in_vain,)).detached


def test_a_client_that_knows_its_id_keeps_its_jobs_although_it_counts_anew():
    decision = identify(seqno=3, same=(KNOWN,))
    assert (decision.host, decision.send_host_id, decision.detached) == (KNOWN, False, False)


def test_a_recognised_client_that_lists_jobs_keeps_them():
    assert not first_contact(same=(KNOWN,), lists_jobs=True).detached


@pytest.mark.parametrize(
    "changed", [{"p_ncpus": 64}, {"p_vendor": "x"}, {"p_model": "x"}, {"os_name": "x"}, {"os_version": "13"}]
)
def test_other_hardware_or_system_under_the_same_cpid_is_another_host(changed: dict[str, Any]):
    description = replace(NAMED, domain_name="", **changed)
    assert first_contact(same=(KNOWN,), description=description).host is None


def test_hosts_without_cpid_are_not_all_the_same():
    nameless = replace(KNOWN, host_cpid="")
    assert first_contact(same=(nameless,), hashed_cpid="", description=DESCRIPTION).host is None


def test_a_similar_computer_is_the_same_one():
    assert first_contact(similar=(replace(KNOWN, host_cpid="d" * 32),)).host is not None


def test_several_clients_on_one_machine_are_kept_apart():
    similar = (replace(KNOWN, host_cpid="d" * 32),)
    assert first_contact(similar=similar, allow_multiple_clients=True).host is None


@pytest.mark.parametrize(
    "changed", [{"ip_addr": "10.0.0.9"}, {"m_nbytes": 1.0}, {"p_model": "x"}, {"os_name": "x"}]
)
def test_a_computer_that_differs_is_not_similar(changed: dict[str, Any]):
    similar = replace(KNOWN, host_cpid="d" * 32, description=replace(NAMED, **changed))
    assert first_contact(similar=(similar,)).host is None


def test_hosts_of_other_users_are_never_taken():
    foreign = replace(KNOWN, user_id=UserId(2))
    assert first_contact(same=(foreign,), similar=(foreign,)).host is None


def test_the_newest_of_several_matching_records_is_used():
    older = replace(KNOWN, id=HostId(6))
    found = first_contact(same=(KNOWN, older)).host
    assert found is not None
    assert found.id == 7


def test_the_hashed_cpid_is_the_digest_of_id_and_address():
    expected = hashlib.md5(b"aaaabbbbccccddddaaaabbbbccccdddduser@example.org").hexdigest()
    assert hashed_cpid("aaaabbbbccccddddaaaabbbbccccdddd", "user@example.org") == expected
    assert expected == "673b12b79cd9b2e458ae4a12c448e358"
    assert hashed_cpid("", "user@example.org") == ""


# Key exchange

NEW = "1024\nabcd\n.\n"
OLD = "1024\n0123\n.\n"


def test_a_client_without_key_gets_it_unsigned():
    assert exchange_key(None, current=NEW) == KeyExchange(key=NEW)
    assert exchange_key("  \n", current=NEW) == KeyExchange(key=NEW)


def test_a_client_with_the_current_key_gets_nothing():
    assert exchange_key(f"\n{NEW.strip()} ", current=NEW) == KeyExchange()


def test_a_client_with_an_old_key_gets_the_new_one_with_its_signature():
    exchange = exchange_key(OLD.strip(), current=NEW, retired=[RetiredKey(key=OLD, signature="5b.")])
    assert exchange == KeyExchange(key=NEW, signature="5b.")


@pytest.mark.parametrize("retired", [[], [RetiredKey(key=OLD, signature="")]])
def test_a_client_with_a_key_that_cannot_be_replaced_gets_no_work_and_is_told_what_to_do(
    retired: list[RetiredKey],
):
    exchange = exchange_key(OLD, current=NEW, retired=retired)
    assert (exchange.key, exchange.may_send_work) == ("", False)
    assert exchange.reason is not None
    assert "remove the project" in exchange.reason.text()


def test_a_project_that_lost_its_key_sends_no_work_to_clients_that_have_one():
    assert not exchange_key(OLD, current="").may_send_work


# Aborts

HELD = Result(
    id=ResultId(1),
    name="wu_0",
    workunit_id=WorkunitId(1),
    app_id=AppId(1),
    server_state=ServerState.IN_PROGRESS,
    host_id=HostId(1),
)
TIMED_OUT = replace(HELD, server_state=ServerState.OVER, outcome=Outcome.NO_REPLY)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (HeldJob(result=HELD), Abort.NO),
        (None, Abort.ALWAYS),
        (HeldJob(result=replace(HELD, host_id=HostId(2))), Abort.ALWAYS),
        (HeldJob(result=replace(HELD, server_state=ServerState.UNSENT)), Abort.ALWAYS),
        (HeldJob(result=replace(TIMED_OUT, outcome=Outcome.SUCCESS)), Abort.ALWAYS),
        (HeldJob(result=TIMED_OUT), Abort.IF_NOT_STARTED),
        (HeldJob(result=HELD, error_mask=WorkunitError.CANCELLED), Abort.ALWAYS),
        (HeldJob(result=TIMED_OUT, error_mask=WorkunitError.CANCELLED), Abort.ALWAYS),
        (HeldJob(result=HELD, error_mask=WorkunitError.TOO_MANY_ERROR_RESULTS), Abort.NO),
        (HeldJob(result=HELD, assimilate_state=AssimilateState.DONE), Abort.IF_NOT_STARTED),
        (HeldJob(result=HELD, assimilate_state=AssimilateState.READY), Abort.NO),
    ],
)
def test_jobs_are_aborted_only_when_nobody_needs_them(job: HeldJob | None, expected: Abort):
    assert judge_held_job(job, host_id=HostId(1)) is expected


# Lost results


def resend(
    *lost: LostResult,
    asked: WorkRequest | None = None,
    offer: Catalogue | None = None,
    limits: DispatchLimits | None = None,
) -> LostDecision:
    return resend_lost(
        asked or request(),
        lost,
        offer or catalogue(version()),
        limits=limits or DispatchLimits(),
        now=NOW,
        rng=random.Random(0),
    )


def lost(number: int = 1, *, deadline: float = NOW + 24 * HOUR, **changes: Any) -> LostResult:
    facts = {key: changes.pop(key) for key in ("error_mask", "has_canonical_result") if key in changes}
    return LostResult(candidate=candidate(number, **changes), report_deadline=deadline, **facts)


def test_a_lost_result_is_sent_again_with_its_old_deadline():
    decision = resend(lost())
    assert [each.report_deadline for each in decision.resent] == [NOW + 24 * HOUR]
    assert decision.expired == ()


def test_versions_are_gone_through_once_for_many_lost_results_that_are_alike():
    offer = counted(catalogue(version()))
    assert len(resend(*map(lost, range(1, 41)), offer=offer).resent) == 40
    assert CountedVersions.looks == 1


def test_a_job_that_cannot_make_the_old_deadline_gets_a_full_new_one():
    decision = resend(lost(deadline=NOW + 60))
    assert decision.resent[0].report_deadline == NOW + JobLimits().delay_bound


def test_a_job_that_cannot_be_done_in_time_at_all_expires():
    slow = JobLimits(rsc_fpops_est=4e9 * 100 * HOUR, delay_bound=50 * HOUR)
    decision = resend(lost(limits=slow), asked=request(delay=HOUR))
    assert [each.reason.code for each in decision.expired] == ["lost_too_late"]
    assert resend(lost(limits=slow)).resent, "a host with nothing queued gets one job"
    assert len(resend(lost(1, limits=slow), lost(2, limits=slow)).resent) == 1


@pytest.mark.parametrize(
    ("one", "asked", "offer", "code"),
    [
        (lost(has_canonical_result=True), None, None, "lost_unneeded"),
        (lost(error_mask=WorkunitError.CANCELLED), None, None, "lost_failed"),
        (lost(), None, catalogue(version(), apps=[app(1, deprecated=True)]), "lost_no_app"),
        (lost(app_number=9), None, None, "lost_no_app"),
        (lost(), None, catalogue(version(), apps=[app(1, beta=True)]), "lost_not_selected"),
        (
            lost(),
            request(preferences=ProjectPreferences(selected_apps=frozenset({AppId(2)}))),
            None,
            "lost_not_selected",
        ),
        (lost(), request(platforms=("windows_x86_64",)), None, "app_not_for_this_platform"),
        (lost(), request(ram_bytes=1.0), None, "lost_infeasible"),
        (lost(), request(disk_bytes=1.0), None, "lost_infeasible"),
    ],
)
def test_a_lost_result_that_is_not_needed_or_not_possible_expires_with_a_reason(
    one: LostResult, asked: WorkRequest | None, offer: Catalogue | None, code: str
):
    decision = resend(one, asked=asked, offer=offer)
    assert decision.resent == ()
    assert [each.reason.code for each in decision.expired] == [code]


def test_quota_and_request_do_not_hinder_a_resend():
    day = quota_day(HostId(1), NOW)
    used_up = records(record(1, max_jobs_per_day=1, n_jobs_today=1, quota_day=day))
    assert resend(lost(), asked=request(seconds=0, records=used_up)).resent
