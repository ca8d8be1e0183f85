"""What a real project granted reaches the figure of a person whose stock client an account manager leads."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.conftest import PASSWORD, LiveProject
from tests.e2e.test_account_manager import EMAIL, WORK, join
from tests.e2e.test_account_manager_processes import ManagerProcess
from tests.helpers.eventually import eventually
from tests.helpers.stock_client import StockClient

from cobblestone.account_manager.store import granted, ledger
from cobblestone.account_manager.store.granted import AccountStanding, ProjectAccounting
from cobblestone.demo.processes import free_port
from cobblestone.domain.values import DAY
from cobblestone.policy.account_manager.accounting import Amounts
from cobblestone.policy.account_manager.accounting_policies import CEILING, KAPPA, STARTER_POOL
from cobblestone.store.engine.database import Store

PATIENCE = 120.0
"""Seconds; nothing here takes a tenth of that on a quiet machine."""


class LedManager:
    """An account manager over one project, with the client that it leads."""

    def __init__(self, project: LiveProject, root: Path) -> None:
        self.project = project
        self.folder, port = root / "manager", free_port()
        self.url = f"http://127.0.0.1:{port}/"
        project.cli("manager", "create", str(self.folder), "--port", str(port))
        project.cli("manager", "add", str(self.folder), project.url)
        self.database = Store(self.folder / "manager.sqlite", readers=1)
        self.process = ManagerProcess(self.folder, self.url)
        self.client = StockClient(root / "stock")
        self.process.start()

    def close(self) -> None:
        self.client.stop()
        self.process.stop()
        self.database.close()

    def value(self, sql: str) -> object:
        return self.database.read(lambda db: db.value(sql))

    def asking(self) -> ProjectAccounting:
        return self.database.read(lambda db: granted.project_accounting(db, 1))

    def ask(self, *options: str) -> None:
        """Have the project asked now, instead of tomorrow: a process that starts looks at once."""
        before = self.asking().asked_time
        self.project.cli("manager", "accounting", str(self.folder), "1", *options)
        self.process.stop()
        self.process.start()
        eventually(lambda: self.asking().asked_time > before, seconds=PATIENCE)
        assert not self.asking().problem

    def counted(self) -> Amounts:
        """Have the client call, and return what was counted by then."""
        self.client.command("--acct_mgr", "sync")
        return self.database.read(lambda db: ledger.replayed(db, "all"))

    def standing(self, later: float = 0.0) -> AccountStanding:
        """What the person is shown, or would be so many seconds later if nothing happened until then."""
        found = self.database.read(lambda db: granted.standing(db, 1, now=time.time() + later))
        assert found is not None
        return found


def test_the_figure_grows_with_contacts_and_reaches_what_the_project_granted(
    live: Callable[..., LiveProject], tmp_path: Path
):
    project = live()
    project.app("work", WORK)
    options = ("--scope", "accounting", "--project", str(project.folder))
    token = re.search(r"cob_\S+", project.cli("token", "create", "Stones", *options).stdout)
    assert token is not None
    (tmp_path / "token").write_text(token[0])
    manager = LedManager(project, tmp_path)
    with contextlib.closing(manager):
        join(manager.url)
        made = "SELECT COUNT(*) FROM project_account WHERE weak_key <> ''"
        usable = "SELECT COUNT(*) FROM project WHERE problem = ''"
        eventually(lambda: manager.value(made) == manager.value(usable) == 1, seconds=PATIENCE)
        manager.client.start()
        manager.client.command("--acct_mgr", "attach", manager.url, EMAIL, PASSWORD)
        eventually(lambda: project.value("SELECT COUNT(*) FROM host") == 1, seconds=PATIENCE)
        manager.counted()  # the totals of the first contact are the mark from which is counted
        manager.ask("--token-file", str(tmp_path / "token"), "--vouch")
        nothing = manager.standing()
        assert (nothing.target.whole, nothing.shown) == (0.0, 0.0)

        project.wait_for_batch(project.submit("work", "a"), manager.client)
        eventually(lambda: manager.counted().njobs_success == 1, seconds=PATIENCE, pause=1.0)
        claimed = manager.standing()
        assert claimed.target.final == 0.0
        assert 0.0 < claimed.target.provisional < STARTER_POOL
        assert 0.0 < claimed.shown < manager.standing(DAY).shown

        credit = "SELECT SUM(total_credit) FROM user_account"
        eventually(lambda: project.value(credit) > 0, seconds=PATIENCE)
        manager.ask("--vouch")
        arrived = manager.standing(30 * DAY)
        worth = project.value(credit)
        record = arrived.records[1]
        assert record.final == pytest.approx(worth)
        # This client never measured its CPU: the project takes its 1 GFLOPS for 4.3, so the manager's limit may bind.
        believed = min(worth, CEILING * record.estimate)
        assert arrived.target.final == pytest.approx(believed)
        assert believed * 0.999 <= arrived.shown <= believed * (1 + KAPPA) + STARTER_POOL
    assert manager.client.unparsed_xml() == []
