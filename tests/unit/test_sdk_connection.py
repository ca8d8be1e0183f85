"""Retries and errors of the SDK, against answers that a test makes up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from cobblestone.api_schema import endpoints, values
from cobblestone.api_schema.batches import BatchStatus, JobStatus, OutputFile, ResultsPage
from cobblestone.api_schema.endpoints import Endpoint
from cobblestone.api_schema.people import NewNews
from cobblestone.domain.errors import Busy, Conflict, NotFound
from cobblestone.sdk.api.batch import Batch, Outputs
from cobblestone.sdk.api.connection import (
    ATTEMPTS,
    LONGEST_PAUSE_SECONDS,
    PIECE_NBYTES,
    Connection,
    RequestRefused,
    Unreachable,
)
from cobblestone.sdk.asynchronous import AsyncBatch


class Server:
    """Answers requests in turn; remembers them."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.slept: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def connection(self) -> Connection:
        client = httpx.Client(transport=httpx.MockTransport(self), base_url="http://project/sub")
        return Connection(client, sleep=self.slept.append)


def good(body: Any = None) -> httpx.Response:
    return httpx.Response(200, json=body if body is not None else {})


def refused(status: int, **headers: str) -> httpx.Response:
    body = {"error": {"code": "some_code", "message": "What and where.", "hint": "What to do."}}
    return httpx.Response(status, json=body, headers=headers)


class Reply(values.Reply, frozen=True):
    """A reply of the endpoint that these tests call."""

    a: int = 0


GET = Endpoint("GET", "/x", None, "x", Reply)
POST = Endpoint("POST", "/x", None, "x", Reply, body=NewNews, idempotent=True)
NEWS = NewNews(title="t", text="x")
DONE = JobStatus(
    id=1,
    name="a",
    workunit="w",
    status="done",
    seq=1,
    error="",
    exit_status=None,
    stderr="",
    outputs=[OutputFile(name="output", nbytes=3, url="/output")],
)
BATCH = BatchStatus(
    id=7,
    name="a",
    app="a",
    state="running",
    created=0.0,
    completed=None,
    njobs=1,
    n_success=0,
    n_error=0,
    running=1,
    finished=False,
    notes=[],
)
STORED = {"name": "f_5a", "nbytes": 7, "md5": "6d"}


def test_requests_go_below_the_project_s_address():
    server = Server(good({"versions": []}))
    server.connection().call(endpoints.LIST_VERSIONS, "a/b", limit=3, deprecated=True, before=None)
    assert (
        str(server.requests[0].url) == "http://project/sub/api/v1/apps/a%2Fb/versions?limit=3&deprecated=true"
    )


@pytest.mark.parametrize("places", [(), (1, 2)], ids=["too few", "too many"])
def test_a_path_takes_as_many_values_as_it_has_places(places: tuple[int, ...]):
    with pytest.raises(ValueError, match="zip"):
        endpoints.GET_HOST.path_of(*places)


@pytest.mark.parametrize("trouble", [httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), refused(503)])
def test_passing_trouble_is_retried(trouble: httpx.Response | Exception):
    server = Server(trouble, trouble, good({"a": 1}))
    assert server.connection().call(GET) == Reply(a=1)
    assert len(server.requests) == 3
    assert 0 < server.slept[0] < server.slept[1]


def test_a_repeated_post_carries_the_same_key():
    server = Server(httpx.ReadError("cut"), good())
    server.connection().call(POST, body=NEWS)
    keys = {request.headers["idempotency-key"] for request in server.requests}
    assert len(server.requests) == 2
    assert len(keys) == 1


def test_different_posts_carry_different_keys():
    server = Server(good())
    connection = server.connection()
    connection.call(POST, body=NEWS)
    connection.call(POST, body=NEWS)
    assert server.requests[0].headers["idempotency-key"] != server.requests[1].headers["idempotency-key"]


def test_lasting_trouble_ends_after_a_few_attempts():
    server = Server(httpx.ConnectError("refused"))
    with pytest.raises(Unreachable, match="cobblestone run"):
        server.connection().call(GET)
    assert len(server.requests) == ATTEMPTS


def test_the_server_s_wish_to_wait_is_respected():
    server = Server(refused(503, **{"Retry-After": "4"}), good())
    server.connection().call(GET)
    assert server.slept[0] > 3


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, RequestRefused), (401, RequestRefused), (404, NotFound), (409, Conflict), (422, RequestRefused)],
)
def test_a_refusal_is_not_retried(status: int, kind: type[Exception]):
    server = Server(refused(status))
    with pytest.raises(kind) as raised:
        server.connection().call(GET)
    assert len(server.requests) == 1
    error = raised.value
    assert isinstance(error, RequestRefused)
    assert (error.status, error.code, error.hint) == (status, "some_code", "What to do.")
    assert str(error) == "What and where. What to do."


def test_a_project_that_stays_busy_is_busy():
    with pytest.raises(Busy):
        Server(refused(503)).connection().call(GET)


@pytest.mark.parametrize(
    "answer", [httpx.Response(200, text="<html>hello</html>"), httpx.Response(404, text="<html>no</html>")]
)
def test_an_address_of_something_else_is_noticed(answer: httpx.Response):
    with pytest.raises((Unreachable, NotFound), match="cobblestone project"):
        Server(answer).connection().call(GET)


def test_a_file_is_sent_again_from_its_beginning(tmp_path: Path):
    (tmp_path / "f").write_bytes(b"content")
    server = Server(httpx.WriteError("cut"), good(STORED))
    server.connection().put_file("5a", tmp_path / "f", name="f")
    assert [request.content for request in server.requests] == [b"content"] * 2
    assert server.requests[1].headers["content-length"] == "7"


def test_a_file_is_saved_whole_or_not_at_all(tmp_path: Path):
    Server(httpx.Response(200, content=b"data")).connection().save(
        endpoints.GET_ZIP, 7, target=tmp_path / "f"
    )
    assert (tmp_path / "f").read_bytes() == b"data"
    with pytest.raises(NotFound):
        Server(refused(404)).connection().save(endpoints.GET_ZIP, 7, target=tmp_path / "g")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("trouble", [httpx.ConnectError("refused"), httpx.ReadError("cut"), refused(502)])
def test_a_download_begins_again_after_passing_trouble(trouble: httpx.Response | Exception, tmp_path: Path):
    server = Server(trouble, trouble, httpx.Response(200, content=b"data"))
    server.connection().save(endpoints.GET_ZIP, 7, target=tmp_path / "f")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_bytes() == b"data"


class Cut(httpx.SyncByteStream):
    """The first bytes of an answer, and then the connection is gone."""

    def __iter__(self) -> Iterator[bytes]:
        yield b"da"
        raise httpx.ReadError("cut")


def test_a_download_that_is_cut_off_is_saved_whole(tmp_path: Path):
    class CutOnce(Server):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            answer = super().__call__(request)
            return httpx.Response(200, stream=Cut()) if len(self.requests) == 1 else answer

    CutOnce(httpx.Response(200, content=b"data")).connection().save(
        endpoints.GET_ZIP, 7, target=tmp_path / "f"
    )
    assert (tmp_path / "f").read_bytes() == b"data"


def test_outputs_are_fetched_as_patiently_as_they_were_waited_for(tmp_path: Path):
    away = [httpx.ConnectError("refused")] * 100
    server = Server(*away, httpx.Response(200, content=b"one"), *away, httpx.Response(200, content=b"two"))
    outputs = Outputs(server.connection(), 7, DONE)
    assert outputs["output"] == b"one"
    outputs.save("output", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"two"


def test_an_event_loop_waits_as_patiently_for_a_server_that_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def at_once(seconds: float) -> None:
        assert seconds <= LONGEST_PAUSE_SECONDS

    async def names() -> list[str]:
        return [result.name async for result in AsyncBatch(Batch(server.connection(), BATCH))]

    page = msgspec.json.encode(ResultsPage(results=[DONE], next=1, finished=True)).decode()
    away = [httpx.ConnectError("refused"), refused(502)] * 30
    server = Server(*away, httpx.Response(200, text=f"data: {page}\n"))
    client = httpx.AsyncClient(transport=httpx.MockTransport(server), base_url="http://project")
    monkeypatch.setattr(Connection, "async_client", lambda self, timeout: client)
    monkeypatch.setattr(asyncio, "sleep", at_once)
    assert asyncio.run(names()) == ["a"]
    assert "is asked again for ten minutes" in caplog.text


def test_members_that_are_new_in_a_reply_do_no_harm():
    assert Server(good({"a": 1, "b": 2})).connection().call(GET).a == 1


def test_the_package_gives_connect_without_loading_it_first():
    import subprocess
    import sys

    code = "import sys, cobblestone; assert 'httpx' not in sys.modules; cobblestone.connect; assert 'httpx' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_who_sends_a_file_hears_of_every_part_and_of_what_goes_again(tmp_path: Path):
    content = bytes(3 * PIECE_NBYTES + 5)
    (tmp_path / "large").write_bytes(content)
    for source in (tmp_path / "large", content):
        server, told = Server(refused(503), good(STORED)), list[int]()
        server.connection().put_file("5a", source, sent=told.append)
        whole = [PIECE_NBYTES] * 3 + [5]
        assert told == [0, *whole, -len(content), *whole]
        assert [each.content for each in server.requests] == [content] * 2
        assert server.requests[1].headers["Content-Length"] == str(len(content))


def moved(status: int, to: str) -> httpx.Response:
    return httpx.Response(status, headers={"Location": to})


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_project_that_redirects_gets_the_whole_request_at_its_new_address(status: int, tmp_path: Path):
    server = Server(moved(status, "https://project/new/api/v1/files/5a"), good(STORED))
    (tmp_path / "f").write_bytes(b"content")
    connection = server.connection()
    connection.put_file("5a", tmp_path / "f")
    assert [(each.method, each.content) for each in server.requests] == [("PUT", b"content")] * 2
    assert connection.address == "https://project/new/"


@pytest.mark.parametrize("to", ["http://other.example.org/sub/api/v1/x", "https://project/login"])
def test_a_token_is_not_sent_to_another_place(to: str):
    server = Server(moved(301, to), good())
    with pytest.raises(Unreachable, match="give its new address"):
        server.connection().call(POST, body=NEWS)
    assert len(server.requests) == 1


def test_a_token_is_not_sent_from_https_to_http():
    server = Server(moved(307, "http://project/sub/api/v1/x"), good())
    client = httpx.Client(transport=httpx.MockTransport(server), base_url="https://project/sub")
    with pytest.raises(Unreachable, match="give its new address"):
        Connection(client).call(POST, body=NEWS)


def test_redirects_without_end_are_given_up():
    with pytest.raises(Unreachable, match="without end"):
        Server(moved(301, "http://project/sub/api/v1/x")).connection().call(GET)
