"""Find the project and send it requests over HTTP, with retries; and the errors that can occur.

What can go wrong between a program and a project.

::

    CobblestoneError
    ├── ConfigError            a setting, folder or argument is wrong
    ├── JobError               a job description is wrong
    │   └── JobFailed          a job has no answer
    ├── Unreachable            the project does not answer
    ├── NotRunning             its server is not running, so nothing would ever finish
    └── RequestRefused         the project refused a request
        ├── NotFoundError      there is no such thing
        ├── ConflictError      it exists already, or its state does not allow this
        └── BusyError          the project cannot do this now
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from copy import copy
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from cobblestone.api_schema.apps import StoredFile
from cobblestone.api_schema.endpoints import PUT_FILE, Endpoint
from cobblestone.api_schema.values import PREFIX, Body, ErrorReply, Problem, Reply
from cobblestone.domain.errors import Busy, CobblestoneError, ConfigError, Conflict, JobError, NotFound
from cobblestone.ops.environment import (
    BACKUP_MANIFEST,
    FILE_NAME,
    PROJECT_VARIABLE,
    TOKEN_VARIABLE,
    connection_defaults,
    person,
    typed_word,
)
from cobblestone.ops.running import RUN_FILE, read_note


class RequestRefused(CobblestoneError):
    """The project refused a request.  The text says why, and what to do.

    Attributes:
        status: HTTP status.
        code: Stable, for programs.
        hint: What to do; it is also the end of the text.
        member: What of the request is wrong, as the text names it in backquotes; empty: the whole, or something else.

    >>> try:
    ...     project.submit("echo", [])
    ... except RequestRefused as error:
    ...     print(error.status, error.code)
    422 no_jobs
    """

    _usual: tuple[int, str] = (0, "")  # status and code

    def __init__(
        self, message: str, *, status: int = 0, code: str = "", hint: str = "", member: str = ""
    ) -> None:
        super().__init__(f"{message} {hint}".strip())
        self.member = member
        self.status = status or self._usual[0]
        self.code = code or self._usual[1]
        self.hint = hint


class NotFoundError(RequestRefused, NotFound):
    """There is no such app, batch, job … in the project.

    >>> try:
    ...     project.app("ecco")
    ... except NotFoundError as error:
    ...     print(error)
    There is no app called 'ecco'. Known: echo.
    """

    _usual = (404, "not_found")


class ConflictError(RequestRefused, Conflict):
    """The object already exists, or its state does not allow this.

    >>> try:
    ...     project.create_app("echo", "cat {input}", stdout="output")
    ... except ConflictError as error:
    ...     print(error)
    There is already an app called echo. Change it with: cobblestone app update echo --files …
    """

    _usual = (409, "conflict")


class BusyError(RequestRefused, Busy):
    """The project cannot do this now: it is overloaded, or another process holds its folder.  Try again."""

    _usual = (503, "busy")


class Unreachable(CobblestoneError):
    """The project does not answer."""


class NotRunning(CobblestoneError):
    """The project's server is not running, so no job would ever finish.  Start it with: cobblestone run"""


class JobFailed(JobError):
    """A job has no answer.

    Attributes:
        job_name: As it was submitted.
        stderr: The end of what the program wrote to its error output.

    >>> result = next(project.submit("echo", [cobblestone.Job(inputs=[b"1"], name="bad")]).results())
    >>> try:
    ...     result.json()
    ... except JobFailed as error:
    ...     print(error.job_name, bool(error.stderr))
    bad True
    """

    def __init__(self, message: str, *, job_name: str, stderr: str = "") -> None:
        super().__init__(message)
        self.job_name = job_name
        self.stderr = stderr


_TOKEN_FILE = Path("keys", "admin.token")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectAddress:
    """The location of a project."""

    urls: tuple[str, ...] = ()  #: addresses of its server, to be tried in this order; empty: not running
    token: str = ""
    folder: Path | None = None  #: when it lies on this machine


def locate(given: str | Path | None = None, token: str | None = None) -> ProjectAddress:
    """Find a project.

    ``given`` is an address (``http…``) or a folder; None: the variable COBBLESTONE_PROJECT, else the current folder,
    one above it, or the only project in it.

    Raises:
        ConfigError: there is no project there, or a remote one was given without a token.
    """
    defaults = connection_defaults()
    wanted = str(given) if given is not None else defaults.project
    if wanted.startswith(("http://", "https://")):
        key = (token or defaults.token).strip()  # as it was read from a file
        if not key:
            raise ConfigError(
                f"A token is needed for {wanted}. Give it with --token (token=… in Python) or in {TOKEN_VARIABLE}."
                " The operator makes one with: cobblestone token create NAME"
            )
        return ProjectAddress(urls=(wanted.rstrip("/"),), token=key)
    folder = Path(wanted).expanduser().absolute() if wanted else find_folder()
    return _local(folder, token or "")


def find_folder(start: Path | None = None) -> Path:
    """Return the project folder that contains ``start`` (by default the current folder), or the only one inside it.

    A backup beside the project is none.

    Raises:
        ConfigError: there is none, or several.
    """
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / FILE_NAME).is_file():
            return folder
    found = (path.parent for path in here.glob(f"*/{FILE_NAME}"))
    below = sorted(folder for folder in found if not (folder / BACKUP_MANIFEST).exists())
    if len(below) == 1:
        return below[0]
    if below:
        names = ", ".join(folder.name for folder in below)
        raise ConfigError(
            f"There are several projects here: {names}. Choose one, for instance -p {below[0].name}"
        )
    raise ConfigError(
        f"No project here: neither {here} nor a folder above it has a {FILE_NAME}. Choose one:"
        f" --project FOLDER or ADDRESS, or the variable {PROJECT_VARIABLE}; or create one: cobblestone project create DIR"
    )


def _local(folder: Path, token: str) -> ProjectAddress:
    if not (folder / FILE_NAME).is_file():
        raise ConfigError(
            f"{folder} is not a cobblestone project: it has no {FILE_NAME}."
            f" Create one with: cobblestone project create {typed_word(folder)}"
        )
    key = token or _admin_token(folder)
    running = read_note(folder / RUN_FILE)
    if running is None or not running.is_alive():
        return ProjectAddress(token=key, folder=folder)
    ways = (running.direct or running.url, running.url) if running.is_here() else (running.url,)
    return ProjectAddress(
        urls=tuple(dict.fromkeys(url.rstrip("/") for url in ways)), token=key, folder=folder
    )


def _admin_token(folder: Path) -> str:
    path = folder / _TOKEN_FILE
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}). Use the project as its owner, or by its address with a token of your own."
        ) from error


log = logging.getLogger(__name__)
R = TypeVar("R", bound=Reply | bytes)

ATTEMPTS = 6
PATIENT_ATTEMPTS = 125  # at 5 s: a server is upgraded, or its machine starts again
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 5.0
TIMEOUT_SECONDS = 60.0
#: How long to wait for a folder that another process holds without saying where it listens.
HELD_SECONDS = 10.0
LOCAL_NAMES = ("127.", "localhost", "[::1]")
#: Of a file that is sent at once.
PIECE_NBYTES = 1 << 18
_AGAIN = (429, 502, 503, 504)


class Connection:
    """Sends requests to one project.  Can be used by several threads."""

    def __init__(
        self,
        client: httpx.Client,
        *,
        in_process: bool = False,
        folder: Path | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._attempts = ATTEMPTS
        self.folder = folder  #: the project's, when it lies on this machine
        self._client = client
        self._sleep = sleep
        self.in_process = in_process  #: whether the server is not running, and we stand in for it

    def patient(self) -> Connection:
        """Return the same connection for a wait of days: it asks again for ten minutes at least, and says so."""
        other = copy(self)
        other._attempts = PATIENT_ATTEMPTS
        return other

    def close(self) -> None:
        """Close the connection (and, in process, the project)."""
        self._client.close()

    def call(
        self,
        endpoint: Endpoint[R],
        *places: int | str,
        body: Body | None = None,
        timeout: float = TIMEOUT_SECONDS,
        **query: object,
    ) -> R:
        """Call an endpoint and return its reply; the request is repeated while the project does not answer or is busy.

        ``places`` fill the parameters of the path in order; ``query`` members that are None are left out.  ``timeout`` is
        in seconds.

        Raises:
            RequestRefused: the project refused the request.
            Unreachable: it does not answer, or not as this API does.
        """
        options: dict[str, Any] = {"params": _query(query), "timeout": timeout, "headers": {}}
        if body is not None:
            options["headers"]["Content-Type"] = "application/json"
        if endpoint.idempotent:  # a repetition after a lost answer creates nothing twice
            options["headers"]["Idempotency-Key"] = uuid.uuid4().hex

        def attempt() -> httpx.Response:
            content = None if body is None else msgspec.json.encode(body)
            return self._request(endpoint, *places, content=content, **options)

        return self._decode(self._again(attempt), endpoint.reply)

    def put_file(
        self,
        sha256: str,
        source: Path | bytes,
        *,
        name: str | None = None,
        sent: Callable[[int], None] = lambda nbytes: None,
    ) -> StoredFile:
        """Upload a file; ``sent`` is called with the size of each part, and with a negative number when it starts over.

        ``sha256`` is the hash of the content; with ``name``, the physical name contains that name and the hash.
        """
        total = 0

        def attempt() -> httpx.Response:
            nonlocal total
            sent(-total)
            total = 0
            nbytes = len(source) if isinstance(source, bytes) else source.stat().st_size
            return self._request(
                PUT_FILE,
                sha256,
                params=_query({"name": name}),
                content=pieces(),
                headers={"Content-Length": str(nbytes)},
            )

        def pieces() -> Generator[bytes]:
            nonlocal total
            with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as handle:
                while piece := handle.read(PIECE_NBYTES):
                    yield piece
                    total += len(piece)
                    sent(len(piece))

        return self._decode(self._again(attempt), PUT_FILE.reply)

    @property
    def address(self) -> str:
        """Return the address that requests go to."""
        return str(self._client.base_url)

    def save(self, endpoint: Endpoint[bytes], *places: int | str, target: Path) -> None:
        """Download the file that an endpoint returns to disk, under a temporary name until it is complete."""
        self._save(PREFIX + endpoint.path_of(*places), target)

    def save_url(self, url: str, target: Path) -> None:
        """Read a public file of the project by its address; see :meth:`save`."""
        self._save("/download/" + url.partition("/download/")[2], target)

    def has_page(self, path: str) -> bool:
        """Return whether the project has a page at one of its addresses."""
        try:
            self._get(f"/{path}", lambda answer: None)
        except NotFoundError:
            return False
        return True

    def async_client(self, timeout: float) -> httpx.AsyncClient:
        """Return a client of the same project for an event loop; ``timeout`` is in seconds without a byte."""
        old = self._client
        return httpx.AsyncClient(
            base_url=old.base_url,
            headers={"authorization": old.headers["authorization"]},
            timeout=httpx.Timeout(timeout, connect=10.0),
            trust_env=old.trust_env,
        )

    def _save(self, path: str, target: Path) -> None:
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")

        def write(answer: httpx.Response) -> None:
            with temporary.open("wb") as handle:  # from the beginning again, after a cut
                for piece in answer.iter_bytes(1 << 18):
                    handle.write(piece)

        try:
            self._get(path, write)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def _get(self, path: str, read: Callable[[httpx.Response], None]) -> None:
        """Give an answer to ``read`` while its content comes; once more where that is cut off."""

        def attempt() -> httpx.Response:
            # A file may lie elsewhere: httpx leaves the token out there.
            with self._client.stream("GET", path, follow_redirects=True) as answer:
                if answer.is_error:
                    answer.read()
                else:
                    read(answer)
                return answer

        self._again(attempt)

    def _request(self, endpoint: Endpoint[Any], *places: int | str, **options: Any) -> httpx.Response:
        """Send a request; ``options`` are those of httpx."""
        return self._client.request(endpoint.method, PREFIX + endpoint.path_of(*places), **options)

    def _again(self, attempt: Callable[[], httpx.Response]) -> httpx.Response:
        """Repeat a request until it has a usable answer."""
        pause = FIRST_PAUSE_SECONDS
        for number in range(1, self._attempts + 1):
            wait = pause
            try:
                answer = attempt()
                if answer.next_request is not None:
                    self._follow(answer, answer.next_request.url)
                    continue
                if not answer.is_error:
                    return answer
                wait = max(pause, _retry_after(answer))
                raise problem_of(answer)
            except (httpx.TransportError, RequestRefused) as error:
                self.require_passing(error, number)
            except UnicodeEncodeError as error:  # a file's name, or what was typed
                raise JobError(
                    f"{error.object!r} cannot be sent, since it is not UTF-8: rename it."
                ) from error
            except (httpx.InvalidURL, UnicodeError) as error:  # too long, or a host that cannot be
                raise JobError(f"No request can have such an address: {error}.") from error
            self._sleep(wait * random.uniform(0.8, 1.2))
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        raise Unreachable(
            f"The project at {self.address} redirects from one address to the next without end."
        )

    def _follow(self, answer: httpx.Response, new: httpx.URL) -> None:
        """Use a project's new address on the same machine from now on; the token goes nowhere else, and not from https to http.

        Raises Unreachable for any other redirect.
        """
        old, path = answer.request.url, str(answer.request.url).removeprefix(self.address)
        safe = new.host == old.host and (new.scheme == "https" or old.scheme == "http")
        if not safe or answer.status_code == 303 or not str(new).endswith(path):
            raise Unreachable(
                f"The project at {self.address} redirects to {new!s:.200}. If it has moved, give its new address:"
                " your token is not sent there by itself."
            )
        self._client.base_url = str(new).removesuffix(path)

    def require_passing(self, error: httpx.TransportError | RequestRefused, number: int) -> None:
        """Return, after a warning when it takes long, if a request that failed ``number`` times shall be sent again.

        Raises RequestRefused, or Unreachable.
        """
        if isinstance(error, RequestRefused):
            if error.status not in _AGAIN or number >= self._attempts:
                raise error
        elif number >= self._attempts or isinstance(error, httpx.UnsupportedProtocol):
            raise Unreachable(
                f"The project at {self.address} does not answer ({str(error) or type(error).__name__})."
                " Is the address right, and is the server running (cobblestone run)?"
            ) from error
        if number == ATTEMPTS:
            log.warning("The project at %s does not answer; it is asked again for ten minutes.", self.address)

    def _decode(self, answer: httpx.Response, kind: type[R]) -> R:
        if issubclass(kind, bytes):
            return kind(answer.content)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.DecodeError as error:
            raise Unreachable(
                f"{answer.url} gave an answer that does not belong to this API. Is the address that of a cobblestone project"
                " of this version?"
            ) from error


def open_connection(target: ProjectAddress) -> Connection:
    """Connect to a project: over HTTP if its server runs, else by opening the folder in this process.

    A server that is starting holds its folder before it says where it listens, and a command is done with it soon: such
    a folder is tried again for `HELD_SECONDS`.

    Raises:
        ConfigError: the address is none, or the token is not ASCII.
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
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ConfigError(f"The project's address or the token cannot be used: {error}.") from error


def _open(target: ProjectAddress) -> Connection:
    headers = {
        "Authorization": f"Bearer {target.token}",
        "Accept": "application/json",
        # The token of a project's folder may be used by several people: the audit log tells them apart.
        **({} if target.folder is None else {"X-Cobblestone-Person": person()}),
    }
    if not target.urls and target.folder is not None:
        from cobblestone.sdk.api.in_process import open_in_process

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
        verify=url.startswith("https:"),  # to read the certificates takes longer than a request
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


_KINDS: dict[int, type[RequestRefused]] = {404: NotFoundError, 409: ConflictError, 503: BusyError}


def problem_of(answer: httpx.Response) -> RequestRefused:
    """Return the error that an answer tells."""
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
    kind = _KINDS.get(answer.status_code, RequestRefused)
    return kind(
        problem.message,
        status=answer.status_code,
        code=problem.code,
        hint=problem.hint,
        member=problem.member,
    )
