"""A whole project in one process: folder, database, application, daemons, a clock that tests turn, and simulated hosts.

Everything goes through the real code; only the sockets are missing (ASGI transport) and the daemons are stepped by hand.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import re
import tempfile
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import httpx
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.helpers.store_content import stage_bytes
from tests.helpers.wire_elements import Element, read_elements
from tests.helpers.wire_requests import written_request

from cobblestone.domain.apps import ANY_PLATFORM, App, AppDispatch, AppFile, AppVersion, ComparisonRule
from cobblestone.domain.job_form import JobForm
from cobblestone.domain.values import AppId, AppVersionId
from cobblestone.domain.work import InputFile, JobLimits, OutputSpec, ReplicationRules
from cobblestone.ops.files import write_private
from cobblestone.ops.settings import settings_template
from cobblestone.server.app import create_app
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.daemons.assimilator import Assimilator
from cobblestone.server.daemons.file_deleter import delete_files
from cobblestone.server.daemons.transitioner import Transitioner
from cobblestone.server.daemons.validator import Validator
from cobblestone.server.daemons.workers import Workers
from cobblestone.server.run import open_project
from cobblestone.store.catalog import apps, files
from cobblestone.store.maintenance.upgrade import upgrade
from cobblestone.store.schema.project import PROJECT
from cobblestone.store.work import batches
from cobblestone.wire.project.signatures import encode_public_key, generate_key, sign_md5
from cobblestone.wire.scheduler.host import HostInfo
from cobblestone.wire.scheduler.report import MsgFromHost, ReportedFile, ReportedResult
from cobblestone.wire.scheduler.request import OtherResult, SchedulerRequest

T = TypeVar("T")
URL = "http://127.0.0.1:8080/"
START = 1_800_000_000.0
PLATFORM = "x86_64-pc-linux-gnu"


@cache
def empty_database() -> bytes:
    """A database as the migrations make it; made once, for that takes most of a second."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "project.sqlite"
        upgrade(path, PROJECT)
        return path.read_bytes()


@cache
def _key(number: int) -> rsa.RSAPrivateKey:
    return generate_key()


_numbers = itertools.count()


def some_key() -> rsa.RSAPrivateKey:
    """A signing key.  Making one takes a tenth of a second, so a few are used in turn: neighbours have different ones."""
    return _key(next(_numbers) % 5)


class Poster(Protocol):
    """Something that carries a host's requests to a server."""

    def post(self, path: str, **options: Any) -> httpx.Response: ...


class World:
    """One project."""

    def __init__(self, root: Path, *, database: str = "", **settings: dict[str, object]) -> None:
        """``database``: the address of an empty PostgreSQL database; else SQLite."""
        self.now = START
        self._stack = ExitStack()
        root.mkdir(parents=True, exist_ok=True)
        # Who joins by a client in a test shows computers, and gets no mail: what tests look at is their own doing.
        accounts = {"computers": "shown", "confirmed_email": "off", **settings.pop("accounts", {})}
        values = {"project": {"url": URL}, "database": {"url": database}, "accounts": accounts, **settings}
        (root / "cobblestone.toml").write_text(settings_template(**values))
        folder = ProjectFolder(root)
        folder.make()
        write_private(folder.secret_file, os.urandom(32))
        if database:
            upgrade(database, PROJECT)
        else:
            folder.database.write_bytes(empty_database())
        self.ctx = self._stack.enter_context(open_project(root, clock=lambda: self.now))
        self.loop = asyncio.new_event_loop()
        self._stack.callback(self.loop.close)
        # Of a body that is refused its sender's generator is left in the middle.
        self._stack.callback(lambda: self.loop.run_until_complete(self.loop.shutdown_asyncgens()))
        self.workers = Workers(self.ctx.settings.checks)
        self._stack.callback(self.workers.close)
        self.transport = httpx.ASGITransport(create_app(self.ctx))  #: its ``client`` is whom calls come from
        self.http = httpx.AsyncClient(transport=self.transport, base_url=URL)
        self.key: rsa.RSAPrivateKey = some_key()
        self.write(
            lambda tx: apps.set_current_key(
                tx, encode_public_key(self.key.public_key()), successor_signatures={}, now=self.now
            )
        )
        self.transitioner = Transitioner(self.ctx)
        self.validator = Validator(self.ctx, self.workers)
        self.assimilator = Assimilator(self.ctx, self.workers)

    def close(self) -> None:
        self.run(self.http.aclose())
        self._stack.close()

    # -- doing --------------------------------------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    def write(self, operation: Any) -> Any:
        return self.ctx.store.write(operation)

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        return self.ctx.store.read(lambda db: db.query(sql, parameters))

    def value(self, sql: str, *parameters: object) -> Any:
        return self.ctx.store.read(lambda db: db.value(sql, parameters))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.run(self.http.get(path, **options))

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.run(self.http.post(path, **options))

    def settle(self) -> None:
        """Step the daemons until none has anything to do."""

        async def all_daemons() -> None:
            done = True
            while done:
                done = False
                for daemon in (self.transitioner, self.validator, self.assimilator):
                    done = bool(await daemon.step()) or done
                done = bool(await delete_files(self.ctx)) or done
                for daemon in (self.validator, self.assimilator):
                    unfinished = set(daemon.side_work.unfinished)
                    await daemon.side_work.wait(unfinished, at_most=None)
                    done = done or bool(unfinished)

        self.run(all_daemons())

    # -- content ------------------------------------------------------------------------------------------

    def store_file(self, name: str, content: bytes, *, compress: bool = False) -> files.FileRow:
        staged = stage_bytes(self.ctx.folder.staging, content)
        physical = files.app_file_name(name, staged.sha256)
        return files.add_file(
            self.ctx.store, self.ctx.folder.download, staged, physical, now=self.now, compress=compress
        )

    def add_app(
        self,
        name: str = "demo",
        *,
        quorum: int = 1,
        outputs: Sequence[OutputSpec] = (OutputSpec(open_name="out"),),
        comparison: ComparisonRule | None = None,
        assimilator: str = "",
        platform: str = ANY_PLATFORM,
        limits: JobLimits | None = None,
        rules: ReplicationRules | None = None,
        signed: bool = True,
        dispatch: AppDispatch | None = None,
        beta: bool = False,
        credit_system: str = "benchmark",
    ) -> App:
        app = App(
            id=AppId(0),
            name=name,
            comparison=comparison or ComparisonRule(kind="bitwise"),
            assimilator=assimilator,
            rules=rules or ReplicationRules(min_quorum=quorum, target_nresults=quorum),
            limits=limits or JobLimits(rsc_fpops_est=1e12),
            output_specs=tuple(outputs),
            dispatch=dispatch or AppDispatch(),
            beta=beta,
            credit_system=credit_system,  # the simplest one: amounts can be told in advance
        )
        app = self.write(lambda tx: apps.create_app(tx, app, form=JobForm(), now=self.now))
        stored = self.store_file(f"{name}.sh", f"#!/bin/sh\n# {name}\n".encode())
        version = AppVersion(
            id=AppVersionId(0),
            app_id=app.id,
            platform=platform,
            version_num=0,
            files=(
                AppFile(
                    name=stored.name,
                    open_name=f"{name}.sh",
                    nbytes=stored.nbytes,
                    md5=stored.md5,
                    main_program=True,
                    signature=sign_md5(self.key, stored.md5) if signed else "",
                ),
            ),
        )
        self.write(lambda tx: apps.add_version(tx, version, now=self.now))
        return app

    def add_jobs(
        self,
        app: App,
        n: int = 1,
        *,
        inputs: Sequence[InputFile] = (),
        token_id: int | None = None,
        priority: int = 0,
        **job_changes: Any,
    ) -> batches.BatchRow:
        def submit(tx: Any) -> batches.BatchRow:
            batch = batches.create_batch(
                tx, name="batch", app_id=app.id, token_id=token_id, priority=priority, now=self.now
            )
            values: dict[str, Any] = {
                "limits": app.limits,
                "rules": app.rules_of_jobs,
                "output_specs": app.output_specs,
                "input_files": tuple(inputs),
            }
            job = batches.NewJob(**(values | job_changes))
            served = self.ctx.candidates.served(priority)
            batches.add_jobs(tx, batch, app.name, [job] * n, served=served, now=self.now)
            return batches.close_batch(tx, batch.id, now=self.now)

        batch = self.write(submit)
        self.settle()
        return batch

    def user(self, name: str) -> str:
        """Create an account; its authenticator."""
        email = f"{name}@example.org"
        reply = self.get(
            "/create_account.php",
            params={
                "email_addr": email,
                "passwd_hash": hashlib.md5(f"secret{email}".encode()).hexdigest(),
                "user_name": name.title(),
            },
        )
        return read_elements(reply.content).get("authenticator")

    def host(self, authenticator: str, cpid: str = "", **info: Any) -> SimHost:
        return SimHost(self, authenticator, cpid or os.urandom(16).hex(), info)


class SimHost:
    """A host that speaks the protocol as the stock client does."""

    def __init__(self, world: Poster, authenticator: str, cpid: str, info: Mapping[str, Any]) -> None:
        self.world = world
        self.held: dict[str, Element] = {}  #: results that it has, by name
        self.outputs: dict[str, Element] = {}  #: descriptions of the output files that it may upload
        self.key = ""  #: the code signing key that it holds
        self.headers: dict[str, str] = {}  #: of its HTTP requests to the scheduler
        self.reply = Element("")
        defaults: dict[str, Any] = {
            "domain_name": "host",
            "p_ncpus": 4,
            "p_fpops": 2e9,
            "p_iops": 4e9,
            "m_nbytes": 16e9,
            "d_total": 200e9,
            "d_free": 100e9,
            "os_name": "Linux Debian",
            "p_vendor": "Vendor",
            "p_model": "Model",
        }
        self.request = SchedulerRequest(
            authenticator=authenticator,
            client_version=72005,
            client_version_text="7.20.5",
            client_cap_plan_class=True,
            platforms=(PLATFORM,),
            host_info=HostInfo(host_cpid=cpid, **{**defaults, **info}),
            other_results_listed=True,
        )

    @property
    def id(self) -> int:
        return self.request.hostid

    def rpc(
        self,
        *,
        ask: float = 0.0,
        instances: float = 4.0,
        reports: Sequence[ReportedResult] = (),
        trickles: Sequence[MsgFromHost] = (),
        lose_reply: bool = False,
        **changes: Any,
    ) -> Element:
        """One scheduler RPC; ``ask``: seconds of work wanted, on ``instances`` idle CPUs.

        A lost reply changes nothing on this side.
        """
        request = replace(
            self.request,
            work_req_seconds=ask,
            cpu_req_secs=ask,
            cpu_req_instances=instances if ask else 0.0,
            results=tuple(reports),
            trickles=tuple(trickles),
            code_sign_key=self.key,
            other_results=tuple(
                OtherResult(name=name, app_version=0)
                for name in self.held
                if name not in {report.name for report in reports}
            ),
            **changes,
        )
        self.request = replace(self.request, rpc_seqno=self.request.rpc_seqno + 1)
        response = self.world.post("/cgi-bin/cgi", content=written_request(request), headers=self.headers)
        assert response.status_code == 200, response.text
        reply = read_elements(response.content)
        if lose_reply:
            return reply
        self.reply = reply
        if reply.has("hostid"):
            self.request = replace(self.request, hostid=int(reply.get("hostid")), rpc_seqno=1)
        if reply.has("code_sign_key"):
            self.key = reply.get("code_sign_key").strip()
        for ack in reply.all("result_ack"):
            self.held.pop(ack.get("name"), None)
        for result in reply.all("result"):
            self.held[result.get("name")] = result
        for info in reply.all("file_info"):
            self.outputs[info.get("name")] = info
        return reply

    def new_results(self) -> list[str]:
        """Names of the results in the last reply."""
        return [result.get("name") for result in self.reply.all("result")]

    def messages(self) -> list[str]:
        return [message.text.strip() for message in self.reply.all("message")]

    # -- outputs ------------------------------------------------------------------------------------------

    def file_info(self, name: str) -> Element:
        """The description of a file that came in a reply."""
        return self.outputs[name]

    def upload(self, name: str, content: bytes, **options: Any) -> Element:
        info = self.file_info(name)
        return post_upload(
            self.world,
            name,
            content,
            signature=info.get("xml_signature").strip(),
            max_nbytes=int(info.get("max_nbytes")),
            **options,
        )

    def finish(self, name: str, *contents: bytes, cpu_time: float = 100.0) -> ReportedResult:
        """Upload outputs as the client does; the report of a success."""
        for index, content in enumerate(contents):
            assert self.upload(f"{name}_{index}", content).get("status") == "0"
        return succeeded(name, *contents, cpu_time=cpu_time)


def succeeded(name: str, *contents: bytes, cpu_time: float = 100.0) -> ReportedResult:
    """The report of a success."""
    return ReportedResult(
        name=name,
        final_cpu_time=cpu_time,
        final_elapsed_time=cpu_time * 1.1,
        exit_status=0,
        exit_status_present=True,
        state=5,
        platform=PLATFORM,
        version_num=100,
        stderr="hello",
        files=tuple(
            ReportedFile(name=f"{name}_{index}", nbytes=len(content))
            for index, content in enumerate(contents)
        ),
    )


def failed(name: str, exit_status: int = 1, state: int = 3, stderr: str = "it broke") -> ReportedResult:
    """The report of a failure."""
    return replace(succeeded(name), exit_status=exit_status, state=state, stderr=stderr)


def upload_body(
    name: str,
    content: bytes,
    *,
    signature: str,
    max_nbytes: int,
    offset: int = 0,
    nbytes: int | None = None,
    md5: str | None = None,
) -> bytes:
    """The bytes of an upload, from ``offset`` on."""
    digest = hashlib.md5(content).hexdigest() if md5 is None else md5
    head = (
        "<data_server_request>\n    <core_client_major_version>7</core_client_major_version>\n"
        "    <core_client_minor_version>20</core_client_minor_version>\n    <core_client_release>5</core_client_release>\n"
        f"<file_upload>\n<file_info>\n<name>{name}</name>\n<xml_signature>\n{signature}</xml_signature>\n"
        f"<max_nbytes>{max_nbytes}</max_nbytes>\n</file_info>\n<nbytes>{len(content) if nbytes is None else nbytes}</nbytes>\n"
        f"<md5_cksum>{digest}</md5_cksum>\n<offset>{offset}</offset>\n<data>\n"
    )
    return head.encode() + content[offset:]


def post_upload(world: Poster, name: str, content: bytes, **options: Any) -> Element:
    """Upload; the reply."""
    response = world.post("/cgi-bin/file_upload_handler", content=upload_body(name, content, **options))
    assert response.status_code == 200, response.text
    return read_elements(response.content)


def file_size(world: Poster, name: str) -> int:
    """Ask how much of a file is there."""
    body = f"<data_server_request>\n<get_file_size>{name}</get_file_size>\n</data_server_request>\n"
    reply = read_elements(world.post("/cgi-bin/file_upload_handler", content=body.encode()).content)
    assert reply.get("status") == "0", reply
    return int(reply.get("file_size"))


def plain(text: str) -> str:
    """A text without white space at its ends and in runs."""
    return re.sub(r"\s+", " ", text).strip()
