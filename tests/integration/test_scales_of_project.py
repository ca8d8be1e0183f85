"""A project's export of scales, and published scales that it takes, by API and command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import httpx
import pytest
from tests.helpers.project_world import World

from cobblestone.cli import run_command
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.exports import PublishedScale
from cobblestone.domain.people import Scope
from cobblestone.server.credit.scales import KEPT_FILE, kept_scales
from cobblestone.server.daemons.housekeeping import set_scales
from cobblestone.store.credit import credit_statistics
from cobblestone.store.people import credentials
from cobblestone.wire.project.scales import parse_project_scales, write_published_scales_json

PLAN_CLASSES = """
[cuda]
gpu_type = "NVIDIA"
[opencl]
gpu_type = "ATI"
[mt]
max_threads = 8
"""


def add_version(world: World, app_id: int, plan_class: str, *, number: int = 100, scale: float = 0.0) -> None:
    world.write(
        lambda tx: tx.execute(
            "INSERT INTO app_version (app_id, platform, version_num, plan_class, expavg_credit, expavg_time, pfc_n,"
            " pfc_avg, pfc_scale) VALUES (?, 'x86_64-pc-linux-gnu', ?, ?, 700, ?, 200, 8.0, ?)",
            (app_id, number, plan_class, world.now, scale),
        )
    )


@pytest.fixture
def gpus(world: World) -> World:
    """An app with CPU and GPU versions (compared), and one with GPU versions only."""
    (world.ctx.folder.root / "plan_classes.toml").write_text(PLAN_CLASSES)
    both, only = world.add_app("both"), world.add_app("only")
    world.write(lambda tx: tx.execute("DELETE FROM app_version WHERE app_id = ?", (only.id,)))
    add_version(world, both.id, "cuda", number=90, scale=0.5)  # an older one
    add_version(world, both.id, "cuda", scale=0.125)
    add_version(world, only.id, "cuda", scale=0.1)
    add_version(world, only.id, "opencl")
    return world


def token_of(world: World) -> str:
    secret = credentials.new_secret()
    world.write(
        lambda tx: credentials.create_token(tx, secret, name="t", scopes=[Scope.MANAGE], now=world.now)
    )
    return secret


def apply(world: World, body: object) -> httpx.Response:
    return world.post("/api/v1/scales", json=body, headers={"Authorization": f"Bearer {token_of(world)}"})


def stored(world: World) -> dict[tuple[str, str, int], float]:
    found = world.ctx.store.read(credit_statistics.scales_in_use)
    return {(item.app_name, item.plan_class, item.version_num): item.scale for item in found}


@pytest.mark.parametrize("form", ["xml", "json"])
def test_a_project_exports_its_versions_in_use_with_decayed_credit(gpus: World, form: str) -> None:
    gpus.now += 7 * 86400
    answer = gpus.get(f"/scales.{form}")
    assert answer.status_code == 200
    project = parse_project_scales(answer.content).scales
    assert (project.name, project.master_url) == (
        gpus.ctx.settings.project.name,
        gpus.ctx.settings.project.url,
    )
    assert project.credit_per_gflops_day == 200.0
    found = {(item.app_name, item.plan_class): item for item in project.versions}
    assert set(found) == {("both", ""), ("both", "cuda"), ("only", "cuda"), ("only", "opencl")}
    assert found["both", "cuda"].pfc_scale == 0.125
    assert found["both", "cuda"].version_num == 100
    assert found["both", "cuda"].expavg_credit == pytest.approx(350.0)
    assert found["both", "cuda"].measured
    assert not found["only", "cuda"].measured  # an echo of what others published must not come back to them


def test_a_database_without_statistics_exports_versions_of_unknown_scale(world: World) -> None:
    world.add_app()
    (version,) = parse_project_scales(world.get("/scales.xml").content).scales.versions
    assert version.pfc_scale == 0.0


def test_published_scales_are_set_for_gpu_only_apps_and_kept(gpus: World) -> None:
    answer = apply(gpus, {"scales": {"cuda": 0.05, "": 3.0, "mt": 0.9}})
    assert answer.status_code == 200, answer.text
    reply = answer.json()
    assert reply["n_other_versions"] == 2
    found = {
        item["plan_class"]: (item["app"], item["old_scale"], item["new_scale"], item["changed"])
        for item in reply["versions"]
    }
    assert found == {"cuda": ("only", 0.1, 0.05, True), "opencl": ("only", None, None, False)}
    after = stored(gpus)
    assert after["only", "cuda", 100] == 0.05
    assert after["both", "cuda", 100] == 0.125
    assert kept_scales(gpus.ctx.folder) == {"cuda": 0.05, "mt": 0.9}
    assert apply(gpus, {"scales": {"cuda": 0.05}}).json()["versions"][0]["changed"] is False


def test_the_daemon_that_sets_scales_keeps_to_what_was_applied(gpus: World) -> None:
    gpus.run(set_scales(gpus.ctx))
    assert stored(gpus)["only", "cuda", 100] == pytest.approx(0.1)  # a tenth, as deployed
    apply(gpus, {"scales": {"cuda": 0.05}})
    gpus.run(set_scales(gpus.ctx))
    assert stored(gpus)["only", "cuda", 100] == 0.05
    (gpus.ctx.folder.root / KEPT_FILE).unlink()
    gpus.run(set_scales(gpus.ctx))
    assert stored(gpus)["only", "cuda", 100] == pytest.approx(0.1)


def test_a_dry_run_changes_nothing(gpus: World) -> None:
    before = stored(gpus)
    assert apply(gpus, {"scales": {"cuda": 0.05}, "dry_run": True}).json()["versions"][0]["changed"] is True
    assert stored(gpus) == before
    assert kept_scales(gpus.ctx.folder) == {}


@pytest.mark.parametrize(
    "bad",
    [{"cuda": 0}, {"cuda": -1}, {"cuda": 1e9}, {"cuda": "0.1"}, {"cuda": None}, {"cu\nda": 0.1}, [], "x"],
)
def test_scales_that_cannot_be_are_refused(gpus: World, bad: object) -> None:
    assert apply(gpus, {"scales": bad}).status_code == 422
    assert kept_scales(gpus.ctx.folder) == {}


def test_only_operators_apply_scales(gpus: World) -> None:
    assert gpus.post("/api/v1/scales", json={"scales": {"cuda": 0.05}}).status_code == 401


def test_a_damaged_file_of_kept_scales_is_said(world: World) -> None:
    (world.ctx.folder.root / KEPT_FILE).write_bytes(b"{")
    with pytest.raises(ConfigError, match="Remove it"):
        kept_scales(world.ctx.folder)


# -- the command line, on the project's folder ----------------------------------------------------------------


@pytest.fixture
def folder(gpus: World, tmp_path: Path) -> Path:
    """A copy of the project's folder, which no server has open."""
    gpus.ctx.folder.admin_token_file.write_text(token_of(gpus))
    return Path(shutil.copytree(gpus.ctx.folder.root, tmp_path / "copy"))


def test_the_command_shows_a_table_and_changes_nothing_in_a_dry_run(
    gpus: World, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = tmp_path / "published.json"
    item = PublishedScale(
        plan_class="cuda", scale=0.05, n_projects=3, lowest=0.05, highest=0.05, expavg_credit=1.0
    )
    published.write_bytes(write_published_scales_json([item], time=gpus.now))
    command = ["scales", "apply", str(published), "--project", str(folder)]
    assert run_command([*command, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "only 1.00" in text
    assert "would change" in text
    assert "not published" in text
    assert "versions of apps with CPU versions, whose scales are computed automatically: 2." in text
    assert run_command([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["versions"][0]["changed"] is True
    assert run_command([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["versions"][0]["changed"] is False
