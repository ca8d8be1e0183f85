"""Computers, workunits, accounts and news as operators list, show and edit them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World, failed

from cobblestone.domain.people import Scope
from cobblestone.domain.work import ReplicationRules

PATIENT = ReplicationRules(max_error_results=5, max_total_results=10)


def audited(world: World, action: str) -> list[tuple[str, str, str]]:
    return world.query("SELECT target, before, after FROM audit_entry WHERE action = ? ORDER BY id", action)


def every_page(api: ApiClient, path: str, noun: str, **query: Any) -> list[int]:
    """Ids of a whole list, two at a time."""
    ids: list[int] = []
    while page := api.get(path, limit=2, **query, **({"before": ids[-1]} if ids else {}))[noun]:
        assert len(page) <= 2
        ids += [each["id"] for each in page]
    return ids


# -- computers -------------------------------------------------------------------------------------


def test_computers_are_listed_the_newest_first_a_part_at_a_time(world: World, api: ApiClient):
    hosts = [world.host(world.user(name)) for name in ("a", "b", "c", "d", "e")]
    for host in hosts:
        host.rpc()
    assert every_page(api, "/hosts", "hosts") == [5, 4, 3, 2, 1]
    assert every_page(api, "/hosts", "hosts", user=3) == [3]
    api.call("PUT", "/hosts/2/block", {"reason": "It broke."})
    assert every_page(api, "/hosts", "hosts", blocked="true") == [2]
    assert every_page(api, "/hosts", "hosts", blocked="false") == [5, 4, 3, 1]
    assert [each["blocked"] for each in api.get("/hosts", user=2)["hosts"]] == ["It broke."]
    api.problem(422, "GET", "/hosts?limit=1001")


def test_a_computer_is_shown_with_its_hardware_and_tasks(world: World, api: ApiClient):
    world.add_jobs(world.add_app(), n=3)
    world.settle()
    host = world.host(world.user("ada"), p_ncpus=4)
    host.rpc(ask=1e6)
    shown = api.get("/hosts/1")
    assert (shown["cpus"], shown["user"]) == (4, 1)
    assert shown["tasks"]["in_progress"] == len(host.held) > 0
    assert "host list" in api.problem(404, "GET", "/hosts/9")["message"]


def test_only_what_is_given_of_a_computer_changes_and_it_is_noted(world: World, api: ApiClient):
    world.host(world.user("ada")).rpc()
    api.patch("/hosts/1", {"label": "kitchen", "hidden": True})
    shown = api.patch("/hosts/1", {"venue": "work"})
    assert (shown["label"], shown["venue"], shown["hidden"]) == ("kitchen", "work", True)
    assert api.get("/hosts/1") == shown
    notes = audited(world, "change the settings of a host")
    assert [note[0] for note in notes] == ["host 1", "host 1"]
    assert notes[1][1:] == ('{"label":"kitchen","venue":"","hidden":true}', '{"venue":"work"}')
    for body in ({"venue": "moon"}, {"label": "x" * 61}, {"label": "a\nb"}, {"credit": 5}):
        api.problem(422, "PATCH", "/hosts/1", body)
    api.problem(404, "PATCH", "/hosts/2", {"venue": "work"})


def test_a_repaired_computer_gets_tasks_after_its_errors_are_reset(world: World, api: ApiClient):
    world.add_jobs(world.add_app(rules=PATIENT), n=20)
    world.settle()
    host = world.host(world.user("ada"), p_ncpus=1)
    host.rpc(ask=1)
    host.rpc(reports=[failed(host.new_results()[0], exit_status=195)], ask=1e6)
    assert host.new_results() == []
    assert api.get("/hosts/1")["lacks"]
    explained = api.post("/hosts/1/reset_errors")
    assert explained["problems"] == []
    assert api.get("/hosts/1")["lacks"] == ""
    world.now += 60
    host.rpc(ask=1)
    assert len(host.new_results()) == 1
    assert audited(world, "forget the errors of a host")[0][0] == "host 1"
    api.problem(404, "POST", "/hosts/9/reset_errors")


# -- workunits -------------------------------------------------------------------------------------


@pytest.fixture
def three_kinds(world: World) -> World:
    """Workunits 1 and 2 are cancelled, 3 is on a host, 4 and 5 wait; 5 is of another app."""
    app = world.add_app(rules=PATIENT)
    world.add_jobs(app, n=2)
    world.settle()
    ApiClient(world).post("/batches/1/cancel")
    world.settle()
    world.add_jobs(app, n=2)
    world.add_jobs(world.add_app("other"), n=1)
    world.settle()
    host = world.host(world.user("ada"), p_ncpus=1)
    host.rpc(ask=1)
    assert len(host.held) == 1
    return world


def test_workunits_are_listed_by_app_batch_and_status(three_kinds: World):
    api = ApiClient(three_kinds)
    assert every_page(api, "/workunits", "workunits") == [5, 4, 3, 2, 1]
    assert every_page(api, "/workunits", "workunits", batch=1) == [2, 1]
    assert every_page(api, "/workunits", "workunits", app="other") == [5]
    assert every_page(api, "/workunits", "workunits", status="cancelled") == [2, 1]
    assert len(every_page(api, "/workunits", "workunits", status="running")) == 1
    assert len(every_page(api, "/workunits", "workunits", status="waiting")) == 2
    assert every_page(api, "/workunits", "workunits", status="done") == []
    assert every_page(api, "/workunits", "workunits", status="failed", batch=1) == []
    for each in api.get("/workunits")["workunits"]:
        assert api.get(f"/workunits/{each['id']}")["status"] == each["status"], (
            "both ways to the status agree"
        )
    api.problem(404, "GET", "/workunits?app=nothing")
    api.problem(422, "GET", "/workunits?status=sad")


def test_a_workunit_is_shown_by_id_and_by_name_with_its_results(three_kinds: World):
    api = ApiClient(three_kinds)
    (running,) = api.get("/workunits", status="running")["workunits"]
    shown = api.get(f"/workunits/{running['name']}")
    assert shown == api.get(f"/workunits/{running['id']}")
    (task,) = shown["tasks"]
    assert (task["state"], task["computer"], task["user"], shown["max_error_results"]) == (
        "in_progress",
        1,
        1,
        5,
    )
    for wrong in ("9", "0", "nobody", "9" * 30, "²"):
        assert "archive" in api.problem(404, "GET", f"/workunits/{wrong}")["message"]


def test_a_waiting_workunit_that_is_edited_is_sent_first_and_with_its_new_limits(three_kinds: World):
    world, api = three_kinds, ApiClient(three_kinds)
    first, last = (each["id"] for each in reversed(api.get("/workunits", status="waiting")["workunits"]))
    shown = api.patch(
        f"/workunits/{last}", {"priority": 7, "limits": {"rsc_disk_bound": 5e6}, "max_error_results": 2}
    )
    assert (shown["priority"], shown["rsc_disk_bound"], shown["max_error_results"]) == (7, 5e6, 2)
    assert shown["max_total_results"] == 10, "what is left out stays"
    host = world.host(world.user("bob"), p_ncpus=1)
    host.rpc(ask=1)
    (sent,) = host.held
    assert world.value("SELECT workunit_id FROM result WHERE name = ?", sent) == last != first
    assert world.value("SELECT priority FROM result WHERE name = ?", sent) == 7
    (workunit,) = host.reply.all("workunit")
    assert float(workunit.get("rsc_disk_bound")) == 5e6
    ((target, before, after),) = audited(world, "change an unfinished workunit")
    assert target == f"workunit {last}"
    assert '"priority":0' in before
    assert '"priority":7' in after


def test_what_contradicts_itself_or_comes_too_late_is_refused(three_kinds: World):
    api = ApiClient(three_kinds)
    assert (
        "max_total_results" in api.problem(422, "PATCH", "/workunits/4", {"max_total_results": 1})["message"]
    )
    assert "finished" in api.problem(409, "PATCH", "/workunits/1", {"priority": 1})["message"]
    api.problem(404, "PATCH", "/workunits/99", {"priority": 1})
    for body in (
        {"limits": {"delay_bound": 1}},
        {"limits": {"rsc_disk_bound": -1}},
        {"priority": 10**9},
        {"name": "x"},
    ):
        api.problem(422, "PATCH", "/workunits/4", body)


# -- accounts --------------------------------------------------------------------------------------


def test_accounts_are_listed_the_newest_first_and_by_role(world: World, api: ApiClient):
    for name in ("ada", "bob", "eve"):
        world.user(name)
    api.call("PUT", "/users/2/role", {"role": "operator"})
    api.call("PUT", "/users/3/block", {"reason": "It cheats."})
    assert every_page(api, "/users", "users") == [3, 2, 1]
    assert every_page(api, "/users", "users", role="operator") == [2]
    assert every_page(api, "/users", "users", role="") == [3, 1]
    assert every_page(api, "/users", "users", blocked="true") == [3]
    assert api.get("/users/3")["blocked"] == "It cheats."
    assert api.get("/users/2")["role"] == "operator"


def test_only_what_is_given_of_an_account_changes(world: World, api: ApiClient):
    world.user("ada")
    api.patch("/users/1", {"country": "France", "language": "fr", "show_hosts": False})
    shown = api.patch("/users/1", {"name": " Ada L. ", "url": "https://example.org/ada"})
    assert (shown["name"], shown["country"], shown["language"], shown["show_hosts"], shown["url"]) == (
        "Ada L.",
        "France",
        "fr",
        False,
        "https://example.org/ada",
    )
    assert api.get("/users/1") == shown
    assert [note[0] for note in audited(world, "change the profile of an account")] == ["user 1", "user 1"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "<script>"}, "bad_name"),
        ({"url": "javascript:alert(1)"}, "bad_url"),
        ({"language": "xx"}, "bad_language"),
        ({"email": "new@example.org"}, "bad_body"),
    ],
)
def test_an_account_is_not_edited_to_what_its_owner_could_not_choose(
    world: World, api: ApiClient, body: dict[str, str], code: str
):
    world.user("ada")
    assert api.problem(422, "PATCH", "/users/1", body)["code"] == code
    assert api.problem(404, "PATCH", "/users/9", {"country": "France"})["message"].startswith(
        "There is no user 9"
    )


# -- news ------------------------------------------------------------------------------------------


def test_news_are_listed_edited_and_withdrawn(world: World, api: ApiClient):
    made = [api.post("/news", {"title": title, "text": "text"}) for title in ("one", "two", "three")]
    assert every_page(api, "/news", "news") == [3, 2, 1]
    assert api.get("/news/2") == made[1]
    assert api.patch("/news/2", {"title": "zwei"}) == {**made[1], "title": "zwei"}
    assert "zwei" in world.get("/rss_main.php").text
    assert api.call("DELETE", "/news/2").json()["title"] == "zwei"
    assert "zwei" not in world.get("/rss_main.php").text
    for method, body in (("GET", None), ("PATCH", {"title": "x"}), ("DELETE", None)):
        api.problem(404, method, "/news/2", body)
    actions = world.query("SELECT action, target FROM audit_entry ORDER BY id")
    assert actions[-2:] == [("edit news", "news 2"), ("withdraw news", "news 2")]
    assert actions[0] == ("publish news", "news 1")


def test_a_token_that_may_only_read_sees_no_accounts_and_changes_nothing(world: World):
    world.user("ada")
    reader = ApiClient(world, [Scope.READ])
    assert reader.get("/workunits")["workunits"] == []
    for method, path in (
        ("GET", "/users/1"),
        ("GET", "/hosts"),
        ("PATCH", "/users/1"),
        ("DELETE", "/news/1"),
    ):
        reader.problem(403, method, path, {} if method == "PATCH" else None)
