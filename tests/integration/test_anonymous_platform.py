"""Anonymous platform: clients that bring their own app versions get jobs, no files, and credit by the rules for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.project_world import PLATFORM, SimHost, World, succeeded

from cobblestone.domain.apps import App, AppDispatch
from cobblestone.domain.work import JobLimits, OutputSpec
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.store.catalog import apps
from cobblestone.store.credit import ledger
from cobblestone.wire.scheduler.host import CoprocRequest
from cobblestone.wire.scheduler.request import ClientAppVersion

E = 1e12
OWN = ClientAppVersion(app_name="demo", version_num=317, platform=PLATFORM, avg_ncpus=1.0, flops=6e9)


def an_app(world: World, system: str = "creditnew-deployed") -> App:
    app = world.add_app(
        outputs=(OutputSpec(open_name="out", optional=True),),
        limits=JobLimits(rsc_fpops_est=E, rsc_fpops_bound=1e14),
        dispatch=AppDispatch(max_jobs_per_day_init=20),
    )
    return world.write(lambda tx: apps.update_app(tx, replace(app, credit_system=system)))


def an_own_host(world: World, *versions: ClientAppVersion, name: str = "alice", **info: Any) -> SimHost:
    host = world.host(world.user(name), p_fpops=3e9, **info)
    host.request = replace(host.request, platforms=("anonymous", PLATFORM), app_versions=versions or (OWN,))
    return host


def compute(world: World, host: SimHost, *, elapsed: float = 400.0) -> str:
    name = next(iter(host.held))
    host.rpc(reports=[replace(succeeded(name), final_elapsed_time=elapsed, final_cpu_time=elapsed)])
    world.settle()
    return name


def test_jobs_for_the_clients_own_version_come_without_files_and_name_it(world: World):
    app = an_app(world)
    world.add_jobs(app)
    host = an_own_host(world)
    reply = host.rpc(ask=1)
    result = reply.all("result")[0]
    assert (result.get("version_num"), result.get("platform")) == ("317", PLATFORM)
    assert reply.all("app_version") == []
    assert all("demo.sh" not in info.get("name") for info in reply.all("file_info"))
    assert world.value("SELECT app_version_id FROM result") == app.id * 1_000_000 + 2
    assert world.value("SELECT peak_flops FROM result") == 3e9


def test_a_client_hears_once_a_day_what_its_app_info_lacks(world: World):
    an_app(world)
    world.add_app("second")
    own = [
        replace(OWN, app_name="dmo"),
        replace(OWN, version_num=50),
        replace(OWN, platform="windows_x86_64"),
    ]
    world.write(lambda tx: tx.execute("UPDATE app_version SET version_num = 200"))
    host = an_own_host(world, *own)
    host.rpc()
    said = " | ".join(text for text in host.messages() if "app_info.xml" in text)
    assert "names the application dmo, which this project does not have. It has: demo, second." in said
    assert "does not list second" in said
    assert "has version 50 of demo, and the project has 200, with the files demo.sh." in said
    assert "has demo for the platform windows_x86_64, and this client runs x86_64-pc-linux-gnu." in said
    world.now += 600
    host.rpc()
    assert not any("app_info.xml" in text for text in host.messages()), "once a day"
    world.now += 86_400
    host.rpc()
    assert any("app_info.xml" in text for text in host.messages())


def test_a_client_whose_app_info_is_right_hears_nothing(world: World):
    an_app(world)
    host = an_own_host(world)
    host.rpc()
    assert host.messages() == []


def test_the_jobs_operations_are_scaled_so_that_the_clients_estimate_comes_out_right(world: World):
    app = an_app(world)
    world.add_jobs(app, n=13)
    host = an_own_host(world)
    first = host.rpc(ask=1e6)
    assert float(first.all("workunit")[0].get("rsc_fpops_est")) == E
    for _ in range(12):
        world.now += 500
        compute(world, host)
    host.held.clear()
    world.add_jobs(app)
    last = host.rpc(ask=1e6).all("workunit")[-1]
    # 400 s measured: at the client's 6e9 per second that is 2.4e12 operations
    assert float(last.get("rsc_fpops_est")) / 6e9 == pytest.approx(400.0)
    assert float(last.get("rsc_fpops_bound")) == pytest.approx(1e14 * 2.4)


def test_credit_follows_the_rules_for_the_anonymous_platform(world: World):
    app = an_app(world)
    world.write(lambda tx: tx.execute("UPDATE app SET min_avg_pfc = 0.8"))
    world.add_jobs(app, n=12)
    host = an_own_host(world)
    host.rpc(ask=1e6)
    for _ in range(12):
        world.now += 5000
        compute(world, host, elapsed=4000.0)
    entries = world.ctx.store.read(lambda db: list(ledger.ledger(db)))
    estimate = E * 0.8 / 432e9
    assert [line.granted for line in entries[:10]] == pytest.approx([estimate] * 10)
    assert "anonymous_estimate" in {each["code"] for each in entries[0].reasons}
    # from ten samples on: raw x the app's mean / the host's own mean; this host is even, so the same comes out
    assert entries[11].granted == pytest.approx(estimate)
    assert "anonymous_scaled" in {each["code"] for each in entries[11].reasons}
    assert {line.app_version_id for line in entries} == {app.id * 1_000_000 + 2}
    assert world.value("SELECT pfc_n FROM host_app_version") == 12
    assert world.query("SELECT pfc_n, total_credit FROM app_version") == [(0, 0.0)]
    assert world.value("SELECT total_credit FROM host") == pytest.approx(12 * estimate)
    assert world.ctx.store.read(recompute).differences == []


def test_by_the_design_an_anonymous_job_gets_the_apps_average(world: World):
    app = an_app(world, "creditnew-designed")
    world.add_jobs(app)
    host = an_own_host(world)
    host.rpc(ask=1)
    world.now += 9000
    compute(world, host, elapsed=8000.0)
    assert world.value("SELECT granted FROM credit_entry") == pytest.approx(E / 432e9)


def test_a_gpu_version_has_an_id_and_a_peak_of_its_own(world: World):
    app = an_app(world)
    world.add_jobs(app)
    own = replace(OWN, plan_class="cuda", coproc_type="CUDA", coproc_count=1.0, avg_ncpus=0.5)
    host = an_own_host(world, own)
    host.request = replace(
        host.request,
        coprocs=(
            CoprocRequest(
                type="NVIDIA", count=1, name="Card", peak_flops=9e12, req_secs=1.0, req_instances=1.0
            ),
        ),
    )
    host.rpc(ask=0)
    assert world.value("SELECT app_version_id FROM result") == app.id * 1_000_000 + 3
    assert world.value("SELECT peak_flops FROM result") == pytest.approx(9e12 + 1.5e9)


def test_a_client_without_a_version_of_any_app_is_told_so(world: World):
    world.add_jobs(an_app(world))
    host = an_own_host(world, replace(OWN, app_name="other"))
    host.rpc(ask=1)
    assert host.new_results() == []
    assert any("app_info.xml" in text for text in host.messages()), host.messages()


def test_a_lost_job_is_sent_again_for_the_own_version(world: World):
    world.add_jobs(an_app(world))
    host = an_own_host(world)
    host.rpc(ask=1)
    lost = list(host.held)
    host.held.clear()
    reply = host.rpc(ask=1)
    assert host.new_results() == lost
    assert reply.all("app_version") == []
