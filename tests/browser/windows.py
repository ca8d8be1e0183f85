"""Browser windows on a project's pages, what their consoles say, and what every page must be.

Set the environment variable ``SCREENSHOTS`` to a folder to look at them.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from playwright.sync_api import Page
from tests.helpers.project_world import World
from tests.helpers.served_world import LoopThread
from tests.helpers.volunteers import Volunteers

from cobblestone.server.app import create_app

LOOKS: dict[str, dict[str, Any]] = {
    "tablet": {"viewport": {"width": 768, "height": 1024}, "color_scheme": "light"},
    "desktop": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "is_mobile": True},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "dark-phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "is_mobile": True},
}


@dataclass(frozen=True, slots=True)
class RunningSite:
    """Where the pages are, and who and what is there."""

    url: str
    people: Volunteers
    ids: Mapping[str, int]  #: of the things that the operator's pages are about
    paths: frozenset[str]  #: of every page that the server has
    now: float  #: its time, Unix seconds

    def address(self, template: str) -> str:
        """An address; ``{kind}`` is the id of a result of that kind, of a user, or of a thing of the operator's."""
        return template.format(**self.people.results, **self.people.user_ids, **self.ids)


@contextmanager
def on_loopback(make: Callable[[str], World]) -> Iterator[tuple[World, str]]:
    """Serve a project, which is made for its address; the thread of the test has the browser's event loop and needs no other."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    world = make(url)
    server = uvicorn.Server(uvicorn.Config(create_app(world.ctx), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="pages")
    with LoopThread(world):
        thread.start()
        yield world, url
        server.should_exit = True
        thread.join()
    listener.close()
    closing = threading.Thread(target=world.close)
    closing.start()
    closing.join()


class Watched:
    """A page, what its console said, and which hosts it asked."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.console: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.console.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))


#: Of a tablet, a phone and, last, a desk: a page is laid out for each, for it is slower to open it three times.
WIDTHS = (768, 390, 1280)

OpenPage = Callable[..., Watched]
"""Opens a window with one of the `LOOKS`; ``log_in`` is the name of who logs in there."""


def fits(page: Page, name: str) -> None:
    """See that a page is no wider than its window: a phone's would rather show the page smaller, and call itself as wide."""
    width, window = page.evaluate("document.documentElement.scrollWidth"), page.viewport_size
    assert window is not None
    assert width <= window["width"], f"{name} is {width} pixels wide on a screen of {window['width']}"


def nothing(_: Page) -> list[str]:
    return []


def look_at(
    watched: Watched,
    site: RunningSite,
    pages: Mapping[str, str],
    look: str,
    statuses: Mapping[str, int],
    findings: Callable[[Page], list[str]] = nothing,
) -> list[str]:
    """Open pages one after the other: each answers, fits the screen, is quiet and asks nobody else.

    Returns:
        What else is found on them.
    """
    folder = os.environ.get("SCREENSHOTS")
    page, found = watched.page, list[str]()
    for name, template in pages.items():
        response = page.goto(site.address(template))
        assert response is not None
        assert response.status == statuses.get(name, 200), name
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=f"{folder}/{name}-{look}.png", full_page=True)
        for window in WIDTHS if look == "desktop" else ():
            page.set_viewport_size({"width": window, "height": 900})
            fits(page, name)
        fits(page, name)
        found += findings(page)
    refused = {str(status) for status in statuses.values()}
    assert [line for line in watched.console if not any(status in line for status in refused)] == []
    assert watched.hosts == {urlsplit(site.url).netloc}
    return found
