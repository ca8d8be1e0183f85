"""Who gets which jobs, through the scheduler RPC: what apps, jobs, volunteers and operators ask for."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.helpers.preference_texts import preferences_text
from tests.helpers.project_world import SimHost, World, failed
from tests.helpers.stated_bounds import wasted_at_most

from cobblestone.domain.apps import App, AppDispatch, gpu_class_names
from cobblestone.domain.hosts import HostDescription
from cobblestone.domain.people import ProjectPreferences, Scope, SubmitRights
from cobblestone.domain.reasons import reason
from cobblestone.domain.values import AppVersionId, HostId, ResultId, TeamId, UserId
from cobblestone.domain.work import HomogeneousRedundancy, InputFile, JobLimits, Recipients, ReplicationRules
from cobblestone.policy.dispatch.catalogue import SpeedPopulation, believed_speed
from cobblestone.server.operation.explain import explain_host, explain_result, explain_workunit
from cobblestone.server.scheduler import reports
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import account_changes, credentials, hosts, users
from cobblestone.store.work.candidates import CandidateQueue
from cobblestone.wire.scheduler.host import CoprocRequest
from cobblestone.wire.scheduler.report import StickyFile
from cobblestone.wire.scheduler.request import InProgressResult

PATIENT = ReplicationRules(max_error_results=900, max_total_results=999, max_success_results=900)
INTEL = {"p_vendor": "GenuineIntel", "p_model": "Intel(R) Core(TM) i7-8550U"}
APPLE = {"p_vendor": "Apple", "p_model": "Apple M2", "os_name": "Darwin"}


def prefer(world: World, user_id: int, preferences: ProjectPreferences, **venues: ProjectPreferences) -> None:
    text = preferences_text(preferences, **venues)
    world.write(lambda tx: account_changes.set_project_preferences(tx, UserId(user_id), text))


def app_names(host: SimHost) -> list[str]:
    return [name.rpartition("_")[0].rsplit("_", 2)[0] for name in host.new_results()]


# What the volunteer chose


def test_only_selected_apps_are_sent_and_the_others_when_they_are_allowed(world: World):
    first, second = world.add_app("first"), world.add_app("second")
    world.add_jobs(first)
    world.add_jobs(second)
    host = world.host(world.user("alice"))
    prefer(world, 1, ProjectPreferences(selected_apps=frozenset({second.id})))
    host.rpc(ask=1e6)
    assert app_names(host) == ["second"]
    host.rpc(ask=1e6)
    assert any("not selected" in text for text in host.messages())
    prefer(world, 1, ProjectPreferences(selected_apps=frozenset({second.id}), allow_non_preferred=True))
    host.rpc(ask=1e6)
    assert app_names(host) == ["first"]


def test_test_applications_are_sent_to_those_who_allow_them(world: World):
    world.add_jobs(world.add_app("trial", beta=True))
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    assert host.new_results() == []
    assert any("test application" in text for text in host.messages())
    prefer(world, 1, ProjectPreferences(allow_beta=True))
    host.rpc(ask=1)
    assert app_names(host) == ["trial"]


def test_a_limit_on_jobs_and_a_refusal_of_cpu_work_are_obeyed_for_each_venue(make_world):
    world = make_world(scheduler={"max_jobs_per_day_init": 20})
    world.add_jobs(world.add_app(), n=20)
    host = world.host(world.user("alice"))
    prefer(
        world,
        1,
        ProjectPreferences(max_jobs=3),
        home=ProjectPreferences(no_cpu=True),
        work=ProjectPreferences(),
    )
    host.rpc(ask=1e7)
    assert len(host.new_results()) == 3
    world.write(lambda tx: tx.execute("UPDATE host SET venue = 'home'"))
    host.rpc(ask=1e7)
    assert host.new_results() == []
    assert any("exclude CPU" in text for text in host.messages())
    world.write(lambda tx: tx.execute("UPDATE host SET venue = 'work'"))
    host.rpc(ask=1e7)
    assert len(host.new_results()) > 3


# What the app asks for


def test_limits_of_an_app_and_of_the_project_count_what_the_host_holds(make_world):
    world = make_world(scheduler={"max_jobs_on_host": 5})
    small = world.add_app("small", dispatch=AppDispatch(max_jobs_on_host=2))
    large = world.add_app("large", dispatch=AppDispatch(max_jobs_per_rpc=2))
    world.add_jobs(small, n=9)
    world.add_jobs(large, n=9)
    host = world.host(world.user("alice"))
    counts: list[Counter[str]] = []
    for _ in range(3):
        host.rpc(ask=1e7)
        counts.append(Counter(app_names(host)))
    assert counts[0] == {"small": 2, "large": 2}
    assert counts[1] == {"large": 1}
    assert counts[2] == {}
    assert any("allows 5 at a time" in text for text in host.messages())


def test_results_of_a_job_go_to_computers_of_one_class(world: World):
    app = world.add_app(quorum=2, dispatch=AppDispatch(homogeneous_redundancy=HomogeneousRedundancy.COARSE))
    world.add_jobs(app)
    first = world.host(world.user("alice"), **INTEL)
    mac = world.host(world.user("bob"), **APPLE)
    last = world.host(world.user("carol"), **INTEL)
    first.rpc(ask=1)
    assert len(first.new_results()) == 1
    assert world.value("SELECT hr_class FROM workunit") == 258
    mac.rpc(ask=1)
    assert mac.new_results() == []
    assert any("another kind of processor" in text for text in mac.messages())
    last.rpc(ask=1)
    assert len(last.new_results()) == 1


def test_when_every_result_failed_the_job_is_free_for_all_classes_again(world: World):
    app = world.add_app(
        rules=PATIENT, dispatch=AppDispatch(homogeneous_redundancy=HomogeneousRedundancy.COARSE)
    )
    world.add_jobs(app)
    first, mac = world.host(world.user("alice"), **INTEL), world.host(world.user("bob"), **APPLE)
    first.rpc(ask=1)
    first.rpc(reports=[failed(first.new_results()[0])])
    world.settle()
    mac.rpc(ask=1)
    assert len(mac.new_results()) == 1
    assert world.value("SELECT hr_class FROM workunit") == 534


def add_version(world: World, app: App, number: int) -> None:
    def add(tx):
        (version, *_) = apps.list_versions(tx, app.id)
        apps.add_version(tx, replace(version, version_num=number), now=world.now)

    world.write(add)


def test_results_of_a_job_use_one_version_also_when_it_was_superseded(world: World):
    app = world.add_app(quorum=2, dispatch=AppDispatch(homogeneous_app_version=True))
    world.add_jobs(app)
    first, second = world.host(world.user("alice")), world.host(world.user("bob"))
    first.rpc(ask=1)
    add_version(world, app, 200)
    world.write(lambda tx: tx.execute("UPDATE app_version SET deprecated = 1 WHERE version_num = 100"))
    world.ctx.offers.invalidate()
    second.rpc(ask=1)
    assert world.query("SELECT DISTINCT app_version_id FROM result") == [(1,)]
    assert second.reply.path("app_version").get("version_num") == "100"


def test_jobs_of_a_version_that_is_not_sent_any_more_are_still_of_its_plan_class(world: World):
    (world.ctx.folder.root / "plan_classes.toml").write_text("[mt]\nmax_threads = 4\n")
    app = world.add_app()
    world.add_jobs(app)
    world.write(lambda tx: tx.execute("UPDATE app_version SET plan_class = 'mt'"))
    world.ctx.offers.invalidate()
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    world.write(lambda tx: apps.set_version_deprecated(tx, AppVersionId(1), True))
    world.now += 1000
    (name,) = host.held
    report = replace(host.finish(name, b"42"), final_cpu_time=400.0, final_elapsed_time=100.0)
    host.rpc(reports=[report])
    assert world.query("SELECT cpu_time, elapsed_time FROM result WHERE name = ?", name) == [(400.0, 100.0)]


def test_built_in_plan_classes_bring_the_version_for_the_card_that_a_computer_has(world: World):
    app = world.add_app(rules=PATIENT)
    world.add_jobs(app, n=8)
    [plain] = world.write(lambda tx: apps.list_versions(tx, app.id))
    for name in gpu_class_names("any", memory_bytes=4e9, share=0.5):
        version = replace(plain, plan_class=name)
        world.write(lambda tx, version=version: apps.add_version(tx, version, now=world.now))
    world.write(lambda tx: apps.set_version_deprecated(tx, plain.id, True))
    world.ctx.offers.invalidate()

    def sent(kind: str, ram: float) -> tuple[list[str], list[str]]:
        host = world.host(world.user(f"{kind.lower()}{ram:.0f}"))
        card = CoprocRequest(
            type=kind, name="Card", count=1, peak_flops=9e12, ram=ram, req_secs=100.0, req_instances=1.0
        )
        host.request = replace(host.request, coprocs=(card,))
        host.rpc(ask=0)
        return [each.get("plan_class") for each in host.reply.all("app_version")], host.new_results()

    classes, results = sent("ATI", 8e9)
    assert classes == ["gpu-amd-4000mb-50pct"]
    assert results
    assert sent("NVIDIA", 8e9)[0] == ["gpu-nvidia-4000mb-50pct"]
    assert sent("NVIDIA", 3e9) == ([], [])
    assert sent("apple_gpu", 8e9) == ([], [])


def test_a_gpu_s_jobs_begin_at_a_twentieth_of_its_peak_speed_and_are_known_from_the_third_on(world: World):
    app = world.add_app()
    world.add_jobs(app, n=4)
    world.write(lambda tx: tx.execute("UPDATE app_version SET plan_class = 'gpu-nvidia'"))
    world.ctx.offers.invalidate()
    host = world.host(world.user("alice"))
    card = CoprocRequest(
        type="NVIDIA", name="Card", peak_flops=1e13, ram=8e9, req_secs=1.0, req_instances=1.0
    )
    host.request = replace(host.request, coprocs=(card,))
    host.rpc(ask=0)
    told, job = host.reply.path("app_version"), host.reply.path("workunit")
    speed = float(told.get("flops"))
    assert speed == pytest.approx(0.05 * 1e13, rel=0.01)
    cpus = 10 + float(told.get("avg_ncpus"))
    cpu_flops = believed_speed(HostDescription(p_fpops=host.request.host_info.p_fpops), SpeedPopulation())
    limit = float(job.get("rsc_fpops_bound")) / speed
    assert limit == pytest.approx(JobLimits().rsc_fpops_bound / (cpus * cpu_flops))  # as long as on ten CPUs
    content = replace(card, req_secs=0.0, req_instances=0.0)
    for _ in range(2):
        (name,) = host.new_results()
        world.now += 1000
        host.rpc(reports=[host.finish(name, b"42", cpu_time=20 / 1.1)], coprocs=(content,))
        world.settle()
        world.now += 1000
        host.rpc()
    known = float(host.reply.path("app_version").get("flops"))
    assert known == pytest.approx(float(job.get("rsc_fpops_est")) / 20)


def test_versions_below_the_minimum_are_not_sent(world: World):
    app = world.add_app(dispatch=AppDispatch(min_version=150))
    world.add_jobs(app)
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    assert host.new_results() == []
    add_version(world, app, 150)
    host.rpc(ask=1)
    assert len(host.new_results()) == 1


def test_an_app_that_always_runs_has_one_job_on_every_computer(world: World):
    world.add_jobs(world.add_app("sensor", dispatch=AppDispatch(non_cpu_intensive=True)), n=5)
    host = world.host(world.user("alice"))
    host.rpc()
    (name,) = host.new_results()
    assert host.reply.path("app").has("non_cpu_intensive")
    host.rpc(ask=1e6)
    assert host.new_results() == []
    host.rpc(reports=[host.finish(name, b"42")])
    assert len(host.new_results()) == 1


def test_jobs_go_first_to_hosts_that_have_their_file(world: World):
    app = world.add_app(dispatch=AppDispatch(locality=True))
    for name in ("a", "b"):
        stored = world.store_file(name, name.encode())
        file = InputFile(name=stored.name, open_name="in", nbytes=1, md5=stored.md5, sticky=True)
        world.add_jobs(app, n=2, inputs=[file])
        last = stored.name
    host = world.host(world.user("alice"))
    host.rpc(ask=1, sticky_files=(StickyFile(name=last, nbytes=1, status=1),))
    assert [info.get("name") for info in host.reply.all("file_info") if info.get("name") == last] == [last]


# Targets


def test_a_job_for_one_host_user_or_team_is_sent_there_first_and_nowhere_else(world: World):
    app = world.add_app()
    world.add_jobs(app, n=20)
    alice, bob, carol = (world.host(world.user(name), p_ncpus=1) for name in ("alice", "bob", "carol"))
    for host in (alice, bob, carol):
        host.rpc()
    team = world.write(lambda tx: users.create_team(tx, "Team", UserId(3), now=world.now))
    wanted = {
        alice: world.add_jobs(app, target=Recipients(host_id=HostId(alice.id))),
        bob: world.add_jobs(app, target=Recipients(user_id=UserId(2))),
        carol: world.add_jobs(app, target=Recipients(team_id=TeamId(team.id))),
    }
    for host, batch in wanted.items():
        host.rpc(ask=1)
        assert host.new_results() == [f"demo_{batch.id}_0_0"]
    stranger = world.host(world.user("dave"))
    stranger.rpc(ask=1e7)
    assert all(name.startswith("demo_1_") for name in stranger.new_results())


def test_targeted_jobs_are_found_behind_more_jobs_than_memory_holds(world: World, monkeypatch):
    monkeypatch.setattr("cobblestone.store.work.candidates.PAGE", 5)
    monkeypatch.setattr("cobblestone.store.work.candidates.MAX_HELD", 10)
    app = world.add_app()
    world.add_jobs(app, n=40)
    host = world.host(world.user("alice"), p_ncpus=1)
    host.rpc()
    world.add_jobs(app, target=Recipients(host_id=HostId(host.id)))
    host.rpc(ask=1)
    assert host.new_results() == ["demo_2_0_0"]


def test_few_results_are_read_while_few_are_wanted(world: World, monkeypatch):
    monkeypatch.setattr("cobblestone.store.work.candidates.FIRST_PAGE", 4)
    monkeypatch.setattr("cobblestone.store.work.candidates.PAGE", 10)
    world.add_jobs(world.add_app(), n=60)
    host = world.host(world.user("alice"), p_ncpus=1)
    host.rpc()
    host.rpc(ask=1)
    assert len(host.new_results()) + len(world.ctx.candidates) == 4
    queue = CandidateQueue()

    def scan(tx: Transaction) -> tuple[list[int], list[ResultId]]:
        sizes, found = list[int](), list[ResultId]()
        for candidate in queue.scan(tx):
            if len(queue) not in sizes:
                sizes.append(len(queue))
            found.append(candidate.result_id)
        return sizes, found

    sizes, found = world.write(scan)
    assert sizes[:5] == [4, 8, 16, 26, 36]
    assert found == [
        row[0] for row in world.query("SELECT id FROM result WHERE server_state = 2 ORDER BY id")
    ]


def test_hosts_that_find_nothing_look_at_one_page_behind_the_head_and_leave_it_to_others(
    world: World, monkeypatch
):
    monkeypatch.setattr("cobblestone.store.work.candidates.FIRST_PAGE", 4)
    monkeypatch.setattr("cobblestone.store.work.candidates.PAGE", 4)
    monkeypatch.setattr("cobblestone.store.work.candidates.MAX_HELD", 8)
    world.add_jobs(world.add_app(), n=18)
    world.host(world.user("alice")).rpc()
    queue = CandidateQueue()

    def seen() -> list[ResultId]:
        return world.write(lambda tx: [each.result_id for each in queue.scan(tx)])

    head = list(range(1, 9))
    looks = [seen() for _ in range(5)]
    assert [look[:8] for look in looks] == [head] * 5
    assert [look[8:] for look in looks] == [
        [9, 10, 11, 12],
        [13, 14, 15, 16],
        [17, 18],
        [9, 10, 11, 12],
        [13, 14, 15, 16],
    ]
    queue.remove(ResultId(1))
    assert seen() == [*range(2, 13), 17, 18]


def test_where_a_host_found_a_job_behind_the_head_others_look_next(world: World, monkeypatch):
    monkeypatch.setattr("cobblestone.store.work.candidates.FIRST_PAGE", 4)
    monkeypatch.setattr("cobblestone.store.work.candidates.PAGE", 4)
    monkeypatch.setattr("cobblestone.store.work.candidates.MAX_HELD", 8)
    unwanted, wanted = world.add_app("unwanted"), world.add_app("wanted")
    hosts_ = [world.host(world.user(f"user{n}"), p_ncpus=1) for n in range(8)]
    for n, host in enumerate(hosts_, start=1):
        host.rpc()
        prefer(world, n, ProjectPreferences(selected_apps=frozenset({wanted.id})))
    world.add_jobs(unwanted, n=20)
    world.add_jobs(wanted, n=6, priority=-1)
    world.add_jobs(unwanted, n=20, priority=-2)
    found = list[int]()
    for host in hosts_:
        host.rpc(ask=1)
        found.append(len(host.new_results()))
    assert found == [0, 0, 0, 1, 1, 1, 1, 1]


def test_jobs_for_everybody_are_found_behind_many_for_one(world: World, monkeypatch):
    monkeypatch.setattr("cobblestone.store.work.candidates.FIRST_PAGE", 4)
    monkeypatch.setattr("cobblestone.store.work.candidates.PAGE", 4)
    monkeypatch.setattr("cobblestone.store.work.candidates.MAX_HELD", 8)
    app = world.add_app()
    alice, bob = (world.host(world.user(name), p_ncpus=1) for name in ("alice", "bob"))
    alice.rpc()
    bob.rpc()
    world.add_jobs(app, n=40, target=Recipients(host_id=HostId(alice.id)))
    batch = world.add_jobs(app)
    bob.rpc(ask=1)
    assert bob.new_results() == [f"demo_{batch.id}_0_0"]
    alice.rpc(ask=1)
    assert alice.new_results() == ["demo_1_0_0"]
    queue = CandidateQueue()
    assert world.write(lambda tx: len(list(queue.scan(tx)))) == 0
    row = world.write(lambda tx: hosts.host_by_id(tx, HostId(alice.id)))
    assert row is not None
    assert len(world.write(lambda tx: queue.targeted(tx, row, None))) == 39


# Fairness


def test_computers_are_divided_among_submitters_by_their_shares(make_world):
    world = make_world(scheduler={"max_jobs_per_day_init": 50})
    app = world.add_app()
    for name, share in (("one", 3.0), ("other", 1.0)):
        world.write(
            lambda tx, name=name, share=share: credentials.create_token(
                tx, name, name=name, scopes=[Scope.SUBMIT], rights=SubmitRights(share=share), now=world.now
            )
        )
    world.add_jobs(app, n=100, token_id=1)
    host = world.host(world.user("alice"), p_ncpus=1)
    held: list[str] = []
    for _ in range(10):
        host.rpc(ask=1)
        held += host.new_results()
    world.add_jobs(app, n=100, token_id=2)
    assert all(name.startswith("demo_1_") for name in held)
    later: list[str] = []
    for number in range(4):
        host = world.host(world.user(f"u{number}"), p_ncpus=1)
        for _ in range(10):
            host.rpc(ask=1)
            later += host.new_results()
    counts = Counter(name.split("_")[1] for name in later)
    assert 28 <= counts["1"] <= 32
    assert 8 <= counts["2"] <= 12


# Deadlines


def test_the_work_that_a_client_holds_counts_for_the_deadline(world: World):
    limits = JobLimits(rsc_fpops_est=2e9 * 3600, delay_bound=2 * 3600.0)
    world.add_jobs(world.add_app(limits=limits), n=4)
    host = world.host(world.user("alice"), p_ncpus=1)
    busy = tuple(
        InProgressResult(name=f"other{n}", report_deadline=world.now + 7200, time_remaining=6000.0)
        for n in range(1)
    )
    host.rpc(ask=1, in_progress_results=busy, cpu_estimated_delay=60.0)
    assert host.new_results() == []
    assert any("already holds" in text for text in host.messages())
    host.rpc(ask=1, cpu_estimated_delay=60.0)
    assert len(host.new_results()) == 1


# Adaptive replication


def test_jobs_of_a_new_host_are_checked_and_those_of_a_trusted_one_seldom(world: World):
    app = world.add_app(quorum=2, dispatch=AppDispatch(adaptive=True))
    world.add_jobs(app, n=3)
    assert world.query("SELECT DISTINCT min_quorum FROM workunit") == [(1,)]
    alice, bob = (world.host(world.user(name), p_ncpus=1) for name in ("alice", "bob"))
    alice.rpc(ask=1)
    world.settle()
    assert world.query("SELECT min_quorum, target_nresults FROM workunit WHERE id = 1") == [(2, 2)]
    assert world.value("SELECT COUNT(*) FROM result WHERE workunit_id = 1") == 2
    bob.rpc(ask=1)
    for host in (alice, bob):
        (name,) = host.new_results()
        assert name.startswith("demo_1_0_")
        host.rpc(reports=[host.finish(name, b"same")])
    world.settle()
    assert world.query("SELECT DISTINCT consecutive_valid FROM host_app_version") == [(1,)]
    world.write(
        lambda tx: tx.execute("UPDATE host_app_version SET consecutive_valid = 1000000 WHERE host_id = 1")
    )
    alice.rpc(ask=1)
    (name,) = alice.new_results()
    alice.rpc(reports=[alice.finish(name, b"alone")])
    world.settle()
    unchecked = world.query("SELECT canonical_result_id IS NOT NULL, min_quorum FROM workunit WHERE id = 2")
    assert unchecked == [(1, 1)]
    valid = world.value("SELECT consecutive_valid FROM host_app_version WHERE host_id = 1")
    assert valid == 1_000_000  # what nobody checked proves nothing


def test_whether_a_job_is_checked_is_not_shown_while_it_runs(world: World):
    world.add_jobs(world.add_app(quorum=2, dispatch=AppDispatch(adaptive=True)))
    alice, bob = (world.host(world.user(name), p_ncpus=1) for name in ("alice", "bob"))
    alice.rpc(ask=1)
    world.settle()
    assert world.value("SELECT min_quorum FROM workunit") == 2
    running = world.get("/workunit.php?wuid=1").text
    assert "shown when it is finished" in running
    assert "_0_1" not in running
    assert "must agree" not in running
    (name,) = alice.new_results()
    alice.rpc(reports=[alice.finish(name, b"same")])
    world.settle()
    assert "must agree" not in world.get("/result.php?resultid=1").text
    bob.rpc(ask=1)
    (name,) = bob.new_results()
    bob.rpc(reports=[bob.finish(name, b"same")])
    world.settle()
    finished = world.get("/workunit.php?wuid=1").text
    assert "must agree" in finished
    assert "_0_1" in finished


# Hosts that failed lately


def test_a_host_that_failed_is_checked_by_someone_else_under_a_quorum_of_one(world: World):
    world.add_jobs(world.add_app(), n=5)
    alice, bob = (world.host(world.user(name), p_ncpus=1) for name in ("alice", "bob"))
    for host in (alice, bob):  # two people whose computers returned valid work
        host.rpc(ask=1)
        (name,) = host.new_results()
        host.rpc(reports=[host.finish(name, b"right")])
    world.settle()
    world.write(lambda tx: tx.wake(apps.CATALOGUE_CHANGED))
    alice.rpc(ask=1)
    (broken,) = alice.new_results()
    alice.rpc(reports=[failed(broken)])
    world.settle()
    assert world.value("SELECT error_rate FROM host_app_version WHERE host_id = 1") > 0.1
    alice.rpc(ask=1)
    (name,) = alice.new_results()
    workunit = world.value("SELECT workunit_id FROM result WHERE name = ?", name)
    assert world.query("SELECT min_quorum, target_nresults FROM workunit WHERE id = ?", workunit) == [(2, 2)]
    alice.rpc(reports=[alice.finish(name, b"right")])
    world.settle()
    assert world.value("SELECT canonical_result_id FROM workunit WHERE id = ?", workunit) is None
    bob.rpc(ask=1e6)
    checks = bob.new_results()
    bob.rpc(reports=[bob.finish(each, b"right") for each in checks])
    world.settle()
    assert world.value("SELECT canonical_result_id FROM workunit WHERE id = ?", workunit) is not None
    bobs = "SELECT w.min_quorum FROM result r JOIN workunit w ON w.id = r.workunit_id WHERE r.name = ?"
    alone = [world.value(bobs, each) for each in checks if not each.startswith(name[:-1])]
    assert alone
    assert set(alone) == {1}  # he did not fail


# Bad hosts


def run_bad_host(world: World, host: SimHost, days: int, end, *, ask: float = 1e7) -> int:
    """A host that asks every three hours and spoils what it gets; how many jobs it had."""
    sent = 0
    for _ in range(days * 8):
        host.rpc(ask=ask)
        names = host.new_results()
        sent += len(names)
        if names:
            end(host, names)
            world.settle()
        world.now += 3 * 3600
    return sent


def test_what_a_crashing_host_wastes_in_a_month_is_bounded_by_the_number_stated(make_world):
    world = make_world(scheduler={"max_jobs_per_day_init": 3})
    world.add_jobs(world.add_app(rules=PATIENT), n=400)
    host = world.host(world.user("broken"), p_ncpus=4)
    sent = run_bad_host(
        world, host, 30, lambda host, names: host.rpc(reports=[failed(each) for each in names])
    )
    bound = wasted_at_most(first=3, processors=4, daily_quota=500, days=30)
    assert 12 < sent <= bound
    assert bound == 12 + 8 + 6
    host.rpc(ask=1)
    notices = [each for each in host.reply.all("message") if "notice" in each.attributes]
    assert any("failed tasks" in each.text for each in notices)


def test_a_new_computer_is_seen_to_fail_before_it_has_had_many_tasks_and_is_told_how_many_failed(
    world: World,
):
    world.add_jobs(world.add_app(rules=PATIENT), n=200)
    host = world.host(world.user("broken"), p_ncpus=4)
    host.rpc(ask=1e7)
    names = host.new_results()
    assert len(names) == 4
    sent = 0
    while names:
        sent += len(names)
        host.rpc(reports=[failed(each) for each in names], ask=1e7)
        names = host.new_results()
    assert sent == 8  # their halvings
    assert any(f"{sent} tasks of demo failed on this computer" in text for text in host.messages())


def test_the_number_of_failed_tasks_in_a_message_is_counted(make_world):
    world = make_world(scheduler={"max_jobs_per_day_init": 20})
    world.add_jobs(world.add_app(rules=PATIENT), n=200)
    host = world.host(world.user("broken"), p_ncpus=4)
    host.rpc(ask=1e7)
    names = host.new_results()
    assert len(names) == 80
    host.rpc(reports=[failed(each) for each in names], ask=1e7)
    assert any("80 tasks of demo failed on this computer" in text for text in host.messages())
    offer = world.write(world.ctx.offers.get)
    found = world.ctx.store.read(lambda db: explain_host(db, offer, HostId(1), now=world.now))
    for why in (*found.reasons, *found.status.problems):
        assert why.text().startswith("80 tasks of demo failed")


def test_the_log_says_once_that_a_version_fails_and_a_computer_is_put_back(world: World):
    world.add_jobs(world.add_app(rules=PATIENT), n=200)
    host = world.host(world.user("broken"), p_ncpus=4)
    with capture_logs() as logged:
        host.rpc(ask=1e7)
        while names := host.new_results():
            host.rpc(reports=[failed(each) for each in names], ask=1e7)
    told = [each for each in logged if each["event"] in ("tasks_fail", "host_put_back")]
    assert [(each["event"], each["log_level"], each["host"]) for each in told] == [
        ("tasks_fail", "info", 1),
        ("host_put_back", "info", 1),
    ]


def test_what_the_log_has_said_takes_no_memory_without_end(world: World):
    world.ctx.said.update({f"old {number}": world.now for number in range(1000)})
    world.add_jobs(world.add_app(rules=PATIENT))
    host = world.host(world.user("broken"))
    host.rpc(ask=1)
    host.rpc(reports=[failed(name) for name in host.new_results()])
    assert 0 < len(world.ctx.said) < 10


def test_nobody_is_asked_to_wait_for_more_than_two_days(make_world):
    world = make_world(scheduler={"min_sendwork_interval": 1e6})
    world.add_jobs(world.add_app())
    assert float(world.host(world.user("alice")).rpc(ask=1).get("request_delay")) == 172_800


def test_a_new_computer_holds_more_with_each_task_that_is_done(world: World):
    world.add_jobs(world.add_app(quorum=2), n=300)
    host = world.host(world.user("alice"), p_ncpus=2)
    held: list[str] = []
    for most in (2, 8, 32, 32):
        host.rpc(ask=1e7)
        held += host.new_results()
        assert len(held) == most
        host.rpc(reports=[host.finish(held.pop(), b"right")])
        world.settle()


def test_a_host_with_wrong_answers_is_throttled_like_one_that_crashes(make_world):
    world = make_world(scheduler={"max_jobs_per_day_init": 4})
    world.add_jobs(world.add_app(quorum=2), n=60)
    bad = world.host(world.user("wrong"), p_ncpus=1)
    good = [world.host(world.user(name), p_ncpus=8) for name in ("alice", "bob")]
    rng = random.Random(1)
    sent: list[int] = []
    for _ in range(24 * 4):
        bad.rpc(ask=1e7)
        names = bad.new_results()
        sent.append(len(names))
        bad.rpc(reports=[bad.finish(name, rng.randbytes(8)) for name in names])
        for host in good:
            host.rpc(ask=20_000)
            host.rpc(reports=[host.finish(name, b"right") for name in host.new_results()])
        world.settle()
        world.now += 3600
    assert world.value("SELECT bad_results FROM host_app_version WHERE host_id = 1") >= 8
    assert (
        sum(sent[:24]) <= 2 * 4 * 4
    )  # four times the first quota a day: two of its days may touch these 24 hours
    assert sum(sent[24:]) <= 3
    assert world.query("SELECT DISTINCT bad_results FROM host_app_version WHERE host_id > 1") == [(0,)]


def test_the_owner_of_a_failing_computer_gets_a_mail_a_week_unless_it_is_not_wanted(make_world):
    world = make_world(scheduler={"max_jobs_per_day_init": 2})
    world.add_jobs(world.add_app(rules=PATIENT), n=200)
    for name in ("alice", "quiet", "jana"):
        user = world.user(name)
        if name == "quiet":
            world.write(lambda tx: tx.execute("UPDATE user_account SET send_email = 0 WHERE id = 2"))
        if name == "jana":
            world.write(lambda tx: tx.execute("UPDATE user_account SET language = 'sk' WHERE id = 3"))
        host = world.host(user, p_ncpus=2)
        run_bad_host(world, host, 6, lambda host, names: host.rpc(reports=[failed(each) for each in names]))
    (recipient, subject, body), of_jana = world.query("SELECT recipient, subject, body FROM mail")
    assert recipient == "alice@example.org"
    assert "your computer 1 fails" in subject
    assert "Look at the failed tasks" in body
    assert "váš počítač 3 zlyháva" in of_jana[1]
    assert "Pozrite si neúspešné úlohy" in of_jana[2]


def test_a_host_that_never_reports_holds_no_more_than_a_new_one_may(make_world):
    world = make_world(scheduler={"max_jobs_per_day_init": 2})
    limits = JobLimits(rsc_fpops_est=1e12, delay_bound=5 * 86400.0)
    world.add_jobs(world.add_app(limits=limits, rules=PATIENT), n=300)
    host = world.host(world.user("silent"), p_ncpus=4)
    sent = run_bad_host(world, host, 20, lambda host, names: None)
    assert sent <= wasted_at_most(first=2, processors=4, daily_quota=500, days=20)


def test_a_repaired_host_is_back_within_a_few_jobs(make_world):
    world = make_world(scheduler={"max_jobs_per_day_init": 2})
    world.add_jobs(world.add_app(rules=PATIENT), n=200)
    host = world.host(world.user("alice"), p_ncpus=2)
    run_bad_host(world, host, 6, lambda host, names: host.rpc(reports=[failed(each) for each in names]))
    world.now += 9 * 86400  # the longest pause
    done = 0
    for _ in range(12):
        host.rpc(ask=1e7)
        names = host.new_results()
        host.rpc(reports=[host.finish(name, b"right") for name in names])
        world.settle()
        done += len(names)
    assert done >= 60


def test_a_host_without_python_gets_no_more_such_tasks_until_its_errors_are_reset(world: World):
    world.add_jobs(world.add_app(rules=PATIENT), n=30)
    host = world.host(world.user("alice"), p_ncpus=1)
    host.rpc(ask=1)
    host.rpc(reports=[failed(host.new_results()[0], exit_status=195)], ask=1e6)
    assert host.new_results() == []
    assert any("needs Python" in text for text in host.messages())
    world.now += 86400
    host.rpc(ask=1e6)
    assert host.new_results() == []
    from cobblestone.store.people import hosts

    world.write(lambda tx: hosts.reset_errors(tx, HostId(host.id), now=world.now))
    host.rpc(ask=1)
    assert len(host.new_results()) == 1


# Retries


def test_a_retry_is_kept_for_reliable_hosts_for_the_time_set(make_world):
    world = make_world(scheduler={"retries_to_reliable_hosts": 3600})
    world.add_jobs(world.add_app(rules=PATIENT))
    first, other = world.host(world.user("alice")), world.host(world.user("bob"))
    first.rpc(ask=1)
    first.rpc(reports=[failed(first.new_results()[0])])
    world.settle()
    other.rpc(ask=1)
    assert other.new_results() == []
    assert any("reserved for a while" in text for text in other.messages())
    world.now += 3601
    other.rpc(ask=1)
    assert len(other.new_results()) == 1


# Explanations


def test_a_host_is_told_the_truth_about_what_it_would_get(world: World):
    app = world.add_app(quorum=2)
    world.add_jobs(app)
    host = world.host(world.user("alice"))
    host.rpc()
    read = world.ctx.store.read
    offer = world.write(world.ctx.offers.get)
    found = read(lambda db: explain_host(db, offer, host.id, now=world.now))
    assert found.would_get == "demo_1_0_0"
    assert world.value("SELECT COUNT(*) FROM result WHERE server_state = 4") == 0
    host.rpc(ask=1)
    found = read(lambda db: explain_host(db, offer, host.id, now=world.now))
    assert [each.code for each in found.reasons] == ["already_at_user"]
    assert found.in_progress == 1
    host.rpc(ask=1)
    assert found.reasons[0].text() in host.messages()  # the client hears the same


def test_a_waiting_workunit_says_how_many_computers_could_take_it(world: World):
    app = world.add_app(quorum=2, limits=JobLimits(rsc_memory_bound=8e9))
    world.add_jobs(app)
    small, large = world.host(world.user("alice"), m_nbytes=1e9), world.host(world.user("bob"))
    small.rpc(ask=1)
    large.rpc(ask=1)
    offer = world.write(world.ctx.offers.get)
    found = world.ctx.store.read(lambda db: explain_workunit(world.ctx, db, offer, "1", now=world.now))
    assert (found.takers, found.tried) == (0, 2)
    texts = [each.text for each in found.reasons]
    assert any("less memory for the client than the job needs (8000 MB)" in text for text in texts)
    assert any("0 of the 2 computers" in text for text in texts)
    told = world.ctx.store.read(
        lambda db: explain_result(world.ctx, db, offer, large.new_results()[0], now=world.now)
    )
    assert any("Host 2" in each.text for each in told.reasons)


@pytest.mark.parametrize(("quorum", "said"), [(1, "One good one is enough."), (2, "2 must agree.")])
def test_a_job_on_a_computer_says_what_it_waits_for_also_when_its_deadline_has_passed(
    world: World, quorum: int, said: str
):
    world.add_jobs(world.add_app(quorum=quorum))
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    offer = world.write(world.ctx.offers.get)

    def texts() -> list[str]:
        (name,) = host.held
        of_result = world.ctx.store.read(lambda db: explain_result(world.ctx, db, offer, name, now=world.now))
        of_job = world.ctx.store.read(lambda db: explain_workunit(world.ctx, db, offer, "1", now=world.now))
        return [each.text for each in (*of_job.reasons, *of_result.reasons)]

    assert any(text.endswith(said) for text in texts())
    assert any("It is due in 168.0 h" in text for text in texts())
    world.now += 170 * 3600
    assert any("It was due 2.0 h ago; another computer will get the work soon." in text for text in texts())


@pytest.mark.parametrize("path", ["hosts/99", "workunits/nothing", "results/nothing"])
def test_what_is_not_there_cannot_be_explained(world: World, path: str):
    secret = credentials.new_secret()
    world.write(lambda tx: credentials.create_token(tx, secret, name="x", scopes=[Scope.READ], now=world.now))
    reply = world.get(f"/api/v1/explain/{path}", headers={"Authorization": f"Bearer {secret}"})
    assert reply.status_code == 404
    assert "There is no" in reply.text


@pytest.mark.of_sqlite
def test_whether_an_owner_was_told_is_known_without_reading_the_mails(world: World):
    world.host(world.user("alice")).rpc()
    world.write(
        lambda tx: tx.execute_many(
            "INSERT INTO mail (create_time, recipient, subject, sent_time) VALUES (?, 'x', 'y', 1.0)",
            [(world.now,)] * 3000,
        )
    )
    problems = [reason("x", "It fails.")]

    def told() -> tuple[int, int]:
        """Hundreds of steps that it took, and how many mails there are for Alice."""
        ticks: list[int] = []

        def tell(tx: Transaction) -> None:
            user, host = users.user_by_id(tx, UserId(1)), hosts.host_by_id(tx, HostId(1))
            assert user is not None
            assert host is not None
            connection: Any = tx._connection  # SQLite's own, below the layer
            connection.set_progress_handler(lambda: bool(ticks.append(1)), 100)
            reports.tell_owner(tx, world.ctx, user, host, problems, now=world.now)
            connection.set_progress_handler(None, 0)

        world.write(tell)
        return len(ticks), world.value("SELECT count(*) FROM mail WHERE recipient LIKE 'alice%'")

    assert told()[1] == 1
    steps, mails = told()
    assert (steps < 5, mails) == (True, 1)
    world.now += 8 * 86400
    assert told()[1] == 2
