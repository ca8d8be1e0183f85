"""The pages of a statistics site in a browser: axe-core, widths, languages, and nobody else who is asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import uvicorn
from playwright.sync_api import Browser
from tests.browser.test_accessibility import findings
from tests.browser.windows import LOOKS, Watched, fits
from tests.helpers.statistics_site import ALICE, open_filled_site

from cobblestone.statistics.run import create_app

PAGES = (
    "",
    "ranking/user?by=total",
    "ranking/host?project=one",
    "ranking/team?q=our",
    "ranking/country",
    "ranking/gpu",
    f"user/{ALICE}",
    "host/900?project=one",
    "team/77?project=one",
    "project/one",
    f"compare/user?keys={ALICE},one-901",
    "collection",
    "user/nobody",
)
WORDS = {"en": "Total credit", "fr": "Crédit total", "sk": "Celkový kredit"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    ctx = open_filled_site(tmp_path_factory.mktemp("statistics"), url)
    server = uvicorn.Server(uvicorn.Config(create_app(ctx), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="statistics")
    thread.start()
    yield url
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.mark.parametrize(("look", "language"), [("desktop", "en"), ("dark-phone", "fr"), ("tablet", "sk")])
def test_every_page_fits_speaks_and_is_for_everybody(
    browser: Browser, url: str, look: str, language: str
) -> None:
    context = browser.new_context(base_url=url, locale=language, **LOOKS[look])
    watched, found = Watched(context.new_page()), list[str]()
    page = watched.page
    for address in PAGES:
        page.goto(address)
        assert page.locator("html").get_attribute("lang") == language
        fits(page, address)
        if address.startswith("user/") and ALICE in address:
            assert WORDS[language] in page.inner_text("main")
            assert page.locator("polygon.layer-2").count() == 1, "two projects are stacked"
        found += findings(page)
    assert found == []
    assert [line for line in watched.console if "404" not in line] == []
    assert watched.hosts == {urlsplit(url).netloc}
    context.close()
