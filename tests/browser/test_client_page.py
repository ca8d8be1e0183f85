"""The client's own page, with figures made up: it can be read by everybody, says what it does not know, and asks no one else.

Set the environment variable ``SCREENSHOTS`` to a folder to look at it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route
from tests.browser.test_accessibility import findings
from tests.browser.windows import LOOKS, fits

import cobblestone.client.remote

FILES = Path(cobblestone.client.remote.__file__).parent / "page"
NOW = time.time()
HOUR = 3600.0
URL = "https://sun.example.org/"
STATUS = {
    "host_name": "desk",
    "policy": "recent",
    "because": [],
    "suspended": {"cpu": "", "gpu": "", "network": ""},
    "cpus": {"of_computer": 8, "allowed": 6},
}
NOTHING: dict[str, Any] = {
    "status": {**STATUS, "projects": 0, "tasks": {"running": 0, "waiting": 0, "ready_to_report": 0}},
    "timeline": {"now": NOW, "runs": []},
}


def task(name: str, state: str, *, done: float, exit_status: int | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "app": "Spectrum",
        "project": URL,
        "project_name": "Sunspots",
        "state": state,
        "fraction_done": done,
        "elapsed": HOUR * done,
        "remaining": HOUR * (1 - done),
        "deadline": NOW + 90 * HOUR,
        "suspended": False,
        "exit_status": exit_status,
    }


def run(lane: int, begin: float, *, late: bool = False) -> dict[str, Any]:
    ends = {"begin": NOW + begin * HOUR, "end": NOW + (begin + 1) * HOUR, "deadline": NOW + 90 * HOUR}
    return {
        **ends,
        "job": f"j{begin}",
        "project": URL,
        "lane": lane,
        "planned": begin > 0,
        "finishes": True,
        "late": late,
    }


BUSY: dict[str, Any] = {
    "status": {**STATUS, "projects": 1, "tasks": {"running": 1, "waiting": 0, "ready_to_report": 1}},
    "tasks": [
        task("band_1", "running", done=0.6),
        task("band_0", "finished, to be reported", done=1.0, exit_status=0),
    ],
    "projects": [
        {
            "url": URL,
            "name": "Sunspots",
            "host_credit": 12345.0,
            "host_average": 12.3,
            "estimated_credit": 14.0,
            "tasks": 1,
            "jobs_done": 120,
            "jobs_failed": 1,
            "share": 100,
            "suspended": False,
            "no_new_work": False,
        }
    ],
    "timeline": {
        "now": NOW,
        "runs": [run(lane, begin, late=begin == 4) for lane in range(4) for begin in range(-2, 5)],
    },
}
CLIENT = """
window.WebSocket = class {
  static OPEN = 1;
  readyState = 1;
  constructor() { setTimeout(() => this.onopen()); }
  send(text) {
    const asked = JSON.parse(text);
    setTimeout(() => this.onmessage({ data: JSON.stringify({ id: asked.id, ok: true, result: SAID[asked.do] ?? [] }) }));
  }
};
"""


@pytest.fixture(params=["desktop", "phone", "dark"])
def window(request: pytest.FixtureRequest, browser: Browser) -> Iterator[tuple[Page, str]]:
    context = browser.new_context(**LOOKS[request.param])
    yield context.new_page(), request.param
    context.close()


def opened(window: tuple[Page, str], said: dict[str, Any], name: str) -> Page:
    page, look = window
    wrong: list[str] = []

    def answer(route: Route) -> None:
        place = urlsplit(route.request.url)
        if place.netloc == "client.test":
            route.fulfill(path=FILES / (place.path.strip("/") or "index.html"))
        else:
            wrong.append(route.request.url)
            route.abort()

    page.route("**", answer)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.add_init_script(f"const SAID = {json.dumps(said)};{CLIENT}")
    page.goto("http://client.test/#token")
    page.locator("#figures li").first.wait_for()
    page.wait_for_timeout(300)
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/client-{name}-{look}.png", full_page=True)
    fits(page, name)
    assert wrong + findings(page) == []
    return page


def test_a_client_without_a_project_says_how_to_begin_and_shows_no_empty_box(
    window: tuple[Page, str],
) -> None:
    page = opened(window, NOTHING, "empty")
    shown = [each.inner_text() for each in page.locator("main h2").all() if each.is_visible()]
    assert shown == ["Choose a project", "Tasks", "Allowed resources"]
    assert "cobblestone client attach" in page.inner_text("#begin")


def test_a_client_at_work_names_its_projects_and_the_hours_of_its_timeline(window: tuple[Page, str]) -> None:
    page = opened(window, BUSY, "busy")
    assert "Sunspots" in page.inner_text("#legend")
    assert "https://" not in page.inner_text("#legend")
    assert page.locator("#hours span").count() >= 2
    assert page.locator("#tasks button").count() == 1, "what has ended cannot be suspended"
    assert "1 task here" in page.inner_text("#projects")
    assert "CS4" not in page.inner_text("header")
