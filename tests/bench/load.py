"""A lean load generator: many volunteers on a few connections, with the bytes of the family's client 7.20.5.

It shares the machine with the server, so it does as little as possible: bodies are joined from prepared pieces, one loop
with `epoll` drives plain sockets, and replies are searched, not parsed.  Each request comes on a connection of its own, since
computers call minutes apart; ``keep_alive`` keeps one connection for as long as possible instead.
"""

from __future__ import annotations

import hashlib
import os
import re
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MESSAGES = Path(__file__).parent / "messages"
SCHEDULER = "/cgi-bin/cgi"
UPLOAD = "/cgi-bin/file_upload_handler"
REPLY_TIMEOUT = 30.0
OUTPUT_NBYTES = 1024

_RESULT = re.compile(rb"<result>\s*<name>([^<]+)")
_OUTPUT = re.compile(
    rb"<name>([^<]+)</name>\s*<max_nbytes>\d+</max_nbytes>\s*<url>[^<]*</url>\s*<xml_signature>\n([^<]*)</xml_signature>"
)
_ACK = re.compile(rb"<result_ack>\s*<name>([^<]+)")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def template(name: str, **values: str) -> str:
    """One of the written-down messages with some of its places filled in."""
    text = (MESSAGES / name).read_text()
    for place, value in values.items():
        text = text.replace(f"@{place.upper()}@", value)
    return text


@dataclass(slots=True)
class Volunteer:
    """A computer of a volunteer, and the jobs that it has."""

    authenticator: str
    host_id: int
    seqno: int = 1
    held: list[bytes] = field(default_factory=list[bytes])
    signatures: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])  #: by name of the output
    pieces: tuple[bytes, ...] = ()  #: of its scheduler request, made at first use


class Messages:
    """Makes requests out of the templates."""

    def __init__(self, url: str, *, code_sign_key: str, seconds: float) -> None:
        address = url.split("//", 1)[1].split("/", 1)[0]
        head = template("head.txt", address=address).replace("\n", "\r\n")
        self._heads = {
            path: [part.encode() for part in head.replace("@PATH@", path).split("@LENGTH@")]
            for path in (SCHEDULER, UPLOAD)
        }
        self._request = template(
            "scheduler_request.xml", key=code_sign_key.strip() + "\n", seconds=f"{seconds:f}"
        )
        self._idle = template("scheduler_request.xml", key=code_sign_key.strip() + "\n", seconds="0.000000")
        self._held = template("held_result.xml").encode()
        self.output = os.urandom(OUTPUT_NBYTES // 2).hex().encode()
        md5 = hashlib.md5(self.output, usedforsecurity=False).hexdigest()
        self._report = template("reported_result.xml", url=url, md5=md5).encode()
        upload = template("upload.xml", nbytes=str(OUTPUT_NBYTES), max_nbytes="1000000", md5=md5)
        before, rest = upload.split("@NAME@")
        middle, end = rest.split("@SIGNATURE@")
        self._upload = (before.encode(), middle.encode(), end.encode() + self.output)

    def scheduler(self, volunteer: Volunteer, *, ask: bool, report: list[bytes]) -> bytes:
        """A scheduler request that reports some jobs and lists the others that are held."""
        if not volunteer.pieces:
            text = self._request if ask else self._idle
            text = text.replace("@AUTHENTICATOR@", volunteer.authenticator)
            text = text.replace("@HOST@", str(volunteer.host_id))
            text = text.replace("@HOST_CPID@", f"{volunteer.host_id:032x}")
            text = text.replace("@CPID@", volunteer.authenticator)
            volunteer.pieces = tuple(
                part.encode() for part in re.split("@SEQNO@|@REPORTS@|@HELD@", text, maxsplit=3)
            )
        reported = set(report)
        before, after_seqno, after_reports, end = volunteer.pieces
        volunteer.seqno += 1
        parts = [before, str(volunteer.seqno).encode(), after_seqno]
        parts += [self._report.replace(b"@NAME@", name) for name in report]
        parts.append(after_reports)
        parts += [self._held.replace(b"@NAME@", name) for name in volunteer.held if name not in reported]
        parts.append(end)
        return self._framed(SCHEDULER, parts)

    def upload(self, name: bytes, signature: bytes) -> bytes:
        """The upload of one small output."""
        before, middle, end = self._upload
        return self._framed(UPLOAD, [before, name, middle, signature, end])

    def _framed(self, path: str, parts: list[bytes]) -> bytes:
        start, end = self._heads[path]
        return b"".join([start, str(sum(map(len, parts))).encode(), end, *parts])


@dataclass
class Counts:
    """What was measured."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0  #: of the load itself
    requests: int = 0  #: to the scheduler
    uploads: int = 0
    jobs: int = 0  #: received
    reports: int = 0  #: acknowledged
    empty: int = 0  #: requests for work that got none
    scheduler_latencies: list[float] = field(default_factory=list[float])
    upload_latencies: list[float] = field(default_factory=list[float])


def together(parts: Sequence[Counts]) -> Counts:
    """What was measured in several runs, as one."""
    return Counts(
        seconds=sum(part.seconds for part in parts),
        cpu_seconds=sum(part.cpu_seconds for part in parts),
        requests=sum(part.requests for part in parts),
        uploads=sum(part.uploads for part in parts),
        jobs=sum(part.jobs for part in parts),
        reports=sum(part.reports for part in parts),
        empty=sum(part.empty for part in parts),
        scheduler_latencies=[each for part in parts for each in part.scheduler_latencies],
        upload_latencies=[each for part in parts for each in part.upload_latencies],
    )


Conversation = Generator[bytes, bytes, None]
"""Gives requests, gets the bodies of the replies."""


class LoadError(Exception):
    """The server did not answer as it should."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the volunteers do."""

    ask: bool = True  #: for as many jobs as ``Messages`` has seconds for
    report: bool = False  #: what they hold
    upload: bool = False  #: the outputs of what they report
    report_at_most: int = 1000
    keep_signatures: bool = False  #: of the outputs that may be uploaded; costs time
    only_upload: bool = False  #: the outputs of what they hold, and nothing else
    once: bool = False  #: each calls once, however long it takes
    may_be_empty: bool = False  #: a request for work may get none


def converse(
    messages: Messages, waiting: deque[Volunteer], plan: Plan, counts: Counts, going_on: Callable[[], bool]
) -> Conversation:
    """What happens on one connection: one volunteer after the other calls."""
    while going_on() and waiting:
        volunteer = waiting.popleft()
        report = volunteer.held[: plan.report_at_most] if plan.report else []
        outputs = [name + b"_0" for name in report] if plan.upload else []
        if plan.only_upload:
            outputs = list(volunteer.signatures)
        for output in outputs:
            begin = time.perf_counter()
            reply = yield messages.upload(output, volunteer.signatures.pop(output))
            counts.upload_latencies.append(time.perf_counter() - begin)
            counts.uploads += 1
            if b"<status>0</status>" not in reply:
                raise LoadError(f"an upload was refused: {reply[:300]!r}")
        if plan.only_upload or (plan.report and not plan.ask and not report):
            continue
        begin = time.perf_counter()
        reply = yield messages.scheduler(volunteer, ask=plan.ask, report=report)
        counts.scheduler_latencies.append(time.perf_counter() - begin)
        counts.requests += 1
        _take_reply(volunteer, reply, report, plan, counts)
        if not plan.once:
            waiting.append(volunteer)


def _take_reply(volunteer: Volunteer, reply: bytes, report: list[bytes], plan: Plan, counts: Counts) -> None:
    acks = _ACK.findall(reply)
    if len(acks) != len(report):
        raise LoadError(f"{len(report)} results were reported, {len(acks)} acknowledged: {reply[:2000]!r}")
    counts.reports += len(acks)
    if report:
        gone = set(report)
        volunteer.held = [name for name in volunteer.held if name not in gone]
    names = _RESULT.findall(reply)
    counts.empty += plan.ask and not names
    if plan.ask and not names and not plan.may_be_empty:
        raise LoadError(f"no jobs came: {reply[:2000]!r}")
    counts.jobs += len(names)
    volunteer.held += names
    if plan.upload or plan.keep_signatures:
        volunteer.signatures.update(_OUTPUT.findall(reply))


class _Line:
    """One connection at a time, and the conversation on it."""

    __slots__ = ("begin", "conversation", "end", "received", "socket")

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.socket: socket.socket | None = None
        self.received = bytearray()
        self.begin = 0  # of the reply's body
        self.end = -1  # of the body; -1: not known yet


def drive(
    address: tuple[str, int], conversations: Iterator[Conversation], *, keep_alive: bool = False
) -> None:
    """Carry on several conversations at once until all have ended."""
    poll = select.epoll()
    lines: dict[int, _Line] = {}

    def send(line: _Line, data: bytes) -> None:
        if line.socket is None:
            line.socket = socket.create_connection(address, timeout=REPLY_TIMEOUT)
            line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            lines[line.socket.fileno()] = line
            poll.register(line.socket.fileno(), select.EPOLLIN)
        line.socket.sendall(data)

    def hang_up(line: _Line) -> None:
        if line.socket is not None:
            poll.unregister(line.socket.fileno())
            del lines[line.socket.fileno()]
            line.socket.close()
            line.socket = None

    def advance(line: _Line, reply: bytes | None) -> None:
        try:
            request = next(line.conversation) if reply is None else line.conversation.send(reply)
        except StopIteration:
            hang_up(line)
        else:
            send(line, request)

    for conversation in conversations:
        advance(_Line(conversation), None)
    while lines:
        events = poll.poll(REPLY_TIMEOUT)
        if not events:
            raise LoadError(f"no reply for {REPLY_TIMEOUT:g} s")
        for descriptor, _ in events:
            line = lines[descriptor]
            reply = _receive(line)
            if reply is not None:
                if not keep_alive:
                    hang_up(line)
                advance(line, reply)
    poll.close()


def _receive(line: _Line) -> bytes | None:
    """The body of the reply, when it is complete."""
    assert line.socket is not None
    chunk = line.socket.recv(262_144)
    received = line.received
    received += chunk
    if line.end < 0 and (head := received.find(b"\r\n\r\n")) >= 0:
        length = _LENGTH.search(received, 0, head + 2)
        if not received.startswith(b"HTTP/1.1 200") or length is None:
            raise LoadError(f"the server answered {bytes(received)[:500]!r}")
        line.begin = head + 4
        line.end = line.begin + int(length[1])
    if 0 <= line.end <= len(received):
        reply = bytes(received[line.begin : line.end])
        received.clear()
        line.end = -1
        return reply
    if not chunk:
        raise LoadError("the server closed the connection before its reply was complete")
    return None


def run(
    url: str,
    volunteers: list[Volunteer],
    plan: Plan,
    *,
    code_sign_key: str,
    job_seconds: float,
    seconds: float,
    connections: int,
    keep_alive: bool = False,
) -> Counts:
    """Let the volunteers call for some seconds; they call in turn, and keep what they got."""
    counts = Counts()
    messages = Messages(url, code_sign_key=code_sign_key, seconds=job_seconds)
    for volunteer in volunteers:
        volunteer.pieces = ()
    waiting = deque(volunteers)
    host, _, port = url.split("//", 1)[1].split("/", 1)[0].rpartition(":")
    begin, cpu_begin = time.perf_counter(), time.process_time()
    end = float("inf") if plan.once else begin + seconds

    def going_on() -> bool:
        return time.perf_counter() < end

    drive(
        (host, int(port)),
        (converse(messages, waiting, plan, counts, going_on) for _ in range(connections)),
        keep_alive=keep_alive,
    )
    counts.seconds = time.perf_counter() - begin
    counts.cpu_seconds = time.process_time() - cpu_begin
    return counts
