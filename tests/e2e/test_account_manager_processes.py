"""Two processes of an account manager on one PostgreSQL database; one is killed while computers call both."""

from __future__ import annotations

import random
import re
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from tests.e2e.conftest import PASSWORD
from tests.e2e.test_account_manager import EMAIL, join
from tests.helpers.eventually import eventually
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.server_process import Server
from tests.helpers.wire_captures import recorded

from cobblestone.account_manager.core import operation
from cobblestone.account_manager.core.folder import ManagerFolder, create_manager
from cobblestone.account_manager.store import ledger, projects
from cobblestone.account_manager.upkeep import CHECKS, Opened
from cobblestone.demo.processes import free_port
from cobblestone.service.settings import NewService
from cobblestone.store.engine.database import Store
from cobblestone.wire.project.account import passwd_hash

N_COMPUTERS = 6
SECONDS = 8.0
PROJECT = "http://127.0.0.1:9/"  # nobody answers there
USED = 0.25
"""Seconds of processor for each second, as computers say: below every limit."""
CREDIT_SECOND = 1e9 * 200 / 86400e9


class ManagerProcess(Server):
    program = (sys.executable, "-m", "cobblestone", "manager")


class Computer:
    """A computer that works, and calls one of the two with the recorded request of a stock client until it is answered."""

    def __init__(self, number: int) -> None:
        self.cpid = f"{number:032x}"
        self.opaque = ""
        self.key = ""
        self.begun = time.time()
        self.said: list[float] = []  #: credit in all, at each answered call
        self.again = 0  #: calls that were not answered

    def body(self, seconds: float) -> bytes:
        text = recorded("22", "request").decode()
        for old, new in (
            ("AmUser", EMAIL),
            ("706210b8ce6db9bae8e16269f3c6af7e", passwd_hash(PASSWORD, EMAIL)),
            ("fd41c81f9950857f4fa4203e04e920d6", self.cpid),
            ("http://127.0.0.1:18080/mock/", PROJECT),
            ("<cpu_ec>0.010555", f"<cpu_ec>{seconds * CREDIT_SECOND:.12f}"),
            ("<cpu_time>4.559874", f"<cpu_time>{seconds:.9f}"),
            ("</acct_mgr_request>", f"<opaque>{self.opaque}</opaque>\n</acct_mgr_request>"),
        ):
            text = text.replace(old, new)
        if self.key:
            text = re.sub(
                r"<name>[^<]*</name>\s*<password_hash>[^<]*</password_hash>",
                f"<authenticator>{self.key}</authenticator>",
                text,
                count=1,
            )
        return re.sub("<p_model>[^<]*", f"<p_model>Model {self.cpid}", text).encode()

    def live(self, urls: list[str], until: float) -> None:
        while time.time() < until:
            seconds = 1e4 + (time.time() - self.begun) * USED
            while not self.calls(random.choice(urls), self.body(seconds)):
                self.again += 1
            self.said.append(seconds * CREDIT_SECOND)

    def calls(self, url: str, body: bytes) -> bool:
        try:
            answer = httpx.post(f"{url}rpc.php", content=body, timeout=30, verify=False).content.decode()
        except httpx.HTTPError:
            return False
        assert "<error_num>" not in answer, answer
        self.opaque = answer.split("<opaque>", 1)[1].split("</opaque>", 1)[0]
        self.key = answer.split("<authenticator>", 1)[1].split("</authenticator>", 1)[0]
        return True


@pytest.fixture
def durable() -> PostgresServer:
    return PostgresServer(durable=True)


def test_a_process_that_is_killed_loses_and_doubles_nothing_and_the_other_takes_its_duties(
    tmp_path: Path, durable: PostgresServer
):
    address, root = durable.empty_database(), tmp_path / "manager"
    ports = [free_port(), free_port()]
    urls = [f"http://127.0.0.1:{port}/" for port in ports]
    create_manager(root, NewService(name="Stones", port=ports[0], database=address))
    first, second = (
        ManagerProcess(root, url, "--port", str(port)) for url, port in zip(urls, ports, strict=True)
    )
    store = Store(address, readers=1)

    def add(url: str) -> None:
        signature = operation.sign_address(ManagerFolder(root), url)
        store.write(lambda tx: operation.add_project(tx, url, signature=signature, now=time.time()))

    def asked() -> int:
        return sum(each.failures > 0 for each in store.read(projects.all_projects))

    try:
        first.start()  # alone, so it has all duties
        second.start()
        join(urls[1])
        add(PROJECT)
        eventually(lambda: asked() == 1, seconds=60)
        time.sleep(1.0)
        computers = [Computer(number) for number in range(N_COMPUTERS)]
        until = time.time() + SECONDS
        threads = [threading.Thread(target=each.live, args=(urls, until)) for each in computers]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS / 3)
        first.kill()
        add("http://127.0.0.1:10/")
        for thread in threads:
            thread.join()
        assert sum(each.again for each in computers) > 0, "nobody noticed the end of a process"
        eventually(lambda: asked() == 2, seconds=90)
        counted = store.read(lambda db: ledger.replayed(db, "all")).credit
        assert counted == pytest.approx(sum(each.said[-1] - each.said[0] for each in computers), rel=1e-6)
        assert store.read(lambda db: db.value("SELECT COUNT(*) FROM host")) == N_COMPUTERS
        eventually(
            lambda: store.read(lambda db: ledger.sum_of(db, "all")).credit == pytest.approx(counted),
            seconds=120,
        )
        opened = Opened(ManagerFolder(root), store)
        found = [
            finding
            for check in CHECKS.values()
            for finding in store.read(lambda db, check=check: check.look(opened, db)).findings
        ]
        assert [each.code for each in found] == ["not_usable"] * 2
        n_again = sum(each.again for each in computers)
        print(f"\n{sum(len(each.said) for each in computers)} contacts, {n_again} again")
    finally:
        store.close()
        second.stop()
        durable.close()
