"""Projects to measure: made through the store's own verbs, as big as wanted."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from tests.bench.load import Volunteer
from tests.helpers.store_content import stage_bytes

from cobblestone.demo.processes import free_port
from cobblestone.domain.apps import ANY_PLATFORM, App, AppFile, AppVersion, ComparisonRule
from cobblestone.domain.hosts import HostDescription
from cobblestone.domain.job_form import JobForm
from cobblestone.domain.people import Scope
from cobblestone.domain.values import AppId, AppVersionId, UserId
from cobblestone.domain.work import JobLimits, OutputSpec, ReplicationRules
from cobblestone.ops.files import write_private
from cobblestone.ops.settings import settings_template
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.daemons.transitioner import Transitioner
from cobblestone.server.run import open_project
from cobblestone.store.catalog import apps, files
from cobblestone.store.engine.database import Store, Transaction
from cobblestone.store.maintenance.upgrade import upgrade
from cobblestone.store.people import credentials, hosts, users
from cobblestone.store.work import batches
from cobblestone.wire.project.signatures import encode_public_key, generate_key, sign_md5

T = TypeVar("T")

N_USERS = 1000
HOSTS_PER_USER = 5
PART = 500
ADDED = 1_000_000  #: ids of added computers and their owners begin here
MANY = "WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i < {last})"
FILLED_TOGETHER = 10_000  #: rows of a table in one write; a write may not take long


@dataclass(frozen=True, kw_only=True)
class BenchProject:
    """A project that no server runs yet."""

    root: Path
    url: str
    location: Path | str  #: of the database
    volunteers: list[Volunteer]
    code_sign_key: str
    token: str  #: for the API
    n_jobs: int
    transition_rate: float  #: workunits/s of the transitioner that made the results


def make_project(
    root: Path,
    *,
    n_jobs: int,
    n_finished: int = 0,
    quorum: int = 1,
    hosts_per_user: int = HOSTS_PER_USER,
    in_batch: bool = True,
    database: str = "",
) -> BenchProject:
    """A project with an app, volunteers, jobs and their results.

    ``n_finished`` more jobs were done long ago.  Jobs that are in no batch let go of their outputs once they are assimilated.
    ``database``: address of a PostgreSQL database; empty: SQLite.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    root.mkdir(parents=True, exist_ok=True)
    (root / "cobblestone.toml").write_text(
        settings_template(
            project={"url": url},
            server={"port": port},
            database={"url": database},
            scheduler={
                "daily_result_quota": 1_000_000,
                "max_jobs_per_day_init": 1_000_000,  # else a computer that has done nothing gets one job for each processor
                "one_result_per_user": quorum > 1,
            },
            log={"level": "warning"},
            # The first round of badges over many computers would be measured along.
            badges={"total": [], "recent": [], "rank_percent": []},
        )
    )
    folder = ProjectFolder(root)
    folder.make()
    write_private(folder.secret_file, os.urandom(32))
    upgrade(folder.location(folder.settings()), folder.schema)
    with open_project(root) as ctx:
        key_text, app = _add_app(ctx, quorum=quorum)
        volunteers = _add_volunteers(ctx, hosts_per_user=hosts_per_user)
        add_jobs(ctx, app, n_finished + n_jobs)
        if not in_batch:
            ctx.store.write(lambda tx: tx.execute("UPDATE workunit SET batch_id = NULL"))
        begin = time.perf_counter()
        n = run_transitioner(ctx)
        rate = n / (time.perf_counter() - begin) if n else 0.0
        if n_finished:
            ctx.store.write(partial(_finish, n=n_finished, n_hosts=len(volunteers)))
        token = credentials.new_secret()
        ctx.store.write(
            lambda tx: credentials.create_token(tx, token, name="bench", scopes=tuple(Scope), now=time.time())
        )
    return BenchProject(
        root=root,
        url=url,
        location=database or folder.database,
        volunteers=volunteers,
        code_sign_key=key_text,
        token=token,
        n_jobs=n_jobs,
        transition_rate=rate,
    )


def add_exported_hosts(project: BenchProject, n: int) -> None:
    """Give a project ``n`` more computers with credit, whose owners (one for four) agreed to be exported."""
    description = (
        '{"timezone":3600,"p_ncpus":8,"p_vendor":"GenuineIntel","p_model":"Intel(R) Core(TM) i7-%d CPU @ 3.40GHz [Family 6 Model'
        ' 60 Stepping 3]","p_fpops":%f,"p_iops":%f,"p_membw":1e9,"m_nbytes":%f,"m_cache":8388608,"m_swap":2e9,"d_total":%f,'
        '"d_free":%f,"os_name":"Linux Debian","os_version":"12 [6.1|libc 2.36]","n_bwup":%f,"n_bwdown":%f,"on_frac":0.9,'
        '"platforms":["x86_64-pc-linux-gnu"],"coprocessors":[%s]}'
    )
    gpu = '{"type":"NVIDIA","count":1,"name":"NVIDIA GeForce RTX 3060","peak_flops":1.2e13,"ram":1.2e10,"driver_version":53000}'
    rng = random.Random(1)
    first, step = 10**6, 4
    now = time.time()  # older averages would be let decay by the server while it is measured

    def describe() -> str:
        numbers = [rng.uniform(1e9, 1e12) for _ in range(7)]
        return description % (rng.randrange(3000, 9999), *numbers, gpu if rng.random() < 0.3 else "")

    def add(tx: Transaction) -> None:
        people = range(first, first + n // step)
        tx.execute_many(
            "INSERT INTO user_account (id, name, email_addr, authenticator, weak_authenticator, cross_project_id, country,"
            " create_time, total_credit, expavg_credit, expavg_time)"
            f" VALUES (?, ?, ?, ?, ?, ?, 'Slovakia', 1.7e9, ?, ?, {now})",
            (
                (
                    id_,
                    f"User {id_}",
                    f"u{id_}@x.org",
                    f"e{id_}",
                    f"w{id_}",
                    f"{id_:032x}",
                    rng.random() * 1e6,
                    rng.random(),
                )
                for id_ in people
            ),
        )
        tx.execute_many(
            "INSERT INTO consent (user_id, kind, agreed, time, source) VALUES (?, 'statistics', 1, 1.7e9, 'bench')",
            ((id_,) for id_ in people),
        )
        tx.execute_many(
            "INSERT INTO host (id, user_id, host_cpid, description, create_time, rpc_time, total_credit, expavg_credit,"
            f" expavg_time) VALUES (?, ?, ?, ?, 1.7e9, {now}, ?, ?, {now})",
            (
                (
                    first + k,
                    first + k // step,
                    f"{rng.getrandbits(128):032x}",
                    describe(),
                    rng.random() * 1e5,
                    rng.random(),
                )
                for k in range(n // step * step)
            ),
        )

    with open_project(project.root) as ctx:
        ctx.store.write(add)


def fill(store: Store, n: int, part: Callable[[Transaction, str], None]) -> None:
    """Let ``part`` add ``n`` rows to each of its tables, part by part: it is given a table n(i) of their numbers."""
    for first in range(1, n + 1, FILLED_TOGETHER):
        many = MANY.format(first=first, last=min(first + FILLED_TOGETHER - 1, n))
        store.write(lambda tx, many=many: part(tx, many))


def add_hosts(store: Store, n: int) -> None:
    """Let there be so many more computers with credit, each of an owner of its own; see `added_volunteer`."""
    fill(store, n, _add_hosts)


def _add_hosts(tx: Transaction, many: str) -> None:
    base = ADDED
    now = time.time()
    credit = f"i * 0.001, i * 0.0001, {now}"
    tx.execute(
        "INSERT INTO user_account (id, name, email_addr, authenticator, weak_authenticator, cross_project_id, create_time,"
        f" total_credit, expavg_credit, expavg_time) {many} SELECT {base} + i, 'n' || i, 'e' || i, 'a' || i, 'w' || i, 'c' || i,"
        f" {now}, {credit} FROM n"
    )
    tx.execute(
        "INSERT INTO host (id, user_id, host_cpid, domain_name, create_time, rpc_time, description, total_credit, expavg_credit,"
        f" expavg_time) {many} SELECT {base} + i, {base} + i, 'h' || i, 'volunteer-host', {now}, {now} - i,"
        f' \'{{"p_fpops": 1e9, "p_model": "Model"}}\', {credit} FROM n'
    )
    tx.execute(
        "INSERT INTO host_app_version (host_id, app_version_id, et_n, et_avg)"
        f" {many} SELECT {base} + i, 1, 5, 1e-9 FROM n"
    )
    tx.execute(
        "INSERT INTO app_credit (owner, app_id, owner_id, n_results, total_credit, expavg_credit, expavg_time)"
        f" {many} SELECT 'host', 1, {base} + i, 1, {credit} FROM n"
    )


def added_volunteer(number: int) -> Volunteer:
    """Return one of the computers of `add_hosts`, counted from 1."""
    return Volunteer(f"a{number}", ADDED + number)


def _finish(tx: Transaction, *, n: int, n_hosts: int) -> None:
    """The first ``n`` jobs were done, credited and assimilated long ago."""
    long_ago = time.time() - 5 * 86400
    tx.execute(
        "UPDATE result SET server_state = 5, outcome = 1, client_state = 5, validate_state = 1, file_delete_state = 2,"
        " host_id = 1 + id % ?, user_id = 1 + (id % ?) / ?, app_version_id = 1, sent_time = ?, received_time = ?,"
        " cpu_time = 10, elapsed_time = 10 WHERE workunit_id <= ?",
        (n_hosts, n_hosts, max(1, n_hosts // N_USERS), long_ago, long_ago + 3600, n),
    )
    tx.execute(
        "UPDATE workunit SET assimilate_state = 2, file_delete_state = 2, transition_time = NULL, completed_time = ?,"
        " canonical_result_id = id WHERE id <= ?",
        (long_ago + 3700, n),
    )


def report_all(ctx: ServerContext) -> int:
    """Let every result be reported as a success, for the transitioner to look at; how many."""
    now = time.time()

    def report(tx: Transaction) -> int:
        n = tx.execute(
            "UPDATE result SET server_state = 5, outcome = 1, client_state = 5, host_id = 1 + id % 1000, user_id = 1,"
            " app_version_id = 1, sent_time = ?, received_time = ?, cpu_time = 10, elapsed_time = 10",
            (now - 60, now),
        )
        tx.execute("UPDATE workunit SET transition_time = ?", (now,))
        return n

    return ctx.store.write(report)


def _add_app(ctx: ServerContext, *, quorum: int) -> tuple[str, App]:
    now = time.time()
    store, folder = ctx.store, ctx.folder
    key = generate_key()
    key_text = encode_public_key(key.public_key())
    store.write(lambda tx: apps.set_current_key(tx, key_text, successor_signatures={}, now=now))
    staged = stage_bytes(folder.staging, b"#!/bin/sh\n")
    stored = files.add_file(
        store, folder.download, staged, files.app_file_name("prog.sh", staged.sha256), now=now
    )
    app = store.write(
        lambda tx: apps.create_app(
            tx,
            App(
                id=AppId(0),
                name="bench",
                comparison=ComparisonRule(kind="bitwise"),
                rules=ReplicationRules(min_quorum=quorum, target_nresults=quorum),
                limits=JobLimits(rsc_fpops_est=1e9),
                output_specs=(OutputSpec(open_name="out", optional=True, max_nbytes=1_000_000),),
            ),
            form=JobForm(),
            now=now,
        )
    )
    version = AppVersion(
        id=AppVersionId(0),
        app_id=app.id,
        platform=ANY_PLATFORM,
        version_num=0,
        files=(
            AppFile(
                name=stored.name,
                open_name="prog.sh",
                nbytes=stored.nbytes,
                md5=stored.md5,
                executable=True,
                main_program=True,
                signature=sign_md5(key, stored.md5),
            ),
        ),
    )
    store.write(lambda tx: apps.add_version(tx, version, now=now))
    return key_text, app


def _add_volunteers(ctx: ServerContext, *, hosts_per_user: int) -> list[Volunteer]:
    now = time.time()

    def add(tx: Transaction, number: int) -> list[Volunteer]:
        authenticator = f"{number:032x}"
        user = users.create_user(
            tx,
            users.NewUserRow(
                name=f"user {number}",
                email_addr=f"user{number}@example.org",
                passwd_hash="x",
                authenticator=authenticator,
                cross_project_id=authenticator,
            ),
            weak_authenticator_of=lambda id_: f"{id_}_x{id_}",
            now=now,
        )
        return [Volunteer(authenticator, _add_host(tx, user.id, now)) for _ in range(hosts_per_user)]

    added = _in_parts(ctx, [partial(add, number=number) for number in range(1, N_USERS + 1)])
    # Neighbours in the list belong to different users, as callers do.
    return [volunteer for of_place in zip(*added, strict=True) for volunteer in of_place]


def _add_host(tx: Transaction, user_id: UserId, now: float) -> int:
    host = hosts.create_host(tx, user_id, host_cpid="", venue="", now=now)
    hosts.update_host(
        tx,
        host.id,
        HostDescription(domain_name="volunteer-host", p_fpops=1e9, p_iops=1e9),
        rpc_seqno=1,
        external_ip_addr="127.0.0.1",
        now=now,
    )
    return int(host.id)


def _in_parts(ctx: ServerContext, operations: Sequence[Callable[[Transaction], T]]) -> list[T]:
    """Many small writes, some hundred in one."""
    answers: list[T] = []
    for start in range(0, len(operations), PART):
        part = operations[start : start + PART]
        answers += ctx.store.write(lambda tx, part=part: [operation(tx) for operation in part])
    return answers


def add_jobs(ctx: ServerContext, app: App, n: int) -> None:
    """Submit jobs, through the store's verb."""
    store = ctx.store
    now = time.time()
    batch = store.write(lambda tx: batches.create_batch(tx, name="bench", app_id=app.id, now=now))
    job = batches.NewJob(limits=JobLimits(rsc_fpops_est=1e9), rules=app.rules, output_specs=app.output_specs)

    def add(tx: Transaction, n: int) -> None:
        batches.add_jobs(tx, batches.batch_by_id(tx, batch.id), app.name, [job] * n, now=now)

    for start in range(0, n, PART):
        store.write(partial(add, n=min(PART, n - start)))
    store.write(lambda tx: batches.close_batch(tx, batch.id, now=now))


def run_transitioner(ctx: ServerContext) -> int:
    """Let the transitioner do all that is due; how many workunits."""

    async def run() -> int:
        transitioner = Transitioner(ctx)
        n = 0
        while done := await transitioner.step():
            n += done
        return n

    return asyncio.run(run())
