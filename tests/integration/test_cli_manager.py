"""The commands of an account manager, beside one that is closed; and one that is killed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.helpers.eventually import eventually
from tests.helpers.manager_world import Caller, ManagerWorld

from cobblestone.account_manager.store import hosts, ledger
from cobblestone.cli import run_command
from cobblestone.demo.processes import free_port
from cobblestone.store.engine.database import Store


def manager(*arguments: str) -> int:
    return run_command(["manager", *arguments])


@pytest.fixture
def folder(tmp_path: Path) -> str:
    root = tmp_path / "stones"
    assert manager("create", str(root), "--port", "8180") == 0
    return str(root)


def test_projects_are_added_changed_and_listed(folder: str, capsys: pytest.CaptureFixture[str]):
    assert (
        manager("add", folder, "http://p.example.org", "--share", "2", "--keyword", "3", "--keyword", "7=0.5")
        == 0
    )
    assert manager("keyword", folder, "3", "Stars") == 0
    assert manager("keyword", folder, "21") == 0
    assert manager("keyword", folder, "56") == 1
    assert "There is no keyword 56" in capsys.readouterr().err
    assert manager("edit", folder, "p.example.org", "--share", "5", "--stop") == 0
    capsys.readouterr()
    assert manager("projects", folder, "--json") == 0
    (project,) = json.loads(capsys.readouterr().out)
    assert (project["url"], project["share"], project["stopped"]) == ("http://p.example.org/", 5.0, True)
    assert manager("ledger", folder) == 0
    assert "All sums agree" in capsys.readouterr().out
    assert manager("run", folder, "--check") == 0
    assert capsys.readouterr().out == f"{folder} could run.\n"


def test_projects_are_asked_what_they_granted_with_a_token(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert manager("add", folder, "https://p.example.org") == 0
    token = tmp_path / "token"
    token.write_text(f"cob_{'t' * 43}\n")
    assert manager("accounting", folder, "1", "--token-file", str(token)) == 0
    said = capsys.readouterr().out
    assert "is asked for granted credit" in said
    assert "validation is not trusted" in said
    assert manager("accounting", folder, "1", "--vouch", "--json") == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["asked"], state["vouched"], state["accounts"], state["problem"]) == (True, True, 0, "")
    assert manager("accounting", folder, "1", "--stop") == 0
    assert "not asked" in capsys.readouterr().out
    token.write_text("password")
    assert manager("accounting", folder, "1", "--token-file", str(token)) == 1
    assert "contains no token" in capsys.readouterr().err
    token.write_text(f"cob_{'t' * 43}")
    assert manager("add", folder, "http://far.example.org") == 0
    assert manager("accounting", folder, "2", "--token-file", str(token)) == 1
    assert "only sent over https" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "http://p.example.org/p"), "already"),
        (("add", "not an address"), "is not a project address"),
        (("add", "javascript:alert(1)"), "is not a project address"),
        (("add", "http://q.example.org/", "--share", "-1"), "above 0"),
        (("add", "http://q.example.org/", "--shared-key", "strong"), "weak key"),
        (("edit", "nothing", "--stop"), "no project"),
        (("accounting", "nothing"), "no project"),
        (("accounting", "p.example.org", "--token-file", "nothing"), "nothing: No such file"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(
    folder: str, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
):
    assert manager("add", folder, "http://p.example.org/p/") == 0
    verb, *rest = arguments
    assert manager(verb, folder, *rest) == 1
    assert said in capsys.readouterr().err


def test_addresses_can_be_signed_on_another_machine(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    key = Path(folder) / "keys" / "url_sign_private"
    away = key.rename(tmp_path / "key")
    assert manager("add", folder, "http://p.example.org/") == 1
    assert "kept elsewhere" in capsys.readouterr().err
    assert manager("sign", str(away), "http://p.example.org/") == 0
    signature = tmp_path / "signature"
    signature.write_text(capsys.readouterr().out)
    assert manager("add", folder, "http://other.example.org/", "--signature", str(signature)) == 1
    assert manager("add", folder, "http://p.example.org/", "--signature", str(signature)) == 0


def test_who_forgot_the_password_gets_a_new_one_from_the_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    world = ManagerWorld(tmp_path / "manager")
    world.join()
    assert manager("password", str(tmp_path / "manager"), "nobody@example.org") == 1
    capsys.readouterr()
    assert manager("password", str(tmp_path / "manager"), "Ann@example.org") == 0
    new = capsys.readouterr().out.strip()
    assert "Log in" in world.get("home.php").text
    assert "Your account" in world.post("login.php", email_addr="ann@example.org", passwd=new).text
    world.close()


def test_a_folder_that_is_none_or_not_empty_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").write_text("x")
    assert manager("create", str(tmp_path)) == 1
    assert manager("run", str(tmp_path)) == 1
    assert "cobblestone manager create" in capsys.readouterr().err


@dataclass
class Remote:
    """What a caller needs of a world, over real HTTP."""

    http: Any

    def run(self, answer: Any) -> Any:
        return answer


def test_what_was_answered_is_there_after_a_kill_and_a_backup_under_load_is_sound(tmp_path: Path):
    world = ManagerWorld(tmp_path / "manager")
    world.project(1)
    key = world.join()
    world.close()
    folder, port = tmp_path / "manager", free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "cobblestone", "manager", "run", str(folder), "--port", str(port)]
    )
    answered: dict[str, list[float]] = {}
    counts: dict[str, int] = {}

    def call(number: int) -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/", timeout=60) as http:
            caller: Any = Caller(Remote(http), authenticator=key, cpid=f"{number:032x}")  # type: ignore[arg-type]  # a client of its own
            while True:
                caller.works("http://p1.example.org/", random.random())
                try:
                    caller.call()
                except httpx.HTTPError:
                    return
                counts[caller.cpid] = counts.get(caller.cpid, 0) + 1
                answered[caller.cpid] = list(caller.totals["http://p1.example.org/"])

    def answers() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/healthz", verify=False).status_code == 200
        except httpx.HTTPError:
            return False

    try:
        eventually(answers, seconds=60)
        threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(answered) == 4 and min(counts.values()) >= 5, seconds=60)
        assert manager("backup", str(folder), str(tmp_path / "backup.tar")) == 0
        goal = 2 * max(counts.values())
        eventually(lambda: min(counts.values()) >= goal, seconds=60)
    finally:
        process.kill()
        process.wait()
    for thread in threads:
        thread.join()
    assert manager("doctor", str(folder), "--repair", "--quiet") == 0
    assert manager("restore", str(tmp_path / "backup.tar"), str(tmp_path / "again")) == 0
    assert manager("doctor", str(tmp_path / "again"), "--repair", "--quiet") == 0
    with_rows = Store(folder / "manager.sqlite", readers=1)
    try:
        ids = dict(with_rows.read(lambda db: db.query("SELECT host_cpid, id FROM host")))
        for cpid, totals in answered.items():
            reports = with_rows.read(lambda db, id_=ids[cpid]: hosts.host_projects(db, id_))
            kept = reports[1].record.reported
            assert kept is not None
            assert all(k >= told - 1e-9 for k, told in zip(kept.astuple(), totals, strict=True))
        assert not with_rows.read(ledger.wrong_days)
    finally:
        with_rows.close()
