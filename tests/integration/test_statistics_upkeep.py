"""Backup, restore, doctor and monitoring of a statistics site."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import duckdb
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.helpers.statistics_exports import DAY, next_day, population

from cobblestone.cli import run_command
from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.service.backup import make_backup, restore_backup
from cobblestone.statistics import backup
from cobblestone.statistics.backup import site_contents
from cobblestone.statistics.collector import ExportCollector
from cobblestone.statistics.doctor import CHECKS
from cobblestone.statistics.folder import CollectedProject, SiteFolder, create_site, load_settings
from cobblestone.statistics.ingest import ingest
from cobblestone.statistics.run import METRICS, create_app, open_site
from cobblestone.statistics.store.build import published

NOON = 20_000 * DAY + DAY / 2


def take(site: SiteFolder, day: int) -> None:
    """Collect the export of a day."""
    project = site.project("one")
    export = population(1, n_users=40, time=NOON)
    for _ in range(day):
        export = next_day(export)
    export.write(project.incoming)
    before, now = project.read_state(), NOON + day * DAY
    came = ingest(project, before.generation, now=now, max_rows=10**6)
    state = CollectedProject(
        generation=came.generation, exported=came.exported, collected=now, tried=now, counts=came.counts
    )
    project.write_state(state)


def publish(site: SiteFolder, now: float) -> None:
    async def here(work: object) -> object:
        return work()  # type: ignore[operator]  # given by the test

    with open_site(site.root, clock=lambda: now) as ctx:
        asyncio.run(ExportCollector(site, ctx.settings, clock=lambda: now, run=here).publish())


@pytest.fixture
def site(tmp_path: Path) -> SiteFolder:
    """A site with two days of one project."""
    settings = create_site(tmp_path / "site")
    with settings.open("a") as file:
        file.write('[[project]]\nname = "one"\ntitle = "One"\nurl = "http://one.example.org/"\n')
    found = SiteFolder(tmp_path / "site")
    for day in (0, 1):
        take(found, day)
    publish(found, NOON + DAY)
    return found


def ask(site: SiteFolder, path: str, now: float = NOON + DAY) -> httpx.Response:
    async def get(app: object) -> httpx.Response:
        transport = httpx.ASGITransport(app)  # type: ignore[arg-type]  # Starlette is one
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8095/") as client:
            return await client.get(path)

    with open_site(site.root, clock=lambda: now) as ctx:
        return asyncio.run(get(create_app(ctx)))


def wrong(
    site: SiteFolder, *options: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, list[str]]]:
    """Return the exit status of the doctor and the codes of what is wrong, but for how late all is since the test's days."""
    capsys.readouterr()
    status = run_command(["statistics", "doctor", str(site.root), "--json", *options])
    found = json.loads(capsys.readouterr().out)
    codes = {
        each["check"]["name"]: [item["code"] for item in each["diagnosis"]["findings"]]
        for each in found["checks"]
    }
    return status, {name: listed for name, listed in codes.items() if listed and name != "collection"}


def test_a_site_is_ready_once_there_is_something_to_show_and_says_how_collecting_goes(
    site: SiteFolder, tmp_path: Path
):
    create_site(tmp_path / "new")
    empty = ask(SiteFolder(tmp_path / "new"), "readyz")
    assert (empty.status_code, empty.json()["database"]) == (503, "no project's figures have come in yet")
    assert ask(site, "readyz").status_code == 200
    assert ask(site, "healthz").text == "ok\n"
    found = {
        sample.name + "".join(f"/{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(ask(site, "metrics").text)
        for sample in family.samples
    }
    assert found["cobblestone_published_seconds"] == NOON + DAY
    assert found["cobblestone_project_failed/one"] == 0
    assert found["cobblestone_project_records/one"] > 40
    for name, info in METRICS.items():
        assert info.label or any(key.startswith(f"cobblestone_{name}") for key in found), name


def test_a_restored_site_shows_the_same_with_its_history(site: SiteFolder, tmp_path: Path):
    target = tmp_path / "backup.tar"
    assert run_command(["statistics", "backup", str(site.root), str(target)]) == 0
    assert run_command(["statistics", "restore", "--check", str(target)]) == 0
    assert run_command(["statistics", "restore", str(target), str(tmp_path / "again")]) == 0
    again = SiteFolder(tmp_path / "again")
    publish(again, NOON + DAY)
    for page in ("ranking/user?format=json", "ranking/host?format=json"):
        assert ask(again, page).json() == ask(site, page).json()
    histories = [
        {path.name: path.read_bytes() for path in each.project("one").history("user").iterdir()}
        for each in (site, again)
    ]
    assert histories[0] == histories[1]
    assert (
        run_command(
            ["statistics", "doctor", str(again.root), "--check", "rows", "--check", "history", "--quiet"]
        )
        == 0
    )


def test_a_backup_is_of_one_moment_however_the_site_goes_on(
    site: SiteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A day comes in while the first copy is made: the next one has it as a whole."""
    days = iter((2,))
    counted = backup._counted_files

    def counted_then_collected(folder: SiteFolder) -> frozenset[tuple[str, int, int]]:
        found = counted(folder)
        for day in days:
            take(site, day)
        return found

    monkeypatch.setattr(backup, "_counted_files", counted_then_collected)
    make_backup(site_contents(site), tmp_path / "b")
    restore_backup(tmp_path / "b", tmp_path / "again", SiteFolder.kind)
    again = SiteFolder(tmp_path / "again")
    assert again.project("one").read_state().tried == NOON + 2 * DAY
    assert wrong(again, "--check", "rows", "--check", "history", capsys=capsys) == (0, {})


def test_a_site_that_never_stands_still_is_not_backed_up(
    site: SiteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    moments = iter(range(100))
    monkeypatch.setattr(backup, "_counted_files", lambda folder: next(moments))
    with pytest.raises(StoreError, match="faster than they can be copied"):
        make_backup(site_contents(site), tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_sound_site_is_called_sound(site: SiteFolder, capsys: pytest.CaptureFixture[str]):
    assert wrong(site, capsys=capsys) == (0, {})


def test_a_site_whose_pages_another_version_made_starts_and_makes_them_anew(
    site: SiteFolder, capsys: pytest.CaptureFixture[str]
):
    path = published(site)
    assert path is not None
    with duckdb.connect(path) as db:
        db.execute("UPDATE site SET format = format - 1")
        db.execute("DROP TABLE merged")  # which that version did not know
    assert wrong(site, "--check", "pages", capsys=capsys) == (4, {"pages": ["other_format"]})
    page = "ranking/user?format=json"
    assert ask(site, page).status_code == 503
    publish(site, NOON + DAY)
    assert ask(site, page).status_code == 200
    assert wrong(site, "--check", "pages", capsys=capsys) == (0, {})


def test_what_is_broken_is_found_and_what_lies_around_is_removed(
    site: SiteFolder, capsys: pytest.CaptureFixture[str]
):
    project = site.project("one")
    stray = project.rows("0-stray")
    stray.mkdir()
    os.utime(stray, (NOON, NOON))
    site.secret.chmod(0o640)
    (project.rows(project.read_state().generation) / "host.parquet").write_bytes(b"PAR1")
    (project.history("user") / "020000-020005.parquet").write_bytes(b"")
    status, found = wrong(site, capsys=capsys)
    assert status == 4
    assert found == {
        "rows": ["unreadable"],
        "history": ["unreadable"],
        "strays": ["stray"],
        "secret": ["readable"],
    }
    wrong(site, "--repair", capsys=capsys)
    assert not stray.exists()
    assert set(wrong(site, capsys=capsys)[1]) == {"rows", "history"}


def test_the_page_for_operators_names_all_metrics_and_checks():
    text = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text()
    for name in METRICS:
        assert f"`cobblestone_{name}`" in text, name
    for name in CHECKS:
        assert f"| `{name}` |" in text, name


def test_wrong_settings_are_named_also_in_the_list_and_the_environment_overrides_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(ConfigError, match="is not a cobblestone statistics site"):
        load_settings(tmp_path)
    path = create_site(tmp_path)
    good = '[[project]]\nname = "one"\ntitle = "One"\nurl = "http://one.example.org/"\n'
    with path.open("a") as file:
        file.write(f'{good}[[project]]\nname = "Two"\ntitel = "Two"\n')
    with pytest.raises(ConfigError) as raised:
        load_settings(tmp_path)
    said = str(raised.value)
    assert "unknown setting 'project.1.titel'. Did you mean 'title'?" in said
    assert "project.1.title is missing." in said
    assert "project.1.name = 'Two' is not allowed" in said
    path.write_text(2 * good)
    with pytest.raises(ConfigError, match="allowed: two projects have the name 'one'"):
        load_settings(tmp_path)
    path.write_text(good)
    monkeypatch.setenv("COBBLESTONE_STATISTICS_SERVER__PORT", "9000")
    assert load_settings(tmp_path).server.port == 9000


def test_what_a_backup_says_names_no_schema_where_there_is_none(
    site: SiteFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["statistics", "backup", str(site.root), str(tmp_path / "backup.tar")]) == 0
    assert "schema" not in capsys.readouterr().out
