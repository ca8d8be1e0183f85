"""Our client's daemon, within the test's process: what happens at unlucky moments."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.helpers.daemon_in_test import make_client, running, until


async def count_visits(
    visits: list[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """A server that takes its time: it notes who comes, and answers nothing."""
    visits.append(await reader.readline())
    await reader.read()
    writer.close()


def test_a_project_attached_while_the_client_starts_is_contacted_once(tmp_path: Path):
    async def play() -> list[bytes]:
        visits: list[bytes] = []
        server = await asyncio.start_server(lambda r, w: count_visits(visits, r, w), "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        client = make_client(tmp_path / "own")
        prepare = client.conditions.start

        async def interrupted() -> None:
            client.contacts.attach(f"http://127.0.0.1:{port}/", "1" * 32)
            await asyncio.sleep(0.2)
            await prepare()

        client.conditions.start = interrupted
        async with running(client):
            await until(lambda: visits != [] and client.jobs.runner is not None, seconds=60, what="a contact")
            await asyncio.sleep(0.5)
        server.close()
        return visits

    assert len(asyncio.run(play())) == 1
