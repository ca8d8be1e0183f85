"""Backup, restore, upgrade, doctor and monitoring of an account manager."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.helpers.manager_world import CREDIT_SECOND, Caller, ManagerWorld

from cobblestone.account_manager.api import METRICS
from cobblestone.account_manager.core.folder import ManagerFolder
from cobblestone.account_manager.run import open_manager
from cobblestone.account_manager.store import ledger
from cobblestone.account_manager.upkeep import CHECKS, manager_contents
from cobblestone.cli import run_command
from cobblestone.domain.errors import StoreError
from cobblestone.service import health
from cobblestone.service.backup import make_backup, restore_backup, verify_backup
from cobblestone.wire.project.signatures import encode_private_key, generate_key

SECONDS = 3600.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ManagerWorld]:
    found = ManagerWorld(tmp_path / "manager")
    yield found
    found.close()


@pytest.fixture
def caller(world: ManagerWorld) -> Caller:
    """A computer that has worked for an hour."""
    world.project(1)
    found = Caller(world, authenticator=world.join())
    found.call()
    world.now += SECONDS
    found.works("http://p1.example.org/", SECONDS)
    found.call()
    world.run(world.days.step())
    return found


def doctor(
    world: ManagerWorld, *options: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, list[str]]]:
    """Return the exit status and the codes of what is wrong, by check."""
    capsys.readouterr()
    status = run_command(["manager", "doctor", str(world.ctx.folder.root), "--json", *options])
    found = json.loads(capsys.readouterr().out)
    codes = {
        each["check"]["name"]: [item["code"] for item in each["diagnosis"]["findings"]]
        for each in found["checks"]
    }
    return status, {name: listed for name, listed in codes.items() if listed}


def figures(world: ManagerWorld) -> dict[str, float]:
    return {
        sample.name + "".join(f"/{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(world.get("metrics").text)
        for sample in family.samples
    }


def test_metrics_tell_of_people_computers_projects_and_contacts(world: ManagerWorld, caller: Caller):
    found = figures(world)
    assert found["cobblestone_accounts"] == 1
    assert (found["cobblestone_computers/known"], found["cobblestone_computers/active"]) == (1, 1)
    assert found["cobblestone_projects/usable"] == 1
    assert found["cobblestone_counted_credit"] == pytest.approx(4 * SECONDS * CREDIT_SECOND)
    assert found["cobblestone_http_requests_total/contact/200"] == 2
    for name, info in METRICS.items():
        assert info.label or any(key.startswith(f"cobblestone_{name}") for key in found), name


def test_metrics_are_for_this_machine_only(world: ManagerWorld):
    passed_on = world.run(world.http.get("metrics", headers={"X-Forwarded-For": "203.0.113.5"}))
    assert passed_on.status_code == 403
    assert world.get("metrics").status_code == 200


def test_ready_means_a_database_that_writes_and_daemons_that_beat(
    world: ManagerWorld, monkeypatch: pytest.MonkeyPatch
):
    assert (world.get("readyz").status_code, world.get("healthz").text) == (200, "ok\n")
    world.ctx.health.daemon("days").sleeps(world.now, 5)
    late = time.monotonic() + 1000
    monkeypatch.setattr(health, "monotonic", lambda: late)
    answer: httpx.Response = world.get("readyz")
    assert (answer.status_code, answer.json()["daemons"]["days"]["state"]) == (503, "stuck")


def test_a_backup_of_a_running_one_is_restored_as_it_was(world: ManagerWorld, caller: Caller, tmp_path: Path):
    target = tmp_path / "backup.tar.gz"
    make_backup(manager_contents(world.ctx.folder), target)
    caller.works("http://p1.example.org/", SECONDS)
    caller.call()  # it goes on
    restored = tmp_path / "again"
    manifest = restore_backup(target, restored, ManagerFolder.kind)
    assert (manifest.name, manifest.database) == ("Stones", "sqlite")
    with open_manager(restored, clock=lambda: world.now) as ctx:
        assert ctx.store.read(lambda db: ledger.replayed(db, "all")).credit == pytest.approx(
            4 * SECONDS * CREDIT_SECOND
        )
        assert ctx.signing_key == world.ctx.signing_key
        assert ctx.secret == world.ctx.secret


def test_a_backup_without_the_signing_key_has_all_else(world: ManagerWorld, caller: Caller, tmp_path: Path):
    root = str(world.ctx.folder.root)
    assert run_command(["manager", "backup", root, str(tmp_path / "b"), "--keys", "no-signing-key"]) == 0
    assert not (tmp_path / "b" / "keys" / "url_sign_private").exists()
    assert run_command(["manager", "restore", "--check", str(tmp_path / "b")]) == 0
    assert run_command(["manager", "restore", str(tmp_path / "b"), str(tmp_path / "again")]) == 0
    assert run_command(["manager", "doctor", str(tmp_path / "again"), "--quiet"]) == 0
    assert run_command(["manager", "backup", root, str(tmp_path / "b")]) == 1


def test_a_damaged_backup_is_refused_and_leaves_nothing(world: ManagerWorld, caller: Caller, tmp_path: Path):
    make_backup(manager_contents(world.ctx.folder), tmp_path / "b")
    key = tmp_path / "b" / "keys" / "url_sign_public"
    key.write_text(key.read_text().replace("1", "2", 1))
    with pytest.raises(StoreError, match="damaged"):
        verify_backup(tmp_path / "b", ManagerFolder.kind)
    with pytest.raises(StoreError, match="damaged"):
        restore_backup(tmp_path / "b", tmp_path / "again", ManagerFolder.kind)
    assert not (tmp_path / "again").exists()


def test_an_upgrade_has_nothing_to_do_after_a_start(world: ManagerWorld, capsys: pytest.CaptureFixture[str]):
    assert run_command(["manager", "upgrade", str(world.ctx.folder.root), "--dry-run"]) == 0
    assert "The database has schema" in capsys.readouterr().out
    assert run_command(["manager", "upgrade", str(world.ctx.folder.root)]) == 1
    assert "already open" in capsys.readouterr().err
    world.release()
    assert run_command(["manager", "upgrade", str(world.ctx.folder.root)]) == 0


def test_a_sound_one_is_called_sound(world: ManagerWorld, caller: Caller, capsys: pytest.CaptureFixture[str]):
    assert doctor(world, capsys=capsys) == (0, {})


def test_what_cannot_be_read_is_a_fault_of_its_check_and_the_others_go_on(
    world: ManagerWorld, caller: Caller, capsys: pytest.CaptureFixture[str]
):
    world.write(lambda tx: tx.execute("DROP TABLE daily"))
    world.ctx.folder.secret_file.chmod(0o644)
    status, wrong = doctor(world, capsys=capsys)
    assert (status, wrong["days"], wrong["keys"]) == (4, ["unreadable"], ["readable"])


def test_wrong_sums_and_open_secrets_are_found_and_mended(
    world: ManagerWorld, caller: Caller, capsys: pytest.CaptureFixture[str]
):
    def spoil(tx: Any) -> None:
        tx.execute("UPDATE daily SET cpu_ec = cpu_ec + 5 WHERE owner = 'all'")
        tx.execute("UPDATE project_account SET total = total * 2")

    world.write(spoil)
    world.ctx.folder.secret_file.chmod(0o644)
    status, wrong = doctor(world, capsys=capsys)
    assert (status, wrong) == (
        4,
        {"days": ["not_of_ledger"], "totals": ["total_differs"], "keys": ["readable"]},
    )
    assert doctor(world, "--repair", capsys=capsys) == (0, {})
    assert doctor(world, capsys=capsys) == (0, {})


def test_rows_without_owners_wrong_keys_and_signatures_are_found(
    world: ManagerWorld, caller: Caller, capsys: pytest.CaptureFixture[str]
):
    def spoil(tx: Any) -> None:
        tx.execute("UPDATE host_project SET host_id = 99")
        tx.execute("UPDATE account SET weak_authenticator = 'x', is_operator = 0")
        tx.execute("UPDATE project SET url_signature = 'abc', problem = 'It is away.'")

    world.write(spoil)
    world.ctx.folder.sign_private.write_text(encode_private_key(generate_key()))
    status, wrong = doctor(world, capsys=capsys)
    assert status == 4
    assert wrong == {
        "rows": ["orphans"],
        "people": ["wrong_weak_key", "no_operator"],
        "keys": ["other_key"],
        "signatures": ["bad_signature"],
        "projects": ["not_usable"],
    }
    shutil.rmtree(world.ctx.folder.keys)
    world.ctx.folder.keys.mkdir(mode=0o700)
    assert "no_key" in doctor(world, "--check", "keys", capsys=capsys)[1]["keys"]


def test_the_page_for_operators_names_all_metrics_and_checks():
    text = (Path(__file__).parents[2] / "docs" / "manager.md").read_text()
    for name in METRICS:
        assert f"`cobblestone_{name}`" in text, name
    for name in CHECKS:
        assert f"| `{name}` |" in text, name
