"""The operator's pages in a browser: how they look, and what their forms do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.browser.test_pages import PUBLIC
from tests.browser.windows import OpenPage, RunningSite, fits, look_at

PAGES = {
    "ops": "ops.php",
    "ops-search": "ops_search.php?q=batch",
    "ops-search-empty": "ops_search.php?q=nothing-like-this",
    "ops-batch": "ops_batch.php?id={failed_batch}",
    "ops-workunit": "ops_workunit.php?id=1",
    "ops-host": "ops_host.php?id=1",
    "ops-host-blocked": "ops_host.php?id={blocked_host}",
    "ops-user": "ops_user.php?id={bruno}",
    "ops-user-self": "ops_user.php?id={olga}",
    "ops-versions": "ops_versions.php",
    "ops-news": "ops_news.php",
    "ops-news-edit": "ops_news.php?id=1",
    "ops-errors": "ops_errors.php?version={failed_version}",
    "ops-audit": "ops_audit.php",
    "ops-missing": "ops_batch.php?id=987654",
}


STATUSES = {"ops-missing": 404}


def test_no_name_that_somebody_chose_makes_a_page_wider(site: RunningSite, open_page: OpenPage) -> None:
    page = open_page("phone", log_in="olga").page
    for name, template in (PUBLIC | PAGES).items():
        page.goto(site.address(template))
        page.evaluate(
            "for (const link of document.querySelectorAll('td:not(.num) > a')) link.textContent = 'W'.repeat(254)"
        )
        fits(page, name)


@pytest.mark.parametrize("code", ["fr", "sk"])
def test_pages_fit_a_phone_in_every_language(site: RunningSite, open_page: OpenPage, code: str) -> None:
    watched = open_page("phone", log_in="olga")
    watched.page.goto(f"language.php?to={code}&next=index.php")
    look_at(watched, site, PAGES, f"phone-{code}", STATUSES)


@pytest.fixture
def operate(site: RunningSite, open_page: OpenPage) -> Callable[[str], Page]:
    """Open one of the operator's pages as the operator."""
    page = open_page(log_in="olga").page

    def open_(address: str) -> Page:
        page.goto(site.address(address))
        return page

    return open_


def fact(page: Page, name: str) -> str:
    """A value of the list of facts at the top of a page."""
    return page.locator(f"dt:text-is('{name}') + dd").inner_text()


def press(page: Page, button: str) -> None:
    """Press a button that opens another page; what follows reads that page, not the one before."""
    with page.expect_event("load"):
        page.get_by_role("button", name=button).click()


def version(page: Page, name: str) -> Locator:
    """The card of an app version."""
    return page.locator("section.card").filter(has=page.get_by_role("heading", name=name))


def test_the_overview_is_reached_from_any_page_and_its_figures_are_refreshed(
    operate: Callable[[str], Page],
) -> None:
    page = operate("")
    page.get_by_role("link", name="Operations").click()
    page.clock.install()
    page.reload()
    page.evaluate("document.querySelector('#live').innerHTML = ''")
    with page.expect_response("**/ops.php?part=live"):
        page.clock.run_for(11_000)
    page.wait_for_selector("#live .tile")


def test_a_search_leads_to_a_computer_that_is_blocked_and_gets_work_again(
    operate: Callable[[str], Page],
) -> None:
    page = operate("ops.php")
    page.get_by_label("Find a volunteer").fill("basalt")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("heading", name="basalt.local")).to_be_visible()
    page.get_by_label("Reason").fill("It answers too fast to be true.")
    page.get_by_role("button", name="Stop sending work").click()
    expect(page.get_by_text("Gets no work: It answers too fast to be true.")).to_be_visible()
    page.get_by_role("button", name="Send work again").click()
    history = page.locator("section").filter(has=page.get_by_role("heading", name="History"))
    expect(history.locator("tbody tr")).to_contain_text(["unblock host", "block host"])
    page.get_by_role("link", name="Audit log").click()
    expect(page.get_by_role("link", name="host 2")).to_have_count(2)


def test_a_batch_is_cancelled_and_failed_jobs_are_submitted_anew(operate: Callable[[str], Page]) -> None:
    page = operate("ops_batch.php?id={cancelled_batch}")
    press(page, "Cancel the rest")
    assert (fact(page, "State"), fact(page, "Failed or cancelled")) == ("cancelled", "5")
    page = operate("ops_batch.php?id={retried_batch}")
    page.get_by_role("button", name="Submit failed jobs again").click()
    expect(page.get_by_role("heading", name="retry of batch")).to_be_visible()
    assert (fact(page, "State"), fact(page, "Jobs")) == ("in progress", "3")


def test_a_workunit_is_tried_again_and_cancelled(operate: Callable[[str], Page]) -> None:
    page = operate("ops_workunit.php?id={open_workunit}")
    press(page, "Try again")
    press(page, "Cancel")
    assert page.get_by_role("button", name="Cancel").count() == 0


def test_a_version_goes_out_in_stages_is_held_and_withdrawn(operate: Callable[[str], Page]) -> None:
    page = operate("ops_versions.php")
    card = version(page, "transit 1.01")
    expect(card.get_by_text("for 5 % of the computers")).to_be_visible()
    card.get_by_text("Change").click()
    card.get_by_label("Stages: part of the computers").fill("20, 100")
    card.get_by_role("button", name="Start the roll-out").click()
    expect(version(page, "transit 1.01").get_by_text("for 20 % of the computers")).to_be_visible()
    version(page, "transit 1.01").get_by_text("Change").click()
    version(page, "transit 1.01").get_by_role("button", name="Hold").click()
    expect(version(page, "transit 1.01").get_by_text("held", exact=True)).to_be_visible()
    version(page, "transit 1.01").get_by_text("Change").click()
    version(page, "transit 1.01").get_by_label("Tell computers to abort").check()
    version(page, "transit 1.01").get_by_role("button", name="Withdraw").click()
    expect(version(page, "transit 1.01").get_by_text("withdrawn")).to_be_visible()
    expect(version(page, "transit 1.00").get_by_text("for all computers")).to_be_visible()


def test_news_are_written_edited_and_withdrawn(operate: Callable[[str], Page]) -> None:
    page = operate("ops_news.php")
    page.get_by_label("Title").fill("Comet in sight")
    page.get_by_label("Text").fill("It came back.\n\nLook up < 10° & be patient.")
    page.get_by_role("button", name="Publish").click()
    page.get_by_role("link", name="Comet in sight").click()
    page.get_by_label("Title").fill("Comet in sight again")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("row", name="Comet in sight again").get_by_role("link", name="Page").click()
    expect(page.get_by_text("Look up < 10° & be patient.")).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="Comet in sight again").click()
    press(page, "Withdraw")
    expect(page.get_by_role("heading", name="Published")).to_be_visible()
    assert page.get_by_role("link", name="Comet in sight").count() == 0


def test_a_user_gets_a_link_for_a_new_password_and_the_role_of_operator(
    operate: Callable[[str], Page],
) -> None:
    page = operate("ops_user.php?id={chandra}")
    page.get_by_role("button", name="Send a link for a new password").click()
    expect(page.get_by_text("A mail with a link for setting a new password is on its way.")).to_be_visible()
    page.get_by_role("button", name="Make this volunteer an operator").click()
    expect(page.locator("h1").get_by_text("operator")).to_be_visible()
    press(page, "Remove the operator role")
    assert page.locator("h1").get_by_text("operator").count() == 0
