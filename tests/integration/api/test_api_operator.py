"""What operators do by hand, over the API; each action is in the audit log."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World, failed

from cobblestone.domain.apps import AppFile, AppVersion
from cobblestone.domain.people import Scope
from cobblestone.domain.values import AppId, AppVersionId
from cobblestone.domain.work import ReplicationRules
from cobblestone.policy.dispatch.rollout import in_rollout
from cobblestone.server.operation.rollout import advance_rollouts
from cobblestone.store.catalog import apps


def audit(world: World) -> list[tuple[str, str]]:
    return world.query("SELECT action, target FROM audit_entry ORDER BY id")


def new_version(world: World) -> int:
    """A second version of the app with id 1."""
    old = world.ctx.store.read(lambda db: apps.list_versions(db, AppId(1), deprecated=True))[0]
    file = replace(old.files[0])
    assert isinstance(file, AppFile)
    version = AppVersion(
        id=AppVersionId(0), app_id=old.app_id, platform=old.platform, version_num=0, files=(file,)
    )
    return world.write(lambda tx: apps.add_version(tx, version, now=world.now)).id


def test_a_cancelled_batch_counts_its_jobs_at_once(world: World, api: ApiClient):
    world.add_jobs(world.add_app(), n=3)
    world.settle()
    reply = api.post("/batches/1/cancel")
    assert (reply["state"], reply["failed"], reply["running"]) == ("cancelled", 3, 0)
    world.settle()
    assert api.get("/batches/1")["failed"] == 3
    assert audit(world) == [("cancel batch", "batch 1")]
    assert world.query("SELECT before, after FROM audit_entry") == [
        ('{"state":"IN_PROGRESS"}', '{"state":"ABORTED"}')
    ]


def test_failed_jobs_of_a_batch_are_tried_anew_as_a_batch_of_their_own(world: World, api: ApiClient):
    app = world.add_app(rules=ReplicationRules(max_error_results=1, max_total_results=2))
    world.add_jobs(app, n=2)
    world.settle()
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6)
    names = sorted(host.held)
    host.rpc(reports=[failed(names[0]), host.finish(names[1], b"good")])
    world.settle()
    for _ in range(3):
        other = world.host(world.user(f"u{world.now}"))
        world.now += 1
        other.rpc(ask=1e6)
        other.rpc(reports=[failed(name) for name in sorted(other.held)])
        world.settle()
    assert api.get("/batches/1")["failed"] == 1
    reply = api.post("/batches/1/retry")
    assert (reply["id"], reply["njobs"], reply["name"], reply["state"]) == (2, 1, "retry of batch", "running")
    world.settle()
    assert world.value("SELECT COUNT(*) FROM result WHERE server_state = 2") == 1
    assert ("retry batch", "batch 1") in audit(world)
    assert api.problem(409, "POST", "/batches/2/retry")["message"].startswith(
        "Batch 2 has no closed failed jobs"
    )


def test_a_workunit_is_cancelled_and_tried_again(world: World, api: ApiClient):
    world.add_jobs(world.add_app(), n=1)
    world.settle()
    assert api.post("/workunits/1/retry") == {"target": "workunit 1", "new_batch": None}
    assert api.post("/workunits/1/cancel")["text"] == "cancelled"
    world.settle()
    assert "already finished" in api.problem(409, "POST", "/workunits/1/cancel")["message"]
    assert api.post("/workunits/1/retry")["new_batch"] == 2
    api.problem(404, "POST", "/workunits/77/retry")
    assert [action for action, _ in audit(world)] == ["retry workunit", "cancel workunit", "retry workunit"]


def test_a_workunit_that_failed_too_often_gets_another_chance(world: World, api: ApiClient):
    app = world.add_app(rules=ReplicationRules(max_error_results=3, max_total_results=3))
    world.add_jobs(app)
    world.settle()
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6)
    host.rpc(reports=[failed(name) for name in sorted(host.held)])
    world.settle()
    api.post("/workunits/1/retry")
    assert world.query("SELECT max_error_results, max_total_results FROM workunit") == [(4, 4)]


def test_a_blocked_host_or_user_gets_no_work_and_reads_why(world: World, api: ApiClient):
    world.add_jobs(world.add_app(), n=5)
    world.settle()
    key = world.user("ada")
    host = world.host(key)
    host.rpc()
    api.call("PUT", "/hosts/1/block", {"reason": "It returns rubbish: check its memory"}).raise_for_status()
    host.rpc(ask=1e6)
    assert any("It returns rubbish: check its memory" in text for text in host.messages())
    assert host.held == {}
    api.call("DELETE", "/hosts/1/block").raise_for_status()
    user_id = world.value("SELECT id FROM user_account")
    api.call("PUT", f"/users/{user_id}/block", {"reason": "Ask us by mail"}).raise_for_status()
    host.rpc(ask=1e6)
    assert any("Ask us by mail" in text for text in host.messages())
    assert host.held == {}
    api.call("DELETE", f"/users/{user_id}/block").raise_for_status()
    host.rpc(ask=1e6)
    assert host.held
    assert [action for action, _ in audit(world)] == [
        "block host",
        "unblock host",
        "block user",
        "unblock user",
    ]
    assert api.problem(422, "PUT", "/hosts/1/block", {"reason": "x"})["code"] == "bad_body"
    api.problem(404, "PUT", "/hosts/99/block", {"reason": "nobody"})


def test_roles_are_set_and_noted(world: World, api: ApiClient):
    world.user("ada")
    user_id = world.value("SELECT id FROM user_account")
    api.call("PUT", f"/users/{user_id}/role", {"role": "operator"}).raise_for_status()
    assert world.value("SELECT role FROM user_account") == "operator"
    assert "no role" in api.problem(409, "PUT", f"/users/{user_id}/role", {"role": "emperor"})["message"]
    assert world.query("SELECT before, after FROM audit_entry") == [('{"role":""}', '{"role":"operator"}')]


def test_a_new_password_works_and_the_old_key_does_not(world: World, api: ApiClient):
    key = world.user("ada")
    reply = api.post("/users/1/password")
    assert len(reply["password"]) >= 12
    assert world.value("SELECT authenticator FROM user_account") != key
    assert reply["password"] not in str(world.query("SELECT before, after FROM audit_entry"))


def test_a_rollout_reaches_its_part_of_the_hosts_and_is_held_by_its_gate(world: World, api: ApiClient):
    world.add_jobs(world.add_app(), n=200)
    world.settle()
    version = new_version(world)
    reply = api.post(f"/versions/{version}/rollout", {"stages": [0.3, 1], "min_results": 3, "min_hours": 0})
    assert (reply["fraction"], reply["state"], reply["stage"]) == (0.3, "running", 0)
    hosts = [world.host(world.user(f"user{n}")) for n in range(12)]
    for host in hosts:
        host.rpc(ask=1)
    rows = world.query("SELECT host_id, app_version_id FROM result WHERE server_state = 4")
    chosen = {host_id for host_id, version_id in rows if version_id == version}
    assert chosen == {host_id for host_id, _ in rows if in_rollout(host_id, AppVersionId(version), 0.3)}
    assert 0 < len(chosen) < 12
    for number, host in enumerate(hosts, start=1):
        if number in chosen:
            for _ in range(3):
                host.rpc(reports=[failed(name) for name in sorted(host.held)], ask=1)
    world.run(advance_rollouts(world.ctx))
    assert world.query("SELECT rollout_fraction FROM app_version WHERE id = ?", version) == [(0.0,)]
    entry = world.query("SELECT actor, action, after FROM audit_entry ORDER BY id DESC LIMIT 1")[0]
    assert entry[:2] == ("system", "hold roll-out")
    assert "results failed; the gate is 0.1" in json.loads(entry[2])["reason"]


def test_a_rollout_goes_on_by_itself_when_results_are_good(world: World, api: ApiClient):
    world.add_jobs(world.add_app(), n=20)
    world.settle()
    version = new_version(world)
    api.post(f"/versions/{version}/rollout", {"stages": [0.999, 1], "min_results": 2, "min_hours": 1})
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6)
    names = sorted(host.held)[:3]
    host.rpc(reports=[host.finish(name, b"x") for name in names])
    world.run(advance_rollouts(world.ctx))
    assert world.value("SELECT rollout_fraction FROM app_version WHERE id = ?", version) == 0.999
    world.now += 3600
    world.run(advance_rollouts(world.ctx))
    assert world.value("SELECT rollout_fraction FROM app_version WHERE id = ?", version) == 1.0
    assert audit(world)[-1] == ("advance roll-out", f"version {version}")


def test_a_version_can_be_added_with_its_rollout(world: World, api: ApiClient):
    api.add_app()
    version = api.post("/apps/period/versions", {**api.version(), "version_num": 101, "rollout": [0.25, 1]})
    fraction = "SELECT rollout_fraction FROM app_version WHERE id = ?"
    assert world.value(fraction, version["id"]) == 0.25
    assert audit(world)[-2:] == [
        ("start roll-out", f"version {version['id']}"),
        ("add an app version", "app period"),
    ]
    body = {**api.version(), "version_num": 102, "rollout": [0.5, 0.25]}
    assert "growing parts" in api.problem(409, "POST", "/apps/period/versions", body)["message"]
    assert world.value("SELECT COUNT(*) FROM app_version") == 2


def test_stages_that_do_not_grow_are_refused(world: World, api: ApiClient):
    world.add_app()
    assert (
        "growing parts" in api.problem(409, "POST", "/versions/1/rollout", {"stages": [0.5, 0.1]})["message"]
    )
    api.problem(422, "POST", "/versions/1/rollout", {"stages": [0.0]})
    api.problem(404, "POST", "/versions/9/rollout", {"stages": [1.0]})


def test_a_version_is_rolled_back_and_its_jobs_are_given_up(world: World, api: ApiClient):
    world.add_jobs(world.add_app(), n=3)
    world.settle()
    api.patch("/versions/1", {"deprecated": True})
    version = new_version(world)
    host = world.host(world.user("ada"))
    host.rpc(ask=1)
    held = sorted(host.held)
    assert held
    reply = api.post(f"/versions/{version}/roll_back", {"abort_jobs": True})
    assert (reply["version_in_its_place"], reply["results_given_up"]) == (1, len(held))
    world.settle()
    assert world.query("SELECT DISTINCT server_state, outcome FROM result WHERE name = ?", held[0]) == [
        (5, 7)
    ]
    assert world.value("SELECT COUNT(*) FROM result WHERE server_state = 2") == 3
    assert sorted(abort.get("name") for abort in host.rpc().all("result_abort")) == held
    assert world.query("SELECT id, deprecated FROM app_version ORDER BY id") == [(1, 0), (version, 1)]


def test_every_change_of_the_project_is_in_the_log_with_who_and_from_where(world: World, api: ApiClient):
    api.add_app()
    api.patch("/apps/period", {"title": "The period"})
    api.call(
        "POST", "/users", {"email": "bo@example.org", "name": "Bo", "password": "very secret"}
    ).raise_for_status()
    api.call("POST", "/tokens", {"name": "carl", "scopes": ["read"]}).raise_for_status()
    api.call("DELETE", "/tokens/2", headers={"X-Cobblestone-Person": "ann"}).raise_for_status()
    api.post("/news", {"title": "Hello", "text": "World"})
    entries = api.get("/audit")["entries"]
    said = [(each["action"], each["target"]) for each in reversed(entries)]
    assert said == [
        ("create an app", "app 1"),
        ("change or deprecate an app", "app period"),
        ("create an account", "user 1"),
        ("create a token", "token 2"),
        ("revoke a token", "token 2"),
        ("publish news", "news 1"),
    ]
    assert {each["actor"] for each in entries} == {"token:1 tester"}
    assert entries[-1]["origin"] == "api 127.0.0.1"
    assert entries[1]["origin"] == "command line of ann 127.0.0.1"
    changed = next(each for each in entries if each["target"] == "app period")
    assert (changed["before"]["title"], changed["after"]["title"]) == ("period", "The period")
    assert changed["before"] | {"title": "The period"} == changed["after"], "nothing else seems to change"
    assert "very secret" not in json.dumps(entries)
    assert [each["id"] for each in api.get("/audit", limit=2, before=4)["entries"]] == [3, 2]
    assert len(api.get("/audit", target="token 2")["entries"]) == 2
    assert api.get("/audit", actor="system")["entries"] == []


def test_a_refused_change_is_not_in_the_log(world: World, api: ApiClient):
    api.add_app()
    api.problem(409, "POST", "/apps", {"name": "period", "command": ["x"], "outputs": [{"name": "output"}]})
    assert len(api.get("/audit")["entries"]) == 1


def test_things_are_found_by_id_name_and_address(world: World, api: ApiClient):
    world.add_jobs(world.add_app(), n=2)
    world.settle()
    world.user("ada")

    def find(text: str) -> list[tuple[str, str]]:
        return [(each["kind"], each["name"]) for each in api.get("/search", q=text)["found"]]

    assert find("demo_1_0") == [("workunit", "demo_1_0"), ("result", "demo_1_0_0")]
    assert ("user", "ada") in [(kind, name.lower()) for kind, name in find("ada@example.org")]
    assert {kind for kind, _ in find("1")} >= {"user", "batch", "workunit", "result"}
    assert find("%") == find("' OR 1=1 --") == []


OPERATOR_ENDPOINTS: list[tuple[str, str, Any]] = [
    ("POST", "/workunits/1/cancel", None),
    ("POST", "/workunits/1/retry", None),
    ("PUT", "/hosts/1/block", {"reason": "no reason"}),
    ("DELETE", "/hosts/1/block", None),
    ("PUT", "/users/1/block", {"reason": "no reason"}),
    ("DELETE", "/users/1/block", None),
    ("PUT", "/users/1/role", {"role": "operator"}),
    ("POST", "/users/1/password", None),
    ("DELETE", "/users/1", None),
    ("POST", "/versions/1/rollout", {"stages": [1]}),
    ("POST", "/versions/1/hold", None),
    ("POST", "/versions/1/roll_back", {}),
    ("GET", "/audit", None),
    ("GET", "/search?q=1", None),
    ("GET", "/doctor", None),
    ("GET", "/doctor/totals", None),
    ("POST", "/doctor/totals/repair", None),
]


@pytest.mark.parametrize(
    ("method", "path", "body"), OPERATOR_ENDPOINTS, ids=[f"{m} {p}" for m, p, _ in OPERATOR_ENDPOINTS]
)
def test_only_a_token_that_may_manage_operates(world: World, method: str, path: str, body: Any):
    submitter = ApiClient(world, [Scope.READ, Scope.SUBMIT])
    assert submitter.problem(403, method, path, body)["code"] == "missing_scope"
    submitter.headers = {}
    assert submitter.problem(401, method, path, body)["code"] == "unauthorised"
    assert audit(world) == []
