"""Who may call what, and what is said to the others."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from openapi_spec_validator import validate
from tests.helpers.api_client import API, ApiClient
from tests.helpers.project_world import World

from cobblestone.api_schema import endpoints
from cobblestone.api_schema.endpoints import Endpoint
from cobblestone.api_schema.people import News, Team
from cobblestone.domain.people import Scope
from cobblestone.server.api import ENDPOINTS
from cobblestone.server.api.endpoints.routing import AnsweredEndpoint, Call, answers


def concrete(endpoint: AnsweredEndpoint) -> str:
    """An address of the endpoint."""
    path = endpoint.path.replace("{name}", "some")
    return re.sub(r"\{\w+:int\}", "1", path)


PROTECTED = [endpoint for endpoint in ENDPOINTS if endpoint.scope is not None]
each_protected = pytest.mark.parametrize("endpoint", PROTECTED, ids=lambda e: f"{e.method} {e.path}")


@each_protected
def test_nothing_works_without_a_token(world: World, endpoint: AnsweredEndpoint):
    answer = world.run(world.http.request(endpoint.method, API + concrete(endpoint)))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer" in answer.json()["error"]["message"]


@each_protected
def test_nothing_works_without_the_scope(world: World, endpoint: AnsweredEndpoint):
    others = [scope for scope in Scope if scope is not endpoint.scope]
    client = ApiClient(world, others)
    problem = client.problem(403, endpoint.method, concrete(endpoint))
    assert problem["code"] == "missing_scope"
    assert f"--scope {endpoint.scope}" in problem["hint"]


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic abc", "Bearer cob_wrong", "bearer \x7f"])
def test_a_wrong_token_is_refused(world: World, header: str):
    answer = world.get(f"{API}/apps", headers={"Authorization": header})
    assert answer.status_code == 401


def test_an_expired_token_is_refused_and_says_so(world: World):
    client = ApiClient(world, expire_time=world.now + 10)
    client.get("/apps")
    world.now += 11
    assert client.problem(401, "GET", "/apps")["code"] == "token_expired"


def test_a_revoked_token_is_refused_at_once(api: ApiClient, world: World):
    other = ApiClient(world)
    api.call("DELETE", f"/tokens/{other.token.id}")
    assert other.problem(401, "GET", "/apps")["code"] == "token_revoked"


def test_the_token_that_is_used_is_not_revoked_by_it(api: ApiClient):
    problem = api.problem(409, "DELETE", f"/tokens/{api.token.id}")
    assert "Create another" in problem["message"]
    api.get("/apps")


def test_a_new_token_works_within_its_scope(api: ApiClient, world: World):
    made = api.post("/tokens", {"name": "reader", "scopes": ["read"], "days": 1})
    assert made["expires"] == world.now + 86400
    client = ApiClient(world)
    client.headers = {"Authorization": f"Bearer {made['token']}"}
    client.get("/apps")
    client.problem(403, "POST", "/tokens", {"name": "x", "scopes": ["read"]})


def test_the_text_of_a_token_is_shown_once(api: ApiClient):
    made = api.post("/tokens", {"name": "bob", "scopes": ["read"]})
    listed = api.get("/tokens")["tokens"]
    assert [token["name"] for token in listed] == ["bob", "tester"]
    assert made["token"] not in str(listed)


def test_an_unknown_address_says_where_to_look(api: ApiClient):
    problem = api.problem(404, "GET", "/nonsense")
    assert problem["code"] == "unknown_path"
    assert "/api/v1/docs" in problem["hint"]


def test_a_wrong_method_says_which_are_possible(api: ApiClient):
    answer = api.call("DELETE", "/apps")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, POST"
    assert answer.json()["error"]["code"] == "wrong_method"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b"\xff\xfe", b"nul", b"[" * 5000, b'{"name": "\\ud800"}']
)
def test_a_body_that_is_not_as_described_is_refused(api: ApiClient, body: bytes):
    answer = api.call("POST", "/apps", content=body)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["message"]


def test_an_unknown_member_is_refused_by_name(api: ApiClient):
    problem = api.problem(422, "POST", "/tokens", {"name": "x", "scopes": ["read"], "scope": "read"})
    assert "`scope`" in problem["message"]


def test_an_unknown_parameter_is_refused_by_name(api: ApiClient):
    problem = api.problem(422, "GET", "/batches", params={"limt": "3"})
    assert (problem["code"], "limt" in problem["message"]) == ("bad_parameter", True)


def test_a_body_that_is_too_large_is_not_read(api: ApiClient):
    problem = api.problem(413, "POST", "/news", {"title": "t", "text": "x" * 200_000})
    assert problem["code"] == "too_large"
    assert "100000" in problem["message"]


@pytest.mark.parametrize("value", [b"{}", b"0", b'""', b"[ ]"])
def test_a_body_of_millions_of_empty_values_is_refused_at_once(api: ApiClient, value: bytes):
    body = b'{"app": "demo", "jobs": [' + b",".join([value] * (15_000_000 // (len(value) + 1))) + b"]}"
    begin = time.process_time()
    response = api.call("POST", "/batches", content=body)
    assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")
    assert time.process_time() - begin < 2  # decoding them would take 5 to 20 s


def test_a_text_full_of_marks_is_one_value(api: ApiClient):
    text = json.dumps({"app": "demo", "name": "{[," * 200_000})
    assert api.call("POST", "/batches", content=text.encode()).json()["error"]["member"] == "name"


def test_a_body_without_a_length_is_bounded_too(api: ApiClient):
    async def pieces():
        for _ in range(300):
            yield b" " * 1000

    assert api.call("POST", "/news", content=pieces()).status_code == 413


@pytest.mark.parametrize(
    "path",
    ["/batches/99999999999999999999", "/batches/9007199254740993/results", f"/hosts/{'9' * 5000}"],
    ids=["too_large", "beyond_ids", "beyond_python"],
)
def test_a_number_beyond_all_ids_is_not_found(api: ApiClient, path: str):
    api.problem(404, "GET", path)


def test_a_failure_of_the_server_shows_nothing_of_itself(api: ApiClient, world: World, monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret detail")

    monkeypatch.setattr("cobblestone.store.catalog.apps.list_apps", broken)
    problem = api.problem(500, "GET", "/apps")
    assert "secret" not in str(problem)


def test_the_description_is_valid_openapi(world: World):
    document = world.get(f"{API}/openapi.json").json()
    validate(document)
    assert document["servers"] == [{"url": "http://127.0.0.1:8080/api/v1"}]


def test_every_declared_endpoint_is_answered_by_one_handler():
    declared = [each for each in vars(endpoints).values() if isinstance(each, Endpoint)]
    paths = sorted((each.method, each.path) for each in declared)
    assert len(set(paths)) == len(paths)
    assert sorted((each.method, each.path) for each in ENDPOINTS) == paths


def test_a_handler_must_take_and_return_what_its_endpoint_declares():
    async def other_place(call: Call, news: int) -> News:
        raise NotImplementedError

    async def other_reply(call: Call, news_id: int) -> Team:
        raise NotImplementedError

    wrong: list[Any] = [other_place, other_reply]  # not what the types allow
    for handler in wrong:
        with pytest.raises(TypeError, match=handler.__name__):
            answers(endpoints.GET_NEWS)(handler)


def test_every_endpoint_is_described(world: World):
    document = world.get(f"{API}/openapi.json").json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(each.method, each.path.replace(":int", "")) for each in ENDPOINTS}
    names = [
        operation["operationId"] for methods in document["paths"].values() for operation in methods.values()
    ]
    assert len(set(names)) == len(names)


def test_the_documentation_page_needs_nothing_from_elsewhere(world: World):
    answer = world.get(f"{API}/docs")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    for forbidden in ("<script", "src=", "http://cdn", "https://"):
        assert forbidden not in answer.text
    assert "POST /batches" in answer.text


def test_names_from_the_settings_are_escaped_on_the_page(make_world):
    world = make_world(project={"name": 'A & B "x">', "url": "http://127.0.0.1:8080/"})
    assert "A &amp; B &#34;x&#34;&gt;" in world.get(f"{API}/docs").text
