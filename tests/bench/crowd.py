"""A crowd: ten times as many computers call as the server can serve, each from an address of its own.

An open loop, unlike `load`: a call begins when its time has come, whether or not earlier ones were answered.  Whoever is sent
away keeps away for as long as the reply says, as clients do; whoever finds no connection comes again a minute later.
"""

from __future__ import annotations

import itertools
import multiprocessing
import re
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import httpx
from tests.bench.load import Messages
from tests.bench.project import BenchProject, added_volunteer

TICK_SECONDS = 0.005
PATIENCE_SECONDS = 30.0  #: that a computer waits for its answer
MAX_OPEN = 8000  #: connections at once, of this process

_SENT_AWAY = b"The server is busy."
_DELAY = re.compile(rb"<request_delay>([0-9.]+)")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass
class CrowdCounts:
    """What became of the calls."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    calls: int = 0
    served: int = 0
    sent_away: int = 0
    failed: int = 0  #: no connection, no answer in time
    late: float = 0.0  #: seconds that the last call began after its time: the load generator's own fault
    served_latencies: list[float] = field(default_factory=list[float])
    delays: list[float] = field(default_factory=list[float])  #: seconds that were asked for


@dataclass(slots=True)
class _Call:
    socket: socket.socket
    request: bytes
    begin: float
    received: bytearray = field(default_factory=bytearray)


_callers: Iterator[int] = itertools.count(1)
"""Nobody calls twice: whoever was sent away keeps away for longer than a run takes."""


def _run(url: str, *, code_sign_key: str, rate: float, seconds: float) -> CrowdCounts:
    """Let computers call at a rate, one after the other; those that are under way at the end are not counted."""
    counts = CrowdCounts()
    messages = Messages(url, code_sign_key=code_sign_key, seconds=1.0)
    host, _, port = url.split("//", 1)[1].split("/", 1)[0].rpartition(":")
    place = (host, int(port))
    poll = select.epoll()
    open_calls: dict[int, _Call] = {}
    oldest: deque[_Call] = deque()
    begin, cpu_begin = time.perf_counter(), time.process_time()

    def end_call(call: _Call) -> None:
        descriptor = call.socket.fileno()
        if open_calls.pop(descriptor, None) is not None:
            poll.unregister(descriptor)
        call.socket.close()

    while (now := time.perf_counter()) - begin < seconds:
        due = int((now - begin) * rate) - counts.calls
        for _ in range(min(due, MAX_OPEN - len(open_calls), 200)):
            number = next(_callers)
            volunteer = added_volunteer(number)
            counts.calls += 1
            request = messages.scheduler(volunteer, ask=False, report=[])
            call = _begin(place, _address(number), request, now)
            open_calls[call.socket.fileno()] = call
            oldest.append(call)
            poll.register(call.socket.fileno(), select.EPOLLOUT)
        for descriptor, event in poll.poll(TICK_SECONDS, 500):
            call = open_calls[descriptor]
            try:
                if event & select.EPOLLOUT:
                    sent = call.socket.send(call.request)
                    call.request = call.request[sent:]
                    if not call.request:
                        poll.modify(descriptor, select.EPOLLIN)
                elif _is_complete(call):
                    _count(counts, call, time.perf_counter())
                    end_call(call)
            except OSError:
                counts.failed += 1
                end_call(call)
        while oldest and (oldest[0].socket.fileno() < 0 or now - oldest[0].begin > PATIENCE_SECONDS):
            call = oldest.popleft()
            if call.socket.fileno() >= 0:
                counts.failed += 1
                end_call(call)
    counts.seconds = time.perf_counter() - begin
    counts.cpu_seconds = time.process_time() - cpu_begin
    counts.late = counts.seconds - counts.calls / rate
    for call in list(open_calls.values()):
        end_call(call)
    poll.close()
    return counts


def _address(number: int) -> str:
    """Return an address of this machine of its own, but for the one that proxies have."""
    return f"127.{1 + number // 62_500 % 250}.{number // 250 % 250}.{1 + number % 250}"


def _begin(place: tuple[str, int], address: str, request: bytes, now: float) -> _Call:
    caller = socket.socket()
    caller.setblocking(False)
    caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    caller.bind((address, 0))
    caller.connect_ex(place)
    return _Call(caller, request, now)


def _is_complete(call: _Call) -> bool:
    """Take what has come of the answer; whether it is all here."""
    chunk = call.socket.recv(262_144)
    call.received += chunk
    head = call.received.find(b"\r\n\r\n")
    length = _LENGTH.search(call.received, 0, head + 2) if head >= 0 else None
    if length is not None and len(call.received) >= head + 4 + int(length[1]):
        return True
    if not chunk:
        raise OSError("the connection was closed before the answer was complete")
    return False


def _count(counts: CrowdCounts, call: _Call, now: float) -> None:
    delay = _DELAY.search(call.received)
    if not call.received.startswith(b"HTTP/1.1 200") or delay is None:
        raise SystemExit(f"the server answered {bytes(call.received[:500])!r}")
    if _SENT_AWAY in call.received:
        counts.sent_away += 1
        counts.delays.append(float(delay[1]))
    else:
        counts.served += 1
        counts.served_latencies.append(now - call.begin)


class CrowdProcess:
    """The crowd, in a process of its own."""

    def __init__(self, project: BenchProject) -> None:
        """``project``: with `add_hosts` computers."""
        self.url = project.url
        self._key = project.code_sign_key
        self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    def __enter__(self) -> CrowdProcess:
        self._pool.submit(int).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def run(self, *, rate: float, seconds: float) -> CrowdCounts:
        """Let computers call."""
        work = partial(_run, self.url, code_sign_key=self._key, rate=rate, seconds=seconds)
        return self._pool.submit(work).result()


@contextmanager
def visiting(url: str) -> Generator[list[float]]:
    """Look at the status page again and again while the block runs, each time as a new visitor; seconds of each look."""
    looks: list[float] = []
    ended = threading.Event()
    context = ssl.create_default_context()  # made once: it takes longer than the page

    def look() -> None:
        while not ended.wait(0.1):
            begin = time.perf_counter()
            httpx.get(f"{url}server_status.php", timeout=60, verify=context).raise_for_status()
            looks.append(time.perf_counter() - begin)

    visitor = threading.Thread(target=look)
    visitor.start()
    try:
        yield looks
    finally:
        ended.set()
        visitor.join()
