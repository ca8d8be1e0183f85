"""The page that our client serves, in a real browser, and the display in the terminal: they show what runs."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.e2e.conftest import ENDLESS, LiveProject
from tests.helpers.daemon_in_test import until
from tests.helpers.own_client import PREFERENCES, OwnClient
from textual.widgets import DataTable, Static

from cobblestone.client.remote.access import local_address
from cobblestone.monitor.display import PLANNED, MonitorDisplay

WAIT = 60_000
"""For what the page fetches after it is there, in milliseconds."""
expect.set_options(timeout=WAIT)


@pytest.fixture
def busy(live: Callable[..., LiveProject], tmp_path: Path) -> Iterator[OwnClient]:
    """A client with two running and two waiting tasks."""
    project = live(settings={"max_jobs_per_day_init": "20"})
    project.app("work", ENDLESS)
    project.submit("work", "1", "2", "3", "4")
    client = OwnClient(tmp_path / "own", ncpus=2)
    wishes = PREFERENCES.replace("<work_buf_min_days>0.01", "<work_buf_min_days>0.2")
    (client.folder / "global_prefs_override.xml").write_text(wishes)
    try:
        client.start()
        client.cli("attach", project.url, "--key", project.account("alice"))
        project.wait(
            lambda: (
                sorted(t["state"] for t in client.ask("tasks"))
                == ["running", "running", "waiting", "waiting"]
            ),
            client,
            seconds=90,
            what="two running tasks, and two that wait",
        )
        yield client
    finally:
        client.stop()


@pytest.fixture
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.set_default_timeout(WAIT)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        browser.close()
        assert errors == []


def address(client: OwnClient, *options: str) -> str:
    return client.cli("web", *options).stdout.strip()


def test_the_page_shows_tasks_timeline_and_credit_and_pauses_computing(
    busy: OwnClient, page: Page, tmp_path: Path
):
    page.goto(address(busy))
    for figure in ("2 running", "2 waiting"):
        page.locator("#figures").get_by_text(figure).wait_for()
    page.locator("#timeline rect").nth(4).wait_for(state="attached")
    expect(page.locator("#tasks li")).to_have_count(4)
    expect(page.locator("#tasks progress")).to_have_count(4)
    expect(page.locator("#projects")).to_contain_text("estimated")
    expect(page.locator("#timeline title", has_text="will end")).to_have_count(4)
    titles = page.locator("#timeline title").all_text_contents()
    assert any("ran until" in title for title in titles)
    for width, scheme in ((1100, "light"), (390, "light"), (700, "dark")):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.set_viewport_size({"width": width, "height": 900})
        page.screenshot(path=tmp_path / f"page-{width}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Pause for an hour").click()
    page.locator("#figures").get_by_text("0 running").wait_for()
    page.get_by_role("button", name="Compute").click()
    page.locator("#figures").get_by_text("2 running").wait_for()


def test_without_a_token_the_page_shows_nothing_and_with_the_reading_token_it_changes_nothing(
    busy: OwnClient, page: Page
):
    secret = json.loads((busy.folder / "control.json").read_text())
    bare = address(busy).partition("#")[0]
    with urllib.request.urlopen(bare, timeout=30) as reply:
        assert "script-src 'self'" in reply.headers["Content-Security-Policy"]
        assert secret["reading_token"] not in reply.read().decode()
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{bare}ws", timeout=30)
    for origin, status in (("https://elsewhere.example.org", 403), ("http://[x", 400)):
        foreign = urllib.request.Request(
            f"{bare}ws?token={secret['control_token']}", headers={"Origin": origin}
        )
        with pytest.raises(urllib.error.HTTPError, match=str(status)):
            urllib.request.urlopen(foreign, timeout=30)
    page.goto(bare)
    page.get_by_label("Token").wait_for()
    expect(page.locator("main")).to_be_hidden()
    page.goto("about:blank")
    page.goto(address(busy, "--look"))
    for figure in ("2 running", "2 waiting"):
        page.locator("#figures").get_by_text(figure).wait_for()
    page.get_by_role("button", name="Pause for an hour").click()
    page.get_by_text("This token only allows reading.").wait_for()
    assert busy.ask("status")["modes"]["task"] == "auto"


def test_the_terminal_display_shows_the_same_and_its_keys_suspend_tasks(busy: OwnClient, tmp_path: Path):
    async def look() -> None:
        display = MonitorDisplay(local_address(busy.folder))
        async with display.run_test(size=(120, 40)) as pilot:
            tasks = display.query_one("#tasks", DataTable)
            await until(lambda: tasks.row_count == 4, seconds=60, what="the tasks")
            await until(
                lambda: PLANNED in str(display.query_one("#timeline", Static).content),
                seconds=60,
                what="a forecast",
            )
            await until(
                lambda: "2 running, 2 waiting" in str(display.query_one("#status", Static).content),
                seconds=60,
                what="the first line",
            )
            display.save_screenshot("display.svg", str(tmp_path))
            await pilot.press("s")
            await until(
                lambda: any("suspended by you" in str(tasks.get_row_at(n)[1]) for n in range(4)),
                seconds=60,
                what="the suspension",
            )
            await pilot.press("q")

    asyncio.run(look())
    assert sum(task["suspended"] for task in busy.ask("tasks")) == 1
