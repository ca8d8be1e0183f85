"""Accounts that may submit: what their tokens reach, and what they are told when they reach too far."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World

from cobblestone.domain.people import Scope
from cobblestone.domain.values import UserId
from cobblestone.server.api import ENDPOINTS
from cobblestone.server.api.endpoints.routing import AnsweredEndpoint
from cobblestone.server.operation import interventions
from cobblestone.store.operation.audit import Actor
from cobblestone.store.people import account_changes, credentials
from cobblestone.store.work import batches, submitters

ADA = 1


class Submitter(ApiClient):
    """A program with a token of an account."""

    def __init__(self, world: World, user_id: int) -> None:
        super().__init__(world)
        secret = credentials.new_secret()
        world.write(
            lambda tx: credentials.create_token(
                tx,
                secret,
                name="my program",
                scopes=[Scope.ACCOUNT, Scope.READ, Scope.SUBMIT],
                user_id=UserId(user_id),
                now=world.now,
            )
        )
        self.headers = {"Authorization": f"Bearer {secret}"}

    def submit(self, n: int = 1, app: str = "period", **members: Any) -> Any:
        jobs = [self.job(f"{number}".encode()) for number in range(n)]
        return self.post("/batches", {"app": app, "jobs": jobs, **members})

    def refused(self, status: int, n: int = 1, app: str = "period", **members: Any) -> str:
        jobs = [self.job(f"{number}".encode()) for number in range(n)]
        return self.problem(status, "POST", "/batches", {"app": app, "jobs": jobs, **members})["message"]


@pytest.fixture
def ada(world: World, api: ApiClient) -> Submitter:
    """Ada, who may submit five jobs of one app at a time."""
    world.user("ada")
    world.user("bob")
    api.add_app()
    api.add_app("other")
    api.call("PUT", f"/users/{ADA}/rights", {"apps": ["period"], "max_jobs": 5, "share": 2.0})
    return Submitter(world, ADA)


def test_an_account_submits_with_its_own_share(world: World, api: ApiClient, ada: Submitter):
    assert api.get(f"/users/{ADA}")["submits"] == {
        "apps": ["period"],
        "max_jobs": 5,
        "share": 2.0,
        "jobs_in_progress": 0,
    }
    assert api.get("/users/2")["submits"] is None
    made = ada.submit(3)
    assert [each["id"] for each in ada.get("/batches")["batches"]] == [made["id"]]
    assert len(ada.get(f"/batches/{made['id']}/jobs")["jobs"]) == 3
    assert world.query("SELECT fair_weight FROM batch") == [(2.0,)]
    assert api.get(f"/users/{ADA}")["submits"]["jobs_in_progress"] == 3
    assert ada.get("/apps")["apps"]
    assert ada.get("/status")["name"]
    assert ada.post(f"/batches/{made['id']}/cancel")["state"] == "cancelled"
    actor = world.value("SELECT actor FROM audit_entry WHERE action = 'cancel batch'")
    assert actor.endswith("user 1")


def test_what_goes_beyond_the_right_is_refused_with_what_to_do(api: ApiClient, ada: Submitter):
    assert "jobs of period only" in ada.refused(403, app="other")
    assert "You may submit 5 more jobs until" in ada.refused(409, n=6)
    ada.submit(4)
    assert "You may submit 1 more job until" in ada.refused(409, n=2)
    opened = ada.post("/batches", {"app": "period", "open": True})["id"]
    jobs = [ada.job(b"more")] * 2
    problem = ada.problem(409, "POST", f"/batches/{opened}/jobs", {"first": 0, "jobs": jobs})
    assert "1 more job until" in problem["message"]
    assert ada.get(f"/batches/{opened}")["njobs"] == 0
    assert "priority" in ada.refused(403, priority=1)
    priced = {"app": "period", "jobs": [ada.job(b"dear", credit=1e9)]}
    assert "credit of a job" in ada.problem(403, "POST", "/batches", priced)["message"]
    assert [each["njobs"] for each in api.get("/batches")["batches"]] == [0, 4]


def test_failed_jobs_are_submitted_again_within_the_limit(world: World, ada: Submitter, monkeypatch: Any):
    first = ada.submit(4)["id"]
    ada.post(f"/batches/{first}/cancel")
    world.settle()
    ada.submit(2)
    assert "You may submit 3 more jobs" in ada.problem(409, "POST", f"/batches/{first}/retry")["message"]
    assert len(ada.get("/batches")["batches"]) == 2
    # Others arrive between two pieces of a long retry: nothing of it stays.
    world.write(lambda tx: batches.abort_batch(tx, 2))
    monkeypatch.setattr("cobblestone.server.operation.interventions.MAX_JOBS_PER_CALL", 2)
    copy = interventions.interventions.copy_jobs

    def copy_while_others_submit(tx: Any, batch: Any, ids: Any, **options: Any) -> Any:
        done = copy(tx, batch, ids, **options)
        tx.execute("UPDATE batch SET state = 1, n_error = 0 WHERE id = 2")
        return done

    monkeypatch.setattr(interventions.interventions, "copy_jobs", copy_while_others_submit)
    assert "You may submit 1 more job" in ada.problem(409, "POST", f"/batches/{first}/retry")["message"]
    assert ada.get("/batches/3")["state"] == "cancelled"


OF_BATCHES = [each for each in ENDPOINTS if "{batch_id" in each.path]


@pytest.mark.parametrize("endpoint", OF_BATCHES, ids=lambda each: f"{each.method} {each.path}")
def test_batches_of_others_do_not_exist(api: ApiClient, ada: Submitter, endpoint: AnsweredEndpoint):
    api.post("/batches", {"app": "period", "jobs": [api.job(b"secret")]})
    rest = (
        endpoint.path.partition("{batch_id:int}")[2].replace("{job_id:int}", "1").replace("{name}", "output")
    )
    for number in (1, 99, 10**25):
        problem = ada.problem(404, endpoint.method, f"/batches/{number}{rest}")
        assert "no batch" in problem["message"]
    assert ada.get("/batches")["batches"] == []
    assert api.get("/batches/1")["state"] == "running"


@pytest.mark.parametrize(
    "path", ["/workunits", "/workunits/1", "/explain/workunits/1", "/trickles", "/teams", "/news", "/keys"]
)
def test_an_account_that_submits_reaches_nothing_else(ada: Submitter, path: str):
    assert "needs a token of the project" in ada.problem(403, "GET", path)["message"]


def test_figures_of_the_project_are_not_for_accounts(world: World, ada: Submitter, api: ApiClient):
    assert world.get("/metrics", headers=ada.headers).status_code in (401, 403)
    assert world.get("/metrics", headers=api.headers).status_code == 200


@pytest.mark.parametrize("end", ["withdrawn", "blocked", "deleted", "erased"])
def test_the_right_ends_at_once(world: World, api: ApiClient, ada: Submitter, end: str):
    ada.submit(1)
    before = world.ctx.store.read(lambda db: submitters.submitter_of(db, UserId(ADA)))
    if end == "withdrawn":
        assert api.call("DELETE", f"/users/{ADA}/rights").json()["submits"] is None
    elif end == "blocked":
        api.call("PUT", f"/users/{ADA}/block", {"reason": "spam"})
    elif end == "deleted":
        api.call("DELETE", f"/users/{ADA}")
    else:
        world.write(lambda tx: account_changes.erase(tx, UserId(ADA), key="k", now=world.now))
    answer = ada.call("GET", "/batches")
    assert answer.status_code == (401 if end == "erased" else 403)
    if end != "erased":
        assert f"cobblestone user submit {ADA}" in answer.json()["error"]["message"]
    with pytest.raises(Exception, match="any more"):  # a request that was let in before
        world.write(lambda tx: submitters.check_rights(tx, before, "period", 1, now=world.now))
    assert api.get("/batches/1")["njobs"] == 1


def test_every_change_is_in_the_audit_log(world: World, api: ApiClient, ada: Submitter):
    api.call("PUT", f"/users/{ADA}/rights", {"max_jobs": 7})
    api.call("DELETE", f"/users/{ADA}/rights")
    rows = world.query("SELECT target, before, after FROM audit_entry WHERE action = 'set rights to submit'")
    first, second = (json.loads(rows[0][2]), json.loads(rows[1][2]))
    assert first == {"apps": ["period"], "max_jobs": 5, "share": 2.0}
    assert second == {"apps": None, "max_jobs": 7, "share": 1.0}
    assert [json.loads(row[1]) for row in rows] == [None, first, second]
    assert rows[2][2] == "null"


def test_nonsense_is_refused_where_it_stands(world: World, api: ApiClient, ada: Submitter):
    for body, said in (
        ({"apps": ["gone"]}, "There is no app 'gone'"),
        ({"apps": []}, "apps"),
        ({"max_jobs": 0}, "max_jobs"),
        ({"share": 0}, "share"),
    ):
        answer = api.call("PUT", f"/users/{ADA}/rights", body)
        assert answer.status_code in (404, 422)
        assert said in answer.json()["error"]["message"] + answer.json()["error"]["member"]
    assert api.problem(404, "PUT", "/users/77/rights", {})["message"].startswith("There is no user 77")
    assert api.problem(404, "DELETE", "/users/77/rights")["message"].startswith("There is no user 77")
    world.write(lambda tx: account_changes.ask_to_erase(tx, UserId(ADA), world.now + 10))
    assert "deleted" in api.problem(409, "PUT", f"/users/{ADA}/rights", {})["message"]


def test_a_token_of_the_project_may_be_limited_too(world: World, api: ApiClient, ada: Submitter):
    made = api.post(
        "/tokens", {"name": "bob", "scopes": ["read", "submit"], "apps": ["period"], "max_jobs": 1}
    )
    assert (made["apps"], made["max_jobs"]) == (["period"], 1)
    ada.headers = {"Authorization": f"Bearer {made['token']}"}
    assert "jobs of period only" in ada.refused(403, app="other")
    ada.submit(1, priority=3)
    assert "You may submit 0 more jobs" in ada.refused(409)
    api.problem(404, "POST", "/tokens", {"name": "eve", "scopes": ["submit"], "apps": ["gone"]})


def test_an_operator_retries_batches_of_accounts_without_their_limit(world: World, ada: Submitter):
    first = ada.submit(5)["id"]
    ada.post(f"/batches/{first}/cancel")
    world.settle()
    ada.submit(5)
    again = world.run(interventions.retry_batch(world.ctx, first, Actor(name="op", origin="test")))
    assert again.njobs == 5
    assert ada.get(f"/batches/{again.id}")["njobs"] == 5
