"""Programs of an account manager's operator: tokens, what they open, and what they do not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.helpers.manager_world import Caller, ManagerWorld

from cobblestone.account_manager.core import operation
from cobblestone.account_manager.store import accounts
from cobblestone.cli import run_command

HOUR, DAY = 3600.0, 86400.0
URL = "http://p1.example.org/"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ManagerWorld]:
    found = ManagerWorld(tmp_path / "manager")
    yield found
    found.close()


def token(world: ManagerWorld, *, operates: bool = False, days: float | None = 30.0) -> str:
    return world.write(
        lambda tx: operation.create_token(tx, "program", operates=operates, days=days, now=world.now)
    )[1]


def ask(
    world: ManagerWorld, path: str, secret: str = "", *, method: str = "GET", **more: Any
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    return world.run(world.http.request(method, f"api/v1/{path}", headers={**headers}, **more))


def refused(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_a_program_reads_figures_states_and_days(world: ManagerWorld):
    number = world.project(1)
    caller = Caller(world, authenticator=world.join())
    caller.call()
    world.now += HOUR
    caller.works(URL, HOUR)
    caller.call()
    world.run(world.days.step())
    secret = token(world)
    status = ask(world, "status", secret).json()
    assert (status["accounts"], status["hosts_active"], status["projects"]) == (1, 1, 1)
    (day,) = ask(world, "days?days=2", secret).json()["days"]
    assert (day["project"], day["day"], day["jobs"]) == (number, int(world.now // DAY), 1.0)
    assert day["credit"] == pytest.approx(status["credit"])
    assert day["credit"] > 0
    world.now += 3 * DAY
    assert ask(world, "days?days=2", secret).json() == {"days": []}
    (project,) = ask(world, "projects", secret).json()["projects"]
    assert (project["url"], project["paused"], project["problem"]) == (URL, False, "")
    assert project["collecting"] is None
    text = "".join(ask(world, path, secret).text for path in ("status", "projects", "days", "news"))
    assert "ann@example.org" not in text
    assert "a" * 32 not in text, "the key of the shared account"
    assert ask(world, "status", secret, method="HEAD").status_code == 200


def test_a_program_pauses_a_project_and_publishes_news(world: ManagerWorld):
    number = world.project(1)
    caller = Caller(world, authenticator=world.join())
    secret = token(world, operates=True)
    assert ask(world, f"projects/{number}/pause", secret, method="POST").json()["paused"] is True
    assert ask(world, f"projects/{number}/pause", secret, method="POST").json()["paused"] is True
    caller.call()
    assert caller.urls == []
    assert ask(world, f"projects/{number}/resume", secret, method="POST").json()["paused"] is False
    world.now += HOUR
    caller.call()
    assert caller.urls == [URL]
    news = {"title": "Moved <b>", "text": "We moved.\nAll of us."}
    made = ask(world, "news", secret, method="POST", json=news).json()
    assert "We moved." in world.get("rss_main.php").text
    assert ask(world, "news", secret).json() == {"news": [made]}
    assert ask(world, f"news/{made['id']}", secret, method="DELETE").json() == made
    assert "We moved." not in world.get("rss_main.php").text
    assert refused(ask(world, f"news/{made['id']}", secret, method="DELETE")) == (404, "not_found")


def test_a_token_that_is_not_good_opens_nothing_and_says_why(world: ManagerWorld):
    number = world.project(1)
    good, brief = token(world), token(world, days=1.0)
    assert refused(ask(world, "status")) == (401, "unauthorised")
    assert ask(world, "status").headers["www-authenticate"] == "Bearer"
    for header in (
        "Basic abc",
        "Bearer",
        "Bearer  ",
        good,
        f"Bearer {good}x",
        "Bearer \xff\xfe",
        "\x00" * 9000,
    ):
        response = world.run(
            world.http.get("api/v1/status", headers=[(b"Authorization", header.encode("latin-1"))])
        )
        assert refused(response) == (401, "unauthorised")
    for path, method in ((f"projects/{number}/pause", "POST"), ("news", "POST"), ("news/1", "DELETE")):
        assert refused(ask(world, path, good, method=method)) == (403, "missing_scope")
    assert not world.ctx.projects.projects[0].stopped
    assert ask(world, "status", brief).status_code == 200
    world.now += DAY
    assert refused(ask(world, "status", brief)) == (401, "token_expired")
    found = world.read(lambda db: accounts.token_by_secret(db, good))
    world.write(lambda tx: accounts.revoke_token(tx, found.id, now=world.now))
    assert refused(ask(world, "status", good)) == (401, "token_revoked")
    stored = world.read(lambda db: db.query("SELECT * FROM api_token"))
    assert good not in str(stored)
    assert hashlib.sha256(good.encode()).hexdigest() in str(stored)


def test_rubbish_from_a_good_token_is_refused_and_changes_nothing(world: ManagerWorld):
    secret = token(world, operates=True)
    for content, expected in (
        (b"x" * 100_001, (413, "too_large")),
        (b"", (422, "bad_body")),
        (b"[" * 90_000, (422, "bad_body")),
        (b"\xff", (400, "not_json")),
        (json.dumps({"title": "a", "text": "b", "more": 1}).encode(), (422, "bad_body")),
        (json.dumps({"title": " ", "text": "b"}).encode(), (422, "bad_body")),
        (json.dumps({"title": "a\0", "text": "b"}).encode(), (422, "bad_body")),
        (json.dumps({"title": "a", "text": "b" * 5001}).encode(), (422, "bad_body")),
    ):
        response = ask(world, "news", secret, method="POST", content=content)
        assert refused(response) == expected, content[:40]
    assert ask(world, "news", secret).json() == {"news": []}
    for path in ("days?days=0", "days?days=367", "days?days=x", "days?other=1", "status?days=1"):
        assert refused(ask(world, path, secret)) == (422, "bad_parameter"), path
    assert refused(ask(world, "projects/7/pause", secret, method="POST")) == (404, "not_found")
    assert refused(ask(world, f"projects/{'9' * 30}/pause", secret, method="POST")) == (404, "not_found")
    assert refused(ask(world, "status", secret, method="PUT")) == (405, "wrong_method")
    assert refused(ask(world, "nothing", secret)) == (404, "unknown_path")


def test_a_token_asks_so_often_and_its_use_is_noted(world: ManagerWorld):
    one, other = token(world), token(world)

    def used() -> float | None:
        return world.read(lambda db: accounts.token_by_secret(db, one)).used_time

    assert used() is None
    first = world.now
    ask(world, "status", one)
    world.now += 30.0
    ask(world, "status", one)
    assert used() == first, "not every question writes"
    world.now += 40.0
    ask(world, "status", one)
    assert used() == world.now
    number = world.read(lambda db: accounts.token_by_secret(db, one)).id
    for _ in range(world.ctx.settings.limits.accounting_per_token):
        world.ctx.limits.accounting.take(str(number), now=world.now)
    response = ask(world, "status", one)
    assert refused(response) == (429, "too_many_questions")
    assert int(response.headers["retry-after"]) >= 1
    assert ask(world, "status", other).status_code == 200


def test_tokens_are_made_listed_and_revoked_by_commands(
    world: ManagerWorld, capsys: pytest.CaptureFixture[str]
):
    folder = str(world.ctx.folder.root)

    def manager_token(verb: str, *more: str) -> int:
        return run_command(["manager", "token", verb, folder, *more])

    assert manager_token("create", "dash", "--scope", "operate", "--forever", "--quiet") == 0
    secret = capsys.readouterr().out.strip()
    assert ask(world, "status", secret).status_code == 200
    assert ask(world, "news", secret, method="POST", json={"title": "a", "text": "b"}).status_code == 200
    capsys.readouterr()
    assert manager_token("list", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["scopes"], listed["expires"], listed["used"]) == (["read", "operate"], None, world.now)
    assert secret not in str(listed)
    assert manager_token("list") == 0
    assert "dash" in capsys.readouterr().out
    assert manager_token("revoke", str(listed["id"])) == 0
    assert refused(ask(world, "status", secret)) == (401, "token_revoked")
    for wrong in (["a", "--days", "3", "--forever"], ["a", "--days", "1e9"], ["a\nb"], [" "], ["x" * 201]):
        assert manager_token("create", *wrong) != 0, wrong
    assert manager_token("revoke", "99") == 1
