"""My work in a browser: files are chosen, the first job is looked at, jobs are submitted and computed, the answers come as a zip.

Set the environment variable ``SCREENSHOTS`` to a folder to look at the pages.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, FilePayload, Page, Route, expect
from tests.browser.test_accessibility import findings
from tests.browser.windows import LOOKS, fits, on_loopback
from tests.helpers.effort import times
from tests.helpers.project_world import World
from tests.helpers.volunteers import PASSWORD, email
from tests.integration.test_my_work import Lab

NAMES = ("low", "middle", "high")
TABLE = b"input,band,name\nlow.dat,1 to 2,first\nhigh.dat,2 to 3,second\nhigh.dat,,third\n"

DROPPED = """() => {
    const given = new DataTransfer();
    given.items.add(new File(["high"], "high.dat"));
    return given;
}"""


@dataclass(frozen=True, slots=True)
class Served:
    """A project with pages on loopback, where Ada may submit."""

    lab: Lab
    browser: Browser
    url: str
    opened: list[BrowserContext]

    def open(self, look: str = "desktop", **options: bool) -> Page:
        """Open a window in which Ada is logged in."""
        context = self.browser.new_context(base_url=self.url, **{**LOOKS[look], **options})
        self.opened.append(context)
        page = context.new_page()
        page.goto("login.php")
        page.get_by_label("E-mail address").fill(email("ada"))
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="Your account")).to_be_visible()
        page.get_by_role("link", name="My work").click()
        return page


@pytest.fixture
def served(tmp_path: Path, browser: Browser) -> Iterator[Served]:
    with on_loopback(lambda _: World(tmp_path / "project")) as (world, url):
        served = Served(Lab(world), browser, url, [])
        yield served
        for context in served.opened:
            context.close()


def data(names: Sequence[str] = NAMES) -> list[FilePayload]:
    return [{"name": f"{name}.dat", "mimeType": "", "buffer": name.encode()} for name in names]


def new_batch(page: Page) -> None:
    page.get_by_role("link", name="New batch").click()


def answers(page: Page) -> dict[str, bytes]:
    """The answers of the batch on the page, from its zip."""
    with page.expect_download() as coming:
        page.get_by_role("button", name="All answers (zip)").click()
    with zipfile.ZipFile(coming.value.path()) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_files_are_submitted_computed_and_come_back_as_a_zip(served: Served) -> None:
    page = served.open()
    new_batch(page)
    page.locator("[name=inputs]").set_input_files(data(NAMES[:2]))
    page.get_by_text("Files on the server: 2.").wait_for()
    page.locator("#new-batch").dispatch_event("drop", {"dataTransfer": page.evaluate_handle(DROPPED)})
    page.get_by_text("Files on the server: 3.").wait_for()
    page.get_by_label("Name of the batch").fill("three bands")
    page.get_by_label("Argument band").fill("4.5 to 5.5")
    page.keyboard.press("Enter")
    expect(page.get_by_text("python3 period.py input.dat output --band '4.5 to 5.5'")).to_be_visible()
    assert findings(page) == []
    page.get_by_role("button", name="Submit 3 jobs").dblclick()
    expect(page.get_by_role("heading", name="three bands")).to_be_visible()
    expect(page.get_by_text("0 of 3 done")).to_be_visible()
    served.lab.compute({name: name.upper().encode() for name in NAMES})
    page.reload()
    expect(page.get_by_text("3 of 3 done")).to_be_visible()
    assert answers(page) == {f"{name}/output": name.upper().encode() for name in NAMES}
    assert served.lab.world.value("SELECT count(*) FROM batch") == 1, "the second click made none"
    page.goto("my_batch_new.php?app=period")
    expect(page.locator("[data-part=status]")).to_be_empty()  # what was submitted is not proposed again


def test_files_chosen_before_the_script_has_come_are_not_forgotten(served: Served) -> None:
    page, held = served.open(), list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/new_batch.js*", hold)
    new_batch(page)
    page.locator("[name=inputs]").set_input_files(data())
    held.pop().continue_()
    page.get_by_text("Files on the server: 3.").wait_for()


def test_a_file_that_is_chosen_again_counts_once_unless_it_was_changed(
    served: Served, tmp_path: Path
) -> None:
    page, file = served.open(), tmp_path / "band.dat"
    new_batch(page)
    for content, n_files in ((b"4", 1), (b"4", 1), (b"4.5", 2)):
        if not file.exists() or file.read_bytes() != content:
            file.write_bytes(content)
        page.locator("[name=inputs]").set_input_files(file)
        page.get_by_text(f"Files on the server: {n_files}.").wait_for()
    page.get_by_role("button", name="Look at the first job").click()
    expect(page.get_by_text("Two different files are called 'band.dat'.")).to_be_visible()


def test_an_upload_goes_on_after_a_lost_connection_and_a_reload(served: Served) -> None:
    page, sent = served.open(), list[str]()

    def fail_once(route: Route) -> None:
        sent.append(route.request.url.rpartition("=")[2][:8])
        if len(sent) == 2:
            route.abort()
        elif len(sent) > 3 and not page.is_closed() and "hold" in held:
            return  # the connection hangs
        else:
            route.continue_()

    held = {"hold"}
    page.route("**/my_file.php?*", fail_once)
    new_batch(page)
    page.locator("[name=inputs]").set_input_files(data([*NAMES, "fourth", "fifth"]))
    expect(page.locator("[data-part=bar]")).to_have_js_property("value", 2)
    held.clear()
    page.reload()
    page.get_by_text("Files on the server: 5.").wait_for()
    assert len(sent) < 5 + 4, "what was there was not sent again"
    page.get_by_label("Argument band").fill("1")
    page.get_by_role("button", name="Look at the first job").click()
    expect(page.get_by_role("button", name="Submit 5 jobs")).to_be_visible()


def test_without_scripts_a_table_and_its_files_are_submitted_by_the_form(served: Served) -> None:
    page = served.open(java_script_enabled=False)
    new_batch(page)
    page.locator("[name=inputs]").set_input_files(data())
    page.get_by_label("Table of jobs (CSV)").set_input_files(
        {"name": "jobs.csv", "mimeType": "text/csv", "buffer": TABLE}
    )
    page.get_by_role("button", name="Look at the first job").click()
    page.get_by_role("button", name="Submit 3 jobs").click()
    page.get_by_text("0 of 3 done").wait_for()
    served.lab.compute({"first": b"1"})
    page.reload()
    expect(page.get_by_text("1 of 3 done, 2 failed")).to_be_visible()
    page.get_by_role("link", name="failed", exact=True).click()
    expect(page.locator("section:has(#jobs) tbody th")).to_have_text(["second", "third"])
    page.get_by_role("button", name="Submit failed jobs again").click()
    expect(page.get_by_role("heading", name="retry of period")).to_be_visible()


@pytest.mark.parametrize("look", list(LOOKS)[: times(3)])
def test_pages_of_a_batch_fit_the_screen_and_axe_finds_nothing(served: Served, look: str) -> None:
    page, found = served.open(look), list[str]()
    folder = Path(os.environ.get("SCREENSHOTS", ""))

    def see(name: str) -> None:
        page.wait_for_load_state()
        if os.environ.get("SCREENSHOTS"):
            folder.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=folder / f"my-{name}-{look}.png", full_page=True)
        fits(page, name)
        found.extend(findings(page))

    new_batch(page)
    page.locator("[name=inputs]").set_input_files(data())
    page.get_by_text("Files on the server: 3.").wait_for()
    see("new")
    steps = {
        "faults": (TABLE.replace(b"high", b"gone"), "Nothing was submitted."),
        "preview": (TABLE, "Nothing is submitted yet."),
    }
    for name, (table, said) in steps.items():
        page.get_by_label("Table of jobs (CSV)").set_input_files(
            {"name": "jobs.csv", "mimeType": "text/csv", "buffer": table}
        )
        page.get_by_role("button", name="Look at the first job").click()
        page.get_by_text(said).wait_for()
        see(name)
    page.get_by_role("button", name="Submit 3 jobs").click()
    page.get_by_text("0 of 3 done").wait_for()
    served.lab.compute({"first": b"1"})
    page.reload()
    see("batch")
    with page.expect_event("load"):
        page.get_by_role("link", name="My work").click()
    see("work")
    assert found == []
