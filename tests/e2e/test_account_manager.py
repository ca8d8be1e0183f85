"""The account manager with a real project and real clients: the stock one and ours."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
from tests.e2e.conftest import PASSWORD, LiveProject
from tests.helpers.eventually import eventually
from tests.helpers.own_client import OwnClient
from tests.helpers.stock_client import StockClient

from cobblestone.account_manager.store import ledger
from cobblestone.demo.processes import free_port
from cobblestone.policy.account_manager.accounting import Amounts
from cobblestone.store.engine.database import Store

EMAIL = "ann@example.org"
WORK = """
import sys, time
end = time.process_time() + 1
while time.process_time() < end:
    pass
open(sys.argv[2], "w").write("x")
"""


def join(url: str) -> None:
    with httpx.Client(base_url=url, follow_redirects=True, timeout=60) as browser:
        page = browser.get("join.php").text
        token = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
        assert token is not None
        form = {"form_token": token[1], "user_name": "Ann", "email_addr": EMAIL, "passwd": PASSWORD}
        assert "boinccmd --acct_mgr attach" in browser.post("join.php", data=form).text


def test_both_clients_join_by_one_account_get_work_and_are_counted(
    live: Callable[..., LiveProject], tmp_path: Path
):
    project = live()
    project.app("work", WORK)
    folder, port = tmp_path / "manager", free_port()
    url = f"http://127.0.0.1:{port}/"
    project.cli("manager", "create", str(folder), "--port", str(port))
    project.cli("manager", "add", str(folder), project.url)
    stock, own = StockClient(tmp_path / "stock"), OwnClient(tmp_path / "own")
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((tmp_path / "manager.log").open("wb"))
        server = subprocess.Popen(
            [sys.executable, "-m", "cobblestone", "manager", "run", str(folder)], stdout=log, stderr=log
        )
        stack.callback(server.wait, 30)
        stack.callback(server.terminate)
        stack.callback(own.stop)
        stack.callback(stock.stop)

        def answers() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                return httpx.get(f"{url}healthz", verify=False).status_code == 200
            return False

        eventually(answers, seconds=60)
        join(url)
        database = stack.enter_context(contextlib.closing(Store(folder / "manager.sqlite", readers=1)))
        eventually(
            lambda: (
                database.read(
                    lambda db: db.value("SELECT COUNT(*) FROM project_account WHERE weak_key <> ''")
                )
                and not database.read(lambda db: db.value("SELECT problem FROM project"))
            ),
            seconds=90,
        )
        stock.start()
        own.start()
        stock.command("--acct_mgr", "attach", url, EMAIL, PASSWORD)
        own.cli("manager", url, "--login", EMAIL, "--password", PASSWORD)
        eventually(lambda: project.value("SELECT COUNT(*) FROM host") == 2, seconds=90)
        batch = project.submit("work", *"ab")
        project.wait_for_batch(batch, stock, own)

        def counted() -> Amounts:
            stock.command("--acct_mgr", "sync")
            own.boinccmd("--acct_mgr", "sync")
            return database.read(lambda db: ledger.replayed(db, "all"))

        eventually(lambda: counted().njobs_success == 2, seconds=90, pause=2.0)
        amounts = counted()
        assert amounts.cpu_time > 0
        assert amounts.cpu_ec > 0
        assert "127.0.0.1" in stock.command("--acct_mgr", "info")
    assert "Traceback" not in (tmp_path / "manager.log").read_text()
    assert stock.unparsed_xml() == []
