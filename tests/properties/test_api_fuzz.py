"""Whatever is sent to the API: it is done or refused, and the server never fails at it."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.helpers.api_client import API, ApiClient
from tests.helpers.project_world import World

from cobblestone.server.api import ENDPOINTS
from cobblestone.server.api.endpoints.routing import AnsweredEndpoint
from cobblestone.wire.project.signatures import encode_private_key

NAMES = [
    "period",
    "native",
    "output",
    "input",
    "x",
    "python3",
    "{input}",
    "{output}",
    "{arg:k}",
    "k",
    "any",
    "bitwise",
]
TEXTS = st.one_of(
    st.sampled_from(
        [*NAMES, "", "..", "a/b", "\0", "é", "x" * 300, "folder:results", "f.py:run", "-1", "1e999", "nan"]
    ),
    st.text(string.printable, max_size=30),
    st.text(max_size=10),
)
NUMBERS = st.one_of(
    st.integers(-2, 5),
    st.sampled_from([2**53, 2**63, 10**30, 0.5, -0.0, 1e300, 1e-300]),
    st.floats(allow_nan=False, allow_infinity=False),
)
JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)


def values(kind: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Values that mostly have the right form."""
    info = msgspec.inspect
    match kind:
        case info.StructType(fields=members):
            required = {each.encode_name: mostly(values(each.type)) for each in members if each.required}
            optional = {each.encode_name: mostly(values(each.type)) for each in members if not each.required}
            return st.fixed_dictionaries(required, optional=optional)
        case info.ListType(item_type=item):
            return st.lists(values(item), max_size=3)
        case info.DictType(key_type=key, value_type=value):
            return st.dictionaries(
                TEXTS if isinstance(key, info.StrType) else values(key), values(value), max_size=3
            )
        case info.UnionType(types=kinds):
            return st.one_of(*map(values, kinds))
        case info.Metadata(type=inner):
            return values(inner)
        case info.BoolType():
            return st.booleans()
        case info.IntType() | info.FloatType():
            return NUMBERS
        case info.StrType():
            return TEXTS
        case info.EnumType(cls=choices):
            return st.sampled_from([each.value for each in choices])
        case info.LiteralType(values=choices):
            return st.sampled_from(list(choices))
        case _:
            return st.none()


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 15).flatmap(lambda chance: JUNK if chance == 0 else usual)


def addresses(endpoint: AnsweredEndpoint) -> st.SearchStrategy[str]:
    """Addresses of an endpoint, with ids that exist and others."""
    ids = st.sampled_from(["0", "1", "2", "9007199254740993", "99999999999999999999"])
    words = st.sampled_from(
        ["period", "native", "output", "ab" * 32, "%00", "%ff%fe", "..%2f..", "a%20b", "query"]
    )

    def filled(drawn: tuple[str, str, str]) -> str:
        def number(place: re.Match[str]) -> str:
            if place[1] == "token_id":  # our own token stays
                return str(int(drawn[1]) + 1000)
            return drawn[1] if place[1] == "job_id" else drawn[0]

        return re.sub(r"\{(\w+):int\}", number, endpoint.path).replace("{name}", drawn[2])

    return st.tuples(ids, ids, words).map(filled)


FILE = "jf_44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"  # of the content {}
VERSION = {"platform": "any", "files": [{"file": FILE, "open_name": "m", "main_program": True}]}
GOOD: dict[tuple[str, str], Any] = {
    ("POST", "/apps"): {
        "name": "new",
        "command": ["python3", "{input}", "{output}", "{arg:k}"],
        "outputs": [{"name": "output", "max_nbytes": 100}],
        "comparison": {"kind": "numeric", "options": {"rtol": 1e-6}},
        "limits": {"rsc_fpops_est": 1e12, "delay_bound": 3600},
        "rules": {"min_quorum": 2, "max_error_results": 3},
        "version": VERSION,
    },
    ("POST", "/apps/{name}/versions"): {**VERSION, "app_changes": {"title": "t", "rules": {"min_quorum": 2}}},
    ("PATCH", "/apps/{name}"): {
        "dispatch": {"size_classes": [1e9, 2e9], "max_jobs_on_host": 2, "homogeneous_redundancy": "fine"},
        "title": "t",
        "outputs": [{"name": "output"}],
        "command": ["p", "{input}"],
    },
    ("POST", "/batches"): {
        "app": "period",
        "jobs": [
            {"name": "n", "inputs": [{"file": FILE, "name": "input", "file_name": "a.b"}], "args": {"k": "1"}}
        ],
        "limits": {"rsc_fpops_est": 1e12},
        "open": True,
    },
    ("POST", "/batches/{batch_id:int}/jobs"): {
        "first": 1,
        "jobs": [{"inputs": [{"file": FILE}], "priority": 3}],
    },
    ("POST", "/keys"): {
        "public_key": "1024\n" + "ab" * 256 + "\n.\n",
        "successor_signatures": {"1": "ab"},
        "signatures": {},
    },
    ("POST", "/signatures"): {"signatures": {"main.sh": "ab" * 128}},
}


@st.composite
def nearly(draw: st.DrawFn, good: Any) -> Any:
    """A good value with one place changed."""
    if isinstance(good, dict) and good and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(good)))
        if not draw(st.integers(0, 5)):
            return {name: value for name, value in good.items() if name != key}
        return {**good, key: draw(nearly(good[key]))}
    if isinstance(good, list) and good and draw(st.integers(0, 5)):
        return [draw(nearly(good[0])), *good[1:]]
    return draw(st.one_of(st.just(good), TEXTS, NUMBERS, JUNK))


def requests(endpoint: AnsweredEndpoint) -> st.SearchStrategy[tuple[str, Any, Any]]:
    """Address, body and parameters."""
    parameters = [each.name for each in msgspec.structs.fields(endpoint.query)] if endpoint.query else ["x"]
    query = st.one_of(
        st.just({}),
        st.dictionaries(
            st.sampled_from(parameters), st.one_of(TEXTS, st.integers(-1, 5).map(str)), max_size=3
        ),
    )
    body = mostly(values(msgspec.inspect.type_info(endpoint.body)) if endpoint.body else st.just({}))
    if (endpoint.method, endpoint.path) in GOOD:
        body = st.one_of(body, nearly(GOOD[endpoint.method, endpoint.path]))
    return st.tuples(addresses(endpoint), body, query)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    """A project with some content."""
    folder: Path = tmp_path_factory.mktemp("fuzz")
    world = World(folder / "project")
    world.ctx.folder.code_sign_private.write_text(encode_private_key(world.key))
    client = ApiClient(world)
    client.add_app()
    client.post("/apps", {"name": "native", "outputs": [{"name": "out"}]})
    client.post("/batches", {"app": "period", "jobs": [client.job()]})
    client.post("/users", {"email": "a@example.org", "name": "A"})
    yield client
    world.close()


QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
#: There are many endpoints, and what they share is tried with each of them.
FEWER = settings(QUIET, max_examples=settings().max_examples * 2 // 5)


#: After this long without an end, an answer is a stream of events.
STREAM_SECONDS = 0.3
EVENTS = "text/event-stream"


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")
@FEWER
@given(data=st.data())
def test_any_request_is_done_or_refused(api: ApiClient, endpoint: AnsweredEndpoint, data: st.DataObject):
    path, body, query = data.draw(requests(endpoint))
    query.pop("wait", None)
    note(f"{endpoint.method} {path} {query} {body}")
    content = msgspec.json.encode(body)
    seconds = STREAM_SECONDS if endpoint.media_type == EVENTS else None
    try:
        answer = api.call(endpoint.method, path, content=content, params=query, within=seconds)
    except TimeoutError:
        return
    assert answer.status_code < 500 or answer.status_code == 503, answer.text
    if answer.is_error:
        assert set(answer.json()["error"]) == {"code", "message", "hint", "member"}


@QUIET
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]),
    path=st.text(st.characters(codec="ascii", exclude_characters="\\?#\x7f", min_codepoint=33), max_size=40),
    body=st.binary(max_size=200),
    header=st.text(string.ascii_letters + string.digits + " _-.", max_size=40),
)
def test_any_bytes_are_answered(api: ApiClient, method: str, path: str, body: bytes, header: str):
    url = f"{API}/{path}".replace("%", "%25")
    headers = {**api.headers, "Idempotency-Key": header, "Authorization": f"Bearer {header}"}
    answer = api.world.run(api.world.http.request(method, url, content=body, headers=headers))
    assert answer.status_code < 500
