"""The pages of an account manager: axe-core finds nothing, no page is wider than the window, in three languages.

Set the environment variable ``SCREENSHOTS`` to a folder to look at them.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser
from tests.browser.test_accessibility import findings
from tests.browser.windows import LOOKS, fits
from tests.helpers.effort import times
from tests.helpers.manager_world import PASSWORD, Caller, ManagerWorld

from cobblestone.account_manager.store import projects
from cobblestone.service.languages import NAMES

HOUR = 3600.0
STRANGERS = ("", "join.php", "password_reset.php", "password_new.php", "login.php")  # the last one is used
OWN = ("home.php", "choices.php", "sharing.php", "account.php", "computer.php?id=1", "ops.php")
ROUND_CHECKBOXES = """[...document.querySelectorAll('[type=checkbox]:not([role=switch])')]
    .map(box => getComputedStyle(box)).filter(style => parseFloat(style.borderRadius) > parseFloat(style.height) / 4).length"""

EMPTY_CHOICES = "[...document.querySelectorAll('option')].filter(each => !each.textContent.trim()).length"


def populated(root: Path) -> ManagerWorld:
    """An account manager with four projects, and a computer that has worked for two days."""
    world = ManagerWorld(root)
    world.write(lambda tx: projects.put_keywords(tx, {1: ("subject", "Astronomy"), 2: ("place", "Europe")}))
    for number in range(1, 5):
        world.project(number, share=float(number), keywords={1: 1.0})
    caller = Caller(world, authenticator=world.join(), gpu=True, in_vain={"http://p2.example.org/": ("CPU",)})
    caller.call()
    for _ in range(4):
        world.now += 12 * HOUR
        for url in caller.urls:
            caller.works(url, 6 * HOUR, jobs=3)
        caller.call()
    world.run(world.days.step())
    return world


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where an account manager's pages are."""
    # In a thread of its own: the browser's library has an event loop in this one.
    with ThreadPoolExecutor(1) as apart:
        world = apart.submit(populated, tmp_path_factory.mktemp("manager") / "stones").result()
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(world.app, log_level="warning", lifespan="off"))
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="pages")
        serving.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        serving.join()
        listener.close()
        apart.submit(world.close).result()


@pytest.mark.parametrize(
    ("look", "language"),
    [("desktop", "en"), ("dark-phone", "fr"), ("phone", "sk"), ("dark", "en")][: times(3)],
)
def test_pages_of_an_account_manager_can_be_used_by_everybody(
    browser: Browser, address: str, look: str, language: str
) -> None:
    context = browser.new_context(**LOOKS[look], locale=language)
    page, wrong = context.new_page(), list[str]()

    def look_at(path: str) -> None:
        page.goto(address + path)
        if folder := os.environ.get("SCREENSHOTS"):
            name = re.sub(r"\W+", "-", path or "home")
            page.screenshot(path=f"{folder}/manager-{name}-{look}.png", full_page=True)
        wrong.extend(findings(page))
        fits(page, path)
        if round_boxes := page.evaluate(ROUND_CHECKBOXES):
            wrong.append(f"{path} has {round_boxes} checkboxes that look like radio buttons")
        if empty := page.evaluate(EMPTY_CHOICES):
            wrong.append(f"{path} has {empty} choices without a word")
        if page.locator("html").get_attribute("lang") != language:
            wrong.append(f"{path} is not in {NAMES[language]}")

    for path in STRANGERS:
        look_at(path)
    page.fill("input[name=email_addr]", "ann@example.org")
    page.fill("input[name=passwd]", PASSWORD)
    page.click("main button[type=submit]")
    page.wait_for_url("**/home.php")
    for path in OWN:
        look_at(path)
        if look == "desktop" and path == "choices.php":
            height = page.evaluate("document.documentElement.scrollHeight")
            assert height < 2000, "four projects stand side by side"
    context.close()
    assert wrong == []
