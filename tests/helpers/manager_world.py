"""An account manager in this process, with a clock of its own, and computers that call it."""

from __future__ import annotations

import asyncio
import random
import re
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from cobblestone.account_manager.collector import CreditCollector
from cobblestone.account_manager.core import operation
from cobblestone.account_manager.core.folder import create_manager
from cobblestone.account_manager.daemons import AccountMaker, BalanceKeeper, ProjectChecker, add_up_days
from cobblestone.account_manager.run import create_app, open_manager
from cobblestone.account_manager.store import accounts, projects
from cobblestone.policy.account_manager.selection import OfferedVersion
from cobblestone.service.settings import NewService
from cobblestone.service.supervision import DaemonTask
from cobblestone.wire.client.account_manager import ManagerReply, parse_manager_reply
from cobblestone.wire.project.account import passwd_hash

URL = "http://127.0.0.1:8180/"
START = 1_790_000_000.0
LINUX = "x86_64-pc-linux-gnu"
FLOPS = 1e9
CREDIT_SECOND = FLOPS * 200 / 86400e9
PASSWORD = "a long password"


class ManagerWorld:
    """One account manager."""

    def __init__(
        self, root: Path, *, projects_http: httpx.AsyncBaseTransport | None = None, database: str = ""
    ) -> None:
        """``database``: address of a PostgreSQL database; a folder that is there already is opened once more."""
        if not root.exists():
            create_manager(root, NewService(name="Stones", port=8180, database=database))
        self.now = START
        self._opened = ExitStack()
        self.ctx = self._opened.enter_context(open_manager(root, clock=lambda: self.now))
        self.loop = asyncio.new_event_loop()
        self.app = create_app(self.ctx)
        self.http = self.browser()
        client = httpx.AsyncClient(
            transport=projects_http or httpx.MockTransport(lambda _: httpx.Response(503))
        )
        self.checker = ProjectChecker(self.ctx, client)
        self.maker = AccountMaker(self.ctx, client)
        self.collector = CreditCollector(self.ctx, client)
        self.days = DaemonTask(name="days", step=partial(add_up_days, self.ctx))
        self.balances = BalanceKeeper(self.ctx)

    def release(self) -> None:
        """Close the folder, so that somebody else can open it."""
        self._opened.close()

    def close(self) -> None:
        self.run(self.http.aclose())
        self._opened.close()
        self.loop.close()

    def run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(coroutine)

    def write(self, action: Any) -> Any:
        return self.ctx.store.write(action)

    def read(self, action: Any) -> Any:
        return self.ctx.store.read(action)

    def browser(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=URL, follow_redirects=True)

    def get(self, path: str) -> httpx.Response:
        return self.run(self.http.get(path))

    def post(self, path: str, **form: str) -> httpx.Response:
        """Send a form as the page at that address has it."""
        page = self.get(path).text
        token = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
        assert token is not None, page
        return self.run(self.http.post(path, data={"form_token": token[1], **form}))

    def join(self, name: str = "Ann", email: str = "ann@example.org") -> str:
        """Join; returns the weak key that computers get."""
        response = self.post("join.php", user_name=name, email_addr=email, passwd=PASSWORD)
        assert response.status_code == 200, response.text
        found = self.read(lambda db: accounts.account_by_email(db, email))
        return found[0].weak_authenticator

    def project(self, number: int, *, share: float = 1.0, shared: bool = True, **keywords: Any) -> int:
        """Add a project that everybody can be sent to."""
        url = f"http://p{number}.example.org/"
        signature = operation.sign_address(self.ctx.folder, url)
        key = f"{number}_{'a' * 32}" if shared else ""

        def add(tx: Any) -> int:
            id_ = operation.add_project(
                tx, url, signature=signature, share=share, shared_key=key, now=self.now
            )
            project = projects.project_by_id(tx, id_)
            ready = {
                "problem": "",
                "versions": frozenset({OfferedVersion(LINUX), OfferedVersion(LINUX, "NVIDIA")}),
                "name": f"P{number}",
            }
            projects.put_project(
                tx, replace(project, next_check=1e12, keywords=keywords.get("keywords", {}), **ready)
            )
            return id_

        id_ = self.write(add)
        self.read(self.ctx.projects.load)
        return id_


@dataclass
class Caller:
    """A client that calls an account manager."""

    world: ManagerWorld
    authenticator: str = ""
    name: str = ""
    password: str = ""
    cpid: str = field(default_factory=lambda: f"{random.getrandbits(128):032x}")
    ncpus: int = 4
    flops: float = FLOPS
    model: str = "Granite 4"
    opaque: str = ""
    gpu: bool = False
    version: str = "7.20.5"
    totals: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    by_manager: set[str] = field(default_factory=set[str])
    in_vain: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    jobs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  #: address and name
    dynamic: bool = True  #: has been told that the account manager wants totals; stock clients begin without
    reply: ManagerReply | None = None

    def works(self, url: str, seconds: float, jobs: int = 1) -> None:
        """Have all CPUs work for a project for so long."""
        totals = self.totals.setdefault(url, [0.0] * 6)
        totals[0] += self.ncpus * seconds * self.flops * 200 / 86400e9
        totals[1] += self.ncpus * seconds
        totals[4] += jobs

    def body(self) -> bytes:
        who = (
            f"<authenticator>{self.authenticator}</authenticator>"
            if self.authenticator
            else f"<name>{self.name}</name><password_hash>{passwd_hash(self.password, self.name)}</password_hash>"
        )
        names = ("cpu_ec", "cpu_time", "gpu_ec", "gpu_time", "njobs_success", "njobs_error")
        parts = "".join(
            f"<project><url>{url}</url><hostid>7</hostid><attached_via_acct_mgr>{int(url in self.by_manager)}"
            "</attached_via_acct_mgr><in_progress_dur>100</in_progress_dur>"
            + "".join(
                f"<{name}>{value!r}</{name}>"
                for name, value in zip(names, totals, strict=True)
                if self.dynamic
            )
            + "".join(f"<sched_req_no_work>{each}</sched_req_no_work>" for each in self.in_vain.get(url, ()))
            + "</project>"
            for url, totals in self.totals.items()
        )
        gpu = (
            "<coproc_cuda><count>1</count><name>Basalt 9</name><peak_flops>1e12</peak_flops></coproc_cuda>"
            if self.gpu
            else ""
        )
        jobs = "".join(
            f"<result><name>{name}</name><project_url>{url}</project_url></result>" for url, name in self.jobs
        )
        jobs = f"<results>{jobs}</results>" if jobs else ""
        return (
            f"<acct_mgr_request>{who}<host_cpid>{self.cpid}</host_cpid><domain_name>box</domain_name>"
            f"<client_version>{self.version}</client_version><platform_name>{LINUX}</platform_name>{parts}"
            f"<host_info><p_ncpus>{self.ncpus}</p_ncpus><p_model>{self.model}</p_model><p_fpops>{self.flops!r}</p_fpops>"
            f"<coprocs>{gpu}</coprocs></host_info>{jobs}<opaque>{self.opaque}</opaque></acct_mgr_request>"
        ).encode()

    def call(self) -> ManagerReply:
        """Call, and obey: attach what is new, keep what is given to be kept."""
        response = self.world.run(self.world.http.post("rpc.php", content=self.body()))
        assert response.status_code == 200
        self.reply = reply = parse_manager_reply(response.content)
        if not reply.error_num:
            self.authenticator, self.opaque, self.dynamic = reply.authenticator, reply.opaque, reply.dynamic
            for each in reply.accounts:
                self.totals.setdefault(each.url, [0.0] * 6)
                self.by_manager.add(each.url)
        return reply

    @property
    def urls(self) -> list[str]:
        """Addresses of the projects that it was told to work for, the main ones."""
        assert self.reply is not None
        return [each.url for each in self.reply.accounts if each.resource_share and not each.detach_when_done]
