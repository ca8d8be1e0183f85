"""The scheduler RPC, from first contact to credit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
from tests.helpers import project_world
from tests.helpers.project_world import SimHost, World, failed, succeeded

from cobblestone.domain.work import JobLimits, ReplicationRules
from cobblestone.policy.dispatch.catalogue import Assignment
from cobblestone.server.daemons.file_deleter import purge
from cobblestone.service.http import requests
from cobblestone.store.engine.database import Transaction
from cobblestone.store.operation import interventions
from cobblestone.store.people import users
from cobblestone.store.work import dispatch, messages
from cobblestone.store.work.rows import result_text
from cobblestone.wire.scheduler.host import ALWAYS_SENT, DiskUsage, HostInfo, NetStats, TimeStats
from cobblestone.wire.scheduler.report import MsgFromHost, ReportedFile
from cobblestone.wire.scheduler.request import SchedulerRequest, write_scheduler_request

pytestmark = pytest.mark.both_databases


def test_a_new_host_gets_its_id_the_key_and_work_in_its_first_contact(world: World):
    world.add_jobs(world.add_app())
    host = world.host(world.user("alice"))
    reply = host.rpc(ask=1)
    assert host.id == 1
    assert "-----" not in host.key
    assert host.key.startswith("1024")
    assert host.new_results() == ["demo_1_0_0"]
    assert reply.get("user_name") == "Alice"
    assert reply.path("app").get("name") == "demo"
    assert reply.path("app_version").get("platform") == "x86_64-pc-linux-gnu"
    assert len(reply.get("email_hash")) == 32
    assert "8080" in reply.get("master_url")


def test_the_key_is_sent_only_to_clients_that_lack_it(world: World):
    host = world.host(world.user("alice"))
    assert host.rpc().has("code_sign_key")
    assert not host.rpc().has("code_sign_key")


def test_an_unknown_account_key_gets_a_notice_and_a_delay(world: World):
    host = world.host("0" * 32)
    reply = host.rpc(ask=1)
    assert float(reply.get("request_delay")) >= 3600
    assert "account key" in host.messages()[0]
    assert not reply.has("userid")


def test_two_users_complete_a_quorum_and_both_are_credited_equally(world: World):
    batch = world.add_jobs(world.add_app(quorum=2))
    hosts = [world.host(world.user(name)) for name in ("alice", "bob")]
    for host in hosts:
        host.rpc(ask=1)
        assert len(host.new_results()) == 1
        world.now += 100
    for host, cpu_time in zip(hosts, (80.0, 40.0), strict=True):
        name = host.new_results()[0]
        host.rpc(reports=[host.finish(name, b"same answer\n", cpu_time=cpu_time)])
        assert host.held == {}
    world.settle()
    assert world.query("SELECT validate_state, granted_credit > 0 FROM result") == [(1, 1), (1, 1)]
    assert world.value("SELECT COUNT(DISTINCT granted_credit) FROM result") == 1
    assert world.value("SELECT n_success FROM batch WHERE id = ?", batch.id) == 1
    replies = [host.rpc() for host in hosts]
    totals = {reply.get("user_total_credit") for reply in replies}
    assert len(totals) == 1
    assert float(totals.pop()) > 0
    ledger = world.value("SELECT SUM(granted) FROM credit_entry")
    for table in ("host", "user_account", "app_version"):
        assert world.value(f"SELECT SUM(total_credit) FROM {table}") == pytest.approx(ledger, rel=1e-12)


def test_one_user_never_gets_two_results_of_a_workunit_on_any_host(world: World):
    world.add_jobs(world.add_app(quorum=2))
    alice = world.user("alice")
    first, second = world.host(alice), world.host(alice, domain_name="another")
    first.rpc(ask=1)
    second.rpc(ask=1)
    assert len(first.new_results()) == 1
    assert second.new_results() == []
    assert any("each volunteer only once" in text for text in second.messages())


def test_disagreeing_results_lead_to_a_third_that_decides(world: World):
    world.add_jobs(world.add_app(quorum=2))
    answers = {"alice": b"42\n", "bob": b"41\n", "carol": b"42\n"}
    for name, answer in answers.items():
        host = world.host(world.user(name))
        host.rpc(ask=1)
        (result,) = host.new_results()
        host.rpc(reports=[host.finish(result, answer)])
        world.settle()
    states = world.query("SELECT name, validate_state FROM result ORDER BY id")
    assert [state for _, state in states] == [1, 2, 1]
    assert world.value("SELECT granted_credit FROM result WHERE validate_state = 2") == 0


def test_a_repeated_report_is_acknowledged_and_counts_once(world: World):
    world.add_jobs(world.add_app())
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    (name,) = host.new_results()
    report = host.finish(name, b"x")
    host.rpc(reports=[report], lose_reply=True)
    world.settle()
    reply = host.rpc(reports=[replace(report, exit_status=1, state=3)])
    assert [ack.get("name") for ack in reply.all("result_ack")] == [name]
    world.settle()
    assert world.query("SELECT outcome, validate_state FROM result") == [(1, 1)]
    assert world.value("SELECT COUNT(*) FROM credit_entry") == 1


def test_a_lost_reply_is_made_good_by_sending_the_same_results_again(world: World):
    world.add_jobs(world.add_app(), n=2)
    host = world.host(world.user("alice"))
    host.rpc()
    lost = host.rpc(ask=1, lose_reply=True)
    names = sorted(result.get("name") for result in lost.all("result"))
    host.rpc(ask=1)
    assert sorted(host.new_results()) == names
    assert any("Resent lost task" in text for text in host.messages())
    assert world.value("SELECT COUNT(*) FROM result WHERE server_state = 4") == len(names)


def test_without_a_list_of_its_tasks_nothing_is_taken_for_lost(world: World):
    world.add_jobs(world.add_app(), n=2)
    host = world.host(world.user("alice"))
    host.rpc()
    host.rpc(ask=1, lose_reply=True)
    host.rpc(ask=1, other_results_listed=False)
    assert not any("Resent lost task" in text for text in host.messages())


def test_a_client_that_lost_its_state_is_recognised_by_its_cpid(world: World):
    world.add_jobs(world.add_app(), n=3)
    alice = world.user("alice")
    host = world.host(alice, cpid="c" * 32)
    host.rpc(ask=1)
    old = host.held
    again = world.host(alice, cpid="c" * 32)
    again.rpc(ask=1)
    assert again.id == host.id
    assert world.value("SELECT COUNT(*) FROM host") == 1
    gone = world.query("SELECT name FROM result WHERE outcome = 7 ORDER BY id")
    assert [row[0] for row in gone] == list(old), "what it had is given up, and made anew for others"


def test_jobs_of_a_first_reply_that_was_lost_are_sent_again(world: World):
    world.add_jobs(world.add_app(), n=3)
    host = world.host(world.user("alice"))
    lost = [result.get("name") for result in host.rpc(ask=1, lose_reply=True).all("result")]
    host.rpc(ask=1, lose_reply=True)
    host.rpc(ask=1)
    assert host.new_results() == lost
    assert world.query("SELECT COUNT(*), SUM(outcome) FROM result WHERE server_state = 4") == [(len(lost), 0)]
    (name, *_others) = lost
    host.rpc(reports=[host.finish(name, b"x")])
    assert world.value("SELECT outcome FROM result WHERE name = ?", name) == 1


def wiped(world: World, key: str) -> tuple[str, SimHost]:
    """One job that a computer had before its client lost its state, and the client after that."""
    cpid = "c" * 32
    old = world.host(key, cpid=cpid)
    old.rpc(ask=1)
    (lost,) = old.new_results()
    old.upload(f"{lost}_0", b"x")
    new = world.host(key, cpid=cpid)
    new.rpc()
    world.settle()
    return lost, new


def test_a_job_that_a_wiped_client_lost_may_go_to_the_same_person_again(world: World):
    """In a project of one volunteer nobody else could take it."""
    world.add_jobs(world.add_app())
    lost, new = wiped(world, world.user("alice"))
    new.rpc(ask=1)
    (name,) = new.new_results()
    assert name != lost
    new.rpc(reports=[new.finish(name, b"x")])
    world.settle()
    assert world.value("SELECT assimilate_state FROM workunit") == 2


def test_two_answers_of_one_person_do_not_agree_with_each_other(world: World):
    """Whoever wipes a client to get a second result of the same workunit gains nothing by reporting the first one as well."""
    world.add_jobs(world.add_app(quorum=2))
    lost, new = wiped(world, world.user("alice"))
    new.rpc(ask=1)
    (name,) = new.new_results()
    new.rpc(reports=[succeeded(lost, b"x"), new.finish(name, b"x")])
    world.settle()
    assert world.value("SELECT outcome FROM result WHERE name = ?", lost) == 7
    assert world.value("SELECT canonical_result_id FROM workunit") is None


def test_a_lost_job_that_comes_after_all_counts_if_nobody_replaced_it_there(world: World):
    world.add_jobs(world.add_app())
    lost, new = wiped(world, world.user("alice"))
    new.rpc(reports=[succeeded(lost, b"x")])
    world.settle()
    assert world.value("SELECT outcome FROM result WHERE name = ?", lost) == 1
    new.rpc(ask=1)
    assert new.new_results() == [], "its user has answered"


def test_a_copied_state_file_makes_a_new_host(world: World):
    alice = world.user("alice")
    host = world.host(alice)
    for _ in range(5):
        host.rpc()
    copy = world.host(alice, domain_name="another")
    copy.request = replace(copy.request, hostid=host.id, rpc_seqno=2)
    copy.rpc()
    assert copy.id != host.id


def test_a_result_of_somebody_else_cannot_be_reported(world: World):
    world.add_jobs(world.add_app())
    alice, mallory = world.host(world.user("alice")), world.host(world.user("mallory"))
    alice.rpc(ask=1)
    mallory.rpc()
    (name,) = alice.new_results()
    reply = mallory.rpc(reports=[succeeded(name, b"forged")])
    assert reply.path("result_ack").get("name") == name
    assert world.value("SELECT server_state FROM result WHERE name = ?", name) == 4


def test_a_success_without_its_output_on_the_server_is_an_error(world: World):
    world.add_jobs(world.add_app())
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    (name,) = host.new_results()
    host.rpc(reports=[succeeded(name, b"never uploaded")])
    assert world.query("SELECT outcome, validate_state FROM result WHERE name = ?", name) == [(3, 2)]


def test_a_refused_upload_reported_as_success_is_an_error(world: World):
    world.add_jobs(world.add_app())
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    (name,) = host.new_results()
    report = replace(
        succeeded(name), files=(ReportedFile(name=f"{name}_0", error_msg="permanent upload error"),)
    )
    host.rpc(reports=[report])
    assert world.value("SELECT outcome FROM result WHERE name = ?", name) == 3


def test_errors_are_retried_elsewhere_until_the_limit_and_then_the_job_fails(world: World):
    app = world.add_app(rules=ReplicationRules(max_error_results=2, max_total_results=10))
    batch = world.add_jobs(app)
    for number in range(3):
        host = world.host(world.user(f"user{number}"))
        host.rpc(ask=1)
        (name,) = host.new_results()
        host.rpc(reports=[failed(name)])
        world.settle()
    assert world.query("SELECT error_mask, assimilate_state FROM workunit") == [(2, 2)]
    assert world.query("SELECT n_success, n_error, state FROM batch WHERE id = ?", batch.id) == [(0, 1, 2)]


def test_a_missed_deadline_gives_the_job_to_another_host(world: World):
    world.add_jobs(world.add_app(limits=JobLimits(delay_bound=3600, rsc_fpops_est=1e10)))
    late = world.host(world.user("late"))
    late.rpc(ask=1)
    (name,) = late.new_results()
    world.now += 3601
    world.settle()
    assert world.value("SELECT outcome FROM result WHERE name = ?", name) == 4
    other = world.host(world.user("other"))
    other.rpc(ask=1)
    assert len(other.new_results()) == 1
    reply = late.rpc()
    assert late.held, "it still computes, and may come in late"
    assert reply.has("result_abort_if_not_started")


def test_a_late_result_still_counts_while_the_job_is_open(world: World):
    world.add_jobs(world.add_app(limits=JobLimits(delay_bound=3600, rsc_fpops_est=1e10)))
    late = world.host(world.user("late"))
    late.rpc(ask=1)
    (name,) = late.new_results()
    world.now += 3601
    world.settle()
    late.rpc(reports=[late.finish(name, b"late but right")])
    world.settle()
    assert world.query(
        "SELECT outcome, validate_state, granted_credit > 0 FROM result WHERE name = ?", name
    ) == [(1, 1, 1)]


def test_without_jobs_the_client_is_told_why_in_plain_words(world: World):
    world.add_app()
    host = world.host(world.user("alice"))
    host.rpc(ask=100)
    assert host.messages()[0] == "No tasks sent"
    assert "no tasks waiting" in host.messages()[1]


def test_an_unsigned_version_is_never_sent(world: World):
    world.add_jobs(world.add_app(signed=False))
    host = world.host(world.user("alice"))
    host.rpc(ask=100)
    assert host.new_results() == []
    assert any("not signed" in text for text in host.messages())


def test_another_platform_is_told_so(world: World):
    world.add_jobs(world.add_app(platform="windows_x86_64"))
    host = world.host(world.user("alice"))
    host.rpc(ask=100)
    assert host.new_results() == []
    assert any("x86_64-pc-linux-gnu" in text for text in host.messages())


def test_a_cancelled_job_is_aborted_on_its_host(world: World):
    from cobblestone.store.work import batches

    batch = world.add_jobs(world.add_app())
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    (name,) = host.new_results()
    world.write(lambda tx: batches.cancel_jobs(tx, batch.id, now=world.now))
    world.settle()
    reply = host.rpc()
    assert [abort.get("name") for abort in reply.all("result_abort")] == [name]


def test_a_failing_host_soon_gets_one_job_a_day(make_world):
    world = make_world(scheduler={"daily_result_quota": 4})
    world.add_jobs(world.add_app(rules=ReplicationRules(max_error_results=50, max_total_results=99)), n=40)
    host = world.host(world.user("broken"), p_ncpus=1)
    sent = 0
    for _ in range(30):
        host.rpc(ask=1)
        names = host.new_results()
        sent += len(names)
        host.rpc(reports=[failed(name) for name in names])
        world.settle()
    assert sent <= 10
    host.rpc(ask=1)
    assert any("a day" in text or "today" in text for text in host.messages())


def test_a_blocked_host_gets_no_work_but_may_report(world: World):
    from cobblestone.store.operation import interventions

    world.add_jobs(world.add_app(), n=2)
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    name = host.new_results()[0]
    world.write(lambda tx: interventions.block(tx, "host", host.id, "it returns nonsense"))
    report = host.finish(name, b"x")
    reply = host.rpc(ask=1, reports=[report])
    assert reply.has("result_ack")
    assert host.new_results() == []
    assert any("nonsense" in text for text in host.messages())


def test_trickles_are_stored_once_and_acknowledged(world: World):
    host = world.host(world.user("alice"))
    host.rpc()
    trickle = MsgFromHost(result_name="demo_1_0_0", time=1.0, variety="progress", text="<x>half</x>")
    assert host.rpc(trickles=[trickle]).has("message_ack")
    assert host.rpc(trickles=[trickle]).has("message_ack")
    assert world.query("SELECT variety, text FROM msg_from_host") == [("progress", "<x>half</x>")]


def test_a_trickle_down_goes_out_with_the_job_running_and_only_once(world: World):
    from cobblestone.domain.values import HostId

    world.add_jobs(world.add_app())
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    (name,) = host.new_results()
    world.write(
        lambda tx: messages.send_trickle_down(
            tx, HostId(host.id), result_name=name, text="<stop_at>7</stop_at>", now=world.now
        )
    )
    assert host.rpc().path("trickle_down").get("result_name") == name
    assert not host.rpc().has("trickle_down")


def test_messages_to_jobs_that_are_gone_do_not_keep_back_those_to_running_ones(world: World):
    from cobblestone.domain.values import HostId

    world.add_jobs(world.add_app(), n=2)
    host = world.host(world.user("alice"))
    host.rpc(ask=1, instances=2)
    gone, name = host.new_results()
    host.rpc(reports=[host.finish(gone, b"answer")])
    for to, text in [*(25 * [(gone, "late")]), *((name, str(number)) for number in range(25))]:
        world.write(
            lambda tx, to=to, text=text: messages.send_trickle_down(
                tx, HostId(host.id), result_name=to, text=text, now=world.now
            )
        )
    assert len(host.rpc().all("trickle_down")) == 20
    sent = world.query("SELECT text FROM msg_to_host WHERE sent_time IS NOT NULL ORDER BY id")
    assert sent == [(str(number),) for number in range(20)]
    assert len(host.rpc().all("trickle_down")) == 5
    assert (
        world.query("SELECT id FROM msg_to_host WHERE sent_time IS NULL") == []
    )  # no request reads them again


def test_messages_wait_for_a_running_job_that_the_client_does_not_name_and_go_with_it_into_the_archive(
    world: World,
):
    from cobblestone.domain.values import HostId

    batch = world.add_jobs(world.add_app(), n=1)
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    (name,) = host.new_results()
    world.write(
        lambda tx: messages.send_trickle_down(
            tx, HostId(host.id), result_name=name, text="<stop_at>7</stop_at>", now=world.now
        )
    )
    del host.held[name]  # as a client without a list of all its jobs
    assert not host.rpc(other_results_listed=False).has("trickle_down")
    assert world.value("SELECT COUNT(*) FROM msg_to_host WHERE sent_time IS NULL") == 1
    world.write(lambda tx: tx.execute("UPDATE workunit SET batch_id = NULL WHERE batch_id = ?", (batch.id,)))
    world.write(lambda tx: interventions.cancel_workunit(tx, 1, now=world.now))
    for _ in range(3):  # its deadline passes, its files go, and then it
        world.now += 100 * 86400
        world.settle()
        world.run(purge(world.ctx))
    assert world.value("SELECT COUNT(*) FROM workunit") == 0
    assert world.value("SELECT COUNT(*) FROM msg_to_host") == 0


def test_the_weak_authenticator_works_for_the_scheduler_only(world: World):
    strong = world.user("alice")
    weak = world.value("SELECT weak_authenticator FROM user_account")
    host = world.host(weak)
    host.rpc()
    assert host.id == 1
    assert "<error_num>-136" in world.get("/am_get_info.php", params={"account_key": weak}).text
    assert weak in world.get("/am_get_info.php", params={"account_key": strong}).text


def test_who_has_the_key_of_an_account_may_say_who_is_behind_it_and_nobody_else(world: World):
    strong, other = world.user("alice"), world.user("bob")
    weak = world.value("SELECT weak_authenticator FROM user_account WHERE id = 1")
    before = world.value("SELECT cross_project_id FROM user_account WHERE id = 2")
    said = {"cross_project_id": "e" * 32, "statistics": "1"}
    for key in (weak, "f" * 32):
        answer = world.get("/am_set_info.php", params={"account_key": key, **said})
        assert "<error_num>-136" in answer.text
    assert "<success/>" in world.get("/am_set_info.php", params={"account_key": strong, **said}).text
    assert world.value("SELECT cross_project_id FROM user_account WHERE id = 1") == "e" * 32
    assert world.value("SELECT cross_project_id FROM user_account WHERE id = 2") == before
    assert (
        world.value("SELECT source FROM consent WHERE kind = 'statistics' AND agreed = 1")
        == "am_set_info.php"
    )
    refused = world.get("/am_set_info.php", params={"account_key": other, "team_name": "Nowhere", **said})
    assert "no team of that name" in refused.text
    assert world.value("SELECT cross_project_id FROM user_account WHERE id = 2") == before


def test_preferences_changed_on_the_site_reach_the_client_once(world: World):
    from cobblestone.domain.values import UserId

    host = world.host(world.user("alice"))
    host.rpc()
    text = "<global_preferences>\n<mod_time>1800000001</mod_time>\n<max_ncpus_pct>50</max_ncpus_pct>\n</global_preferences>"
    world.write(lambda tx: users.set_global_preferences(tx, UserId(1), text, 1800000001.0))
    assert host.rpc().path("global_preferences").get("max_ncpus_pct") == "50"


@pytest.mark.parametrize("body", [b"", b"hello", b"<scheduler_request>", b"\x00" * 100, b"<x>" * 10_000])
def test_what_cannot_be_read_gets_a_reply_of_the_protocol(world: World, body: bytes):
    reply = world.post("/cgi-bin/cgi", content=body)
    assert reply.status_code == 200
    assert "<scheduler_reply>" in reply.text
    assert "<message" in reply.text


def test_a_huge_request_is_refused_without_reading_it(make_world):
    world = make_world(server={"max_request_bytes": 20_000})
    reply = world.post("/cgi-bin/cgi", content=b"x" * 30_000)
    assert "larger than" in reply.text


def test_a_thousand_reports_with_long_stderr_are_taken_without_the_middle_of_it(make_world):
    world = make_world(server={"max_request_bytes": 200_000}, scheduler={"max_jobs_per_day_init": 100})
    world.add_jobs(world.add_app(), n=20)
    host = world.host(world.user("ada"))
    while len(host.held) < 20:
        host.rpc(ask=1e6)
        world.now += 100
    texts = {name: f"begin {name} {'é</result>' * 1000} end" for name in host.held}
    reply = host.rpc(reports=[failed(name, stderr=text) for name, text in texts.items()])
    assert {ack.get("name") for ack in reply.all("result_ack")} == set(texts)
    for id_, name in world.query("SELECT id, name FROM result"):
        stderr = world.ctx.store.read(lambda db, id_=id_: result_text(db, id_)).stderr
        assert stderr.startswith(f"begin {name}")
        assert stderr.endswith(" end")
        assert len(stderr) < 2000
    sent = 10 * 200_000
    reply = world.post("/cgi-bin/cgi", content=b"<stderr_out>" + b"x" * sent + b"</stderr_out>")
    assert "larger than" in reply.text
    assert requests._Share.in_use == 0


_BLOCKS = ("host_info", "time_stats", "net_stats", "disk_usage")
_NUMBERS = sorted(
    ALWAYS_SENT - {"timezone"} - {n for n in ALWAYS_SENT if isinstance(getattr(HostInfo(), n, 0), str)}
)


@pytest.mark.parametrize(
    ("elements", "content"),
    [
        pytest.param(_BLOCKS, "", id="blocks"),
        pytest.param(sorted(ALWAYS_SENT), "", id="elements"),
        pytest.param(_NUMBERS, "inf", id="numbers"),
    ],
)
def test_what_a_request_leaves_out_or_spoils_of_a_computer_stays_as_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch, elements: Sequence[str], content: str
):
    names = ALWAYS_SENT & {each.name for each in fields(HostInfo)}
    info: dict[str, Any] = {name: 5e9 if name in _NUMBERS else "x" for name in names}
    info |= {"p_ncpus": 7, "timezone": 3600}
    host = world.host(world.user("alice"), **info)
    host.request = replace(
        host.request,
        time_stats=TimeStats(on_frac=0.5, active_frac=0.6, connected_frac=0.7, gpu_active_frac=0.4),
        net_stats=NetStats(bwup=1e5, bwdown=2e5),
        disk_usage=DiskUsage(d_boinc_used_total=2e9, d_boinc_used_project=1e9),
    )
    host.rpc()
    known = world.value("SELECT description FROM host")
    for name in elements:

        def without(request: SchedulerRequest, name: str = name) -> bytes:
            text = write_scheduler_request(request).decode()
            element = re.compile(rf"<{name}>.*?</{name}>", flags=re.DOTALL)
            return element.sub(f"<{name}>{content}</{name}>" if content else "", text, 1).encode()

        monkeypatch.setattr(project_world, "written_request", without)
        host.rpc()
        assert world.value("SELECT description FROM host") == known, name


def test_a_result_is_handed_to_one_host_only(world: World, monkeypatch: pytest.MonkeyPatch):
    """A scheduler whose choice is out of date claims what another host has by now."""
    chosen: list[Assignment] = []
    claim = dispatch.claim

    def noted(tx: Transaction, assignments: Sequence[Assignment], **more: Any) -> list[Assignment]:
        chosen.extend(assignments)
        return claim(tx, assignments, **more)

    monkeypatch.setattr(dispatch, "claim", noted)
    world.add_jobs(world.add_app())
    one, other = world.host(world.user("ada")), world.host(world.user("bob"))
    one.rpc(ask=1)
    other.rpc()
    late = {
        "host_id": other.id,
        "user_id": 2,
        "grace_period": 0.0,
        "one_result_per_user": True,
        "now": world.now,
    }
    assert len(chosen) == 1
    assert world.write(lambda tx: claim(tx, chosen, **late)) == []
    assert world.query("SELECT host_id FROM result WHERE host_id IS NOT NULL") == [(one.id,)]
