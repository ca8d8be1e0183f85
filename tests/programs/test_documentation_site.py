"""The documentation site: it is built without a broken link, needs nothing from elsewhere, and `cobblestone docs` shows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Page, sync_playwright
from tests.browser.conftest import CHROMIUM, FLAGS

import cobblestone
from cobblestone.cli import docs
from cobblestone.domain.errors import ConfigError

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"""<(?:script|link|img|iframe|source|use)\b[^>]*?\b(?:src|srcset|href)\s*=\s*["']?([^"'\s>]+)"""
)


def build(place: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--config-file", config, "--site-dir", place],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built pages; a broken link stops the building."""
    place = tmp_path_factory.mktemp("site")
    done = build(place)
    assert done.returncode == 0, done.stderr
    return place


def test_every_document_is_a_page(site: Path):
    names = {path.stem for path in (ROOT / "docs").glob("*.md")} | {
        "index",
        "python",
        "commands",
        "contributing",
        "changes",
    }
    assert names <= {path.stem for path in site.glob("*.html")}


def test_the_reference_has_every_public_name_and_its_example(site: Path):
    text = (site / "python.html").read_text(encoding="utf-8")
    for name in set(cobblestone.__all__) - {"__version__"}:
        assert f"{name}" in text
    assert "quorum" in text
    assert ":class:" not in text


def test_pages_load_nothing_from_elsewhere(site: Path):
    pages = list(site.glob("*.html"))
    loaded = {link for page in pages for link in LOADED.findall(page.read_text(encoding="utf-8"))}
    assert len(loaded) > 5
    assert [link for link in loaded if re.match(r"(https?:)?//", link)] == []


def test_a_broken_link_stops_the_building(tmp_path: Path):
    config = tmp_path / "mkdocs.yml"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[there](nowhere.md) [here](#nothing)\n")
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config.write_text(
        "site_name: x\nstrict: true\n" + text[text.index("validation:") : text.index("plugins:")]
    )
    done = build(tmp_path / "site", config)
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
    assert "#nothing" in done.stderr


QUESTIONS = {
    "cancel a batch": "scientist-cancel-a-batch-abort-its-jobs",
    "attach to a project": "volunteer-attach-to-a-project",
    "stop getting work": "stop-getting-work-or-leave-a-project",
    "lost password": "lost-password",
    "change quorum": "change-the-quorum-of-an-app",
    "credit not granted": "credit-is-pending-or-was-not-granted",
    "upgrade project": "operator-upgrade-a-project",
    "restore backup": "back-up-a-project-restore-a-backup",
    "limit CPU": "limit-cpu-memory-disk-or-hours-of-the-day",
    "delete an app": "delete-an-app",
    "no work for my computer": "my-computer-gets-no-work-no-tasks",
    "how do I write a credit system": "write-a-credit-system-a-comparison-a-scheduling-policy",
}


@pytest.mark.browser
def test_a_search_finds_the_section_that_answers_first(site: Path):
    served = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    try:
        with sync_playwright() as playwright:
            window = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS).new_page()
            found = {words: first_section(window, served.server_port, words) for words in QUESTIONS}
    finally:
        served.shutdown()
        thread.join()
        served.server_close()
    assert found == {words: f"questions.html#{anchor}" for words, anchor in QUESTIONS.items()}


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Say nothing."""


def first_section(window: Page, port: int, words: str) -> str:
    """The first section that a search shows, below the name of its page."""
    window.goto(f"http://127.0.0.1:{port}/index.html?q={quote(words)}")
    link = window.locator(".md-search-result__link[href*='#']").first
    link.wait_for(state="attached", timeout=60_000)
    found = re.search(r"([\w-]+\.html)[^#]*(#.*)", link.get_attribute("href") or "")
    return f"{found[1]}{found[2]}" if found else ""


def test_the_command_shows_the_built_pages(site: Path, tmp_path: Path):
    program = f"from cobblestone.cli import docs; docs.SITE = __import__('pathlib').Path({str(site)!r}); docs.docs(port=0)"
    with subprocess.Popen(
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[2]
            answer = httpx.get(address, timeout=30, trust_env=False)
            assert "Volunteer computing" in answer.text
            assert httpx.get(f"{address}../../etc/passwd", timeout=30, trust_env=False).status_code == 404
        finally:
            process.terminate()


def test_every_page_is_shown_without_a_built_site():
    root = docs.FOLDERS[1]
    for path in [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").glob("*.md")]:
        text = docs.page(root, path.relative_to(root).as_posix())
        assert text is not None, path.name
        assert "<h1 id=" in text
    shown = docs.page(root, "docs/operations.md") or ""
    assert 'id="proxy"' in shown
    headings = re.findall(r"<b>([^<]*)</b>", shown.partition("</nav>")[0])
    assert headings == ["Tutorials", "Scientist", "Volunteer", "Operator", "Rules", "Developer"]
    assert "quorum" in (docs.page(root, "python") or "")
    assert 'id="cobblestone-batch-cancel"' in (docs.page(root, "commands") or "")
    assert docs.page(root, "docs/../pyproject.toml") is None


def test_an_installation_without_documentation_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(docs, "SITE", tmp_path)
    monkeypatch.setattr(docs, "FOLDERS", (tmp_path,))
    with pytest.raises(ConfigError, match="Install cobblestone again"):
        docs.docs(port=0)
