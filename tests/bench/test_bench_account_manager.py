"""Contacts of computers a second at an account manager: real HTTP, durable commits, a process of its own.

``pytest -s tests/bench/test_bench_account_manager.py``
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from tests.helpers.manager_world import ManagerWorld
from tests.helpers.wire_captures import recorded

from cobblestone.demo.processes import free_port
from cobblestone.store.engine.database import Store

N_HOSTS = 1000
CONNECTIONS = 32
SECONDS = 12.0
MOST_OF_HTTP = 15.0
"""A contact may cost so many times the CPU of an empty answer over the same HTTP, whatever else the machine does."""


def bodies_of(key: str) -> list[bytes]:
    """The recorded request of the stock client, of many computers."""
    body = recorded("22", "request").decode()
    name, rest = body.split("   <name>", 1)
    body = f"{name}   <authenticator>{key}</authenticator>\n{rest.split('</password_hash>', 1)[1]}"
    body = body.replace("http://127.0.0.1:18080/mock/", "http://p1.example.org/")
    return [
        body.replace("fd41c81f9950857f4fa4203e04e920d6", f"{each:032x}").encode() for each in range(N_HOSTS)
    ]


def obedient(body: bytes, answer: bytes) -> bytes:
    """The request of a computer that keeps what the account manager gave it to keep, as clients do."""
    kept = answer.split(b"<opaque>", 1)[1].split(b"</opaque>", 1)[0]
    return body.replace(b"</acct_mgr_request>", b"<opaque>" + kept + b"</opaque>\n</acct_mgr_request>")


def post(port: int, body: bytes) -> bytes:
    return (
        f"POST /rpc.php HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


async def load(port: int, requests: Sequence[bytes], seconds: float) -> tuple[int, dict[int, bytes]]:
    """Send them in turn over some connections; returns how many were answered well, and the last answer to each."""
    end = time.monotonic() + seconds
    numbers = itertools.count()
    good = 0
    answers: dict[int, bytes] = {}

    async def connection() -> None:
        nonlocal good
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.monotonic() < end or good < len(requests):
            number = next(numbers) % len(requests)
            writer.write(requests[number])
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            answers[number] = answer = await reader.readexactly(length)
            assert b"<error_num>" not in answer, answer
            good += 1
        writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    return good, answers


def run_load(port: int, requests: list[bytes], seconds: float, queue: Any) -> None:
    queue.put(asyncio.run(load(port, requests, seconds))[0])


@dataclass(frozen=True, slots=True)
class Measured:
    """What a load was answered with."""

    rate: float  #: a second
    cpu_ms: float  #: of the server, for each
    cores: float  #: that the server had


def measured(pid: int, port: int, requests: list[bytes], seconds: float) -> Measured:
    """Load the server from another process."""
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    process = psutil.Process(pid)
    worker = context.Process(target=run_load, args=(port, requests, seconds, queue))
    before = process.cpu_times()
    worker.start()
    good = queue.get(timeout=seconds * 4 + 60)
    after = process.cpu_times()
    worker.join()
    cpu = after.user + after.system - before.user - before.system
    return Measured(good / seconds, 1000 * cpu / good, cpu / seconds)


def test_contacts_a_second(tmp_path: Path):
    world = ManagerWorld(tmp_path / "manager")
    for number in range(1, 9):
        world.project(number)
    key = world.join()
    world.close()
    folder, port = tmp_path / "manager", free_port()
    settings = folder / "manager.toml"
    text = settings.read_text()
    settings.write_text(text.replace("max_new_hosts = 50", f"max_new_hosts = {N_HOSTS}"))
    server = subprocess.Popen(
        [sys.executable, "-m", "cobblestone", "manager", "run", str(folder), "--port", str(port)]
    )
    try:
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/healthz")
                break
            except httpx.HTTPError:
                assert server.poll() is None
                time.sleep(0.1)
        bodies = bodies_of(key)
        _, answers = asyncio.run(load(port, [post(port, body) for body in bodies], 0.0))
        requests = [post(port, obedient(body, answers[number])) for number, body in enumerate(bodies)]
        nothing = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        http = measured(server.pid, port, [nothing], SECONDS / 3)
        contacts = measured(server.pid, port, requests, SECONDS)
        print(
            f"\ncontacts: {contacts.rate:.0f} a second, {contacts.cpu_ms:.3f} ms of CPU each ({contacts.cores:.2f} cores),"
            f" {contacts.cpu_ms / http.cpu_ms:.2f} times an empty answer ({http.rate:.0f} a second, {http.cpu_ms:.3f} ms),"
            f" load {os.getloadavg()[0]:.1f}"
        )
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
    store = Store(folder / "manager.sqlite", readers=1)
    assert store.read(lambda db: db.value("SELECT COUNT(*) FROM host")) == N_HOSTS
    assert store.read(lambda db: db.value("SELECT COUNT(*) FROM host_project")) >= N_HOSTS
    store.close()
    assert contacts.cpu_ms < MOST_OF_HTTP * http.cpu_ms
