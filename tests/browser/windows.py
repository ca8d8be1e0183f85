"""Browser windows on a project's pages, what their consoles say, and what every page must be.

Set the environment variable ``SCREENSHOTS`` to a folder to look at them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page
from tests.helpers.volunteers import Volunteers

#: By day the first three are tried, which differ in width.
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


class Watched:
    """A page, what its console said, and which hosts it asked."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.console: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.console.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))


OpenPage = Callable[..., Watched]
"""Opens a window with one of the `LOOKS`; ``log_in`` is the name of who logs in there."""


def look_at(
    watched: Watched, site: RunningSite, pages: Mapping[str, str], look: str, statuses: Mapping[str, int]
) -> None:
    """Open pages one after the other: each answers, fits the screen, is quiet and asks nobody else."""
    folder = os.environ.get("SCREENSHOTS")
    page = watched.page
    for name, template in pages.items():
        response = page.goto(site.address(template))
        assert response is not None
        assert response.status == statuses.get(name, 200), name
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=f"{folder}/{name}-{look}.png", full_page=True)
        width, visible = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= visible, f"{name} is {width} pixels wide on a screen of {visible}"
    refused = {str(status) for status in statuses.values()}
    assert [line for line in watched.console if not any(status in line for status in refused)] == []
    assert watched.hosts == {urlsplit(site.url).netloc}
