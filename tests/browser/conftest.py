"""A project on loopback with some weeks of history, and Debian's chromium."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import uvicorn
from playwright.sync_api import Browser, sync_playwright
from tests.helpers.project_world import World
from tests.helpers.volunteers import Volunteers, populate

from cobblestone.server.app import create_app
from cobblestone.server.daemons.accounts import AppCreditFollower

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass(frozen=True, slots=True)
class RunningSite:
    """Where the pages are, and who is there."""

    url: str
    people: Volunteers


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSite]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    project: dict[str, object] = {
        "name": "Sunspots at home",
        "url": url,
        "description": "How regular is the Sun? We search three centuries of sunspot counts for cycles,"
        " band by band, and you can see each answer arrive.",
    }
    world = World(tmp_path_factory.mktemp("browser") / "project", project=project)
    people = populate(world, random.Random(7))
    world.now += 120
    while world.run(AppCreditFollower(world.ctx).step()):
        pass
    world.ctx.started = world.now - 86400
    server = uvicorn.Server(uvicorn.Config(create_app(world.ctx), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="pages")
    thread.start()
    yield RunningSite(url=url, people=people)
    server.should_exit = True
    thread.join()
    listener.close()
    world.close()


@pytest.fixture(scope="session")
def browser(site: RunningSite) -> Iterator[Browser]:
    # After the project: nothing else may run an event loop in this thread from here on.
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()
