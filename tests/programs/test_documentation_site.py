"""The documentation site: it is built without a broken link, needs nothing from elsewhere, and `cobblestone docs` shows it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

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
    assert 'id="proxy"' in (docs.page(root, "docs/operations.md") or "")
    assert "quorum" in (docs.page(root, "python") or "")
    assert 'id="cobblestone-batch-cancel"' in (docs.page(root, "commands") or "")
    assert docs.page(root, "docs/../pyproject.toml") is None


def test_an_installation_without_documentation_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(docs, "SITE", tmp_path)
    monkeypatch.setattr(docs, "FOLDERS", (tmp_path,))
    with pytest.raises(ConfigError, match="Install cobblestone again"):
        docs.docs(port=0)
