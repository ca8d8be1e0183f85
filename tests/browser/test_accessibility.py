"""axe-core finds nothing to complain about on any page: whoever looks, light and dark, on a desk and on a phone."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping
from importlib.resources import files
from urllib.parse import urlsplit

import httpx
import pytest
from lxml import html
from playwright.sync_api import Page, expect
from tests.browser.test_operator_pages import PAGES as OPERATORS
from tests.browser.test_operator_pages import STATUSES as OF_OPERATORS
from tests.browser.test_pages import OWN, PUBLIC, STATUSES
from tests.browser.windows import OpenPage, RunningSite, fits, look_at
from tests.helpers.effort import times
from tests.helpers.volunteers import PASSWORD, email

from cobblestone.service.passwords import one_time_password, time_step

AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
LOOKS = ("desktop", "dark-phone", "dark", "phone")
"""By day axe looks at all pages in the first, and at those for everybody in the second."""
WHO: Mapping[str, Mapping[str, str]] = {"": {**PUBLIC, "api": "api/v1/docs"}, "ada": OWN, "olga": OPERATORS}
"""Pages by who looks at them; nobody is logged in as ""."""

NO_PAGES = {
    "/static/{name}": "style sheet, scripts, pictures",
    "/favicon.ico": "a picture",
    "/pyodide/{version}/{name}": "scripts and modules of a page that computes",
    "/robots.txt": "text for robots",
    "/language.php": "leads back to the page before",
    "/credit.csv": "a table for programs",
    "/credit_history.json": "figures for programs",
    "/app_history.json": "figures for programs",
    "/badge/{name}.svg": "a picture",
    "/user_picture.php": "a picture",
    "/found_file.php": "an output file",
    "/my_answers_zip.php": "output files",
    "/my_answers_csv.php": "a table for programs",
    "/my_answer.php": "an output file",
    "/compute_frame": "for other sites, where the project has named some",
    "/forum.php": "another server's pages in a frame, where the project has such a forum",
}
"""What the server answers to browsers beside pages."""

REFUSED_FORMS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "join.php": ("", {"user_name": "7", "email_addr": "x", "passwd": "x"}),
    "login.php": ("", {"email_addr": "x@example.org", "passwd": "x"}),
    "login_mail.php": ("", {"email_addr": "x"}),
    "password_reset.php": ("", {"email_addr": "x"}),
    "account.php": ("ada", {"user_name": "<b>", "url": "ftp://x"}),
    "team_create.php": ("ada", {"name": "7", "url": "ftp://x"}),
    "prefs_computing.php": ("ada", {"max_ncpus_pct": "many"}),
    "delete_account.php": ("ada", {"sure": "x", "passwd": "x"}),
}
"""Forms, who sends them, and what is refused."""


#: axe-core says much of what is right, too, which would take longer to hand over than to find.
RUN = """() => axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.flatMap(
    rule => rule.nodes.map(node => `${rule.id}: ${node.html.slice(0, 160)} (${node.failureSummary.slice(0, 200)})`)))"""


def findings(page: Page) -> list[str]:
    """Return what axe-core says about a page as it stands, with everything unfolded."""
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.evaluate(AXE)
    return [f"{page.url}: {each}" for each in page.evaluate(RUN)]


def test_every_page_of_the_server_is_looked_at(site: RunningSite) -> None:
    looked_at = {
        "/" + urlsplit(site.address(address)).path for pages in WHO.values() for address in pages.values()
    }
    others = {"/login_code.php", "/account_finish.php"}  # have tests of their own below
    missing = site.paths - looked_at - others - set(NO_PAGES) - {"/{path:path}"}
    assert missing == set(), "add them to PUBLIC, OWN or the operator's PAGES"


@pytest.mark.parametrize(("look", "who"), list(itertools.product(LOOKS, WHO))[: times(4)])
def test_axe_finds_nothing_on_any_page_and_each_is_quiet_fits_the_screen_and_asks_nobody_else(
    site: RunningSite, open_page: OpenPage, who: str, look: str
) -> None:
    statuses = {**STATUSES, **OF_OPERATORS}
    found = look_at(open_page(look, log_in=who), site, WHO[who], look, statuses, findings)
    assert found == []  # a rule, a place, and what is wrong there


@pytest.mark.parametrize("look", LOOKS[: times(2)])
def test_axe_finds_nothing_on_forms_that_were_refused(open_page: OpenPage, look: str) -> None:
    pages = {who: open_page(look, log_in=who).page for who in ("", "ada")}
    found: list[str] = []
    for address, (who, fields) in REFUSED_FORMS.items():
        page = pages[who]
        page.goto(address)
        form = page.locator("main form").filter(has=page.locator(f"[name='{next(iter(fields))}']")).first
        form.evaluate("form => form.noValidate = true")
        for name, text in fields.items():
            form.locator(f"[name='{name}']").fill(text)
        posted = page.expect_response(lambda answer: answer.request.method == "POST")
        with page.expect_event("load"), posted as sent:
            form.locator("button[type='submit']").first.click()
        assert sent.value.status == 422, address
        found += findings(page)
    assert found == []


def test_axe_finds_nothing_on_the_way_to_the_second_factor_and_through_it(
    site: RunningSite, open_page: OpenPage
) -> None:
    page, found = open_page("phone").page, list[str]()
    page.goto("join.php")
    for name, text in {"user_name": "Flint", "email_addr": email("flint"), "passwd": PASSWORD}.items():
        page.locator(f"[name='{name}']").fill(text)
    page.locator("[name='consent']").check()
    with page.expect_event("load"):
        page.get_by_role("button", name="Create the account").click()
    found += findings(page)  # a first page, with nothing on it yet
    page.goto("security.php")
    page.get_by_text("Set it up").click()
    secret = base64.b32decode(page.locator(".address code").inner_text())
    form = page.locator("form").filter(has=page.locator("[name='code']"))
    form.locator("[name='code']").fill(one_time_password(secret, time_step(site.now)))
    form.locator("[name='passwd']").fill(PASSWORD)
    form.get_by_role("button", name="Turn it on").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    found += findings(page)
    with page.expect_event("load"):
        page.get_by_role("button", name="Log out").click()
    page.goto("login.php")
    page.get_by_label("E-mail address").fill(email("flint"))
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/login_code.php*")
    found += findings(page)
    assert found == []


def test_axe_finds_nothing_where_the_manager_leads_a_new_account(
    site: RunningSite, open_page: OpenPage
) -> None:
    account = {"email_addr": email("gneiss"), "passwd_hash": 32 * "a", "user_name": "Gneiss"}
    answer = httpx.get(site.url + "create_account.php", params=account)
    key = html.fromstring(answer.content).findtext(".//authenticator")
    for look in LOOKS[: times(2)]:
        page = open_page(look).page
        page.goto(f"account_finish.php?auth={key}")
        assert page.locator("[name='user_name']").input_value() == "Gneiss"
        assert findings(page) == [], look
        fits(page, look)
