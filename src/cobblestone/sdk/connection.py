"""HTTP: one request, its retries, and its errors."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from cobblestone.api_schema.problems import ErrorReply, Problem
from cobblestone.domain.errors import Busy
from cobblestone.ops.environment import person
from cobblestone.sdk.errors import BusyError, ConflictError, NotFoundError, RequestRefused, Unreachable
from cobblestone.sdk.in_process import open_in_process
from cobblestone.sdk.locate import Target, locate

T = TypeVar("T")

API = "/api/v1"
ATTEMPTS = 6
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
TIMEOUT_SECONDS = 60.0
HELD_SECONDS = 10.0
"""How long to wait for a folder that another process holds without saying where it listens."""
LOCAL_NAMES = ("127.", "localhost", "[::1]")
PIECE_NBYTES = 1 << 18
"""Of a file that is sent at once."""
_AGAIN = (429, 502, 503, 504)


class Connection:
    """Sends requests to one project.  May be used by several threads."""

    def __init__(
        self,
        client: httpx.Client,
        *,
        in_process: bool = False,
        folder: Path | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.folder = folder  #: the project's, when it lies on this machine
        self._client = client
        self._sleep = sleep
        self.in_process = in_process  #: whether the server is not running, and we stand in for it

    def close(self) -> None:
        """Close the connection (and, in process, the project)."""
        self._client.close()

    def get(self, path: str, kind: type[T], *, timeout: float = TIMEOUT_SECONDS, **query: object) -> T:
        """Read something."""
        return self._decode(self._send("GET", path, params=_query(query), timeout=timeout), kind)

    def post(self, path: str, body: object, kind: type[T], *, timeout: float = TIMEOUT_SECONDS) -> T:
        """Create something, or do something; a repetition after a lost answer does it once."""
        headers = {"Idempotency-Key": uuid.uuid4().hex, "Content-Type": "application/json"}
        return self._decode(
            self._send("POST", path, content=msgspec.json.encode(body), headers=headers, timeout=timeout),
            kind,
        )

    def put(self, path: str, body: object, kind: type[T]) -> T:
        """Set something."""
        headers = {"Content-Type": "application/json"}
        return self._decode(self._send("PUT", path, content=msgspec.json.encode(body), headers=headers), kind)

    def patch(self, path: str, body: object, kind: type[T]) -> T:
        """Change something."""
        headers = {"Content-Type": "application/json"}
        return self._decode(
            self._send("PATCH", path, content=msgspec.json.encode(body), headers=headers), kind
        )

    def delete(self, path: str, kind: type[T]) -> T:
        """Delete something."""
        return self._decode(self._send("DELETE", path), kind)

    def put_file(
        self,
        path: str,
        source: Path | bytes,
        kind: type[T],
        *,
        sent: Callable[[int], None] = lambda nbytes: None,
        **query: object,
    ) -> T:
        """Upload a file; ``sent`` hears of every part that went, and of less than nothing where it goes again."""
        total = 0

        def attempt() -> httpx.Response:
            nonlocal total
            sent(-total)
            total = 0
            nbytes = len(source) if isinstance(source, bytes) else source.stat().st_size
            headers = {"Content-Length": str(nbytes)}
            return self._request("PUT", path, params=_query(query), content=pieces(), headers=headers)

        def pieces() -> Generator[bytes]:
            nonlocal total
            with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as handle:
                while piece := handle.read(PIECE_NBYTES):
                    yield piece
                    total += len(piece)
                    sent(len(piece))

        return self._decode(self._again(attempt), kind)

    def get_bytes(self, path: str) -> bytes:
        """Read a file."""
        return self._send("GET", path).content

    @property
    def address(self) -> str:
        """Where requests go."""
        return str(self._client.base_url)

    def save(self, path: str, target: Path) -> None:
        """Read a file to disk, under a temporary name until it is complete."""
        self._save(API + path, target)

    def save_url(self, url: str, target: Path) -> None:
        """Read a public file of the project by its address; see :meth:`save`."""
        self._save("/download/" + url.partition("/download/")[2], target)

    def has_page(self, path: str) -> bool:
        """Whether the project has something at an address of its own."""
        try:
            with self._stream(f"/{path}"):
                return True
        except NotFoundError:
            return False

    def _save(self, path: str, target: Path) -> None:
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
        try:
            with self._stream(path) as answer, temporary.open("xb") as handle:
                for piece in answer.iter_bytes(1 << 18):
                    handle.write(piece)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def _stream(self, path: str) -> Generator[httpx.Response]:
        try:
            with self._client.stream("GET", path) as answer:
                if answer.is_error:
                    answer.read()
                    raise _problem(answer)
                yield answer
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:  # httpx's own options
        return self._again(lambda: self._request(method, path, **options))

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:  # httpx's own options
        return self._client.request(method, API + path, **options)

    def _again(self, attempt: Callable[[], httpx.Response]) -> httpx.Response:
        """Try until there is an answer that is worth having."""
        pause = FIRST_PAUSE_SECONDS
        for number in range(1, ATTEMPTS + 1):
            wait = pause
            try:
                answer = attempt()
            except httpx.TransportError as error:
                if number == ATTEMPTS or isinstance(error, httpx.UnsupportedProtocol):
                    raise self._unreachable(error) from error
            else:
                if not answer.is_error:
                    return answer
                if answer.status_code not in _AGAIN or number == ATTEMPTS:
                    raise _problem(answer)
                wait = max(pause, _retry_after(answer))
            self._sleep(wait * random.uniform(0.8, 1.2))
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        raise AssertionError("the last attempt returns or raises")

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        return Unreachable(
            f"The project at {self._client.base_url} does not answer ({error or type(error).__name__})."
            " Is the address right, and is the server running (cobblestone run)?"
        )

    def _decode(self, answer: httpx.Response, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.DecodeError as error:
            raise Unreachable(
                f"{answer.url} answered something that is not of this API. Is the address that of a cobblestone project"
                " of this version?"
            ) from error


def open_connection(target: Target) -> Connection:
    """Connect to a project: over HTTP if its server runs, else by opening the folder in this process.

    A server that is starting holds its folder before it says where it listens, and a command is done with it soon: such
    a folder is tried again for `HELD_SECONDS`.

    Raises:
        Unreachable: no address answers.
        BusyError: the folder is open in another process that cannot be reached.
    """
    end = time.monotonic() + HELD_SECONDS
    while True:
        try:
            return _open(target)
        except Busy as error:
            if target.folder is None or time.monotonic() > end:
                raise BusyError(str(error)) from error
            time.sleep(0.1)
            target = locate(target.folder, target.token)


def _open(target: Target) -> Connection:
    headers = {
        "Authorization": f"Bearer {target.token}",
        "Accept": "application/json",
        # The token of a project's folder may be used by several people: the audit log tells them apart.
        **({} if target.folder is None else {"X-Cobblestone-Person": person()}),
    }
    if not target.urls and target.folder is not None:
        transport = open_in_process(target.folder)
        client = httpx.Client(
            transport=transport, base_url=transport.url, headers=headers, timeout=TIMEOUT_SECONDS
        )
        return Connection(client, in_process=True, folder=target.folder)
    for url in target.urls[:-1]:
        client = _client(url, headers)
        try:
            client.get("/healthz", timeout=2.0)
        except httpx.TransportError:
            client.close()
        else:
            return Connection(client, folder=target.folder)
    return Connection(_client(target.urls[-1], headers), folder=target.folder)


def _client(url: str, headers: Mapping[str, str]) -> httpx.Client:
    host = url.partition("://")[2]
    return httpx.Client(
        base_url=url,
        headers=headers,
        timeout=httpx.Timeout(TIMEOUT_SECONDS, connect=10.0),
        trust_env=not host.startswith(LOCAL_NAMES),  # a proxy cannot reach this machine's own loopback
        follow_redirects=False,
    )


def _query(values: Mapping[str, object]) -> dict[str, str]:
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in values.items()
        if value is not None
    }


def _retry_after(answer: httpx.Response) -> float:
    text = answer.headers.get("Retry-After", "")
    return min(float(text), LONGEST_PAUSE_SECONDS) if text.isdecimal() else 0.0


_KINDS: dict[int, type[NotFoundError | ConflictError | BusyError]] = {
    404: NotFoundError,
    409: ConflictError,
    503: BusyError,
}


def _problem(answer: httpx.Response) -> RequestRefused:
    try:
        problem = msgspec.json.decode(answer.content, type=ErrorReply).error
    except msgspec.DecodeError:
        problem = Problem(
            code="unknown",
            message=(
                f"{answer.url} answered with status {answer.status_code}."
                " Is the address that of a cobblestone project?"
            ),
        )
    kind = _KINDS.get(answer.status_code)
    if kind is not None:
        return kind(problem.message, status=answer.status_code, code=problem.code, hint=problem.hint)
    return RequestRefused(
        problem.message,
        status=answer.status_code,
        code=problem.code,
        hint=problem.hint,
        member=problem.member,
    )
