"""Bodies of 100 MB, silent and slow connections by the thousand: honest clients are served, and memory stays bounded."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.helpers.project_world import SimHost, World
from tests.helpers.server_process import RemoteWorld, Server

from cobblestone.demo.processes import free_port

N_IDLE = 1000
MIB = 2**20
BODY = 100 * MIB
MAY_GROW = 40 * MIB  #: what a server may hold more than before, whatever is thrown at it
POSTS = ["cgi-bin/cgi", "cgi-bin/file_upload_handler", "api/v1/batches", "api/v1/files", "login"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, SimHost]]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    folder: Path = tmp_path_factory.mktemp("hostile")
    world = World(
        folder / "project",
        project={"url": url},
        server={"port": port, "idle_seconds": 3},
        log={"level": "error"},
    )
    world.add_jobs(world.add_app(quorum=1), n=100)
    key = world.user("alice")
    world.close()
    running = Server(world.ctx.folder.root, url)
    running.start()
    remote = RemoteWorld(url)
    yield running, SimHost(remote, key, "0" * 32, {})
    remote.close()
    running.stop()


def honest_work(host: SimHost) -> None:
    """A host asks, computes, uploads, reports, and is served within seconds."""
    begin = time.monotonic()
    host.rpc(ask=1)
    names = list(host.held)
    assert names
    host.rpc(reports=[host.finish(name, b"answer") for name in names])
    assert time.monotonic() - begin < 10


def connection(server: Server) -> socket.socket:
    port = int(server.url.rstrip("/").rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def send_until_refused(server: Server, path: str, *, chunked: bool) -> bytes:
    """Send 100 MB; what came back until the server hung up or answered."""
    block = b"x" * 65_536
    with connection(server) as sock:
        length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {BODY}"
        sock.sendall(f"POST /{path} HTTP/1.1\r\nHost: x\r\n{length}\r\n\r\n".encode())
        with contextlib.suppress(ConnectionError):
            for _ in range(BODY // len(block)):
                sock.sendall(b"10000\r\n" + block + b"\r\n" if chunked else block)
        with contextlib.suppress(ConnectionError):
            return sock.recv(65_536)
    return b""


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
def test_bodies_of_100_megabytes_are_refused_without_being_held(
    server: tuple[Server, SimHost], chunked: bool
):
    process, host = server
    honest_work(host)
    before = process.rss()
    for path in POSTS:
        answer = send_until_refused(process, path, chunked=chunked)
        assert b" 500 " not in answer[:20], (path, answer[:200])
        assert process.rss() < before + MAY_GROW, path
    honest_work(host)


def test_many_large_bodies_at_once_share_one_bound(server: tuple[Server, SimHost]):
    process, host = server
    before = process.rss()
    with contextlib.ExitStack() as stack:
        senders = [stack.enter_context(connection(process)) for _ in range(40)]
        for sock in senders:  # 240 MB together, and none ends
            sock.sendall(b"POST /cgi-bin/cgi HTTP/1.1\r\nHost: x\r\nContent-Length: 7000000\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                sock.sendall(b"x" * 6_000_000)
        assert process.rss() < before + 110 * MIB
        honest_work(host)


def test_a_thousand_silent_connections_do_not_keep_others_out(server: tuple[Server, SimHost]):
    process, host = server
    honest_work(host)
    before = process.rss()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        with contextlib.ExitStack() as stack:
            silent = [stack.enter_context(connection(process)) for _ in range(N_IDLE)]
            for sock in silent[::2]:  # half of them begin, and never end
                sock.sendall(b"POST /cgi-bin/cgi HTTP/1.1\r\nHost: x\r\nContent-Le")
            honest_work(host)
            assert process.rss() < before + MAY_GROW
            silent[0].settimeout(20)
            silent[1].settimeout(20)
            assert silent[1].recv(1) == b"", "a connection without a request is closed"
            assert silent[0].recv(100)[:12] in (b"", b"HTTP/1.1 408"), "so is one whose request does not come"
            honest_work(host)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_slow_sender_is_waited_for_only_so_long(server: tuple[Server, SimHost]):
    process, host = server
    with connection(process) as sock:
        sock.sendall(
            b"POST /cgi-bin/cgi HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n<scheduler_request>"
        )
        begin = time.monotonic()
        honest_work(host)
        sock.settimeout(30)
        sock.recv(1000)
        assert time.monotonic() - begin < 25


def test_requests_that_are_no_http_get_an_answer_or_a_closed_door(server: tuple[Server, SimHost]):
    process, host = server
    for rubbish in (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100_000,
                    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
                    b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(20_000)) + b"\r\n"):  # fmt: skip
        with connection(process) as sock, contextlib.suppress(ConnectionError):
            sock.sendall(rubbish)
            assert b" 500 " not in sock.recv(4096)[:20]
    assert httpx.get(f"{process.url}healthz").status_code == 200
    honest_work(host)
