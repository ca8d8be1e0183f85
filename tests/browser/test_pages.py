"""The pages in a browser: quiet console, nothing from elsewhere, no sideways scrolling, keyboard, with and without scripts."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.browser.windows import OpenPage, RunningSite, look_at
from tests.helpers.volunteers import PASSWORD, email

#: Address by name; ``{kind}`` is the id of a result of that kind.
PUBLIC = {
    "index": "",
    "status": "server_status.php",
    "apps": "apps.php",
    "user": "show_user.php?userid={bruno}",
    "team": "team_display.php?teamid=1",
    "history": "credit_history.php?userid={bruno}",
    "rank": "rank.php?userid={bruno}",
    "history-team": "credit_history.php?teamid=1",
    "teams": "teams.php?words=sun",
    "app": "app.php?appid=1",
    "top-total": "top_users.php?by=total&appid=1",
    "password-reset": "password_reset.php",
    "password-reset-of-managers": "get_passwd.php",
    "link-too-old": "password_new.php?code=x",
    "top-users": "top_users.php",
    "top-hosts": "top_hosts.php",
    "top-teams": "top_teams.php",
    "news": "news.php",
    "join": "join.php",
    "login": "login.php",
    "index-by-name": "index.php",
    "about": "about.php",
    "science": "science.php",
    "terms": "terms.php",
    "compute": "compute",
    "certificate-check": "certificate_check.php",
    "login-mail": "login_mail.php",
    "login-link-too-old": "login_link.php?code=x",
    "confirmation-too-old": "email_confirm.php?code=x",
    "missing": "nothing_like_this.php",
    "private": "hosts_user.php?userid={dora}",
}
OWN = {
    "home": "home.php",
    "computers": "hosts_user.php",
    "computer": "show_host_detail.php?hostid=1",
    "tasks": "results.php",
    "tasks-error": "results.php?hostid=3&state=error",
    "task-valid": "result.php?resultid={valid}",
    "task-error": "result.php?resultid={error}",
    "task-invalid": "result.php?resultid={invalid}",
    "workunit": "workunit.php?wuid=1",
    "profile": "account.php",
    "security": "security.php",
    "ownership": "account_ownership.php",
    "tokens": "tokens.php",
    "delete": "delete_account.php",
    "computing": "prefs_computing.php?venue=home",
    "project": "prefs_project.php",
    "new-address": "email_new.php?code=x",
    "host-edit": "host_edit.php?hostid=1",
    "team-edit": "team_edit.php?teamid=1",
    "team-create": "team_create.php",
    "own-team": "team_display.php?teamid=1",
    "certificate": "certificate.php",
    "found": "found.php",
    "profile-edit": "profile_edit.php",
    "archive": "archived_tasks.php?userid={ada}",
    "team-messages": "team_messages.php?teamid=1",
    "my-work": "my_work.php",
    "my-batch": "my_batch.php?id={my_batch}",
    "my-batch-new": "my_batch_new.php?app=transit",
}

STATUSES = {
    "certificate-check": 404,
    "missing": 404,
    "private": 403,
    "link-too-old": 410,
    "login-link-too-old": 410,
    "confirmation-too-old": 410,
}
"""Of pages that say what is wrong."""


@pytest.mark.parametrize("code", ["fr", "sk"])
@pytest.mark.parametrize("own", [False, True], ids=["visitor", "volunteer"])
def test_pages_fit_a_phone_in_every_language(
    site: RunningSite, open_page: OpenPage, code: str, own: bool
) -> None:
    watched = open_page("phone", log_in="ada" if own else "")
    watched.page.goto(f"language.php?to={code}&next=index.php")
    look_at(watched, site, OWN if own else PUBLIC, f"phone-{code}", STATUSES)


def test_the_log_in_form_is_reached_and_sent_by_keyboard(open_page: OpenPage) -> None:
    page = open_page().page
    page.goto("login.php")
    order: list[str] = []
    for _ in range(20):
        page.keyboard.press("Tab")
        order.append(
            page.evaluate("document.activeElement.name || document.activeElement.textContent.trim()")
        )
        if order[-1] == "passwd":
            break
    assert order[0] == "Skip to content"
    assert order[-2:] == ["email_addr", "passwd"]
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Shift+Tab")
    page.keyboard.type(email("ada"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/home.php")
    expect(page.get_by_role("heading", name="Your account")).to_be_visible()


@pytest.mark.parametrize("look", ["desktop", "phone"])
def test_a_subject_is_refused_beside_its_name_and_saving_stands_apart(open_page: OpenPage, look: str) -> None:
    page = open_page(look, log_in="bruno").page
    page.goto("prefs_project.php")
    choice = page.get_by_label("Cancer research")
    name, box = page.get_by_text("Cancer research").bounding_box(), choice.bounding_box()
    card = page.locator("fieldset.card").last.bounding_box()
    save = page.get_by_role("button", name="Save").bounding_box()
    assert name
    assert box
    assert card
    assert save
    assert box["x"] > name["x"] + name["width"]
    assert abs(box["y"] + box["height"] / 2 - name["y"] - name["height"] / 2) < 2
    assert save["y"] >= card["y"] + card["height"] + 8
    choice.focus()
    page.keyboard.type("no, n")
    page.get_by_role("button", name="Save").press("Enter")
    page.get_by_text("Saved.").wait_for()
    expect(page.get_by_label("Cancer research")).to_have_value("no")


def test_everything_works_without_scripts(open_page: OpenPage) -> None:
    page = open_page(java_script_enabled=False, log_in="ada").page
    page.get_by_role("link", name="All tasks").click()
    page.get_by_label("State").get_by_role("link", name="Valid", exact=False).first.click()
    expect(page.get_by_role("heading", name="Your tasks")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("link", name="Log in")).to_be_visible()


def test_live_figures_are_refreshed_in_place(open_page: OpenPage) -> None:
    page = open_page().page
    page.clock.install()
    page.goto("")
    page.evaluate(
        "document.querySelector('#live').dataset.before = '1'; document.querySelector('#live').innerHTML = ''"
    )
    with page.expect_response("**/server_status.php?part=live"):
        page.clock.run_for(11_000)
    page.wait_for_selector("#live .tile")
    assert page.evaluate("document.querySelector('#live').dataset.before") == "1"


def test_what_was_typed_stays_when_a_form_is_refused(open_page: OpenPage) -> None:
    page = open_page().page
    page.goto("join.php")
    page.get_by_role("textbox", name="Name").fill("Eve")
    page.get_by_label("E-mail address").fill(email("ada"))
    page.get_by_label("Password").fill("another one")
    page.get_by_role("checkbox", name="I agree").check()
    page.get_by_role("button", name="Create the account").click()
    expect(page.get_by_text("There is already an account with this address")).to_be_visible()
    assert page.get_by_role("textbox", name="Name").input_value() == "Eve"
    assert page.get_by_label("E-mail address").input_value() == email("ada")
