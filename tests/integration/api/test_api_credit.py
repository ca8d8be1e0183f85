"""Credit through the API: systems, options of apps, explanations, audit, corrections."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World, succeeded

from cobblestone.domain.people import Scope
from cobblestone.domain.work import OutputSpec
from cobblestone.store.catalog import apps


def a_granted_result(world: World) -> str:
    app = world.add_app(outputs=(OutputSpec(open_name="out", optional=True),))
    world.write(lambda tx: apps.update_app(tx, replace(app, credit_system="benchmark")))
    world.add_jobs(app)
    host = world.host(world.user("alice"), p_fpops=4.32e9)
    host.rpc(ask=1)
    world.now += 2000
    name = next(iter(host.held))
    host.rpc(reports=[replace(succeeded(name), final_cpu_time=1000.0)])
    world.settle()
    return name


def test_all_systems_are_listed_with_what_they_are(world: World):
    found = {each["name"]: each["summary"] for each in ApiClient(world).get("/credit/systems")["systems"]}
    assert {"benchmark", "creditnew-deployed", "creditnew-designed", "fixed", "after-assimilation"} <= set(
        found
    )
    assert all(found.values())


def test_an_app_is_made_and_changed_with_its_credit_options(world: World):
    api = ApiClient(world)
    made = api.post(
        "/apps", {"name": "a", "outputs": [{"name": "out"}], "credit": {"system": "fixed", "per_job": 5}}
    )
    assert made["credit"]["system"] == "fixed"
    changed = api.patch("/apps/a", {"credit": {"system": "creditnew-deployed", "host_scale_check": True}})
    assert changed["credit"] == {
        "system": "creditnew-deployed",
        "per_job": 5.0,
        "host_scale_check": True,
        "partial": False,
        "per_cpu_second": 0.0,
        "function": "",
    }
    assert api.get("/apps/a") == changed


def test_an_unknown_system_is_refused_with_the_list(world: World):
    api = ApiClient(world)
    body = {"name": "a", "outputs": [{"name": "out"}], "credit": {"system": "gold"}}
    answer = api.call("POST", "/apps", body)
    assert 400 <= answer.status_code < 500
    message = answer.json()["error"]["message"]
    assert "gold" in message
    assert "creditnew-deployed" in message


def test_an_explanation_holds_entry_reasons_and_facts(world: World):
    name = a_granted_result(world)
    api = ApiClient(world)
    found = api.get(f"/credit/results/{name}")
    assert found["granted"] == pytest.approx(10.0)
    (entry,) = found["entries"]
    assert entry["facts"]["result"]["cpu_time"] == 1000.0
    assert entry["facts"]["result"]["p_fpops"] == 4.32e9
    assert "whetstone_x_cpu_time" in [each["code"] for each in entry["reasons"]]
    assert api.get(f"/credit/results/{found['result_id']}") == found
    api.problem(404, "GET", "/credit/results/nothing")
    api.problem(404, "GET", "/credit/results/999")


def test_a_correction_needs_the_right_scope_and_is_made_once(world: World):
    name = a_granted_result(world)
    api = ApiClient(world)
    body = {"result": name, "amount": -4.0, "reason": "forged benchmark"}
    ApiClient(world, [Scope.READ]).problem(403, "POST", "/credit/corrections", body)
    headers = {"Idempotency-Key": "k"}
    first = api.post("/credit/corrections", body, headers=headers)
    assert api.post("/credit/corrections", body, headers=headers) == first
    assert first["kind"] == "correction"
    assert "forged benchmark" in first["reasons"][0]["text"]
    assert world.value("SELECT total_credit FROM user_account") == pytest.approx(6.0)
    api.problem(409, "POST", "/credit/corrections", {**body, "amount": -7.0})
    api.problem(404, "POST", "/credit/corrections", {**body, "result": "nothing"})
    audit = api.get("/credit/audit")
    assert (audit["agrees"], audit["entries"], audit["corrections"]) == (True, 2, 1)


def test_the_audit_lists_rows_that_differ(world: World):
    a_granted_result(world)
    world.write(lambda tx: tx.execute("UPDATE user_account SET total_credit = 11"))
    audit = ApiClient(world).get("/credit/audit")
    assert audit["agrees"] is False
    assert [(each["table"], each["figure"], each["stored"]) for each in audit["differences"]] == [
        ("user_account", "total", 11.0)
    ]
