"""Accounts, teams, news, status, plan classes."""

from __future__ import annotations

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World


def test_an_account_can_attach_with_what_is_shown(api: ApiClient, world: World):
    made = api.post("/users", {"email": "Alice@Example.org", "name": "Alice"})
    assert made["email"] == "alice@example.org"
    host = world.host(made["authenticator"])
    host.rpc()
    assert host.id > 0
    listed = api.get("/users")["users"]
    assert [user["name"] for user in listed] == ["Alice"]
    assert "authenticator" not in listed[0]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"email": "nonsense", "name": "A"}, "bad_email"),
        ({"email": "a@example.org", "name": " "}, "bad_name"),
        ({"email": "a@example.org", "name": "A", "password": "short"}, "bad_password"),
    ],
)
def test_a_wrong_account_is_refused(api: ApiClient, body: dict[str, str], code: str):
    assert api.problem(422, "POST", "/users", body)["code"] == code


def test_an_address_has_one_account(api: ApiClient):
    body = {"email": "a@example.org", "name": "A"}
    api.post("/users", body)
    assert api.problem(409, "POST", "/users", body)["code"] == "email_taken"


def test_invited_accounts_need_no_code_from_the_operator(make_world):
    world = make_world(accounts={"creation": "invitation", "invitation_code": "secret"})
    assert ApiClient(world).post("/users", {"email": "a@example.org", "name": "A"})["id"] == 1


def test_teams_are_made_and_joined(api: ApiClient):
    for name in "ab":
        api.post("/users", {"email": f"{name}@example.org", "name": name})
    team = api.post("/teams", {"name": "Reds", "founder": 1})
    api.post(f"/teams/{team['id']}/members", {"user": 2})
    assert [user["team_id"] for user in api.get("/users")["users"]] == [team["id"]] * 2
    assert [each["name"] for each in api.get("/teams")["teams"]] == ["Reds"]
    api.problem(409, "POST", "/teams", {"name": "reds", "founder": 1})
    api.problem(404, "POST", "/teams", {"name": "Blues", "founder": 9})
    api.problem(404, "POST", "/teams/9/members", {"user": 1})


def test_news_reach_the_feed(api: ApiClient, world: World):
    api.post("/news", {"title": "Hello", "text": "We <b>began</b>\nyesterday"})
    assert "Hello" in world.get("/rss_main.php").text
    api.problem(422, "POST", "/news", {"title": "a\nb", "text": "x"})


def test_the_status_counts_what_is_going_on(api: ApiClient, world: World):
    api.add_app()
    api.post("/batches", {"app": "period", "jobs": [api.job(), api.job()]})
    world.settle()
    world.host(world.user("u")).rpc(ask=1)
    counts = api.get("/status")["counts"]
    assert (counts["apps"], counts["open_batches"], counts["users"], counts["active_hosts"]) == (1, 1, 1, 1)
    assert counts["results_unsent"] + counts["results_in_progress"] == 2
    assert counts["unsigned_versions"] == 0


def test_unsigned_versions_are_counted(api: ApiClient, world: World):
    world.ctx.folder.code_sign_private.unlink()
    api.add_app()
    assert api.get("/status")["counts"]["unsigned_versions"] == 1


def test_the_state_is_counted_at_most_every_few_seconds_whoever_asks(world: World, api: ApiClient):
    before = api.get("/status")["counts"]["users"]
    world.user("ada")
    assert api.get("/status")["counts"]["users"] == before
    world.now += 3600
    assert api.get("/status")["counts"]["users"] == before + 1


def test_plan_classes_are_tried_on_the_known_hosts(api: ApiClient, world: World):
    (world.ctx.folder.root / "plan_classes.toml").write_text(
        '[many]\nmin_ncpus = 3\nmax_threads = 8\n\n[cuda]\ngpu_type = "NVIDIA"\n'
    )
    for name, cpus in (("a", 2), ("b", 4)):
        world.host(world.user(name), p_ncpus=cpus).rpc()
    found = {each["name"]: each for each in api.get("/plan_classes")["plan_classes"]}
    assert (found["many"]["hosts_matched"], found["many"]["hosts_known"]) == (1, 2)
    assert found["cuda"]["hosts_matched"] == 0
    assert sum(found["cuda"]["refusals"].values()) == 2


def test_broken_plan_classes_are_reported(api: ApiClient, world: World):
    (world.ctx.folder.root / "plan_classes.toml").write_text("[cuda]\ngpu_typ = 1\n")
    problem = api.problem(422, "GET", "/plan_classes")
    assert "gpu_type" in problem["message"]
