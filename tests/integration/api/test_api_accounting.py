"""What account managers are told: accounts by their weak keys, and their credit by jobs, in all, and by day."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import World, succeeded

from cobblestone.api_schema.account_manager import MAX_BATCH
from cobblestone.domain.exports import CountedJobState
from cobblestone.domain.people import Scope, User
from cobblestone.domain.work import OutputSpec
from cobblestone.store.catalog import apps
from cobblestone.store.operation import told_credit
from cobblestone.store.people import account_changes, users
from cobblestone.wire.project.signatures import HEADER, SignedExchange, reply_is_signed

DAY = 86400.0


@pytest.fixture
def manager(world: World) -> ApiClient:
    return ApiClient(world, [Scope.ACCOUNTING])


def granted_job(world: World, name: str = "alice") -> tuple[User, str, int]:
    """Somebody, a job of theirs that was granted, and the computer that did it."""
    app = world.add_app(outputs=(OutputSpec(open_name="out", optional=True),))
    world.write(lambda tx: apps.update_app(tx, replace(app, credit_system="benchmark")))
    world.add_jobs(app)
    host = world.host(world.user(name), p_fpops=4.32e9)
    host.rpc(ask=1)
    world.now += 2000
    job = next(iter(host.held))
    host.rpc(reports=[replace(succeeded(job), final_cpu_time=1000.0)])
    world.settle()
    return user_named(world, name), job, host.id


def user_named(world: World, name: str) -> User:
    found = world.run(world.ctx.store.aread(lambda db: users.user_by_email(db, f"{name}@example.org")))
    assert found is not None
    return found[0]


def new_user(world: World, name: str) -> User:
    world.user(name)
    return user_named(world, name)


def enrolled(manager: ApiClient, user: User) -> str:
    (account,) = manager.post("/accounting/accounts", {"keys": [user.weak_authenticator]})["accounts"]
    assert len(account) == 32
    return account


def test_the_credit_of_an_account_is_told_in_all_three_ways(world: World, manager: ApiClient):
    user, job, host_id = granted_job(world)
    account = enrolled(manager, user)
    (total, of_host) = manager.post(
        "/accounting/totals", {"totals": [{"account": account}, {"account": account, "host": host_id}]}
    )["totals"]
    assert total > 0
    assert of_host == total
    (answer,) = manager.post("/accounting/jobs", {"jobs": [{"account": account, "name": job}]})["jobs"]
    assert answer == {"state": CountedJobState.GRANTED, "credit": pytest.approx(total)}
    sums = manager.get("/accounting/sums", day=int(world.now // DAY))
    assert sums["accounts"] == [[account, pytest.approx(total), 0.0, 0.0]]
    assert (sums["next"], sums["complete"]) == ("", False)


def test_work_that_is_not_decided_is_provisional_and_over_when_the_day_is(world: World, manager: ApiClient):
    app = world.add_app()
    world.add_jobs(app)
    host = world.host(world.user("bob"))
    host.rpc(ask=1)
    account = enrolled(manager, user_named(world, "bob"))
    day = int(world.now // DAY)
    (running,) = manager.get("/accounting/sums", day=day)["accounts"]
    job = next(iter(host.held))
    (answer,) = manager.post("/accounting/jobs", {"jobs": [{"account": account, "name": job}]})["jobs"]
    assert answer["state"] == CountedJobState.IN_PROGRESS
    assert running == [account, 0.0, pytest.approx(answer["credit"] / 2), 0.0]
    assert answer["credit"] > 0
    assert manager.get("/accounting/sums", day=day - 1)["accounts"] == []
    assert manager.get("/accounting/sums", day=day - 1)["complete"]


def test_credit_that_is_taken_back_is_told_as_revoked(world: World, manager: ApiClient):
    user, job, _ = granted_job(world)
    account = enrolled(manager, user)
    operator = ApiClient(world)
    granted = operator.get(f"/credit/results/{job}")["granted"]
    operator.post("/credit/corrections", {"result": job, "amount": -granted / 2, "reason": "a wrong answer"})
    (sums,) = manager.get("/accounting/sums", day=int(world.now // DAY))["accounts"]
    assert sums == [account, pytest.approx(granted), 0.0, pytest.approx(granted / 2)]


def test_nothing_is_told_of_accounts_whose_key_was_not_shown(world: World, manager: ApiClient):
    user, job, host_id = granted_job(world)
    stranger = new_user(world, "carol")
    own = enrolled(manager, stranger)
    other = ApiClient(world, [Scope.ACCOUNTING])
    foreign = enrolled(other, user)
    assert enrolled(ApiClient(world, [Scope.ACCOUNTING]), user) != foreign
    for account in (own, foreign, "0" * 32):
        assert manager.post("/accounting/jobs", {"jobs": [{"account": account, "name": job}]})["jobs"] == [
            {"state": "unknown", "credit": 0.0}
        ]
        asked = {"totals": [{"account": account, "host": host_id}]}
        assert manager.post("/accounting/totals", asked)["totals"] == [None]
    assert manager.get("/accounting/sums", day=int(world.now // DAY))["accounts"] == []
    strong = user.authenticator
    assert manager.post("/accounting/accounts", {"keys": [strong, "9_nobody"]})["accounts"] == ["", ""]


def test_a_new_password_ends_it_until_the_new_key_is_shown(world: World, manager: ApiClient):
    user, _, _ = granted_job(world)
    account = enrolled(manager, user)
    asked = {"totals": [{"account": account}]}
    assert manager.post("/accounting/totals", asked)["totals"] != [None]
    new = f"{user.id}_{'e' * 32}"
    world.write(
        lambda tx: account_changes.set_keys(tx, user.id, authenticator="f" * 32, weak_authenticator=new)
    )
    assert manager.post("/accounting/totals", asked)["totals"] == [None]
    assert manager.get("/accounting/sums", day=int(world.now // DAY))["accounts"] == []
    assert manager.post("/accounting/accounts", {"keys": [new]})["accounts"] == [account]
    assert manager.post("/accounting/totals", asked)["totals"] != [None]
    world.write(lambda tx: account_changes.erase(tx, user.id, key="d" * 32, now=world.now))
    assert manager.post("/accounting/totals", asked)["totals"] == [None]
    assert world.run(world.ctx.store.aread(lambda db: users.user_by_id(db, user.id))) is not None


def test_days_come_in_pages(world: World, manager: ApiClient):
    user, _, _ = granted_job(world)
    enrolled(manager, user)
    others = [new_user(world, f"user{number}").weak_authenticator for number in range(3)]
    manager.post("/accounting/accounts", {"keys": others})
    day, token = int(world.now // DAY), manager.token.id
    found: list[str] = []
    after, pages = "", 0
    while pages == 0 or after:
        rows, after = world.run(
            world.ctx.store.aread(
                lambda db, after=after: told_credit.day_sums(
                    db, token, day=day, after=after, today=True, limit=2
                )
            )
        )
        found += [each.account for each in rows]
        pages += 1
    assert pages == 3
    assert len(found) == 1


def test_answers_are_signed_for_their_question(world: World, manager: ApiClient):
    secret = manager.headers["Authorization"].removeprefix("Bearer ")
    answer = manager.call("GET", "/accounting/sums?day=1")
    exchange = SignedExchange(
        method="GET", target="/accounting/sums?day=1", question=b"", answer=answer.content
    )
    assert reply_is_signed(secret, exchange, answer.headers[HEADER], now=world.now)
    assert not reply_is_signed(secret, exchange, answer.headers[HEADER], now=world.now + DAY)
    assert not reply_is_signed("other", exchange, answer.headers[HEADER], now=world.now)
    for wrong in (replace(exchange, target="/accounting/sums?day=2"), replace(exchange, answer=b"{}")):
        assert not reply_is_signed(secret, wrong, answer.headers[HEADER], now=world.now)
    assert not reply_is_signed(secret, exchange, "rubbish", now=world.now)


def test_too_much_at_once_and_too_often_are_refused(world: World, manager: ApiClient):
    asked = {"account": "0" * 32, "name": "a_1"}
    manager.problem(422, "POST", "/accounting/jobs", {"jobs": [asked] * (MAX_BATCH + 1)})
    manager.problem(422, "POST", "/accounting/jobs", {"jobs": []})
    manager.problem(422, "POST", "/accounting/totals", {"totals": [{"account": "' OR 1=1"}]})
    manager.problem(422, "GET", "/accounting/sums?day=-1")
    per_hour = world.ctx.settings.limits.accounting_per_token
    for _ in range(per_hour):
        world.ctx.limits.accounting.take(str(manager.token.id), now=world.now)
    answer = manager.call("GET", "/accounting/sums?day=1")
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    world.now += 60
    assert manager.call("GET", "/accounting/sums?day=1").status_code == 200


def test_other_tokens_may_not_ask_and_this_one_may_nothing_else(world: World, manager: ApiClient):
    reader = ApiClient(world, [Scope.READ, Scope.SUBMIT, Scope.MANAGE])
    reader.problem(403, "GET", "/accounting/sums?day=1")
    manager.problem(403, "GET", "/apps")
    manager.problem(403, "GET", "/me")
