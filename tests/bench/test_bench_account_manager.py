"""Contacts of computers a second at an account manager: real HTTP, durable commits, a process of its own.

``pytest -s tests/bench/test_bench_account_manager.py``
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
from tests.helpers.manager_world import ManagerWorld
from tests.helpers.wire_captures import recorded

from cobblestone.demo.stock_client import free_port
from cobblestone.store.engine.database import Store

N_HOSTS = 1000
CONNECTIONS = 32
SECONDS = 15.0


def requests_of(key: str, port: int) -> list[bytes]:
    """The recorded request of the stock client, of many computers."""
    body = recorded("22", "request").decode()
    name, rest = body.split("   <name>", 1)
    body = f"{name}   <authenticator>{key}</authenticator>\n{rest.split('</password_hash>', 1)[1]}"
    body = body.replace("http://127.0.0.1:18080/mock/", "http://p1.example.org/")
    found: list[bytes] = []
    for number in range(N_HOSTS):
        own = body.replace("fd41c81f9950857f4fa4203e04e920d6", f"{number:032x}").encode()
        head = f"POST /rpc.php HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(own)}\r\n\r\n"
        found.append(head.encode() + own)
    return found


async def load(port: int, requests: list[bytes], seconds: float) -> int:
    """Send them in turn over some connections; returns how many were answered well."""
    end = time.monotonic() + seconds
    numbers = iter(range(10**9))
    good = 0

    async def connection() -> None:
        nonlocal good
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.monotonic() < end:
            writer.write(requests[next(numbers) % len(requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            answer = await reader.readexactly(length)
            assert b"<error_num>" not in answer, answer
            good += 1
        writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    return good


def run_load(port: int, requests: list[bytes], seconds: float, queue: Any) -> None:
    queue.put(asyncio.run(load(port, requests, seconds)))


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
        requests = requests_of(key, port)
        asyncio.run(load(port, requests, 3.0))
        queue: Any = multiprocessing.get_context("spawn").Queue()
        process = psutil.Process(server.pid)
        before, started = process.cpu_times(), time.monotonic()
        worker = multiprocessing.get_context("spawn").Process(
            target=run_load, args=(port, requests, SECONDS, queue)
        )
        worker.start()
        good = queue.get(timeout=SECONDS * 4)
        worker.join()
        elapsed, after = time.monotonic() - started, process.cpu_times()
        cpu = after.user + after.system - before.user - before.system
        load_average = os.getloadavg()[0]
        print(
            f"\ncontacts: {good / SECONDS:.0f} a second, {1000 * cpu / good:.2f} ms of CPU each"
            f" ({cpu / elapsed:.2f} cores), load {load_average:.1f}"
        )
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
    store = Store(folder / "manager.sqlite", readers=1)
    assert store.read(lambda db: db.value("SELECT COUNT(*) FROM host")) == N_HOSTS
    assert store.read(lambda db: db.value("SELECT COUNT(*) FROM host_project")) >= N_HOSTS
    store.close()
    assert good > N_HOSTS
