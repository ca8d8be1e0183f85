"""A project under test, as a program meets it: a `Project` of the SDK on one side, simulated hosts on the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
from tests.helpers.project_world import World

from cobblestone.sdk.api.connection import Connection
from cobblestone.sdk.project import Project
from cobblestone.server.app import create_app
from cobblestone.store.people import credentials
from cobblestone.wire.project.signatures import encode_private_key


class LoopThread:
    """Runs a world's event loop in a thread, so that several threads may send requests."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._thread = threading.Thread(target=world.loop.run_forever)

    def __enter__(self) -> LoopThread:
        self._world.run = self.run
        self._world.ctx.signals.bind(self._world.loop)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._world.loop.call_soon_threadsafe(self._world.loop.stop)
        self._thread.join()
        del self._world.run

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._world.loop).result()


class WorldTransport(httpx.BaseTransport):
    """Sends requests to a world's application."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._inner = httpx.ASGITransport(create_app(world.ctx))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._world.run(self._send(request, request.read()))

    async def _send(self, request: httpx.Request, content: bytes) -> httpx.Response:
        outgoing = httpx.Request(request.method, request.url, headers=request.headers, content=content)
        answer = await self._inner.handle_async_request(outgoing)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


def connect(world: World, *, running: bool = True) -> Project:
    """Connect to a world's application; inside of a :class:`LoopThread`."""
    world.ctx.folder.code_sign_private.write_text(encode_private_key(world.key))
    secret = credentials.new_secret()
    world.write(
        lambda tx: credentials.create_token(
            tx, secret, name="sdk", scopes=list(credentials.Scope), now=world.now
        )
    )
    client = httpx.Client(
        transport=WorldTransport(world),
        base_url=world.ctx.master_url,
        headers={"Authorization": f"Bearer {secret}"},
    )
    return Project(Connection(client, in_process=not running, folder=world.ctx.folder.root))


def echo(inputs: list[Path]) -> bytes:
    """What most jobs here write: the first input, as it is."""
    return b'{"got":' + (inputs[0].read_bytes() if inputs else b"null") + b"}"


class Volunteers:
    """Hosts that compute whatever there is: the output of a job is a function of its inputs."""

    def __init__(
        self, world: World, *, users: int = 1, compute: Callable[[list[Path]], bytes] = echo
    ) -> None:
        self._world = world
        self._compute = compute
        self._hosts = [world.host(world.user(f"volunteer{n}")) for n in range(users)]
        self.failing: set[str] = set()  # labels of jobs that these hosts fail at

    def work(self) -> int:
        """Compute what can be had now; how many results."""
        from tests.helpers.project_world import failed

        count = 0
        self._world.settle()
        for host in self._hosts:
            host.rpc(ask=1e6)
            reports = []
            for name in sorted(host.held):
                label, inputs = self._inputs_of(name)
                reports.append(
                    failed(name) if label in self.failing else host.finish(name, self._compute(inputs))
                )
            if reports:
                host.rpc(reports=reports)
                self._world.settle()
            count += len(reports)
        return count

    def work_until(self, done: threading.Event) -> None:
        """Go on working until somebody says that it is enough."""
        while not done.is_set():
            if not self.work():
                done.wait(0.01)

    def _inputs_of(self, result_name: str) -> tuple[str, list[Path]]:
        import msgspec

        from cobblestone.store.catalog.files import place_of

        label, inputs = self._world.query(
            "SELECT w.label, w.input_files FROM workunit w JOIN result r ON r.workunit_id = w.id WHERE r.name = ?",
            result_name,
        )[0]
        folder = self._world.ctx.folder.download
        return label, [place_of(folder, file["name"]) for file in msgspec.json.decode(inputs)]
