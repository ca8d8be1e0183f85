"""Log-in with the account of an institute by a browser: to the provider and back, with a browser's cookies and rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect
from tests.browser.windows import on_loopback
from tests.helpers.project_world import World
from tests.integration.test_web_institute import ADA, issuer

# The provider uses a part of Authlib that is to go.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
provider = issuer  # a fixture


@pytest.fixture
def address(provider: str, tmp_path: Path, browser: Browser) -> Iterator[str]:
    """A project whose people log in at the provider."""
    oidc = {
        "issuer": provider,
        "name": "Example University",
        "client_id": "stones",
        "client_secret": "secret",
        "groups": ["astro"],
    }
    with on_loopback(lambda url: World(tmp_path / "project", project={"url": url}, oidc=oidc)) as (_, url):
        yield url


def test_a_member_comes_back_logged_in_and_may_submit(browser: Browser, address: str, provider: str):
    httpx.put(f"{provider}/users/a1", json=ADA).raise_for_status()
    with browser.new_context(base_url=address) as context:
        page = context.new_page()
        for _ in range(2):
            page.goto("login.php")
            page.get_by_role("button", name="Log in with Example University").click()
            page.locator("input[name=sub]").fill("a1")
            page.get_by_role("button", name="Authorize").click()
            expect(page.get_by_role("heading", name="Your account")).to_be_visible()
            page.get_by_role("link", name="My work").click()
            expect(page.get_by_role("heading", name="My work")).to_be_visible()
            context.clear_cookies()
